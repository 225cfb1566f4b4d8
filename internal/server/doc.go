// Package server puts a node together: it opens the folders, starts the parts in
// order, and stops them in the reverse one.
//
// Purpose: roles, start order, drain, fault policy, and nothing else; every
// decision lives below. A single node is a cluster of one and takes the same
// path as a large one: it formats its folders, elects itself, registers with
// itself over the controller listener, and is unfenced by its own controller.
//
// Invariants: clients are accepted only after the controller has unfenced this
// broker; a clean stop writes the clean-shutdown marker last; a failed metadata
// log ends the process, a failed data folder does not.
// Locks: Server is used from one goroutine; callbacks only hand over.
// Callers: cmd/tidemark (Run).
package server
