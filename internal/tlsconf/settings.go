package tlsconf

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Problem says why settings cannot be served.
type Problem struct {
	Key    string // as it was given, with its listener prefix
	Value  string // "" where there is none to show
	Reason string // and what to do
}

func (p *Problem) Error() string {
	if p.Value == "" {
		return p.Key + ": " + p.Reason
	}
	return p.Key + "=" + p.Value + ": " + p.Reason
}

// Secret is a text that is not shown. The zero value was not given.
type Secret struct {
	text  string
	given bool
}

// NewSecret keeps a text that was given; it may be empty.
func NewSecret(text string) Secret { return Secret{text: text, given: true} }

// String hides the text, GoString too.
func (s Secret) String() string {
	if s.given {
		return "[hidden]"
	}
	return ""
}

// GoString hides the text of %#v.
func (s Secret) GoString() string { return s.String() }

// Store is a key store or a trust store.
type Store struct {
	Type     string // PEM, PKCS12 or JKS
	Location string // file; "" for none
	Password Secret
}

// Settings are the ssl.* settings of one listener or one client, checked against
// each other. Files are not read yet.
type Settings struct {
	Keystore    Store
	Key, Chain  Secret // PEM texts instead of a file
	KeyPassword Secret
	Truststore  Store
	Trusted     Secret // PEM text instead of a file

	ClientAuth     tls.ClientAuthType
	MinVersion     uint16
	MaxVersion     uint16
	Suites         []uint16 // of TLS 1.2; nil: Go's choice
	AllowDNChange  bool
	AllowSANChange bool
	// CheckHost says that a client compares the name in the certificate.
	CheckHost bool
	// Warnings are settings that cannot be followed to the letter.
	Warnings []string

	names map[string]string // key -> name that it was given under
}

// Lookup finds the value of an ssl.* key and the name it was given under. ok is
// false when it has neither a value nor a default.
type Lookup func(key string) (value, name string, ok bool)

// ServerKeys are the settings that a listener follows.
var ServerKeys = []string{
	"ssl.allow.dn.changes", "ssl.allow.san.changes", "ssl.cipher.suites", "ssl.client.auth", "ssl.enabled.protocols",
	"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
	"ssl.keystore.type", "ssl.protocol", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
}

// Reconfigurable are those that may change while a listener serves
// (SslConfigs.RECONFIGURABLE_CONFIGS).
var Reconfigurable = []string{
	"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password",
	"ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
}

// parser reads settings; the first problem stays.
type parser struct {
	lookup  Lookup
	s       Settings
	problem *Problem
}

// ForServer reads and checks the settings of a listener.
func ForServer(lookup Lookup) (Settings, error) {
	p := &parser{lookup: lookup, s: Settings{names: map[string]string{}}}
	p.keystore()
	if p.problem == nil && p.s.Keystore.Location == "" && !p.s.Key.given {
		p.refuse("ssl.keystore.location", "is not set, and a TLS listener needs a key and a certificate: set it and ssl.keystore.type (PEM, PKCS12 or JKS), or ssl.keystore.key and ssl.keystore.certificate.chain with ssl.keystore.type=PEM")
	}
	p.truststore()
	p.clientAuth()
	p.versions()
	p.suites()
	p.s.AllowDNChange, p.s.AllowSANChange = p.isTrue("ssl.allow.dn.changes"), p.isTrue("ssl.allow.san.changes")
	return p.result()
}

// ForClient reads and checks the settings of a client.
func ForClient(lookup Lookup) (Settings, error) {
	p := &parser{lookup: lookup, s: Settings{names: map[string]string{}}}
	p.keystore()
	p.truststore()
	p.versions()
	p.suites()
	p.endpoint()
	return p.result()
}

func (p *parser) result() (Settings, error) {
	if p.problem != nil {
		return Settings{}, p.problem
	}
	return p.s, nil
}

func (p *parser) get(key string) (string, bool) {
	v, name, ok := p.lookup(key)
	p.s.names[key] = name
	return strings.TrimSpace(v), ok
}

func (p *parser) text(key string) string {
	v, _ := p.get(key)
	return v
}

func (p *parser) isTrue(key string) bool { return strings.EqualFold(p.text(key), "true") }

// secret reads a password or a PEM text, as it stands.
func (p *parser) secret(key string) Secret {
	v, name, ok := p.lookup(key)
	p.s.names[key] = name
	if !ok {
		return Secret{}
	}
	return NewSecret(v)
}

func (p *parser) refuse(key, format string, args ...any) {
	if p.problem == nil {
		p.problem = p.s.refuse(key, format, args...)
	}
}

func (p *parser) refuseValue(key, value, format string, args ...any) {
	if p.problem == nil {
		p.problem = p.s.refuse(key, format, args...)
		p.problem.Value = value
	}
}

// refuse builds a Problem under the name that the key was given under.
func (s *Settings) refuse(key, format string, args ...any) *Problem {
	return &Problem{Key: s.name(key), Reason: fmt.Sprintf(format, args...)}
}

func (s *Settings) name(key string) string {
	if n := s.names[key]; n != "" {
		return n
	}
	return key
}

func (p *parser) store(kind string) Store {
	st := Store{Type: p.text("ssl." + kind + ".type"), Password: p.secret("ssl." + kind + ".password")}
	if st.Type == "" {
		st.Type = "JKS"
	}
	location, ok := p.get("ssl." + kind + ".location")
	if ok && location == "" {
		p.refuse("ssl."+kind+".location", "is empty: name a file, or take the line away")
	}
	st.Location = location
	if !slices.Contains([]string{"PEM", "PKCS12", "JKS"}, strings.ToUpper(st.Type)) {
		p.refuseValue("ssl."+kind+".type", st.Type, "is not served: use PEM, PKCS12 or JKS")
	}
	st.Type = strings.ToUpper(st.Type)
	return st
}

// keystore follows DefaultSslEngineFactory.createKeystore.
func (p *parser) keystore() {
	st := p.store("keystore")
	p.s.Keystore = st
	p.s.Key, p.s.Chain, p.s.KeyPassword = p.secret("ssl.keystore.key"), p.secret("ssl.keystore.certificate.chain"), p.secret("ssl.key.password")
	switch pem := st.Type == "PEM"; {
	case p.s.Key.given && !pem:
		p.refuse("ssl.keystore.key", "goes only with ssl.keystore.type=PEM, and the type is %s", st.Type)
	case p.s.Key.given && !p.s.Chain.given:
		p.refuse("ssl.keystore.key", "is set without ssl.keystore.certificate.chain: set both")
	case p.s.Key.given && st.Location != "":
		p.refuse("ssl.keystore.key", "is set together with ssl.keystore.location: take one of them away")
	case p.s.Chain.given && !p.s.Key.given:
		p.refuse("ssl.keystore.certificate.chain", "is set without ssl.keystore.key: set both")
	case pem && st.Password.given:
		p.refuse("ssl.keystore.password", "does not go with ssl.keystore.type=PEM: the password of an encrypted key is ssl.key.password")
	case st.Location == "" && st.Password.given:
		p.refuse("ssl.keystore.password", "is set without ssl.keystore.location: name the file")
	case st.Location != "" && !pem && !st.Password.given:
		p.refuse("ssl.keystore.password", "is needed to open ssl.keystore.location, a %s file; a file in PEM form needs ssl.keystore.type=PEM instead", st.Type)
	}
}

// truststore follows DefaultSslEngineFactory.createTruststore.
func (p *parser) truststore() {
	st := p.store("truststore")
	p.s.Truststore, p.s.Trusted = st, p.secret("ssl.truststore.certificates")
	switch pem := st.Type == "PEM"; {
	case p.s.Trusted.given && !pem:
		p.refuse("ssl.truststore.certificates", "goes only with ssl.truststore.type=PEM, and the type is %s", st.Type)
	case p.s.Trusted.given && st.Location != "":
		p.refuse("ssl.truststore.certificates", "is set together with ssl.truststore.location: take one of them away")
	case pem && st.Password.given:
		p.refuse("ssl.truststore.password", "does not go with ssl.truststore.type=PEM: certificates are not encrypted, take it away")
	case st.Location == "" && st.Password.given:
		p.refuse("ssl.truststore.password", "is set without ssl.truststore.location: name the file")
	}
}

func (p *parser) clientAuth() {
	switch v := p.text("ssl.client.auth"); strings.ToLower(v) {
	case "none", "":
		p.s.ClientAuth = tls.NoClientCert
	case "requested":
		p.s.ClientAuth = tls.VerifyClientCertIfGiven
	case "required":
		p.s.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		p.refuseValue("ssl.client.auth", v, "must be one of required, requested, none")
	}
	if p.s.ClientAuth != tls.NoClientCert && !p.hasTruststore() {
		p.warn("ssl.client.auth", "without ssl.truststore.location or ssl.truststore.certificates a client certificate of any public authority is accepted")
	}
}

func (p *parser) hasTruststore() bool { return p.s.Truststore.Location != "" || p.s.Trusted.given }

func (p *parser) warn(key, format string, args ...any) {
	p.s.Warnings = append(p.s.Warnings, p.s.name(key)+": "+fmt.Sprintf(format, args...))
}

func (p *parser) endpoint() {
	v, ok := p.get("ssl.endpoint.identification.algorithm")
	p.s.CheckHost = !ok || v != ""
	if v != "" && !strings.EqualFold(v, "https") {
		p.refuseValue("ssl.endpoint.identification.algorithm", v, "must be https, or empty for no check of the host name")
	}
}
