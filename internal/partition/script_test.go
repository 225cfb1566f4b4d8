package partition

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// TestScripts runs the scripts in testdata; each is named after what it proves.
//
//	new [strict=true] [min-isr=1] [hw=0] [node=1]      a replica of broker 1
//	broker id=2 [epoch=20] [fenced] [stopping] [gone]   what the metadata says
//	leader epoch=5 pe=1 replicas=1,2,3 isr=1,2,3 [end=] [durable=] [start=] [now=]
//	follower epoch=6 pe=2 leader=2 replicas=1,2,3 [end=]
//	append end=10 [now=] | durable at=10 [now=] | fetch id=2 at=10 [durable=] [epoch=] [start=] [now=]
//	fetched-log end= durable= leader-hw= | truncate end=
//	tick now= | alter-result [token=] [code=] [epoch=] [pe=] [isr=] | configure [min-isr=] [strict=]
//	admit acks=-1 | acked required=10 reign=5 | check epoch=4 | low | resign
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		h := &harness{brokers: map[int32]Broker{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return h.run(t, d) })
	})
}

type harness struct {
	c       *Core
	cfg     Config
	brokers map[int32]Broker
	now     int64
	log     LogEnds
}

type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) int(name string, def int64) int64 {
	for _, arg := range a.d.CmdArgs {
		if arg.Key == name {
			v, err := strconv.ParseInt(arg.Vals[0], 10, 64)
			if err != nil {
				a.d.Fatalf(a.t, "%s: %v", name, err)
			}
			return v
		}
	}
	return def
}

func (a args) ids(name string) []int32 {
	var out []int32
	for _, arg := range a.d.CmdArgs {
		if arg.Key != name {
			continue
		}
		for _, v := range arg.Vals {
			id, err := strconv.Atoi(v)
			if err != nil {
				a.d.Fatalf(a.t, "%s: %v", name, err)
			}
			out = append(out, int32(id))
		}
	}
	return out
}

func (h *harness) run(t *testing.T, d *datadriven.TestData) string {
	a := args{t, d}
	h.now = a.int("now", h.now)
	switch d.Cmd {
	case "new":
		h.cfg = Config{
			NodeID: int32(a.int("node", 1)), LagTimeMaxMs: 1000, MinISR: int(a.int("min-isr", 1)), Strict: d.HasArg("strict"),
			Brokers: func(id int32) Broker { return h.brokers[id] },
		}
		h.c = New(h.cfg, a.int("hw", 0))
		h.log = LogEnds{}
		return ""
	case "broker":
		id := int32(a.int("id", 0))
		h.brokers[id] = Broker{
			Known: !d.HasArg("gone"), Epoch: a.int("epoch", 10*int64(id)), Fenced: d.HasArg("fenced"), ShuttingDown: d.HasArg("stopping"),
		}
		return ""
	case "admit":
		return h.c.Admit(int16(a.int("acks", -1))).Name() + "\n"
	case "acked":
		done, code := h.c.Acked(a.int("required", 0), int32(a.int("reign", int64(h.c.Reign()))))
		return fmt.Sprintf("done=%t %s\n", done, code.Name())
	case "check":
		return h.c.CheckEpoch(int32(a.int("epoch", -1))).Name() + "\n"
	case "low":
		return fmt.Sprintf("low watermark %d\n", h.c.LowWatermark())
	}
	fx, note := h.input(a)
	return note + h.describe(fx)
}

// input runs the commands that are inputs of the core.
func (h *harness) input(a args) (fx Effects, note string) {
	h.log.End = a.int("end", h.log.End)
	h.log.Start = a.int("start", h.log.Start)
	h.log.Durable = a.int("durable", h.log.Durable)
	switch a.d.Cmd {
	case "leader", "follower":
		st := State{
			Leader: int32(a.int("leader", int64(h.cfg.NodeID))), LeaderEpoch: int32(a.int("epoch", 0)), PartitionEpoch: int32(a.int("pe", 0)),
			Replicas: a.ids("replicas"), ISR: a.ids("isr"), Recovering: a.d.HasArg("recovering"),
		}
		if a.d.Cmd == "leader" {
			return h.c.BecomeLeader(h.now, st, h.log), ""
		}
		return h.c.BecomeFollower(st, h.log), ""
	case "append":
		return h.c.LocalAppended(h.now, h.log.End), ""
	case "durable":
		h.log.Durable = a.int("at", h.log.Durable)
		return h.c.LocalDurable(h.now, h.log.Durable), ""
	case "fetch":
		fx, code := h.c.ReplicaFetched(h.now, ReplicaFetch{
			ReplicaID: int32(a.int("id", 0)), FetchOffset: a.int("at", 0), Durable: a.int("durable", UnknownOffset),
			BrokerEpoch: a.int("epoch", 10*a.int("id", 0)), LogStart: a.int("start", 0), LeaderEnd: h.log.End,
		})
		if code != kerrors.None {
			note = code.Name() + "\n"
		}
		return fx, note
	case "fetched-log":
		return h.c.FollowerAppended(h.log, a.int("leader-hw", 0)), ""
	case "truncate":
		h.log.Durable = min(h.log.Durable, h.log.End)
		return h.c.Truncated(h.log), ""
	case "tick":
		return h.c.Tick(h.now), ""
	case "alter-result":
		return h.c.AlterPartitionResult(h.now, AlterResult{
			Token: a.int("token", h.c.nextToken), Code: codeNamed(a), LeaderEpoch: int32(a.int("epoch", int64(h.c.leaderEpoch))),
			PartitionEpoch: int32(a.int("pe", int64(h.c.partitionEpoch))), ISR: a.ids("isr"),
		}), ""
	case "configure":
		h.cfg.MinISR = int(a.int("min-isr", int64(h.cfg.MinISR)))
		return h.c.Configure(h.now, h.cfg), ""
	case "resign":
		return h.c.Resign(), ""
	}
	a.d.Fatalf(a.t, "unknown command %s", a.d.Cmd)
	return fx, ""
}

func codeNamed(a args) kerrors.Code {
	for _, arg := range a.d.CmdArgs {
		if arg.Key != "code" {
			continue
		}
		for c := kerrors.Code(-1); c < 134; c++ {
			if c.Name() == arg.Vals[0] {
				return c
			}
		}
		a.d.Fatalf(a.t, "unknown code %s", arg.Vals[0])
	}
	return kerrors.None
}

func (h *harness) describe(fx Effects) string {
	var b strings.Builder
	if fx.NewEpoch && h.c.IsLeader() {
		fmt.Fprintf(&b, "epoch %d starts at %d\n", h.c.LeaderEpoch(), fx.EpochStart)
	}
	if fx.RoleChanged {
		fmt.Fprintf(&b, "role changed\n")
	}
	if fx.Advanced {
		fmt.Fprintf(&b, "high watermark advanced\n")
	}
	if fx.Alter != nil {
		fmt.Fprintf(&b, "alter partition: isr %v leader epoch %d partition epoch %d retry %t\n", fx.Alter.ISR, fx.Alter.LeaderEpoch, fx.Alter.PartitionEpoch, fx.Retry)
	}
	fmt.Fprintf(&b, "%s hw=%d isr=%v", h.c.Role(), h.c.HighWatermark(), h.c.ISR())
	if len(h.c.MaximalISR()) != len(h.c.ISR()) {
		fmt.Fprintf(&b, " maximal=%v", h.c.MaximalISR())
	}
	b.WriteByte('\n')
	return b.String()
}
