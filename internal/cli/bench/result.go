package bench

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// result gathers what the workers of one run did.
type result struct {
	mu       sync.Mutex
	records  int64
	bytes    int64
	requests int64
	latency  histogram
	err      error
}

func (r *result) add(records, bytes int64, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records += records
	r.bytes += bytes
	r.requests++
	r.latency.add(took)
}

// fail keeps the first error.
func (r *result) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *result) snapshot() (records, bytes int64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records, r.bytes, r.err
}

// clock measures wall and CPU time of a run.
type clock struct {
	wall time.Time
	cpu  time.Duration
}

func startClock() clock { return clock{wall: time.Now(), cpu: cpuTime()} }

// cpuTime is what this process has used so far, user and system.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report is the JSON form of a run.
type report struct {
	What          string  `json:"what"`
	Topic         string  `json:"topic"`
	Records       int64   `json:"records"`
	Bytes         int64   `json:"bytes"`
	Requests      int64   `json:"requests"`
	Seconds       float64 `json:"seconds"`
	RecordsPerSec float64 `json:"records_per_second"`
	MBPerSec      float64 `json:"mb_per_second"` // 10^6 bytes
	P50Ms         float64 `json:"p50_ms"`
	P95Ms         float64 `json:"p95_ms"`
	P99Ms         float64 `json:"p99_ms"`
	P999Ms        float64 `json:"p999_ms"`
	MaxMs         float64 `json:"max_ms"`
	ClientCPUSec  float64 `json:"client_cpu_seconds"`
}

func (r *result) report(what, topic string, c clock) report {
	wall := time.Since(c.wall).Seconds()
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return report{
		What: what, Topic: topic, Records: r.records, Bytes: r.bytes, Requests: r.requests, Seconds: wall,
		RecordsPerSec: float64(r.records) / wall, MBPerSec: float64(r.bytes) / 1e6 / wall,
		P50Ms: ms(r.latency.quantile(0.5)), P95Ms: ms(r.latency.quantile(0.95)), P99Ms: ms(r.latency.quantile(0.99)),
		P999Ms: ms(r.latency.quantile(0.999)), MaxMs: ms(r.latency.max), ClientCPUSec: (cpuTime() - c.cpu).Seconds(),
	}
}

func show(a *app.App, rep report) error {
	if a.JSON() {
		return a.Emit(rep)
	}
	a.Printf("%s %s: %d records, %s, %d requests in %.2f s\n", rep.What, rep.Topic, rep.Records, app.Bytes(rep.Bytes), rep.Requests, rep.Seconds)
	a.Printf("%.1f MB/s, %.0f records/s\n", rep.MBPerSec, rep.RecordsPerSec)
	a.Printf("request latency: p50 %.2f ms, p95 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms\n", rep.P50Ms, rep.P95Ms, rep.P99Ms, rep.P999Ms, rep.MaxMs)
	a.Printf("client CPU: %.2f s (%.0f %% of one core)\n", rep.ClientCPUSec, 100*rep.ClientCPUSec/rep.Seconds)
	return nil
}

// watch prints a line a second for a person, until stop is closed.
func watch(a *app.App, r *result, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var before int64
	for {
		select {
		case <-stop:
			fmt.Fprint(a.Err, "\r\033[K")
			return
		case <-tick.C:
			records, bytes, _ := r.snapshot()
			fmt.Fprintf(a.Err, "\r\033[K%d records, %.1f MB/s", records, float64(bytes-before)/1e6)
			before = bytes
		}
	}
}
