// Package effectsource derives effect watermarks from where the effects are: a
// file, an SQL query or a topic.
//
// Purpose: consumers that do not use package consumer send no beacon. Their
// effects are in some store all the same; given the topic, partition and offset
// of each, the effect watermark of a partition is the first record in the log
// that has no effect.
// Invariants: a number that is missing from the source is not taken for a record:
// the log is asked whether one is there (compaction, transaction markers and
// retention leave numbers without records); a partition that cannot be decided
// has no watermark.
// Locks: none; a Source is read only after Open and may be used by several
// goroutines.
// Callers: internal/cli/{lines,why,exporter}.
package effectsource
