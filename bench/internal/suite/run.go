package suite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
	"github.com/tidemark-io/tidemark/internal/record"
)

// Options of a run.
type Options struct {
	Root   string // of the repository
	Binary string // tidemark under test
	Self   string // this program, for the ceiling
	Dir    string // data of all systems, on the disk to measure
	Quick  bool
	Full   bool // P1 over the whole grid
	// Budget is how long the run may take; see budget.go.
	Budget time.Duration
	// Other is a second binary of Tidemark to compare with; empty: none.
	Other string
	// OtherDurability is strict or replicated.
	OtherDurability string
	Pairs           int
	// Case restricts P1 to cases with this in their names.
	Case string
	// Slow is the number of rounds of what takes minutes (P7, P8).
	Slow int
	Rows []string // empty: all
	// Systems restricts what is measured, by a part of the name; empty: all.
	Systems []string
	// Profiles is a folder for CPU profiles of Tidemark; empty: none.
	Profiles string
	Log      io.Writer
	// Save is called after each row, so that an interrupted run leaves what it has.
	Save func(*report.Results) error
}

// Run is a benchmark run under way.
type Run struct {
	o   Options
	Out *report.Results
	// brokers are all that can run here; running those that are up and warm for
	// P1, P2 and P4.
	brokers  []peer.Peer
	ceilings []peer.Peer
	running  []peer.Peer
	topics   int
	// end is when the run should be over, rowEnd the same for the row.
	end, rowEnd time.Time
	// rabbitNode is set while it runs.
	rabbitNode atomic.Pointer[peer.RabbitMQ]
}

// row is one measure; quick says whether the quick run has it, share how much of
// the time it gets (minutes of a whole run on a quiet box).
type row struct {
	name  string
	quick bool
	share int
	f     func(*Run) error
}

var rows = []row{
	{"P1", true, 14, (*Run).produce},
	{"P2", true, 6, (*Run).fetch},
	{"P4", true, 8, (*Run).latency},
	{"P7", true, 10, (*Run).start},
	{"P6", true, 6, (*Run).memory},
	{"P2-TLS", true, 4, (*Run).fetchTLS},
	{"P8", false, 12, (*Run).many},
	{"P9b", false, 8, (*Run).group},
	{"P12", false, 5, (*Run).rabbit},
	{"P1b", false, 5, (*Run).foreign},
	{"C1", false, 5, (*Run).consumers},
}

// todo are the rows that this run has.
func (r *Run) todo() []row {
	var out []row
	for _, row := range rows {
		if len(r.o.Rows) > 0 && contains(r.o.Rows, row.name) || len(r.o.Rows) == 0 && (row.quick || !r.o.Quick) {
			out = append(out, row)
		}
	}
	return out
}

// New prepares a run and says what is absent.
func New(o Options) (*Run, error) {
	r := &Run{o: o, Out: &report.Results{
		Date: time.Now(), Quick: o.Quick, Settings: map[string][]string{}, Absent: map[string]string{},
	}}
	add := func(p peer.Peer) {
		if r.wanted(p.Name()) {
			r.brokers = append(r.brokers, p)
			r.Out.Settings[p.Name()] = p.Settings()
		}
	}
	add(peer.NewTidemark(o.Binary, "replicated", o.Dir))
	add(peer.NewTidemark(o.Binary, "strict", o.Dir))
	if o.Other != "" {
		add(peer.NewOther(o.Other, o.OtherDurability, o.Dir))
	}
	if k, err := peer.NewKafka(o.Root, o.Dir); err != nil {
		r.Out.Absent[peer.Kafka] = err.Error()
	} else {
		add(k)
	}
	for _, sync := range []bool{false, true} {
		if c := peer.NewCeiling(o.Self, o.Dir, sync); r.wanted(c.Name()) && !(sync && o.Quick) {
			r.ceilings = append(r.ceilings, c)
		}
	}
	if len(r.brokers) == 0 {
		return nil, errors.New("no system to measure")
	}
	r.Out.Box, r.Out.Versions = describe(&o)
	return r, nil
}

func (r *Run) wanted(name string) bool {
	if len(r.o.Systems) == 0 {
		return true
	}
	for _, s := range r.o.Systems {
		if strings.Contains(strings.ToLower(name), strings.ToLower(s)) {
			return true
		}
	}
	return false
}

// All runs the rows; what fails is noted and the rest goes on.
func (r *Run) All() {
	begin := time.Now()
	r.end = begin.Add(r.o.Budget)
	defer r.down()
	todo := r.todo()
	for i, row := range todo {
		at := time.Now()
		r.shareOut(todo, i)
		if !r.over(row.name) {
			r.one(row)
		}
		r.logf("%s took %.0f s", row.name, time.Since(at).Seconds())
		r.Out.Took = time.Since(begin).Round(time.Second).String()
		r.Out.Box["load average at the end"] = loadAverage()
		if err := r.o.Save(r.Out); err != nil {
			r.fail("save", err)
		}
	}
}

// one runs a row. A panic in it is that row's failure, like an error.
func (r *Run) one(row row) {
	defer func() {
		if p := recover(); p != nil {
			r.fail(row.name, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	if err := row.f(r); err != nil {
		r.fail(row.name, err)
	}
}

func contains(list []string, want string) bool {
	for _, s := range list {
		if strings.EqualFold(s, want) {
			return true
		}
	}
	return false
}

func (r *Run) logf(format string, args ...any) {
	fmt.Fprintf(r.o.Log, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func (r *Run) fail(what string, err error) {
	r.logf("%s FAILED: %v", what, err)
	r.Out.Failed = append(r.Out.Failed, fmt.Sprintf("%s: %v", what, err))
}

// add notes a value and shows it.
func (r *Run) add(s report.Series, value float64) {
	r.Out.Add(s, value)
	r.logf("%-4s %-34s %-22s %-12s %s %s", s.Row, s.Case, s.System, s.Metric, report.Figure(value), s.Unit)
}

// topic returns a new name.
func (r *Run) topic() string {
	r.topics++
	return fmt.Sprintf("bench-%d", r.topics)
}

// up starts and warms every system that is not up yet.
func (r *Run) up() {
	if r.running != nil {
		return
	}
	for _, p := range slices.Concat(r.brokers, r.ceilings) {
		if err := r.startWarm(p); err != nil {
			r.fail("start of "+p.Name(), err)
			continue
		}
		r.running = append(r.running, p)
	}
}

func (r *Run) startWarm(p peer.Peer) error {
	if err := peer.Start(p); err != nil {
		return err
	}
	err := r.warm(p)
	if err != nil {
		p.Kill()
	}
	return err
}

// warm lets a just-in-time compiler see the paths that are measured: it writes
// until that gets no faster, which takes a virtual machine on a busy box a while.
func (r *Run) warm(p peer.Peer) error {
	if isCeiling(p) {
		return nil
	}
	const long = 3 * time.Second
	topic, most := r.topic(), 12
	if r.o.Quick {
		most = 4
	}
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: 16}); err != nil {
		return err
	}
	batch, err := load.Build(load.Shape{RecordBytes: 100, BatchBytes: 16 << 10, Codec: record.None}, 1)
	if err != nil {
		return err
	}
	for best, tries := 0.0, 0; tries < most; tries++ {
		w, err := load.Saturate(load.SaturateOptions{
			Addr: p.Addr(), Topic: topic, Partitions: 16, Conns: conns, InFlight: inFlight, Batch: batch, For: long, Limit: 1 << 29,
		})
		if err != nil {
			return err
		}
		rate := float64(w.Bytes) / w.Took.Seconds()
		if rate < 1.1*best {
			break
		}
		best = rate
	}
	ends, err := load.Ends(p.Addr(), topic, 16)
	if err != nil {
		return err
	}
	if _, err := load.Drain(load.DrainOptions{
		Addr: p.Addr(), Topic: topic, Partitions: 16, Conns: 2, PartitionBytes: 1 << 20, MaxBytes: 50 << 20, For: long, Ends: ends,
	}); err != nil {
		return err
	}
	return load.DeleteTopic(p.Addr(), topic)
}

// down stops what is up and removes its data.
func (r *Run) down() {
	for _, p := range r.running {
		p.Kill()
		peer.Remove(p)
	}
	r.running = nil
}

// Abort ends every process of the run, for a run that is interrupted.
func (r *Run) Abort() {
	for _, p := range slices.Concat(r.brokers, r.ceilings, r.running) {
		p.Kill()
	}
	if node := r.rabbitNode.Load(); node != nil {
		node.Stop()
	}
}

func isCeiling(p peer.Peer) bool { return p.Name() == peer.Ceiling || p.Name() == peer.CeilingF }

// settle waits until most of what was written is on disk or deleted, at most a
// few seconds, so that one system's writes are not another's wait.
func settle() {
	deadline := time.Now().Add(1500 * time.Millisecond)
	for time.Now().Before(deadline) && dirtyMiB() > 512 {
		time.Sleep(20 * time.Millisecond)
	}
}

func dirtyMiB() int {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	total := 0
	for line := range strings.Lines(string(b)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "Dirty: %d", &kib); n == 1 {
			total += kib
		} else if n, _ := fmt.Sscanf(line, "Writeback: %d", &kib); n == 1 {
			total += kib
		}
	}
	return total >> 10
}
