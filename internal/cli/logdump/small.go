package logdump

import (
	"cmp"
	"slices"
	"strings"

	"github.com/magiconair/properties"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/recordschema"
	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
	"github.com/tidemark-io/tidemark/internal/storage/producerstate"
)

func (f *file) dumpProducers() error {
	data, err := f.readSmall()
	if err != nil {
		return err
	}
	entries, err := producerstate.DecodeSnapshot(data)
	if err != nil {
		return f.damage(0, "%w", err)
	}
	slices.SortFunc(entries, func(a, b producerstate.Entry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	t := app.NewTable(">PRODUCER", ">EPOCH", ">LAST SEQUENCE", ">LAST OFFSET", ">COORDINATOR EPOCH", ">LAST TIMESTAMP", ">OPEN TXN FROM")
	for i := range entries {
		e := &entries[i]
		if f.a.JSON() {
			err := f.line(map[string]any{
				"kind": "producer", "producer_id": e.ProducerID, "epoch": e.Epoch, "last_sequence": e.LastSequence(), "last_offset": e.LastOffset(),
				"coordinator_epoch": e.CoordinatorEpoch, "last_timestamp": e.LastTimestampMs, "transaction_first_offset": e.CurrentTxnFirstOffset,
			})
			if err != nil {
				return err
			}
			continue
		}
		t.Row(e.ProducerID, e.Epoch, e.LastSequence(), e.LastOffset(), e.CoordinatorEpoch, e.LastTimestampMs, orDash(e.CurrentTxnFirstOffset))
	}
	if !f.a.JSON() {
		f.a.Print(t)
	}
	return nil
}

func orDash(n int64) any {
	if n < 0 {
		return "-"
	}
	return n
}

func (f *file) dumpCheckpoint() error {
	data, err := f.readSmall()
	if err != nil {
		return err
	}
	if f.kind == kindEpochs {
		return f.showEpochs(data)
	}
	offsets, err := checkpoint.DecodeOffsets(data)
	if err != nil {
		return f.damage(0, "%w", err)
	}
	type row struct {
		Kind      string `json:"kind"`
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
	}
	var rows []row
	for tp, o := range offsets {
		rows = append(rows, row{"checkpoint", tp.Topic, tp.Partition, o})
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	t := app.NewTable("TOPIC", ">PARTITION", ">OFFSET")
	for _, r := range rows {
		if f.a.JSON() {
			if err := f.line(r); err != nil {
				return err
			}
			continue
		}
		t.Row(r.Topic, r.Partition, r.Offset)
	}
	if !f.a.JSON() {
		f.a.Print(t)
	}
	return nil
}

func (f *file) showEpochs(data []byte) error {
	entries, err := checkpoint.DecodeLeaderEpochs(data)
	if err != nil {
		return f.damage(0, "%w", err)
	}
	t := app.NewTable(">EPOCH", ">START OFFSET")
	for _, e := range entries {
		if f.a.JSON() {
			if err := f.line(map[string]any{"kind": "epoch", "epoch": e.Epoch, "start_offset": e.StartOffset}); err != nil {
				return err
			}
			continue
		}
		t.Row(e.Epoch, e.StartOffset)
	}
	if !f.a.JSON() {
		f.a.Print(t)
	}
	return nil
}

func (f *file) dumpQuorumState() error {
	data, err := f.readSmall()
	if err != nil {
		return err
	}
	s, err := recordschema.ParseQuorumState(data)
	if err != nil {
		return f.damage(0, "%w", err)
	}
	if f.a.JSON() {
		return f.line(map[string]any{"kind": kindQuorum, "state": plain{s}})
	}
	f.a.Printf("%s\n", plain{s})
	return nil
}

func (f *file) dumpProperties() error {
	data, err := f.readSmall()
	if err != nil {
		return err
	}
	ld := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := ld.LoadBytes(data)
	if err != nil {
		return f.damage(0, "%w", err)
	}
	values := map[string]any{"kind": kindProperties}
	for _, k := range p.Keys() {
		v, _ := p.Get(k)
		values[k] = v
		if !f.a.JSON() {
			f.a.Printf("%s=%s\n", k, v)
		}
	}
	if f.a.JSON() {
		return f.line(values)
	}
	return nil
}

func (f *file) dumpText() error {
	data, err := f.readSmall()
	if err != nil {
		return err
	}
	if f.a.JSON() {
		return f.line(map[string]any{"kind": kindText, "text": string(data)})
	}
	f.a.Printf("%s\n", strings.TrimRight(string(data), "\n"))
	return nil
}
