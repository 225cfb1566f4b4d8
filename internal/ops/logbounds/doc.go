// Package logbounds reads where the logs of topics start and end.
//
// Purpose: log start, high watermark and last stable offset of every partition,
// each with an error of its own. kadm gives a whole listing up at the first topic
// that may not be described, so that one topic takes the bounds of all others
// away, and which ones is chance.
// Invariants: an error of one topic or partition costs no other one its answer;
// an offset that was not read is not in the answer, or has its error beside it; a
// last stable offset below the high watermark is an open transaction, never the
// time between two requests.
// Locks: none. Callers: consumer, consumer/outbox, internal/ops/survey,
// internal/ops/effectsource, internal/cli.
package logbounds
