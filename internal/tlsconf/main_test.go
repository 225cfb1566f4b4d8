package tlsconf

import (
	"crypto/tls"
	"net"
	"os"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// pipe is a connection over loopback: handshakes need buffers in between.
func pipe(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func now() time.Time { return time.Now() }

// foreignGood checks that each store serves the certificate own, and that a client
// which must show a certificate of ca is let in where the store trusts it.
func foreignGood(t *testing.T, ca *testkit.CA, own testkit.Issued, stores map[string]given) {
	t.Helper()
	for name, g := range stores {
		auth := "none"
		if g["ssl.truststore.location"] != "" {
			auth = "required"
		}
		s, err := ForServer(g.with(given{"ssl.client.auth": auth}).lookup)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m, err := Server(s, os.ReadFile, now())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		client := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{own.TLS()}}
		state, err, _ := handshake(t, m.Config, client)
		if err != nil || !state.PeerCertificates[0].Equal(own.Cert) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
