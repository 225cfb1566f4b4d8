package record

import (
	"encoding/binary"
	"iter"
)

// Record is one record of a batch. A nil Key or Value is Kafka's null; an empty
// one is not nil. The slices alias the batch, or a buffer that lives as long as
// they do.
type Record struct {
	Offset    int64
	Timestamp int64 // ms
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one header of a record; a nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Records yields the records of the batch in order, decompressing at most
// limitBytes. The first error (ErrCorrupt, ErrTooLarge) ends the sequence. All
// that the header claims is checked: the count, and that nothing is left over.
// The CRC is not: see Verify.
func (b Batch) Records(limitBytes int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		section := b.RecordBytes()
		if c := b.Codec(); c != None {
			var err error
			if section, err = Decompress(nil, c, section, limitBytes); err != nil {
				yield(Record{}, err)
				return
			}
		}
		count := b.Count()
		if count < 0 {
			yield(Record{}, corrupt("record count %d", count))
			return
		}
		for i := range count {
			var rec Record
			var err error
			if rec, section, err = b.readRecord(section); err != nil {
				yield(Record{}, corrupt("record %d of %d: %v", i, count, err))
				return
			}
			if !yield(rec, nil) {
				return
			}
		}
		if len(section) > 0 {
			yield(Record{}, corrupt("%d bytes follow the last of %d records", len(section), count))
		}
	}
}

// readRecord parses the first record of section and returns what follows it.
func (b Batch) readRecord(section []byte) (Record, []byte, error) {
	r := fieldReader{b: section}
	size := r.varint()
	if r.bad || size < 0 || int(size) > len(r.b) {
		return Record{}, nil, corrupt("length %d, %d bytes left", size, len(r.b))
	}
	rest := r.b[size:]
	r.b = r.b[:size:size]
	r.take(1) // record attributes: unused in v2
	rec := Record{Timestamp: b.BaseTimestamp() + r.varlong()}
	if b.TimestampType() == LogAppendTime {
		rec.Timestamp = b.MaxTimestamp()
	}
	rec.Offset = b.BaseOffset() + int64(r.varint())
	rec.Key = r.field()
	rec.Value = r.field()
	rec.Headers = r.headers()
	if r.bad || len(r.b) != 0 {
		return Record{}, nil, corrupt("fields do not fill the declared %d bytes", size)
	}
	return rec, rest, nil
}

// fieldReader reads the fields of one record; bad is sticky.
type fieldReader struct {
	b   []byte
	bad bool
}

func (r *fieldReader) take(n int) []byte {
	if r.bad || n > len(r.b) {
		r.bad = true
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *fieldReader) uvarint(maxBytes int) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || n > maxBytes {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *fieldReader) varint() int32 {
	u := uint32(r.uvarint(5))
	return int32(u>>1) ^ -int32(u&1)
}

func (r *fieldReader) varlong() int64 {
	u := r.uvarint(10)
	return int64(u>>1) ^ -int64(u&1)
}

// field reads a length and that many bytes; a negative length is null.
func (r *fieldReader) field() []byte {
	n := r.varint()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

func (r *fieldReader) headers() []Header {
	n := r.varint()
	if r.bad || n < 0 || int(n) > len(r.b) { // a header takes two bytes at least
		r.bad = true
		return nil
	}
	if n == 0 {
		return nil
	}
	out := make([]Header, 0, n)
	for range n {
		size := r.varint()
		if r.bad || size < 0 {
			r.bad = true
			return nil
		}
		key := string(r.take(int(size)))
		out = append(out, Header{Key: key, Value: r.field()})
	}
	return out
}
