package testkit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Root returns the root folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

var buildOnce = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("TESTKIT_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := os.MkdirTemp("", "tidemark-bin-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "tidemark")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/tidemark")
	cmd.Dir = Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tidemark: %w\n%s", err, out)
	}
	return bin, nil
})

// Binary returns the tidemark binary under test: $TESTKIT_BIN, or one built
// from this tree.
func Binary(t testing.TB) string {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// Server is a tidemark process on loopback.
type Server struct {
	T     testing.TB
	Dir   string   // data folder
	Port  int      // broker port, kept over restarts
	TLS   int      // port of the TLS listener, 0 without one
	Admin string   // host:port of the admin listener
	Args  []string // more flags
	Wrap  []string // a command to run the server under, such as strace
	cmd   *exec.Cmd
	log   *syncBuffer
	done  chan struct{}
}

// StartServer starts tidemark on an empty data folder (dir, or a fresh one when
// dir is empty) and waits until it is ready. The process ends with the test.
func StartServer(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	s := &Server{T: t, Dir: dir, Port: FreePort(t), Args: args}
	s.launch()
	return s
}

// StartTLSServer is StartServer with a second listener, called SSL, that speaks TLS
// with the settings in args.
func StartTLSServer(t testing.TB, args ...string) *Server {
	t.Helper()
	port := FreePorts(t, 2)
	s := &Server{T: t, Dir: t.TempDir(), Port: port, TLS: port + 1, Args: args}
	s.launch()
	return s
}

// launch starts the server for the first time and sees to its end.
func (s *Server) launch() {
	t := s.T
	t.Helper()
	s.Admin = fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() && s.log != nil {
			t.Logf("server log:\n%s", tail(s.log.String(), 80))
		}
	})
	s.Start()
}

// Secure returns host:port of the TLS listener.
func (s *Server) Secure() string { return fmt.Sprintf("localhost:%d", s.TLS) }

// listen are the flags that say where the server listens.
func (s *Server) listen() []string {
	if s.TLS == 0 {
		return []string{"--listen", s.Bootstrap()}
	}
	return []string{
		"--set", fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,SSL://127.0.0.1:%d,CONTROLLER://127.0.0.1:0", s.Port, s.TLS),
		"--set", fmt.Sprintf("advertised.listeners=PLAINTEXT://127.0.0.1:%d,SSL://localhost:%d", s.Port, s.TLS),
		"--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
	}
}

// Bootstrap returns host:port for clients.
func (s *Server) Bootstrap() string { return fmt.Sprintf("127.0.0.1:%d", s.Port) }

// Pid returns the process id of the running server.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Log returns what the server has written so far.
func (s *Server) Log() string { return s.log.String() }

// StartTimeout is how long a server may take to answer: a condition that a slow
// machine meets late, never a measurement.
const StartTimeout = 2 * time.Minute

// Start starts the process and waits until its broker port answers.
func (s *Server) Start() {
	s.T.Helper()
	if err := s.TryStart(StartTimeout); err != nil {
		s.T.Fatal(err)
	}
}

// TryStart is Start that reports instead of failing the test.
func (s *Server) TryStart(within time.Duration) error {
	args := append(append([]string{"server", "--data-dir", s.Dir, "--admin", s.Admin}, s.listen()...), s.Args...)
	argv := append(append([]string{}, s.Wrap...), append([]string{Binary(s.T)}, args...)...)
	s.cmd = exec.Command(argv[0], argv[1:]...)
	if s.log == nil {
		s.log = &syncBuffer{}
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	s.done = done
	go func(c *exec.Cmd) { _ = c.Wait(); close(done) }(s.cmd)
	deadline := time.Now().Add(within)
	for time.Now().Before(deadline) {
		select {
		case <-done:
			return fmt.Errorf("server ended while starting: %v\n%s", s.cmd.ProcessState, tail(s.log.String(), 30))
		default:
		}
		if answers(s.Bootstrap(), deadline) {
			return nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	return errors.New("server did not answer in time")
}

// answers reports whether a broker answers ApiVersions v0: listening is not
// enough, a server binds its ports before it serves.
func answers(addr string, deadline time.Time) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(deadline)
	if _, err := c.Write([]byte{0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 1, 0, 1, 'x'}); err != nil {
		return false
	}
	_, err = io.ReadFull(c, make([]byte, 8))
	return err == nil
}

// Kill ends the process with SIGKILL and waits for it.
func (s *Server) Kill() { s.signal(syscall.SIGKILL) }

// Freeze stops the process where it is (SIGSTOP) and returns when no thread of it
// can run any more, so that nothing leaves it: what is left is to kill it.
func (s *Server) Freeze() {
	s.T.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		s.T.Fatalf("SIGSTOP: %v", err)
	}
	deadline := time.Now().Add(30 * time.Second)
	for !frozen(s.Pid()) {
		if time.Now().After(deadline) {
			s.T.Fatalf("the server goes on after SIGSTOP")
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// frozen reports whether every thread of a process is stopped, or waits in the
// kernel for a disk: such a thread stops before it is back in the program.
func frozen(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		_, state, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
		if !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "D") {
			return false
		}
	}
	return true
}

// Stop asks the process to end with SIGTERM, waits, and fails the test unless
// it ends with status 0.
func (s *Server) Stop() {
	s.T.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		s.T.Fatalf("server ended with status %d after SIGTERM\n%s", code, tail(s.log.String(), 40))
	}
}

// Restart stops the server cleanly and starts it again on the same folder.
func (s *Server) Restart() {
	s.T.Helper()
	s.Stop()
	s.Start()
}

func (s *Server) signal(sig syscall.Signal) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	select {
	case <-s.done:
		return
	default:
	}
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(60 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

// syncBuffer collects a process's output; it keeps the newest 4 MiB.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.buf.Len() > 4<<20 {
		b.buf.Next(b.buf.Len() / 2)
	}
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func tail(s string, lines int) string {
	var all []string
	sc := bufio.NewScanner(strings.NewReader(s))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		all = append(all, sc.Text())
	}
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
