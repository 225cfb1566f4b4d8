package group

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tidemark-io/tidemark/internal/types"
)

// dump is a shard's whole state in a comparable form.
func (s *Shard) dump(asOf int64) map[string]string {
	out := map[string]string{}
	for id, g := range s.groups.All(asOf) {
		out[id] = "group"
		for tp, o := range g.offsets.All(asOf) {
			out[id+"/"+tp.String()] = fmt.Sprint(o)
		}
		for tp, pids := range g.open.All(asOf) {
			out[id+"/open/"+tp.String()] = fmt.Sprint(pids)
		}
	}
	for id, g := range s.groups.All(asOf) {
		if v, ok := g.classic.Get(struct{}{}, asOf); ok {
			out[id+"/classic"] = fmt.Sprint(v.Generation, v.ProtocolType, len(v.Members))
		}
		if g.consumer != nil {
			for k, v := range g.consumer.Dump(asOf) {
				out[id+"/"+k] = v
			}
		}
	}
	for pid, ps := range s.pending.All(asOf) {
		out[fmt.Sprint("pending/", pid)] = fmt.Sprint(ps)
	}
	return out
}

// TestG3_PropertyStateIsReplay: whatever the requests were, whatever failed to
// append, the state equals that of a fresh shard that replays the log; state as
// of the committed offset never changes under uncommitted requests; and a
// committed offset is there until something deletes it.
func TestG3_PropertyStateIsReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &host{t: t, s: NewShard(DefaultConfig())}
		committed := int64(0)
		frozen := map[string]string{}
		groups := rapid.SampledFrom([]string{"a", "b"})
		part := rapid.Int32Range(0, 2)
		now := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"commit": func(t *rapid.T) {
				g, p, off := groups.Draw(t, "group"), part.Draw(t, "p"), rapid.Int64Range(0, 99).Draw(t, "offset")
				h.commit(now, commitReq(8, g, "t", commitPart{p, off, nil}))
				got := flatten(h.s.FetchOffsets(fetchReq(g, "t", p), h.next, false))
				if got[0].Offset != off {
					t.Fatalf("committed %d, read %d", off, got[0].Offset)
				}
			},
			"txn commit": func(t *rapid.T) {
				tp := types.TopicPartition{Topic: "t", Partition: part.Draw(t, "p")}
				h.applyAs(rapid.Int64Range(1, 2).Draw(t, "pid"), offsetRecord(groups.Draw(t, "group"), tp, Offset{Offset: 7, ExpireTimeMs: -1, CommitTimeMs: now}))
			},
			"marker": func(t *rapid.T) { h.end(rapid.Int64Range(1, 2).Draw(t, "pid"), rapid.Bool().Draw(t, "commit")) },
			"delete group": func(t *rapid.T) {
				if res, err := h.s.DeleteGroup(wall(0), groups.Draw(t, "group")); err == nil {
					h.apply(res.Records...)
				}
			},
			"topic deleted": func(t *rapid.T) {
				h.apply(h.s.OnTopicsDeleted([]types.TopicIDPartition{{Topic: "t", TopicID: types.UUID{1}}}).Records...)
			},
			"expire": func(t *rapid.T) {
				now += rapid.Int64Range(0, 5*86_400_000).Draw(t, "ms")
				h.apply(h.s.Expire(wall(now), 3).Records...)
			},
			"high watermark": func(t *rapid.T) {
				committed = rapid.Int64Range(committed, h.next).Draw(t, "hw")
				h.s.Commit(committed)
				frozen = h.s.dump(committed)
			},
			"append fails": func(t *rapid.T) {
				to := rapid.Int64Range(committed, h.next).Draw(t, "to")
				h.s.Revert(to)
				h.log, h.next = h.log[:to], to
			},
			"": func(t *rapid.T) {
				if d := cmp.Diff(frozen, h.s.dump(committed)); d != "" {
					t.Fatalf("committed state changed:\n%s", d)
				}
				fresh := NewShard(DefaultConfig())
				for _, l := range h.log {
					if l.marker != 0 {
						_ = fresh.ReplayEndTransaction(l.offset, l.producerID, l.marker == 1)
						continue
					}
					if err := fresh.Replay(l.offset, l.producerID, l.rec.Key, l.rec.Value); err != nil {
						t.Fatal(err)
					}
				}
				if want, got := fresh.dump(latest), h.s.dump(latest); !maps.Equal(want, got) {
					t.Fatalf("state is not the replay of its log:\n%s", cmp.Diff(want, got))
				}
			},
		})
	})
}
