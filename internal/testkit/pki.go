package testkit

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority that lives for one test.
type CA struct {
	T   testing.TB
	Own Issued
}

// Issued is a certificate with its key.
type Issued struct {
	Key     crypto.Signer
	Cert    *x509.Certificate
	KeyPEM  []byte // PKCS#8
	CertPEM []byte // the certificate alone
}

// Leaf says what a certificate is for; zero fields take a server on loopback.
type Leaf struct {
	Name                string   // common name; "localhost"
	Hosts               []string // names and addresses; localhost and 127.0.0.1
	NotBefore, NotAfter time.Time
	RSA                 bool // instead of ECDSA
}

// NewCA makes an authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{T: t}
	tmpl := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	ca.Own = ca.make(tmpl, Leaf{})
	return ca
}

// Issue makes a certificate for a server or a client.
func (ca *CA) Issue(l Leaf) Issued {
	ca.T.Helper()
	if l.Name == "" {
		l.Name = "localhost"
	}
	if l.Hosts == nil {
		l.Hosts = []string{"localhost", "127.0.0.1"}
	}
	tmpl := &x509.Certificate{
		Subject: pkix.Name{CommonName: l.Name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range l.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	return ca.make(tmpl, l)
}

func (ca *CA) make(tmpl *x509.Certificate, l Leaf) Issued {
	ca.T.Helper()
	must := func(err error) {
		if err != nil {
			ca.T.Fatal(err)
		}
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	must(err)
	tmpl.SerialNumber = serial
	tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if !l.NotBefore.IsZero() {
		tmpl.NotBefore = l.NotBefore
	}
	if !l.NotAfter.IsZero() {
		tmpl.NotAfter = l.NotAfter
	}
	var key crypto.Signer
	if l.RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	must(err)
	parent, signer := tmpl, key
	if ca.Own.Cert != nil {
		parent, signer = ca.Own.Cert, ca.Own.Key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	must(err)
	cert, err := x509.ParseCertificate(der)
	must(err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	return Issued{
		Key: key, Cert: cert,
		KeyPEM:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		CertPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
}

// PEM is the authority's certificate.
func (ca *CA) PEM() []byte { return ca.Own.CertPEM }

// Pool trusts the authority.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Own.Cert)
	return pool
}

// PEM is the key and the certificate in one text, as Kafka's PEM stores are.
func (i Issued) PEM() []byte { return append(append([]byte{}, i.KeyPEM...), i.CertPEM...) }

// TLS is the certificate for crypto/tls.
func (i Issued) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{i.Cert.Raw}, PrivateKey: i.Key, Leaf: i.Cert}
}

// WriteFile puts data into a new file of the test and returns its path.
func WriteFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
