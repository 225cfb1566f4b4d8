package testkit

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Ports for processes under test come from below the range that the system
// gives to outgoing connections (ip_local_port_range, from 32768 on Linux): a
// server that is killed and started again must find its port free, and many
// clients are connecting meanwhile. Test binaries run side by side, so each takes
// blocks of ports and holds a file lock on each block until it ends.
const (
	firstPort = 12000
	lastPort  = 32000
	blockLen  = 32
)

var ports struct {
	mu       sync.Mutex
	next     int // next port of the block that is held
	end      int // end of that block
	block    int // number of the block to try next
	started  bool
	reserved []*os.File // locks of blocks; they end with the process
}

// FreePort returns a port on loopback that nothing listens on and that no other
// test process takes while this one lives.
func FreePort(t testing.TB) int {
	t.Helper()
	return FreePorts(t, 1)
}

// FreePorts returns the first of n free ports in a row; n is at most 32.
func FreePorts(t testing.TB, n int) int {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	if n < 1 || n > blockLen {
		t.Fatalf("%d ports in a row: at most %d", n, blockLen)
	}
	for range (lastPort - firstPort) / blockLen {
		for ports.next+n <= ports.end {
			port := ports.next
			if taken := firstTaken(port, n); taken >= 0 {
				ports.next = taken + 1
				continue
			}
			ports.next = port + n
			return port
		}
		if err := reserveBlock(); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("no %d free ports in a row between %d and %d", n, firstPort, lastPort)
	return 0
}

// firstTaken returns the first port of n that something listens on, -1 for none.
func firstTaken(port, n int) int {
	for p := port; p < port+n; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			return p
		}
		l.Close()
	}
	return -1
}

// reserveBlock takes the next block that no other process holds.
func reserveBlock() error {
	const blocks = (lastPort - firstPort) / blockLen
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("tidemark-test-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !ports.started {
		ports.started, ports.block = true, os.Getpid()%blocks
	}
	for range blocks {
		block := ports.block
		ports.block = (ports.block + 1) % blocks
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(block)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			f.Close()
			continue
		}
		ports.reserved = append(ports.reserved, f)
		ports.next = firstPort + block*blockLen
		ports.end = ports.next + blockLen
		return nil
	}
	return fmt.Errorf("all blocks of test ports are held by other processes (%s)", dir)
}
