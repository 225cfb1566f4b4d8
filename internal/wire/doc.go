// Package wire turns frames into requests and responses into bytes.
//
// Purpose: everything between a size-prefixed frame and kmsg: request and
// response headers, the version check that must precede any decode, bounds
// that hostile arrays cannot pass, and the two hot messages that must not copy
// records: a Produce decoder whose records alias the frame, and a Fetch encoder
// whose records are file ranges. docs/formats/wire.md has the byte tables.
//
// Invariants: no input panics; decoding allocates no more than
// EstimateHeapBytes said; a Payload owns what it references until Release.
//
// Locks: none; one exception is the pool of response buffers.
//
// Called by: network (frames, payloads), handlers (requests, responses),
// replica and lifecycle (client side of the broker-to-controller channel).
package wire
