package partition

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

const (
	epochNone   int64 = -2 // the replica never fetched
	epochUnsent int64 = -1 // the replica fetched without a broker epoch: not verified
)

// remote is what the leader knows of one follower (Replica.java).
type remote struct {
	id                 int32
	logStart           int64
	logEnd             int64 // its last fetch offset
	durable            int64 // its reported durable end, UnknownOffset if it reports none
	lastFetchLeaderEnd int64 // the leader's log end at its last fetch
	lastFetchMs        int64
	lastCaughtUpMs     int64
	brokerEpoch        int64
}

func (r *remote) reset(nowMs, leaderEnd int64, newLeader, inSync bool) {
	r.lastCaughtUpMs = 0
	if inSync {
		r.lastCaughtUpMs = nowMs
	}
	if newLeader {
		r.logStart, r.logEnd, r.durable = UnknownOffset, UnknownOffset, UnknownOffset
		r.lastFetchLeaderEnd, r.lastFetchMs, r.brokerEpoch = UnknownOffset, 0, epochNone
		return
	}
	r.lastFetchLeaderEnd = leaderEnd
	r.lastFetchMs = r.lastCaughtUpMs
}

// caughtUp reports whether the follower is at the leader's end or was within
// the lag limit.
func (r *remote) caughtUp(leaderEnd, nowMs, lagMs int64) bool {
	return r.logEnd == leaderEnd || nowMs-r.lastCaughtUpMs <= lagMs
}

// position is the end of what the follower contributes to the high watermark.
func (r *remote) position(strict bool) int64 {
	if strict && r.durable != UnknownOffset {
		return min(r.durable, r.logEnd)
	}
	return r.logEnd
}

// ReplicaFetch is one fetch of a follower, after the leader read its log.
type ReplicaFetch struct {
	ReplicaID   int32
	BrokerEpoch int64 // -1: not sent
	FetchOffset int64 // the follower's log end
	LogStart    int64 // the follower's log start
	Durable     int64 // the follower's durable end; UnknownOffset for Kafka's own followers
	LeaderEnd   int64 // the leader's log end before the read
}

// ReplicaFetched notes a follower's fetch. A fetch from an older incarnation of
// the broker is refused (KIP-903).
func (c *Core) ReplicaFetched(nowMs int64, f ReplicaFetch) (Effects, kerrors.Code) {
	i := slices.IndexFunc(c.remotes, func(r remote) bool { return r.id == f.ReplicaID })
	if c.role != RoleLeader || i < 0 {
		return c.effects(), kerrors.NotLeaderOrFollower
	}
	b := c.broker(f.ReplicaID)
	if f.BrokerEpoch != epochUnsent && b.Known && !b.Fenced && b.Epoch > f.BrokerEpoch {
		return c.effects(), kerrors.NotLeaderOrFollower
	}
	r := &c.remotes[i]
	switch {
	case f.FetchOffset >= f.LeaderEnd:
		r.lastCaughtUpMs = max(r.lastCaughtUpMs, nowMs)
	case f.FetchOffset >= r.lastFetchLeaderEnd:
		// It has reached where the leader was at its previous fetch.
		r.lastCaughtUpMs = max(r.lastCaughtUpMs, r.lastFetchMs)
	}
	r.logStart, r.logEnd, r.durable = f.LogStart, f.FetchOffset, f.Durable
	r.lastFetchLeaderEnd = max(f.LeaderEnd, r.lastFetchLeaderEnd)
	r.lastFetchMs = nowMs
	r.brokerEpoch = f.BrokerEpoch
	fx := c.advance(nowMs)
	if alter := c.expand(r); alter != nil {
		fx.Alter = alter
	}
	return fx, kerrors.None
}

// eligible reports whether the metadata lets a follower into the ISR: not
// fenced, not shutting down, and fetching as its registered incarnation.
func (c *Core) eligible(r *remote) bool {
	b := c.broker(r.id)
	if !b.Known || b.Fenced || b.ShuttingDown || r.brokerEpoch == epochNone {
		return false
	}
	return r.brokerEpoch == epochUnsent || r.brokerEpoch == b.Epoch
}
