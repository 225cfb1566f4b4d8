// Package controller is the pure core of the active KRaft controller: commands
// in, metadata records and a response out. It follows ReplicationControlManager,
// ClusterControlManager, ConfigurationControlManager, FeatureControlManager and
// ProducerIdControlManager of Apache Kafka 4.3.
//
// Purpose: every decision about brokers, topics, leaders, configs and features,
// testable with text scripts and replayable from a seed.
//
// Contract with the shell that runs it: call one command; append
// Result.Records through the quorum as one atomic append, learn the base offset;
// call Replay for each record at once, in order; answer with Result.Response
// when the records commit (at once when there are none). No other command may
// come between a command and the Replay of its records.
//
// Invariants:
//   - Replay is the only mutator of the metadata; State == replay(records). A
//     command changes soft state only: broker contact times.
//   - No clock, I/O, goroutine, lock, log or randomness: time, ids and random
//     values come in with the command.
//   - A leader is always in the ISR; leader and partition epochs only grow; a
//     topic id is never used twice.
//
// Soft state (lost on a change of leadership, as in Kafka): when each broker was
// last heard of, how far it has read the log, and controlled shutdown progress.
//
// Locks: none; one goroutine owns a Core. Callers: quorumcontroller.
package controller
