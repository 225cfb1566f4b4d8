// Package apis is the table of Kafka's APIs: keys, names, version ranges, where
// they are served, and what this release advertises.
//
// Purpose: one table from which header parsing, version checks and the
// ApiVersions answer are made, so that they cannot disagree. Ranges are those of
// Apache Kafka 4.3 (its message definitions; compared in a test with what a
// running 4.3.1 answers on each listener).
//
// Invariants: an API that is not served is neither decoded nor advertised, and
// says why (Reason). The table never changes at run time.
//
// Locks: none needed. Called by wire, network, handlers, lifecycle.
package apis
