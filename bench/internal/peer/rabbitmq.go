package peer

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// RabbitMQ is one node with the stream plugin, through the script of the tests.
type RabbitMQ struct {
	script, dir string
	port        int
}

// NewRabbitMQ returns the peer, or why it cannot run here. It installs nothing.
func NewRabbitMQ(root, dir string) (*RabbitMQ, error) {
	if _, err := os.Stat("/usr/lib/rabbitmq/bin/rabbitmq-server"); err != nil {
		return nil, fmt.Errorf("rabbitmq-server is missing (test/peers/rabbitmq install)")
	}
	return &RabbitMQ{
		script: filepath.Join(root, "test", "peers", "rabbitmq"), dir: filepath.Join(dir, "rabbitmq"), port: freePort(),
	}, nil
}

// Start starts the node on an empty folder and waits until it is up.
func (r *RabbitMQ) Start() error {
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	out, err := r.sh("start", "-p", strconv.Itoa(r.port), "-d", r.dir)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (r *RabbitMQ) sh(args ...string) (string, error) {
	f, err := os.CreateTemp("", "bench-rabbitmq-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	cmd := exec.Command("bash", append([]string{r.script}, args...)...)
	cmd.Stdout, cmd.Stderr = f, f
	err = cmd.Run()
	b, _ := os.ReadFile(f.Name())
	return string(bytes.TrimSpace(b)), err
}

// PID is that of the Erlang virtual machine.
func (r *RabbitMQ) PID() int {
	b, err := os.ReadFile(filepath.Join(r.dir, "pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// Stop ends the node and removes its folder.
func (r *RabbitMQ) Stop() {
	_, _ = r.sh("stop", "-d", r.dir)
	_ = os.RemoveAll(r.dir)
}

// AMQP is the address for AMQP 0-9-1.
func (r *RabbitMQ) AMQP() string { return fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", r.port) }
