// Package why is "tidemark why": what holds one partition of a group, and what
// would move it.
//
// Purpose: the record at the blocking offset (offset, age, key), how often it was
// tried and what the last error was, and for each word of the verdict the thing
// to do.
// Invariants: as in package lines; it reads, and changes nothing.
// Locks: none. Called by: internal/cli.
package why
