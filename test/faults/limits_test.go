package faults

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// TestSlowConnections opens 5,000 connections that send half a frame each and
// then nothing: memory stays bounded and a healthy client is served.
func TestSlowConnections(t *testing.T) {
	const conns = 5000
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	lim.Cur = lim.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || lim.Max < conns+500 {
		t.Fatalf("this test needs %d open files, the limit is %d (ulimit -Hn)", conns+500, lim.Max)
	}
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), "healthy", 1)
	before := rss(t, s.Pid())
	for i := range conns {
		c, err := net.DialTimeout("tcp", s.Bootstrap(), 10*time.Second)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { c.Close() })
		// The size claims 64 MiB, some bytes of a Produce header follow.
		if _, err := c.Write([]byte{4, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1}); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	cl := producer(t, s.Bootstrap(), "healthy")
	for n := range 20 {
		if err := send(cl, n, 100); err != nil {
			t.Fatalf("with %d slow connections: %v", conns, err)
		}
	}
	rise := rss(t, s.Pid()) - before
	t.Logf("%d slow connections take %d KiB each", conns, rise/conns/1024)
	if rise > 160<<20 {
		t.Errorf("memory rose by %d MiB", rise>>20)
	}
	s.Stop()
}

// TestNeverReads lets clients ask for megabytes again and again without reading
// an answer: what waits for them is bounded, others are served.
func TestNeverReads(t *testing.T) {
	s := testkit.StartServer(t, "")
	const topic = "unread"
	newTopic(t, s.Bootstrap(), topic, 1)
	cl := producer(t, s.Bootstrap(), topic)
	for n := range 20 {
		if err := send(cl, n, 900_000); err != nil {
			t.Fatal(err)
		}
	}
	before := rss(t, s.Pid())
	for range 50 {
		c := testkit.Dial(t, s.Bootstrap())
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.SessionEpoch = 12, 50<<20, -1
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.PartitionMaxBytes = 50 << 20
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		for i := range int32(200) {
			if err := c.C.SetWriteDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.C.Write(c.Frame(req, i)); err != nil {
				break // it takes no more requests
			}
		}
	}
	for n := range 20 {
		if err := send(cl, 100+n, 100); err != nil {
			t.Fatalf("beside clients that never read: %v", err)
		}
	}
	if rise := rss(t, s.Pid()) - before; rise > 200<<20 {
		t.Errorf("memory rose by %d MiB", rise>>20)
	}
	s.Stop()
}

// TestFileLimit runs the server with few file descriptors: connections beyond
// them wait or are refused, a folder does not go offline for it, and when they
// are closed everything works as before.
func TestFileLimit(t *testing.T) {
	dir := t.TempDir()
	s := testkit.StartServer(t, dir)
	newTopic(t, s.Bootstrap(), "files", 8)
	s.Stop()
	s.Wrap = []string{"prlimit", "--nofile=160:160"}
	s.Start()
	l := newLedger()
	stop := load(t, s.Bootstrap(), "files", 8, l)
	waitForAcks(t, l, 200)
	var conns []net.Conn
	for range 400 {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", s.Bootstrap()); err == nil {
			conns = append(conns, c)
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("dial: %v", err)
		}
		cancel()
	}
	before := l.count()
	waitForAcks(t, l, before+200)
	for _, c := range conns {
		c.Close()
	}
	newTopic(t, s.Bootstrap(), "after", 2)
	cl := producer(t, s.Bootstrap(), "after")
	for n := range 5 {
		if err := send(cl, n, 10); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	l.check(t, readAll(t, s.Bootstrap(), "files", 8))
	s.Stop()
}
