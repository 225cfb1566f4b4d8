package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// files are the files of a test.
type files map[string][]byte

func (f files) read(path string) ([]byte, error) {
	if b, ok := f[path]; ok {
		return b, nil
	}
	return nil, fs.ErrNotExist
}

// given is what somebody set, by key without prefix.
type given map[string]string

func (g given) with(more given) given {
	out := maps.Clone(g)
	maps.Copy(out, more)
	return out
}

func (g given) lookup(key string) (string, string, bool) {
	v, ok := g[key]
	return v, "listener.name.out." + key, ok
}

// server builds a listener's material of settings and files.
func server(g given, f files) (*Material, error) {
	s, err := ForServer(g.lookup)
	if err != nil {
		return nil, err
	}
	return Server(s, f.read, time.Now())
}

// wantProblem checks that err is a *Problem whose text has each part, and none of
// the secrets.
func wantProblem(t *testing.T, name string, err error, parts ...string) {
	t.Helper()
	var p *Problem
	if !errors.As(err, &p) {
		t.Errorf("%s: %v, want a *Problem", name, err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q lacks %q", name, err, part)
		}
	}
	for _, secret := range []string{"secret", "PRIVATE"} {
		if strings.Contains(err.Error(), secret) && !strings.Contains(err.Error(), "no BEGIN") {
			t.Errorf("%s: %q tells a secret", name, err)
		}
	}
}

// handshake connects a client to a server and returns what each says.
func handshake(t *testing.T, serverConf, clientConf *tls.Config) (tls.ConnectionState, error, error) {
	t.Helper()
	a, b := pipe(t)
	done := make(chan error, 1)
	srv := tls.Server(a, serverConf)
	go func() {
		err := srv.Handshake()
		if err == nil {
			_, err = srv.Write([]byte("x"))
		}
		done <- err
		a.Close()
	}()
	cl := tls.Client(b, clientConf)
	_, err := cl.Read(make([]byte, 1))
	b.Close()
	return cl.ConnectionState(), err, <-done
}

// TestCombinations: what DefaultSslEngineFactory refuses is refused, with the key
// under the name it was given.
func TestCombinations(t *testing.T) {
	pem := given{"ssl.keystore.type": "PEM", "ssl.keystore.location": "k"}
	for _, c := range []struct {
		name string
		g    given
		want []string
	}{
		{"no key", given{}, []string{"listener.name.out.ssl.keystore.location", "needs a key and a certificate"}},
		{"key and no type", given{"ssl.keystore.key": "secret"}, []string{"ssl.keystore.key", "only with ssl.keystore.type=PEM"}},
		{"key and no chain", given{"ssl.keystore.type": "PEM", "ssl.keystore.key": "secret"}, []string{"without ssl.keystore.certificate.chain"}},
		{"chain and no key", given{"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "secret"}, []string{"without ssl.keystore.key"}},
		{"key and file", pem.with(given{"ssl.keystore.key": "secret", "ssl.keystore.certificate.chain": "secret"}), []string{"together with ssl.keystore.location"}},
		{"password of PEM", pem.with(given{"ssl.keystore.password": "secret"}), []string{"ssl.keystore.password", "ssl.key.password"}},
		{"password alone", given{"ssl.keystore.password": "secret"}, []string{"without ssl.keystore.location"}},
		{"no password", given{"ssl.keystore.location": "k"}, []string{"ssl.keystore.password", "JKS file", "needs ssl.keystore.type=PEM"}},
		{"empty location", given{"ssl.keystore.type": "PEM", "ssl.keystore.location": " "}, []string{"is empty"}},
		{"type", given{"ssl.keystore.type": "BKS", "ssl.keystore.location": "k"}, []string{"ssl.keystore.type=BKS", "PEM, PKCS12 or JKS"}},
		{"trusted text and type", pem.with(given{"ssl.truststore.certificates": "secret"}), []string{"ssl.truststore.certificates", "only with ssl.truststore.type=PEM"}},
		{"trusted text and file", pem.with(given{"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "secret", "ssl.truststore.location": "t"}), []string{"together with ssl.truststore.location"}},
		{"trusted password of PEM", pem.with(given{"ssl.truststore.type": "PEM", "ssl.truststore.location": "t", "ssl.truststore.password": "secret"}), []string{"ssl.truststore.password"}},
		{"trusted password alone", pem.with(given{"ssl.truststore.password": "secret"}), []string{"without ssl.truststore.location"}},
		{"client auth", pem.with(given{"ssl.client.auth": "maybe"}), []string{"ssl.client.auth=maybe", "required, requested, none"}},
		{"old version", pem.with(given{"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}), []string{"TLSv1.1", "RFC 8996"}},
		{"unknown version", pem.with(given{"ssl.enabled.protocols": "TLSv1.4"}), []string{"TLSv1.4", "did you mean TLSv1"}},
		{"nothing left", pem.with(given{"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}), []string{"ssl.protocol=TLSv1.2", "leaves nothing"}},
		{"unknown suite", pem.with(given{"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA265"}), []string{"did you mean TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256?"}},
		{"suite of Java only", pem.with(given{"ssl.cipher.suites": "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384"}), []string{"did you mean TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384?"}},
		{"broken suite", pem.with(given{"ssl.cipher.suites": "SSL_RSA_WITH_3DES_EDE_CBC_SHA"}), []string{"is broken"}},
		{"suites and versions", pem.with(given{"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"}), []string{"has no suite of the enabled TLS versions"}},
	} {
		_, err := ForServer(c.g.lookup)
		wantProblem(t, c.name, err, c.want...)
	}
	_, err := ForClient(given{"ssl.endpoint.identification.algorithm": "ldaps"}.lookup)
	wantProblem(t, "endpoint", err, "must be https, or empty")
}

// TestStores: what is wrong in files is refused with the file and the way out.
func TestStores(t *testing.T) {
	ca := testkit.NewCA(t)
	one, two := ca.Issue(testkit.Leaf{}), ca.Issue(testkit.Leaf{})
	f := files{
		"good": one.PEM(), "empty": []byte("\n"), "nokey": one.CertPEM, "nocert": one.KeyPEM,
		"mixed": append(append([]byte{}, one.KeyPEM...), two.CertPEM...), "two": append(one.PEM(), two.KeyPEM...),
		"order": append(append(append([]byte{}, one.KeyPEM...), ca.PEM()...), one.CertPEM...),
		"cut":   one.PEM()[:len(one.PEM())-40], "old": []byte(oldKey), "junk": []byte("what is this"),
	}
	base := given{"ssl.keystore.type": "PEM"}
	for path, want := range map[string]string{
		"none": "cannot be read", "empty": "is empty", "nokey": "no private key", "nocert": "no certificate",
		"mixed": "belongs to none of its certificates", "two": "2 private keys", "order": "comes first",
		"cut": "without its END line", "old": "openssl pkcs8 -topk8", "junk": "no private key",
	} {
		_, err := server(base.with(given{"ssl.keystore.location": path}), f)
		wantProblem(t, path, err, "listener.name.out.ssl.keystore.location="+path, want)
	}
	_, err := server(base.with(given{"ssl.keystore.location": "good", "ssl.truststore.type": "PEM", "ssl.truststore.location": "junk"}), f)
	wantProblem(t, "trust", err, "ssl.truststore.location=junk", "no certificate")
	_, err = server(given{"ssl.keystore.location": "good", "ssl.keystore.password": "secret"}, f)
	wantProblem(t, "PEM as JKS", err, "is in PEM form: set the store's type to PEM")
}

// oldKey is a key in the traditional encrypted form, its text cut short.
const oldKey = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"

// TestValidity: a certificate outside its time is served with a warning, as Kafka
// serves it, and one without a host is warned about.
func TestValidity(t *testing.T) {
	ca := testkit.NewCA(t)
	for name, c := range map[string]struct {
		leaf testkit.Leaf
		want string
	}{
		"expired": {testkit.Leaf{NotAfter: time.Now().Add(-time.Minute)}, "has expired at"},
		"early":   {testkit.Leaf{NotBefore: time.Now().Add(time.Hour)}, "is not valid before"},
		"no host": {testkit.Leaf{Hosts: []string{}}, "names no host"},
		"good":    {testkit.Leaf{}, ""},
	} {
		m, err := server(given{"ssl.keystore.type": "PEM", "ssl.keystore.location": "k"}, files{"k": ca.Issue(c.leaf).PEM()})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(m.Warnings, "\n"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
}

// TestInlinePEM: the texts of a properties file, on one line as people write them.
func TestInlinePEM(t *testing.T) {
	ca := testkit.NewCA(t)
	own := ca.Issue(testkit.Leaf{})
	oneLine := func(b []byte) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(string(b), "\n", " ")), " ")
	}
	g := given{
		"ssl.keystore.type": "PEM", "ssl.keystore.key": oneLine(own.KeyPEM), "ssl.keystore.certificate.chain": oneLine(append(own.CertPEM, ca.PEM()...)),
		"ssl.truststore.type": "PEM", "ssl.truststore.certificates": oneLine(ca.PEM()), "ssl.client.auth": "required",
	}
	m, err := server(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{own.TLS()}}
	if _, err, _ := handshake(t, m.Config, client); err != nil {
		t.Errorf("handshake: %v", err)
	}
}

// TestSecretsAreHidden: whatever prints settings shows no password and no key.
func TestSecretsAreHidden(t *testing.T) {
	s := Settings{KeyPassword: NewSecret("tell"), Key: NewSecret("tell"), Keystore: Store{Password: NewSecret("tell")}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(verb, s); strings.Contains(got, "tell") {
			t.Errorf("%s shows a secret: %s", verb, got)
		}
	}
}

// TestClientAuth: none, requested and required, with and without a certificate, and
// with one of another authority.
func TestClientAuth(t *testing.T) {
	ca, other := testkit.NewCA(t), testkit.NewCA(t)
	f := files{"k": ca.Issue(testkit.Leaf{}).PEM(), "t": ca.PEM()}
	certs := map[string][]tls.Certificate{"none": nil, "good": {ca.Issue(testkit.Leaf{}).TLS()}, "foreign": {other.Issue(testkit.Leaf{}).TLS()}}
	for auth, good := range map[string]map[string]bool{
		"none":      {"none": true, "good": true, "foreign": true},
		"requested": {"none": true, "good": true, "foreign": false},
		"required":  {"none": false, "good": true, "foreign": false},
	} {
		m, err := server(given{
			"ssl.keystore.type": "PEM", "ssl.keystore.location": "k", "ssl.truststore.type": "PEM", "ssl.truststore.location": "t", "ssl.client.auth": auth,
		}, f)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range certs {
			conf := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
			if c != nil { // also where the server's list of authorities lacks it
				conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c[0], nil }
			}
			if _, err, _ := handshake(t, m.Config, conf); (err == nil) != good[name] {
				t.Errorf("ssl.client.auth=%s with certificate %s: %v", auth, name, err)
			}
		}
	}
}

// TestSuites: Java speaks a version only where a suite of it is listed.
func TestSuites(t *testing.T) {
	ca := testkit.NewCA(t)
	f := files{"k": ca.Issue(testkit.Leaf{}).PEM()}
	base := given{"ssl.keystore.type": "PEM", "ssl.keystore.location": "k"}
	for _, c := range []struct {
		suites, protocol string
		version, suite   uint16 // 0: whatever
		warn             string
	}{
		{"", "", tls.VersionTLS13, 0, ""},
		{"", "TLSv1.2", tls.VersionTLS12, 0, ""},
		{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, ""},
		{"TLS_AES_256_GCM_SHA384", "", tls.VersionTLS13, 0, "cannot be chosen one by one"},
		{"TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256", "", tls.VersionTLS13, 0, ""},
		{"TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "", tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "no longer thought safe"},
	} {
		m, err := server(base.with(given{"ssl.cipher.suites": c.suites, "ssl.protocol": c.protocol}), f)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got, err, _ := handshake(t, m.Config, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"})
		if err != nil || got.Version != c.version || c.suite != 0 && got.CipherSuite != c.suite {
			t.Errorf("%+v: %s %s %v", c, tls.VersionName(got.Version), tls.CipherSuiteName(got.CipherSuite), err)
		}
		if w := strings.Join(m.Warnings, "\n"); !strings.Contains(w, c.warn) || c.warn == "" && w != "" {
			t.Errorf("%+v: warnings %q", c, w)
		}
	}
}

// TestHostNames: a client compares the host unless told otherwise, and checks the
// chain in any case.
func TestHostNames(t *testing.T) {
	ca, other := testkit.NewCA(t), testkit.NewCA(t)
	own := ca.Issue(testkit.Leaf{Hosts: []string{"elsewhere"}})
	srv := &tls.Config{Certificates: []tls.Certificate{own.TLS()}}
	f := files{"ca": ca.PEM(), "other": other.PEM()}
	for _, c := range []struct {
		algorithm, trust, want string
	}{
		{"https", "ca", "not localhost"}, {"HTTPS", "ca", "not localhost"}, {"", "ca", ""}, {"", "other", "unknown authority"}, {"https", "other", "not localhost"},
	} {
		s, err := ForClient(given{"ssl.truststore.type": "PEM", "ssl.truststore.location": c.trust, "ssl.endpoint.identification.algorithm": c.algorithm}.lookup)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Client(s, f.read, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		m.Config.ServerName = "localhost"
		_, err, _ = handshake(t, srv, m.Config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
