package controller

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/types"
)

// election says how far a change may go to find a leader.
type election int8

const (
	// electOnline keeps the leader if it is valid, else takes one from ISR or ELR.
	electOnline election = iota
	// electPreferred is electOnline that tries the first replica before all.
	electPreferred
	// electUnclean is electOnline that as a last resort takes any live replica.
	electUnclean
)

// change builds one PartitionChangeRecord from what a partition is and what it
// should become (PartitionChangeBuilder in Apache Kafka 4.3; KIP-631, KIP-704,
// KIP-858, KIP-966). Set the targets, then call build.
type change struct {
	part *image.Partition
	key  partKey

	// acceptable says whether a replica could lead: its broker is active and its
	// directory online.
	acceptable func(replica int32) bool
	minISR     int
	elr        bool // eligible.leader.replicas.version >= 1
	election   election

	isr, replicas, adding, removing []int32
	recovery                        int8
	dirs                            map[int32]types.UUID // overrides of replica directories
	defaultDir                      func(broker int32) types.UUID
	uncleanShutdown                 []int32 // replicas that may have lost data

	// The ELR the partition will have; build fills it in.
	targetELR []int32
}

// build returns the record, nil when nothing changes.
func (b *change) build() *recordschema.PartitionChangeRecord {
	rec := recordschema.NewPartitionChange()
	rec.TopicID, rec.PartitionID = b.key.topic, b.key.id

	b.completeReassignment()
	b.populateELR()
	b.elect(rec)
	b.bumpEpochForRemovedReplica(rec)
	b.recordELR(rec)
	// With ELR the ISR may become empty; without, the last member stays in it.
	if rec.ISR == nil && (len(b.isr) > 0 || b.elr) && !slices.Equal(b.isr, b.part.ISR) {
		rec.ISR = nonNil(b.isr)
	}
	b.recordLastKnownLeader(rec)
	b.recordAssignment(rec)
	if b.recovery != b.part.LeaderRecoveryState {
		rec.LeaderRecoveryState = b.recovery
	}
	if isNoOp(rec) {
		return nil
	}
	return rec
}

func isNoOp(r *recordschema.PartitionChangeRecord) bool {
	return r.ISR == nil && r.EligibleLeaderReplicas == nil && r.LastKnownElr == nil &&
		r.Leader == recordschema.LeaderUnchanged && r.Replicas == nil && r.RemovingReplicas == nil &&
		r.AddingReplicas == nil && r.LeaderRecoveryState == recordschema.RecoveryStateUnchanged && r.Directories == nil
}

// populateELR works out the ELR from who leaves the ISR (KIP-966): while the ISR
// is below min.insync.replicas, members that left it without an unclean shutdown
// hold all committed records.
func (b *change) populateELR() {
	b.targetELR = b.part.ELR
	if !b.elr {
		return
	}
	if len(b.isr) >= b.minISR {
		b.targetELR = nil
		return
	}
	candidates := slices.Concat(b.part.ELR, b.part.ISR)
	slices.Sort(candidates)
	b.targetELR = nil
	for _, id := range slices.Compact(candidates) {
		if !slices.Contains(b.isr, id) && !slices.Contains(b.uncleanShutdown, id) {
			b.targetELR = append(b.targetELR, id)
		}
	}
}

// validLeader: in the ISR, or in the ELR when the ISR is empty, and alive.
func (b *change) validLeader(id int32) bool {
	inSync := slices.Contains(b.isr, id) || len(b.isr) == 0 && slices.Contains(b.targetELR, id)
	return inSync && b.acceptable(id)
}

// pickLeader returns the next leader and whether data may be lost by it.
func (b *change) pickLeader() (leader int32, unclean bool) {
	if b.election == electPreferred && len(b.replicas) > 0 && b.validLeader(b.replicas[0]) {
		return b.replicas[0], false
	}
	if b.validLeader(b.part.Leader) {
		return b.part.Leader, false
	}
	for _, id := range b.replicas {
		if b.validLeader(id) {
			return id, false
		}
	}
	if b.canElectLastKnownLeader() {
		return b.part.LastKnownELR[0], true
	}
	if b.election == electUnclean {
		for _, id := range b.replicas {
			if b.acceptable(id) {
				return id, true
			}
		}
	}
	return recordschema.NoLeader, false
}

// canElectLastKnownLeader: with ISR and ELR empty the last leader is the best
// bet (KIP-966, balanced recovery).
func (b *change) canElectLastKnownLeader() bool {
	return b.elr && len(b.targetELR) == 0 && len(b.isr) == 0 &&
		len(b.part.LastKnownELR) == 1 && b.acceptable(b.part.LastKnownELR[0])
}

func (b *change) elect(rec *recordschema.PartitionChangeRecord) {
	leader, unclean := b.pickLeader()
	if leader == b.part.Leader {
		return
	}
	if slices.Contains(b.targetELR, leader) {
		b.isr = []int32{leader}
		b.targetELR = without(b.targetELR, leader)
	}
	rec.Leader = leader
	if unclean {
		rec.ISR = []int32{leader}
		if b.part.LeaderRecoveryState != recordschema.Recovering {
			rec.LeaderRecoveryState = recordschema.Recovering
		}
	}
}

// bumpEpochForRemovedReplica: a replica that leaves the assignment must be fenced
// off by a new leader epoch, even under the same leader.
func (b *change) bumpEpochForRemovedReplica(rec *recordschema.PartitionChangeRecord) {
	if rec.Leader != recordschema.LeaderUnchanged {
		return
	}
	for _, id := range b.part.Replicas {
		if !slices.Contains(b.replicas, id) {
			rec.Leader = b.part.Leader
			return
		}
	}
}

func (b *change) recordELR(rec *recordschema.PartitionChangeRecord) {
	if rec.ISR != nil || !b.elr { // an unclean election, or the feature is off
		b.targetELR = nil
	}
	if !slices.Equal(b.targetELR, b.part.ELR) {
		rec.EligibleLeaderReplicas = nonNil(b.targetELR)
	}
}

// recordLastKnownLeader keeps the last leader while there is none.
func (b *change) recordLastKnownLeader(rec *recordschema.PartitionChangeRecord) {
	if !b.elr {
		return
	}
	switch {
	case rec.Leader == recordschema.NoLeader && b.part.Leader >= 0 && len(b.part.LastKnownELR) == 0:
		rec.LastKnownElr = []int32{b.part.Leader}
	case rec.Leader >= 0 && len(b.part.LastKnownELR) > 0:
		rec.LastKnownElr = []int32{}
	}
}

func (b *change) recordAssignment(rec *recordschema.PartitionChangeRecord) {
	if len(b.replicas) > 0 {
		dirs := make([]types.UUID, 0, len(b.replicas))
		for _, id := range b.replicas {
			dirs = append(dirs, b.directory(id))
		}
		if !slices.Equal(dirs, b.part.Directories) {
			rec.Directories = dirs
		}
		if !slices.Equal(b.replicas, b.part.Replicas) {
			rec.Replicas = b.replicas
		}
	}
	if !slices.Equal(b.removing, b.part.RemovingReplicas) {
		rec.RemovingReplicas = nonNil(b.removing)
	}
	if !slices.Equal(b.adding, b.part.AddingReplicas) {
		rec.AddingReplicas = nonNil(b.adding)
	}
}

func (b *change) directory(replica int32) types.UUID {
	if dir, ok := b.dirs[replica]; ok {
		return dir
	}
	if dir, ok := b.part.Directory(replica); ok {
		return dir
	}
	return b.defaultDir(replica)
}

// completeReassignment ends a reassignment whose new replicas have caught up
// (PartitionReassignmentReplicas.maybeCompleteReassignment).
func (b *change) completeReassignment() {
	if len(b.removing) == 0 && len(b.adding) == 0 {
		return
	}
	isr := withoutAll(b.isr, b.removing)
	replicas := withoutAll(b.replicas, b.removing)
	if len(b.removing) > 0 && (len(isr) == 0 || len(replicas) == 0) {
		return
	}
	if !containsAll(isr, b.adding) {
		return
	}
	// When the replication factor shrinks, completing early could leave a smaller
	// ISR than staying: wait for every replica that is to stay.
	if len(b.adding) < len(b.removing) && !containsAll(isr, replicas) {
		return
	}
	b.isr, b.replicas, b.removing, b.adding = isr, replicas, nil, nil
}

func nonNil(s []int32) []int32 {
	if s == nil {
		return []int32{}
	}
	return s
}

func without(s []int32, drop ...int32) []int32 { return withoutAll(s, drop) }

func withoutAll(s, drop []int32) []int32 {
	var out []int32
	for _, v := range s {
		if !slices.Contains(drop, v) {
			out = append(out, v)
		}
	}
	return out
}

func containsAll(s, want []int32) bool {
	for _, v := range want {
		if !slices.Contains(s, v) {
			return false
		}
	}
	return true
}
