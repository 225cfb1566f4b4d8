// Package fetchsession keeps incremental fetch sessions (KIP-227): a consumer
// names its partitions once and afterwards sends and receives changes only.
//
// Purpose: decide from the session id and epoch of a Fetch request which
// partitions it means, which of the results its answer must list, and which
// session makes room when the cache is full (FetchManager, FetchContext,
// FetchSession and FetchSessionCacheShard of Apache Kafka 4.3).
//
// Invariants:
//   - A session uses topic ids (Fetch v13 and up) or names for its whole life.
//   - A refused request changes no session: its epoch does not move.
//   - The cache never holds more than its limit of sessions.
//
// Locks: none. One lock around Begin and Filter is the caller's; neither blocks.
// Callers: internal/handlers (Fetch).
package fetchsession
