package faults

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// wantRefused starts a server that must not start, and says why in one of words.
func wantRefused(t *testing.T, s *testkit.Server, words ...string) {
	t.Helper()
	t.Cleanup(s.Kill)
	err := s.TryStart(time.Minute)
	if err == nil {
		t.Fatal("the server started")
	}
	if !strings.Contains(err.Error(), "ended while starting") {
		t.Fatalf("the server neither started nor gave up: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the refusal does not say %q:\n%v", w, err)
		}
	}
}

func another(t *testing.T, dir string, args ...string) *testkit.Server {
	t.Helper()
	return &testkit.Server{T: t, Dir: dir, Port: testkit.FreePort(t), Admin: "127.0.0.1:0", Args: args}
}

// TestForeignFolderRefused: a folder in use, of another node, or of another
// cluster is refused, and stays as it is.
func TestForeignFolderRefused(t *testing.T) {
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), "mine", 1)
	t.Run("in use", func(t *testing.T) { wantRefused(t, another(t, s.Dir), s.Dir, "in use") })
	s.Stop()
	meta := filepath.Join(s.Dir, "meta.properties")
	before, err := os.ReadFile(meta)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("another node", func(t *testing.T) { wantRefused(t, another(t, s.Dir, "--node-id", "7"), s.Dir, "7") })
	t.Run("another cluster", func(t *testing.T) {
		other := t.TempDir()
		o := testkit.StartServer(t, other)
		o.Stop()
		wantRefused(t, another(t, s.Dir+","+other), "cluster")
	})
	after, err := os.ReadFile(meta)
	if err != nil || string(after) != string(before) {
		t.Errorf("meta.properties changed: %v\n%s", err, after)
	}
	s.Start()
	readAll(t, s.Bootstrap(), "mine", 1)
}

// TestKillDuringRecovery kills the server again and again while it recovers from
// the kill before (row P3).
func TestKillDuringRecovery(t *testing.T) {
	const topic, partitions = "again", int32(4)
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), topic, partitions)
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, partitions, l)
	waitForAcks(t, l, 3000)
	s.Kill()
	for range 15 {
		_ = s.TryStart(time.Duration(rand.IntN(80)) * time.Millisecond)
		s.Kill()
	}
	before := l.count()
	s.Start()
	waitForAcks(t, l, before+1)
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, partitions))
	s.Stop()
}

// TestStopUnderLoad stops the server with SIGTERM while a producer writes: the
// producer sees no error that it may not retry, and everything acknowledged is
// there (row P6).
func TestStopUnderLoad(t *testing.T) {
	const topic, partitions = "stop", int32(4)
	s := testkit.StartServer(t, "")
	newTopic(t, s.Bootstrap(), topic, partitions)
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, partitions, l)
	for range 5 {
		waitForAcks(t, l, l.count()+500)
		s.Stop()
		before := l.count()
		s.Start()
		waitForAcks(t, l, before+1)
		if strings.Contains(s.Log(), "unclean") {
			t.Error("a start after SIGTERM says that the stop was unclean")
		}
	}
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, partitions))
}

// TestYoungConnectionsAreReset: a connection that has had no answer yet is reset,
// however the server goes, and one that has is closed in order after a stop. To
// clients an orderly close before the first answer means a wrong security setting,
// and franz-go then gives its records up.
func TestYoungConnectionsAreReset(t *testing.T) {
	s := testkit.StartServer(t, "")
	for _, leave := range []struct {
		name string
		do   func()
	}{{"stop", s.Stop}, {"kill", s.Kill}} {
		silent, opened := testkit.Dial(t, s.Bootstrap()), testkit.Dial(t, s.Bootstrap())
		opened.Send(kmsg.NewPtrApiVersionsRequest())
		if _, err := opened.ReadFrame(); err != nil {
			t.Fatal(err)
		}
		leave.do()
		for what, c := range map[string]*testkit.RawConn{"silent": silent, "opened": opened} {
			if _, err := c.C.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s, %s connection: %v; want a reset", leave.name, what, err)
			}
		}
		s.Start()
	}
}

// TestPause stops the process for longer than its broker's session lasts and lets
// it go on: it serves again by itself, and nothing is lost.
func TestPause(t *testing.T) {
	const topic, partitions = "pause", int32(2)
	s := testkit.StartServer(t, "", "--set", "broker.session.timeout.ms=3000", "--set", "broker.heartbeat.interval.ms=500")
	newTopic(t, s.Bootstrap(), topic, partitions)
	l := newLedger()
	stop := load(t, s.Bootstrap(), topic, partitions, l)
	for range 2 {
		waitForAcks(t, l, l.count()+200)
		run(t, "kill", "-STOP", strconv.Itoa(s.Pid()))
		time.Sleep(4500 * time.Millisecond) // longer than the session
		run(t, "kill", "-CONT", strconv.Itoa(s.Pid()))
		waitForAcks(t, l, l.count()+200)
	}
	stop()
	l.check(t, readAll(t, s.Bootstrap(), topic, partitions))
	s.Stop()
}

// TestDiskFullAtStart starts on a full disk after a kill: what is there can be
// read, and writing resumes when space returns (row D9).
func TestDiskFullAtStart(t *testing.T) {
	disk := newLoopFS(t, 96)
	const topic = "full"
	s := testkit.StartServer(t, filepath.Join(disk.mount, "data"))
	newTopic(t, s.Bootstrap(), topic, 1)
	cl, l := producer(t, s.Bootstrap(), topic), newLedger()
	for n := range 50 {
		if err := send(cl, n, 1000); err != nil {
			t.Fatal(err)
		}
		l.ack(0, n)
	}
	s.Kill()
	ballast := filepath.Join(disk.mount, "ballast")
	_ = exec.Command("dd", "if=/dev/zero", "of="+ballast, "bs=64k").Run() // until nothing is left
	if err := s.TryStart(3 * time.Second); err == nil {
		l.check(t, readAll(t, s.Bootstrap(), topic, 1))
	} else {
		t.Logf("on a full disk the server does not get ready: %.300s", err)
		s.Kill()
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if s.Kill(); true {
		s.Start()
	}
	for n, deadline := 50, time.Now().Add(time.Minute); ; n++ {
		if send(cl, n, 100) == nil {
			l.ack(0, n)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("writing does not resume when space is back")
		}
	}
	l.check(t, readAll(t, s.Bootstrap(), topic, 1))
	s.Stop()
}
