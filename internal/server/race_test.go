//go:build race

package server

// raceEnabled: the race detector makes pools drop things, so allocation counts
// mean nothing under it.
const raceEnabled = true
