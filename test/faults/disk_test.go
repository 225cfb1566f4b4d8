package faults

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// producer sends single records and does not retry by itself, so that the test
// sees the broker's own answer.
func producer(t *testing.T, bootstrap, topic string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(), kgo.RecordRetries(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func send(cl *kgo.Client, n int, padding int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	value := strconv.Itoa(n) + ":" + strings.Repeat("x", padding)
	return cl.ProduceSync(ctx, &kgo.Record{Value: []byte(value)}).FirstErr()
}

// TestDiskFull fills the disk: produce answers KAFKA_STORAGE_ERROR, reading goes
// on, and writing resumes by itself when space returns (row D8).
func TestDiskFull(t *testing.T) {
	disk := newLoopFS(t, 96)
	s := testkit.StartServer(t, filepath.Join(disk.mount, "data"))
	newTopic(t, s.Bootstrap(), "full", 1)
	cl, l := producer(t, s.Bootstrap(), "full"), newLedger()
	ballast := filepath.Join(disk.mount, "ballast")
	fill(t, ballast)
	var refused error
	n := 0
	for ; n < 20_000 && refused == nil; n++ {
		if refused = send(cl, n, 50_000); refused == nil {
			l.ack(0, n)
		}
	}
	if !errors.Is(refused, kerr.KafkaStorageError) {
		t.Fatalf("with a full disk produce answers %v after %d records, want KAFKA_STORAGE_ERROR", refused, n)
	}
	if got := readAll(t, s.Bootstrap(), "full", 1); len(got[0]) < l.count() {
		t.Errorf("with a full disk %d of %d records can be read", len(got[0]), l.count())
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	resumed := false
	for deadline := time.Now().Add(time.Minute); !resumed && time.Now().Before(deadline); n++ {
		if send(cl, n, 100) == nil {
			l.ack(0, n)
			resumed = true
		}
	}
	if !resumed {
		t.Error("writing did not resume when space came back")
	}
	l.check(t, readAll(t, s.Bootstrap(), "full", 1))
	s.Stop()
	s.Start()
	l.check(t, readAll(t, s.Bootstrap(), "full", 1))
}

// fill leaves a few hundred KiB free.
func fill(t *testing.T, ballast string) {
	t.Helper()
	out, err := exec.Command("df", "--output=avail", "-k", filepath.Dir(ballast)).Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out))
	freeKiB, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	run(t, "fallocate", "-l", strconv.FormatInt((freeKiB-512)*1024, 10), ballast)
}

// TestFsyncError makes one fsync of a running server fail: it is never retried,
// the folder goes offline, and its partitions answer KAFKA_STORAGE_ERROR (row
// D6). Nothing acknowledged before is lost by the next start.
func TestFsyncError(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("TESTKIT_NEED_ROOT") != "" {
			t.Fatal("strace is missing and TESTKIT_NEED_ROOT is set: apt-get install -y strace")
		}
		t.Skip("fsync errors left out: strace is missing (apt-get install -y strace)")
	}
	data, meta := t.TempDir(), t.TempDir()
	s := testkit.StartServer(t, data, "--set", "metadata.log.dir="+meta)
	newTopic(t, s.Bootstrap(), "sync", 1)
	cl, l := producer(t, s.Bootstrap(), "sync"), newLedger()
	for n := range 20 {
		if err := send(cl, n, 100); err != nil {
			t.Fatal(err)
		}
		l.ack(0, n)
	}
	segment := filepath.Join(data, "sync-0", "00000000000000000000.log")
	tracer := exec.Command("strace", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-P", segment,
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO", "-p", strconv.Itoa(s.Pid()))
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tracer.Process.Kill(); _ = tracer.Wait() }()
	var err error
	n := 20
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); n++ {
		if err = send(cl, n, 100); err == nil {
			l.ack(0, n)
		}
	}
	if !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("with a failing fsync produce answers %v, want KAFKA_STORAGE_ERROR", err)
	}
	_ = tracer.Process.Kill()
	_ = tracer.Wait()
	if err := send(cl, n+1, 100); !errors.Is(err, kerr.KafkaStorageError) && !errors.Is(err, kerr.LeaderNotAvailable) && !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Errorf("after the failed fsync produce answers %v: it must not be retried as if nothing happened", err)
	}
	s.Kill()
	s.Start()
	l.check(t, readAll(t, s.Bootstrap(), "sync", 1))
}
