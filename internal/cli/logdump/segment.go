package logdump

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tidemark-io/tidemark/internal/cli/app"
	"github.com/tidemark-io/tidemark/internal/record"
)

// maxBatchBytes is the largest batch that a length field can mean here; beyond
// it the length is damage.
const maxBatchBytes = 1 << 30

// batchInfo is one line about a batch.
type batchInfo struct {
	Kind          string `json:"kind"`
	Position      int64  `json:"position"`
	BaseOffset    int64  `json:"base_offset"`
	LastOffset    int64  `json:"last_offset"`
	Count         int32  `json:"count"`
	SizeBytes     int    `json:"size_bytes"`
	LeaderEpoch   int32  `json:"leader_epoch"`
	Codec         string `json:"codec"`
	TimestampType string `json:"timestamp_type"`
	BaseTimestamp int64  `json:"base_timestamp"`
	MaxTimestamp  int64  `json:"max_timestamp"`
	ProducerID    int64  `json:"producer_id"`
	ProducerEpoch int16  `json:"producer_epoch"`
	BaseSequence  int32  `json:"base_sequence"`
	LastSequence  int32  `json:"last_sequence"`
	Transactional bool   `json:"transactional"`
	Control       bool   `json:"control"`
	DeleteHorizon bool   `json:"delete_horizon"`
	CRC           uint32 `json:"crc"`
	Valid         bool   `json:"valid"`
}

func infoOf(b record.Batch, pos int64, valid bool) batchInfo {
	return batchInfo{
		Kind: "batch", Position: pos, BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), Count: b.Count(), SizeBytes: b.LengthBytes(),
		LeaderEpoch: b.PartitionLeaderEpoch(), Codec: b.Codec().String(), TimestampType: b.TimestampType().String(),
		BaseTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(), ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(),
		BaseSequence: b.BaseSequence(), LastSequence: b.LastSequence(), Transactional: b.IsTransactional(), Control: b.IsControl(),
		DeleteHorizon: b.HasDeleteHorizon(), CRC: b.CRC(), Valid: valid,
	}
}

func (f *file) dumpLog() error {
	in, err := os.Open(f.path)
	if err != nil {
		return app.Failed("%w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return app.Failed("%w", err)
	}
	s := scanner{file: f, in: in, size: info.Size(), next: baseOffset(f.path)}
	if err := s.scan(); err != nil {
		return err
	}
	if !f.a.JSON() {
		f.a.Printf("%s, %s, %s\n", app.Plural(s.batches, "batch"), app.Plural(s.records, "record"), app.Bytes(s.pos))
	}
	return nil
}

// baseOffset reads the offset that a segment's name starts with, -1 when it has none.
func baseOffset(path string) int64 {
	name := filepath.Base(path)
	digits := name[:len(name)-len(strings.TrimLeft(name, "0123456789"))]
	if len(digits) != 20 {
		return -1
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// scanner walks the batches of a log file.
type scanner struct {
	*file
	in      io.ReaderAt
	size    int64
	pos     int64
	next    int64 // smallest offset that the next batch may have, -1 unknown
	batches int64
	records int64
	buf     []byte
}

func (s *scanner) scan() error {
	for s.pos < s.size {
		b, err := s.read()
		if err != nil {
			return err
		}
		if b == nil {
			return nil
		}
		if err := s.batch(b); err != nil {
			return err
		}
		s.pos += int64(b.LengthBytes())
		s.batches++
	}
	return nil
}

// read returns the batch at pos, or nil at the end of what can be read.
func (s *scanner) read() (record.Batch, error) {
	var head [record.LogOverhead]byte
	n, err := s.in.ReadAt(head[:], s.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, app.Failed("read %s: %w", s.path, err)
	}
	if n < len(head) {
		return nil, s.damage(s.pos, "%d bytes at the end are no whole batch", s.size-s.pos)
	}
	if head == ([record.LogOverhead]byte{}) {
		return nil, s.preallocated()
	}
	length := int64(int32(binary.BigEndian.Uint32(head[8:]))) + record.LogOverhead
	switch {
	case length < record.HeaderSize || length > maxBatchBytes:
		return nil, s.damage(s.pos, "a batch length of %d bytes is impossible", length)
	case s.pos+length > s.size:
		return nil, s.damage(s.pos, "the last batch has %d bytes and the file only %d more: a torn write", length, s.size-s.pos)
	}
	if int64(cap(s.buf)) < length {
		s.buf = make([]byte, length)
	}
	s.buf = s.buf[:length]
	if _, err := s.in.ReadAt(s.buf, s.pos); err != nil {
		return nil, app.Failed("read %s: %w", s.path, err)
	}
	b, err := record.Parse(s.buf)
	if err != nil {
		return nil, s.damage(s.pos, "%w", err)
	}
	return b, nil
}

// preallocated accepts a tail of zeros: the file was reserved in advance.
func (s *scanner) preallocated() error {
	buf := make([]byte, 64<<10)
	for pos := s.pos; pos < s.size; {
		n, err := s.in.ReadAt(buf, pos)
		for i, c := range buf[:n] {
			if c != 0 {
				return s.damage(pos+int64(i), "bytes behind a stretch of zeros that started at byte %d", s.pos)
			}
		}
		pos += int64(n)
		if err != nil && !errors.Is(err, io.EOF) {
			return app.Failed("read %s: %w", s.path, err)
		}
		if n == 0 {
			break
		}
	}
	if !s.a.JSON() {
		s.a.Printf("%s of reserved space at the end\n", app.Bytes(s.size-s.pos))
	}
	return nil
}

func (s *scanner) batch(b record.Batch) error {
	verifyErr := b.Verify()
	info := infoOf(b, s.pos, verifyErr == nil)
	if err := s.showBatch(info); err != nil {
		return err
	}
	s.records += int64(b.Count())
	if verifyErr != nil {
		return s.damage(s.pos, "%w", verifyErr)
	}
	if s.next >= 0 && b.BaseOffset() < s.next {
		if err := s.damage(s.pos, "offset %d comes after offset %d", b.BaseOffset(), s.next-1); err != nil {
			return err
		}
	}
	s.next = b.NextOffset()
	return s.showRecords(b)
}

func (s *scanner) showBatch(i batchInfo) error {
	if s.a.JSON() {
		return s.line(i)
	}
	var marks []string
	for mark, on := range map[string]bool{"transactional": i.Transactional, "control": i.Control, "delete-horizon": i.DeleteHorizon, "CRC-WRONG": !i.Valid} {
		if on {
			marks = append(marks, mark)
		}
	}
	producer := ""
	if i.ProducerID >= 0 {
		producer = " producer " + strconv.FormatInt(i.ProducerID, 10) + " epoch " + strconv.Itoa(int(i.ProducerEpoch)) +
			" sequence " + strconv.Itoa(int(i.BaseSequence)) + ".." + strconv.Itoa(int(i.LastSequence))
	}
	s.a.Printf("byte %d: offsets %d..%d, %s, %d B, %s, leader epoch %d, %s %d..%d%s%s\n", i.Position, i.BaseOffset, i.LastOffset,
		app.Plural(int64(i.Count), "record"), i.SizeBytes, i.Codec, i.LeaderEpoch, i.TimestampType, i.BaseTimestamp, i.MaxTimestamp,
		producer, joinMarks(marks))
	return nil
}

// line writes one JSON line.
func (f *file) line(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return app.Failed("write the output: %w", err)
	}
	f.a.Printf("%s\n", data)
	return nil
}
