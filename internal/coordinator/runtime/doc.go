// Package runtime runs coordinator cores: each partition of an internal topic
// that this broker leads is one shard, a replicated state machine over that
// partition (CoordinatorRuntime of Apache Kafka 4.3; design decision D8).
//
// Purpose: load a shard from its log when the broker is elected, hand it one
// request at a time, append the records that a request produces, apply them,
// and let the response go once the high watermark covers them.
//
// Invariants:
//   - One request of a shard at a time; shards are independent.
//   - Replay is the only way a shard changes, in the order of its log. A shard
//     is equal to the replay of the log up to its next offset.
//   - A response leaves only after everything its request wrote or could have
//     seen is committed. Reads see committed state.
//   - A failed append leaves no trace: the shard is reverted.
//   - An append that lands elsewhere than expected, or a panic of the core,
//     throws the shard's state away and loads it again; other shards go on.
//   - Idle shards have no goroutine and no timer; a busy one has one goroutine.
//     Queue, batch and parked requests are bounded.
//
// Batching: requests that queue up while the shard works go into one batch of
// records, appended when the queue is empty or the batch is full (adaptive
// linger, group.coordinator.append.linger.ms=-1), or after a fixed linger.
//
// Locks: shard.mu guards queue and state and is never held while the log or the
// core is called; the log may call OnHighWatermark with its own locks held.
// Runtime.listening is held while a shard asks for high watermarks, so that a
// closed one never takes them from its successor.
//
// Callers: internal/coordinator/groupservice, internal/server. It uses
// internal/replica for the log.
package runtime
