package record

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// finding collects what the records of a batch say.
type finding struct {
	maxTimestamp int64
	errors       []RecordError
	errorCount   int
	badTimestamp bool
}

func (f *finding) blame(index int32, format string, args ...any) {
	f.errorCount++
	if len(f.errors) < MaxRecordErrors {
		f.errors = append(f.errors, RecordError{BatchIndex: index, Message: fmt.Sprintf(format, args...)})
	}
}

// checkRecords steps over every record of b (LogValidator.validateRecord). When
// the batch must change its codec, the records are recompressed on the way and
// returned behind room for a header.
func checkRecords(b Batch, o *ValidateOptions, target Codec) (finding, *cappedBuffer, error) {
	if target == b.Codec() {
		f, err := scanRecords(b, o, nil)
		return f, nil, err
	}
	packed := &cappedBuffer{b: make([]byte, HeaderSize, max(len(b), 4096)), max: outputBound(o)}
	d, err := newDeflater(target, o.Level, packed)
	if err != nil {
		return finding{}, nil, invalid(kerrors.UnsupportedCompressionType, "%v", err)
	}
	defer putDeflater(target, o.Level, d)
	f, err := scanRecords(b, o, d)
	if err != nil {
		return f, nil, err
	}
	if err := d.Close(); err != nil {
		return f, nil, invalid(kerrors.InvalidRecord, "recompress as %s: %v", target, err)
	}
	return f, packed, nil
}

// outputBound is the most that a recompressed batch may take.
func outputBound(o *ValidateOptions) int {
	if o.MaxMessageBytes > 0 {
		return o.MaxMessageBytes
	}
	return min(HeaderSize+o.decompressLimit(), math.MaxInt32)
}

func (o *ValidateOptions) decompressLimit() int {
	if o.DecompressLimitBytes > 0 {
		return o.DecompressLimitBytes
	}
	return DefaultDecompressLimitBytes
}

// scanRecords walks the records; the raw record bytes also go to tee.
func scanRecords(b Batch, o *ValidateOptions, tee io.Writer) (finding, error) {
	s, packed, err := openRecords(b, o, tee)
	if err != nil {
		return finding{}, refusal(err)
	}
	defer func() {
		s.release()
		packed.release()
	}()
	f := finding{maxTimestamp: NoTimestamp}
	check := recordCheck{b: b, o: o, f: &f, appendTimeBatch: b.TimestampType() == LogAppendTime,
		baseTimestamp: b.BaseTimestamp(), compressed: b.Codec() != None,
		earliest: satSub(o.NowMs, o.TimestampBeforeMaxMs), latest: satAdd(o.NowMs, o.TimestampAfterMaxMs)}
	var m recordMeta
	for i, count := int32(0), b.Count(); i < count; i++ {
		n, used := check.ordinary(s.buf[s.r:s.w], i, count)
		s.r += used
		if i += n; i == count {
			break
		}
		if err := s.next(&m); err != nil {
			return f, refusal(err)
		}
		if m.offsetDelta != i {
			return f, invalid(kerrors.InvalidRecord, "record %d of the batch has offset delta %d", i, m.offsetDelta)
		}
		check.one(i, &m)
	}
	end, err := s.atEnd()
	if err != nil {
		return f, refusal(err)
	}
	if !end {
		return f, invalid(kerrors.InvalidRecord, "bytes follow the last of %d records", b.Count())
	}
	return f, f.verdict()
}

// openRecords returns a scanner over the records and the inflater that feeds it
// (nil when they are not compressed); both must be released.
func openRecords(b Batch, o *ValidateOptions, tee io.Writer) (*scanner, *inflater, error) {
	if b.Codec() == None {
		if tee != nil {
			if _, err := tee.Write(b.RecordBytes()); err != nil {
				return nil, nil, err
			}
		}
		return newScanner(b.RecordBytes()), nil, nil
	}
	f, err := newInflater(b.Codec(), b.RecordBytes(), o.decompressLimit())
	if err != nil {
		return nil, nil, err
	}
	return newStreamScanner(f, tee, o.decompressLimit()), f, nil
}

// refusal turns an error of the scanner into the code for the client.
func refusal(err error) error {
	switch {
	case errors.Is(err, ErrTooLarge):
		return invalid(kerrors.MessageTooLarge, "%v", err)
	case errors.Is(err, errScanEnd):
		return invalid(kerrors.InvalidRecord, "the batch holds fewer records than its header claims")
	}
	return invalid(kerrors.InvalidRecord, "%v", err)
}

// recordCheck holds what is the same for all records of a batch.
type recordCheck struct {
	b               Batch
	o               *ValidateOptions
	f               *finding
	baseTimestamp   int64
	earliest        int64 // timestamps that the topic takes
	latest          int64
	appendTimeBatch bool
	compressed      bool
}

// ordinary steps over records in b, of which the first is the i-th of count, as
// long as nothing about them needs a closer look: lengths and deltas of one or two
// bytes, no headers, a timestamp within bounds, nothing to blame. It returns how
// many there were and their bytes; next and one take the record after them. A
// tenth of a produce request's CPU was spent here before it had a loop of its own
// (bench/NOTES.md).
func (c *recordCheck) ordinary(b []byte, i, count int32) (n int32, used int) {
	if c.appendTimeBatch || c.o.TimestampType != CreateTime {
		return 0, 0
	}
	var mask byte // of attributes that need a closer look
	if c.compressed {
		mask = attrCodecMask
	}
	first, base, earliest, latest, most := i, c.baseTimestamp, c.earliest, c.latest, c.f.maxTimestamp
	for ; i < count && used+shortRecord <= len(b); i++ {
		size, at := short(b, used)
		end := at + int(size>>1)
		if at == 0 || size&1 != 0 || end > len(b) || b[at]&mask != 0 {
			break
		}
		delta, at := short(b, at+1)
		if at == 0 {
			break
		}
		offset, at := short(b, at)
		if at == 0 || offset != uint32(i)<<1 {
			break
		}
		key, at := short(b, at)
		if at == 0 || key&1 != 0 && (key != 1 || c.o.Compacted) {
			break
		}
		if at += shortField(key); at+1 >= end {
			break
		}
		value, at := short(b, at)
		if at == 0 || value&1 != 0 && value != 1 {
			break
		}
		at += shortField(value)
		ts := base + unzigzag(delta)
		if at != end-1 || b[at] != 0 || ts < earliest || ts > latest {
			break
		}
		most = max(most, ts)
		used = end
	}
	c.f.maxTimestamp = most
	return i - first, used
}

// shortRecord is what short may look at before the key of a record: lengths and
// deltas of two bytes each, attributes, and the byte behind.
const shortRecord = 16

// short reads a varint of one or two bytes at b[i:], not yet undone of its zigzag,
// and returns the position behind it; 0 when it is longer. The caller sees to it
// that b[i+1] exists.
func short(b []byte, i int) (uint32, int) {
	w := uint32(b[i]) | uint32(b[i+1])<<8
	if w&0x80 == 0 {
		return w & 0x7f, i + 1
	}
	if w&0x8000 != 0 {
		return 0, 0
	}
	return w&0x7f | w>>8<<7, i + 2
}

// shortField is the size of the field that a length from short announces: null,
// which is 1 here, has none.
func shortField(length uint32) int {
	if length&1 != 0 {
		return 0
	}
	return int(length >> 1)
}

func unzigzag(v uint32) int64 { return int64(v>>1) ^ -int64(v&1) }

// one checks a record in Kafka's order: inner compression, key, timestamp.
func (c *recordCheck) one(i int32, m *recordMeta) {
	if c.compressed && m.attributes&attrCodecMask != 0 {
		c.f.blame(i, "a record in a compressed batch must not be compressed itself")
		return
	}
	if c.o.Compacted && m.keyBytes < 0 {
		c.f.blame(i, "a compacted topic takes no record without a key")
		return
	}
	if c.appendTimeBatch {
		c.f.badTimestamp = true
		c.f.blame(i, "a producer must not set the timestamp type LogAppendTime")
		return
	}
	ts := c.baseTimestamp + m.timeDelta
	if c.o.TimestampType == CreateTime && ts != NoTimestamp && (ts < c.earliest || ts > c.latest) {
		c.f.badTimestamp = true
		c.f.blame(i, "timestamp %d is outside [%d, %d]", ts, c.earliest, c.latest)
		return
	}
	if ts > c.f.maxTimestamp {
		c.f.maxTimestamp = ts
	}
}

// satSub and satAdd keep the default bound of 2^63-1 from wrapping.
func satSub(a, b int64) int64 {
	if b > 0 && a < math.MinInt64+b {
		return math.MinInt64
	}
	return a - b
}

func satAdd(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// verdict is LogValidator.processRecordErrors: INVALID_TIMESTAMP wins.
func (f *finding) verdict() error {
	if f.errorCount == 0 {
		return nil
	}
	e := invalid(kerrors.InvalidRecord, "one or more records have been rejected: %d errors, the first: record %d: %s",
		f.errorCount, f.errors[0].BatchIndex, f.errors[0].Message)
	if f.badTimestamp {
		e = invalid(kerrors.InvalidTimestamp, "one or more records have been rejected due to an invalid timestamp: record %d: %s",
			f.errors[0].BatchIndex, f.errors[0].Message)
	}
	e.RecordErrors = f.errors
	return e
}
