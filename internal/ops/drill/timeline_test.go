package drill

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// TestTimeline: seed 004 asks how many partitions stopped and for how long.
func TestTimeline(t *testing.T) {
	tl := newTimeline(4)
	for p := range int32(4) {
		tl.assign(p, int(p/2), at(0))
		tl.processed(p, int(p/2), at(1))
	}
	if ok, counts := tl.running(); !ok || counts[0] != 2 || counts[1] != 2 {
		t.Fatalf("running %v, counts %v", ok, counts)
	}
	tl.begin(at(10))
	tl.processed(0, 0, at(20)) // keeps running
	tl.processed(0, 0, at(90))
	tl.release(1, 0, at(20)) // moves, and needs two stops
	tl.assign(1, 1, at(30))
	tl.processed(1, 1, at(50))
	tl.release(1, 1, at(60))
	tl.assign(1, 2, at(65))
	tl.processed(1, 2, at(70))
	tl.release(2, 1, at(40)) // comes back
	tl.assign(2, 1, at(45))
	tl.processed(2, 1, at(48))
	tl.releaseAll(1, at(80)) // 2 again and 3: their member dies
	tl.assign(3, 2, at(85))
	tl.processed(3, 1, at(86)) // a late record of the dead member ends nothing
	if ok, _ := tl.running(); ok {
		t.Error("partition 2 has no owner and 3 no record yet")
	}
	got, quiet := tl.stops(at(100), memberName)
	want := []PartitionStop{
		{Partition: 1, From: "member-1", To: "member-3", Moved: true, StoppedMs: 40, Stops: 2},
		{Partition: 2, From: "member-2", To: "", Moved: true, StoppedMs: 28, Stops: 2},
		{Partition: 3, From: "member-2", To: "member-3", Moved: true, StoppedMs: 20, Stops: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if quiet != at(70) {
		t.Errorf("quiet %v, want 70ms: from 20 to 90 in partition 0", quiet)
	}
	tl.begin(at(100))
	tl.assign(2, 0, at(110))
	tl.processed(2, 0, at(115))
	tl.processed(3, 2, at(120))
	got, _ = tl.stops(at(130), memberName)
	if len(got) != 2 || got[0].StoppedMs != 15 || got[1].StoppedMs != 20 {
		t.Errorf("stops that were open at the event's begin count from there: %+v", got)
	}
}

// TestLateRelease: a member that hears late of its loss takes nothing from the
// next owner.
func TestLateRelease(t *testing.T) {
	tl := newTimeline(1)
	tl.assign(0, 1, at(0))
	tl.processed(0, 1, at(1))
	tl.release(0, 0, at(2))
	if ok, _ := tl.running(); !ok {
		t.Error("member 0 does not own the partition")
	}
}

func TestLedger(t *testing.T) {
	l := newLedger(2)
	for _, offset := range []int64{0, 1, 3, 1, 1} {
		if err := l.processed(0, offset); err != nil {
			t.Fatal(err)
		}
	}
	n, first := l.missed([]int64{5, 1})
	if d := cmp.Diff([]MissedRecord{{0, 2}, {0, 4}, {1, 0}}, first); d != "" || n != 3 {
		t.Errorf("%d missed: %s", n, d)
	}
	if l.repeated != 2 || l.complete([]int64{5, 1}) || !l.complete([]int64{2, 0}) {
		t.Errorf("%+v", l)
	}
	if err := l.processed(0, MaxRecords); err == nil {
		t.Error("a record beyond the bound is counted")
	}
}

func TestValidate(t *testing.T) {
	good := Defaults()
	good.Bootstrap = []string{"x"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no broker": func(o *Options) { o.Bootstrap = nil }, "protocol": func(o *Options) { o.Protocols = []Protocol{"lazy"} },
		"no protocol": func(o *Options) { o.Protocols = nil }, "members": func(o *Options) { o.Members = 1 },
		"partitions": func(o *Options) { o.Partitions = 0 }, "rate": func(o *Options) { o.Rate = 0 },
		"session": func(o *Options) { o.Session = o.Heartbeat }, "timeout": func(o *Options) { o.Timeout = o.Session },
	} {
		o := good
		change(&o)
		if o.Validate() == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
