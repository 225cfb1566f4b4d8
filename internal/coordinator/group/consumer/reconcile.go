package consumer

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/coordinator/group/assignor"
	"github.com/tidemark-io/tidemark/internal/kerrors"
	"github.com/tidemark-io/tidemark/internal/types"
)

// goal is where a member is to come to, and what it reported.
type goal struct {
	epoch  int32 // of the target assignment
	target assignor.Assignment
	// subscribed are the ids of the topics that the member may have.
	subscribed []types.UUID
	// changed says that the subscription changed in this request.
	changed bool
	// owned is what the member says it has; nil when it does not say.
	owned []Owned
	says  bool
	// ownedByOthers reports a partition that another member still has.
	ownedByOthers func(types.UUID, int32) bool
}

// reconcile moves a member one step towards its goal (CurrentAssignmentBuilder).
// It returns m itself when there is nothing to do.
func reconcile(m *Member, g *goal) (*Member, error) {
	switch m.State {
	case Stable:
		switch {
		case m.Epoch != g.epoch:
			return next(m, g, m.Epoch), nil
		case g.changed:
			return shrink(m, g), nil
		}
		return m, nil
	case UnrevokedPartitions:
		// It waits until the member lists what it owns without what it has to
		// give up; a heartbeat that lists nothing acknowledges nothing.
		if !g.owns(m.Revoking) {
			return next(m, g, m.Epoch), nil
		}
		if g.changed {
			return shrink(m, g), nil
		}
		return m, nil
	case UnreleasedPartitions:
		return next(m, g, m.Epoch), nil
	}
	// A state of a newer version: the member has to start over.
	if !g.says || len(g.owned) > 0 {
		return nil, kerrors.New(kerrors.FencedMemberEpoch, "The member is in an unknown state. It must give up all partitions and rejoin.")
	}
	return next(m, g, g.epoch), nil
}

// owns reports that the member still has one of revoked, or did not say.
func (g *goal) owns(revoked []Owned) bool {
	if !g.says {
		return true
	}
	for _, o := range g.owned {
		for _, p := range o.Partitions {
			if _, ok := epochOf(revoked, o.TopicID, p); ok {
				return true
			}
		}
	}
	return false
}

func (g *goal) mayRead(topic types.UUID) bool {
	_, ok := slices.BinarySearchFunc(g.subscribed, topic, assignor.CompareIDs)
	return ok
}

// next computes the assignment towards the target (computeNextAssignment).
func next(m *Member, g *goal, revokingEpoch int32) *Member {
	kept, revoking := split(m.Assigned, func(t types.UUID, p int32) bool { return g.mayRead(t) && g.target.Has(t, p) })
	if len(revoking) > 0 && g.owns(revoking) {
		// First it gives up what it is not to have; until then it stays where it is.
		n := *m
		n.State, n.Epoch, n.PrevEpoch = UnrevokedPartitions, revokingEpoch, m.Epoch
		n.Assigned, n.Revoking = kept, revoking
		return &n
	}
	assigned, withheld := g.grant(m, kept)
	n := *m
	n.State, n.Epoch, n.PrevEpoch = Stable, g.epoch, m.Epoch
	if withheld {
		n.State = UnreleasedPartitions
	}
	n.Assigned, n.Revoking = assigned, nil
	if n.samePlace(m) {
		return m
	}
	return &n
}

// grant adds what the target has more, except what others still own.
func (g *goal) grant(m *Member, kept []Owned) (assigned []Owned, withheld bool) {
	for _, t := range g.target {
		if !g.mayRead(t.TopicID) {
			continue
		}
		have, _ := find(kept, t.TopicID)
		o := Owned{TopicID: t.TopicID}
		grew := false
		for _, p := range t.Partitions {
			epoch := g.epoch
			if i, ok := slices.BinarySearch(have.Partitions, p); ok {
				epoch = have.Epochs[i]
			} else if _, mine := epochOf(m.Revoking, t.TopicID, p); !mine && g.ownedByOthers(t.TopicID, p) {
				withheld = true
				continue
			} else {
				grew = true
			}
			o.Partitions, o.Epochs = append(o.Partitions, p), append(o.Epochs, epoch)
		}
		if !grew && len(have.Partitions) == len(o.Partitions) {
			o = have
		}
		if len(o.Partitions) > 0 {
			assigned = append(assigned, o)
		}
	}
	return assigned, withheld
}

// shrink takes away topics that the member does not subscribe to any more,
// within its epoch (updateCurrentAssignment).
func shrink(m *Member, g *goal) *Member {
	kept, more := split(m.Assigned, func(t types.UUID, _ int32) bool { return g.mayRead(t) })
	if len(more) == 0 {
		return m
	}
	n := *m
	n.Epoch, n.PrevEpoch = m.Epoch, m.Epoch
	n.Assigned = kept
	if revoking := union(m.Revoking, more); g.owns(revoking) {
		n.State, n.Revoking = UnrevokedPartitions, revoking
	}
	return &n
}

// split divides owned by keep.
func split(owned []Owned, keep func(types.UUID, int32) bool) (kept, rest []Owned) {
	for _, o := range owned {
		yes, no := Owned{TopicID: o.TopicID}, Owned{TopicID: o.TopicID}
		for i, p := range o.Partitions {
			to := &no
			if keep(o.TopicID, p) {
				to = &yes
			}
			to.Partitions, to.Epochs = append(to.Partitions, p), append(to.Epochs, o.Epochs[i])
		}
		if len(no.Partitions) == 0 {
			kept = append(kept, o) // as it was: nothing to copy
			continue
		}
		rest = append(rest, no)
		if len(yes.Partitions) > 0 {
			kept = append(kept, yes)
		}
	}
	return kept, rest
}

// union merges two sets of partitions that do not overlap.
func union(a, b []Owned) []Owned {
	out := slices.Clone(a)
	for _, o := range b {
		i, ok := slices.BinarySearchFunc(out, o.TopicID, func(x Owned, id types.UUID) int { return assignor.CompareIDs(x.TopicID, id) })
		if !ok {
			out = slices.Insert(out, i, o)
			continue
		}
		m := Owned{
			TopicID:    o.TopicID,
			Partitions: append(slices.Clone(out[i].Partitions), o.Partitions...),
			Epochs:     append(slices.Clone(out[i].Epochs), o.Epochs...),
		}
		sortOwned(&m)
		out[i] = m
	}
	return out
}
