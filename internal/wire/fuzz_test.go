package wire

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
)

// FuzzRequestHeader: any frame parses or is refused; what parses is written
// back and parses the same.
func FuzzRequestHeader(f *testing.F) {
	for _, a := range apis.All() {
		for _, v := range []int16{a.Min, a.Max} {
			f.Add(AppendRequestHeader(nil, RequestHeader{Key: a.Key, Version: v, CorrelationID: 1, ClientID: "c"}))
		}
	}
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x16, 0x03, 0x01, 0x00, 0xa5, 0x01, 0x00, 0x00, 0xa1, 0x03, 0x03})
	f.Fuzz(func(t *testing.T, frame []byte) {
		h, body, err := ParseRequestHeader(frame)
		if err != nil {
			return
		}
		if len(body) > len(frame) {
			t.Fatal("the body is longer than the frame")
		}
		again, rest, err := ParseRequestHeader(append(AppendRequestHeader(nil, h), body...))
		if err != nil || again != h || !bytes.Equal(rest, body) {
			t.Fatalf("%+v came back as %+v: %v", h, again, err)
		}
	})
}

// FuzzDecodeRequest: any body of any API and version; the estimate is nothing
// for what is refused, and what skim accepts kmsg decodes and encodes again.
func FuzzDecodeRequest(f *testing.F) {
	for _, a := range apis.All() {
		for v := a.Min; v <= a.Max; v++ {
			f.Add(a.Key, v, filledRequest(a.Key, v, 1, 1).AppendTo(nil))
			f.Add(a.Key, v, filledRequest(a.Key, v, 2, 2).AppendTo(nil))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		h := RequestHeader{Key: key, Version: version}
		estimate := EstimateHeapBytes(h, body)
		req, err := DecodeRequest(h, body)
		if (err == nil) != (estimate > 0) {
			t.Fatalf("%v: estimate %d, error %v", h, estimate, err)
		}
		if err != nil {
			return
		}
		if _, err := DecodeRequest(h, req.AppendTo(nil)); err != nil {
			t.Fatalf("%v: encoded again it is refused: %v", h, err)
		}
	})
}

// FuzzSchemas is FuzzDecodeRequest for the APIs that are not served yet.
func FuzzSchemas(f *testing.F) {
	for _, a := range apis.All() {
		f.Add(a.Key, a.Max, filledRequest(a.Key, a.Max, 1, 1).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a, ok := apis.ByKey(key)
		if !ok || !a.Supports(version) {
			return
		}
		if _, err := skim(bodies()[key], version, body); err != nil {
			return
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if err := req.ReadFrom(body); err != nil {
			t.Fatalf("%s v%d: stepped over, but kmsg says %v", a.Name, version, err)
		}
	})
}

// FuzzDecodeProduce: our decoder accepts exactly what the bounded kmsg path
// accepts, and reads the same.
func FuzzDecodeProduce(f *testing.F) {
	for v := int16(3); v <= 13; v++ {
		f.Add(v, produceBody(v, 2, 2, 10))
		f.Add(v, filledRequest(0, v, 1, 1).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		var ours ProduceRequest
		ourErr := DecodeProduce(version, body, &ours)
		req, err := DecodeRequest(RequestHeader{Key: 0, Version: version}, body)
		if (ourErr == nil) != (err == nil) {
			t.Fatalf("v%d: ours %v, kmsg %v", version, ourErr, err)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(normalize(kmsgProduce(req.(*kmsg.ProduceRequest))), normalize(ours)); diff != "" {
			t.Fatal(diff)
		}
	})
}
