package lifecycle

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/wire"
)

// fakeController answers on pipes; answer decides what, nil cuts the
// connection.
type fakeController struct {
	t *testing.T

	mu     sync.Mutex
	answer func(req kmsg.Request) kmsg.Response
	max    map[int16]int16 // versions it claims to have
	log    []kmsg.Request
	addrs  []string
	down   bool
	conns  []net.Conn
}

func newFakeController(t *testing.T) *fakeController {
	return &fakeController{t: t, max: map[int16]int16{56: 3, 62: 4, 63: 2, 67: 0, 70: 0, 73: 0}}
}

func (f *fakeController) dial(_ context.Context, addr string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addrs = append(f.addrs, addr)
	if f.down {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	f.conns = append(f.conns, b)
	go f.serve(b)
	return a, nil
}

func (f *fakeController) channel() *Channel {
	return NewChannel(ChannelOptions{ClientID: "test", Dial: f.dial})
}

func (f *fakeController) setAnswer(answer func(kmsg.Request) kmsg.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

func (f *fakeController) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
	if down {
		for _, c := range f.conns {
			c.Close()
		}
	}
}

func (f *fakeController) requests() []kmsg.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]kmsg.Request(nil), f.log...)
}

func (f *fakeController) serve(c net.Conn) {
	defer c.Close()
	for {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(c, frame); err != nil {
			return
		}
		h, body, err := wire.ParseRequestHeader(frame)
		if err != nil {
			f.t.Error(err)
			return
		}
		req := kmsg.RequestForKey(h.Key)
		req.SetVersion(h.Version)
		if err := req.ReadFrom(body); err != nil {
			f.t.Error(err)
			return
		}
		resp := f.respond(req)
		if resp == nil {
			return
		}
		resp.SetVersion(h.Version)
		out := wire.AppendResponseHeader(make([]byte, 4), h)
		out = resp.AppendTo(out)
		binary.BigEndian.PutUint32(out, uint32(len(out)-4))
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

func (f *fakeController) respond(req kmsg.Request) kmsg.Response {
	f.mu.Lock()
	answer := f.answer
	if req.Key() != wire.KeyAPIVersions {
		f.log = append(f.log, req)
	}
	f.mu.Unlock()
	if req.Key() == wire.KeyAPIVersions {
		resp := kmsg.NewPtrApiVersionsResponse()
		for key, v := range f.max {
			k := kmsg.NewApiVersionsResponseApiKey()
			k.ApiKey, k.MaxVersion = key, v
			resp.ApiKeys = append(resp.ApiKeys, k)
		}
		return resp
	}
	return answer(req)
}
