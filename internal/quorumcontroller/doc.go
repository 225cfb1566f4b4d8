// Package quorumcontroller is the shell round the pure controller core: it
// gives it commands one at a time, writes the records that come out to the
// quorum, and answers when they are committed (QuorumController in Apache
// Kafka 4.3).
//
// Invariants:
//   - One goroutine runs every command and every replay, so the core needs no
//     lock. Records are replayed into the core as soon as they are proposed,
//     before they are committed: the next command sees them.
//   - A command is answered with success only after all its records, and all
//     records its decision may rest on, are committed. That holds for commands
//     without records too: they wait for what was proposed before them.
//   - When leadership is lost, everything that waits is answered with
//     NOT_CONTROLLER and the core is thrown away; the next leadership starts
//     from the committed image. Commands that arrive while that image is
//     loaded wait for it.
//   - A result that must be atomic and does not fit one batch is written as a
//     metadata transaction (KIP-868). A transaction that a failed controller
//     left open is aborted before anything else is written.
//   - The queue of commands is bounded; a full one answers REQUEST_TIMED_OUT
//     at once.
//
// Goroutines and locks: one event loop; Shell.mu guards the queues between it
// and its callers and is a leaf. While a core is made, one goroutine waits for
// the image.
//
// Callers: handlers of the controller listener and of forwarded requests (by
// Submit), the server (Start, Close), the quorum (as its Listener).
package quorumcontroller
