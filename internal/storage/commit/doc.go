// Package commit makes what logs wrote durable, for one data folder: the group
// commit behind durability=strict, and the bounded dirty window behind
// replicated and relaxed (design decision D9).
//
// How it groups: a log asks with Request after an append. Logs queue once each,
// however many appends and connections asked; up to Parallel workers take one
// log at a time, note how far it reaches, fdatasync it and report that offset.
// What is appended while a log syncs is covered by its next turn, so the group
// grows with the load by itself and one slow file holds no other up.
//
// The only linger is one turn of the scheduler before each sync. Measured with
// BenchmarkLoopLinger on ext4 (2 cores, 0.2 ms a sync): 16 clients on one log
// share a sync by 13 instead of 8, and the case where each sync served one
// client (16 logs, 100 µs instead of 12 µs an append, in every fourth run) is
// gone. A timed wait costs a lone client 7 times its latency, since timers are
// no finer than about a millisecond, and gains nothing beyond that.
//
// Invariants: one sync per log at a time; OnDurable of one log is called in
// order and never by two goroutines at once, but while its next sync may
// already run; after the first error nothing is synced again (the kernel may
// have dropped the pages and a second fsync would lie), the folder's callback
// runs once, and everyone who waits or comes later gets OnFailed exactly once.
// An idle loop has no goroutine, and no timer for longer than DirtyDelay.
// Locks: one mutex, held for no I/O and no callback. Lock order: a caller may
// hold its log's lock when it calls Request; callbacks run without locks.
// Callers: internal/storage/log.
package commit
