package fetchsession

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// TestScripts runs the scripts in testdata; each is named after what it proves.
//
//	cache slots=10
//	data t-0 hw=5 bytes=10 start=2 code=6       what the partition answers from now on
//	fetch [session=S] [epoch=E] [version=V] [follower] [now=ms]
//	t-0@5                                       a partition and its fetch offset
//	-t-0                                        a forgotten one
//
// Session ids are 1, 2, ... in the order of their creation.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		h := &script{data: map[string]Answer{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "cache":
				h.c = newCache(int(argInt(t, d, "slots", 10)))
				return ""
			case "data":
				h.data[d.CmdArgs[0].Key] = Answer{
					HighWatermark: argInt(t, d, "hw", 0), RecordsBytes: int(argInt(t, d, "bytes", 0)), LogStartOffset: argInt(t, d, "start", 0),
					Code: kerrors.Code(argInt(t, d, "code", 0)), PreferredReplica: int32(argInt(t, d, "preferred", -1)), Diverging: d.HasArg("diverging"),
				}
				return ""
			case "fetch":
				return h.fetch(t, d)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

type script struct {
	c    *Cache
	data map[string]Answer
}

func argInt(t *testing.T, d *datadriven.TestData, name string, def int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) == 1 {
			v, err := strconv.ParseInt(a.Vals[0], 10, 64)
			if err != nil {
				d.Fatalf(t, "%s: %v", name, err)
			}
			return v
		}
	}
	return def
}

func (h *script) fetch(t *testing.T, d *datadriven.TestData) string {
	version := int16(argInt(t, d, "version", 12))
	req := Request{
		NowMs: argInt(t, d, "now", 0), Version: version, SessionID: int32(argInt(t, d, "session", 0)),
		Epoch: int32(argInt(t, d, "epoch", 0)), Follower: d.HasArg("follower"),
	}
	for _, line := range strings.Fields(d.Input) {
		name, forgotten := strings.CutPrefix(line, "-")
		name, at, _ := strings.Cut(name, "@")
		topic, part, _ := strings.Cut(name, "-")
		p, err := strconv.Atoi(part)
		if err != nil {
			d.Fatalf(t, "%s: %v", line, err)
		}
		tp := types.TopicIDPartition{Topic: topic, Partition: int32(p)}
		if version >= topicIDVersion {
			tp.TopicID = types.UUID{0: topic[0]}
		}
		if forgotten {
			req.Forgotten = append(req.Forgotten, tp)
			continue
		}
		offset, _ := strconv.ParseInt(at, 10, 64)
		req.Partitions = append(req.Partitions, Partition{TP: tp, FetchOffset: offset, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
	}
	x, code := h.c.Begin(req)
	if code != kerrors.None {
		return fmt.Sprintf("%s\n%d sessions\n", code.Name(), h.c.Len())
	}
	var b strings.Builder
	var answers []Answer
	b.WriteString("reads")
	for _, p := range x.Partitions() {
		name := p.TP.TopicPartition().String()
		fmt.Fprintf(&b, " %s@%d", name, p.FetchOffset)
		a, ok := h.data[name]
		if !ok {
			a.PreferredReplica = -1
		}
		a.TP = p.TP
		answers = append(answers, a)
	}
	id, listed, code := x.Filter(req.NowMs, answers)
	fmt.Fprintf(&b, "\nsession %d lists", id)
	for i, yes := range listed {
		if yes {
			fmt.Fprintf(&b, " %s", answers[i].TP.TopicPartition())
		}
	}
	if code != kerrors.None {
		fmt.Fprintf(&b, " %s", code.Name())
	}
	fmt.Fprintf(&b, "\n%d sessions, %d partitions\n", h.c.Len(), h.c.Partitions())
	return b.String()
}
