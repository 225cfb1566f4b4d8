// Package image is the cluster's metadata as one immutable value: brokers,
// topics, configs, features, quotas, ACLs and credentials at one offset of the
// __cluster_metadata log. It follows MetadataImage and MetadataDelta of Apache
// Kafka 4.3.
//
// Purpose: readers hold an *Image for as long as they like without locks; a
// writer forks it, replays records and hands out the next one.
//
// Invariants:
//   - An *Image and everything reachable from it never changes. Callers must not
//     write to the slices and maps they get.
//   - Forking is O(1) and applying a change costs O(log n) plus the size of what
//     changed (copy-on-write B-trees; a changed topic copies its slice of
//     partition pointers once per fork).
//   - State == replay(records): Replay is the only mutator, it depends on the
//     record alone, and WriteRecords of an image replayed on Empty gives an equal
//     image.
//   - The topic with partitions 0..n-1 is dense: Partitions[i] is partition i.
//   - A replica's directory is never looked up twice: Directories is aligned
//     with Replicas.
//
// Locks: none. An Image may be read from any goroutine, also while another
// goroutine forks it; a State or Delta belongs to one goroutine.
// Callers: metadata/controller, metadata/loader, replica, handlers, quorum
// (snapshots).
//
// The package is pure: no clock, I/O, goroutine or randomness.
package image
