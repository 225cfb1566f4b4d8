package loader

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// patience ends a test that would hang; nothing is measured with it.
const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// journal writes down who was told what, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := j.lines
	j.lines = nil
	return out
}

type scribe struct {
	name string
	j    *journal
}

func (s scribe) Name() string { return s.name }

func (s scribe) OnMetadata(d *image.Delta, im *image.Image, m Manifest) {
	var changed []string
	for c := range d.ChangedTopics() {
		changed = append(changed, c.After.Name)
	}
	s.j.add("%s: %v at %d, kind %d, %d batches", s.name, changed, im.Offset, m.Kind, m.Batches)
}

// leaderScribe also hears leaders and quiet images.
type leaderScribe struct{ scribe }

func (s leaderScribe) OnQuiet(im *image.Image, _ Manifest) {
	s.j.add("%s: quiet at %d", s.name, im.Offset)
}
func (s leaderScribe) OnLeadership(l quorum.Leadership) { s.j.add("%s: leader %d", s.name, l.LeaderID) }

func topic(name string) recordschema.MetadataRecord {
	var id types.UUID
	copy(id[:], name)
	return &recordschema.TopicRecord{Name: name, TopicID: id}
}

// batch makes a committed batch.
func batch(base int64, records ...recordschema.MetadataRecord) quorum.Batch {
	return quorum.Batch{BaseOffset: base, LastOffset: base + int64(len(records)) - 1, Epoch: 1, SizeBytes: 100, Records: records}
}

func committed(hw int64, batches ...quorum.Batch) quorum.Committed {
	return quorum.Committed{Batches: batches, HighWatermark: hw}
}

func control(base int64) quorum.Batch {
	return quorum.Batch{BaseOffset: base, LastOffset: base, Epoch: 1, Control: true, SizeBytes: 50}
}

func want(t *testing.T, j *journal, lines ...string) {
	t.Helper()
	if got := j.take(); !slices.Equal(got, lines) {
		t.Fatalf("journal:\n%q\nwant:\n%q", got, lines)
	}
}

func TestPublishesInOrderOnceCaughtUp(t *testing.T) {
	j := &journal{}
	l := New(Options{})
	l.Start(scribe{"one", j}, leaderScribe{scribe{"two", j}})
	defer l.Close()
	// A log of three batches arrives in two parts: one publication.
	l.OnCommitted(committed(3, control(0), batch(1, topic("a"))))
	l.OnCommitted(committed(3, batch(2, topic("b"))))
	if err := l.AwaitOffset(within(t), 2); err != nil {
		t.Fatal(err)
	}
	want(t, j, "one: [a b] at 2, kind 0, 3 batches", "two: [a b] at 2, kind 0, 3 batches")
	l.OnLeadership(quorum.Leadership{LeaderID: 7})
	l.OnCommitted(committed(4, batch(3, &recordschema.NoOpRecord{})))
	if err := l.AwaitOffset(within(t), 3); err != nil {
		t.Fatal(err)
	}
	want(t, j, "two: leader 7", "two: quiet at 3")
	if im := l.Image(); im.Offset != 3 || im.Epoch != 1 {
		t.Fatalf("image at %d, epoch %d", im.Offset, im.Epoch)
	}
	l.OnCommitted(committed(5, batch(4, topic("c"))))
	if err := l.AwaitOffset(within(t), 4); err != nil {
		t.Fatal(err)
	}
	want(t, j, "one: [c] at 4, kind 0, 1 batches", "two: [c] at 4, kind 0, 1 batches")
	if err := l.AddPublisher(within(t), scribe{"late", j}); err != nil {
		t.Fatal(err)
	}
	want(t, j, "late: [a b c] at 4, kind 1, 0 batches")
}

func TestTransactionsAreAtomic(t *testing.T) {
	j := &journal{}
	l := New(Options{})
	l.Start(scribe{"one", j})
	defer l.Close()
	begin, end, abort := &recordschema.BeginTransactionRecord{}, &recordschema.EndTransactionRecord{}, &recordschema.AbortTransactionRecord{}
	// The transaction begins behind a record of its own batch.
	l.OnCommitted(committed(3, batch(0, topic("a"), begin, topic("b"))))
	im, err := l.AwaitApplied(within(t), 2)
	if err != nil || im.Offset != 0 {
		t.Fatalf("image inside the transaction at %d, %v", im.Offset, err)
	}
	if _, ok := im.Topics.ByName("b"); ok {
		t.Fatal("a record of an open transaction is visible")
	}
	l.OnCommitted(committed(5, batch(3, topic("c"), end)))
	if err := l.AwaitOffset(within(t), 4); err != nil {
		t.Fatal(err)
	}
	want(t, j, "one: [a] at 0, kind 0, 1 batches", "one: [b c] at 4, kind 0, 1 batches")
	l.OnCommitted(committed(8, batch(5, begin, topic("d"), abort)))
	if err := l.AwaitOffset(within(t), 7); err != nil {
		t.Fatal(err)
	}
	if _, ok := l.Image().Topics.ByName("d"); ok {
		t.Fatal("an aborted record is visible")
	}
}

func TestStopsAtRecordsItCannotApply(t *testing.T) {
	failed := make(chan error, 1)
	l := New(Options{OnError: func(err error) { failed <- err }})
	l.Start()
	defer l.Close()
	l.OnCommitted(committed(1, batch(0, topic("a"))))
	if err := l.AwaitOffset(within(t), 0); err != nil {
		t.Fatal(err)
	}
	l.OnCommitted(committed(2, batch(1, &recordschema.RemoveTopicRecord{TopicID: types.UUID{1}})))
	if err := l.AwaitOffset(within(t), 1); err == nil || !errors.Is(<-failed, image.ErrReplay) {
		t.Fatalf("wait beyond the bad record: %v", err)
	}
	if l.Image().Offset != 0 {
		t.Fatalf("image at %d", l.Image().Offset)
	}
	l.OnCommitted(committed(3, batch(2, topic("b")))) // does not hang
}

func TestCloseEndsWaits(t *testing.T) {
	l := New(Options{})
	l.Start()
	done := make(chan error, 1)
	go func() { done <- l.AwaitOffset(context.Background(), 10) }()
	l.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatalf("wait ended with %v", err)
	}
}

// TestLoadsWhatKafkaWrote loads folders of Apache Kafka 4.3.1 through a node:
// once the log alone, once a snapshot and the log behind it.
func TestLoadsWhatKafkaWrote(t *testing.T) {
	for _, c := range []struct {
		folder string
		kind   Kind
		topics []string
	}{
		{"kafka-4.3.1", Snapshot, []string{"golden", "later"}},
		{"kafka-4.3.1-log-only", LogDelta, []string{"golden"}},
	} {
		t.Run(c.folder, func(t *testing.T) {
			dir, err := types.ParseUUID("peerpeerpeerpeerpeer1A")
			if err != nil {
				t.Fatal(err)
			}
			n, err := quorum.Open(quorum.Options{FS: kafkaFolder(t, c.folder), Dir: "/data", NodeID: 1, DirectoryID: dir})
			if err != nil {
				t.Fatal(err)
			}
			j := &journal{}
			l := New(Options{OnError: func(err error) { t.Error(err) }})
			l.Start(scribe{"one", j})
			n.Start(l)
			if err := n.Probe(within(t)); err != nil {
				t.Fatal(err)
			}
			if err := l.AwaitOffset(within(t), n.Status().HighWatermark-1); err != nil {
				t.Fatal(err)
			}
			im := l.Image()
			var names []string
			for topic := range im.Topics.All() {
				names = append(names, topic.Name)
			}
			golden, _ := im.Topics.ByName("golden")
			if !slices.Equal(names, c.topics) || len(golden.Partitions) != 3 || im.Features.MetadataVersion() != 30 {
				t.Errorf("topics %v, metadata.version %d", names, im.Features.MetadataVersion())
			}
			if got := im.Configs.Get(image.ResourceTopic, "golden")["retention.ms"]; got != "1234567" {
				t.Errorf("retention.ms %q", got)
			}
			if b, ok := im.Cluster.Broker(1); !ok || b.Endpoints[0].Port != 29720 {
				t.Errorf("broker %+v", b)
			}
			if lines := j.take(); len(lines) != 1 {
				t.Errorf("the log was published in %d steps: %q", len(lines), lines)
			}
			l.Close()
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func kafkaFolder(t *testing.T, from string) vfs.FS {
	t.Helper()
	fsys := vfs.NewMem()
	to := "/data/__cluster_metadata-0"
	if err := fsys.MkdirAll(to); err != nil {
		t.Fatal(err)
	}
	from = filepath.Join("..", "..", "quorum", "testdata", from)
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := fsys.Create(filepath.Join(to, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return fsys
}

// fakeSnapshots takes the place of a node.
type fakeSnapshots struct{ taken chan int64 }

func (f fakeSnapshots) TakeSnapshot(im *image.Image) (quorum.SnapshotID, error) {
	f.taken <- im.Offset
	return quorum.SnapshotID{Offset: im.Offset + 1, Epoch: im.Epoch}, nil
}

func TestSnapshotGenerator(t *testing.T) {
	f := fakeSnapshots{make(chan int64, 10)}
	now := int64(0)
	g := NewSnapshotGenerator(GeneratorOptions{Log: f, MaxBytes: 250, MaxIntervalMs: 1000, NowMs: func() int64 { return now }})
	l := New(Options{})
	l.Start(g)
	defer l.Close()
	commit := func(offset int64, r recordschema.MetadataRecord) {
		l.OnCommitted(committed(offset+1, batch(offset, r)))
		if err := l.AwaitOffset(within(t), offset); err != nil {
			t.Fatal(err)
		}
		g.Wait()
	}
	commit(0, &recordschema.FeatureLevelRecord{Name: image.FeatureMetadataVersion, FeatureLevel: 30})
	commit(1, topic("a"))
	if len(f.taken) != 0 {
		t.Fatal("snapshot after 200 bytes")
	}
	commit(2, topic("b")) // 300 bytes
	if got := <-f.taken; got != 2 {
		t.Fatalf("snapshot at %d", got)
	}
	now = 999
	commit(3, &recordschema.NoOpRecord{})
	if len(f.taken) != 0 {
		t.Fatal("snapshot after 100 bytes and 999 ms")
	}
	now = 1000
	commit(4, &recordschema.NoOpRecord{})
	if got := <-f.taken; got != 4 {
		t.Fatalf("snapshot at %d", got)
	}
}
