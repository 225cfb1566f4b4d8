package runtime

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tidemark-io/tidemark/internal/coordinator"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJavaHashPartition(t *testing.T) {
	// Values of String.hashCode: "" 0, "a" 97, "hello" 99162322,
	// "polygenelubricants" -2147483648, and two UTF-16 units for U+1F30A.
	for s, want := range map[string]int32{"": 0, "a": 97, "hello": 99162322, "polygenelubricants": -2147483648, "\U0001f30a": 31*0xd83c + 0xdf0a} {
		if got := javaHash(s); got != want {
			t.Errorf("hash of %q is %d, want %d", s, got, want)
		}
	}
	if got := PartitionFor("polygenelubricants", 50); got != 0 {
		t.Errorf("partition %d", got)
	}
	if got := PartitionFor("hello", 50); got != 99162322%50 {
		t.Errorf("partition %d", got)
	}
}

func TestWriteReadReload(t *testing.T) {
	g := newRig(t, nil).elect()
	g.mustSet("k1", "a")
	g.mustSet("k2", "b")
	g.wantState("k1=a k2=b")
	g.r.OnResigned(tp0)
	if _, err := g.read(); kerrors.CodeOf(err) != kerrors.NotCoordinator {
		t.Fatalf("after the resignation: %v", err)
	}
	g.log.mu.Lock()
	g.log.epoch = 2
	g.log.mu.Unlock()
	g.elect()
	g.wantState("k1=a k2=b")
	g.mustSet("k1", "c")
	g.wantState("k1=c k2=b")
}

func TestUnknownPartitionAndLoading(t *testing.T) {
	g := newRig(t, nil)
	if r := g.write(set("k1", "a")); kerrors.CodeOf(r.err) != kerrors.NotCoordinator {
		t.Fatal(r.err)
	}
	g.r.loading <- struct{}{} // keep the loaders busy
	g.r.loading <- struct{}{}
	g.r.loading <- struct{}{}
	g.r.loading <- struct{}{}
	g.r.OnElected(tp0, 1)
	if r := g.write(set("k1", "a")); kerrors.CodeOf(r.err) != kerrors.CoordinatorLoadInProgress {
		t.Fatal(r.err)
	}
	for range 4 {
		<-g.r.loading
	}
	g.awaitActive()
	g.mustSet("k1", "a")
}

// TestResponseWaitsForTheHighWatermark: nothing is answered or read before it
// is committed; a request without records waits for what it saw.
func TestResponseWaitsForTheHighWatermark(t *testing.T) {
	g := newRig(t, nil).elect()
	g.mustSet("k1", "a")
	g.log.mu.Lock()
	g.log.hold = true
	g.log.mu.Unlock()
	write := g.start(set("k1", "b"))
	look := g.start(func(s *kv) (coordinator.Result[string], error) {
		v, _ := s.m.Get("k1", 1<<62)
		return coordinator.Result[string]{Response: "saw " + v}, nil
	})
	g.wantState("k1=a")
	select {
	case r := <-write:
		t.Fatalf("answered before the commit: %+v", r)
	case r := <-look:
		t.Fatalf("answered before the commit: %+v", r)
	default:
	}
	g.log.release(2)
	if r := g.wait(write); r.err != nil || r.v != "set k1" {
		t.Fatalf("%+v", r)
	}
	if r := g.wait(look); r.err != nil || r.v != "saw b" {
		t.Fatalf("%+v", r)
	}
	g.wantState("k1=b")
}

// TestBatching: what queues up behind an append goes into one batch.
func TestBatching(t *testing.T) {
	g := newRig(t, nil).elect()
	g.log.gate = make(chan struct{})
	first := g.start(set("k0", "x"))
	g.log.gate <- struct{}{}
	if r := g.wait(first); r.err != nil {
		t.Fatal(r.err)
	}
	// The first of these is appended alone or with others; the rest waits
	// behind its append and shares the next batches.
	var chans []chan result
	for i := range 100 {
		chans = append(chans, g.start(set(fmt.Sprint("k", i%10), fmt.Sprint(i))))
	}
	close(g.log.gate)
	for _, ch := range chans {
		if r := g.wait(ch); r.err != nil {
			t.Fatal(r.err)
		}
	}
	g.log.mu.Lock()
	appends, end := g.log.appends, g.log.end
	g.log.mu.Unlock()
	if end != 101 || appends > 20 {
		t.Fatalf("%d records in %d batches", end, appends)
	}
}

func TestFixedLinger(t *testing.T) {
	g := newRig(t, func(o *Options[*kv]) { o.LingerMs = 5 }).elect()
	var chans []chan result
	for i := range 20 {
		chans = append(chans, g.start(set(fmt.Sprint("k", i%10), fmt.Sprint(i))))
	}
	for _, ch := range chans {
		if r := g.wait(ch); r.err != nil {
			t.Fatal(r.err)
		}
	}
	g.wantState("k0=10 k1=11 k2=12 k3=13 k4=14 k5=15 k6=16 k7=17 k8=18 k9=19")
}

// TestFailedAppendLeavesNoTrace maps each error of the log as kafka-surface
// 2.10 says, and the shard goes on from where it was.
func TestFailedAppendLeavesNoTrace(t *testing.T) {
	g := newRig(t, nil).elect()
	g.mustSet("k1", "a")
	for code, want := range map[kerrors.Code]kerrors.Code{
		kerrors.NotEnoughReplicas: kerrors.CoordinatorNotAvailable, kerrors.UnknownTopicOrPartition: kerrors.CoordinatorNotAvailable,
		kerrors.RequestTimedOut: kerrors.CoordinatorNotAvailable, kerrors.NotEnoughReplicasAfterAppend: kerrors.CoordinatorNotAvailable,
		kerrors.NotLeaderOrFollower: kerrors.NotCoordinator, kerrors.KafkaStorageError: kerrors.NotCoordinator,
		kerrors.MessageTooLarge: kerrors.UnknownServerError, kerrors.RecordListTooLarge: kerrors.UnknownServerError,
	} {
		g.log.mu.Lock()
		g.log.failNext = fmt.Errorf("append: %w", code)
		g.log.mu.Unlock()
		if r := g.write(set("k1", "lost")); kerrors.CodeOf(r.err) != want {
			t.Errorf("%v becomes %v, want %v", code, r.err, want)
		}
		g.wantState("k1=a")
	}
	g.mustSet("k2", "b")
	g.wantState("k1=a k2=b")
	if r := g.write(func(*kv) (coordinator.Result[string], error) {
		return coordinator.Result[string]{}, kerrors.IllegalGeneration
	}); kerrors.CodeOf(r.err) != kerrors.IllegalGeneration {
		t.Errorf("the core's own error becomes %v", r.err)
	}
}

func TestTooLargeForABatch(t *testing.T) {
	g := newRig(t, nil)
	g.log.maxBatch = 1000
	g.elect()
	if r := g.write(set("k1", strings.Repeat("x", 1000))); kerrors.CodeOf(r.err) != kerrors.UnknownServerError {
		t.Fatal(r.err)
	}
	var chans []chan result
	for i := range 10 { // together they need several batches
		chans = append(chans, g.start(set(fmt.Sprint("k", i), strings.Repeat("y", 300))))
	}
	for _, ch := range chans {
		if r := g.wait(ch); r.err != nil {
			t.Fatal(r.err)
		}
	}
	for _, b := range g.log.batches {
		if len(b) > 1000 {
			t.Fatalf("a batch of %d bytes", len(b))
		}
	}
}

// TestNonAtomicRecordsAreSplit: house keeping that does not fit one batch goes
// into several, and is answered once, when the last is committed.
func TestNonAtomicRecordsAreSplit(t *testing.T) {
	g := newRig(t, nil)
	g.log.maxBatch = 1000
	g.elect()
	var recs []coordinator.Record
	for i := range 50 {
		recs = append(recs, coordinator.Record{Key: []byte(fmt.Sprint("k", i%10)), Value: []byte(strings.Repeat("z", 100))})
	}
	ch := g.start(func(*kv) (coordinator.Result[string], error) {
		return coordinator.Result[string]{Records: recs, Response: "swept", NonAtomic: true}, nil
	})
	if r := g.wait(ch); r.err != nil || r.v != "swept" {
		t.Fatalf("%+v", r)
	}
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	if g.log.end != 50 || len(g.log.batches) < 6 {
		t.Fatalf("%d records in %d batches", g.log.end, len(g.log.batches))
	}
	if len(ch) != 0 {
		t.Fatal("answered twice")
	}
}

func TestWriteTimeout(t *testing.T) {
	g := newRig(t, func(o *Options[*kv]) { o.WriteTimeout = 5 * time.Millisecond }).elect()
	g.log.mu.Lock()
	g.log.hold = true
	g.log.mu.Unlock()
	if r := g.write(set("k1", "a")); kerrors.CodeOf(r.err) != kerrors.CoordinatorNotAvailable {
		t.Fatal(r.err)
	}
	g.log.release(1)
	g.wantState("k1=a") // it was committed all the same
}

// TestPanicFencesTheShardOnly: the request that panics fails, the shard loads
// again, and nothing else is lost.
func TestPanicFencesTheShardOnly(t *testing.T) {
	g := newRig(t, nil).elect()
	g.mustSet("k1", "a")
	r := g.write(func(*kv) (coordinator.Result[string], error) { panic("bad request") })
	if kerrors.CodeOf(r.err) != kerrors.UnknownServerError {
		t.Fatal(r.err)
	}
	g.awaitActive()
	g.wantState("k1=a")
	// A panic in the middle of applying records leaves nothing of them.
	r = g.write(func(s *kv) (coordinator.Result[string], error) {
		s.boom = "k3"
		return coordinator.Result[string]{Records: []coordinator.Record{{Key: []byte("k2"), Value: []byte("x")}, {Key: []byte("k3"), Value: []byte("x")}}}, nil
	})
	if r.err == nil {
		t.Fatal("no error")
	}
	g.awaitActive()
	g.wantState("k1=a")
	g.mustSet("k3", "now")
	g.wantState("k1=a k3=now")
}

// TestForeignRecords: somebody else's records in the partition are taken in by
// a reload, before or after the shard writes.
func TestForeignRecords(t *testing.T) {
	g := newRig(t, nil).elect()
	g.mustSet("k1", "a")
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(1, []byte("k5"), []byte("foreign"))
	batch, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	g.log.mu.Lock()
	g.log.appendLocked(batch)
	g.log.mu.Unlock()
	r := g.write(set("k1", "b")) // lands one offset further than expected
	if kerrors.CodeOf(r.err) != kerrors.NotCoordinator {
		t.Fatal(r.err)
	}
	g.awaitActive()
	g.wantState("k1=b k5=foreign")
	g.mustSet("k2", "c")
	g.wantState("k1=b k2=c k5=foreign")
}

func TestCorruptLogDoesNotLoad(t *testing.T) {
	g := newRig(t, nil).elect()
	g.mustSet("k1", "a")
	g.log.mu.Lock()
	g.log.batches[0][len(g.log.batches[0])-1] ^= 1
	g.log.epoch = 2
	g.log.mu.Unlock()
	g.r.OnElected(tp0, 2)
	for {
		_, err := g.read()
		if code := kerrors.CodeOf(err); code == kerrors.NotCoordinator {
			return
		} else if code != kerrors.CoordinatorLoadInProgress {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestQueueIsBounded(t *testing.T) {
	g := newRig(t, func(o *Options[*kv]) { o.MaxQueued = 10 }).elect()
	g.log.mu.Lock()
	g.log.hold = true
	g.log.mu.Unlock()
	var refused int
	var chans []chan result
	for i := range 100 {
		ch := g.start(set("k1", fmt.Sprint(i)))
		select {
		case r := <-ch:
			if kerrors.CodeOf(r.err) != kerrors.CoordinatorLoadInProgress {
				t.Fatal(r.err)
			}
			refused++
		default:
			chans = append(chans, ch)
		}
	}
	if refused == 0 {
		t.Fatal("nothing was refused")
	}
	g.log.mu.Lock()
	g.log.hold = false
	g.log.mu.Unlock()
	for _, ch := range chans {
		for len(ch) == 0 {
			g.log.mu.Lock()
			end := g.log.end
			g.log.mu.Unlock()
			g.log.release(end)
			time.Sleep(time.Millisecond)
		}
	}
}

// TestConcurrentResignations: every request is answered exactly once while the
// shard comes and goes.
func TestConcurrentResignations(t *testing.T) {
	g := newRig(t, nil).elect()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r := g.write(set(fmt.Sprint("k", w), fmt.Sprint(i)))
				if code := kerrors.CodeOf(r.err); code != kerrors.None && code != kerrors.NotCoordinator && code != kerrors.CoordinatorLoadInProgress {
					t.Error(r.err)
				}
			}
		})
	}
	for range 50 {
		g.r.OnResigned(tp0)
		g.log.mu.Lock()
		g.log.epoch++
		g.log.mu.Unlock()
		g.elect()
	}
	close(stop)
	wg.Wait()
	// What is in memory equals what the log says.
	before, err := g.read()
	if err != nil {
		t.Fatal(err)
	}
	g.log.mu.Lock()
	g.log.epoch++
	g.log.mu.Unlock()
	g.elect()
	g.wantState(before)
	if errors.Is(err, errUnloaded) {
		t.Fatal(err)
	}
}

// TestALateLoadTakesNothing: a shard whose load comes late, when the partition
// was elected again and is served by a new shard, must not take the watermarks
// away from that: everything written there would wait for ever.
func TestALateLoadTakesNothing(t *testing.T) {
	begun, late := make(chan struct{}), make(chan struct{})
	first := true // of one loader after the other: begun orders them
	g := newRig(t, func(o *Options[*kv]) {
		o.WriteTimeout = 20 * time.Second
		o.NewShard = func(types.TopicPartition) *kv {
			if first {
				first = false
				close(begun)
				<-late
			}
			return newKV()
		}
	})
	g.r.OnElected(tp0, 1)
	<-begun
	g.log.mu.Lock()
	g.log.epoch = 2
	g.log.mu.Unlock()
	g.elect()
	g.mustSet("k", "a")
	loaders := len(g.r.loading)
	close(late)
	for len(g.r.loading) == loaders {
		time.Sleep(time.Millisecond)
	}
	g.mustSet("k", "b")
}
