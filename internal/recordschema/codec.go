package recordschema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidemark-io/tidemark/internal/types"
)

// Sentinels that every decoding error wraps.
var (
	// ErrMalformed says that the bytes do not follow the schema.
	ErrMalformed = errors.New("malformed record")
	// ErrUnknownRecord says that no record has this key.
	ErrUnknownRecord = errors.New("unknown record")
	// ErrUnsupportedVersion says that the record is known, this version is not.
	ErrUnsupportedVersion = errors.New("unsupported record version")
)

// Bounds on what one record may claim to hold (CVE-2026-111108: unbounded
// arrays in decoders). Both are far above anything Kafka writes.
const (
	maxElements   = 1_000_000
	maxTaggedTags = 10_000
)

// RawTag is a tagged field that this version of the schema does not know. It is
// kept so that what a newer writer added survives a rewrite.
type RawTag struct {
	Tag  uint32
	Data []byte
}

// codec walks a record's fields in schema order. With decode false it appends
// to buf; with decode true it consumes buf. The first error sticks and turns
// every later call into a no-op.
type codec struct {
	buf    []byte
	decode bool
	err    error
	trace  *tracer // set: describe the fields instead of moving bytes
}

func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

// take consumes n bytes; nil after an error.
func (c *codec) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.buf) {
		c.fail("needs %d bytes, has %d", n, len(c.buf))
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

func (c *codec) int8(p *int8) {
	if c.trace != nil {
		c.trace.field(p, "int8", false)
		return
	}
	if !c.decode {
		c.buf = append(c.buf, byte(*p))
	} else if b := c.take(1); b != nil {
		*p = int8(b[0])
	}
}

func (c *codec) bool(p *bool) {
	if c.trace != nil {
		c.trace.field(p, "bool", false)
		return
	}
	if !c.decode {
		if *p {
			c.buf = append(c.buf, 1)
		} else {
			c.buf = append(c.buf, 0)
		}
	} else if b := c.take(1); b != nil {
		*p = b[0] != 0
	}
}

func (c *codec) int16(p *int16) {
	if c.trace != nil {
		c.trace.field(p, "int16", false)
		return
	}
	if !c.decode {
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(*p))
	} else if b := c.take(2); b != nil {
		*p = int16(binary.BigEndian.Uint16(b))
	}
}

func (c *codec) uint16(p *uint16) {
	if c.trace != nil {
		c.trace.field(p, "uint16", false)
		return
	}
	if !c.decode {
		c.buf = binary.BigEndian.AppendUint16(c.buf, *p)
	} else if b := c.take(2); b != nil {
		*p = binary.BigEndian.Uint16(b)
	}
}

func (c *codec) int32(p *int32) {
	if c.trace != nil {
		c.trace.field(p, "int32", false)
		return
	}
	if !c.decode {
		c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(*p))
	} else if b := c.take(4); b != nil {
		*p = int32(binary.BigEndian.Uint32(b))
	}
}

func (c *codec) int64(p *int64) {
	if c.trace != nil {
		c.trace.field(p, "int64", false)
		return
	}
	if !c.decode {
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(*p))
	} else if b := c.take(8); b != nil {
		*p = int64(binary.BigEndian.Uint64(b))
	}
}

func (c *codec) float64(p *float64) {
	if c.trace != nil {
		c.trace.field(p, "float64", false)
		return
	}
	if !c.decode {
		c.buf = binary.BigEndian.AppendUint64(c.buf, math.Float64bits(*p))
	} else if b := c.take(8); b != nil {
		*p = math.Float64frombits(binary.BigEndian.Uint64(b))
	}
}

func (c *codec) uuid(p *types.UUID) {
	if c.trace != nil {
		c.trace.field(p, "uuid", false)
		return
	}
	if !c.decode {
		c.buf = append(c.buf, p[:]...)
	} else if b := c.take(16); b != nil {
		copy(p[:], b)
	}
}

// readUvarint consumes an unsigned varint of at most 32 bits, as Kafka's
// ByteUtils.readUnsignedVarint.
func (c *codec) readUvarint() uint32 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.buf)
	if n <= 0 || n > 5 || v > math.MaxUint32 {
		c.fail("bad unsigned varint")
		return 0
	}
	c.buf = c.buf[n:]
	return uint32(v)
}

func (c *codec) writeUvarint(v uint32) { c.buf = binary.AppendUvarint(c.buf, uint64(v)) }

// length reads or writes a compact length: 0 is null, else length+1.
// It returns -1 for null.
func (c *codec) length(n int, nullable bool) int {
	if !c.decode {
		c.writeUvarint(uint32(n + 1))
		return n
	}
	v := int64(c.readUvarint()) - 1
	if c.err != nil {
		return 0
	}
	if v < 0 && !nullable {
		c.fail("null where the schema forbids it")
		return 0
	}
	if v > int64(len(c.buf)) { // every element takes at least one byte
		c.fail("claims %d elements or bytes, %d bytes left", v, len(c.buf))
		return 0
	}
	return int(v)
}

func (c *codec) string(p *string) {
	if c.trace != nil {
		c.trace.field(p, "string", false)
		return
	}
	n := c.length(len(*p), false)
	if !c.decode {
		c.buf = append(c.buf, *p...)
		return
	}
	*p = string(c.take(n))
}

func (c *codec) nullableString(p **string) {
	if c.trace != nil {
		c.trace.field(p, "string", true)
		return
	}
	if !c.decode {
		if *p == nil {
			c.length(-1, true)
			return
		}
		c.string(*p)
		return
	}
	n := c.length(0, true)
	if n < 0 || c.err != nil {
		*p = nil
		return
	}
	s := string(c.take(n))
	*p = &s
}

func (c *codec) bytes(p *[]byte) {
	if c.trace != nil {
		c.trace.field(p, "bytes", false)
		return
	}
	n := c.length(len(*p), false)
	if !c.decode {
		c.buf = append(c.buf, *p...)
		return
	}
	*p = append([]byte(nil), c.take(n)...)
}

// array walks a compact array; elem walks one element. With nullable false a
// nil slice is written as an empty array and an empty array is read as nil.
func array[T any](c *codec, p *[]T, nullable bool, elem func(*codec, *T)) {
	if c.trace != nil {
		traceArray(c, p, nullable, elem)
		return
	}
	if !c.decode {
		n := len(*p)
		if nullable && *p == nil {
			n = -1
		}
		c.length(n, nullable)
		for i := range *p {
			elem(c, &(*p)[i])
		}
		return
	}
	n := c.length(0, nullable)
	if c.err != nil {
		return
	}
	if n > maxElements {
		c.fail("array of %d elements, at most %d allowed", n, maxElements)
		return
	}
	switch {
	case n < 0 || n == 0 && !nullable:
		*p = nil
		return
	case n == 0:
		*p = []T{}
		return
	}
	out := make([]T, 0, min(n, 1024))
	for range n {
		var v T
		elem(c, &v)
		if c.err != nil {
			return
		}
		out = append(out, v)
	}
	*p = out
}

func (c *codec) int32s(p *[]int32, nullable bool)     { array(c, p, nullable, (*codec).int32) }
func (c *codec) uuids(p *[]types.UUID, nullable bool) { array(c, p, nullable, (*codec).uuid) }
func (c *codec) strings(p *[]string, nullable bool)   { array(c, p, nullable, (*codec).string) }

// tag is one known tagged field: set says whether the writer emits it (Kafka
// omits a tagged field that has its default), walk reads or writes its value.
type tag struct {
	id   uint32
	set  bool
	walk func()
}

// tags walks the tagged-field section (KIP-482). known must be sorted by id.
func (c *codec) tags(unknown *[]RawTag, known ...tag) {
	switch {
	case c.err != nil:
		return
	case c.trace != nil:
		c.trace.tags(known)
		return
	case c.decode:
		c.readTags(unknown, known)
		return
	}
	rest := foreignTags(*unknown, known)
	n := len(rest)
	for _, t := range known {
		if t.set {
			n++
		}
	}
	c.writeUvarint(uint32(n))
	for _, t := range known {
		for len(rest) > 0 && rest[0].Tag < t.id {
			c.writeTag(rest[0].Tag, rest[0].Data)
			rest = rest[1:]
		}
		if t.set {
			c.writeKnownTag(t)
		}
	}
	for _, u := range rest {
		c.writeTag(u.Tag, u.Data)
	}
}

// foreignTags drops what a newer version knows: a tag that was unknown in the
// version read must not be written beside the field of that name.
func foreignTags(unknown []RawTag, known []tag) []RawTag {
	isKnown := func(u RawTag) bool {
		return slices.ContainsFunc(known, func(t tag) bool { return t.id == u.Tag })
	}
	if !slices.ContainsFunc(unknown, isKnown) {
		return unknown
	}
	return slices.DeleteFunc(slices.Clone(unknown), isKnown)
}

// writeKnownTag walks the value into a scratch buffer first: its size precedes it.
func (c *codec) writeKnownTag(t tag) {
	outer := c.buf
	c.buf = nil
	t.walk()
	data := c.buf
	c.buf = outer
	c.writeTag(t.id, data)
}

func (c *codec) writeTag(id uint32, data []byte) {
	c.writeUvarint(id)
	c.writeUvarint(uint32(len(data)))
	c.buf = append(c.buf, data...)
}

func (c *codec) readTags(unknown *[]RawTag, known []tag) {
	n := c.readUvarint()
	if n > maxTaggedTags {
		c.fail("%d tagged fields, at most %d allowed", n, maxTaggedTags)
		return
	}
	last := int64(-1)
	for range n {
		id := c.readUvarint()
		size := c.readUvarint()
		data := c.take(int(size))
		if c.err != nil {
			return
		}
		if int64(id) <= last {
			c.fail("tagged field %d follows field %d", id, last)
			return
		}
		last = int64(id)
		c.readTag(id, data, unknown, known)
	}
}

func (c *codec) readTag(id uint32, data []byte, unknown *[]RawTag, known []tag) {
	for _, t := range known {
		if t.id != id {
			continue
		}
		outer := c.buf
		c.buf = data
		t.walk()
		if c.err == nil && len(c.buf) != 0 {
			c.fail("%d bytes left over in tagged field %d", len(c.buf), id)
		}
		c.buf = outer
		return
	}
	*unknown = append(*unknown, RawTag{Tag: id, Data: append([]byte(nil), data...)})
}
