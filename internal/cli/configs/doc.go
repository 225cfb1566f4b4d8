// Package configs is "tidemark config": describe, set, unset; and what topic
// commands need of it.
//
// Purpose: settings of topics, brokers, the cluster, groups and client metrics
// subscriptions, over DescribeConfigs and IncrementalAlterConfigs.
// Invariants: values are checked by the cluster, not here, so that the command
// works on any Kafka; secret values are never shown, they do not arrive.
// Locks: none. Called by: internal/cli, internal/cli/topic.
package configs
