package suite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tidemark-io/tidemark/bench/internal/load"
	"github.com/tidemark-io/tidemark/bench/internal/report"
)

// fetchTraced shows by which way records leave: calls of sendfile, and reads into
// memory, for each fetched GB. It is a pass of its own, since a traced broker is
// slow.
func (r *Run) fetchTraced(ready []fetched, how string) {
	if _, err := exec.LookPath("strace"); err != nil {
		r.Out.Absent["P2, system calls"] = "strace is missing (apt-get install -y strace)"
		return
	}
	for _, f := range ready {
		if isCeiling(f.p) {
			continue
		}
		for _, kib := range []int{1024, 256, 64} {
			what := fmt.Sprintf("%s, %d KiB a partition, traced", how, kib)
			if r.over("P2 "+what) || r.traceOnce(f, what, int32(kib<<10)) != nil {
				return
			}
		}
	}
}

func (r *Run) traceOnce(f fetched, what string, partitionBytes int32) error {
	var got load.Read
	calls, err := r.trace(f.p.PID(), []string{"sendfile", "pread64"}, func() (err error) {
		got, err = f.drain(partitionBytes, time.Second)
		return err
	})
	if err != nil {
		r.fail("P2 "+what+" on "+f.p.Name(), err)
		return err
	}
	for call, name := range map[string]string{"sendfile": "sendfile", "pread64": "read into memory"} {
		r.add(report.Series{Row: "P2", Case: what, Metric: name, Unit: "calls/GB", System: f.p.Name()},
			float64(calls[call])/(float64(got.Bytes)/1e9))
	}
	return nil
}

// awaitTracer waits until every thread of a process is traced.
func awaitTracer(pid int) error {
	untraced := []byte("TracerPid:\t0\n")
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
		if err != nil {
			return err
		}
		left := len(threads) == 0
		for _, t := range threads {
			b, err := os.ReadFile(t) // an error: the thread ended
			left = left || err == nil && bytes.Contains(b, untraced)
		}
		if !left {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("strace did not attach to every thread of %d", pid)
		}
	}
}

// trace counts system calls of a process while work runs.
func (r *Run) trace(pid int, names []string, work func() error) (map[string]int, error) {
	file := filepath.Join(r.o.Dir, "strace.txt")
	var said strings.Builder
	cmd := exec.Command("strace", "-f", "-c", "-e", "trace="+strings.Join(names, ","), "-o", file, "-p", strconv.Itoa(pid))
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err := awaitTracer(pid)
	if err == nil {
		err = work()
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait() // it ends with the signal
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	calls := countCalls(string(b))
	if len(calls) == 0 {
		return nil, errors.New("strace counted nothing: " + tail([]byte(said.String())))
	}
	return calls, nil
}

// countCalls reads the table that strace -c writes.
func countCalls(table string) map[string]int {
	calls := map[string]int{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 5 || f[len(f)-1] == "total" {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			calls[f[len(f)-1]] = n
		}
	}
	return calls
}
