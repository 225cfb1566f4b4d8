package partition

import "slices"

// LocalAppended notes a new log end of the leader's log.
func (c *Core) LocalAppended(nowMs, logEnd int64) Effects {
	if logEnd > c.logEnd {
		c.logEnd = logEnd
	}
	return c.advance(nowMs)
}

// LocalDurable notes that the leader's log is durable below durable.
func (c *Core) LocalDurable(nowMs, durable int64) Effects {
	if durable > c.durable {
		c.durable = durable
	}
	return c.advance(nowMs)
}

// LogStartMoved notes a new log start offset (retention, DeleteRecords).
func (c *Core) LogStartMoved(logStart int64) Effects {
	c.logStart = max(c.logStart, logStart)
	return c.raise(min(c.logStart, c.logEnd))
}

// position is the end of what the leader itself contributes to the high watermark.
func (c *Core) position() int64 {
	if c.cfg.Strict {
		return min(c.durable, c.logEnd)
	}
	return c.logEnd
}

// advance raises the leader's high watermark as far as every replica of the
// maximal ISR allows, and every follower that is about to join it
// (Partition.maybeIncrementLeaderHW).
func (c *Core) advance(nowMs int64) Effects {
	if c.role != RoleLeader || len(c.committed) < c.EffectiveMinISR() {
		return c.effects()
	}
	hw := c.position()
	for i := range c.remotes {
		r := &c.remotes[i]
		if p := r.position(c.cfg.Strict); p < hw && (slices.Contains(c.maximal, r.id) || c.joining(r, nowMs)) {
			hw = p
		}
	}
	return c.raise(hw)
}

// joining says that a follower outside the ISR is caught up and may enter:
// the high watermark waits, or it could never catch a fast leader.
func (c *Core) joining(r *remote, nowMs int64) bool {
	return r.caughtUp(c.logEnd, nowMs, c.cfg.LagTimeMaxMs) && c.eligible(r)
}

func (c *Core) raise(hw int64) Effects {
	if hw <= c.hw {
		return c.effects()
	}
	c.hw = hw
	return Effects{HighWatermark: hw, Advanced: true}
}
