package produce

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/cli/app"
)

// counter counts deliveries. The client calls add from its own goroutines.
type counter struct {
	mu         sync.Mutex
	records    int64
	bytes      int64
	partitions map[int32]int64
	failed     int64
	first      error // the first failure
	available  int   // partitions of the topic, once they were looked at
	dial       error // why the last connection was not made, nil when it was
}

// OnBrokerConnect notes why brokers are out of reach: the client tries for ever.
func (c *counter) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dial = err
}

// stalled returns when records wait and none was acknowledged or refused for the
// whole of limit, or when ctx ends.
func (c *counter) stalled(ctx context.Context, limit time.Duration, waiting func() int64) bool {
	tick := time.NewTicker(min(limit, 100*time.Millisecond))
	defer tick.Stop()
	var seen int64
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		c.mu.Lock()
		answered := c.records + c.failed
		c.mu.Unlock()
		if answered != seen || waiting() == 0 {
			seen, since = answered, time.Now()
		}
		if time.Since(since) >= limit {
			return true
		}
	}
}

// silence is why nothing was answered.
func (c *counter) silence() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dial != nil {
		return c.dial
	}
	return context.DeadlineExceeded
}

// manual lets records choose their partition, and notes how many there are.
func (c *counter) manual() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.available = n
			return int(r.Partition)
		}
	})
}

func (c *counter) add(r *kgo.Record, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed++
		if c.first == nil {
			c.first = err
		}
		return
	}
	c.records++
	c.bytes += int64(len(r.Key) + len(r.Value))
	c.partitions[r.Partition]++
}

func (c *counter) firstError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// progress prints a line a second while a person watches, until stop is closed.
func (c *counter) progress(a *app.App, stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			c.mu.Lock()
			fmt.Fprintf(a.Err, "\r%s, %s ", app.Plural(c.records, "record"), app.Bytes(c.bytes))
			c.mu.Unlock()
		}
	}
}

func run(ctx context.Context, a *app.App, topic string, files []string, o options) error {
	if err := o.check(); err != nil {
		return err
	}
	headers, err := o.parseHeaders()
	if err != nil {
		return err
	}
	c := &counter{partitions: map[int32]int64{}}
	cl, err := a.Client(ctx, o.clientOptions(topic, c)...)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stop := make(chan struct{})
	var watching sync.WaitGroup
	if a.Watched && (len(files) > 0 || !a.Interactive) { // not between lines that are being typed
		watching.Go(func() { c.progress(a, stop) })
	}
	go func() {
		if c.stalled(ctx, a.Timeout, cl.BufferedProduceRecords) {
			giveUp(app.Explain(c.silence(), "", "write to %s", topic))
		}
	}()
	w := &writer{ctx: ctx, cl: cl, o: o, headers: headers, c: c}
	inputErr := w.all(a, files)
	flushErr := cl.Flush(ctx)
	close(stop)
	watching.Wait()
	var silent *app.Error
	if errors.As(context.Cause(ctx), &silent) {
		flushErr = silent
	}
	return finish(a, topic, o, c, inputErr, flushErr)
}

// finish reports what was delivered and the first thing that went wrong.
func finish(a *app.App, topic string, o options, c *counter, inputErr, flushErr error) error {
	c.mu.Lock() // the client may still give up records
	defer c.mu.Unlock()
	if a.JSON() {
		parts := map[string]int64{}
		for p, n := range c.partitions {
			parts[fmt.Sprint(p)] = n
		}
		if err := a.Emit(map[string]any{"topic": topic, "records": c.records, "bytes": c.bytes, "failed": c.failed, "partitions": parts}); err != nil {
			return err
		}
	} else if a.Watched || c.failed > 0 {
		a.Note("\rwrote %s, %s to %s", app.Plural(c.records, "record"), app.Bytes(c.bytes), topic)
	}
	var silent *app.Error
	if errors.As(flushErr, &silent) {
		return silent
	}
	if c.available > 0 && int(o.partition) >= c.available {
		return app.NoPartition(topic, o.partition, c.available)
	}
	if c.first != nil {
		e := app.Explain(c.first, "", "write to %s (%s not written)", topic, app.Plural(c.failed, "record"))
		if errors.Is(c.first, kerr.UnknownTopicOrPartition) {
			e.Hint = fmt.Sprintf("create it with \"tidemark topic create %s\"", topic)
		}
		return e
	}
	if inputErr != nil {
		return inputErr
	}
	if flushErr != nil {
		return app.Failed("write to %s: interrupted: %w", topic, flushErr)
	}
	return nil
}

// writer turns inputs into records.
type writer struct {
	ctx     context.Context
	cl      *kgo.Client
	o       options
	headers []kgo.RecordHeader
	c       *counter
}

func (w *writer) all(a *app.App, files []string) error {
	if len(files) == 0 {
		return w.input("the input", a.In)
	}
	for _, name := range files {
		if name == "-" {
			if err := w.input("the input", a.In); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			return app.Failed("%w", err)
		}
		err = errors.Join(w.input(name, f), f.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) input(name string, r io.Reader) error {
	if w.o.whole {
		data, err := io.ReadAll(io.LimitReader(r, int64(w.o.maxRecord)+1))
		if err != nil {
			return app.Failed("read %s: %w", name, err)
		}
		if len(data) > w.o.maxRecord {
			return app.Failed("%s is longer than %d bytes", name, w.o.maxRecord).Fix("raise --max-record-bytes and the topic's max.message.bytes")
		}
		return w.send(data)
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, min(64<<10, w.o.maxRecord+1)), w.o.maxRecord+1)
	for line := 1; s.Scan(); line++ {
		if err := w.send(bytes.Clone(s.Bytes())); err != nil {
			return app.Failed("%s, line %d: %w", name, line, err).Fix("give every line a key, or use another separator with --key-separator")
		}
		if w.c.firstError() != nil || w.ctx.Err() != nil {
			return w.ctx.Err()
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return app.Failed("%s has a line longer than %d bytes", name, w.o.maxRecord).Fix("raise --max-record-bytes, or use --whole for binary files")
	}
	if s.Err() != nil {
		return app.Failed("read %s: %w", name, s.Err())
	}
	return nil
}

// send hands one record to the client; it blocks while the client's buffer is full.
func (w *writer) send(data []byte) error {
	r := &kgo.Record{Value: data, Headers: w.headers, Partition: max(w.o.partition, 0)}
	if w.o.key != "" {
		r.Key = []byte(w.o.key)
	}
	if w.o.keySeparator != "" {
		k, v, ok := bytes.Cut(data, []byte(w.o.keySeparator))
		if !ok {
			return fmt.Errorf("no separator %q", w.o.keySeparator)
		}
		r.Key, r.Value = k, v
	}
	if w.o.tombstones && len(r.Value) == 0 {
		r.Value = nil
	}
	w.cl.Produce(w.ctx, r, w.c.add)
	return nil
}
