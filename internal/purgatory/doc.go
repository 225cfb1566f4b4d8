// Package purgatory parks operations that wait for something to happen to a
// partition: a Fetch for bytes, a Produce for the high watermark, a
// DeleteRecords for the low watermark (DelayedOperationPurgatory in Apache
// Kafka).
//
// Purpose: an operation watches keys; whoever changes a key's state calls
// Complete(key); the operation is asked whether it is ready and, once, told to
// finish. A deadline finishes it otherwise.
//
// Invariants:
//   - Finish is called exactly once per operation, whatever races.
//   - Ready of one operation never runs twice at the same time, and never after
//     Finish started.
//   - A change that happened before Complete(key) is never missed: an operation
//     is asked once more after it watches, and a call of Complete during a check
//     makes that check run again.
//   - A finished operation is off every watch list and out of the timer at once,
//     so memory is bounded by the operations that wait (Options.MaxOperations).
//   - No goroutine and no timer per operation: one heap of deadlines and one
//     runtime timer, armed for the earliest.
//
// Locks: one mutex a shard of watch lists, one for the timer heap. None is held
// while Ready or Finish runs, and none is taken while another is held.
//
// Called by: replica (Produce, Fetch, DeleteRecords), coordinator/runtime.
package purgatory
