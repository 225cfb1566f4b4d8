package timers

import "github.com/tidemark-io/tidemark/internal/coordinator"

// Kind says what is due.
type Kind uint8

const (
	// ClassicSession ends a classic member, or a pending member id.
	ClassicSession Kind = iota + 1
	// ClassicJoin ends the join phase of a classic group.
	ClassicJoin
	// ClassicSync ends the sync phase of a classic group.
	ClassicSync
	// ConsumerSession ends a member of a consumer group (KIP-848).
	ConsumerSession
	// ConsumerRebalance ends a member that does not give up its partitions.
	ConsumerRebalance
	// ConsumerJoin ends a classic member of a consumer group that does not rejoin.
	ConsumerJoin
	// ConsumerSync ends a classic member of a consumer group that does not sync.
	ConsumerSync
)

// Key is one timer; Member is empty for timers of the group.
type Key struct {
	Kind          Kind
	Group, Member string
}

// Set is the timers of one shard.
type Set = coordinator.Timers[Key]
