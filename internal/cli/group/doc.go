// Package group is "tidemark group": list, describe, members, reset, delete,
// offsets.
//
// Purpose: consumer groups of every protocol from the command line, on any
// Kafka cluster. Which request describes a group depends on its type: classic
// groups are asked with DescribeGroups, KIP-848 groups with
// ConsumerGroupDescribe. DescribeGroups calls a KIP-848 group "Dead" without an
// error before version 6, so its word on state counts only when the other
// request does not know the group.
// Invariants: only the Kafka protocol is spoken. Nothing changes offsets of a
// group that has members (exit code 4); reset changes nothing without
// --execute; delete asks, or wants --yes. Position, committed and log end are
// three columns, and a number that nobody reported is "-", not 0.
// Locks: none. Called by: internal/cli.
package group
