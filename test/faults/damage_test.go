package faults

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// load writes to a topic until the returned function is called, which waits for
// the last acknowledgement.
func load(t *testing.T, bootstrap, topic string, partitions int32, l *ledger) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	done := make(chan error, 1)
	go func() { done <- writer(ctx, bootstrap, topic, partitions, l) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Fatalf("the producer did not finish: %v", err)
		}
	}
}

// rewrite changes the files that match a pattern below the data folder, at least
// one.
func rewrite(t *testing.T, dir, pattern string, change func(b []byte) []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err == nil && len(files) == 0 && !strings.Contains(pattern, "*") { // a checkpoint that was not written yet
		if b := change([]byte("0\n0\n")); b != nil {
			err = os.WriteFile(filepath.Join(dir, pattern), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %s in %s: %v", pattern, dir, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if b = change(b); b == nil {
			err = os.Remove(f)
		} else {
			err = os.WriteFile(f, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func gone([]byte) []byte    { return nil }
func garbled([]byte) []byte { return []byte("\x07garbage\xff\x00") }
func empty([]byte) []byte   { return []byte{} }

func flipped(b []byte) []byte {
	for i := range b {
		b[i] ^= 0x55
	}
	return b
}

// TestDamagedFiles takes away or damages each kind of file that can be made from
// the log again, after a kill and after a clean stop: the server starts, says so,
// and everything acknowledged is there.
func TestDamagedFiles(t *testing.T) {
	const topic, partitions = "damage", int32(2)
	s := testkit.StartServer(t, "", "--set", "log.segment.bytes=1048576", "--set", "log.index.interval.bytes=512",
		"--set", "log.flush.offset.checkpoint.interval.ms=200")
	newTopic(t, s.Bootstrap(), topic, partitions)
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, partitions, l)
	for _, d := range []struct {
		name, pattern string
		change        func([]byte) []byte
	}{
		{"index gone", "damage-*/*.index", gone},
		{"index flipped", "damage-*/*.index", flipped},
		{"index empty", "damage-*/*.index", empty},
		{"index of odd size", "damage-*/*.index", garbled},
		{"timeindex gone", "damage-*/*.timeindex", gone},
		{"timeindex flipped", "damage-*/*.timeindex", flipped},
		{"leader epochs gone", "damage-*/leader-epoch-checkpoint", gone},
		{"leader epochs garbled", "damage-*/leader-epoch-checkpoint", garbled},
		{"leader epochs empty", "damage-*/leader-epoch-checkpoint", empty},
		{"recovery points gone", "recovery-point-offset-checkpoint", gone},
		{"recovery points garbled", "recovery-point-offset-checkpoint", garbled},
		{"log starts garbled", "log-start-offset-checkpoint", garbled},
		{"high watermarks gone", "replication-offset-checkpoint", gone},
		{"high watermarks garbled", "replication-offset-checkpoint", garbled},
		{"partition metadata gone", "damage-*/partition.metadata", gone},
	} {
		for _, clean := range []bool{false, true} {
			name := d.name + " after a kill"
			if clean {
				name = d.name + " after a stop"
			}
			waitForAcks(t, l, l.count()+300)
			if strings.HasSuffix(d.pattern, "index") { // there is none before a checkpoint has written entries
				eventually(t, "an index file", func() bool {
					files, _ := filepath.Glob(filepath.Join(s.Dir, d.pattern))
					return len(files) > 0
				})
			}
			if clean {
				s.Stop()
			} else {
				s.Kill()
			}
			rewrite(t, s.Dir, d.pattern, d.change)
			if err := s.TryStart(testkit.StartTimeout); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if failed := l.failures(); failed != nil {
				t.Fatalf("after %s: %v", name, failed)
			}
		}
	}
	waitForAcks(t, l, l.count()+1)
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, partitions))
}

// TestDamagedSnapshot loses the producer snapshots: the idempotent producer goes
// on, once and in order.
func TestDamagedSnapshot(t *testing.T) {
	const topic = "snap"
	s := testkit.StartServer(t, "", "--set", "log.segment.bytes=1048576")
	newTopic(t, s.Bootstrap(), topic, 1)
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, 1, l)
	for _, change := range []func([]byte) []byte{gone, flipped, empty} {
		waitForAcks(t, l, l.count()+500)
		s.Stop()
		rewrite(t, s.Dir, topic+"-0/*.snapshot", change)
		before := l.count()
		s.Start()
		waitForAcks(t, l, before+1)
	}
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, 1))
}

// TestTornTail appends half a batch, and bytes that are none, to a segment that
// was not closed: they are cut off, what is before them stays.
func TestTornTail(t *testing.T) {
	const topic = "torn"
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), topic, 1)
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, 1, l)
	for _, tail := range []string{"half", "zeros", "noise", "again"} {
		waitForAcks(t, l, l.count()+300)
		s.Kill()
		rewrite(t, s.Dir, topic+"-0/*.log", func(b []byte) []byte {
			switch tail {
			case "half":
				return append(b, b[:50]...)
			case "zeros":
				return append(b, make([]byte, 4096)...)
			case "noise":
				return append(b, []byte(strings.Repeat("\xa5\x5a\x01", 700))...)
			}
			return append(b, b[:200]...) // whole batches that are there already
		})
		s.Start()
		if failed := l.failures(); failed != nil {
			t.Fatalf("after the tail %s: %v", tail, failed)
		}
	}
	waitForAcks(t, l, l.count()+1)
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, 1))
}

func admin(t *testing.T, bootstrap string) (*kadm.Client, context.Context) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // of a whole test
	t.Cleanup(cancel)
	return kadm.NewClient(cl), ctx
}
