package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/types"
)

// Versions of Produce and Fetch at which their layout changes.
const (
	keyProduce      int16 = 0
	produceFlexible int16 = 9
	produceTopicIDs int16 = 13
)

// ProduceRequest is a decoded Produce request (versions 3 to 13). It can be
// reused: DecodeProduce keeps its slices and equal strings.
type ProduceRequest struct {
	TransactionID *string // nil without transaction
	Acks          int16
	TimeoutMs     int32
	Topics        []ProduceTopic
}

// ProduceTopic is one topic: by name up to version 12, by id from 13 on.
type ProduceTopic struct {
	Topic      string
	TopicID    types.UUID
	Partitions []ProducePartition
}

// ProducePartition holds the records of one partition; they alias the frame.
// Nil is null, which no valid request has.
type ProducePartition struct {
	Partition int32
	Records   []byte
}

// DecodeProduce decodes the body of a Produce request into a struct that may
// be reused. It copies strings and no records, and allocates nothing when into
// has held a request of the same shape. After an error into is not to be used.
func DecodeProduce(version int16, body []byte, into *ProduceRequest) error {
	api, _ := apis.ByKey(keyProduce)
	if !api.Supports(version) {
		return fmt.Errorf("%w: Produce %d, served are %d to %d", ErrUnsupportedVersion, version, api.Min, api.Max)
	}
	r := bodyReader{b: body, flexible: version >= produceFlexible}
	into.TransactionID = r.nullableString(into.TransactionID)
	into.Acks = r.int16()
	into.TimeoutMs = r.int32()
	n := r.arrayLen()
	into.Topics = resize(into.Topics, n)
	for i := range into.Topics {
		r.produceTopic(version, &into.Topics[i])
		if r.err != nil {
			break
		}
	}
	r.tags()
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes follow the message", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("produce request v%d: %w", version, r.err)
	}
	return nil
}

func (r *bodyReader) produceTopic(version int16, t *ProduceTopic) {
	if version >= produceTopicIDs {
		t.Topic = ""
		copy(t.TopicID[:], r.take(16))
	} else {
		t.Topic = r.string(t.Topic)
		t.TopicID = types.UUID{}
	}
	t.Partitions = resize(t.Partitions, r.arrayLen())
	for i := range t.Partitions {
		p := &t.Partitions[i]
		p.Partition = r.int32()
		p.Records = r.nullableBytes()
		r.tags()
		if r.err != nil {
			return
		}
	}
	r.tags()
}

// resize returns s with n elements, reusing what it has. Callers have checked
// n against the bytes that remain.
func resize[T any](s []T, n int) []T {
	if n <= cap(s) {
		return s[:n]
	}
	out := make([]T, n)
	copy(out, s[:cap(s)])
	return out
}

// bodyReader reads one body; the first error sticks.
type bodyReader struct {
	b        []byte
	flexible bool
	elements int
	tagCount int
	err      error
}

func (r *bodyReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
}

func (r *bodyReader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.fail("%d bytes wanted, %d left", n, len(r.b))
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *bodyReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *bodyReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *bodyReader) uvarint() uint32 {
	if r.err != nil {
		return 0
	}
	v, n := uvarint32(r.b)
	if n == 0 {
		r.fail("varint is cut short or too long")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// spanLen reads the length of a string (or of bytes); negative is null.
func (r *bodyReader) spanLen(isString bool) int {
	if r.flexible {
		return int(r.uvarint()) - 1
	}
	if isString {
		return int(r.int16())
	}
	return int(r.int32())
}

// string reads a string and keeps old when it is equal.
func (r *bodyReader) string(old string) string {
	n := r.spanLen(true)
	if n > 0x7fff {
		r.fail("string of %d bytes", n)
	}
	b := r.take(n)
	if string(b) == old {
		return old
	}
	return string(b)
}

func (r *bodyReader) nullableString(old *string) *string {
	n := r.spanLen(true)
	if n < 0 || r.err != nil {
		return nil
	}
	if n > 0x7fff {
		r.fail("string of %d bytes", n)
	}
	b := r.take(n)
	if old != nil && string(b) == *old {
		return old
	}
	s := string(b)
	return &s
}

func (r *bodyReader) nullableBytes() []byte {
	n := r.spanLen(false)
	if n < 0 || r.err != nil {
		return nil
	}
	return r.take(n)
}

// arrayLen reads the length of an array that must not be null. Each element
// takes a byte at least, so the length is bounded by what remains.
func (r *bodyReader) arrayLen() int {
	n := r.spanLen(false)
	if r.err != nil {
		return 0
	}
	if n < 0 || n > len(r.b) {
		r.fail("array of %d elements in %d bytes", n, len(r.b))
		return 0
	}
	if r.elements += n; r.elements > MaxElements {
		r.err = fmt.Errorf("%w: more than %d array elements", ErrTooMany, MaxElements)
		return 0
	}
	return n
}

// tags steps over a tag section; Produce has no tagged fields.
func (r *bodyReader) tags() {
	if !r.flexible || r.err != nil {
		return
	}
	if len(r.b) > 0 && r.b[0] == 0 {
		r.b = r.b[1:]
		return
	}
	k := skimmer{b: r.b, flexible: true, tags: r.tagCount}
	if r.err = k.tagSection(nil); r.err == nil {
		r.b, r.tagCount = k.b, k.tags
	}
}
