package testkit

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Postgres is a PostgreSQL server on loopback and a unix socket.
type Postgres struct {
	Port int
	// URL connects over TCP, SocketURL over the unix socket; both reach the
	// database "postgres" as a user who may do everything.
	URL, SocketURL string

	log  *syncBuffer
	made atomic.Int32
}

// postgresTool finds a program of PostgreSQL: Debian keeps the server's out of
// the PATH, in a folder per version.
func postgresTool(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// NeedPostgres skips a test when this machine has no PostgreSQL. CI sets
// TESTKIT_NEED_PEERS, and there a missing one is a failure, not a skip.
func NeedPostgres(t testing.TB) {
	t.Helper()
	for _, tool := range []string{"initdb", "postgres", "createdb"} {
		if postgresTool(tool) != "" {
			continue
		}
		if os.Getenv("TESTKIT_NEED_PEERS") != "" {
			t.Fatalf("%s is missing and TESTKIT_NEED_PEERS is set: apt-get install -y postgresql", tool)
		}
		t.Skipf("PostgreSQL left out: %s is missing (apt-get install -y postgresql)", tool)
	}
}

// StartPostgres makes a PostgreSQL cluster in a folder of its own, starts it,
// and removes both with the test. Commits are not synced: the tests kill clients,
// not the database.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	NeedPostgres(t)
	// Not t.TempDir: the path of a unix socket may have 107 bytes.
	base, err := os.MkdirTemp("", "pg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	owner, err := ordinaryUser()
	if err != nil {
		t.Fatal(err)
	}
	if owner != nil {
		if err := os.Chown(base, int(owner.Uid), int(owner.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	p := &Postgres{Port: FreePort(t), log: &syncBuffer{}}
	p.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", p.Port)
	p.SocketURL = fmt.Sprintf("postgres:///postgres?host=%s&port=%d&user=postgres&sslmode=disable", base, p.Port)
	data := filepath.Join(base, "data")
	init := exec.Command(postgresTool("initdb"), "--pgdata", data, "--username", "postgres", "--auth", "trust", "--no-sync", "--no-locale", "--encoding", "UTF8")
	init.Dir, init.SysProcAttr = base, &syscall.SysProcAttr{Credential: owner}
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p.start(t, base, data, owner)
	return p
}

// Database makes an empty database and returns its URL.
func (p *Postgres) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", p.made.Add(1))
	out, err := exec.Command(postgresTool("createdb"), "-h", "127.0.0.1", "-p", strconv.Itoa(p.Port), "-U", "postgres", name).CombinedOutput()
	if err != nil {
		t.Fatalf("createdb: %v\n%s", err, out)
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.Port, name)
}

func (p *Postgres) start(t testing.TB, base, data string, owner *syscall.Credential) {
	t.Helper()
	cmd := exec.Command(postgresTool("postgres"), "-D", data, "-p", strconv.Itoa(p.Port), "-k", base, "-h", "127.0.0.1",
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=40", "-c", "autovacuum=off")
	cmd.Dir = base
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGQUIT}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // immediate shutdown: the data goes too
		<-done
		if t.Failed() {
			t.Logf("PostgreSQL log:\n%s", tail(p.log.String(), 30))
		}
	})
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		select {
		case <-done:
			t.Fatalf("PostgreSQL ended while starting: %v\n%s", cmd.ProcessState, tail(p.log.String(), 30))
		default:
		}
		if postgresAnswers(p.Port) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("PostgreSQL did not answer in time\n%s", tail(p.log.String(), 30))
}

// postgresAnswers reports whether a start-up message is answered by a request
// for authentication (R); while it starts, PostgreSQL answers with an error (E).
func postgresAnswers(port int) bool {
	c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	body := append([]byte{0, 3, 0, 0}, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	if _, err := c.Write(append([]byte{0, 0, 0, byte(len(body) + 4)}, body...)); err != nil {
		return false
	}
	answer := make([]byte, 1)
	_, err = c.Read(answer)
	return err == nil && bytes.Equal(answer, []byte("R"))
}

// ordinaryUser returns who the server runs as: PostgreSQL refuses to be root, so
// root hands it to the user "postgres" (Debian's package makes it) or "nobody".
// It is nil when this process is an ordinary user itself.
func ordinaryUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user \"postgres\" or \"nobody\"")
}
