// Package config knows every setting of Tidemark by name: its type, default,
// limits, documentation, where a value may come from and which value wins.
//
// Purpose: one table per scope (topic, broker, group, client metrics) with
// Apache Kafka 4.3's names plus the few of our own, the layering of
// DescribeConfigs (kafka-surface: default < static < dynamic cluster < dynamic
// broker < topic or group), and the typed structs that the server and the log
// read (ServerConfig, TopicConfig).
//
// Invariants: the tables are immutable after package initialisation; a value
// that passed Validate always converts; nothing here reads files, environment
// or clocks (LoadServer receives their contents), so the package is a pure core.
// Locks: none. Callers: server start-up, handlers of the config APIs,
// metadata/controller (validation), storage (TopicConfig), cli.
package config
