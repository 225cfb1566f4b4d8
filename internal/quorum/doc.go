// Package quorum keeps the metadata log of the cluster: a raft group whose log
// is the partition __cluster_metadata-0, in Kafka's own formats.
//
// Purpose: go.etcd.io/raft/v3 decides (elections, commits), this package
// stores. One raft entry is one record batch; the raft term is the batch's
// leader epoch; raft's empty entry at the start of a term is the LeaderChange
// control batch (with KRaftVersion and Voters beside it when the log does not
// have them yet, KIP-853); the hard state is the quorum-state file (term and
// vote; what is committed is learned again). The folder of a quorum is
// therefore one that Apache Kafka's tools read.
//
// Invariants:
//   - A batch is acknowledged, counted towards a majority or handed to a
//     listener only after one fsync that followed its write (once per Ready).
//   - quorum-state is durable before anything of its term leaves the node.
//   - A failed fsync is never retried: the node stops, says so through
//     Options.OnFatal and acknowledges nothing any more.
//   - Record offsets are dense. Propose fixes the base offset when it is
//     called; a batch never moves afterwards, it commits there or is lost.
//   - Raft index i is batch number i of the log, counted from its start. The
//     index of the newest snapshot is kept in raft-index-checkpoint, so that
//     a start reads only what follows that snapshot.
//   - On start the log is cut at the first batch that is torn or corrupt.
//     Only bytes that were never acknowledged can be lost by that.
//
// Goroutines and locks: one goroutine (run) owns the disk and calls the
// listeners. Node.mu guards the raft state machine and is never held across
// I/O or a callback. metaLog.mu guards the view of the files; it is a leaf.
//
// Callers: quorumcontroller (Propose), metadata/loader (as Listener), the
// handlers of Fetch, FetchSnapshot and DescribeQuorum, and the server.
package quorum
