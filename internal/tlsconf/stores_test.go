package tlsconf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidemark-io/tidemark/internal/testkit"
)

// run runs a tool that makes key stores; a missing one leaves the test out, unless
// the machine must have it.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("TESTKIT_NEED_PEERS") != "" {
			t.Fatalf("%s is missing and TESTKIT_NEED_PEERS is set", name)
		}
		t.Skipf("left out: %s is missing", name)
	}
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// TestForeignStores: stores that keytool and openssl made open with the right
// password, say what is wrong with another, and carry a handshake.
func TestForeignStores(t *testing.T) {
	ca := testkit.NewCA(t)
	own := ca.Issue(testkit.Leaf{RSA: true})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, data := range map[string][]byte{"own.pem": own.PEM(), "own.key": own.KeyPEM, "own.crt": own.CertPEM, "ca.crt": ca.PEM()} {
		if err := os.WriteFile(at(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "openssl", "pkcs12", "-export", "-in", at("own.pem"), "-certfile", at("ca.crt"), "-out", at("openssl.p12"), "-passout", "pass:storepw", "-name", "own")
	run(t, "openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-in", at("own.key"), "-passout", "pass:storepw", "-out", at("enc.key"))
	run(t, "openssl", "pkcs8", "-topk8", "-v2", "des3", "-v2prf", "hmacWithSHA1", "-in", at("own.key"), "-passout", "pass:storepw", "-out", at("des3.key"))
	keytool := func(args ...string) { run(t, "keytool", append(args, "-noprompt")...) }
	keytool("-importkeystore", "-srckeystore", at("openssl.p12"), "-srcstorepass", "storepw", "-srcalias", "own", "-destkeystore", at("own.jks"), "-deststoretype", "JKS", "-deststorepass", "storepw", "-destkeypass", "keypw12")
	keytool("-importkeystore", "-srckeystore", at("openssl.p12"), "-srcstorepass", "storepw", "-destkeystore", at("keytool.p12"), "-deststoretype", "PKCS12", "-deststorepass", "storepw")
	keytool("-importcert", "-file", at("ca.crt"), "-alias", "ca", "-keystore", at("keytool.p12"), "-storetype", "PKCS12", "-storepass", "storepw")
	keytool("-importcert", "-file", at("ca.crt"), "-alias", "ca", "-keystore", at("trust.jks"), "-storetype", "JKS", "-storepass", "storepw")
	keytool("-importcert", "-file", at("ca.crt"), "-alias", "ca", "-keystore", at("trust.p12"), "-storetype", "PKCS12", "-storepass", "storepw")
	run(t, "openssl", "pkcs12", "-export", "-nokeys", "-in", at("ca.crt"), "-out", at("untrusted.p12"), "-passout", "pass:storepw")
	for _, key := range []string{"enc", "des3"} {
		k, _ := os.ReadFile(at(key + ".key"))
		if err := os.WriteFile(at(key+".pem"), append(k, own.CertPEM...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := func(kind, name string, more given) given {
		return given{"ssl.keystore.type": kind, "ssl.keystore.location": at(name)}.with(more)
	}
	pw := given{"ssl.keystore.password": "storepw"}
	foreignGood(t, ca, own, map[string]given{
		"PKCS12 of openssl":       store("PKCS12", "openssl.p12", pw),
		"PKCS12 of keytool":       store("PKCS12", "keytool.p12", pw),
		"PKCS12 called JKS":       store("JKS", "openssl.p12", pw),
		"JKS with a key password": store("JKS", "own.jks", pw.with(given{"ssl.key.password": "keypw12"})),
		"JKS called PKCS12":       store("PKCS12", "own.jks", pw.with(given{"ssl.key.password": "keypw12"})),
		"encrypted PEM":           store("PEM", "enc.pem", given{"ssl.key.password": "storepw"}),
		"encrypted PEM, 3DES":     store("PEM", "des3.pem", given{"ssl.key.password": "storepw"}),
		"trust in JKS":            store("PEM", "own.pem", given{"ssl.truststore.location": at("trust.jks"), "ssl.truststore.password": "storepw"}),
		"trust in JKS, unchecked": store("PEM", "own.pem", given{"ssl.truststore.location": at("trust.jks")}),
		"trust in PKCS12":         store("PEM", "own.pem", given{"ssl.truststore.type": "PKCS12", "ssl.truststore.location": at("trust.p12"), "ssl.truststore.password": "storepw"}),
	})
	wrong := given{"ssl.keystore.password": "secret"}
	for name, c := range map[string]struct {
		g    given
		want string
	}{
		"PKCS12":          {store("PKCS12", "openssl.p12", wrong), "the password is wrong"},
		"JKS":             {store("JKS", "own.jks", wrong), "the password is wrong"},
		"JKS key":         {store("JKS", "own.jks", pw), "ssl.key.password is wrong"},
		"PEM":             {store("PEM", "enc.pem", given{"ssl.key.password": "secret"}), "the password is wrong"},
		"PEM, none":       {store("PEM", "enc.pem", nil), "set ssl.key.password"},
		"no store":        {store("PKCS12", "own.crt", pw), "is in PEM form"},
		"trust as key":    {store("JKS", "trust.jks", pw), "has no private key"},
		"trust as key 12": {store("PKCS12", "trust.p12", pw), "has no private key"},
		"trust locked":    {store("PEM", "own.pem", given{"ssl.truststore.location": at("trust.p12")}), "set ssl.truststore.password"},
		"untrusted":       {store("PEM", "own.pem", given{"ssl.truststore.location": at("untrusted.p12"), "ssl.truststore.password": "storepw"}), "not marked as trusted"},
	} {
		s, err := ForServer(c.g.lookup)
		if err == nil {
			_, err = Server(s, os.ReadFile, now())
		}
		wantProblem(t, name, err, c.want)
	}
}

// FuzzStores: no file makes a reader of ours panic, whatever password comes with it.
func FuzzStores(f *testing.F) {
	f.Add([]byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1}, "pw")
	f.Add([]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----"), "")
	f.Add([]byte{0x30, 0x80}, "pw")
	f.Fuzz(func(_ *testing.T, data []byte, password string) {
		pw := NewSecret(password)
		_, _ = parseJKS(data, Secret{})
		_, _ = pemIdentity(string(data), string(data), pw)
		_, _ = decryptPKCS8(data, "")
	})
}
