package consumer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// childEnv makes the test binary a consumer of its own, so that it can be killed.
const childEnv = "CONSUMER_TEST_CHILD"

// childConfig is what a child consumer needs.
type childConfig struct {
	Brokers      []string
	Group, Topic string
	Protocol     Protocol
	Drain        time.Duration
	Session      time.Duration
	Seed         uint64
}

// childMain consumes until SIGTERM, then closes within its drain limit. Every
// finished record is one line on standard output, written before the handler
// returns: the effect happened, whatever becomes of the process.
func childMain() int {
	var cc childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &cc); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cfg := (&cluster{seeds: cc.Brokers}).config(cc.Group, cc.Topic)
	cfg.Protocol, cfg.Order, cfg.DrainTimeout, cfg.SessionTimeout = cc.Protocol, OrderNone, max(cc.Drain, time.Millisecond), cc.Session
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	c, err := Open(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(cc.Seed, 1))
	err = c.Handle(func(_ context.Context, r Record) Outcome {
		mu.Lock()
		wait := time.Duration(20+rng.IntN(61)) * time.Millisecond
		mu.Unlock()
		time.Sleep(wait) // the work
		fmt.Printf("done %d %d\n", r.Partition, r.Offset)
		return Done
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	<-stop
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// round is one group that consumes 1000 records while its members come, go and
// die.
type round struct {
	t            *testing.T
	cl           *cluster
	topic, group string
	protocol     Protocol
	rng          *rand.Rand

	mu   sync.Mutex
	done map[[2]int64]int
	all  []*exec.Cmd
	wg   sync.WaitGroup
}

const (
	c071Records    = 1000
	c071Partitions = 4
)

func (r *round) spawn(drain, session time.Duration) *exec.Cmd {
	cc := childConfig{r.cl.seeds, r.group, r.topic, r.protocol, drain, session, r.rng.Uint64()}
	b, _ := json.Marshal(cc)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(b))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.t.Error(err)
		return nil
	}
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			f := strings.Fields(sc.Text())
			if len(f) != 3 || f[0] != "done" {
				continue
			}
			p, _ := strconv.ParseInt(f[1], 10, 32)
			o, _ := strconv.ParseInt(f[2], 10, 64)
			r.mu.Lock()
			r.done[[2]int64{p, o}]++
			r.mu.Unlock()
		}
		_ = cmd.Wait()
	}()
	r.mu.Lock()
	r.all = append(r.all, cmd)
	r.mu.Unlock()
	return cmd
}

// check compares the committed offsets with what is finished. Offsets are read
// first: what was finished by then arrives on the pipe soon, or never.
func (r *round) check() (ends int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rs, err := r.cl.admin(r.t).FetchOffsets(ctx, r.group)
	if err != nil {
		return 0
	}
	for p := range int64(c071Partitions) {
		o, ok := rs.Lookup(r.topic, int32(p))
		if !ok || o.At < 0 {
			continue
		}
		// What a child printed takes its way through a pipe.
		if !within(patience, func() bool { return o.At <= r.firstUnfinished(p) }) {
			r.t.Errorf("partition %d: %d is committed, but %d is not finished", p, o.At, r.firstUnfinished(p))
			return c071Partitions
		}
		if o.At == c071Records/c071Partitions {
			ends++
		}
	}
	return ends
}

func (r *round) firstUnfinished(p int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for o := int64(0); ; o++ {
		if r.done[[2]int64{p, o}] == 0 {
			return o
		}
	}
}

// run lets members come and go until the group is at the end. clean rounds only
// close, with enough time to drain.
func (r *round) run(clean bool) {
	drain := func() time.Duration {
		if clean {
			return 5 * time.Second
		}
		return time.Duration(r.rng.IntN(1000)) * time.Millisecond
	}
	// A member that is killed is missed soon. In clean rounds every member says
	// goodbye, and one that the machine does not let run for a while is not expelled.
	session := 1500 * time.Millisecond
	if clean {
		session = patience
	}
	for steps := 0; r.check() < c071Partitions && steps < 40; steps++ {
		a := r.spawn(drain(), session)
		if a == nil {
			return
		}
		var b *exec.Cmd
		r.watch(200*time.Millisecond, 2*time.Second)
		what := r.rng.IntN(3)
		if !clean && what == 2 {
			b = r.spawn(drain(), session)
			r.watch(200*time.Millisecond, 2*time.Second)
		}
		for _, cmd := range []*exec.Cmd{a, b} {
			if cmd == nil {
				continue
			}
			if !clean && what == 1 {
				_ = cmd.Process.Kill()
			} else {
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		}
		r.wg.Wait()
	}
	r.toTheEnd()
	if ends := r.check(); ends < c071Partitions {
		r.t.Errorf("only %d partitions are at the end", ends)
	}
	twice := 0
	for p := range int64(c071Partitions) {
		for o := range int64(c071Records / c071Partitions) {
			switch n := r.done[[2]int64{p, o}]; {
			case n == 0:
				r.t.Errorf("record %d of partition %d was never finished", o, p)
			case n > 1:
				twice++
			}
		}
	}
	if clean && twice > 0 {
		r.t.Errorf("%d records were finished more than once over clean closes", twice)
	}
}

// toTheEnd lets a last member finish what the others left: on a slow machine they
// come and go before they have read much, and nothing is wrong with that.
func (r *round) toTheEnd() {
	if r.check() == c071Partitions {
		return
	}
	last := r.spawn(5*time.Second, patience)
	if last == nil {
		return
	}
	within(patience, func() bool { return r.check() == c071Partitions })
	_ = last.Process.Signal(syscall.SIGTERM)
	r.wg.Wait()
}

// watch checks at every instant of a random while.
func (r *round) watch(from, to time.Duration) {
	end := time.Now().Add(from + time.Duration(r.rng.Int64N(int64(to-from))))
	for time.Now().Before(end) {
		r.check()
		time.Sleep(50 * time.Millisecond) // the while is the scenario
	}
}

// TestC071_ClosingWithWorkInFlight is field case C071; every fifth round has clean
// closes only. Twenty rounds keep the suite within minutes; CONSUMER_ROUNDS=50 is
// the whole case.
func TestC071_ClosingWithWorkInFlight(t *testing.T) {
	rounds := 20
	if s := os.Getenv("CONSUMER_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	} else if testing.Short() {
		rounds = 5
	}
	everywhere(t, func(t *testing.T, cl *cluster) {
		seed := testkit.Seed(t)
		slots := make(chan struct{}, 6) // at the same time
		var wg sync.WaitGroup
		for i := range rounds {
			wg.Add(1)
			slots <- struct{}{}
			r := &round{
				t: t, cl: cl, topic: cl.topic(t, c071Partitions), group: unique(t, "g"), protocol: Protocol(i % 3),
				rng: rand.New(rand.NewPCG(seed, uint64(i))), done: map[[2]int64]int{},
			}
			for p := range int32(c071Partitions) {
				cl.produce(t, r.topic, p, 0, c071Records/c071Partitions, 0)
			}
			go func() {
				defer wg.Done()
				defer func() { <-slots }()
				r.run(i%5 == 4)
			}()
		}
		wg.Wait()
	})
}
