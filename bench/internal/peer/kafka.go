package peer

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
)

// deleteDelayMs is how soon deleted files leave the disk, on all brokers: the
// default of a minute would let a benchmark fill it.
const deleteDelayMs = "1000"

// kafka is Apache Kafka, one combined KRaft node with its own JVM defaults,
// through the script of the tests.
type kafka struct {
	script, dir string
	port        int
	tls         *secure // nil: plaintext only
}

// NewKafka returns the peer, or why it cannot run here.
func NewKafka(root, dir string) (Peer, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is missing (apt-get install -y openjdk-17-jre-headless maven)", tool)
		}
	}
	k := &kafka{script: filepath.Join(root, "test", "peers", "kafka"), dir: filepath.Join(dir, "kafka"), port: freePort()}
	if out, err := exec.Command("bash", k.script, "install").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("install: %w: %s", err, bytes.TrimSpace(out))
	}
	return k, nil
}

func (k *kafka) Name() string { return Kafka }

func (k *kafka) Settings() []string {
	out := []string{"log.segment.delete.delay.ms=" + deleteDelayMs}
	if k.tls != nil {
		out = append(out, k.tls.settings(k.Addr(), k.port+1)...)
	}
	return out
}

// Prepare has the script write the configuration, format the folder and see the
// node up once; it is stopped again.
func (k *kafka) Prepare() error {
	args := append([]string{"start", "-p", strconv.Itoa(k.port), "-d", k.dir}, k.Settings()...)
	if out, err := k.sh(args...); err != nil {
		return fmt.Errorf("start: %w\n%s", err, out)
	}
	k.Stop()
	return nil
}

// sh runs the script. Its output goes to a file, since the node it starts keeps
// the descriptors: a pipe would never end.
func (k *kafka) sh(args ...string) (string, error) {
	f, err := os.CreateTemp("", "bench-kafka-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd := exec.Command("bash", append([]string{k.script}, args...)...)
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	b, _ := os.ReadFile(f.Name())
	return string(b), err
}

// Exec returns once the process exists. The script goes on looking whether it
// answers, ten times a second, which a start pays for with a few milliseconds.
func (k *kafka) Exec() (time.Time, error) {
	_ = os.Remove(k.pidFile())
	at := time.Now()
	failed := make(chan error, 1)
	go func() {
		out, err := k.sh("up", "-d", k.dir, "1")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		failed <- err
	}()
	deadline := at.Add(10 * time.Second)
	for k.PID() == 0 {
		select {
		case err := <-failed:
			return at, errors.Join(errors.New("kafka did not start"), err)
		default:
		}
		if time.Now().After(deadline) {
			return at, errors.New("kafka wrote no process id within ten seconds")
		}
		time.Sleep(time.Millisecond)
	}
	return at, nil
}

func (k *kafka) pidFile() string { return filepath.Join(k.dir, "1", "pid") }

func (k *kafka) PID() int {
	b, err := os.ReadFile(k.pidFile())
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

func (k *kafka) Kill() {
	if pid := k.PID(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		awaitGone(pid)
	}
}

func (k *kafka) Stop() { _, _ = k.sh("stop", "-d", k.dir) }

func awaitGone(pid int) {
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(b), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (k *kafka) Dir() string  { return k.dir }
func (k *kafka) Addr() string { return fmt.Sprintf("127.0.0.1:%d", k.port) }

// Script returns the script that runs Kafka's own tools.
func Script(root string) string { return filepath.Join(root, "test", "peers", "kafka") }
