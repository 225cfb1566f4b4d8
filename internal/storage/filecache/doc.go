// Package filecache bounds how many files storage keeps open.
//
// Purpose: a broker holds tens of thousands of segments and indexes; most are
// idle. A Slot stands for one of those files and opens it on demand; the Cache
// closes the least recently used ones beyond its bound. A Handle is a counted
// reference: it stays valid for reads, writes and sendfile until its Release,
// whatever is evicted, renamed or removed meanwhile.
//
// Invariants: a Slot has at most one open file; a file with references other
// than the cache's own is never evicted, so a writer that must fsync what it
// wrote keeps a Handle until it has done so (a reopened file could miss the
// write-back error). The bound is soft: referenced files may exceed it.
// Locks: Cache.mu before Slot.mu; neither is held while a file is read,
// written or synced. Slot.mu is held while a file is opened.
// Callers: internal/storage/index, internal/storage/segment, internal/storage/log.
package filecache
