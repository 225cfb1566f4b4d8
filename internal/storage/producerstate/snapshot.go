package producerstate

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/storage/checkpoint"
)

// Layout of a .snapshot file (ProducerSnapshot.json), big-endian:
//
//	0  int16   version, 1
//	2  uint32  CRC-32C of everything from byte 6 on
//	6  int32   number of entries
//	10 entries of 46 bytes:
//	   0 int64 producer id     8 int16 epoch          10 int32 last sequence
//	  14 int64 last offset    22 int32 offset delta   26 int64 timestamp
//	  34 int32 coordinator epoch                      38 int64 first offset of the open transaction
//
// A producer has an entry for each batch of its window, oldest first, equal in all
// that is not about the batch. Kafka writes the newest only, so that a repeat of an
// older batch after a restart is out of order there, and a producer that then
// begins a new epoch writes twice. Kafka puts entries into a map as it reads
// (ProducerStateManager.loadProducerEntry): the last of a producer is what it
// would have written itself.
const (
	snapshotVersion    = 1
	snapshotHeaderSize = 10
	snapshotCRCPos     = 2
	snapshotBodyPos    = 6
	snapshotEntrySize  = 46
)

// SnapshotSuffix ends the name of a producer snapshot.
const SnapshotSuffix = ".snapshot"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// SnapshotName returns the file name of the snapshot at an offset: the state
// of the log below it.
func SnapshotName(offset int64) string { return fmt.Sprintf("%020d%s", offset, SnapshotSuffix) }

// ParseSnapshotName reads the offset from a file name.
func ParseSnapshotName(name string) (offset int64, ok bool) {
	digits, ok := strings.CutSuffix(name, SnapshotSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && offset >= 0
}

// EncodeSnapshot returns the file content for entries, in the order given.
func EncodeSnapshot(entries []Entry) []byte {
	n := 0
	for i := range entries {
		n += max(1, int(entries[i].count))
	}
	b := make([]byte, 0, snapshotHeaderSize+n*snapshotEntrySize)
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	for i := range entries {
		b = appendEntries(b, &entries[i])
	}
	binary.BigEndian.PutUint32(b[snapshotCRCPos:], crc32.Checksum(b[snapshotBodyPos:], castagnoli))
	return b
}

// appendEntries writes a producer. The newest of its batches has the time of what
// came last, a marker perhaps: expiry counts from it.
func appendEntries(b []byte, e *Entry) []byte {
	batches := e.batches[:e.count]
	if e.count == 0 {
		batches = []BatchMeta{{LastSequence: NoSequence, LastOffset: NoOffset}}
	}
	for i, m := range batches {
		timestampMs := m.TimestampMs
		if i == len(batches)-1 {
			timestampMs = e.LastTimestampMs
		}
		b = binary.BigEndian.AppendUint64(b, uint64(e.ProducerID))
		b = binary.BigEndian.AppendUint16(b, uint16(e.Epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(m.LastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(m.LastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(m.OffsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(timestampMs))
		b = binary.BigEndian.AppendUint32(b, uint32(e.CoordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.CurrentTxnFirstOffset))
	}
	return b
}

// DecodeSnapshot parses the content of a snapshot. Errors are
// checkpoint.ErrCorrupt with the reason.
func DecodeSnapshot(b []byte) ([]Entry, error) {
	if len(b) < snapshotHeaderSize {
		return nil, corrupt("%d bytes, shorter than a header", len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != snapshotVersion {
		return nil, corrupt("version %d, expected %d", v, snapshotVersion)
	}
	stored, computed := binary.BigEndian.Uint32(b[snapshotCRCPos:]), crc32.Checksum(b[snapshotBodyPos:], castagnoli)
	if stored != computed {
		return nil, corrupt("stored CRC %#08x, computed %#08x", stored, computed)
	}
	n := int64(int32(binary.BigEndian.Uint32(b[snapshotBodyPos:])))
	body := b[snapshotHeaderSize:]
	if n < 0 || n*snapshotEntrySize != int64(len(body)) {
		return nil, corrupt("%d entries announced in %d bytes", n, len(body))
	}
	out := make([]Entry, 0, n)
	for ; len(body) > 0; body = body[snapshotEntrySize:] {
		pid := int64(binary.BigEndian.Uint64(body))
		if len(out) == 0 || out[len(out)-1].ProducerID != pid {
			out = append(out, emptyEntry(pid))
		}
		decodeEntry(&out[len(out)-1], body)
	}
	return out, nil
}

// decodeEntry adds an entry of the file to what those before it said of the same
// producer: a later batch of the same epoch extends the window, all else replaces.
func decodeEntry(e *Entry, b []byte) {
	epoch := int16(binary.BigEndian.Uint16(b[8:]))
	m := BatchMeta{
		LastSequence: int32(binary.BigEndian.Uint32(b[10:])),
		LastOffset:   int64(binary.BigEndian.Uint64(b[14:])),
		OffsetDelta:  int32(binary.BigEndian.Uint32(b[22:])),
		TimestampMs:  int64(binary.BigEndian.Uint64(b[26:])),
	}
	e.setEpoch(epoch)
	if m.FirstOffset() <= e.LastOffset() || m.LastOffset < 0 {
		e.count = 0
	}
	if m.LastOffset >= 0 {
		e.addBatch(epoch, m)
	}
	e.LastTimestampMs = m.TimestampMs
	e.CoordinatorEpoch = int32(binary.BigEndian.Uint32(b[34:]))
	e.CurrentTxnFirstOffset = max(NoOffset, int64(binary.BigEndian.Uint64(b[38:])))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("producer snapshot: %w: %s", checkpoint.ErrCorrupt, fmt.Sprintf(format, args...))
}
