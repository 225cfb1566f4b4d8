package peer

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of the systems in results.
const (
	Strict     = "Tidemark strict"
	Replicated = "Tidemark replicated"
	Kafka      = "Apache Kafka"
	Other      = "the other binary"
	Ceiling    = "ceiling"
	CeilingF   = "ceiling, fdatasync"
	RabbitQ    = "RabbitMQ quorum queue"
	RabbitS    = "RabbitMQ stream"
)

// Peer is one system under test.
type Peer interface {
	// Name is the column in the results.
	Name() string
	// Settings says what differs from the system's own defaults.
	Settings() []string
	// Exec starts the process on Dir without waiting for it, and returns when
	// that was.
	Exec() (time.Time, error)
	// Prepare makes Dir ready for a first start, where that is a step of its own.
	Prepare() error
	// Kill ends the process without warning, Stop asks it to end.
	Kill()
	Stop()
	Addr() string
	PID() int
	Dir() string
}

// Start prepares an empty folder, starts the process and waits until it answers.
func Start(p Peer) error {
	if err := os.RemoveAll(p.Dir()); err != nil {
		return err
	}
	if err := os.MkdirAll(p.Dir(), 0o755); err != nil {
		return err
	}
	if err := p.Prepare(); err != nil {
		return err
	}
	return Up(p)
}

// Up starts the process on the folder as it is and waits until it answers.
func Up(p Peer) error {
	if _, err := p.Exec(); err != nil {
		return err
	}
	deadline := time.Now().Add(2 * time.Minute)
	for !answers(p.Addr()) {
		if time.Now().After(deadline) {
			p.Kill()
			return fmt.Errorf("%s did not answer within two minutes; see %s", p.Name(), p.Dir())
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

// answers asks for ApiVersions v0: a bound port is not a server yet.
func answers(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Write([]byte{0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 1, 0, 1, 'x'}); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 8))
	return err == nil && n > 0
}

// Remove deletes a stopped peer's folder.
func Remove(p Peer) { _ = os.RemoveAll(p.Dir()) }

// freePort returns a port that nothing listens on now, nor on the one after it,
// which some peers take too.
func freePort() int {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			break
		}
		port := l.Addr().(*net.TCPAddr).Port
		next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		l.Close()
		if err == nil {
			next.Close()
			return port
		}
	}
	return 0 // the start that uses it fails and says so
}

func logFile(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
