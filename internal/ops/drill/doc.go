// Package drill rehearses what happens to a running consumer group when its
// members change, and measures it from the members' side.
//
// Purpose: a rebalance's length says little; what counts is which partitions
// stopped, for how long, and whether records were missed or repeated. Rebalance
// runs a group of its own on any Kafka cluster while records flow, lets one
// member join, one leave and one die, and reports that for each protocol.
// Invariants: it speaks only the Kafka protocol; it makes its own topic and
// group, and deletes both; a partition counts as stopped from the moment its
// owner gave it up (or died) until the next owner has processed a record; what a
// killed member receives after its death does not count as processed.
// Locks: run.mu guards timeline and ledger (both are plain values without
// locks); member.commitMu is held over each commit and over the giving up of
// partitions, and is taken before run.mu. Called by: internal/cli/drill, tests.
package drill
