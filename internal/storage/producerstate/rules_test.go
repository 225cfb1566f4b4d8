package producerstate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

const dir = "/t-0"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is a log reduced to what the rules see of it.
type world struct {
	fs      *vfs.Mem
	m       *producerstate.Manager
	batches []producerstate.Batch
	start   int64
	end     int64
	hw      int64
	nowMs   int64
	reports []string
}

func newWorld(t *testing.T) *world {
	w := &world{fs: vfs.NewMem(), nowMs: 1000}
	must(t, w.fs.MkdirAll(dir))
	w.open(t)
	return w
}

func (w *world) open(t *testing.T) {
	var err error
	w.m, err = producerstate.Open(producerstate.Options{FS: w.fs, Dir: dir, ExpirationMs: 10_000, OnCorrupt: func(path string, reason error) {
		w.reports = append(w.reports, fmt.Sprintf("%s: %v", path, reason))
	}})
	must(t, err)
}

// append does what a log does with one batch.
func (w *world) append(b producerstate.Batch, origin record.Origin) (producerstate.Verdict, error) {
	n := b.LastOffset // a count until here
	b.BaseOffset, b.LastOffset = w.end, w.end+n-1
	u := w.m.Prepare(origin)
	v, err := u.Add(b)
	if err != nil || v.Duplicate {
		return v, err
	}
	w.batches = append(w.batches, b)
	w.commit(u)
	w.end = b.LastOffset + 1
	w.m.SetEndOffset(w.end)
	return v, nil
}

func (w *world) commit(u *producerstate.Update) {
	for _, c := range w.m.Commit(u) {
		if err := w.m.CompleteTxn(c); err != nil {
			panic(err)
		}
	}
}

// reload restarts from the newest snapshot and replays the log behind it.
func (w *world) reload(t *testing.T) {
	w.open(t)
	must(t, w.m.TruncateAndReload(w.start, w.end, w.nowMs))
	for _, b := range w.batches {
		if b.BaseOffset < w.m.EndOffset() {
			continue
		}
		_, done, err := w.m.Apply(b, record.OriginReplication)
		must(t, err)
		for _, c := range done {
			must(t, w.m.CompleteTxn(c))
		}
		w.m.SetEndOffset(b.LastOffset + 1)
	}
	w.m.SetEndOffset(w.end)
}

func (w *world) truncate(t *testing.T, to int64) {
	for len(w.batches) > 0 && w.batches[len(w.batches)-1].LastOffset >= to {
		w.batches = w.batches[:len(w.batches)-1]
	}
	w.end = to
	must(t, w.m.TruncateAndReload(w.start, to, w.nowMs))
	for _, b := range w.batches {
		if b.BaseOffset >= w.m.EndOffset() {
			_, done, err := w.m.Apply(b, record.OriginReplication)
			must(t, err)
			for _, c := range done {
				must(t, w.m.CompleteTxn(c))
			}
			w.m.SetEndOffset(b.LastOffset + 1)
		}
	}
	w.m.SetEndOffset(to)
}

func showEntry(e producerstate.Entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pid %d epoch %d", e.ProducerID, e.Epoch)
	if e.CoordinatorEpoch >= 0 {
		fmt.Fprintf(&b, " coordinator %d", e.CoordinatorEpoch)
	}
	if e.InTransaction() {
		fmt.Fprintf(&b, " txn from %d", e.CurrentTxnFirstOffset)
	}
	fmt.Fprintf(&b, " at %d:", e.LastTimestampMs)
	for _, m := range e.Batches() {
		fmt.Fprintf(&b, " [%d..%d]@%d", m.FirstSequence(), m.LastSequence, m.FirstOffset())
	}
	return b.String()
}

func (w *world) show() string {
	var b strings.Builder
	for _, e := range w.m.Entries() {
		b.WriteString(showEntry(e) + "\n")
	}
	if off, ok := w.m.FirstUnstableOffset(); ok {
		fmt.Fprintf(&b, "first unstable %d\n", off)
	}
	if b.Len() == 0 {
		return "(empty)"
	}
	return b.String()
}

// TestRules runs the scripts in testdata/rules, named after the case or KIP
// they prove. Commands:
//
//	new
//	produce pid=P epoch=E seq=S [n=N] [txn] [origin=client|coordinator|replication] [at=MS]
//	marker pid=P epoch=E (commit|abort) [coordinator=C] [tv=V] [origin=..] [at=MS]
//	verify pid=P epoch=E seq=S [tv2]    a pending verification; clear pid=P ends it
//	state | hw at=O | expire now=MS | late now=MS
//	snapshot | snapshots | restart | truncate to=O | start at=O | corrupt at=O | stray bases=(..)
func TestRules(t *testing.T) {
	datadriven.Walk(t, "testdata/rules", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.reports = nil
			out := runRule(t, d, &w)
			if len(w.reports) > 0 {
				out += "\nreport: " + strings.Join(w.reports, "\nreport: ")
			}
			return out
		})
	})
}

func num(t *testing.T, d *datadriven.TestData, key string, def int64) int64 {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &def)
	}
	return def
}

func originOf(t *testing.T, d *datadriven.TestData, def record.Origin) record.Origin {
	if !d.HasArg("origin") {
		return def
	}
	var s string
	d.ScanArgs(t, "origin", &s)
	return map[string]record.Origin{"client": record.OriginClient, "coordinator": record.OriginCoordinator, "replication": record.OriginReplication}[s]
}

func runRule(t *testing.T, d *datadriven.TestData, wp **world) string {
	w := *wp
	w.nowMs = num(t, d, "at", w.nowMs)
	pid, epoch := num(t, d, "pid", 0), int16(num(t, d, "epoch", 0))
	switch d.Cmd {
	case "new":
		*wp = newWorld(t)
		return "ok"
	case "produce":
		n := num(t, d, "n", 1)
		seq := num(t, d, "seq", 0)
		b := producerstate.Batch{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: int32(seq), MaxTimestampMs: w.nowMs, LastOffset: n, Transactional: d.HasArg("txn")}
		b.LastSequence = int32((seq + n - 1) % (1 << 31))
		return w.answer(b, originOf(t, d, record.OriginClient))
	case "marker":
		b := producerstate.Batch{ProducerID: pid, ProducerEpoch: epoch, BaseSequence: -1, LastSequence: -1, LastOffset: 1, Transactional: true, Control: true}
		b.Marker = &producerstate.Marker{
			Commit: d.HasArg("commit"), CoordinatorEpoch: int32(num(t, d, "coordinator", 0)),
			TimestampMs: w.nowMs, TransactionVersion: int16(num(t, d, "tv", 1)),
		}
		return w.answer(b, originOf(t, d, record.OriginCoordinator))
	case "verify":
		v := w.m.BeginVerification(pid, int32(num(t, d, "seq", 0)), epoch, d.HasArg("tv2"), w.nowMs)
		return fmt.Sprintf("guard %d, lowest sequence %d, epoch %d", v.Guard, v.LowestSequence, v.Epoch)
	case "clear":
		w.m.ClearVerification(pid)
		return "ok"
	case "state":
		return w.show()
	case "hw":
		w.hw = num(t, d, "at", 0)
		w.nowMs = 1000
		w.m.OnHighWatermark(w.hw)
		return w.show()
	case "expire":
		return fmt.Sprintf("%d gone\n%s", w.m.RemoveExpired(num(t, d, "now", 0)), w.show())
	case "late":
		return fmt.Sprint(w.m.HasLateTransaction(num(t, d, "now", 0), 900_000))
	}
	return runFiles(t, d, w)
}

func (w *world) answer(b producerstate.Batch, origin record.Origin) string {
	v, err := w.append(b, origin)
	switch {
	case err != nil:
		return kerrors.CodeOf(err).Name() + ": " + kerrors.MessageOf(err)
	case v.Duplicate:
		return fmt.Sprintf("duplicate of %d..%d at %d; end %d", v.FirstOffset, v.LastOffset, v.TimestampMs, w.end)
	}
	return fmt.Sprintf("offset %d; end %d", w.batches[len(w.batches)-1].BaseOffset, w.end)
}

func runFiles(t *testing.T, d *datadriven.TestData, w *world) string {
	switch d.Cmd {
	case "snapshot":
		off, taken, err := w.m.TakeSnapshot(true)
		must(t, err)
		return fmt.Sprintf("%d %v", off, taken)
	case "snapshots":
		return fmt.Sprint(w.m.Snapshots())
	case "restart":
		w.reload(t)
		return w.show()
	case "truncate":
		w.truncate(t, num(t, d, "to", 0))
		return w.show()
	case "start":
		w.nowMs = 1000
		w.start = num(t, d, "at", 0)
		w.m.OnLogStartOffset(w.start)
		must(t, w.m.DeleteSnapshotsBefore(w.start))
		return w.show()
	case "corrupt":
		w.nowMs = 1000
		path, ok := w.m.SnapshotPath(num(t, d, "at", 0))
		if !ok {
			t.Fatal("no such snapshot")
		}
		f, err := w.fs.OpenReadWrite(path, false)
		must(t, err)
		_, err = f.WriteAt([]byte{0xff}, 20)
		must(t, err)
		must(t, f.Close())
		return "ok"
	case "stray":
		var bases []int64
		for _, a := range d.CmdArgs {
			if a.Key == "bases" {
				for _, v := range a.Vals {
					var n int64
					fmt.Sscan(v, &n)
					bases = append(bases, n)
				}
			}
		}
		must(t, w.m.RemoveStraySnapshots(bases))
		return fmt.Sprint(w.m.Snapshots())
	}
	t.Fatalf("unknown command %q", d.Cmd)
	return ""
}
