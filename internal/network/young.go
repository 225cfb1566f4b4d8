package network

import (
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A connection is young until the first answer to a request that is not part of
// opening it. When the server stops, or is killed, a young connection is reset,
// not closed in order: clients take an orderly close before the first answer for
// a wrong security setting (franz-go then gives records up for good, librdkafka
// says "verify that security.protocol is correctly configured"), and a reset for
// what it is, so they try again. Closing it for what the client did stays orderly.
//
// The listener's socket carries the setting and hands it down to what it accepts,
// so that there is no moment without it, and the kernel holds to it after a kill.

// resetWhenClosed is the Control of a listener whose connections begin young.
func resetWhenClosed(_, _ string, raw syscall.RawConn) error {
	var err error
	if e := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: 0})
	}); e != nil {
		return e
	}
	return err
}

// opens says that a request belongs to the opening of a connection.
func opens(apiKey int16) bool {
	switch kmsg.Key(apiKey) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return true
	}
	return false
}

// grownLocked ends the connection's youth: from now on closing it is orderly. mu is
// held; it is one system call in the life of a connection, and whoever closes it
// next must find it done.
func (c *Conn) grownLocked() {
	if !c.young {
		return
	}
	c.young = false
	if tcp, ok := c.sock.(*net.TCPConn); ok {
		_ = tcp.SetLinger(-1) // it fails only on a socket that is gone
	}
}
