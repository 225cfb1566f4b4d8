// Package cluster is "tidemark cluster": who is in the cluster and who leads it.
//
// Purpose: brokers, controller, metadata quorum, feature levels at one glance.
// Invariants: what an older or foreign cluster does not answer is left out, not
// an error.
// Locks: none. Called by: internal/cli.
package cluster
