package suite

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
	"github.com/tidemark-io/tidemark/internal/record"
)

const (
	fetchPartitions = 16
	fetchConns      = 2
)

// fetched is a topic of one system that is there to be read.
type fetched struct {
	p     peer.Peer
	topic string
	ends  []int64
	bytes int64
}

// fetch is P2, and the half of P3 that is about reading: warm from the page
// cache at three sizes, and once through a cold one.
func (r *Run) fetch() error {
	r.up()
	var ready []fetched
	for _, p := range r.running {
		if p.Name() == peer.CeilingF {
			continue
		}
		f, err := r.fill(p)
		if err != nil {
			r.fail("P2 load of "+p.Name(), err)
			continue
		}
		ready = append(ready, f)
	}
	defer func() {
		for _, f := range ready {
			if !isCeiling(f.p) {
				_ = load.DeleteTopic(f.p.Addr(), f.topic)
			}
		}
	}()
	settle()
	if !r.fetchRounds(ready, "P2", "warm") {
		return nil
	}
	return r.fetchCold(ready)
}

// fetchRounds reads what is ready at three sizes, and once traced in a whole run;
// false when the time is up.
func (r *Run) fetchRounds(ready []fetched, row, how string) bool {
	for range r.rounds(row, r.o.Pairs) {
		for _, kib := range []int{1024, 256, 64} {
			what := fmt.Sprintf("%s, %d KiB a partition", how, kib)
			if r.over("P2 from " + what + " on") {
				return false
			}
			for _, f := range ready {
				if err := r.fetchOnce(f, what, int32(kib<<10), 1200*time.Millisecond); err != nil {
					r.fail("P2 "+what+" on "+f.p.Name(), err)
				}
			}
		}
	}
	if !r.o.Quick {
		r.fetchTraced(ready, how)
	}
	return true
}

// fill loads a topic; the ceiling gets a file.
func (r *Run) fill(p peer.Peer) (fetched, error) {
	total := int64(1 << 30)
	if r.o.Quick {
		total /= 2
	}
	f := fetched{p: p, topic: r.topic(), bytes: total}
	if _, file, ok := peer.Raw(p); ok {
		return f, writeZeros(file, total)
	}
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: f.topic, Partitions: fetchPartitions}); err != nil {
		return f, err
	}
	batch, err := load.Build(load.Shape{RecordBytes: 100, BatchBytes: 16 << 10, Codec: record.None}, 7)
	if err != nil {
		return f, err
	}
	if _, err = load.Saturate(load.SaturateOptions{
		Addr: p.Addr(), Topic: f.topic, Partitions: fetchPartitions, Conns: conns, InFlight: inFlight, Batch: batch,
		For: time.Minute, Limit: total,
	}); err != nil {
		return f, err
	}
	f.ends, err = load.Ends(p.Addr(), f.topic, fetchPartitions)
	return f, err
}

func writeZeros(name string, size int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<20)
	for at := int64(0); at < size && err == nil; at += int64(len(piece)) {
		_, err = f.WriteAt(piece, at)
	}
	return errors.Join(err, f.Close())
}

func (r *Run) fetchOnce(f fetched, what string, partitionBytes int32, long time.Duration) error {
	before, err := peer.CPUSeconds(f.p.PID())
	if err != nil {
		return err
	}
	defer r.profile(f.p, "P2 "+what)()
	var got load.Read
	if addr, _, ok := peer.Raw(f.p); ok {
		got, err = load.DrainRaw(addr, f.bytes, int(partitionBytes)*fetchPartitions/fetchConns, fetchConns, long)
	} else {
		got, err = f.drain(partitionBytes, long)
	}
	if err != nil {
		return err
	}
	after, err := peer.CPUSeconds(f.p.PID())
	if err != nil {
		return err
	}
	r.add(report.Series{Row: "P2", Case: what, Metric: "throughput", Unit: "MB/s", System: f.p.Name()},
		float64(got.Bytes)/1e6/got.Took.Seconds())
	r.add(report.Series{Row: "P3", Case: "fetch " + what, Metric: "CPU", Unit: "s/GB", System: f.p.Name(), Less: true},
		(after-before)/(float64(got.Bytes)/1e9))
	return nil
}

// drain reads the topic, over TLS where the system listens on it.
func (f fetched) drain(partitionBytes int32, long time.Duration) (load.Read, error) {
	o := load.DrainOptions{
		Addr: f.p.Addr(), Topic: f.topic, Partitions: fetchPartitions, Conns: fetchConns,
		PartitionBytes: partitionBytes, MaxBytes: 50 << 20, For: long, Ends: f.ends,
	}
	if addr, config, ok := peer.TLS(f.p); ok {
		o.Addr, o.TLS = addr, config
	}
	return load.Drain(o)
}

// fetchCold drops the page cache before each pass, which needs root.
func (r *Run) fetchCold(ready []fetched) error {
	if os.Geteuid() != 0 {
		r.Out.Absent["P2 with a cold cache"] = "dropping the page cache needs root"
		return nil
	}
	for range r.rounds("P2 cold", max(r.o.Pairs/2, 1)) {
		for _, f := range ready {
			if isCeiling(f.p) {
				continue
			}
			if err := dropCaches(); err != nil {
				r.Out.Absent["P2 with a cold cache"] = err.Error()
				return nil
			}
			if err := r.fetchOnce(f, "cold, 1024 KiB a partition", 1<<20, 0); err != nil {
				r.fail("P2 cold on "+f.p.Name(), err)
			}
		}
	}
	return nil
}
