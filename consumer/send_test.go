package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestClassifySend(t *testing.T) {
	for _, c := range []struct {
		err     error
		written bool
		outcome SendOutcome
		append  AppendState
	}{
		{nil, true, SendAcked, AppendCommitted},
		{kerr.NotEnoughReplicas, true, SendRejected, AppendNo},
		{kerr.NotEnoughReplicasAfterAppend, true, SendUnknown, AppendLeader},
		{kerr.MessageTooLarge, true, SendRejected, AppendNo},
		{kerr.RequestTimedOut, true, SendUnknown, AppendUnknown},
		{context.Canceled, false, SendRejected, AppendNo},
		{context.DeadlineExceeded, true, SendUnknown, AppendUnknown},
		{kgo.ErrRecordTimeout, true, SendUnknown, AppendUnknown},
		{fmt.Errorf("wrapped: %w", kgo.ErrMaxBuffered), false, SendRejected, AppendNo},
	} {
		if o, a := classifySend(c.err, c.written); o != c.outcome || a != c.append {
			t.Errorf("%v, written %v: %s/%s, want %s/%s", c.err, c.written, o, a, c.outcome, c.append)
		}
	}
}

// TestSendLedger: acked, rejected and unknown, told apart on a cluster that
// answers, refuses and keeps silent.
func TestSendLedger(t *testing.T) {
	cl, fk := fake(t)
	topic := cl.topic(t, 1)
	var mu sync.Mutex
	var book []SendResult
	cfg := cl.config("g", topic)
	cfg.SendTimeout = 10 * time.Second
	cfg.Ledger = func(r SendResult) { mu.Lock(); defer mu.Unlock(); book = append(book, r) }
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, c)
	ok := c.Send(ctxOf(t), "id-1", &kgo.Record{Topic: topic, Value: []byte("a")})
	if ok.Outcome != SendAcked || ok.Append != AppendCommitted || ok.Offset != 0 || ok.Partition != 0 || ok.Err != nil {
		t.Errorf("acked: %+v", ok)
	}
	if r := cl.quarantined(t, topic, 1)[0]; (&Record{Headers: r.Headers}).EventID() != "id-1" {
		t.Errorf("the record does not carry its id: %v", r.Headers)
	}
	no := c.Send(ctxOf(t), "id-2", &kgo.Record{Topic: topic, Value: make([]byte, 2<<20)})
	if no.Outcome != SendRejected || no.Append != AppendNo || no.Offset != Absent || !errors.Is(no.Err, kerr.MessageTooLarge) {
		t.Errorf("rejected: %+v", no)
	}
	silent := make(chan struct{})
	ctx, cancel := context.WithCancel(ctxOf(t))
	defer cancel()
	fk.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel() // the record is on its way, and nobody waits any longer
		fk.SleepControl(func() { <-silent })
		return nil, nil, false
	})
	maybe := c.Send(ctx, "id-3", &kgo.Record{Topic: topic, Value: []byte("c")})
	if maybe.Outcome != SendUnknown || maybe.Append != AppendUnknown || maybe.Err == nil {
		t.Errorf("unknown: %+v", maybe)
	}
	if c.sends.counts() != (SendCounts{1, 1, 1}) {
		t.Errorf("counts %+v", c.sends.counts())
	}
	close(silent)
	eventually(t, "the answer that came late is a second line", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(book) == 4 && book[3].ID == "id-3" && book[3].Outcome == SendAcked
	})
}

// TestBrokerEndsConnectionsBeforeAnAnswer: a broker that stops may close a
// connection in order before its first answer (Apache Kafka does). While records
// are under way that is an outage to be waited out; when Open meets it first, it
// is a wrong security setting and said at once.
func TestBrokerEndsConnectionsBeforeAnAnswer(t *testing.T) {
	cl, _ := fake(t)
	topic := cl.topic(t, 1)
	var endings atomic.Int32 // how many of the next connections end
	cfg := cl.config("g", topic)
	cfg.Options = append(cfg.Options, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if endings.Add(-1) < 0 {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		ours, theirs := net.Pipe()
		go func() {
			theirs.Read(make([]byte, 4096))
			theirs.Close()
		}()
		return ours, nil
	}))
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, c)
	endings.Store(3)
	if r := c.Send(ctxOf(t), "id", &kgo.Record{Topic: topic, Value: []byte("a")}); r.Outcome != SendAcked {
		t.Errorf("a record sent while connections end: %+v", r)
	}
	if left := endings.Load(); left >= 0 {
		t.Errorf("%d connections more should have ended", left+1)
	}
	endings.Store(1 << 30)
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "is TLS missing?") {
		t.Errorf("open where every connection ends: %v", err)
	}
	endings.Store(0)
}
