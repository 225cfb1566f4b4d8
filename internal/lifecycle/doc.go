// Package lifecycle is a broker's side of its life in the cluster: the channel
// to the active controller, registration and heartbeats, controlled shutdown,
// and blocks of producer ids (BrokerLifecycleManager, NodeToControllerChannel-
// Manager and RPCProducerIdManager in Apache Kafka 4.3). It speaks the standard
// RPCs, so the controller may be Apache Kafka's.
//
// Invariants:
//   - Requests of one Channel are answered in order, at most MaxInFlight wait
//     at the controller and MaxQueued here.
//   - A broker never serves before it is registered, caught up with the
//     metadata log and unfenced by the controller.
//   - Nothing waits by polling: registration, catching up and unfencing follow
//     each other by events; only heartbeats have a clock.
//   - The producer ids of a block are handed out once, also after a restart.
//
// Callers: the server, replica (AlterPartition by Channel.Send), handlers of
// InitProducerId (ProducerIDs.Next).
package lifecycle
