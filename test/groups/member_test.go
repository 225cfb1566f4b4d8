package groups

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// kind is a client library in one of its protocols.
type kind struct {
	name string
	// argv is the command of one member.
	argv func(bootstrap, topic, group, instance string) []string
	env  []string
	// static says that the library has group.instance.id.
	static bool
	// rolls is how many members are restarted one after the other; JVMs are dear.
	rolls int
	// json says that the member prints what kafka-verifiable-consumer prints.
	json bool
}

// process is one member as a process of its own.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	done chan struct{}
	read sync.WaitGroup

	mu     sync.Mutex
	has    map[int32]bool
	events []string // assigned and revoked lines, in order
	stderr strings.Builder
}

// start starts a member; it is killed with the test at the latest.
func start(t testing.TB, k kind, c *checker, name, bootstrap, topic, group, instance string) *process {
	t.Helper()
	argv := k.argv(bootstrap, topic, group, instance)
	p := &process{t: t, name: name, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), has: map[int32]bool{}}
	p.cmd.Env = append(os.Environ(), k.env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.read.Go(func() { p.lines(out, func(line string) { p.line(c, k.json, line) }) })
	p.read.Go(func() { p.lines(errs, p.complain) })
	go func() { p.read.Wait(); _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s\nevents: %q\nstandard error:\n%s", name, p.events, p.stderr.String())
		}
	})
	return p
}

func (p *process) lines(r io.Reader, each func(string)) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		each(sc.Text())
	}
}

func (p *process) complain(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stderr.Len() < 64<<10 {
		p.stderr.WriteString(line + "\n")
	}
}

// line takes in "assigned 0,1", "revoked 0,1" or "*", "lost 0", "record PARTITION OFFSET".
func (p *process) line(c *checker, isJSON bool, line string) {
	if isJSON {
		p.verifiable(c, line)
		return
	}
	verb, rest, _ := strings.Cut(line, " ")
	if verb == "record" {
		part, offset, _ := strings.Cut(rest, " ")
		c.record(p.name, int32(number(p.t, part)), number(p.t, offset))
		return
	}
	var parts []int32
	for _, s := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' }) {
		if s == "*" {
			continue
		}
		parts = append(parts, int32(number(p.t, s)))
	}
	p.change(verb, parts, rest == "*")
}

func number(t testing.TB, s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		t.Errorf("a member printed %q: %v", s, err)
	}
	return n
}

func (p *process) change(verb string, parts []int32, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, fmt.Sprint(verb, parts))
	if all {
		clear(p.has)
	}
	for _, part := range parts {
		if verb == "assigned" {
			p.has[part] = true
		} else {
			delete(p.has, part)
		}
	}
}

// verifiable takes in a line of kafka-verifiable-consumer.
func (p *process) verifiable(c *checker, line string) {
	var e struct {
		Name       string `json:"name"`
		Partitions []struct {
			Partition int32 `json:"partition"`
			Count     int64 `json:"count"`
			Min       int64 `json:"minOffset"`
			Max       int64 `json:"maxOffset"`
		} `json:"partitions"`
	}
	if json.Unmarshal([]byte(line), &e) != nil {
		p.complain(line)
		return
	}
	var parts []int32
	for _, q := range e.Partitions {
		parts = append(parts, q.Partition)
		if e.Name == "records_consumed" {
			if q.Count != q.Max-q.Min+1 {
				p.t.Errorf("%s read %d records from %d to %d", p.name, q.Count, q.Min, q.Max)
			}
			for o := q.Min; o <= q.Max; o++ {
				c.record(p.name, q.Partition, o)
			}
		}
	}
	switch e.Name {
	case "partitions_assigned":
		p.change("assigned", parts, false)
	case "partitions_revoked":
		p.change("revoked", parts, false)
	}
}

func (p *process) owned() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.has)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// leave ends the member as a clean shutdown does.
func (p *process) leave() {
	p.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Errorf("%s does not end after SIGTERM", p.name)
		p.crash()
	}
}

// crash is kill -9.
func (p *process) crash() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
