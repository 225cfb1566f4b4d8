package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-io/tidemark/internal/config"
	"github.com/tidemark-io/tidemark/internal/testkit"
	"github.com/tidemark-io/tidemark/internal/vfs"
)

// startTLS starts a node with a plaintext and a TLS listener, and more settings.
func startTLS(t *testing.T, more ...string) *node {
	t.Helper()
	cfg, err := tlsConfig(t.TempDir(), more...)
	if err != nil {
		t.Fatal(err)
	}
	return runNode(cfg, vfs.OS())
}

func tlsConfig(dir string, more ...string) (config.ServerConfig, error) {
	return config.LoadServer(config.ServerSources{
		Set: append([]string{
			"listeners=PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
			"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OUT:SSL,CONTROLLER:PLAINTEXT",
			"listener.name.out.ssl.keystore.type=PEM",
		}, more...),
		Flags: config.Flags{DataDir: dir, Admin: "127.0.0.1:0"},
	})
}

// serialOf is the serial number of the certificate that addr shows.
func serialOf(t *testing.T, addr string, ca *testkit.CA) string {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestTLSListener: records go in and come out over TLS, and the metadata names the
// address of the listener that was asked.
func TestTLSListener(t *testing.T) {
	ca := testkit.NewCA(t)
	n := startTLS(t, "listener.name.out.ssl.keystore.location="+testkit.WriteFile(t, "own.pem", ca.Issue(testkit.Leaf{}).PEM()))
	plain, secure := n.out.find(t, `clients +(\S+) \(PLAINTEXT\)`), n.out.find(t, `clients +(\S+) \(OUT, SSL\)`)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for addr, opts := range map[string][]kgo.Opt{
		plain: nil, secure: {kgo.DialTLSConfig(&tls.Config{RootCAs: ca.Pool()})},
	} {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("t"))...)
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
			t.Fatalf("%s: %v", addr, err)
		}
		if f := cl.PollFetches(ctx); f.Err() != nil || f.NumRecords() == 0 {
			t.Errorf("%s: fetched %d records, %v", addr, f.NumRecords(), f.Err())
		}
		meta, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		if got := net.JoinHostPort(meta.Brokers[0].Host, fmt.Sprint(meta.Brokers[0].Port)); got != addr {
			t.Errorf("asked at %s, told %s", addr, got)
		}
		cl.Close()
	}
	n.end(t)
}

// TestTLSReload: a new file serves new connections, a bad one changes nothing, and
// connections that exist stay.
func TestTLSReload(t *testing.T) {
	ca := testkit.NewCA(t)
	first, second := ca.Issue(testkit.Leaf{}), ca.Issue(testkit.Leaf{})
	path := testkit.WriteFile(t, "own.pem", first.PEM())
	n := startTLS(t, "listener.name.out.ssl.keystore.location="+path)
	addr := n.out.find(t, `clients +(\S+) \(OUT, SSL\)`)
	kept, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if got := serialOf(t, addr, ca); got != first.Cert.SerialNumber.String() {
		t.Fatalf("serial %s", got)
	}
	replace := func(data []byte) { // as tools that renew certificates do
		next := filepath.Join(filepath.Dir(path), "next")
		if err := os.WriteFile(next, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	replace([]byte("half a certif"))
	awaitOn(t, func() bool { serialOf(t, addr, ca); return n.logs.has("the old one stays") })
	replace(ca.Issue(testkit.Leaf{Hosts: []string{"localhost"}}).PEM())
	awaitOn(t, func() bool { serialOf(t, addr, ca); return n.logs.has("it lacks the name 127.0.0.1") })
	if got := serialOf(t, addr, ca); got != first.Cert.SerialNumber.String() {
		t.Errorf("after a bad file: serial %s", got)
	}
	replace(second.PEM())
	awaitOn(t, func() bool { return serialOf(t, addr, ca) == second.Cert.SerialNumber.String() })
	if _, err := kept.Write([]byte{0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 1, 0, 1, 'x'}); err != nil {
		t.Error(err)
	}
	_ = kept.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := kept.Read(make([]byte, 8)); err != nil {
		t.Errorf("the old connection: %v", err)
	}
	n.end(t)
}

// TestTLSDynamicKeystore: a keystore that AlterConfigs names, by the listener's
// prefix, serves new connections; one that cannot be used changes nothing.
func TestTLSDynamicKeystore(t *testing.T) {
	ca := testkit.NewCA(t)
	first, second := ca.Issue(testkit.Leaf{}), ca.Issue(testkit.Leaf{})
	n := startTLS(t, "listener.name.out.ssl.keystore.location="+testkit.WriteFile(t, "own.pem", first.PEM()))
	plain, secure := n.out.find(t, `clients +(\S+) \(PLAINTEXT\)`), n.out.find(t, `clients +(\S+) \(OUT, SSL\)`)
	cl, err := kgo.NewClient(kgo.SeedBrokers(plain))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	set := func(name, value string) error {
		r, err := kadm.NewClient(cl).AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return r[0].Err
	}
	alter := func(path string) {
		if err := set("listener.name.out.ssl.keystore.location", path); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ssl.keystore.location", "listener.name.out.ssl.client.auth"} {
		if err := set(name, "none"); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	alter("/no/such/file")
	awaitOn(t, func() bool { return n.logs.has("the old one stays") })
	if got := serialOf(t, secure, ca); got != first.Cert.SerialNumber.String() {
		t.Errorf("after a bad setting: serial %s", got)
	}
	alter(testkit.WriteFile(t, "own.pem", second.PEM()))
	awaitOn(t, func() bool { return serialOf(t, secure, ca) == second.Cert.SerialNumber.String() })
	n.end(t)
}

// has says whether something was printed.
func (s *screen) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.buf.String(), text)
}

// awaitOn polls a condition.
func awaitOn(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestTLSRefusedBeforeAFolder: keys that cannot be used end the start before a
// folder is made.
func TestTLSRefusedBeforeAFolder(t *testing.T) {
	ca := testkit.NewCA(t)
	own, other := ca.Issue(testkit.Leaf{}), ca.Issue(testkit.Leaf{})
	for want, data := range map[string][]byte{
		"belongs to none of its certificates": append(append([]byte{}, own.KeyPEM...), other.CertPEM...),
		"has no private key":                  own.CertPEM,
		"is empty":                            nil,
	} {
		path := testkit.WriteFile(t, "own.pem", data)
		dir := filepath.Join(t.TempDir(), "data")
		cfg, err := tlsConfig(dir, "listener.name.out.ssl.keystore.location="+path)
		if err != nil {
			t.Fatal(err)
		}
		err = <-runNode(cfg, vfs.OS()).done
		var refused *config.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "listener.name.out.ssl.keystore.location="+path) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%q: the folder was made", want)
		}
	}
}
