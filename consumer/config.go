package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Order says what may run at the same time within a partition.
type Order int8

// Order modes.
const (
	// OrderKey runs records of one key one after another and different keys at
	// the same time. Records without a key share one lane.
	OrderKey Order = iota
	// OrderPartition runs one record of a partition at a time.
	OrderPartition
	// OrderNone runs records of a partition in any order.
	OrderNone
)

// Protocol is the group protocol.
type Protocol int8

// Group protocols.
const (
	// ProtocolCooperative: classic group, cooperative-sticky: only partitions
	// that move are revoked.
	ProtocolCooperative Protocol = iota
	// ProtocolEager: classic group, range: every rebalance revokes everything.
	ProtocolEager
	// ProtocolConsumer: KIP-848, the broker assigns. Open fails on a cluster that
	// does not serve it.
	ProtocolConsumer
)

// Start says where a partition without a usable committed offset begins.
type Start int8

// Start positions.
const (
	// StartEarliest begins at the log start.
	StartEarliest Start = iota
	// StartLatest begins at the log end. Partitions that the topic gained after
	// the group first consumed it still begin at their log start.
	StartLatest
	// StartNone holds the partition and reports a StartError; the others go on.
	StartNone
)

// Isolation is which records are delivered.
type Isolation int8

// Isolation levels.
const (
	// ReadCommitted leaves out records of open and aborted transactions.
	ReadCommitted Isolation = iota
	// ReadUncommitted delivers every record.
	ReadUncommitted
)

// Config is what Open needs. Zero values take the defaults named here.
type Config struct {
	// Brokers, Group and Topics are required.
	Brokers []string
	Group   string
	Topics  []string
	// InstanceID makes the member static (KIP-345); empty is dynamic.
	InstanceID string
	Protocol   Protocol
	Isolation  Isolation
	Order      Order
	// Start applies to partitions without a committed offset and to committed
	// offsets outside the log.
	Start Start

	// Concurrency bounds handlers that run at the same time (16).
	Concurrency int
	// PartitionRecords and PartitionBytes bound queued + running + retry-wait
	// records of one partition (1000 and 8 MiB); TotalRecords and TotalBytes those
	// of all (10,000 and 32 MiB). Fetching pauses at a bound; what one fetch
	// carries may come on top.
	PartitionRecords, TotalRecords int
	PartitionBytes, TotalBytes     int64
	// PartitionWindow bounds the span from the first unfinished to the last
	// delivered record, finished ones included (8192).
	PartitionWindow int
	// FetchBytes bounds one fetch from one broker (a quarter of TotalBytes, at
	// least 1 MiB, at most 50 MiB).
	FetchBytes int32
	// FetchWait bounds how long a broker holds an empty fetch (500 ms).
	FetchWait time.Duration

	// CommitInterval is the time between commits of a partition that moved (1 s).
	CommitInterval time.Duration
	// BeaconInterval re-sends the beacon of an active partition that did not move
	// (10 s), IdleBeaconInterval that of an idle one (10 min).
	BeaconInterval, IdleBeaconInterval time.Duration
	// MetadataLimit bounds the commit metadata in bytes (1024; brokers take 4096
	// unless told otherwise); -1 sends none. What a beacon has no room for is
	// processed again by the next owner.
	MetadataLimit int

	// DrainTimeout bounds how long a revoke or Close waits for running handlers
	// (10 s). With 5 s for the last commit it must not exceed RebalanceTimeout.
	DrainTimeout time.Duration
	// SessionTimeout (45 s), HeartbeatInterval (3 s) and RebalanceTimeout (60 s)
	// are the group's.
	SessionTimeout, HeartbeatInterval, RebalanceTimeout time.Duration
	// ProcessingDeadline ends the context of a handler that runs longer (5 min, as
	// max.poll.interval.ms); -1 never. It frees no partition by itself: the record
	// stays running until the handler returns.
	ProcessingDeadline time.Duration
	// StuckAfter gives the partitions away when a handler has ignored the end of
	// its context for that long: the consumer leaves the group and Err reports
	// ErrStuck. Zero never leaves.
	StuckAfter time.Duration

	// RetryBackoff (100 ms) doubles with every attempt up to RetryBackoffMax (30
	// s), with full jitter.
	RetryBackoff, RetryBackoffMax time.Duration
	// MaxAttempts quarantines a record after that many attempts; zero retries for
	// ever.
	MaxAttempts int
	// QuarantineTopic receives quarantined records. Without one Quarantine is a
	// retry, and the error says so.
	QuarantineTopic string
	// QuarantineBudget bounds quarantines by successes.
	QuarantineBudget QuarantineBudget
	// PoisonHead quarantines the head of a partition whose window is more than 90
	// % full and more than 98 % completed, after its handler returned.
	PoisonHead bool

	// SendTimeout bounds how long Send and a quarantine append try (30 s).
	SendTimeout time.Duration
	// Ledger receives every result of Send, from the goroutine that learned it; it
	// must not block. Nil keeps the counts only.
	Ledger func(SendResult)
	// Events receives what an operator should see. It is called from the loop and
	// must not block. Nil logs to Logger.
	Events func(Event)
	// Logger is for the completion lines and for events (slog.Default).
	Logger *slog.Logger
	// LogCompletion turns the line delivered=[…] completed={…} next=… on for a
	// partition from its assignment on; SetLogCompletion changes it later.
	LogCompletion func(topic string, partition int32) bool

	// OnAssigned runs before records of the partitions are delivered, with the
	// start position of each: the place to compare with an effect store. An error
	// holds the partition.
	OnAssigned func(ctx context.Context, topic string, partition int32, start int64) error

	// Options are added to the client's: TLS, SASL, client id. Options of groups,
	// offsets, commits and fetch sizes belong to this package.
	Options []kgo.Opt
}

// QuarantineBudget lets quarantines happen only in proportion to successes, so
// that an outage cannot drain a topic into quarantine.
type QuarantineBudget struct {
	// Free quarantines per Window need no success (1; -1 for none).
	Free int
	// PerSuccess is what one success earns (0.1).
	PerSuccess float64
	// Window is how far back successes and quarantines count (5 min).
	Window time.Duration
	// Unlimited turns the budget off.
	Unlimited bool
}
