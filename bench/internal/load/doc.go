// Package load is the client of the benchmark: it speaks the Kafka protocol by
// hand, so that the client costs as little as the box allows and what is
// measured is the broker.
//
// Three drivers: Saturate writes batches that were built in advance with a
// fixed number of requests under way; Drain fetches partitions to their end;
// OpenLoop sends each message at the moment a clock set beforehand, whatever
// the broker does, and measures from that moment (no coordinated omission).
// All run against Apache Kafka, Tidemark and the bench's own ceiling alike.
//
// A Conn belongs to one writing and one reading goroutine. Nothing here is
// shared between drivers.
package load
