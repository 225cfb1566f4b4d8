//go:build race

package record

// raceEnabled: the race detector makes pools drop things, so allocation counts
// mean nothing under it.
const raceEnabled = true
