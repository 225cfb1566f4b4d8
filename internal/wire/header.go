package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/apis"
	"github.com/tidemark-io/tidemark/internal/kerrors"
)

// Sentinels; test with errors.Is. Each of them ends the connection, except
// ErrUnsupportedVersion for ApiVersions (see UnsupportedAPIVersions).
var (
	// ErrMalformed means bytes that are not the message they claim to be.
	ErrMalformed = errors.New("malformed request")
	// ErrUnknownKey means an API key that no listener serves.
	ErrUnknownKey = errors.New("unknown API key")
	// ErrUnsupportedVersion means a known key at a version that is not served.
	ErrUnsupportedVersion = errors.New("unsupported API version")
	// ErrTooMany means more array elements or tags than the bounds allow.
	ErrTooMany = errors.New("too many elements in request")
)

// KeyAPIVersions is the key whose header and error rules differ from all others.
const KeyAPIVersions int16 = 18

// RequestHeader is a request header of any version (1 or 2). A null client id
// reads as "".
type RequestHeader struct {
	Key           int16
	Version       int16
	CorrelationID int32
	ClientID      string
}

// String names the API and version, for logs and errors.
func (h RequestHeader) String() string {
	if a, ok := apis.ByKey(h.Key); ok {
		return fmt.Sprintf("%s v%d", a.Name, h.Version)
	}
	return fmt.Sprintf("key %d v%d", h.Key, h.Version)
}

// ParseRequestHeader reads the header of a frame (what follows the 4-byte size)
// and returns the body behind it, which aliases the frame. The layout depends on
// the API, so an unknown key is an error. The version is not checked here: an
// ApiVersions request of any version must still be answered.
func ParseRequestHeader(frame []byte) (RequestHeader, []byte, error) {
	return ParseNextRequestHeader(frame, "")
}

// ParseNextRequestHeader is ParseRequestHeader for a connection whose last
// request had that client id: the same one again is not copied.
func ParseNextRequestHeader(frame []byte, lastClientID string) (RequestHeader, []byte, error) {
	if len(frame) < 10 {
		return RequestHeader{}, nil, fmt.Errorf("%w: a frame of %d bytes holds no header", ErrMalformed, len(frame))
	}
	h := RequestHeader{
		Key:           int16(binary.BigEndian.Uint16(frame)),
		Version:       int16(binary.BigEndian.Uint16(frame[2:])),
		CorrelationID: int32(binary.BigEndian.Uint32(frame[4:])),
	}
	api, ok := apis.ByKey(h.Key)
	if !ok {
		return h, nil, fmt.Errorf("%w %d", ErrUnknownKey, h.Key)
	}
	// The client id keeps its two-byte length in header version 2.
	n := int(int16(binary.BigEndian.Uint16(frame[8:])))
	rest := frame[10:]
	if n > len(rest) {
		return h, nil, fmt.Errorf("%w: client id of %d bytes, %d left", ErrMalformed, n, len(rest))
	}
	if n > 0 {
		if h.ClientID = lastClientID; string(rest[:n]) != lastClientID {
			h.ClientID = string(rest[:n])
		}
		rest = rest[n:]
	}
	if api.Flexible(h.Version) {
		k := skimmer{b: rest, flexible: true}
		if err := k.tagSection(nil); err != nil {
			return h, nil, fmt.Errorf("request header: %w", err)
		}
		rest = k.b
	}
	return h, rest, nil
}

// AppendRequestHeader is the client's side of ParseRequestHeader, for the
// channels between our own nodes.
func AppendRequestHeader(dst []byte, h RequestHeader) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Key))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.Version))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.CorrelationID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(h.ClientID)))
	dst = append(dst, h.ClientID...)
	if flexible(h) {
		dst = append(dst, 0)
	}
	return dst
}

// AppendResponseHeader appends the header of the answer to h: the correlation
// id, and an empty tag section if the API's version is flexible (never for
// ApiVersions, KIP-511). The 4-byte size is the caller's.
func AppendResponseHeader(dst []byte, h RequestHeader) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.CorrelationID))
	if h.Key != KeyAPIVersions && flexible(h) {
		dst = append(dst, 0)
	}
	return dst
}

// ParseResponseHeader reads the answer to h: its correlation id must be h's.
func ParseResponseHeader(frame []byte, h RequestHeader) ([]byte, error) {
	if len(frame) < 4 {
		return nil, fmt.Errorf("%w: an answer of %d bytes", ErrMalformed, len(frame))
	}
	if id := int32(binary.BigEndian.Uint32(frame)); id != h.CorrelationID {
		return nil, fmt.Errorf("%w: answer to request %d, expected %d", ErrMalformed, id, h.CorrelationID)
	}
	frame = frame[4:]
	if h.Key == KeyAPIVersions || !flexible(h) {
		return frame, nil
	}
	k := skimmer{b: frame, flexible: true}
	if err := k.tagSection(nil); err != nil {
		return nil, err
	}
	return k.b, nil
}

func flexible(h RequestHeader) bool {
	api, ok := apis.ByKey(h.Key)
	return ok && api.Flexible(h.Version)
}

// check finds the schema of h's body after checking that h is served at all.
func check(h RequestHeader) (*body, error) {
	api, ok := apis.ByKey(h.Key)
	if !ok || !api.Served {
		return nil, fmt.Errorf("%w %d", ErrUnknownKey, h.Key)
	}
	if !api.Supports(h.Version) {
		return nil, fmt.Errorf("%w: %s %d, served are %d to %d", ErrUnsupportedVersion, api.Name, h.Version, api.Min, api.Max)
	}
	return bodies()[h.Key], nil
}

// DecodeRequest decodes the body of any served request. Before kmsg sees it,
// the version is checked and the whole body is stepped over without
// allocating: its structure must be right to the last byte, and arrays and tags
// within MaxElements and MaxTags. Byte fields of the result alias body.
//
// Which listener the request came in on is the caller's to check (apis.API.On).
func DecodeRequest(h RequestHeader, body []byte) (kmsg.Request, error) {
	s, err := check(h)
	if err != nil {
		return nil, err
	}
	if _, err := skim(s, h.Version, body); err != nil {
		return nil, fmt.Errorf("%v: %w", h, err)
	}
	req := kmsg.RequestForKey(h.Key)
	if req == nil {
		return nil, fmt.Errorf("%w %d", ErrUnknownKey, h.Key)
	}
	req.SetVersion(h.Version)
	if err := req.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%v: %w: %w", h, ErrMalformed, err)
	}
	return req, nil
}

// EstimateHeapBytes bounds what DecodeRequest(h, body) or DecodeProduce will
// allocate, in one pass over the body that itself allocates nothing: charge it
// to the memory budget first. It is 0 for what would be refused undecoded.
func EstimateHeapBytes(h RequestHeader, body []byte) int {
	s, err := check(h)
	if err != nil {
		return 0
	}
	k, err := skim(s, h.Version, body)
	if err != nil {
		return 0
	}
	return k.heap
}

// AppendResponse appends header and body of resp, the answer to h, to p. It
// sets the version of resp to h's.
func AppendResponse(p *Payload, h RequestHeader, resp kmsg.Response) {
	resp.SetVersion(h.Version)
	p.grow(func(dst []byte) []byte {
		return resp.AppendTo(AppendResponseHeader(dst, h))
	})
}

// UnsupportedAPIVersions is the one answer that an ApiVersions request of an
// unknown version gets on a listener of kind l (KIP-511): UNSUPPORTED_VERSION
// and the range of ApiVersions itself. It must be sent as version 0, so the
// caller sets the version of the request's header to 0 before AppendResponse.
func UnsupportedAPIVersions(l apis.Listener) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(kerrors.UnsupportedVersion)
	if api, ok := apis.ByKey(KeyAPIVersions); ok && api.On(l) {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = api.Key, api.Min, api.Max
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return resp
}
