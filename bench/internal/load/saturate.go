package load

import (
	"sync"
	"sync/atomic"
	"time"
)

// SaturateOptions say how hard to write.
type SaturateOptions struct {
	Addr       string
	Topic      string
	Partitions int
	Conns      int
	// InFlight requests are under way on each connection.
	InFlight int
	Batch    Batch
	// For is how long to write; Limit ends it earlier after so many bytes (0: no
	// limit).
	For   time.Duration
	Limit int64
}

// Written is what a Saturate run did. Bytes count acknowledged batches as they
// went over the wire; PlainBytes before compression.
type Written struct {
	Requests   int64
	Bytes      int64
	PlainBytes int64
	Records    int64
	Took       time.Duration
}

// Saturate keeps InFlight produce requests under way on every connection, each
// with one batch for one partition, round robin. The first error ends the run.
func Saturate(o SaturateOptions) (Written, error) {
	var acked atomic.Int64
	var first atomic.Pointer[error]
	limit := int64(1) << 62
	if o.Limit > 0 {
		limit = o.Limit / int64(len(o.Batch.Bytes))
	}
	var issued atomic.Int64
	begin := time.Now()
	deadline := begin.Add(o.For)
	more := func() bool {
		return first.Load() == nil && time.Now().Before(deadline) && issued.Add(1) <= limit
	}
	var wg sync.WaitGroup
	for i := range o.Conns {
		wg.Go(func() {
			if err := saturateConn(&o, i, more, &acked); err != nil {
				first.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	n := acked.Load()
	w := Written{
		Requests: n, Took: time.Since(begin), Bytes: n * int64(len(o.Batch.Bytes)),
		PlainBytes: n * int64(o.Batch.PlainBytes), Records: n * int64(o.Batch.Records),
	}
	if err := first.Load(); err != nil {
		return w, *err
	}
	return w, nil
}

func saturateConn(o *SaturateOptions, index int, more func() bool, acked *atomic.Int64) error {
	c, err := Dial(o.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var frames [][]byte
	for p := index % o.Partitions; p < o.Partitions; p += o.Conns {
		frames = append(frames, ProduceFrame(o.Topic, int32(p), o.Batch.Bytes))
	}
	// The reader holds one slot while it waits for that slot's answer.
	slots := make(chan struct{}, o.InFlight-1)
	failed := make(chan error, 1)
	go func() { failed <- acknowledge(c, slots, acked) }()
	for i := 0; more(); i++ {
		select {
		case slots <- struct{}{}:
		case err := <-failed:
			return err
		}
		if err := c.Write(frames[i%len(frames)]); err != nil {
			return err
		}
	}
	close(slots)
	return <-failed
}

// acknowledge reads one answer for every slot taken.
func acknowledge(c *Conn, slots <-chan struct{}, acked *atomic.Int64) error {
	for range slots {
		b, err := c.Read()
		if err != nil {
			return err
		}
		if err := checkProduced(b); err != nil {
			return err
		}
		acked.Add(1)
	}
	return nil
}
