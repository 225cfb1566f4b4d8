// Package vfs is the seam between storage and the operating system.
//
// Purpose: everything that storage does to a disk goes through FS and File, so
// that tests can cut the power after any operation, fail the n-th one, or fill
// the disk. OS() is the real thing, NewMem a file system with crash semantics,
// errfs.Wrap injects errors.
//
// Invariants: a File's writes become durable only at Sync; a created, renamed
// or removed name becomes durable only at SyncDir of its folder.
// Locks: implementations are safe for concurrent use.
// Callers: internal/storage and its sub-packages, internal/quorum, internal/server.
package vfs
