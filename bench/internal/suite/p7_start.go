package suite

import (
	"fmt"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/peer"
	"github.com/tidemark-io/tidemark/bench/internal/report"
	"github.com/tidemark-io/tidemark/internal/record"
)

// start is P7: from exec to the first acknowledgement, after a clean stop with
// nothing on disk, and after kill -9 with much.
func (r *Run) start() error {
	r.down()
	bytes, partitions := int64(10)<<30, 2000
	if r.o.Quick {
		bytes, partitions = 1<<30, 200
	}
	for range r.rounds("P7", r.o.Pairs) {
		for _, p := range r.brokers {
			if r.over("P7 on " + p.Name()) {
				return nil
			}
			if err := r.startClean(p); err != nil {
				r.fail("P7 on "+p.Name(), err)
			}
			p.Kill()
			peer.Remove(p)
		}
	}
	for range r.rounds("P7 after kill -9", r.o.Slow) {
		for _, p := range r.brokers {
			if r.over("P7 after kill -9 on " + p.Name()) {
				return nil
			}
			if err := r.startKilled(p, bytes, partitions); err != nil {
				r.fail("P7 after kill -9 on "+p.Name(), err)
			}
			p.Kill()
			peer.Remove(p)
		}
	}
	return nil
}

func (r *Run) startClean(p peer.Peer) error {
	if err := peer.Start(p); err != nil {
		return err
	}
	topic, batch, err := r.oneBatch(p, 1)
	if err != nil {
		return err
	}
	if _, err := load.AwaitAck(p.Addr(), topic, 1, batch, time.Minute); err != nil {
		return err
	}
	p.Stop()
	at, err := p.Exec()
	if err != nil {
		return err
	}
	acked, err := load.AwaitAck(p.Addr(), topic, 1, batch, time.Minute)
	if err != nil {
		return err
	}
	r.add(report.Series{Row: "P7", Case: "exec to first ack, clean stop", Metric: "time", Unit: "s", System: p.Name(), Less: true}, acked.Sub(at).Seconds())
	return nil
}

func (r *Run) oneBatch(p peer.Peer, partitions int) (string, []byte, error) {
	topic := r.topic()
	if err := load.CreateTopics(p.Addr(), load.Topic{Name: topic, Partitions: partitions}); err != nil {
		return "", nil, err
	}
	b, err := load.Build(load.Shape{RecordBytes: 100, BatchBytes: 1, Codec: record.None}, 1)
	return topic, b.Bytes, err
}

func (r *Run) startKilled(p peer.Peer, bytes int64, partitions int) error {
	if err := peer.Start(p); err != nil {
		return err
	}
	topic, small, err := r.oneBatch(p, partitions)
	if err != nil {
		return err
	}
	batch, err := load.Build(load.Shape{RecordBytes: 1024, BatchBytes: 256 << 10, Codec: record.None}, 7)
	if err != nil {
		return err
	}
	if _, err := load.Saturate(load.SaturateOptions{
		Addr: p.Addr(), Topic: topic, Partitions: partitions, Conns: conns, InFlight: inFlight, Batch: batch,
		For: 5 * time.Minute, Limit: bytes,
	}); err != nil {
		return err
	}
	p.Kill()
	settle()
	at, err := p.Exec()
	if err != nil {
		return err
	}
	one, err := load.AwaitAck(p.Addr(), topic, 1, small, 2*time.Minute)
	if err != nil {
		return err
	}
	all, err := load.AwaitAck(p.Addr(), topic, partitions, small, 2*time.Minute)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("kill -9 with %d GB, %d p", bytes>>30, partitions)
	r.add(report.Series{Row: "P7", Case: what + ", first ack", Metric: "time", Unit: "s", System: p.Name(), Less: true}, one.Sub(at).Seconds())
	r.add(report.Series{Row: "P7", Case: what + ", all acked", Metric: "time", Unit: "s", System: p.Name(), Less: true}, all.Sub(at).Seconds())
	return nil
}
