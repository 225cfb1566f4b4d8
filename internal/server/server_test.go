package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/metadata/image"
	"github.com/tidemark-io/tidemark/internal/vfs"
	"github.com/tidemark-io/tidemark/internal/vfs/errfs"
)

// screen collects what a server prints; its tests wait for a line to come.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
	new chan struct{}
}

func newScreen() *screen { return &screen{new: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.new <- struct{}{}:
	default:
	}
	return s.buf.Write(p)
}

// find waits for a match and returns its first group.
func (s *screen) find(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(time.Minute)
	for {
		s.mu.Lock()
		m := re.FindStringSubmatch(s.buf.String())
		s.mu.Unlock()
		if m != nil {
			return m[1]
		}
		select {
		case <-s.new:
		case <-deadline:
			t.Fatalf("the server did not print %s", pattern)
		}
	}
}

// node is a server in this process.
type node struct {
	out  *screen
	logs *screen
	stop context.CancelFunc
	done chan error
}

func startNode(t *testing.T, dir string, set ...string) *node {
	t.Helper()
	return startNodeOn(t, vfs.OS(), dir, set...)
}

func startNodeOn(t *testing.T, fsys vfs.FS, dir string, set ...string) *node {
	t.Helper()
	cfg, err := config.LoadServer(config.ServerSources{
		Set: set, Flags: config.Flags{DataDir: dir, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return runNode(cfg, fsys)
}

func runNode(cfg config.ServerConfig, fsys vfs.FS) *node {
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{out: newScreen(), logs: newScreen(), stop: cancel, done: make(chan error, 1)}
	go func() {
		n.done <- Run(ctx, cfg, Options{Out: n.out, Logger: slog.New(slog.NewTextHandler(n.logs, nil)), Version: "test", fs: fsys})
	}()
	return n
}

func (n *node) end(t *testing.T) {
	t.Helper()
	n.stop()
	if err := <-n.done; err != nil {
		t.Fatalf("the server ended with %v", err)
	}
}

func TestStartProduceStopStart(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	cluster, clients := n.out.find(t, `cluster +(\S+)`), n.out.find(t, `clients +(\S+)`)
	cl, err := kgo.NewClient(kgo.SeedBrokers(clients), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	cl.Close()
	admin := n.out.find(t, `admin +(http://[^/]+)`)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		resp, err := http.Get(admin + path)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: %v, %v", path, resp, err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if path == "/metrics" && !strings.Contains(string(body), `tidemark_acked_not_durable_bytes 0`) {
			t.Errorf("strict durability shows acknowledged bytes that are not durable:\n%s", body)
		}
	}
	second := startNode(t, dir)
	if err := <-second.done; err == nil {
		t.Error("a second server started on the same folder")
	}
	n.end(t)

	n = startNode(t, dir)
	if again := n.out.find(t, `cluster +(\S+)`); again != cluster {
		t.Errorf("cluster id %s became %s", cluster, again)
	}
	n.end(t)
}

func TestFolderOfAnotherNodeIsRefused(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "node.id=7")
	n.out.find(t, `node +(7)`)
	n.end(t)
	other := startNode(t, dir, "node.id=8")
	if err := <-other.done; err == nil || !strings.Contains(err.Error(), "node") {
		t.Errorf("node 8 on the folder of node 7: %v", err)
	}
}

func TestTakenPortIsRefusedBeforeAnythingIsWritten(t *testing.T) {
	n := startNode(t, t.TempDir())
	addr := n.out.find(t, `clients +(\S+)`)
	cfg, err := config.LoadServer(config.ServerSources{Flags: config.Flags{DataDir: t.TempDir(), Listen: addr, Admin: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(context.Background(), cfg, Options{}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a taken port: %v", err)
	}
	n.end(t)
}

func TestConfigSchema(t *testing.T) {
	c := configSchema{static: config.Layer{Source: config.SourceStatic, Values: map[string]string{"log.segment.bytes": "2097152"}}}
	topic := image.Resource{Type: image.ResourceTopic, Name: "t"}
	for _, tc := range []struct {
		r        image.Resource
		key, val string
		ok       bool
	}{
		{topic, "retention.ms", "1000", true},
		{topic, "segment.bytes", "1000", false},
		{topic, "no.such", "1", false},
		{image.Resource{Type: image.ResourceBroker}, "log.retention.ms", "1000", true},
		{image.Resource{Type: image.ResourceBroker}, "node.id", "2", false},
	} {
		err := c.Validate(tc.r, nil, map[string]string{tc.key: tc.val})
		if (err == nil) != tc.ok {
			t.Errorf("%v %s=%s: %v", tc.r, tc.key, tc.val, err)
		}
	}
	if !c.List(image.ResourceTopic, "cleanup.policy") || c.List(image.ResourceTopic, "retention.ms") {
		t.Error("cleanup.policy is a list and retention.ms is not")
	}
	if got := c.Default(image.ResourceTopic, "segment.bytes"); got != "2097152" {
		t.Errorf("segment.bytes comes from the static file, got %s", got)
	}
}

// TestTakenAdminPort: a port that is in use fails the start before the data folder
// is made.
func TestTakenAdminPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := filepath.Join(t.TempDir(), "data")
	cfg, err := config.LoadServer(config.ServerSources{Flags: config.Flags{DataDir: dir, Listen: "127.0.0.1:0", Admin: taken.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), cfg, Options{})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "admin listener") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data folder was touched: %v", err)
	}
}

// TestUnregisterBroker (KIP-746): brokers forward it to the controller.
func TestUnregisterBroker(t *testing.T) {
	n := startNode(t, t.TempDir())
	defer n.end(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.out.find(t, `clients +(\S+)`)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = 99
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil || resp.ErrorCode != kerr.BrokerIDNotRegistered.Code || *resp.ErrorMessage != "Broker ID 99 is not currently registered" {
		t.Errorf("%+v, %v", resp, err)
	}
}

// TestCompactionIsNotPromised: until the cleaner runs, the log says so for every
// topic that asks for it, of its own or through its broker.
func TestCompactionIsNotPromised(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.cleanup.policy=compact")
	defer n.end(t)
	n.logs.find(t, `(log.cleanup.policy=compact is set but not in force)`)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.out.find(t, `clients +(\S+)`)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	policy := "compact"
	if _, err := adm.CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "held"); err != nil {
		t.Fatal(err)
	}
	n.logs.find(t, `no cleaner runs.* of="(topic held)"`)
	if _, err := adm.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleanup.policy", Value: &policy}}); err != nil {
		t.Fatal(err)
	}
	n.logs.find(t, `no cleaner runs.* of="(every topic without a policy of its own)"`)
}

// TestNotReadyWhileNothingCommits: a disk that stops syncing the metadata log takes
// the readiness away although the process is well, and gives it back.
func TestNotReadyWhileNothingCommits(t *testing.T) {
	var stall sync.RWMutex // held while the disk does not answer
	fsys := errfs.Wrap(vfs.OS(), errfs.Hooks{Before: func(op errfs.Op) *errfs.Fault {
		if op.Kind == errfs.Sync && strings.Contains(op.Path, "__cluster_metadata-0") {
			stall.RLock()
			defer stall.RUnlock()
		}
		return nil
	}})
	n := startNodeOn(t, fsys, t.TempDir())
	defer n.end(t)
	admin := n.out.find(t, `admin +(http://[^/]+)`)
	await := func(path string, want int) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			resp, err := http.Get(admin + path)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("GET %s: %s, want %d\n%s", path, resp.Status, want, body)
			}
		}
	}
	await("/readyz", http.StatusOK)
	func() {
		stall.Lock()
		defer stall.Unlock()
		await("/readyz", http.StatusServiceUnavailable)
		await("/healthz", http.StatusOK)
	}()
	await("/readyz", http.StatusOK)
}
