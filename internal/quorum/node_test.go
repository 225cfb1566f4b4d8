package quorum

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// testPatience ends a test that would hang; nothing is measured with it.
const testPatience = 60 * time.Second

func TestSingleVoterCommitsAndReplays(t *testing.T) {
	fsys := vfs.NewMem()
	format(t, fsys)
	n, l := start(t, testOptions(fsys))
	// LeaderChange, KRaftVersion and Voters are the first three records.
	if got := mustPropose(t, n, "a", "b"); got != 3 {
		t.Fatalf("first proposal at offset %d, want 3", got)
	}
	if got := mustPropose(t, n, "c"); got != 5 {
		t.Fatalf("second proposal at offset %d, want 5", got)
	}
	l.await(t, "commit", func() bool { return l.next == 6 })
	mustClose(t, n)

	n, l = start(t, testOptions(fsys))
	// The voters are in the log now: LeaderChange alone takes one offset.
	if got := mustPropose(t, n, "d"); got != 7 {
		t.Fatalf("proposal after restart at offset %d, want 7", got)
	}
	l.await(t, "commit", func() bool { return l.next == 8 })
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(l.topicNames(), want) || len(l.gaps) > 0 {
		t.Fatalf("replayed %v (gaps %v), want %v", l.topicNames(), l.gaps, want)
	}
	lead := l.leads[len(l.leads)-1]
	if lead.Epoch != 2 || lead.LeaderID != 1 || lead.StartOffset != 7 {
		t.Fatalf("leadership %+v", lead)
	}
	st := n.Status()
	if !st.IsLeader || st.HighWatermark != 8 || st.LogEndOffset != 8 || len(st.VoterStates) != 1 || st.VoterStates[0].LogEndOffset != 8 {
		t.Fatalf("status %+v", st)
	}
	mustClose(t, n)
	if _, err := n.Propose(topics("e"), false); !errors.Is(err, ErrClosed) {
		t.Fatalf("propose after close: %v", err)
	}
}

func TestProposeRules(t *testing.T) {
	fsys := vfs.NewMem()
	format(t, fsys)
	n, l := start(t, testOptions(fsys))
	defer mustClose(t, n)
	next, epoch, err := n.NextOffset()
	if err != nil || next != 3 || epoch != 1 {
		t.Fatalf("next offset %d, epoch %d, %v", next, epoch, err)
	}
	if err := n.ProposeAt(next, topics("a")); err != nil {
		t.Fatal(err)
	}
	if err := n.ProposeAt(next, topics("b")); !errors.Is(err, ErrOffsetMoved) {
		t.Fatalf("propose at a taken offset: %v", err)
	}
	many := make([]recordschema.MetadataRecord, MaxRecordsPerBatch+1)
	for i := range many {
		many[i] = &recordschema.NoOpRecord{}
	}
	if _, err := n.Propose(many, true); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("atomic proposal beyond one batch: %v", err)
	}
	if _, err := n.Propose(many, false); err != nil {
		t.Fatal(err)
	}
	l.await(t, "commit", func() bool { return l.next == next+1+int64(len(many)) })
	if got := len(l.batches); got != 4 {
		t.Fatalf("%d batches, want 4: leader change, a, 10000 records, 1 record", got)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testPatience)
	defer cancel()
	if err := n.Probe(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefusals(t *testing.T) {
	fsys := vfs.NewMem()
	if _, err := Open(testOptions(fsys)); err == nil {
		t.Fatal("opened a folder that is not formatted")
	}
	format(t, fsys)
	o := testOptions(fsys)
	o.NodeID = 2
	if _, err := Open(o); err == nil {
		t.Fatal("opened the folder of another voter")
	}
	records, err := ReadBootstrap(fsys, testDir)
	if err != nil || len(records) != 1 {
		t.Fatalf("bootstrap records %v, %v", records, err)
	}
}
