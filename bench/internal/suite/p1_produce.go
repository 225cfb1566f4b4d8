package suite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
	"github.com/tidemark-io/tidemark/internal/record"
)

const (
	// conns and inFlight of a producer: four clients with Kafka's default of five
	// requests under way.
	conns    = 4
	inFlight = 5
	// maxWritten ends a measure before the kernel holds writers up because of too
	// many dirty pages: that would measure the disk.
	maxWritten = 3 << 29
)

// produceCase is one point of P1's grid.
type produceCase struct {
	recordBytes, batchKiB, partitions int
	codec                             record.Codec
}

func (c produceCase) String() string {
	size := fmt.Sprintf("%d B", c.recordBytes)
	if c.recordBytes == 1024 {
		size = "1 KiB"
	}
	return fmt.Sprintf("%s in %d KiB, %d p, %s", size, c.batchKiB, c.partitions, c.codec)
}

// produceCases returns those that the run was asked for.
func (r *Run) produceCases() []produceCase {
	return slices.DeleteFunc(r.allProduceCases(), func(c produceCase) bool { return !strings.Contains(c.String(), r.o.Case) })
}

// allProduceCases: the published run walks along the axes, -full takes the grid,
// the quick run three points.
func (r *Run) allProduceCases() []produceCase {
	var all []produceCase
	if r.o.Full {
		for _, size := range []int{100, 1024} {
			for _, batch := range []int{16, 64, 256} {
				for _, partitions := range []int{1, 16, 256} {
					for _, codec := range []record.Codec{record.None, record.LZ4, record.Zstd} {
						all = append(all, produceCase{size, batch, partitions, codec})
					}
				}
			}
		}
		return all
	}
	all = []produceCase{{100, 16, 16, record.None}, {100, 64, 16, record.None}, {1024, 256, 16, record.None}}
	if r.o.Quick {
		return all
	}
	return append(all, []produceCase{
		{100, 64, 1, record.None}, {100, 64, 256, record.None}, {100, 64, 16, record.LZ4}, {100, 256, 16, record.None}, {100, 64, 16, record.Zstd},
	}...)
}

// produce is P1, and the half of P3 that is about writing.
func (r *Run) produce() error {
	r.up()
	cases := r.produceCases()
	batches := make([]load.Batch, len(cases))
	for i, c := range cases {
		var err error
		if batches[i], err = load.Build(load.Shape{RecordBytes: c.recordBytes, BatchBytes: c.batchKiB << 10, Codec: c.codec}, 7); err != nil {
			return err
		}
	}
	for range r.rounds("P1", r.o.Pairs) {
		for i, c := range cases {
			if r.over("P1 from " + c.String() + " on") {
				return nil
			}
			r.produceTurn(c, batches[i])
		}
	}
	return nil
}

// produceTurn measures one case on every system.
func (r *Run) produceTurn(c produceCase, batch load.Batch) {
	for _, p := range r.running {
		if err := r.produceOnce(p, c, batch); err != nil {
			r.fail(fmt.Sprintf("P1 %v on %s", c, p.Name()), err)
		}
	}
	// Deleted logs leave the disk after a second: not within the next measure.
	time.Sleep(1300 * time.Millisecond)
}

// touch writes one record to each partition: the first append of a new log costs
// Apache Kafka two fsyncs, which is not what P1 is about.
func touch(p peer.Peer, topic string, partitions int) error {
	b, err := load.Build(load.Shape{RecordBytes: 100, BatchBytes: 1, Codec: record.None}, 1)
	if err != nil {
		return err
	}
	c, err := load.Dial(p.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	return load.ProduceOnce(c, topic, partitions, b.Bytes)
}

func (r *Run) produceOnce(p peer.Peer, c produceCase, batch load.Batch) error {
	topic := r.topic()
	if !isCeiling(p) {
		if err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: c.partitions}); err != nil {
			return err
		}
		defer func() { _ = load.DeleteTopic(p.Addr(), topic) }()
		if err := touch(p, topic, c.partitions); err != nil {
			return err
		}
	}
	settle()
	o := load.SaturateOptions{
		Addr: p.Addr(), Topic: topic, Partitions: c.partitions, Conns: conns, InFlight: inFlight, Batch: batch,
		For: 1200 * time.Millisecond, Limit: maxWritten,
	}
	before, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	defer r.profile(p, "P1 "+c.String())()
	w, err := load.Saturate(o)
	if err != nil {
		return err
	}
	after, err := peer.CPUSeconds(p.PID())
	if err != nil {
		return err
	}
	r.add(report.Series{Row: "P1", Case: c.String(), Metric: "throughput", Unit: "MB/s", System: p.Name()},
		float64(w.PlainBytes)/1e6/w.Took.Seconds())
	r.add(report.Series{Row: "P3", Case: "produce " + c.String(), Metric: "CPU", Unit: "s/GB", System: p.Name(), Less: true},
		(after-before)/(float64(w.PlainBytes)/1e9))
	return nil
}
