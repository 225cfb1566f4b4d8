package tlsconf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"
)

// ReadFile returns what a file holds.
type ReadFile func(path string) ([]byte, error)

// Material is a TLS configuration that is ready, with what it was made of.
type Material struct {
	Config   *tls.Config
	Warnings []string
	// Leaf is the own certificate, nil for a client without one.
	Leaf *x509.Certificate
}

// Expires is the earliest end of an own certificate in use, zero without one.
func (m *Material) Expires() time.Time {
	if m.Leaf == nil {
		return time.Time{}
	}
	return m.Leaf.NotAfter
}

// Server reads the stores of a listener and makes its configuration.
func Server(s Settings, read ReadFile, now time.Time) (*Material, error) {
	m := &Material{Warnings: slices.Clone(s.Warnings), Config: base(s)}
	if err := m.identify(&s, read, now); err != nil {
		return nil, err
	}
	pool, err := s.trust(read)
	if err != nil {
		return nil, err
	}
	m.Config.ClientAuth, m.Config.ClientCAs = s.ClientAuth, pool
	// A resumed session would live on after the certificate it rests on lost trust,
	// and Kafka's connections are too few for resumption to matter.
	m.Config.SessionTicketsDisabled = s.ClientAuth != tls.NoClientCert
	if len(m.Leaf.DNSNames)+len(m.Leaf.IPAddresses) == 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%s: the certificate of %q names no host (subjectAltName): clients that check host names other than Java's refuse it",
			s.keyName(), m.Leaf.Subject))
	}
	return m, nil
}

// Client reads the stores of a client and makes its configuration.
func Client(s Settings, read ReadFile, now time.Time) (*Material, error) {
	m := &Material{Warnings: slices.Clone(s.Warnings), Config: base(s)}
	if s.Keystore.Location != "" || s.Key.given {
		if err := m.identify(&s, read, now); err != nil {
			return nil, err
		}
		m.Config.GetClientCertificate = ownCertificate(m.Config.Certificates)
	}
	pool, err := s.trust(read)
	if err != nil {
		return nil, err
	}
	m.Config.RootCAs = pool
	if !s.CheckHost {
		checkChainOnly(m.Config)
	}
	return m, nil
}

func base(s Settings) *tls.Config {
	return &tls.Config{
		MinVersion: max(s.MinVersion, tls.VersionTLS12), MaxVersion: s.MaxVersion, CipherSuites: s.Suites,
		// Kafka sends answers of a known size, not pages: small first records only cost.
		DynamicRecordSizingDisabled: true,
	}
}

// ownCertificate shows the first certificate that the server can check, and where
// none fits the first all the same: the server then says what it lacks, where an
// empty answer would only be "no certificate".
func ownCertificate(certs []tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		for i := range certs {
			if r.SupportsCertificate(&certs[i]) == nil {
				return &certs[i], nil
			}
		}
		return &certs[0], nil
	}
}

// checkChainOnly checks a server's certificate without the name in it:
// ssl.endpoint.identification.algorithm is empty.
func checkChainOnly(c *tls.Config) {
	c.InsecureSkipVerify = true // VerifyConnection does what is left
	roots := c.RootCAs
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		opts := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range cs.PeerCertificates[1:] {
			opts.Intermediates.AddCert(cert)
		}
		if _, err := cs.PeerCertificates[0].Verify(opts); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: cs.PeerCertificates, Err: err}
		}
		return nil
	}
}

// keyName is the setting that the own certificate comes from.
func (s *Settings) keyName() string {
	if s.Key.given {
		return s.name("ssl.keystore.certificate.chain")
	}
	return s.name("ssl.keystore.location")
}

// identify reads the own keys and certificates.
func (m *Material) identify(s *Settings, read ReadFile, now time.Time) error {
	ids, err := s.identities(read)
	if err != nil {
		return err
	}
	for _, id := range ids {
		c := tls.Certificate{PrivateKey: id.key, Leaf: id.chain[0]}
		for _, cert := range id.chain {
			c.Certificate = append(c.Certificate, cert.Raw)
		}
		m.Config.Certificates = append(m.Config.Certificates, c)
		if m.Leaf == nil || c.Leaf.NotAfter.Before(m.Leaf.NotAfter) {
			m.Leaf = c.Leaf
		}
		for _, cert := range id.chain {
			if w := validity(cert, now); w != "" {
				m.Warnings = append(m.Warnings, s.keyName()+": "+w)
			}
		}
	}
	return nil
}

// validity says that a certificate is outside its time. Kafka starts with it all the
// same, and clients refuse it: so do we, with a warning.
func validity(c *x509.Certificate, now time.Time) string {
	const day = "2006-01-02 15:04 MST"
	switch {
	case now.After(c.NotAfter):
		return fmt.Sprintf("the certificate of %q has expired at %s: clients will refuse it", c.Subject, c.NotAfter.Format(day))
	case now.Before(c.NotBefore):
		return fmt.Sprintf("the certificate of %q is not valid before %s: clients will refuse it until then", c.Subject, c.NotBefore.Format(day))
	}
	return ""
}

func (s *Settings) identities(read ReadFile) ([]identity, error) {
	if s.Key.given {
		return s.inlineIdentity()
	}
	const key = "ssl.keystore.location"
	data, err := s.read(key, s.Keystore.Location, read)
	if err != nil {
		return nil, err
	}
	var ids []identity
	if s.Keystore.Type == "PEM" {
		ids, err = pemIdentity(string(data), string(data), s.KeyPassword)
	} else {
		ids, err = readKeys(data, s.Keystore.Password, s.KeyPassword)
	}
	if err != nil {
		return nil, s.about(key, s.Keystore.Location, err)
	}
	return ids, nil
}

func (s *Settings) inlineIdentity() ([]identity, error) {
	key, err := pemKey(s.Key.text, s.KeyPassword)
	if err != nil {
		return nil, s.about("ssl.keystore.key", "", err)
	}
	certs, err := pemCertificates(s.Chain.text)
	if err != nil {
		return nil, s.about("ssl.keystore.certificate.chain", "", err)
	}
	id, err := match(key, certs, true)
	if err != nil {
		return nil, s.about("ssl.keystore.certificate.chain", "", err)
	}
	return []identity{id}, nil
}

func pemIdentity(keyText, chainText string, password Secret) ([]identity, error) {
	key, err := pemKey(keyText, password)
	if err != nil {
		return nil, err
	}
	certs, err := pemCertificates(chainText)
	if err != nil {
		return nil, err
	}
	id, err := match(key, certs, true)
	if err != nil {
		return nil, err
	}
	return []identity{id}, nil
}

// trust reads the trusted certificates; nil without a trust store, which means those
// of the operating system.
func (s *Settings) trust(read ReadFile) (*x509.CertPool, error) {
	var certs []*x509.Certificate
	var err error
	key, value := "ssl.truststore.location", s.Truststore.Location
	switch {
	case s.Trusted.given:
		key, value = "ssl.truststore.certificates", ""
		certs, err = pemCertificates(s.Trusted.text)
	case s.Truststore.Location == "":
		return nil, nil
	default:
		var data []byte
		if data, err = s.read(key, value, read); err != nil {
			return nil, err
		}
		if s.Truststore.Type == "PEM" {
			certs, err = pemCertificates(string(data))
		} else {
			certs, err = readTrusted(data, s.Truststore.Password)
		}
	}
	if err != nil {
		return nil, s.about(key, value, err)
	}
	if len(certs) == 0 {
		return nil, s.about(key, value, fmt.Errorf("holds no trusted certificate"))
	}
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool, nil
}

func (s *Settings) read(key, path string, read ReadFile) ([]byte, error) {
	data, err := read(path)
	if err != nil {
		return nil, &Problem{Key: s.name(key), Value: path, Reason: fmt.Sprintf("cannot be read: %v", err)}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &Problem{Key: s.name(key), Value: path, Reason: "is empty"}
	}
	return data, nil
}

func (s *Settings) about(key, value string, err error) error {
	return &Problem{Key: s.name(key), Value: value, Reason: err.Error()}
}

// Files are the files that the settings read.
func (s *Settings) Files() []string {
	var out []string
	for _, f := range []string{s.Keystore.Location, s.Truststore.Location} {
		if f != "" && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
