package commit_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/storage/commit"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// lingerLog waits before it takes its offset, as a loop with a linger would.
type lingerLog struct {
	mu      sync.Mutex
	f       vfs.File
	end     int64
	durable int64
	cond    *sync.Cond
	linger  time.Duration
}

func (l *lingerLog) FlushUpTo() int64 {
	if l.linger > 0 {
		time.Sleep(l.linger)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}
func (l *lingerLog) WriteOut()          { l.f.WriteOut() }
func (l *lingerLog) Sync() error        { return l.f.Sync() }
func (l *lingerLog) OnFailed(err error) { panic(err) }
func (l *lingerLog) OnDurable(offset int64) {
	l.mu.Lock()
	l.durable = max(l.durable, offset)
	l.cond.Broadcast()
	l.mu.Unlock()
}

// produce appends once and waits until it is on disk.
func (l *lingerLog) produce(b *testing.B, loop *commit.Loop, data []byte) {
	l.mu.Lock()
	if _, err := l.f.WriteAt(data, l.end); err != nil {
		b.Error(err)
	}
	l.end += int64(len(data))
	want := l.end
	l.mu.Unlock()
	loop.Request(l)
	l.mu.Lock()
	for l.durable < want {
		l.cond.Wait()
	}
	l.mu.Unlock()
}

// BenchmarkLoopLinger measures acknowledged appends of 1 KiB with and without
// a wait before each sync; ns/op is one acknowledged append over all clients.
func BenchmarkLoopLinger(b *testing.B) {
	for _, logs := range []int{1, 16, 100} {
		for _, clients := range []int{1, 16} {
			for _, linger := range []time.Duration{0, 200 * time.Microsecond, time.Millisecond} {
				b.Run(fmt.Sprintf("logs=%d/clients=%d/linger=%s", logs, clients, linger), func(b *testing.B) {
					benchLoop(b, commit.Options{}, logs, clients, linger)
				})
			}
		}
	}
}

// BenchmarkLoopParallel measures one client on each of 100 logs.
func BenchmarkLoopParallel(b *testing.B) {
	for _, parallel := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("parallel=%d", parallel), func(b *testing.B) {
			benchLoop(b, commit.Options{Parallel: parallel}, 100, 1, 0)
		})
	}
}

func benchLoop(b *testing.B, o commit.Options, logs, clientsPerLog int, linger time.Duration) {
	loop := commit.New(o)
	dir := b.TempDir()
	all := make([]*lingerLog, logs)
	for i := range all {
		f, err := vfs.OS().Create(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		all[i] = &lingerLog{f: f, linger: linger}
		all[i].cond = sync.NewCond(&all[i].mu)
	}
	data := make([]byte, 1024)
	b.ResetTimer()
	var wg sync.WaitGroup
	clients := logs * clientsPerLog
	for c := range clients {
		n := b.N / clients
		if c < b.N%clients {
			n++
		}
		wg.Go(func() {
			for range n {
				all[c%logs].produce(b, loop, data)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	st := loop.Stats()
	b.ReportMetric(float64(st.Requests)/float64(max(1, st.Syncs)), "group")
	if err := loop.Close(); err != nil {
		b.Fatal(err)
	}
}
