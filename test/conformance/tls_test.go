package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// secure is a server with a TLS listener and what its clients need.
type secure struct {
	*testkit.Server
	ca     *testkit.CA
	client testkit.Issued // a certificate that the server trusts
	dir    string         // of the files below
}

// startSecure starts a server whose TLS listener asks for client certificates as
// told: none, requested or required.
func startSecure(t *testing.T, clientAuth string) *secure {
	t.Helper()
	ca := testkit.NewCA(t)
	s := &secure{ca: ca, client: ca.Issue(testkit.Leaf{Name: "somebody"}), dir: t.TempDir()}
	own := ca.Issue(testkit.Leaf{})
	for name, data := range map[string][]byte{
		"server.pem": own.PEM(), "ca.pem": ca.PEM(), "client.pem": s.client.PEM(), "client.key": s.client.KeyPEM, "client.crt": s.client.CertPEM,
	} {
		if err := os.WriteFile(s.path(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.properties(t, "plain.properties", "")
	s.properties(t, "own.properties", "ssl.keystore.type=PEM\nssl.keystore.location="+s.path("client.pem")+"\n")
	s.Server = testkit.StartTLSServer(t, "--set", "ssl.keystore.type=PEM", "--set", "ssl.keystore.location="+s.path("server.pem"),
		"--set", "ssl.truststore.type=PEM", "--set", "ssl.truststore.location="+s.path("ca.pem"), "--set", "ssl.client.auth="+clientAuth)
	return s
}

func (s *secure) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secure) properties(t *testing.T, name, more string) {
	t.Helper()
	text := "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + s.path("ca.pem") + "\n" + more
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// kgoTLS are franz-go's options, with the client certificate or without.
func (s *secure) kgoTLS(own bool) []kgo.Opt {
	conf := &tls.Config{RootCAs: s.ca.Pool()}
	if own {
		conf.Certificates = []tls.Certificate{s.client.TLS()}
	}
	return []kgo.Opt{kgo.SeedBrokers(s.Secure()), kgo.DialTLSConfig(conf)}
}

// attempt runs a command for a minute at most and returns what it said.
func attempt(t *testing.T, stdin, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "KAFKA_TOOL_OPTS="+testkit.ToolOpts)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestTLSClients: Kafka's console tools, kcat, franz-go and our own command line
// write and read over TLS, with the certificate that the listener asks for.
func TestTLSClients(t *testing.T) {
	testkit.NeedJava(t)
	for _, auth := range []string{"none", "required"} {
		s := startSecure(t, auth)
		own := auth == "required"
		props := map[bool]string{false: "plain.properties", true: "own.properties"}[own]
		ssl := []string{"-b", s.Secure(), "-X", "security.protocol=ssl", "-X", "ssl.ca.location=" + s.path("ca.pem")}
		if own {
			ssl = append(ssl, "-X", "ssl.certificate.location="+s.path("client.crt"), "-X", "ssl.key.location="+s.path("client.key"))
		}
		roundTrip := func(name, want string, produce, consume []string) {
			t.Run(auth+"/"+name, func(t *testing.T) {
				topic := strings.ReplaceAll(name, " ", "-")
				newTopic(t, s.Bootstrap(), topic)
				fill := func(args []string) []string {
					out := make([]string, len(args))
					for i, a := range args {
						out[i] = strings.ReplaceAll(a, "TOPIC", topic)
					}
					return out
				}
				p, c := fill(produce), fill(consume)
				if out, err := attempt(t, want+"\n", p[0], p[1:]...); err != nil {
					t.Fatalf("produce: %v\n%s", err, out)
				}
				out, err := attempt(t, "", c[0], c[1:]...)
				if err != nil || !strings.Contains(out, want) {
					t.Fatalf("consume: %v\n%s", err, out)
				}
			})
		}
		java := func(tool string, args ...string) []string {
			return append([]string{"bash", testkit.PeerScript(), "run", tool, "--bootstrap-server", s.Secure(), "--command-config", s.path(props), "--topic", "TOPIC"}, args...)
		}
		roundTrip("java", "from java", java("console-producer"), java("console-consumer", "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"))
		if need(t, "kcat", "apt-get install -y kcat") {
			kcat := func(args ...string) []string { return append(append([]string{"kcat"}, ssl...), args...) }
			roundTrip("kcat", "from kcat", kcat("-P", "-t", "TOPIC"), kcat("-C", "-t", "TOPIC", "-o", "beginning", "-e", "-q"))
		}
		cli := func(args ...string) []string {
			return append([]string{testkit.Binary(t), "--bootstrap-server", s.Secure(), "--command-config", s.path(props)}, args...)
		}
		roundTrip("tidemark", "from tidemark", cli("produce", "TOPIC"), cli("consume", "TOPIC", "--count", "1", "--from", "start"))
		t.Run(auth+"/franz-go", func(t *testing.T) { franzOverTLS(t, s, own) })
		if own {
			t.Run(auth+"/without a certificate", func(t *testing.T) { refusedWithout(t, s, ssl[:6]) })
		}
	}
}

func franzOverTLS(t *testing.T, s *secure, own bool) {
	newTopic(t, s.Bootstrap(), "franz")
	cl, err := kgo.NewClient(append(s.kgoTLS(own), kgo.DefaultProduceTopic("franz"), kgo.ConsumeTopics("franz"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, kgo.StringRecord("from franz-go")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if f := cl.PollFetches(ctx); f.Err() != nil || f.NumRecords() != 1 {
		t.Errorf("%d records, %v", f.NumRecords(), f.Err())
	}
}

// refusedWithout: who shows no certificate where one is required is told so.
func refusedWithout(t *testing.T, s *secure, ssl []string) {
	out, err := attempt(t, "", testkit.Binary(t), "--bootstrap-server", s.Secure(), "--command-config", s.path("plain.properties"), "cluster", "describe")
	if err == nil || !strings.Contains(out, "certificate required") {
		t.Errorf("tidemark: %v\n%s", err, out)
	}
	out, err = attempt(t, "", "bash", testkit.PeerScript(), "run", "topics", "--bootstrap-server", s.Secure(), "--command-config", s.path("plain.properties"), "--list")
	if err == nil || !strings.Contains(out, "SslAuthenticationException") && !strings.Contains(out, "SSLHandshakeException") {
		t.Errorf("kafka-topics: %v\n%s", err, out)
	}
	if need(t, "kcat", "apt-get install -y kcat") {
		if out, err := attempt(t, "", "kcat", append(slices.Clone(ssl), "-L", "-m", "10")...); err == nil {
			t.Errorf("kcat was let in:\n%s", out)
		}
	}
}

// TestSendfileIsForPlaintext watches the system calls of a server: a plaintext fetch
// leaves by sendfile, the same fetch over TLS does not, and goes out in large writes.
func TestSendfileIsForPlaintext(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		leftOut(t, "strace is missing: apt-get install -y strace")
	}
	s := startSecure(t, "none")
	newTopic(t, s.Bootstrap(), "big")
	fillTopic(t, s.Bootstrap(), "big", 16<<20)
	plain := traced(t, s, func() { drain(t, "big", 16<<20, kgo.SeedBrokers(s.Bootstrap())) })
	wrapped := traced(t, s, func() { drain(t, "big", 16<<20, s.kgoTLS(false)...) })
	t.Logf("plaintext: %+v; TLS: %+v", plain, wrapped)
	if plain.sendfileBytes < 12<<20 {
		t.Errorf("a plaintext fetch of 16 MiB moved %d bytes by sendfile", plain.sendfileBytes)
	}
	if wrapped.sendfileBytes != 0 {
		t.Errorf("a TLS fetch moved %d bytes by sendfile", wrapped.sendfileBytes)
	}
	if wrapped.writeBytes < 16<<20 || wrapped.writes > 16<<20/(32<<10) {
		t.Errorf("a TLS fetch of 16 MiB took %d writes of %d bytes together", wrapped.writes, wrapped.writeBytes)
	}
}

// leftOut skips, or fails where the machine must be able to.
func leftOut(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("TESTKIT_NEED_ROOT") != "" {
		t.Fatalf("%s, and TESTKIT_NEED_ROOT is set", why)
	}
	t.Skip("left out: " + why)
}

func fillTopic(t *testing.T, addr, topic string, size int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var records []*kgo.Record
	for range size / (64 << 10) {
		records = append(records, kgo.SliceRecord(make([]byte, 64<<10)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func drain(t *testing.T, topic string, size int, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxPartitionBytes(4<<20), kgo.FetchMinBytes(1<<20))...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for got := 0; got < size; {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		f.EachRecord(func(r *kgo.Record) { got += len(r.Value) })
	}
}

// calls are the system calls that a server sent with.
type calls struct {
	sendfileBytes, writeBytes, sendfiles, writes int
}

var (
	sendfileLine = regexp.MustCompile(`sendfile(?:64)?(?:\(|.* resumed>).*= (\d+)$`)
	writeLine    = regexp.MustCompile(`(?:write|writev|sendto|sendmsg)(?:\(|.* resumed>).*= (\d+)$`)
)

// traced runs do while strace watches the server. A call that is interrupted by
// another thread's comes in two lines; its result is in the second.
func traced(t *testing.T, s *secure, do func()) calls {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	var said bytes.Buffer
	tracer := exec.Command("strace", "-f", "-qq", "-s", "0", "-o", path, "-e", "trace=sendfile,write,writev,sendto,sendmsg", "-p", strconv.Itoa(s.Pid()))
	tracer.Stderr = &said
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = tracer.Wait(); close(ended) }()
	deadline := time.Now().Add(time.Minute)
	for !watched(s.Pid()) {
		select {
		case <-ended:
			leftOut(t, "strace may not watch a process: "+said.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("strace does not attach")
		}
		time.Sleep(time.Millisecond)
	}
	do()
	_ = tracer.Process.Signal(syscall.SIGINT)
	<-ended
	trace, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out calls
	for line := range strings.Lines(string(trace)) {
		line = strings.TrimSpace(line)
		if m := sendfileLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			out.sendfiles, out.sendfileBytes = out.sendfiles+1, out.sendfileBytes+n
		} else if m := writeLine.FindStringSubmatch(line); m != nil {
			n, _ := strconv.Atoi(m[1])
			out.writes, out.writeBytes = out.writes+1, out.writeBytes+n
		}
	}
	return out
}

// watched says that every thread of a process has a tracer.
func watched(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(b), "TracerPid:\t0\n") {
			return false
		}
	}
	return len(stats) > 0
}
