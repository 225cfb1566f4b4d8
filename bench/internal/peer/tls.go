package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// secure is a TLS listener beside the plaintext one. A peer has it only where TLS
// is what is measured, since it costs a start and memory.
type secure struct {
	port int
	pem  string // key and certificate, which both brokers read as a PEM keystore
	cert *x509.Certificate
}

// WithTLS returns a copy of a broker, with a folder of its own, that listens on
// TLS too; false for systems that are not measured over TLS.
func WithTLS(p Peer) (Peer, bool, error) {
	dir := p.Dir() + "-tls"
	s := &secure{port: freePort(), pem: dir + ".pem"} // each its own: brokers take up a file that changes
	switch p := p.(type) {
	case *tidemark:
		t := *p
		t.dir, t.p, t.tls = dir, nil, s
		return &t, true, s.makeCertificate()
	case *kafka:
		k := *p
		k.dir, k.tls = dir, s
		return &k, true, s.makeCertificate()
	}
	return nil, false, nil
}

// TLS returns where a peer listens on TLS, and what a client needs for it.
func TLS(p Peer) (addr string, config *tls.Config, ok bool) {
	var s *secure
	switch p := p.(type) {
	case *tidemark:
		s = p.tls
	case *kafka:
		s = p.tls
	}
	if s == nil {
		return "", nil, false
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.cert)
	return s.addr(), &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, true
}

func (s *secure) addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// settings of both brokers.
func (s *secure) settings(plain string, controller int) []string {
	return []string{
		"ssl.keystore.type=PEM", "ssl.keystore.location=" + s.pem,
		fmt.Sprintf("listeners=PLAINTEXT://%s,SSL://%s,CONTROLLER://127.0.0.1:%d", plain, s.addr(), controller),
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL",
	}
}

func (s *secure) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	from := time.Now().Add(-time.Hour)
	template := &x509.Certificate{
		Subject:      pkix.Name{CommonName: "bench"}, // Java takes no certificate without one
		SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.AddDate(0, 0, 2), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	if s.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	out := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	if err := os.MkdirAll(filepath.Dir(s.pem), 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.pem, out, 0o600)
}
