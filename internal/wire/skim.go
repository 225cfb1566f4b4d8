package wire

import (
	"encoding/binary"
	"fmt"
)

// Bounds on what one request may ask us to decode (Apache Kafka 4.4 documents
// the same numbers; CVE-2026-111108 and CVE-2026-111115 are why).
const (
	// MaxElements is the most array elements that one message may hold, all
	// its arrays together.
	MaxElements = 1_000_000
	// MaxTags is the most tagged fields that one message may hold.
	MaxTags = 10_000
)

// Charges of the heap estimate, in bytes; a test holds them against what
// decoding really allocates.
const (
	requestHeapBytes = 512 // the request struct, at most
	allocHeapBytes   = 32  // rounding of one allocation
	tagHeapBytes     = 192 // one unknown tag in its map
)

// skimmer steps over a body without allocating. It checks the structure to the
// last byte, counts elements and tags, and adds up what decoding will allocate.
type skimmer struct {
	b        []byte
	version  int16
	flexible bool
	elements int
	tags     int
	heap     int
}

// skim walks all of b as the body of a request.
func skim(s *body, version int16, b []byte) (skimmer, error) {
	k := skimmer{b: b, version: version, flexible: s.flexible.has(version), heap: requestHeapBytes}
	if err := k.fields(s.fields); err != nil {
		return k, err
	}
	if len(k.b) > 0 {
		return k, fmt.Errorf("%w: %d bytes follow the message", ErrMalformed, len(k.b))
	}
	return k, nil
}

func (k *skimmer) fields(fields []*field) error {
	for _, f := range fields {
		if !f.in.has(k.version) || f.tagged.has(k.version) {
			continue
		}
		if err := k.field(f); err != nil {
			return err
		}
	}
	if k.flexible {
		return k.tagSection(fields)
	}
	return nil
}

func (k *skimmer) field(f *field) error {
	if f.array {
		return k.arrayField(f)
	}
	return k.value(f, f.nullable.has(k.version))
}

// value steps over one value that is no array.
func (k *skimmer) value(f *field, nullable bool) error {
	switch f.kind {
	case kindString, kindBytes:
		return k.span(f, nullable)
	case kindStruct:
		if nullable {
			if len(k.b) < 1 {
				return short(f)
			}
			present := int8(k.b[0]) >= 0
			k.b = k.b[1:]
			if !present {
				return nil
			}
			k.heap += f.heapBytes + allocHeapBytes
		}
		return k.fields(f.fields)
	default:
		if len(k.b) < f.fixed {
			return short(f)
		}
		k.b = k.b[f.fixed:]
		return nil
	}
}

// span steps over a string or bytes. Strings are copied by the decoder, bytes
// alias the frame.
func (k *skimmer) span(f *field, nullable bool) error {
	n, err := k.length(f, f.kind == kindString)
	if err != nil {
		return err
	}
	if n < 0 {
		if !nullable {
			return fmt.Errorf("%w: %s is null", ErrMalformed, f.name)
		}
		return nil
	}
	if n > int64(len(k.b)) || (f.kind == kindString && n > 0x7fff) {
		return fmt.Errorf("%w: %s of %d bytes, %d left", ErrMalformed, f.name, n, len(k.b))
	}
	if f.kind == kindString {
		k.heap += int(n) + int(n)/4 + allocHeapBytes
	}
	k.b = k.b[n:]
	return nil
}

// length reads the length prefix of f; negative is null.
func (k *skimmer) length(f *field, isString bool) (int64, error) {
	switch {
	case k.flexible:
		u, ok := k.uvarint()
		if !ok {
			return 0, short(f)
		}
		return int64(u) - 1, nil
	case isString:
		if len(k.b) < 2 {
			return 0, short(f)
		}
		n := int16(binary.BigEndian.Uint16(k.b))
		k.b = k.b[2:]
		return int64(n), nil
	default:
		if len(k.b) < 4 {
			return 0, short(f)
		}
		n := int32(binary.BigEndian.Uint32(k.b))
		k.b = k.b[4:]
		return int64(n), nil
	}
}

func (k *skimmer) arrayField(f *field) error {
	n, err := k.length(f, false)
	if err != nil {
		return err
	}
	if n < 0 {
		if !f.nullable.has(k.version) {
			return fmt.Errorf("%w: array %s is null", ErrMalformed, f.name)
		}
		return nil
	}
	if k.elements += int(n); n > MaxElements || k.elements > MaxElements {
		return fmt.Errorf("%w: more than %d array elements (%s has %d)", ErrTooMany, MaxElements, f.name, n)
	}
	if f.fixed > 0 {
		size := n * int64(f.fixed)
		if size > int64(len(k.b)) {
			return short(f)
		}
		k.b = k.b[size:]
		k.charge(n, f.fixed)
		return nil
	}
	for range n {
		if err := k.value(f, false); err != nil {
			return err
		}
	}
	k.charge(n, f.heapBytes)
	return nil
}

// charge adds one slice of n elements.
func (k *skimmer) charge(n int64, elementBytes int) {
	size := int(n) * elementBytes
	k.heap += size + size/4 + allocHeapBytes
}

// tagSection steps over a tag section; fields are those that may be tagged.
func (k *skimmer) tagSection(fields []*field) error {
	count, ok := k.uvarint()
	if !ok {
		return fmt.Errorf("%w: tag section is cut short", ErrMalformed)
	}
	if k.tags += int(count); k.tags > MaxTags {
		return fmt.Errorf("%w: more than %d tagged fields", ErrTooMany, MaxTags)
	}
	for range count {
		tag, ok1 := k.uvarint()
		size, ok2 := k.uvarint()
		if !ok1 || !ok2 || int64(size) > int64(len(k.b)) {
			return fmt.Errorf("%w: tagged field is cut short", ErrMalformed)
		}
		content := k.b[:size]
		rest := k.b[size:]
		if f := taggedField(fields, tag); f != nil {
			k.b = content
			version := k.version
			k.version = max(version, f.tagged.min)
			if err := k.field(f); err != nil {
				return err
			}
			k.version = version
			if len(k.b) > 0 {
				return fmt.Errorf("%w: %d bytes left in tagged field %s", ErrMalformed, len(k.b), f.name)
			}
		} else {
			k.heap += tagHeapBytes
		}
		k.b = rest
	}
	return nil
}

// taggedField finds a tag's field. kmsg decodes a tag that it knows in every
// flexible version, also below the first that has it, so skim does too.
func taggedField(fields []*field, tag uint32) *field {
	for _, f := range fields {
		if f.tag == tag && f.tagged != noVersions {
			return f
		}
	}
	return nil
}

func (k *skimmer) uvarint() (uint32, bool) {
	v, n := uvarint32(k.b)
	if n <= 0 {
		return 0, false
	}
	k.b = k.b[n:]
	return v, true
}

// uvarint32 reads an unsigned varint of at most five bytes; n is 0 when b is
// not one.
func uvarint32(b []byte) (v uint32, n int) {
	for i := 0; i < 5 && i < len(b); i++ {
		c := b[i]
		if i == 4 && c > 0x0f {
			return 0, 0
		}
		v |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

func short(f *field) error {
	return fmt.Errorf("%w: ends before %s", ErrMalformed, f.name)
}
