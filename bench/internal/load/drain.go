package load

import (
	"crypto/tls"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DrainOptions say what to fetch.
type DrainOptions struct {
	Addr       string
	Topic      string
	Partitions int
	Conns      int
	// PartitionBytes is asked for per partition, MaxBytes per request: Kafka's
	// consumer has 1 MiB and 50 MiB.
	PartitionBytes, MaxBytes int32
	// For is how long to go on: a connection at the end of its partitions begins
	// again. 0 means once through.
	For time.Duration
	// Ends are the log end offsets by partition.
	Ends []int64
	// TLS of the connections; nil is plaintext.
	TLS *tls.Config
}

// Read is what Drain did.
type Read struct {
	Bytes int64
	Took  time.Duration
}

// Drain fetches partitions from the beginning with full fetches; each
// connection has its share of the partitions and one request under way.
func Drain(o DrainOptions) (Read, error) {
	var total atomic.Int64
	errs := make(chan error, o.Conns)
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range o.Conns {
		wg.Go(func() {
			n, err := drainConn(&o, i, begin.Add(o.For))
			total.Add(n)
			errs <- err
		})
	}
	wg.Wait()
	took := time.Since(begin)
	close(errs)
	for err := range errs {
		if err != nil {
			return Read{}, err
		}
	}
	return Read{Bytes: total.Load(), Took: took}, nil
}

func drainConn(o *DrainOptions, index int, deadline time.Time) (int64, error) {
	c, _, err := DialTLS(o.Addr, o.TLS)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	total, next := int64(0), map[int32]int64{}
	for {
		if len(next) == 0 {
			for p := index; p < o.Partitions; p += o.Conns {
				if o.Ends[p] > 0 {
					next[int32(p)] = 0
				}
			}
		}
		n, err := fetchOnce(c, o, next)
		total += n
		if err != nil || n == 0 {
			return total, err
		}
		if o.For > 0 && time.Now().After(deadline) || o.For == 0 && len(next) == 0 {
			return total, nil
		}
	}
}

// fetchOnce asks for every partition in next and moves their offsets on; a
// partition at its end leaves the map.
func fetchOnce(c *Conn, o *DrainOptions, next map[int32]int64) (int64, error) {
	resp := kmsg.NewPtrFetchResponse()
	req := fetchRequest(o.Topic, next, o.MaxBytes, o.PartitionBytes, 500)
	if err := c.Do(req, resp); err != nil {
		return 0, err
	}
	total := int64(0)
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.ErrorCode != 0 {
				return total, fmt.Errorf("fetch %s-%d: error %d", o.Topic, p.Partition, p.ErrorCode)
			}
			after, size := nextOffset(p.RecordBatches, next[p.Partition])
			total += int64(size)
			next[p.Partition] = after
			if after >= o.Ends[p.Partition] {
				delete(next, p.Partition)
			}
		}
	}
	return total, nil
}
