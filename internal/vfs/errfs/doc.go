// Package errfs wraps a vfs.FS so that a test sees, and fails, any operation.
//
// Purpose: "an I/O error at operation i, for all i" and "a power cut after
// operation i, for all i" as two loops (reliability rows D6, D8, D19, D20).
// Invariants: every operation of FS and File has one number, given in order of
// arrival; a failed operation does nothing, except a write that is told to
// stop short.
// Locks: one for the counter; the hooks run outside it and may call the
// wrapped file system. Callers: tests of the storage packages.
package errfs
