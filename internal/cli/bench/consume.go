package bench

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

func consume(ctx context.Context, a *app.App, o options) error {
	if o.fetchBytes < 1 || o.maxWait < 0 {
		return app.Usage("--fetch-size must be at least 1 and --max-wait at least 0")
	}
	parts, clients, err := setUp(ctx, a, o)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	from, to, err := limits(ctx, a, o)
	if err != nil {
		return err
	}
	r := &result{}
	var workers []func(context.Context)
	lanes := min(len(parts), o.connections*o.inflight)
	for i := range lanes {
		f := &fetcher{o: o, cl: clients[i%len(clients)], r: r, from: from, to: to}
		for j := i; j < len(parts); j += lanes {
			f.parts = append(f.parts, parts[j])
		}
		workers = append(workers, f.work)
	}
	c := startClock()
	if err := drive(ctx, a, r, o, workers); err != nil {
		return err
	}
	return show(a, r.report("consumed from", o.topic, c))
}

// limits returns the first and next offset of each partition.
func limits(ctx context.Context, a *app.App, o options) (from, to map[int32]int64, err error) {
	adm, err := a.Admin(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer adm.Close()
	reqCtx, cancel := a.Request(ctx)
	defer cancel()
	starts, err := adm.ListStartOffsets(reqCtx, o.topic)
	if err != nil {
		return nil, nil, app.Explain(err, "", "offsets of %s", o.topic)
	}
	ends, err := adm.ListEndOffsets(reqCtx, o.topic)
	if err != nil {
		return nil, nil, app.Explain(err, "", "offsets of %s", o.topic)
	}
	from, to = map[int32]int64{}, map[int32]int64{}
	for p, l := range starts[o.topic] {
		from[p] = l.Offset
	}
	for p, l := range ends[o.topic] {
		to[p] = l.Offset
	}
	return from, to, nil
}

// maxEmpty answers without a record below the end stop a run: it would never end.
const maxEmpty = 10

// fetcher reads some partitions one after the other; workers run side by side.
type fetcher struct {
	o        options
	cl       *kgo.Client
	r        *result
	parts    []target
	from, to map[int32]int64
}

func (f *fetcher) work(ctx context.Context) {
	for _, t := range f.parts {
		next, empty := f.from[t.partition], 0
		for next < f.to[t.partition] {
			records, _, err := f.r.snapshot()
			if ctx.Err() != nil || err != nil || f.o.records > 0 && records >= f.o.records {
				return
			}
			start := time.Now()
			data, err := f.fetch(ctx, t, next)
			if err != nil {
				if ctx.Err() == nil {
					f.r.fail(app.Explain(err, "", "read %s-%d", f.o.topic, t.partition))
				}
				return
			}
			n, size, after := scan(data, next)
			f.r.add(n, size, time.Since(start))
			if empty++; after > next {
				empty = 0
			}
			if empty == maxEmpty {
				f.r.fail(app.Inconclusive("%s-%d gives nothing at offset %d, yet its end was %d", f.o.topic, t.partition, next, f.to[t.partition]))
				return
			}
			next = after
		}
	}
}

func (f *fetcher) fetch(ctx context.Context, t target, offset int64) ([]byte, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(f.o.maxWait.Milliseconds()), 1, f.o.fetchBytes
	req.SessionEpoch = -1 // no session: each request stands alone
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = f.o.topic, t.topicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = t.partition, offset, f.o.fetchBytes
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	resp, err := f.cl.Broker(int(t.leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	fr := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(fr.ErrorCode); err != nil {
		return nil, err
	}
	for _, rt := range fr.Topics {
		for _, rp := range rt.Partitions {
			return rp.RecordBatches, kerr.ErrorForCode(rp.ErrorCode)
		}
	}
	return nil, nil
}
