// Package handlers answers requests: one file per API, named by its key.
//
// Purpose: the edge where protocol structs meet the layers below. A handler
// decodes, checks who may do what, resolves topic ids, calls one layer, and
// turns its answer (or error) into Kafka's response for that API version.
// Broker serves broker listeners, Controller serves the controller listener.
//
// Invariants: every request is answered exactly once or its connection is
// closed; an error's code is decided here and nowhere below; handlers keep no
// state of their own between requests, besides the fetch sessions.
// Locks: none. Calls: image, replica, coordinator/runtime, fetchsession,
// quorumcontroller, lifecycle. Callers: network, wired by server.
package handlers
