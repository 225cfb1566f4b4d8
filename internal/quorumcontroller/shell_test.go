package quorumcontroller

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/metadata/controller"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/quorum"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// fakeLog is a quorum of one whose commits the test makes.
type fakeLog struct {
	mu       sync.Mutex
	next     int64
	epoch    int32
	leading  bool
	steal    int // probes that take the next offsets
	err      error
	uncommit [][]recordschema.MetadataRecord
	base     int64 // of uncommit[0]
	all      []recordschema.MetadataRecord
}

func (f *fakeLog) NextOffset() (int64, int32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.leading {
		return 0, 0, quorum.ErrNotLeader
	}
	return f.next, f.epoch, nil
}

func (f *fakeLog) ProposeAt(offset int64, records []recordschema.MetadataRecord) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if f.steal > 0 {
		f.steal--
		f.append([]recordschema.MetadataRecord{&recordschema.NoOpRecord{}})
	}
	if offset != f.next {
		return quorum.ErrOffsetMoved
	}
	f.append(records)
	return nil
}

func (f *fakeLog) append(records []recordschema.MetadataRecord) {
	f.uncommit = append(f.uncommit, records)
	f.all = append(f.all, records...)
	f.next += int64(len(records))
}

// commit tells the shell of everything proposed.
func (f *fakeLog) commit(s *Shell) {
	f.mu.Lock()
	c := quorum.Committed{HighWatermark: f.next}
	for _, records := range f.uncommit {
		last := f.base + int64(len(records)) - 1
		c.Batches = append(c.Batches, quorum.Batch{BaseOffset: f.base, LastOffset: last, Epoch: f.epoch, Records: records})
		f.base = last + 1
	}
	f.uncommit = nil
	f.mu.Unlock()
	s.OnCommitted(c)
}

func (f *fakeLog) records() []recordschema.MetadataRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.all)
}

// lead gives the leadership, as quorum.Node does.
func (f *fakeLog) lead(s *Shell, epoch int32) {
	f.mu.Lock()
	f.epoch, f.leading = epoch, true
	f.next++ // LeaderChange
	f.base = f.next
	f.uncommit = nil
	l := quorum.Leadership{Epoch: epoch, LeaderID: 1, IsSelf: true, StartOffset: f.next}
	f.mu.Unlock()
	s.OnLeadership(l)
}

func (f *fakeLog) lose(s *Shell, epoch int32) {
	f.mu.Lock()
	f.leading = false
	f.mu.Unlock()
	s.OnLeadership(quorum.Leadership{Epoch: epoch, LeaderID: 2})
}

func bootstrap() []recordschema.MetadataRecord {
	return []recordschema.MetadataRecord{
		&recordschema.FeatureLevelRecord{Name: image.FeatureMetadataVersion, FeatureLevel: 30},
		&recordschema.FeatureLevelRecord{Name: image.FeatureEligibleLeaderReplicas, FeatureLevel: 1},
	}
}

func newShell(f *fakeLog) *Shell {
	s := New(Options{
		Log: f, Bootstrap: bootstrap(), MaxIdleIntervalMs: -1, QueueSize: 4,
		AwaitImage: func(context.Context, int64) (*image.Image, error) { return image.Empty(), nil },
	})
	s.Start()
	return s
}

func topicCommand(name string) func(*controller.Core, Input) controller.Result[int64] {
	return func(c *controller.Core, in Input) controller.Result[int64] {
		if _, ok := c.Image().Topics.ByName(name); ok {
			return controller.Result[int64]{Response: -1}
		}
		var id types.UUID
		copy(id[:], name)
		return controller.Result[int64]{
			Records:  []recordschema.MetadataRecord{&recordschema.TopicRecord{Name: name, TopicID: id}},
			Response: in.NextOffset,
		}
	}
}

type outcome struct {
	resp int64
	err  error
}

func submit(s *Shell, name string) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		r, err := Submit(context.Background(), s, name, topicCommand(name))
		out <- outcome{r, err}
	}()
	return out
}

func pending(t *testing.T, c <-chan outcome) {
	t.Helper()
	synctest.Wait()
	select {
	case o := <-c:
		t.Fatalf("answered early: %+v", o)
	default:
	}
}

func TestAnswersWaitForCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := newShell(f)
		defer s.Close()
		if o := <-submit(s, "early"); kerrors.CodeOf(o.err) != kerrors.NotController {
			t.Fatalf("before any leadership: %+v", o)
		}
		f.lead(s, 1)
		first := submit(s, "a")
		pending(t, first)
		// The same topic again: the core has replayed the uncommitted record, and
		// the refusal waits for it to commit.
		second := submit(s, "a")
		pending(t, second)
		f.commit(s)
		if o := <-first; o.err != nil || o.resp != 6 { // LeaderChange, Begin, 2 features, config, End
			t.Fatalf("first %+v", o)
		}
		if o := <-second; o.err != nil || o.resp != -1 {
			t.Fatalf("second %+v", o)
		}
		third := submit(s, "a")
		if o := <-third; o.err != nil || o.resp != -1 {
			t.Fatalf("with nothing uncommitted %+v", o)
		}
	})
}

func TestActivationRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := newShell(f)
		defer s.Close()
		f.lead(s, 1)
		synctest.Wait()
		got := names(f.records())
		want := []string{"BEGIN_TRANSACTION_RECORD", "FEATURE_LEVEL_RECORD", "FEATURE_LEVEL_RECORD", "CONFIG_RECORD", "END_TRANSACTION_RECORD"}
		if !slices.Equal(got, want) {
			t.Fatalf("records for an empty log %v", got)
		}
		if epoch, ok := s.Active(); !ok || epoch != 1 {
			t.Fatalf("active %v in epoch %d", ok, epoch)
		}
		// The leader dies inside a transaction; the next one aborts it.
		name := "half"
		s.OnCommitted(quorum.Committed{Batches: []quorum.Batch{{Epoch: 1, Records: []recordschema.MetadataRecord{&recordschema.BeginTransactionRecord{Name: &name}}}}})
		f.lose(s, 2)
		f.lead(s, 3)
		synctest.Wait()
		if got := names(f.records())[5:]; got[0] != "ABORT_TRANSACTION_RECORD" {
			t.Fatalf("records after a failover %v", got)
		}
	})
}

func names(records []recordschema.MetadataRecord) []string {
	var out []string
	for _, r := range records {
		out = append(out, recordschema.Name(r))
	}
	return out
}

func TestLeadershipLossFailsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := newShell(f)
		f.lead(s, 1)
		waiting := submit(s, "a")
		pending(t, waiting)
		f.lose(s, 2)
		if o := <-waiting; kerrors.CodeOf(o.err) != kerrors.NotController {
			t.Fatalf("waiting command %+v", o)
		}
		if _, ok := s.Active(); ok {
			t.Fatal("still active")
		}
		f.lead(s, 3)
		again := submit(s, "a") // the core is new: the topic was never committed
		pending(t, again)
		s.Close()
		if o := <-again; kerrors.CodeOf(o.err) != kerrors.NotController {
			t.Fatalf("command at close %+v", o)
		}
		if o := <-submit(s, "b"); kerrors.CodeOf(o.err) != kerrors.NotController {
			t.Fatalf("command after close %+v", o)
		}
	})
}

func TestCommandRunsAgainWhenItsOffsetMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := newShell(f)
		defer s.Close()
		f.lead(s, 1)
		synctest.Wait()
		next, _, _ := f.NextOffset()
		f.mu.Lock()
		f.steal = 3
		f.mu.Unlock()
		a := submit(s, "a")
		pending(t, a)
		f.commit(s)
		if o := <-a; o.err != nil || o.resp != next+3 {
			t.Fatalf("outcome %+v, want offset %d", o, next+3)
		}
	})
}

func TestNoOpsKeepAnIdleLogMoving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := New(Options{
			Log:        f,
			AwaitImage: func(context.Context, int64) (*image.Image, error) { return image.Empty(), nil },
		})
		s.Start()
		defer s.Close()
		f.lead(s, 1)
		time.Sleep(5100 * time.Millisecond)
		synctest.Wait()
		if got := len(f.records()); got != 10 {
			t.Fatalf("%d NoOps in 5.1 s, want 10", got)
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		hold := make(chan struct{})
		s := New(Options{
			Log: f, QueueSize: 4, MaxIdleIntervalMs: -1,
			AwaitImage: func(context.Context, int64) (*image.Image, error) { <-hold; return image.Empty(), nil },
		})
		s.Start()
		defer s.Close()
		f.lead(s, 1)
		synctest.Wait()
		var held []<-chan outcome
		for range 4 { // wait for the image
			held = append(held, submit(s, "a"))
		}
		synctest.Wait()
		if o := <-submit(s, "b"); kerrors.CodeOf(o.err) != kerrors.RequestTimedOut {
			t.Fatalf("one too many: %+v", o)
		}
		close(hold)
		synctest.Wait()
		f.commit(s)
		for _, c := range held {
			if o := <-c; o.err != nil {
				t.Fatalf("held command %+v", o)
			}
		}
	})
}

func TestLargeAtomicResultBecomesTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := newShell(f)
		defer s.Close()
		f.lead(s, 1)
		synctest.Wait()
		before := len(f.records())
		go func() {
			synctest.Wait()
			f.commit(s)
		}()
		_, err := Submit(context.Background(), s, "large", func(*controller.Core, Input) controller.Result[int] {
			records := make([]recordschema.MetadataRecord, quorum.MaxRecordsPerBatch+1)
			for i := range records {
				records[i] = &recordschema.NoOpRecord{}
			}
			return controller.Result[int]{Records: records, Atomic: true}
		})
		if err != nil {
			t.Fatal(err)
		}
		got := f.records()[before:]
		if len(got) != quorum.MaxRecordsPerBatch+3 || got[0].Key() != recordschema.KeyBeginTransaction || got[len(got)-1].Key() != recordschema.KeyEndTransaction {
			t.Fatalf("%d records, first %s", len(got), recordschema.Name(got[0]))
		}
	})
}

func TestPanicFailsTheCommandOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeLog{}
		s := newShell(f)
		defer s.Close()
		f.lead(s, 1)
		_, err := Submit(context.Background(), s, "bad", func(*controller.Core, Input) controller.Result[int] { panic("bug") })
		if kerrors.CodeOf(err) != kerrors.UnknownServerError {
			t.Fatalf("error %v", err)
		}
		a := submit(s, "a")
		pending(t, a)
		f.commit(s)
		if o := <-a; o.err != nil {
			t.Fatalf("the next command %+v", o)
		}
	})
}
