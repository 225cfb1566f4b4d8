package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// loopFS is an ext4 file system on a loop device that can lose its page cache.
type loopFS struct {
	t     *testing.T
	image string
	mount string
}

// newLoopFS makes and mounts a file system of sizeMiB, and takes it down with
// the test. It needs root.
func newLoopFS(t *testing.T, sizeMiB int) *loopFS {
	t.Helper()
	needLoopMounts(t)
	dir := t.TempDir()
	f := &loopFS{t: t, image: filepath.Join(dir, "disk.img"), mount: filepath.Join(dir, "mnt")}
	if err := os.Mkdir(f.mount, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "truncate", "-s", fmt.Sprintf("%dM", sizeMiB), f.image)
	run(t, "mkfs.ext4", "-q", "-F", f.image)
	f.up()
	t.Cleanup(func() { _ = exec.Command("umount", "-l", f.mount).Run() })
	return f
}

// needLoopMounts skips where loop mounts are not to be had; CI sets
// TESTKIT_NEED_ROOT, and there that is a failure.
func needLoopMounts(t *testing.T) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "root is needed for loop mounts"
	} else if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		why = "mkfs.ext4 is missing (apt-get install -y e2fsprogs)"
	} else if _, err := os.Stat("/dev/loop-control"); err != nil {
		why = "this kernel has no loop devices"
	}
	if why == "" {
		return
	}
	if os.Getenv("TESTKIT_NEED_ROOT") != "" {
		t.Fatalf("power cuts cannot be tested: %s, and TESTKIT_NEED_ROOT is set", why)
	}
	t.Skipf("power cuts left out: %s", why)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func (f *loopFS) up() { f.t.Helper(); run(f.t, "mount", "-o", "loop", f.image, f.mount) }

// ioctlShutdown is FS_IOC_SHUTDOWN; the flag drops what was not flushed,
// the journal included.
const (
	ioctlShutdown = 0x8004587d
	noLogFlush    = 2
)

// cut takes the power away: nothing unflushed reaches the disk any more.
func (f *loopFS) cut() {
	f.t.Helper()
	fd, err := unix.Open(f.mount, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetPointerInt(fd, ioctlShutdown, noLogFlush); err != nil {
		f.t.Fatalf("FS_IOC_SHUTDOWN: %v", err)
	}
}

// restore mounts the disk again after a cut.
func (f *loopFS) restore() {
	f.t.Helper()
	run(f.t, "umount", f.mount)
	f.up()
}

// powerCut takes the power from server and disk at the same moment. A server that
// outlived its disk would acknowledge what no machine without power can: an
// fdatasync that is under way while ext4 shuts down may return success although
// its transaction was dropped (about one run in thirty lost such records, each
// acknowledged after the cut had begun).
func powerCut(s *testkit.Server, disk *loopFS) {
	s.T.Helper()
	s.Freeze()
	disk.cut()
	s.Kill()
	disk.restore()
}

// TestPowerCut cuts the power ten times under load: in strict durability nothing
// acknowledged is lost (reliability row D1).
func TestPowerCut(t *testing.T) {
	cuts := 10
	if testing.Short() {
		cuts = 2
	}
	disk := newLoopFS(t, 1024)
	const topic, partitions = "power", int32(3)
	s := testkit.StartServer(t, filepath.Join(disk.mount, "data"))
	newTopic(t, s.Bootstrap(), topic, partitions)
	l := newLedger()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- writer(ctx, s.Bootstrap(), topic, partitions, l) }()
	for i := range cuts {
		waitForAcks(t, l, l.count()+200)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // a random moment, not a wait for a condition
		powerCut(s, disk)
		before := l.count()
		s.Start()
		waitForAcks(t, l, before+1)
		t.Logf("cut %d: %v", i+1, l)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("the producer did not finish: %v", err)
	}
	l.check(t, readAll(t, s.Bootstrap(), topic, partitions))
	s.Stop()
}

// TestPowerCutAfterFirstStart cuts the power as soon as the very first start is
// ready: the folder must open again with the same identity.
func TestPowerCutAfterFirstStart(t *testing.T) {
	disk := newLoopFS(t, 256)
	s := testkit.StartServer(t, filepath.Join(disk.mount, "data"))
	powerCut(s, disk)
	s.Start()
	newTopic(t, s.Bootstrap(), "first", 1)
	s.Stop()
	s.Start()
	s.Stop()
}
