// Package drill is "tidemark drill": rehearsals on a running cluster.
//
// Purpose: show, before a deployment does, what a rebalance stops; and hold two
// clusters or two protocols side by side.
// Invariants: a drill uses a topic and a group of its own and deletes both;
// missed records and a group that does not settle are findings (exit code 2);
// what could not be measured is inconclusive (3).
// Locks: none. Called by: internal/cli.
package drill
