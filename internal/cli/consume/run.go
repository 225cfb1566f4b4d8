package consume

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// idleLimit bounds the wait for offsets below the end that hold no record (a
// compacted or aborted tail): after it the command says that it cannot tell.
const idleLimit = 10 * time.Second

func run(ctx context.Context, a *app.App, topic string, o options) error {
	if err := o.check(a); err != nil {
		return err
	}
	from, err := parseFrom(o.from, time.Now())
	if err != nil {
		return app.Usage("--from is %q: %v", o.from, err)
	}
	out, err := newPrinter(a, o)
	if err != nil {
		return err
	}
	adm, err := a.Admin(ctx)
	if err != nil {
		return err
	}
	asking, cancel := a.Request(ctx)
	todo, err := spans(asking, adm, topic, o, from)
	cancel()
	adm.Close()
	if err != nil {
		return err
	}
	r := &reader{a: a, topic: topic, o: o, out: out, todo: todo}
	err = r.read(ctx)
	return errors.Join(err, out.flush())
}

// reader reads until it is done, interrupted, or at the end.
type reader struct {
	a     *app.App
	topic string
	o     options
	out   *printer
	todo  map[int32]span // by partition; with --exit-at-end an entry goes when its end is reached
	n     int64
}

func (r *reader) read(ctx context.Context) error {
	assigned := map[int32]kgo.Offset{}
	for p, s := range r.todo {
		if r.o.exitAtEnd && s.start >= s.end {
			delete(r.todo, p)
			continue
		}
		assigned[p] = kgo.NewOffset().At(s.start)
	}
	if r.o.exitAtEnd && len(assigned) == 0 {
		return nil
	}
	opts := []kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic: assigned}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.KeepControlRecords(), // they move the position at the end of transactions
		kgo.FetchMaxWait(500 * time.Millisecond),
		kgo.FetchMaxBytes(8 << 20),
	}
	if r.o.isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	cl, err := r.a.Client(ctx, opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	return r.loop(ctx, cl)
}

func (r *reader) loop(ctx context.Context, cl *kgo.Client) error {
	for {
		poll, cancel := ctx, context.CancelFunc(func() {})
		if r.o.exitAtEnd {
			poll, cancel = context.WithTimeout(ctx, idleLimit)
		}
		fetches := cl.PollFetches(poll)
		idle := poll.Err() != nil && ctx.Err() == nil
		cancel()
		if ctx.Err() != nil {
			return nil // interrupted: what was read stands
		}
		if err := r.fetchError(fetches, idle); err != nil {
			return err
		}
		done, err := r.take(fetches)
		if done || err != nil {
			return err
		}
		if err := r.out.flush(); err != nil {
			return err
		}
		if idle {
			return r.stuck()
		}
	}
}

func (r *reader) fetchError(fetches kgo.Fetches, idle bool) error {
	for _, e := range fetches.Errors() {
		if idle && errors.Is(e.Err, context.DeadlineExceeded) {
			continue
		}
		if errors.Is(e.Err, kerr.OffsetOutOfRange) {
			return app.Explain(kerr.OffsetOutOfRange, "", "read %s-%d from offset %d", e.Topic, e.Partition, r.todo[e.Partition].start)
		}
		return app.Explain(e.Err, "", "read %s", r.topic)
	}
	return nil
}

// take prints records and reports whether the command is done.
func (r *reader) take(fetches kgo.Fetches) (bool, error) {
	for it := fetches.RecordIter(); !it.Done(); {
		rec := it.Next()
		s, wanted := r.todo[rec.Partition]
		if !wanted || r.o.exitAtEnd && rec.Offset >= s.end {
			delete(r.todo, rec.Partition)
			continue
		}
		if !rec.Attrs.IsControl() {
			if err := r.out.print(rec); err != nil {
				return true, err
			}
			r.n++
		}
		if r.o.count > 0 && r.n >= r.o.count {
			return true, nil
		}
		if r.o.exitAtEnd && rec.Offset+1 >= s.end {
			delete(r.todo, rec.Partition)
		}
	}
	return r.o.exitAtEnd && len(r.todo) == 0, nil
}

func (r *reader) stuck() error {
	for p, s := range r.todo {
		return app.Inconclusive("%s-%d holds no more records that can be read, yet its end was %d", r.topic, p, s.end).
			Fix("its tail may be compacted, or belong to an open or aborted transaction; see \"tidemark offsets %s --read-committed\"", r.topic)
	}
	return nil
}
