package bench

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

type options struct {
	topic       string
	create      bool
	partitions  int32
	replication int16
	records     int64
	duration    time.Duration
	connections int
	inflight    int

	recordBytes int
	batchBytes  int
	acks        string
	compression string

	fetchBytes int32
	maxWait    time.Duration
}

// Command returns the bench command.
func Command(a *app.App) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure how fast a cluster takes and gives records"}
	cmd.AddCommand(produceCommand(a), consumeCommand(a))
	return cmd
}

func (o *options) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.topic, "topic", "t", "tidemark-bench", "topic to use")
	f.Int64VarP(&o.records, "records", "n", 1_000_000, "number of records; 0 for no limit")
	f.DurationVarP(&o.duration, "duration", "d", 0, "stop after this time; 0 for no limit")
	f.IntVarP(&o.connections, "connections", "c", 1, "number of clients, each with its own connections")
	f.IntVar(&o.inflight, "inflight", 5, "requests under way at once per client")
}

func produceCommand(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "produce",
		Short:   "Write batches that are built in advance, as fast as the cluster takes them",
		Example: "  tidemark bench produce --create --partitions 6 --records 5000000 --record-size 100",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return produce(cmd.Context(), a, o) },
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.create, "create", false, "create the topic when it is not there")
	f.Int32VarP(&o.partitions, "partitions", "p", 6, "partitions of a created topic")
	f.Int16VarP(&o.replication, "replication-factor", "r", -1, "replicas of a created topic")
	f.IntVar(&o.recordBytes, "record-size", 100, "bytes of each value")
	f.IntVar(&o.batchBytes, "batch-size", 16384, "bytes of each batch before compression")
	f.StringVar(&o.acks, "acks", "all", "all, leader or none")
	f.StringVar(&o.compression, "compression", "none", "none, gzip, snappy, lz4 or zstd")
	return cmd
}

func consumeCommand(a *app.App) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Fetch what a topic holds, as fast as the cluster gives it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return consume(cmd.Context(), a, o) },
	}
	o.bind(cmd)
	f := cmd.Flags()
	f.Int32Var(&o.fetchBytes, "fetch-size", 1<<20, "bytes asked for per partition and request")
	f.DurationVar(&o.maxWait, "max-wait", 500*time.Millisecond, "how long the cluster may wait for data")
	return cmd
}

func (o *options) check() error {
	switch {
	case o.records < 0 || o.duration < 0:
		return app.Usage("--records and --duration must be at least 0")
	case o.records == 0 && o.duration == 0:
		return app.Usage("this would never end").Fix("give --records or --duration")
	case o.connections < 1 || o.connections > 1000:
		return app.Usage("--connections is %d; it must be between 1 and 1000", o.connections)
	case o.inflight < 1 || o.inflight > 1000:
		return app.Usage("--inflight is %d; it must be between 1 and 1000", o.inflight)
	}
	return nil
}

// target is one partition and who leads it.
type target struct {
	topicID   [16]byte
	partition int32
	leader    int32
}

func targets(ctx context.Context, a *app.App, adm *app.Admin, o options) ([]target, error) {
	ask := func() (kadm.TopicDetail, error) {
		reqCtx, cancel := a.Request(ctx)
		defer cancel()
		topics, err := adm.ListTopics(reqCtx, o.topic)
		if err != nil {
			return kadm.TopicDetail{}, err
		}
		return topics[o.topic], topics[o.topic].Err
	}
	d, err := ask()
	if err != nil && o.create {
		if err := create(ctx, a, adm, o); err != nil {
			return nil, err
		}
		d, err = awaitLeaders(ctx, a, ask)
	}
	if err != nil {
		e := app.Explain(err, "", "use topic %s", o.topic)
		if !o.create {
			e.Hint = "create it with \"tidemark topic create " + o.topic + "\"; bench produce can do it with --create"
		}
		return nil, e
	}
	var out []target
	for _, p := range d.Partitions.Sorted() {
		if p.Leader < 0 {
			return nil, app.Explain(kerr.LeaderNotAvailable, "", "use %s-%d", o.topic, p.Partition)
		}
		out = append(out, target{topicID: d.ID, partition: p.Partition, leader: p.Leader})
	}
	return out, nil
}

func create(ctx context.Context, a *app.App, adm *app.Admin, o options) error {
	reqCtx, cancel := a.Request(ctx)
	defer cancel()
	r, err := adm.CreateTopic(reqCtx, o.partitions, o.replication, nil, o.topic)
	if err != nil {
		return app.Explain(err, r.ErrMessage, "create topic %s", o.topic)
	}
	return nil
}

// awaitLeaders waits, within --timeout, until every partition of a new topic has a leader.
func awaitLeaders(ctx context.Context, a *app.App, ask func() (kadm.TopicDetail, error)) (kadm.TopicDetail, error) {
	ctx, cancel := a.Request(ctx)
	defer cancel()
	for {
		d, err := ask()
		ready := err == nil && len(d.Partitions) > 0
		for _, p := range d.Partitions {
			ready = ready && p.Leader >= 0
		}
		if ready {
			return d, nil
		}
		select {
		case <-ctx.Done():
			return d, kerr.LeaderNotAvailable
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// setUp checks the options, finds the partitions and connects the clients.
func setUp(ctx context.Context, a *app.App, o options) ([]target, []*kgo.Client, error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	adm, err := a.Admin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer adm.Close()
	parts, err := targets(ctx, a, adm, o)
	if err != nil {
		return nil, nil, err
	}
	var clients []*kgo.Client
	for range o.connections {
		cl, err := a.Client(ctx, kgo.BrokerMaxReadBytes(1<<30))
		if err == nil {
			err = learnBrokers(ctx, a, cl)
		}
		if err != nil {
			closeAll(clients)
			return nil, nil, err
		}
		clients = append(clients, cl)
	}
	return parts, clients, nil
}

// learnBrokers makes a client know the brokers by id.
func learnBrokers(ctx context.Context, a *app.App, cl *kgo.Client) error {
	reqCtx, cancel := a.Request(ctx)
	defer cancel()
	if _, err := kadm.NewClient(cl).BrokerMetadata(reqCtx); err != nil {
		return app.Explain(err, "", "find the brokers")
	}
	return nil
}

func closeAll(clients []*kgo.Client) {
	for _, cl := range clients {
		cl.Close()
	}
}

// drive runs the workers until they are done and returns the first error.
func drive(ctx context.Context, a *app.App, r *result, o options, workers []func(context.Context)) error {
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	stop := make(chan struct{})
	var watching, working sync.WaitGroup
	if a.Watched {
		watching.Go(func() { watch(a, r, stop) })
	}
	for _, w := range workers {
		working.Go(func() { w(ctx) })
	}
	working.Wait()
	close(stop)
	watching.Wait()
	_, _, err := r.snapshot()
	return err
}
