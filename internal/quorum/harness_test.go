package quorum

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

const testDir = "/data"

var testDirID = types.UUID{0: 7, 15: 9}

// tape is a listener that keeps what it is given.
type tape struct {
	mu       sync.Mutex
	batches  []Batch
	names    []string // topic names of TopicRecords, snapshots included
	next     int64
	hw       int64
	leads    []Leadership
	snapshot SnapshotID
	gaps     []string
	changed  chan struct{}
}

func newTape() *tape { return &tape{changed: make(chan struct{})} }

func (l *tape) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *tape) OnCommitted(c Committed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range c.Batches {
		if b.BaseOffset != l.next {
			l.gaps = append(l.gaps, fmt.Sprintf("batch at %d after %d", b.BaseOffset, l.next))
		}
		l.next = b.LastOffset + 1
		l.batches = append(l.batches, b)
		l.note(b.Records)
	}
	l.hw = c.HighWatermark
	l.wake()
}

func (l *tape) note(records []recordschema.MetadataRecord) {
	for _, r := range records {
		if t, ok := r.(*recordschema.TopicRecord); ok {
			l.names = append(l.names, t.Name)
		}
	}
}

func (l *tape) OnSnapshot(r *SnapshotReader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = nil
	for rec, err := range r.Records() {
		if err != nil {
			l.gaps = append(l.gaps, err.Error())
			break
		}
		l.note([]recordschema.MetadataRecord{rec})
	}
	l.next, l.snapshot = r.ID.Offset, r.ID
	l.wake()
}

func (l *tape) OnLeadership(x Leadership) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads = append(l.leads, x)
	l.wake()
}

// await waits until cond holds under the tape's lock.
func (l *tape) await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	for {
		l.mu.Lock()
		ok, changed := cond(), l.changed
		l.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			l.mu.Lock()
			defer l.mu.Unlock()
			t.Fatalf("%s: waited too long; next %d, leads %v", what, l.next, l.leads)
		}
	}
}

func (l *tape) isLeader() bool { return len(l.leads) > 0 && l.leads[len(l.leads)-1].IsSelf }

func (l *tape) topicNames() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.names)
}

func testVoter() Voter {
	return Voter{NodeID: 1, DirectoryID: testDirID, Endpoints: []types.Endpoint{{Listener: "CONTROLLER", Host: "127.0.0.1", Port: 9093}}}
}

func testOptions(fsys vfs.FS) Options {
	return Options{
		FS: fsys, Dir: testDir, NodeID: 1, DirectoryID: testDirID,
		Endpoints: testVoter().Endpoints, NowMs: func() int64 { return 1_700_000_000_000 },
	}
}

func bootstrapRecords() []recordschema.MetadataRecord {
	return []recordschema.MetadataRecord{&recordschema.FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 30}}
}

func format(t testing.TB, fsys vfs.FS) {
	t.Helper()
	if err := Format(fsys, testDir, FormatOptions{Voters: []Voter{testVoter()}, Bootstrap: bootstrapRecords(), NowMs: 1}); err != nil {
		t.Fatal(err)
	}
}

// start opens and starts a quorum of one and waits for its election.
func start(t testing.TB, o Options) (*Node, *tape) {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l := newTape()
	n.Start(l)
	l.await(t, "election", l.isLeader)
	return n, l
}

func topic(name string) recordschema.MetadataRecord {
	id := types.UUID{0: 1}
	copy(id[1:], name)
	return &recordschema.TopicRecord{Name: name, TopicID: id}
}

func topics(names ...string) []recordschema.MetadataRecord {
	var out []recordschema.MetadataRecord
	for _, n := range names {
		out = append(out, topic(n))
	}
	return out
}

func mustPropose(t testing.TB, n *Node, names ...string) int64 {
	t.Helper()
	base, err := n.Propose(topics(names...), false)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

func mustClose(t testing.TB, n *Node) {
	t.Helper()
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}
