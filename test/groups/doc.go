// Package groups runs real consumer groups of many client libraries against
// Tidemark and against Apache Kafka: members join, restart, crash and come back
// under a static id while records flow, and a checker counts that no record is
// missed. Apache Kafka's group tools must print the same on both, and a server
// killed in the middle of a rebalance must lose no commit.
//
// Purpose: the proof of issue "consumer groups, complete" from outside; nothing
// here knows how the coordinator works.
// Invariants: each scenario has a topic and a group of its own, members are
// processes (so that a crash is a crash), and a member commits what it has
// printed, never more. What a machine lacks is named, and with
// TESTKIT_NEED_PEERS set (as in CI) it is a failure, not a skip.
// TESTKIT_GROUPS_KAFKA=1 runs the clients and the drill on Apache Kafka too.
// Locks: checker.mu guards the records seen. Callers: go test, make groups.
package groups
