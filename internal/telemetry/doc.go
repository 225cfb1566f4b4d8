// Package telemetry is the broker's instruments and its admin HTTP server.
//
// Purpose: one registry; sets of instruments (Network, Storage, ...) that other
// packages get injected and that satisfy the small observer interfaces those
// packages declare; collectors that read partitions and budgets when scraped.
// docs/metrics.md is generated from the same table (go test -update).
//
// Invariants: label children are resolved before the hot path, so that an
// observation is an atomic add; every metric is in the table with a help text; no
// metric is called lag (the word means two things); names that kafka_exporter's
// dashboards know keep their meaning.
//
// Locks: none of its own. Siblings: none (a leaf). Called by: server wires the
// sets; network and others name its sample types.
package telemetry
