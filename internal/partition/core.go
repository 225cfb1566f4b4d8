package partition

import (
	"slices"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Role is what this broker is for the partition.
type Role int8

// Roles. A new Core has RoleNone.
const (
	RoleNone Role = iota
	RoleLeader
	RoleFollower
)

// String returns the role in lower case.
func (r Role) String() string { return [...]string{"none", "leader", "follower"}[r] }

// NoLeader is the leader id of a partition without one.
const NoLeader int32 = -1

// UnknownOffset marks an offset that nobody reported yet.
const UnknownOffset int64 = -1

// Broker is what the metadata image says of another broker.
type Broker struct {
	Known        bool
	Epoch        int64
	Fenced       bool
	ShuttingDown bool // in controlled shutdown
}

// Config is the part of the configuration that decides.
type Config struct {
	NodeID       int32
	LagTimeMaxMs int64 // replica.lag.time.max.ms
	MinISR       int   // min.insync.replicas, before the cap by the replication factor
	Strict       bool  // durability=strict: only durable bytes count
	// Brokers looks a broker up in the newest image; nil knows nobody.
	Brokers func(id int32) Broker
}

// State is the partition's registration as the metadata log has it.
type State struct {
	Leader         int32
	LeaderEpoch    int32
	PartitionEpoch int32
	Replicas       []int32
	ISR            []int32
	Adding         []int32
	Removing       []int32
	// Recovering is LeaderRecoveryState 1: elected uncleanly. A new leader acts
	// as recovered and says so with its next AlterPartition.
	Recovering bool
}

// Effects is what one input changed; the caller acts on it.
type Effects struct {
	HighWatermark int64
	Advanced      bool // HighWatermark is higher than before the input
	// NewEpoch says that the replica leads a new epoch from EpochStart on: the
	// caller assigns the epoch to the log before it appends anything.
	NewEpoch   bool
	EpochStart int64
	// RoleChanged says that the replica became or ceased to be leader.
	RoleChanged bool
	// Alter, when not nil, is to be sent to the controller; its outcome comes
	// back through AlterPartitionResult.
	Alter *AlterPartition
	// Retry says that Alter repeats a failed attempt: wait before sending.
	Retry bool
}

// Core is the state of one partition replica.
type Core struct {
	cfg Config

	role           Role
	leader         int32
	leaderEpoch    int32
	partitionEpoch int32
	reign          int32 // leader epoch in which unbroken leadership began
	epochStart     int64 // log end at which the own leader epoch began; UnknownOffset unless leading
	replicas       []int32
	adding         []int32
	removing       []int32

	committed  []int32 // ISR that the controller confirmed
	maximal    []int32 // committed plus a pending add; removals wait
	recovering bool    // as last confirmed by the controller
	pending    *pendingAlter
	nextToken  int64

	remotes []remote // every replica but this one, while leading

	logStart int64
	logEnd   int64
	durable  int64
	hw       int64
}

// New returns a replica that belongs to nobody yet. highWatermark is the
// checkpointed one.
func New(cfg Config, highWatermark int64) *Core {
	return &Core{
		cfg: cfg, leader: NoLeader, leaderEpoch: -1, partitionEpoch: -1,
		epochStart: UnknownOffset, hw: highWatermark,
	}
}

// Role returns what this broker is for the partition.
func (c *Core) Role() Role { return c.role }

// IsLeader reports whether this broker leads the partition.
func (c *Core) IsLeader() bool { return c.role == RoleLeader }

// Leader returns the leader's id, NoLeader when there is none.
func (c *Core) Leader() int32 { return c.leader }

// LeaderEpoch returns the newest leader epoch, -1 before any.
func (c *Core) LeaderEpoch() int32 { return c.leaderEpoch }

// PartitionEpoch returns the newest partition epoch, -1 before any.
func (c *Core) PartitionEpoch() int32 { return c.partitionEpoch }

// EpochStart returns where the own leader epoch began, UnknownOffset unless leading.
func (c *Core) EpochStart() int64 { return c.epochStart }

// HighWatermark returns the first offset that is not committed.
func (c *Core) HighWatermark() int64 { return c.hw }

// ISR returns the committed in-sync replicas; callers must not change it.
func (c *Core) ISR() []int32 { return c.committed }

// MaximalISR returns the committed ISR with pending adds; callers must not change it.
func (c *Core) MaximalISR() []int32 { return c.maximal }

// Replicas returns the assignment in preference order; callers must not change it.
func (c *Core) Replicas() []int32 { return c.replicas }

// IsReplica reports whether a broker is in the assignment.
func (c *Core) IsReplica(id int32) bool { return slices.Contains(c.replicas, id) }

// EffectiveMinISR is min.insync.replicas capped by the replication factor.
func (c *Core) EffectiveMinISR() int { return min(c.cfg.MinISR, max(len(c.replicas), 1)) }

// UnderMinISR reports whether the committed ISR is too small for acks=all.
func (c *Core) UnderMinISR() bool {
	return c.role == RoleLeader && len(c.committed) < c.EffectiveMinISR()
}

// Configure changes the settings. A smaller min ISR may release the high
// watermark, so this has effects like any input.
func (c *Core) Configure(nowMs int64, cfg Config) Effects {
	c.cfg = cfg
	return c.advance(nowMs)
}

// CheckEpoch compares the epoch that a client or follower believes in with the
// own one (KIP-320); -1 is not checked.
func (c *Core) CheckEpoch(currentLeaderEpoch int32) kerrors.Code {
	return CheckEpoch(currentLeaderEpoch, c.leaderEpoch)
}

// CheckEpoch is the rule of KIP-320: an older epoch is fenced, a newer one is
// not known here yet.
func CheckEpoch(asked, local int32) kerrors.Code {
	switch {
	case asked == -1 || asked == local: // -1: not said
		return kerrors.None
	case asked < local:
		return kerrors.FencedLeaderEpoch
	default:
		return kerrors.UnknownLeaderEpoch
	}
}

// Admit says whether an append with these acks may be written. Acks other than
// -1 are appended below min ISR too; their data stays invisible.
func (c *Core) Admit(acks int16) kerrors.Code {
	switch {
	case c.role != RoleLeader:
		return kerrors.NotLeaderOrFollower
	case acks == -1 && c.UnderMinISR():
		return kerrors.NotEnoughReplicas
	}
	return kerrors.None
}

// Reign is the leader epoch in which this broker's unbroken leadership began. A
// leader that is elected again never truncates, so what it appended in an
// earlier epoch of the same reign still counts.
func (c *Core) Reign() int32 { return c.reign }

// Acked reports whether an append that ends before required is settled, and
// how: the in-sync replicas have it, they became too few meanwhile, or the
// reign in which it was appended ended.
func (c *Core) Acked(required int64, reign int32) (done bool, code kerrors.Code) {
	switch {
	case c.role != RoleLeader || c.reign != reign:
		return true, kerrors.NotLeaderOrFollower
	case c.hw < required:
		return false, kerrors.None
	case len(c.maximal) < c.EffectiveMinISR():
		return true, kerrors.NotEnoughReplicasAfterAppend
	}
	return true, kerrors.None
}

// LowWatermark is the smallest log start over the alive replicas while
// leading; DeleteRecords waits for it.
func (c *Core) LowWatermark() int64 {
	low := c.logStart
	for i := range c.remotes {
		r := &c.remotes[i]
		if b := c.broker(r.id); b.Known && !b.Fenced && r.logStart < low {
			low = r.logStart
		}
	}
	return low
}

func (c *Core) broker(id int32) Broker {
	if c.cfg.Brokers == nil {
		return Broker{}
	}
	return c.cfg.Brokers(id)
}

func (c *Core) effects() Effects { return Effects{HighWatermark: c.hw} }
