package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
)

// forEachVersion runs f for every version of every API in the table.
func forEachVersion(t *testing.T, f func(t *testing.T, a apis.API, version int16)) {
	t.Helper()
	for _, a := range apis.All() {
		for version := a.Min; version <= a.Max; version++ {
			t.Run(fmt.Sprintf("%s/v%d", a.Name, version), func(t *testing.T) { f(t, a, version) })
		}
	}
}

// TestSchemasMatchKmsg: two independent descriptions of the protocol agree on
// every API and version, to the byte: what kmsg writes, skim steps over; one
// byte more or less is refused.
func TestSchemasMatchKmsg(t *testing.T) {
	forEachVersion(t, func(t *testing.T, a apis.API, version int16) {
		s := bodies()[a.Key]
		if s == nil || s.flexible.has(version) != a.Flexible(version) {
			t.Fatalf("schema %+v does not fit the table", s)
		}
		for seed := range uint64(6) {
			b := filledRequest(a.Key, version, seed, int(seed%3)).AppendTo(nil)
			if _, err := skim(s, version, b); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if _, err := skim(s, version, append(bytes.Clone(b), 0)); !errors.Is(err, ErrMalformed) {
				t.Errorf("a trailing byte: %v", err)
			}
			for n := range b {
				if _, err := skim(s, version, b[:n]); !errors.Is(err, ErrMalformed) {
					t.Fatalf("cut at %d of %d: %v", n, len(b), err)
				}
			}
		}
	})
}

// TestRequestRoundTrip: every served API at every version decodes to what was
// encoded; any cut and any trailing byte is refused.
func TestRequestRoundTrip(t *testing.T) {
	forEachVersion(t, func(t *testing.T, a apis.API, version int16) {
		h := RequestHeader{Key: a.Key, Version: version}
		for seed := range uint64(4) {
			want := filledRequest(a.Key, version, seed, int(seed%3)).AppendTo(nil)
			got, err := DecodeRequest(h, want)
			if !a.Served {
				if !errors.Is(err, ErrUnknownKey) {
					t.Fatalf("not served, but: %v", err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got.AppendTo(nil)); diff != "" || got.GetVersion() != version {
				t.Errorf("encoded again it differs:\n%s", diff)
			}
			if _, err := DecodeRequest(h, append(bytes.Clone(want), 0)); !errors.Is(err, ErrMalformed) {
				t.Errorf("a trailing byte: %v", err)
			}
			if _, err := DecodeRequest(h, want[:max(len(want)-1, 0)]); len(want) > 0 && !errors.Is(err, ErrMalformed) {
				t.Errorf("a missing byte: %v", err)
			}
		}
	})
}

// TestResponseRoundTrip: every answer, at every version, behind its header.
func TestResponseRoundTrip(t *testing.T) {
	forEachVersion(t, func(t *testing.T, a apis.API, version int16) {
		h := RequestHeader{Key: a.Key, Version: version, CorrelationID: 77}
		want := filledResponse(a.Key, version, 3, 2)
		var p Payload
		AppendResponse(&p, h, want)
		body, err := ParseResponseHeader(payloadBytes(t, &p), h)
		if err != nil {
			t.Fatal(err)
		}
		got := kmsg.ResponseForKey(a.Key)
		got.SetVersion(version)
		if err := got.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.AppendTo(nil), want.AppendTo(nil)) || !bytes.Equal(body, want.AppendTo(nil)) {
			t.Error("the answer changed on the way")
		}
	})
}

func TestVersionIsCheckedFirst(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		want         error
	}{
		{0, 2, ErrUnsupportedVersion}, {0, 14, ErrUnsupportedVersion}, {1, 3, ErrUnsupportedVersion}, {3, -1, ErrUnsupportedVersion},
		{3, 99, ErrUnsupportedVersion}, {22, 6, ErrUnsupportedVersion}, {4, 0, ErrUnknownKey}, {999, 0, ErrUnknownKey}, {-1, 0, ErrUnknownKey},
		{38, 2, ErrUnknownKey}, // known to Kafka, not served yet
	} {
		h := RequestHeader{Key: c.key, Version: c.version}
		if _, err := DecodeRequest(h, []byte{0, 0, 0, 0}); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", h, err, c.want)
		}
		if n := EstimateHeapBytes(h, make([]byte, 100)); n != 0 {
			t.Errorf("%v: charged %d bytes for nothing", h, n)
		}
	}
}

// TestBounds (CVE-2026-111108, CVE-2026-111115): arrays and tags beyond the
// bounds are refused before anything is allocated.
func TestBounds(t *testing.T) {
	manyTags := []byte{1} // Metadata v9: no topics
	manyTags = append(manyTags, 0, 0, 0)
	manyTags = binary.AppendUvarint(manyTags, 300_000)
	for i := range 300_000 {
		manyTags = binary.AppendUvarint(manyTags, uint64(i+5))
		manyTags = append(manyTags, 0)
	}
	manyTopics := binary.BigEndian.AppendUint32(nil, MaxElements+1) // Metadata v1
	manyTopics = append(manyTopics, make([]byte, 2*(MaxElements+1))...)
	overlong := []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x01}
	claimed := append([]byte{0xff, 0xff, 0xff, 0xff, 0x07}, make([]byte, 50)...)
	for _, c := range []struct {
		name string
		h    RequestHeader
		body []byte
		want error
	}{
		{"300,000 tags", RequestHeader{Key: 3, Version: 9}, manyTags, ErrTooMany},
		{"1,000,001 topics", RequestHeader{Key: 3, Version: 1}, manyTopics, ErrTooMany},
		{"overlong varint", RequestHeader{Key: 3, Version: 9}, overlong, ErrMalformed},
		{"claimed length", RequestHeader{Key: 3, Version: 9}, claimed, ErrTooMany},
		{"claimed length, produce", RequestHeader{Key: 0, Version: 9}, append([]byte{0, 0, 1, 0, 0, 0, 1}, claimed...), ErrTooMany},
		{"null array", RequestHeader{Key: 19, Version: 2}, []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0}, ErrMalformed},
		{"null string", RequestHeader{Key: 10, Version: 0}, []byte{0xff, 0xff}, ErrMalformed},
	} {
		var err error
		got := allocatedBytes(func() { _, err = DecodeRequest(c.h, c.body) })
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if got > 64<<10 {
			t.Errorf("%s: %d bytes were allocated", c.name, got)
		}
	}
}

func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestEstimateCoversDecode: the heap that decoding takes never exceeds what
// EstimateHeapBytes said, for requests full of empty elements (the worst
// amplification) and for ordinary ones.
func TestEstimateCoversDecode(t *testing.T) {
	forEachVersion(t, func(t *testing.T, a apis.API, version int16) {
		if !a.Served {
			t.Skip("not served")
		}
		h := RequestHeader{Key: a.Key, Version: version}
		for _, body := range [][]byte{
			filledRequest(a.Key, version, 1, 0).AppendTo(nil),
			filledRequest(a.Key, version, 2, 2).AppendTo(nil),
			filledRequest(a.Key, version, 3, 12).AppendTo(nil),
			wideRequest(a.Key, version),
		} {
			estimate := EstimateHeapBytes(h, body)
			var err error
			got := allocatedBytes(func() { _, err = DecodeRequest(h, body) })
			if err != nil {
				t.Fatal(err)
			}
			if got > uint64(estimate) && !raceEnabled {
				t.Errorf("%d bytes of body: estimated %d, allocated %d", len(body), estimate, got)
			}
			if n := testing.AllocsPerRun(5, func() { EstimateHeapBytes(h, body) }); n > 0 {
				t.Errorf("the estimate itself allocates %v times", n)
			}
		}
	})
}

// wideRequest has 5000 empty elements in its outermost arrays.
func wideRequest(key, version int16) []byte {
	s := bodies()[key]
	k := &hostile{version: version, flexible: s.flexible.has(version)}
	k.fields(s.fields, 5000)
	return k.out
}

// hostile writes the smallest legal encoding of every field, arrays aside.
type hostile struct {
	out      []byte
	version  int16
	flexible bool
}

func (k *hostile) length(n int, isString bool) {
	switch {
	case k.flexible:
		k.out = binary.AppendUvarint(k.out, uint64(n+1))
	case isString:
		k.out = binary.BigEndian.AppendUint16(k.out, uint16(n))
	default:
		k.out = binary.BigEndian.AppendUint32(k.out, uint32(n))
	}
}

func (k *hostile) fields(fields []*field, elements int) {
	for _, f := range fields {
		if !f.in.has(k.version) || f.tagged.has(k.version) {
			continue
		}
		if !f.array {
			k.value(f)
			continue
		}
		k.length(elements, false)
		for range elements {
			k.value(f)
		}
	}
	if k.flexible {
		k.out = append(k.out, 0)
	}
}

func (k *hostile) value(f *field) {
	switch f.kind {
	case kindString, kindBytes:
		k.length(0, f.kind == kindString)
	case kindStruct:
		if f.nullable.has(k.version) && !f.array {
			k.out = append(k.out, 1)
		}
		k.fields(f.fields, 1)
	default:
		k.out = append(k.out, make([]byte, f.fixed)...)
	}
}
