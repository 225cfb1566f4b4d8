// Package app is what every command of the command line shares: streams, the
// connection to a cluster, output as tables or JSON, and exit codes.
//
// Purpose: commands say what they found; this package decides how it looks and
// what the process returns (0 pass, 1 tool error, 2 finding, 3 inconclusive, 4
// refused).
// Invariants: results go to Out, everything said to a person beside them to
// Err; with --format json Out carries JSON and nothing else.
// Locks: none; one command runs in a process. Called by: internal/cli/<area>.
package app
