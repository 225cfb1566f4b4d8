package network

import (
	"errors"
	"os"
)

// Reason says why a connection ended; it is a label of the closed counter.
type Reason string

// The reasons.
const (
	ReasonClientClosed     Reason = "client_closed"
	ReasonReadError        Reason = "read_error"
	ReasonIdle             Reason = "idle"
	ReasonHandshakeTimeout Reason = "handshake_timeout" // no whole request in time
	ReasonTLSHandshake     Reason = "tls_handshake"     // failed, or was none
	ReasonFrameTimeout     Reason = "frame_timeout"     // a frame began and did not end
	ReasonFrameSize        Reason = "frame_size"        // negative or too large
	ReasonBadRequest       Reason = "bad_request"       // header that cannot be read
	ReasonWriteTimeout     Reason = "write_timeout"     // the client does not read
	ReasonWriteError       Reason = "write_error"
	ReasonHandler          Reason = "handler" // Request.Close or Conn.Close
	ReasonPanic            Reason = "panic"
	ReasonDrained          Reason = "drained"
	ReasonShutdown         Reason = "shutdown"
	ReasonTooManyPerIP     Reason = "max_connections_per_ip"
)

// Reasons lists every Reason, for telemetry to resolve its children.
func Reasons() []string {
	all := []Reason{
		ReasonClientClosed, ReasonReadError, ReasonIdle, ReasonHandshakeTimeout, ReasonFrameTimeout,
		ReasonFrameSize, ReasonBadRequest, ReasonWriteTimeout, ReasonWriteError, ReasonHandler,
		ReasonPanic, ReasonDrained, ReasonShutdown, ReasonTooManyPerIP, ReasonTLSHandshake,
	}
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = string(r)
	}
	return out
}

// routine says that the reason needs no line in the log.
func (r Reason) routine() bool {
	switch r {
	case ReasonClientClosed, ReasonReadError, ReasonIdle, ReasonDrained, ReasonShutdown, ReasonWriteError:
		return true
	}
	return false
}

// ours says that the server goes away, whatever the client did.
func (r Reason) ours() bool { return r == ReasonDrained || r == ReasonShutdown }

// ErrClosed is the error of a connection or server that was closed by us.
var ErrClosed = errors.New("network: closed")

// errStopReading leaves the read loop without ending the connection yet.
var errStopReading = errors.New("network: reading stopped")

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
