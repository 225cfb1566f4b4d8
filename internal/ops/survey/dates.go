package survey

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/ops/boundary"
)

// place is the first record at or after an offset.
type place struct {
	topic     string
	partition int32
	offset    int64
}

// Bounds of one reading of dates.
const (
	maxPlaces   = 512    // places in one survey; those beyond have no age
	maxKnown    = 20_000 // dates kept between surveys
	dateTimeout = 3 * time.Second
	dateBytes   = 64 << 10 // a fetch returns one batch at least, however long
)

// dates reads timestamps of records and remembers them: a record's timestamp
// does not change, so a live table reads each boundary once.
type dates struct {
	dial []kgo.Opt

	mu    sync.Mutex
	known map[place]int64 // Unix ms
}

func (d *dates) at(p place) boundary.Offset {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ms, ok := d.known[p]; ok {
		return boundary.At(ms)
	}
	return boundary.Offset{}
}

// read looks up the places that are not known. What cannot be read in time stays
// absent.
func (d *dates) read(ctx context.Context, want []place) {
	missing := map[string]map[int32][]int64{}
	n := 0
	d.mu.Lock()
	if len(d.known) > maxKnown {
		clear(d.known)
	}
	for _, p := range want {
		if _, ok := d.known[p]; ok || n >= maxPlaces {
			continue
		}
		if missing[p.topic] == nil {
			missing[p.topic] = map[int32][]int64{}
		}
		missing[p.topic][p.partition] = append(missing[p.topic][p.partition], p.offset)
		n++
	}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, dateTimeout)
	defer cancel()
	// A client reads a partition from one place at a time, and there are at most
	// two places in a partition.
	for range 2 {
		start := map[string]map[int32]kgo.Offset{}
		asked := map[string]map[int32]int64{}
		for topic, partitions := range missing {
			for partition, offsets := range partitions {
				if len(offsets) == 0 {
					continue
				}
				if start[topic] == nil {
					start[topic], asked[topic] = map[int32]kgo.Offset{}, map[int32]int64{}
				}
				start[topic][partition] = kgo.NewOffset().At(offsets[0])
				asked[topic][partition] = offsets[0]
				partitions[partition] = offsets[1:]
			}
		}
		if len(start) == 0 {
			return
		}
		d.fetch(ctx, start, asked)
	}
}

// fetch reads the first record of each place.
func (d *dates) fetch(ctx context.Context, start map[string]map[int32]kgo.Offset, asked map[string]map[int32]int64) {
	opts := append(append([]kgo.Opt{}, d.dial...), kgo.ConsumePartitions(start), kgo.FetchMaxPartitionBytes(dateBytes),
		kgo.FetchMaxWait(250*time.Millisecond), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return
	}
	defer cl.CloseAllowingRebalance()
	left := 0
	for _, partitions := range asked {
		left += len(partitions)
	}
	for left > 0 && ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			offset, ok := asked[p.Topic][p.Partition]
			if !ok || p.Err == nil && len(p.Records) == 0 {
				return
			}
			delete(asked[p.Topic], p.Partition)
			left--
			cl.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
			if len(p.Records) > 0 {
				d.mu.Lock()
				d.known[place{p.Topic, p.Partition, offset}] = p.Records[0].Timestamp.UnixMilli()
				d.mu.Unlock()
			}
		})
	}
}
