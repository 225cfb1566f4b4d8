package partition

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// AlterPartition is a proposed ISR for the controller (KIP-497, KIP-903).
type AlterPartition struct {
	// Token ties the answer to this proposal.
	Token          int64
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []ISRMember
	// Recovered reports LeaderRecoveryState 0; always so, since a leader acts
	// as recovered.
	Recovered bool
}

// ISRMember is a replica of the proposed ISR and the broker epoch that the
// leader saw it fetch with; -1 skips the check.
type ISRMember struct {
	ID          int32
	BrokerEpoch int64
}

// AlterResult is the controller's answer, or the code of a failure.
type AlterResult struct {
	Token          int64
	Code           kerrors.Code
	LeaderEpoch    int32
	PartitionEpoch int32
	ISR            []int32
	Recovering     bool
}

type pendingAlter struct {
	sent AlterPartition
}

// expand proposes to add a follower that reached the high watermark and the
// start of the leader's epoch. The follower counts for the high watermark from
// now on: if the proposal fails, that was only stricter than needed.
func (c *Core) expand(r *remote) *AlterPartition {
	if c.pending != nil || slices.Contains(c.committed, r.id) || !c.eligible(r) {
		return nil
	}
	if r.logEnd < c.hw || r.logEnd < c.epochStart {
		return nil
	}
	isr := append(slices.Clone(c.committed), r.id)
	c.maximal = isr
	return c.propose(isr)
}

// Tick proposes to drop followers that are behind for longer than the lag
// limit. Call it every half lag limit (replica.lag.time.max.ms / 2).
func (c *Core) Tick(nowMs int64) Effects {
	fx := c.effects()
	if c.role != RoleLeader || c.pending != nil {
		return fx
	}
	isr := make([]int32, 0, len(c.committed))
	for _, id := range c.committed {
		if id == c.cfg.NodeID || c.inSync(id, nowMs) {
			isr = append(isr, id)
		}
	}
	if len(isr) < len(c.committed) {
		fx.Alter = c.propose(isr) // the maximal ISR keeps the dropped ones until this is confirmed
	}
	return fx
}

func (c *Core) inSync(id int32, nowMs int64) bool {
	i := slices.IndexFunc(c.remotes, func(r remote) bool { return r.id == id })
	return i >= 0 && c.remotes[i].caughtUp(c.logEnd, nowMs, c.cfg.LagTimeMaxMs)
}

func (c *Core) propose(isr []int32) *AlterPartition {
	c.nextToken++
	a := AlterPartition{
		Token: c.nextToken, LeaderEpoch: c.leaderEpoch, PartitionEpoch: c.partitionEpoch, Recovered: true,
	}
	for _, id := range isr {
		a.ISR = append(a.ISR, ISRMember{ID: id, BrokerEpoch: c.memberEpoch(id)})
	}
	c.pending = &pendingAlter{sent: a}
	return &a
}

// memberEpoch is the broker epoch to send for a replica: the leader's own as
// the metadata has it, a follower's as it fetched last.
func (c *Core) memberEpoch(id int32) int64 {
	if id == c.cfg.NodeID {
		if b := c.broker(id); b.Known {
			return b.Epoch
		}
		return epochUnsent
	}
	i := slices.IndexFunc(c.remotes, func(r remote) bool { return r.id == id })
	if i < 0 || c.remotes[i].brokerEpoch == epochNone {
		return epochUnsent
	}
	return c.remotes[i].brokerEpoch
}

// AlterPartitionResult applies the outcome of a proposal. An answer to a
// proposal that the metadata log overtook changes nothing.
func (c *Core) AlterPartitionResult(nowMs int64, res AlterResult) Effects {
	if c.role != RoleLeader || c.pending == nil || c.pending.sent.Token != res.Token {
		return c.effects()
	}
	switch res.Code {
	case kerrors.None:
		return c.confirm(nowMs, res)
	case kerrors.OperationNotAttempted, kerrors.IneligibleReplica:
		// The controller says that the partition epoch is right and that
		// nothing was applied: going back is safe.
		c.pending = nil
		c.maximal = c.committed
		return c.advance(nowMs)
	case kerrors.UnknownTopicOrPartition, kerrors.UnknownTopicID, kerrors.FencedLeaderEpoch,
		kerrors.InvalidUpdateVersion, kerrors.InvalidRequest, kerrors.NewLeaderElected:
		// Whether an earlier attempt was applied is not known: stay pending
		// (and strict) until the metadata log says what holds.
		return c.effects()
	}
	fx := c.effects()
	again := c.pending.sent
	fx.Alter, fx.Retry = &again, true
	return fx
}

func (c *Core) confirm(nowMs int64, res AlterResult) Effects {
	if res.LeaderEpoch != c.leaderEpoch || res.PartitionEpoch < c.partitionEpoch {
		return c.effects()
	}
	c.partitionEpoch = res.PartitionEpoch
	c.commitISR(res.ISR, res.Recovering)
	return c.advance(nowMs)
}
