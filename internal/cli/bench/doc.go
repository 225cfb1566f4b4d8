// Package bench is "tidemark bench": how fast a cluster takes and gives records.
//
// Purpose: make the broker the bottleneck. Batches are built (and compressed)
// once and sent as they are; what is fetched is counted by batch headers and not
// decoded. The client's own CPU time is printed so that one can see it.
// Invariants: requests are plain Produce and Fetch, so results of any Kafka
// cluster compare; a failed request ends the run with its error, it is never
// left out of the numbers; in-flight requests and memory are bounded by the
// flags.
// Locks: result.mu guards the counts that the workers of a run share. Called by:
// internal/cli.
package bench
