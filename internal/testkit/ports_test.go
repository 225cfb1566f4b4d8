package testkit

import (
	"fmt"
	"net"
	"testing"
)

// TestPortsAreGivenOnce: no port twice, rows do not overlap, what listens is left out.
func TestPortsAreGivenOnce(t *testing.T) {
	busy, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", FreePort(t)+1))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	seen := map[int]bool{busy.Addr().(*net.TCPAddr).Port: true}
	for i := range 60 {
		n := 1 + i%3
		first := FreePorts(t, n)
		for p := first; p < first+n; p++ {
			if seen[p] {
				t.Fatalf("port %d was given twice, or something listens on it", p)
			}
			if p < firstPort || p >= lastPort {
				t.Fatalf("port %d is out of range", p)
			}
			seen[p] = true
		}
	}
}
