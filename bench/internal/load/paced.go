package load

import (
	"sync/atomic"
	"time"

	"github.com/tidemark-io/tidemark/internal/record"
)

// PacedOptions describe single messages at a fixed rate, spread over partitions.
type PacedOptions struct {
	Addr        string
	Topic       string
	Partitions  int // 0 to Partitions-1, round robin
	RecordBytes int
	PerSecond   int
	For         time.Duration
	InFlight    int
}

// Paced sends one message a request at the moment it is due and returns how
// long the acknowledgements took, from that moment.
func Paced(o PacedOptions) (*Histogram, error) {
	c, err := Dial(o.Addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer exactTimer()()
	batch, err := Build(Shape{RecordBytes: o.RecordBytes, BatchBytes: 1, Codec: record.None}, 1)
	if err != nil {
		return nil, err
	}
	frames := make([][]byte, o.Partitions)
	for i := range frames {
		frames[i] = ProduceFrame(o.Topic, int32(i), batch.Bytes)
	}
	total := int(o.For.Seconds() * float64(o.PerSecond))
	gap := time.Second / time.Duration(o.PerSecond)
	begin := time.Now().Add(10 * time.Millisecond)
	slots, failed := make(chan struct{}, o.InFlight-1), make(chan error, 1)
	h := &Histogram{}
	var acked atomic.Int64
	go func() {
		for range slots {
			b, err := c.Read()
			if err == nil {
				err = checkProduced(b)
			}
			if err != nil {
				failed <- err
				return
			}
			i := acked.Add(1) - 1
			h.Add(time.Since(begin.Add(time.Duration(i) * gap)))
		}
		failed <- nil
	}()
	for i := range total {
		pause(time.Until(begin.Add(time.Duration(i) * gap)))
		select {
		case slots <- struct{}{}:
		case err := <-failed:
			return nil, err
		}
		if err := c.Write(frames[i%len(frames)]); err != nil {
			return nil, err
		}
	}
	close(slots)
	return h, <-failed
}
