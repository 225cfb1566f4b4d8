// Package loader turns what the quorum commits into metadata images.
//
// Purpose: committed batches and snapshots go in, immutable images come out,
// and every publisher is told (delta, image, manifest) in order: replica
// manager, configs, coordinators (MetadataLoader in Apache Kafka 4.3).
//
// Invariants:
//   - Images only move forward, except at a snapshot, which starts afresh.
//   - Records between BeginTransaction and EndTransaction become visible
//     together, or never when AbortTransaction follows (KIP-868).
//   - After a start nothing is published before the log is loaded up to the
//     high watermark of that time; then it is published as one delta.
//   - Publishers are called from one goroutine, in the order they were added,
//     each image to all of them before the next image. A publisher that is
//     added later first gets the whole image as a delta from the empty one.
//
// Locks: Loader.mu guards the queue and the current image, never held while a
// publisher runs. The queue is bounded; a full queue holds up the quorum.
//
// Callers: the server (wiring), handlers (Image, AwaitOffset), the controller
// shell (AwaitApplied).
package loader
