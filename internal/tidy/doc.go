// Package tidy keeps the house rules: a Go test that reads the source of the
// whole module and fails where a rule is broken.
//
// Purpose: import layers (design: L0 foundations, L1 pure cores, L2 engines, L3
// server, L4 faces), what a pure core may not touch, the size of functions and
// files, a doc.go in every package, names, licence and wording.
// Invariants: rules have no exceptions but those in exceptions.go, each with
// its reason; the ratchet list there is empty.
// Locks: none. Called by: go test.
package tidy
