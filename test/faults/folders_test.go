package faults

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// twoFolders starts a server with two data folders and a metadata folder of its
// own, and a topic with partitions in both.
func twoFolders(t *testing.T, topic string) (s *testkit.Server, a, b string) {
	t.Helper()
	a, b = t.TempDir(), t.TempDir()
	s = testkit.StartServer(t, a+","+b, "--set", "metadata.log.dir="+t.TempDir())
	newTopic(t, s.Bootstrap(), topic, 8)
	return s, a, b
}

// partitionsIn returns the partitions of a topic in a folder.
func partitionsIn(t *testing.T, dir, topic string) (out []int32) {
	t.Helper()
	for p := range int32(8) {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("%s-%d", topic, p))); err == nil {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		t.Fatalf("no partition of %s in %s", topic, dir)
	}
	return out
}

func sendTo(cl *kgo.Client, p int32, n int) error {
	return cl.ProduceSync(halfAMinute(), &kgo.Record{Partition: p, Value: []byte(strconv.Itoa(n) + ":")}).FirstErr()
}

// TestOneFolderFails makes one of two data folders fail while the server runs:
// its partitions answer KAFKA_STORAGE_ERROR, those of the other serve on, and
// after a restart with a good disk nothing acknowledged is missing (KIP-112).
func TestOneFolderFails(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("TESTKIT_NEED_ROOT") != "" {
			t.Fatal("strace is missing and TESTKIT_NEED_ROOT is set: apt-get install -y strace")
		}
		t.Skip("a failing folder left out: strace is missing (apt-get install -y strace)")
	}
	const topic = "jbod"
	s, a, b := twoFolders(t, topic)
	good, bad := partitionsIn(t, a, topic), partitionsIn(t, b, topic)
	cl, l := producer(t, s.Bootstrap(), topic), newLedger()
	write := func(p int32, n int) error {
		err := sendTo(cl, p, n)
		if err == nil {
			l.ack(p, n)
		}
		return err
	}
	for n := range 3 {
		for p := range int32(8) {
			if err := write(p, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	segment := filepath.Join(b, fmt.Sprintf("%s-%d", topic, bad[0]), "00000000000000000000.log")
	tracer := exec.Command("strace", "-f", "-qq", "-o", filepath.Join(t.TempDir(), "trace"), "-P", segment,
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO", "-p", strconv.Itoa(s.Pid()))
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	var err error
	n := 3
	for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); n++ {
		err = write(bad[0], n)
	}
	_ = tracer.Process.Kill()
	_ = tracer.Wait()
	if !errors.Is(err, kerr.KafkaStorageError) {
		t.Fatalf("the failing folder's partition answers %v", err)
	}
	for _, p := range good {
		if err := write(p, n); err != nil {
			t.Errorf("partition %d of the good folder: %v", p, err)
		}
	}
	for _, p := range bad[1:] {
		if err := write(p, n); err == nil {
			t.Errorf("partition %d of the failed folder takes a record", p)
		}
	}
	s.Kill()
	s.Start()
	cl = producer(t, s.Bootstrap(), topic)
	for p := range int32(8) {
		if err := write(p, n+1); err != nil {
			t.Errorf("partition %d after the restart: %v", p, err)
		}
	}
	l.check(t, readAll(t, s.Bootstrap(), topic, 8))
}

// TestFolderMissingAtStart starts without one of two data folders: the partitions
// of the other serve, and all do when the folder is back.
func TestFolderMissingAtStart(t *testing.T) {
	const topic = "missing"
	s, a, b := twoFolders(t, topic)
	good, bad := partitionsIn(t, a, topic), partitionsIn(t, b, topic)
	cl, l := producer(t, s.Bootstrap(), topic), newLedger()
	for p := range int32(8) {
		if err := sendTo(cl, p, 0); err != nil {
			t.Fatal(err)
		}
		l.ack(p, 0)
	}
	s.Stop()
	if err := os.Rename(b, b+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b, b); err != nil { // every access fails (ELOOP)
		t.Fatal(err)
	}
	s.Start()
	cl = producer(t, s.Bootstrap(), topic)
	for _, p := range good {
		if err := sendTo(cl, p, 1); err != nil {
			t.Errorf("partition %d of the folder that is there: %v", p, err)
		} else {
			l.ack(p, 1)
		}
	}
	for _, p := range bad {
		if err := sendTo(cl, p, 1); err == nil {
			t.Errorf("partition %d of the missing folder takes a record", p)
		}
	}
	s.Stop()
	if err := errors.Join(os.Remove(b), os.Rename(b+".away", b)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	cl = producer(t, s.Bootstrap(), topic)
	for p := range int32(8) {
		if err := sendTo(cl, p, 2); err != nil {
			t.Errorf("partition %d with all folders: %v", p, err)
		} else {
			l.ack(p, 2)
		}
	}
	l.check(t, readAll(t, s.Bootstrap(), topic, 8))
	s.Stop()
}
