package consumer

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tidemark-io/tidemark/consumer/beacon"
)

// withDefaults checks the configuration and fills in what is left open.
func (cfg Config) withDefaults() (Config, error) {
	switch {
	case len(cfg.Brokers) == 0:
		return cfg, errors.New("consumer: Brokers is empty")
	case cfg.Group == "":
		return cfg, errors.New("consumer: Group is empty")
	case len(cfg.Topics) == 0:
		return cfg, errors.New("consumer: Topics is empty")
	case cfg.QuarantineTopic != "" && slices.Contains(cfg.Topics, cfg.QuarantineTopic):
		// Quarantined records would come back and be quarantined again
		// (spring-projects/spring-kafka#1918).
		return cfg, fmt.Errorf("consumer: %s is both consumed and the quarantine topic", cfg.QuarantineTopic)
	case cfg.MaxAttempts > 0 && cfg.QuarantineTopic == "", cfg.PoisonHead && cfg.QuarantineTopic == "":
		return cfg, errors.New("consumer: MaxAttempts and PoisonHead need a QuarantineTopic")
	case cfg.MaxAttempts < 0:
		return cfg, errors.New("consumer: MaxAttempts is negative")
	}
	positive(&cfg.Concurrency, 16)
	positive(&cfg.PartitionRecords, 1000)
	positive(&cfg.TotalRecords, 10_000)
	positive(&cfg.PartitionBytes, 8<<20)
	positive(&cfg.TotalBytes, 32<<20)
	positive(&cfg.PartitionWindow, 8192)
	positive(&cfg.FetchBytes, int32(min(max(cfg.TotalBytes/4, 1<<20), 50<<20)))
	cfg.timeDefaults()
	if cfg.PartitionWindow > maxWindow {
		return cfg, fmt.Errorf("consumer: PartitionWindow is above %d", maxWindow)
	}
	if cfg.DrainTimeout+commitGrace > cfg.RebalanceTimeout {
		return cfg, fmt.Errorf("consumer: DrainTimeout %v and %v for the last commit are longer than RebalanceTimeout %v: the group would expel this member while it hands over",
			cfg.DrainTimeout, commitGrace, cfg.RebalanceTimeout)
	}
	switch {
	case cfg.MetadataLimit == 0:
		cfg.MetadataLimit = beacon.DefaultLimit
	case cfg.MetadataLimit < 0:
		cfg.MetadataLimit = 0
	}
	if q := &cfg.QuarantineBudget; true {
		if q.Free == 0 {
			q.Free = 1
		}
		positive(&q.PerSuccess, 0.1)
		positive(&q.Window, 5*time.Minute)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg, nil
}

// maxWindow keeps the completed set within what a beacon's reader accepts.
const maxWindow = 1 << 16

func (cfg *Config) timeDefaults() {
	positive(&cfg.FetchWait, 500*time.Millisecond)
	positive(&cfg.CommitInterval, time.Second)
	positive(&cfg.BeaconInterval, 10*time.Second)
	positive(&cfg.IdleBeaconInterval, 10*time.Minute)
	positive(&cfg.SessionTimeout, 45*time.Second)
	positive(&cfg.HeartbeatInterval, 3*time.Second)
	positive(&cfg.RebalanceTimeout, time.Minute)
	positive(&cfg.DrainTimeout, 10*time.Second)
	positive(&cfg.RetryBackoff, 100*time.Millisecond)
	positive(&cfg.RetryBackoffMax, 30*time.Second)
	positive(&cfg.SendTimeout, 30*time.Second)
	if cfg.ProcessingDeadline == 0 {
		cfg.ProcessingDeadline = 5 * time.Minute
	}
}

// positive sets *v to its default when it is not positive.
func positive[T int | int32 | int64 | float64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
