package app

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// load reads a client.properties of this text.
func load(t *testing.T, text string) (*App, error) {
	t.Helper()
	a := &App{Err: io.Discard, Format: "text", Timeout: 5 * time.Second, CommandConfig: testkit.WriteFile(t, "client.properties", []byte(text))}
	return a, a.check()
}

// TestCommandConfigRefuses: what is unknown or would be passed over is refused.
func TestCommandConfigRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"ssl.truststore.locatoin=x":    "did you mean ssl.truststore.location?",
		"security.protocol=SASL_SSL":   "SASL is not served yet",
		"sasl.mechanism=PLAIN":         "SASL is not served yet",
		"security.protocol=TLS":        "must be PLAINTEXT or SSL",
		"ssl.engine.factory.class=a.B": "names Java code",
		"security.protocol=SSL\nssl.truststore.location=/no/such\nssl.truststore.type=PEM": "ssl.truststore.location=/no/such: cannot be read",
		"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=junk": "has no certificate",
		"a\\u12=3": "is not a properties file",
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) || Code(err) != ExitError {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"", "security.protocol=PLAINTEXT\nclient.id=x\nsession.timeout.ms=1"} {
		if a, err := load(t, text); err != nil || a.TLS() != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTLSReasons: what keeps TLS from coming about is said, with the way out.
func TestTLSReasons(t *testing.T) {
	ca, other := testkit.NewCA(t), testkit.NewCA(t)
	own := ca.Issue(testkit.Leaf{}).TLS()
	elsewhere := ca.Issue(testkit.Leaf{Hosts: []string{"elsewhere"}}).TLS()
	listen := func(conf *tls.Config) string {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				if conf != nil {
					tc := tls.Server(c, conf)
					_ = tc.Handshake()
					_, _ = tc.Read(make([]byte, 1))
				} else {
					_, _ = c.Write([]byte("hello, this is no TLS"))
				}
				c.Close()
			}
		}()
		return ln.Addr().String()
	}
	trust := func(c *testkit.CA) string {
		return "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + testkit.WriteFile(t, "ca.pem", c.PEM()) + "\n"
	}
	secure := &tls.Config{Certificates: []tls.Certificate{own}}
	for _, c := range []struct {
		name, text, want string
		conf             *tls.Config
	}{
		{"plaintext listener", trust(ca), "does not speak TLS", nil},
		{"TLS listener", "", "does it speak TLS", secure},
		{"other authority", trust(other), "unknown authority", secure},
		{"no truststore", "security.protocol=SSL", "ssl.truststore.location", secure},
		{"other host", trust(ca), "doesn't contain any IP SANs", &tls.Config{Certificates: []tls.Certificate{elsewhere}}},
		{"client certificate", trust(ca), "certificate required", &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert}},
	} {
		a, err := load(t, c.text)
		if err != nil {
			t.Fatal(err)
		}
		a.Bootstrap = []string{listen(c.conf)}
		cl, err := a.Client(context.Background())
		if err == nil {
			cl.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
