package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
)

// TestHeaderRoundTrip: for every API and version, what we write we read, and
// what franz-go writes we read.
func TestHeaderRoundTrip(t *testing.T) {
	forEachVersion(t, func(t *testing.T, a apis.API, version int16) {
		want := RequestHeader{Key: a.Key, Version: version, CorrelationID: 0x01020304, ClientID: "client-1"}
		body := []byte("body")
		got, rest, err := ParseRequestHeader(append(AppendRequestHeader(nil, want), body...))
		if err != nil || got != want || !bytes.Equal(rest, body) {
			t.Errorf("ours: %+v, %q, %v", got, rest, err)
		}
		req := filledRequest(a.Key, version, 1, 1)
		frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client-1")).AppendRequest(nil, req, want.CorrelationID)
		got, rest, err = ParseRequestHeader(frame[4:])
		if err != nil || got != want || !bytes.Equal(rest, req.AppendTo(nil)) {
			t.Errorf("franz-go's: %+v, %v", got, err)
		}
	})
}

func TestHeaderBytes(t *testing.T) {
	for _, c := range []struct {
		name, frame string
		want        RequestHeader
		body        string
		err         error
	}{
		{"v1", "0003 0008 00000007 0001 61 ff", RequestHeader{3, 8, 7, "a"}, "ff", nil},
		{"v2 keeps the two-byte client id", "0003 0009 00000007 0001 61 00 ff", RequestHeader{3, 9, 7, "a"}, "ff", nil},
		{"null client id", "0003 0001 00000007 ffff", RequestHeader{3, 1, 7, ""}, "", nil},
		{"empty client id", "0003 0001 00000007 0000", RequestHeader{3, 1, 7, ""}, "", nil},
		{"v2 with an unknown tag", "0012 0003 00000007 ffff 01 05 02 aabb 01", RequestHeader{18, 3, 7, ""}, "01", nil},
		{"ApiVersions of the future", "0012 0063 00000007 ffff 00", RequestHeader{18, 99, 7, ""}, "", nil},
		{"no header", "0003 0001 0000", RequestHeader{}, "", ErrMalformed},
		{"client id cut short", "0003 0001 00000007 0005 61", RequestHeader{}, "", ErrMalformed},
		{"tags missing", "0003 0009 00000007 0000", RequestHeader{}, "", ErrMalformed},
		{"tag cut short", "0003 0009 00000007 0000 01 05 02 aa", RequestHeader{}, "", ErrMalformed},
		{"too many tags", "0003 0009 00000007 0000 ffff03", RequestHeader{}, "", ErrTooMany},
		{"removed key", "0004 0001 00000007 0000", RequestHeader{}, "", ErrUnknownKey},
		{"unknown key", "7fff 0001 00000007 0000", RequestHeader{}, "", ErrUnknownKey},
		{"negative key", "ffff 0001 00000007 0000", RequestHeader{}, "", ErrUnknownKey},
		{"HTTP", hex.EncodeToString([]byte("/ HTTP/1.1\r\nHost: a")), RequestHeader{}, "", ErrUnknownKey},
	} {
		frame, err := hex.DecodeString(strings.ReplaceAll(c.frame, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		h, body, err := ParseRequestHeader(frame)
		if !errors.Is(err, c.err) || (c.err == nil && (h != c.want || hex.EncodeToString(body) != c.body)) {
			t.Errorf("%s: %+v, %x, %v", c.name, h, body, err)
		}
	}
}

func TestResponseHeader(t *testing.T) {
	for _, c := range []struct {
		key, version int16
		want         string
	}{
		{3, 8, "00000009"}, {3, 9, "0000000900"}, {18, 2, "00000009"}, {18, 3, "00000009"}, {18, 4, "00000009"}, {0, 8, "00000009"}, {0, 9, "0000000900"}, {17, 1, "00000009"}, {62, 0, "0000000900"},
	} {
		h := RequestHeader{Key: c.key, Version: c.version, CorrelationID: 9}
		b := AppendResponseHeader(nil, h)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%v: %s, want %s", h, got, c.want)
		}
		if rest, err := ParseResponseHeader(append(b, 7), h); err != nil || !bytes.Equal(rest, []byte{7}) {
			t.Errorf("%v: read back %x, %v", h, rest, err)
		}
	}
	if _, err := ParseResponseHeader([]byte{0, 0, 0, 1}, RequestHeader{Key: 3, CorrelationID: 2}); err == nil {
		t.Error("an answer to another request was accepted")
	}
}

// TestUnsupportedAPIVersions (KIP-511): version 0, error 35, the range of key 18.
func TestUnsupportedAPIVersions(t *testing.T) {
	var p Payload
	h := RequestHeader{Key: 18, Version: 99, CorrelationID: 5}
	h.Version = 0
	AppendResponse(&p, h, UnsupportedAPIVersions(apis.Controller))
	want := "00000005" + "0023" + "00000001" + "0012" + "0000" + "0004"
	if got := hex.EncodeToString(payloadBytes(t, &p)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
