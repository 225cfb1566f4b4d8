package network

import (
	"net"
	"testing"
)

// TestReceiveBufferIsAFloor: a size below what the operating system begins with is
// not set, since setting it ends the system's own growing.
func TestReceiveBufferIsAFloor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accept := func(n int) int {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		(&Server{opts: Options{ReceiveBufferBytes: n}}).tune(nc)
		return receiveBuffer(nc.(*net.TCPConn))
	}
	system := accept(-1)
	if system == 0 {
		t.Fatal("the system does not say")
	}
	if got := accept(system - 1); got != system {
		t.Errorf("asked for less than %d, got %d", system, got)
	}
	if got := accept(system + 1); got == system {
		t.Errorf("asked for more than %d, got that", system)
	}
}
