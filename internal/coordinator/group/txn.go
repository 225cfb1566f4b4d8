package group

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/timeline"
	"github.com/tidemark-io/tidemark/internal/types"
)

const latest = timeline.Latest

// addPending keeps a transactional commit until its transaction ends.
func (s *Shard) addPending(offset, producerID int64, g *groupState, p pendingOffset) {
	old, _ := s.pending.Get(producerID, latest)
	s.pending.Set(offset, producerID, append(slices.Clone(old), p))
	open, _ := g.open.Get(p.tp, latest)
	if !slices.Contains(open, producerID) {
		g.open.Set(offset, p.tp, append(slices.Clone(open), producerID))
	}
}

// dropPending forgets undecided commits of a partition: a tombstone beats them.
func (s *Shard) dropPending(offset int64, g *groupState, group string, tp types.TopicPartition) {
	open, ok := g.open.Get(tp, latest)
	if !ok {
		return
	}
	for _, pid := range open {
		all, _ := s.pending.Get(pid, latest)
		kept := slices.DeleteFunc(slices.Clone(all), func(p pendingOffset) bool { return p.group == group && p.tp == tp })
		s.setPending(offset, pid, kept)
	}
	g.open.Delete(offset, tp)
}

func (s *Shard) setPending(offset, producerID int64, all []pendingOffset) {
	if len(all) == 0 {
		s.pending.Delete(offset, producerID)
		return
	}
	s.pending.Set(offset, producerID, all)
}

// ReplayEndTransaction applies a transaction marker: a commit makes the
// producer's pending offsets visible, an abort drops them. A pending offset
// that is older in the log than the stored one loses.
func (s *Shard) ReplayEndTransaction(offset, producerID int64, commit bool) error {
	s.next = offset + 1
	all, ok := s.pending.Get(producerID, latest)
	if !ok {
		return nil
	}
	for _, p := range all {
		g, ok := s.groups.Get(p.group, latest)
		if !ok {
			continue
		}
		if open, _ := g.open.Get(p.tp, latest); slices.Contains(open, producerID) {
			rest := slices.DeleteFunc(slices.Clone(open), func(id int64) bool { return id == producerID })
			if len(rest) == 0 {
				g.open.Delete(offset, p.tp)
			} else {
				g.open.Set(offset, p.tp, rest)
			}
		}
		if !commit {
			continue
		}
		if old, ok := g.offsets.Get(p.tp, latest); !ok || p.value.RecordOffset > old.RecordOffset {
			g.offsets.Set(offset, p.tp, p.value)
		}
	}
	s.pending.Delete(offset, producerID)
	return nil
}
