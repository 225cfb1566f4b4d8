package quorum

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// threeEpochs is a log of three leaderships: epoch 1 holds offsets 0-4, epoch 2
// 5-7, epoch 3 8 and what the test adds.
func threeEpochs(t *testing.T, fsys vfs.FS) (*Node, *tape) {
	t.Helper()
	format(t, fsys)
	for epoch := 1; ; epoch++ {
		n, l := start(t, smallSegments(fsys))
		if epoch == 3 {
			return n, l
		}
		base := mustPropose(t, n, name(2*epoch), name(2*epoch+1))
		l.await(t, "commit", func() bool { return l.next == base+2 })
		mustClose(t, n)
	}
}

func (r FetchResult) String() string {
	s := fmt.Sprintf("%d bytes", len(r.Records))
	if r.Diverging != nil {
		s = fmt.Sprintf("diverging epoch %d ends at %d", r.Diverging.Epoch, r.Diverging.EndOffset)
	}
	if r.Snapshot != nil {
		s = "snapshot " + r.Snapshot.name()
	}
	return s
}

func TestReadLogValidatesOffsetAndEpoch(t *testing.T) {
	n, _ := threeEpochs(t, vfs.NewMem())
	defer mustClose(t, n)
	cases := []struct {
		offset int64
		epoch  int32
		want   string
	}{
		{0, 0, "data"},
		{5, 1, "data"},
		{8, 2, "data"},
		{9, 3, "0 bytes"}, // the end
		{6, 1, "diverging epoch 1 ends at 5"},
		{9, 2, "diverging epoch 2 ends at 8"},
		{10, 3, "diverging epoch 3 ends at 9"},
		{9, 4, "diverging epoch 3 ends at 9"},
		{5, -1, "data"},
	}
	for _, c := range cases {
		r, err := n.ReadLog(FetchInput{FetchOffset: c.offset, LastFetchedEpoch: c.epoch, CurrentLeaderEpoch: 3, MaxBytes: 1 << 20})
		if err != nil {
			t.Errorf("offset %d, epoch %d: %v", c.offset, c.epoch, err)
			continue
		}
		got := r.String()
		if len(r.Records) > 0 {
			got = "data"
		}
		if got != c.want {
			t.Errorf("offset %d, epoch %d: %s, want %s", c.offset, c.epoch, got, c.want)
		}
	}
	for _, c := range []struct {
		in   FetchInput
		want kerrors.Code
	}{
		{FetchInput{CurrentLeaderEpoch: 2}, kerrors.FencedLeaderEpoch},
		{FetchInput{CurrentLeaderEpoch: 4}, kerrors.UnknownLeaderEpoch},
		{FetchInput{FetchOffset: -1, CurrentLeaderEpoch: 3}, kerrors.InvalidRequest},
	} {
		if _, err := n.ReadLog(c.in); kerrors.CodeOf(err) != c.want {
			t.Errorf("%+v: %v, want %v", c.in, err, c.want)
		}
	}
}

// TestFollowerReadsEverything fetches as a follower does, a few bytes at a time.
func TestFollowerReadsEverything(t *testing.T) {
	n, _ := threeEpochs(t, vfs.NewMem())
	defer mustClose(t, n)
	var all []byte
	for offset := int64(0); ; {
		r, err := n.ReadLog(FetchInput{FetchOffset: offset, LastFetchedEpoch: -1, CurrentLeaderEpoch: -1, MaxBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Records) == 0 {
			break
		}
		for b, err := range record.Batches(r.Records) {
			if err != nil || b.Verify() != nil || b.BaseOffset() != offset {
				t.Fatalf("batch at %d, want %d: %v", b.BaseOffset(), offset, err)
			}
			offset = b.NextOffset()
		}
		all = append(all, r.Records...)
	}
	if int64(len(all)) != n.meta.store.SizeBytes() {
		t.Fatalf("read %d bytes of %d", len(all), n.meta.store.SizeBytes())
	}
}

func TestReadLogSendsTheSnapshot(t *testing.T) {
	fsys := vfs.NewMem()
	n, l := threeEpochs(t, fsys)
	defer mustClose(t, n)
	for i := range 10 {
		base := mustPropose(t, n, name(100+i))
		l.await(t, "commit", func() bool { return l.next == base+1 })
	}
	id, err := n.TakeSnapshot(imageOf(t, l))
	if err != nil {
		t.Fatal(err)
	}
	base := mustPropose(t, n, name(200))
	l.await(t, "commit", func() bool { return l.next == base+1 })
	// RetentionBytes is 1: the snapshot is all that is left of what it covers.
	if st := n.Status(); st.LogStartOffset != id.Offset || st.Snapshot != id {
		t.Fatalf("status %+v, snapshot %v", st, id)
	}
	for _, in := range []FetchInput{{FetchOffset: 0}, {FetchOffset: 5, LastFetchedEpoch: 1}, {FetchOffset: id.Offset, LastFetchedEpoch: 2}} {
		in.CurrentLeaderEpoch = -1
		r, err := n.ReadLog(in)
		if err != nil || r.Snapshot == nil || *r.Snapshot != id {
			t.Errorf("%+v: %v, %v", in, r, err)
		}
	}
	if r, err := n.ReadLog(FetchInput{FetchOffset: id.Offset, LastFetchedEpoch: id.Epoch, CurrentLeaderEpoch: -1}); err != nil || len(r.Records) == 0 {
		t.Errorf("behind the snapshot: %v, %v", r, err)
	}
	checkChunks(t, n, fsys, id)
}

// checkChunks reads a snapshot in pieces and compares it with the file.
func checkChunks(t *testing.T, n *Node, fsys vfs.FS, id SnapshotID) {
	t.Helper()
	var got []byte
	for {
		c, err := n.ReadSnapshot(id, int64(len(got)), 7)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, c.Data...); int64(len(got)) == c.TotalBytes {
			break
		}
	}
	f, err := fsys.Open(filepath.Join(testDir, logDirName, id.name()+snapshotSuffix))
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, len(got))
	if _, err := f.ReadAt(want, 0); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("chunks differ from the file: %v", err)
	}
	if _, err := n.ReadSnapshot(id, int64(len(got)), 7); kerrors.CodeOf(err) != kerrors.PositionOutOfRange {
		t.Errorf("behind the end: %v", err)
	}
	if _, err := n.ReadSnapshot(SnapshotID{3, 1}, 0, 7); kerrors.CodeOf(err) != kerrors.SnapshotNotFound {
		t.Errorf("unknown snapshot: %v", err)
	}
}

func TestAwaitChange(t *testing.T) {
	fsys := vfs.NewMem()
	format(t, fsys)
	n, l := start(t, testOptions(fsys))
	done := make(chan struct{})
	go func() {
		n.AwaitChange(context.Background(), 3, 3)
		close(done)
	}()
	base := mustPropose(t, n, "a")
	<-done
	l.await(t, "commit", func() bool { return l.next == base+1 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n.AwaitChange(ctx, 10, 10)
	go n.Close()
	n.AwaitChange(context.Background(), 10, 10)
	<-n.done
}

func TestTakeSnapshotRefusals(t *testing.T) {
	n, l := threeEpochs(t, vfs.NewMem())
	defer mustClose(t, n)
	im := imageOf(t, l)
	for _, c := range []struct {
		offset int64
		epoch  int32
	}{{100, 3}, {3, 1}, {im.Offset, 2}, {-1, 0}} {
		bad := *im
		bad.Offset, bad.Epoch = c.offset, c.epoch
		if id, err := n.TakeSnapshot(&bad); err == nil {
			t.Errorf("snapshot %v of offset %d, epoch %d", id, c.offset, c.epoch)
		}
	}
	for range 2 { // the second time it is there already
		if _, err := n.TakeSnapshot(im); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedSnapshotIsSetAside flips a byte of the newest snapshot: the one
// before it and the log behind that are used.
func TestDamagedSnapshotIsSetAside(t *testing.T) {
	fsys := vfs.NewMem()
	format(t, fsys)
	o := testOptions(fsys)
	n, l := start(t, o)
	var last SnapshotID
	for i := range 3 {
		base := mustPropose(t, n, name(i))
		l.await(t, "commit", func() bool { return l.next == base+1 })
		var err error
		if last, err = n.TakeSnapshot(imageOf(t, l)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, n)
	f, err := fsys.OpenReadWrite(filepath.Join(testDir, logDirName, last.name()+snapshotSuffix), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 200); err != nil {
		t.Fatal(err)
	}
	n, l = start(t, o)
	defer mustClose(t, n)
	if got := l.topicNames(); len(got) != 3 || l.snapshot.Offset != last.Offset-1 {
		t.Fatalf("topics %v from snapshot %v", got, l.snapshot)
	}
}

// TestLostIndexCheckpointIsRebuilt removes or damages the small files that can
// be rebuilt.
func TestLostIndexCheckpointIsRebuilt(t *testing.T) {
	for _, damage := range []string{"remove", "damage"} {
		for _, file := range []string{raftIndexFile, "leader-epoch-checkpoint", "partition.metadata"} {
			fsys := vfs.NewMem()
			format(t, fsys)
			n, l := start(t, testOptions(fsys))
			base := mustPropose(t, n, "a", "b")
			l.await(t, "commit", func() bool { return l.next == base+2 })
			if _, err := n.TakeSnapshot(imageOf(t, l)); err != nil {
				t.Fatal(err)
			}
			index := n.meta.base.index
			mustClose(t, n)
			path := filepath.Join(testDir, logDirName, file)
			if err := fsys.Remove(path); err != nil {
				t.Fatal(err)
			}
			if damage == "damage" {
				f, err := fsys.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.WriteAt([]byte("nonsense"), 0); err != nil {
					t.Fatal(err)
				}
			}
			n, l = start(t, testOptions(fsys))
			if got := l.topicNames(); len(got) != 2 || n.snaps.indexes[n.snaps.newest()] != index {
				t.Errorf("%s %s: topics %v, raft index %v, want %d", damage, file, got, n.snaps.indexes, index)
			}
			mustClose(t, n)
		}
	}
}
