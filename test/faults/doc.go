// Package faults breaks a running broker and checks what it promised: kill -9,
// power cuts, full and failing disks, hostile frames.
//
// Purpose: "acknowledged" means "there, once, in order" whatever happens.
// Invariants: every rig cleans up after itself (loop mounts, processes); sizes
// and times are bounded.
// Locks: none. Callers: go test.
package faults
