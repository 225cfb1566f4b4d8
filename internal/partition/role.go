package partition

import "slices"

// LogEnds is where the local log stands.
type LogEnds struct {
	Start   int64 // log start offset
	End     int64 // log end offset
	Durable int64 // end of what a power cut cannot take
}

// BecomeLeader applies a registration in which this broker leads. A partition
// epoch older than the own one is ignored. A higher leader epoch starts at the
// log end (KIP-101: it is recorded even before anything is written, so that
// successive elections without writes truncate right, KIP-279).
func (c *Core) BecomeLeader(nowMs int64, st State, log LogEnds) Effects {
	if st.PartitionEpoch < c.partitionEpoch {
		return c.effects()
	}
	wasLeader := c.role == RoleLeader
	newEpoch := st.LeaderEpoch > c.leaderEpoch
	c.setLog(log)
	c.clampHighWatermark()
	c.setRegistration(st)
	c.setRemotes(nowMs, st, !wasLeader, newEpoch)
	c.commitISR(st.ISR, st.Recovering)
	c.role = RoleLeader
	fx := Effects{RoleChanged: !wasLeader}
	if newEpoch {
		c.leaderEpoch = st.LeaderEpoch
		c.epochStart = c.logEnd
		fx.NewEpoch, fx.EpochStart = true, c.epochStart
	} else if !wasLeader {
		c.epochStart = c.logEnd // leader again in a known epoch: after a folder came back
	}
	if !wasLeader {
		c.reign = c.leaderEpoch
	}
	hw := c.advance(nowMs)
	fx.HighWatermark, fx.Advanced = hw.HighWatermark, hw.Advanced
	return fx
}

// BecomeFollower applies a registration in which another broker leads, or
// nobody does. A partition epoch older than the own one is ignored.
func (c *Core) BecomeFollower(st State, log LogEnds) Effects {
	if st.PartitionEpoch < c.partitionEpoch {
		return c.effects()
	}
	fx := Effects{RoleChanged: c.role == RoleLeader, NewEpoch: st.LeaderEpoch > c.leaderEpoch}
	c.setLog(log)
	c.clampHighWatermark()
	c.setRegistration(st)
	c.role = RoleFollower
	c.remotes = nil
	c.epochStart = UnknownOffset
	c.leaderEpoch = max(c.leaderEpoch, st.LeaderEpoch)
	c.commitISR(nil, st.Recovering)
	fx.HighWatermark = c.hw
	return fx
}

// FollowerAppended notes what a follower's fetch brought: its new log end and
// the leader's high watermark.
func (c *Core) FollowerAppended(log LogEnds, leaderHighWatermark int64) Effects {
	c.setLog(log)
	return c.raise(min(leaderHighWatermark, c.logEnd))
}

// Truncated notes that the log was cut to end; a follower's high watermark
// cannot stay above it.
func (c *Core) Truncated(log LogEnds) Effects {
	c.setLog(log)
	c.durable = min(c.durable, c.logEnd)
	c.hw = min(c.hw, c.logEnd)
	return c.effects()
}

// Resign makes the replica nobody's: its folder failed or it is being deleted.
func (c *Core) Resign() Effects {
	fx := Effects{RoleChanged: c.role == RoleLeader, HighWatermark: c.hw}
	c.role = RoleNone
	c.remotes = nil
	c.epochStart = UnknownOffset
	c.commitISR(nil, false)
	return fx
}

func (c *Core) setLog(log LogEnds) {
	c.logStart, c.logEnd, c.durable = log.Start, log.End, log.Durable
}

// clampHighWatermark puts a checkpointed high watermark inside a log that
// recovery may have cut (UnifiedLog.updateHighWatermark).
func (c *Core) clampHighWatermark() {
	c.hw = min(max(c.hw, c.logStart), c.logEnd)
}

func (c *Core) setRegistration(st State) {
	c.leader = st.Leader
	c.partitionEpoch = st.PartitionEpoch
	c.replicas = slices.Clone(st.Replicas)
	c.adding = slices.Clone(st.Adding)
	c.removing = slices.Clone(st.Removing)
}

// commitISR forgets a pending change: the metadata log overrides it.
func (c *Core) commitISR(isr []int32, recovering bool) {
	c.committed = slices.Clone(isr)
	c.maximal = c.committed
	c.recovering = recovering
	c.pending = nil
}

// setRemotes keeps the state of replicas that stay in the assignment. On a new
// leader epoch it is reset as Replica.resetReplicaState does: a follower in the
// ISR counts as caught up now, so that it gets a full lag period to fetch.
func (c *Core) setRemotes(nowMs int64, st State, newLeader, newEpoch bool) {
	old := c.remotes
	c.remotes = nil
	for _, id := range st.Replicas {
		if id == c.cfg.NodeID {
			continue
		}
		r := remote{id: id, logStart: UnknownOffset, logEnd: UnknownOffset, durable: UnknownOffset,
			lastFetchLeaderEnd: UnknownOffset, brokerEpoch: epochNone}
		if i := slices.IndexFunc(old, func(o remote) bool { return o.id == id }); i >= 0 {
			r = old[i]
		}
		if newEpoch {
			r.reset(nowMs, c.logEnd, newLeader, slices.Contains(st.ISR, id))
		}
		c.remotes = append(c.remotes, r)
	}
}
