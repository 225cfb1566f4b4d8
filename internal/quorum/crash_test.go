package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// imageOf is the image of what a tape holds.
func imageOf(t testing.TB, l *tape) *image.Image {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	d := image.NewDelta(image.Empty())
	replay := func(r recordschema.MetadataRecord) {
		if err := d.Replay(r, 0); err != nil {
			t.Fatal(err)
		}
	}
	replay(bootstrapRecords()[0])
	for _, n := range l.names {
		replay(topic(n))
	}
	last := l.batches[len(l.batches)-1]
	return d.Apply(last.LastOffset, last.Epoch)
}

func smallSegments(fsys vfs.FS) Options {
	o := testOptions(fsys)
	o.SegmentBytes = 400
	o.RetentionBytes = 1
	return o
}

// ackTape tells a crash test what was committed, from the node's goroutine.
type ackTape struct {
	*tape
	acked func()
}

func (l *ackTape) OnCommitted(c Committed) {
	for _, b := range c.Batches {
		for _, r := range b.Records {
			if t, ok := r.(*recordschema.TopicRecord); ok && !slices.Contains(l.topicNames(), t.Name) {
				l.acked()
			}
		}
	}
	l.tape.OnCommitted(c)
}

// life is one run of a node: a few proposals, a snapshot, a few more, a stop.
func life(fsys vfs.FS, t *testing.T, first int, acked func()) error {
	if err := Format(fsys, testDir, FormatOptions{Voters: []Voter{testVoter()}, Bootstrap: bootstrapRecords(), NowMs: 1}); err != nil {
		return err
	}
	n, err := Open(smallSegments(fsys))
	if err != nil {
		return err
	}
	l := &ackTape{newTape(), func() {}}
	n.Start(l)
	l.await(t, "election", l.isLeader)
	l.acked = acked
	for i := range 6 {
		base, err := n.Propose(topics(name(first+2*i), name(first+2*i+1)), true)
		if err != nil {
			return err
		}
		l.await(t, "commit", func() bool { return l.next == base+2 })
		if i == 2 || i == 4 {
			if _, err := n.TakeSnapshot(imageOf(t, l.tape)); err != nil {
				return err
			}
		}
	}
	return n.Close()
}

func name(i int) string { return fmt.Sprintf("t%03d", i) }

// checkCrash restarts on what is left: it must elect, and hold a prefix of the
// proposals that contains everything committed.
func checkCrash(t *testing.T, fsys vfs.FS, acked int, what string) {
	t.Helper()
	if t.Failed() {
		return
	}
	if err := restartAfter(t, fsys, acked); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// restartAfter does not end the test: it may run on a node's goroutine.
func restartAfter(t *testing.T, fsys vfs.FS, acked int) error {
	if _, err := fsys.Stat(testDir + "/" + logDirName); err != nil {
		if acked > 0 {
			return fmt.Errorf("the folder is gone with %d acknowledged records", acked)
		}
		return nil
	}
	if err := Format(fsys, testDir, FormatOptions{Voters: []Voter{testVoter()}, Bootstrap: bootstrapRecords(), NowMs: 1}); err != nil {
		return fmt.Errorf("format again: %w", err)
	}
	n, err := Open(smallSegments(fsys))
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	l := newTape()
	n.Start(l)
	l.await(t, "election after a crash", l.isLeader)
	got := l.topicNames()
	for i, s := range got {
		if s != name(i) {
			return fmt.Errorf("replayed %v", got)
		}
	}
	if len(got) < acked || len(l.gaps) > 0 {
		return fmt.Errorf("replayed %d records, %d were committed (gaps %v)", len(got), acked, l.gaps)
	}
	base, err := n.Propose(topics("after"), true)
	if err != nil {
		return err
	}
	l.await(t, "commit after a crash", func() bool { return l.next == base+1 })
	return n.Close()
}

// TestEachCrashKeepsCommittedRecords cuts the power after every operation
// (reliability row D19).
func TestEachCrashKeepsCommittedRecords(t *testing.T) {
	mem := vfs.NewMem()
	for first := 0; first < 24; first += 12 {
		err := errfs.EachCrash(mem, func(fsys vfs.FS, acked func()) error { return life(fsys, t, first, acked) },
			func(c errfs.Crash) {
				checkCrash(t, c.Left, first+c.Acked, fmt.Sprintf("life %d, crash after %v %s (%d%%, seed %d)", first, c.After.Kind, c.After.Path, c.Percent, c.Seed))
			})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEachWriteErrorIsFatal lets every operation of the log fail once: the node
// stops, acknowledges nothing after it, syncs nothing again, and a restart
// holds what was committed (reliability row D11).
func TestEachWriteErrorIsFatal(t *testing.T) {
	for i := int64(0); ; i++ {
		mem := vfs.NewMem()
		format(t, mem)
		var fired atomic.Bool
		failNth := errfs.FailNth(i, syscall.EIO, errfs.Kinds(errfs.Write, errfs.Sync, errfs.SyncDir, errfs.Rename, errfs.Truncate, errfs.Create))
		var syncedAfter atomic.Int64
		fsys := errfs.Wrap(mem, errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
			if fired.Load() && op.Kind == errfs.Sync {
				syncedAfter.Add(1)
			}
			f := failNth(op)
			if f != nil {
				fired.Store(true)
			}
			return f
		}})
		acked, opened := runUntilFailure(t, fsys, &fired)
		if !fired.Load() {
			return // every operation had its turn
		}
		if opened && syncedAfter.Load() > 0 {
			t.Fatalf("operation %d: %d syncs after the failure", i, syncedAfter.Load())
		}
		checkCrash(t, mem.CrashClone(vfs.CrashOptions{}), acked, fmt.Sprintf("operation %d failed", i))
	}
}

// runUntilFailure proposes until the node stops or everything is done. It
// returns how many records were acknowledged.
func runUntilFailure(t *testing.T, fsys vfs.FS, fired *atomic.Bool) (acked int, opened bool) {
	o := smallSegments(fsys)
	fatal := make(chan error, 1)
	o.OnFatal = func(err error) { fatal <- err }
	n, err := Open(o)
	if err != nil {
		if !fired.Load() {
			t.Fatal(err)
		}
		return 0, false
	}
	l := newTape()
	n.Start(l)
	stopped := func() bool {
		return len(l.leads) > 0 && l.leads[len(l.leads)-1].LeaderID < 0 && n.Status().Failed != nil
	}
	l.await(t, "election or failure", func() bool { return l.isLeader() || stopped() })
	for i := range 6 {
		base, err := n.Propose(topics(name(i)), true)
		if err != nil {
			break
		}
		l.await(t, "commit or failure", func() bool { return l.next == base+1 || stopped() })
	}
	acked = len(l.topicNames())
	if failed := n.Status().Failed; failed != nil {
		if err := <-fatal; !errors.Is(err, syscall.EIO) {
			t.Fatalf("fatal error %v", err)
		}
		if _, err := n.Propose(topics("late"), true); err == nil {
			t.Fatal("a failed node took a proposal")
		}
		if err := n.Close(); err != nil {
			t.Fatalf("close after a failure: %v", err)
		}
		return acked, true
	}
	if err := n.Close(); err != nil && !fired.Load() {
		t.Fatal(err)
	}
	return acked, false
}

// TestFullDiskPasses fills the disk while the node writes, rolls segments and
// is asked to prove itself; everything proposed commits once there is space.
func TestFullDiskPasses(t *testing.T) {
	mem := vfs.NewMem()
	format(t, mem)
	full := errfs.NoSpace()
	o := smallSegments(errfs.Wrap(mem, errfs.Hooks{Before: full.Before}))
	o.OnFatal = func(err error) { t.Errorf("fatal: %v", err) }
	n, l := start(t, o)
	for i := range 8 {
		full.Fill()
		base := mustPropose(t, n, name(2*i), name(2*i+1))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := n.Probe(ctx); err == nil {
			t.Fatal("the probe passed on a full disk")
		}
		if hw := n.Status().HighWatermark; hw > base {
			t.Fatalf("high watermark %d with nothing written since %d", hw, base)
		}
		full.Off()
		l.await(t, "commit after the disk was full", func() bool { return l.next > base+2 })
	}
	if len(l.gaps) > 0 {
		t.Fatal(l.gaps)
	}
	full.Fill()
	mustPropose(t, n, "never")
	if err := n.Close(); err != nil {
		t.Fatalf("close on a full disk: %v", err)
	}
	full.Off()
	checkCrash(t, mem, 16, "after the disk was full")
}
