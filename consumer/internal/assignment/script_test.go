package assignment

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark-io/tidemark/consumer/beacon"
	"github.com/tidemark-io/tidemark/consumer/internal/dispatch"
)

// script runs commands against one assignment; every command prints the state.
type script struct {
	a   *Assignment
	now int64
	its map[int64]*Item
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{its: map[int64]*Item{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.run(t, d)
		})
	})
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.now += 10
	out := ""
	switch d.Cmd {
	case "new":
		s.create(t, d)
	case "deliver":
		for _, arg := range d.CmdArgs {
			var o int64
			fmt.Sscan(arg.Key, &o)
			var key []byte
			if len(arg.Vals) > 0 {
				key = []byte(arg.Vals[0])
			}
			if v := s.a.Deliver(s.now, o, 1, key, 100, o); v != Accepted {
				out += fmt.Sprintf("%d: %s\n", o, [...]string{"accepted", "restored", "regressed", "refused"}[v])
			}
		}
	case "advance":
		s.a.Advance(s.offset(d))
	case "start":
		var got []string
		for it := s.a.Next(s.now); it != nil; it = s.a.Next(s.now) {
			s.its[it.Offset] = it
			got = append(got, fmt.Sprint(it.Offset))
		}
		out = "started " + strings.Join(got, " ") + "\n"
	case "done", "wait", "due", "quarantine":
		for _, arg := range d.CmdArgs {
			var o int64
			fmt.Sscan(arg.Key, &o)
			if !s.move(d.Cmd, s.its[o]) {
				out += fmt.Sprintf("%d: refused\n", o)
			}
		}
	case "close-intake":
		s.a.CloseIntake()
	case "poison":
		out = fmt.Sprintf("poison head: %v\n", s.a.PoisonHead(int(s.offset(d))))
	case "beacon":
		return beacon.Encode(s.a.Snapshot(s.now), 4096) + "\n"
	}
	return out + s.state()
}

func (s *script) create(t *testing.T, d *datadriven.TestData) {
	o := Options{Generation: 1, StartEpoch: -1}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "start":
			arg.Scan(t, 0, &o.Start)
		case "order":
			o.Order = map[string]dispatch.Order{"key": dispatch.ByKey, "partition": dispatch.ByPartition, "none": dispatch.None}[arg.Vals[0]]
		case "restored":
			for _, v := range arg.Vals {
				var r beacon.Run
				fmt.Sscanf(v, "%d..%d", &r.First, &r.Last)
				o.Restored = append(o.Restored, r)
			}
		}
	}
	s.a = New(o)
}

func (s *script) move(cmd string, it *Item) bool {
	switch {
	case it == nil:
		return false
	case cmd == "done":
		return s.a.Close(it, s.now)
	case cmd == "wait":
		it.Attempts++
		return s.a.Wait(it, s.now, "refused")
	case cmd == "due":
		return s.a.Due(it, s.now)
	}
	return s.a.Quarantine(it, s.now)
}

func (s *script) offset(d *datadriven.TestData) (o int64) {
	fmt.Sscan(d.CmdArgs[0].Key, &o)
	return o
}

func (s *script) state() string {
	a := s.a
	oldest := "none"
	if it := a.Oldest(); it != nil {
		oldest = fmt.Sprintf("%d/%s", it.Offset, it.Stage)
	}
	return fmt.Sprintf("effect=%d position=%d queued=%d running=%d retry=%d quarantining=%d bytes=%d ahead=%v oldest=%s\n",
		a.Effect(), a.Position(), a.Count(Queued), a.Count(Running), a.Count(RetryWait), a.Count(Quarantining), a.Load().Bytes, a.CompletedSet(), oldest)
}
