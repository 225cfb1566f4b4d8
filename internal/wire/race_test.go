//go:build race

package wire

// raceEnabled: instrumented code allocates more, so byte counts mean nothing
// under the race detector.
const raceEnabled = true
