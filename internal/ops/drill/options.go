package drill

import (
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Protocol is how a group's members share partitions.
type Protocol string

// The protocols a drill can run.
const (
	Eager       Protocol = "eager"       // classic, all partitions are given up in every round
	Cooperative Protocol = "cooperative" // classic, only moving partitions are given up (KIP-429)
	Consumer    Protocol = "consumer"    // the coordinator assigns (KIP-848)
)

// Protocols lists all protocols in the order in which a drill runs them.
func Protocols() []Protocol { return []Protocol{Eager, Cooperative, Consumer} }

// Bounds of Options: a drill counts every record in memory.
const (
	MaxMembers    = 1000
	MaxPartitions = 10_000
	MaxRecords    = 50_000_000
)

// Options says what to rehearse.
type Options struct {
	Bootstrap  []string
	TLS        *tls.Config // nil: plaintext
	Protocols  []Protocol
	Members    int           // before the first event; at least 2
	Partitions int           // of the topic
	Rate       float64       // records a second and partition
	Replicas   int16         // of the topic, -1 for the cluster's default
	Session    time.Duration // how long a dead member is waited for
	Heartbeat  time.Duration
	Settle     time.Duration // how long a group must be still to count as settled
	Timeout    time.Duration // for one event
	Progress   func(format string, args ...any)
}

// secure adds TLS where it is asked for.
func (o Options) secure(opts ...kgo.Opt) []kgo.Opt {
	if o.TLS != nil {
		opts = append(opts, kgo.DialTLSConfig(o.TLS))
	}
	return opts
}

// Defaults are a small group with the heartbeat that clients have by default.
func Defaults() Options {
	return Options{
		Protocols: Protocols(), Members: 4, Partitions: 12, Rate: 20, Replicas: -1,
		Session: 10 * time.Second, Heartbeat: 3 * time.Second, Settle: 2 * time.Second, Timeout: 2 * time.Minute,
	}
}

// Validate names the first value that makes no sense.
func (o Options) Validate() error {
	switch {
	case len(o.Bootstrap) == 0:
		return fmt.Errorf("no broker to connect to")
	case len(o.Protocols) == 0:
		return fmt.Errorf("no protocol to rehearse")
	case o.Members < 2 || o.Members > MaxMembers:
		return fmt.Errorf("members is %d; it must be 2 to %d", o.Members, MaxMembers)
	case o.Partitions < 1 || o.Partitions > MaxPartitions:
		return fmt.Errorf("partitions is %d; it must be 1 to %d", o.Partitions, MaxPartitions)
	case o.Rate <= 0 || o.Rate > 1000:
		return fmt.Errorf("rate is %v; it must be more than 0 and at most 1000", o.Rate)
	case o.Heartbeat <= 0 || o.Session <= o.Heartbeat:
		return fmt.Errorf("the session timeout (%v) must be longer than the heartbeat interval (%v)", o.Session, o.Heartbeat)
	case o.Settle <= 0 || o.Timeout <= o.Session:
		return fmt.Errorf("the timeout (%v) must be longer than the session timeout (%v)", o.Timeout, o.Session)
	}
	for _, p := range o.Protocols {
		if !slices.Contains(Protocols(), p) {
			return fmt.Errorf("protocol %q is not one of eager, cooperative, consumer", p)
		}
	}
	return nil
}

func (o Options) say(format string, args ...any) {
	if o.Progress != nil {
		o.Progress(format, args...)
	}
}

// interval is the time between two records of a partition.
func (o Options) interval() time.Duration { return time.Duration(float64(time.Second) / o.Rate) }
