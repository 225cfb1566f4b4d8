// Package exporter is "tidemark exporter": the lines of consumer groups as
// Prometheus metrics, for any Kafka.
//
// Purpose: a scrape surveys the groups and answers with one series per reading,
// gap, age and verdict, and beside them with the four series of kafka_exporter,
// so that dashboards and autoscalers made for those go on working.
// Invariants: a reading that is absent has no series, never a 0; groups without
// members keep theirs; a survey is shared by scrapes that come close together; the
// names do not depend on flags.
// Locks: one around the last survey. Called by: internal/cli.
package exporter
