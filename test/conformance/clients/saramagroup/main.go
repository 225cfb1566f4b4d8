// Command saramagroup is one group member on github.com/IBM/sarama, for the
// group suite: saramagroup BOOTSTRAP TOPIC GROUP INSTANCE STRATEGY.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
		fmt.Fprintln(os.Stderr, "saramagroup:", err)
		os.Exit(1)
	}
}

func run(bootstrap, topic, group, instance, strategy string) error {
	cfg := sarama.NewConfig()
	cfg.Version = sarama.MaxVersion
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Offsets.AutoCommit.Interval = 200 * time.Millisecond // of what was marked, that is: printed
	cfg.Consumer.MaxWaitTime = 100 * time.Millisecond
	cfg.Consumer.Group.Session.Timeout = 4 * time.Second
	cfg.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	cfg.Consumer.Group.Rebalance.Timeout = 5 * time.Second
	if instance != "" { // a static member has time to come back
		cfg.Consumer.Group.InstanceId = instance
		cfg.Consumer.Group.Session.Timeout = 45 * time.Second
	}
	cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	if strategy == "sticky" {
		cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategySticky()}
	}
	g, err := sarama.NewConsumerGroup([]string{bootstrap}, group, cfg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		err := g.Consume(ctx, []string{topic}, &handler{topic: topic})
		if err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "saramagroup: consume:", err)
		}
	}
	return g.Close()
}

type handler struct{ topic string }

func (h *handler) Setup(s sarama.ConsumerGroupSession) error {
	fmt.Println("assigned", join(s.Claims()[h.topic]))
	return nil
}

func (h *handler) Cleanup(s sarama.ConsumerGroupSession) error {
	fmt.Println("revoked", join(s.Claims()[h.topic]))
	return nil
}

func join(parts []int32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(parts), "[]"), " ", ",")
}

func (h *handler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for m := range c.Messages() {
		fmt.Println("record", m.Partition, m.Offset)
		s.MarkMessage(m, "")
	}
	return nil
}
