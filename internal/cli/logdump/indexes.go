package logdump

import (
	"errors"
	"os"
	"strings"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/record"
	"github.com/tidemark-io/tidemark/internal/storage/index"
)

func (f *file) dumpIndex() error {
	base := baseOffset(f.path)
	if base < 0 {
		return app.Usage("%s: its name does not start with the 20 digits of its base offset", f.path).Fix("rename a copy, for example to 00000000000000000000.%s", f.kind)
	}
	data, err := f.readSmall()
	if err != nil {
		return err
	}
	switch f.kind {
	case kindIndex:
		return f.offsetIndex(data, base)
	case kindTimeIndex:
		return f.timeIndex(data, base)
	}
	return f.txnIndex(data, base)
}

func (f *file) offsetIndex(data []byte, base int64) error {
	entries, decodeErr := index.DecodeOffsetEntries(data, base)
	check, closeLog := f.sibling()
	defer closeLog()
	t := app.NewTable(">OFFSET", ">POSITION")
	for _, e := range entries {
		if f.a.JSON() {
			if err := f.line(map[string]any{"kind": "index", "offset": e.Offset, "position": e.Position}); err != nil {
				return err
			}
		}
		t.Row(e.Offset, e.Position)
	}
	if !f.a.JSON() {
		f.a.Print(t)
	}
	for _, e := range entries {
		if reason := check(e); reason != "" {
			if err := f.damage(0, "the entry for offset %d: %s", e.Offset, reason); err != nil {
				return err
			}
		}
	}
	return f.broken(decodeErr)
}

// sibling opens the log beside an index and returns a check of one entry
// against it; without that log nothing is checked.
func (f *file) sibling() (check func(index.OffsetEntry) string, closeLog func()) {
	none := func(index.OffsetEntry) string { return "" }
	in, err := os.Open(strings.TrimSuffix(f.path, ".index") + ".log")
	if err != nil {
		if !f.a.JSON() && errors.Is(err, os.ErrNotExist) {
			f.a.Printf("(not checked against its log: %v)\n", err)
		}
		return none, func() {}
	}
	check = func(e index.OffsetEntry) string {
		head := make([]byte, record.HeaderSize)
		if _, err := in.ReadAt(head, e.Position); err != nil {
			return "the log has no batch there"
		}
		b := record.Batch(head)
		if b.Magic() != 2 || e.Offset < b.BaseOffset() || e.Offset > b.LastOffset() {
			return "the log has another batch there"
		}
		return ""
	}
	return check, func() { _ = in.Close() }
}

func (f *file) timeIndex(data []byte, base int64) error {
	entries, decodeErr := index.DecodeTimeEntries(data, base)
	t := app.NewTable(">TIMESTAMP", ">OFFSET")
	for _, e := range entries {
		if f.a.JSON() {
			if err := f.line(map[string]any{"kind": "timeindex", "timestamp": e.TimestampMs, "offset": e.Offset}); err != nil {
				return err
			}
		}
		t.Row(e.TimestampMs, e.Offset)
	}
	if !f.a.JSON() {
		f.a.Print(t)
	}
	return f.broken(decodeErr)
}

func (f *file) txnIndex(data []byte, base int64) error {
	entries, decodeErr := index.DecodeTxnEntries(data, base)
	t := app.NewTable(">PRODUCER", ">FIRST OFFSET", ">LAST OFFSET", ">LAST STABLE OFFSET")
	for _, e := range entries {
		if f.a.JSON() {
			err := f.line(map[string]any{
				"kind": "txnindex", "producer_id": e.ProducerID, "first_offset": e.FirstOffset,
				"last_offset": e.LastOffset, "last_stable_offset": e.LastStableOffset,
			})
			if err != nil {
				return err
			}
		}
		t.Row(e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset)
	}
	if !f.a.JSON() {
		f.a.Print(t)
	}
	if tail := len(data) % index.TxnEntrySize; tail != 0 && decodeErr == nil {
		return f.damage(int64(len(data)-tail), "%d bytes at the end are no whole entry", tail)
	}
	return f.broken(decodeErr)
}

func (f *file) broken(err error) error {
	if err == nil {
		return nil
	}
	return f.damage(0, "%w", err)
}
