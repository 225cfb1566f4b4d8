package network

import (
	"runtime"
	"testing"
)

// BenchmarkIdleConnection prints what a connection costs that has been served
// once and waits: heap and stack of both ends less the client's share, which is
// a bare net.Conn.
func BenchmarkIdleConnection(b *testing.B) {
	const n = 1000
	s, _ := startServer(b, Options{Observer: nobody{}}, echo)
	var before, after runtime.MemStats
	for b.Loop() {
		conns := make([]*client, 0, n)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range n {
			c := dial(b, s)
			c.send(int32(i), make([]byte, 20_000))
			c.receive()
			conns = append(conns, c)
		}
		runtime.GC()
		runtime.GC() // pools let go
		runtime.ReadMemStats(&after)
		used := after.HeapInuse + after.StackInuse - before.HeapInuse - before.StackInuse
		b.ReportMetric(float64(used)/n, "B/conn")
		for _, c := range conns {
			c.Close()
		}
	}
}
