package tlsconf

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// MayReplace says why the certificate of now may not take the place of that of
// before while a listener serves: nil when it may. As in Kafka (SslFactory), the new
// one has the same distinguished name and all names of the old one, unless
// ssl.allow.dn.changes and ssl.allow.san.changes say otherwise.
func MayReplace(before, now *Material, s Settings) error {
	if !s.AllowDNChange && before.Leaf.Subject.String() != now.Leaf.Subject.String() {
		return fmt.Errorf("its distinguished name is %q and was %q: set ssl.allow.dn.changes=true and restart, or make it for the old name", now.Leaf.Subject, before.Leaf.Subject)
	}
	if s.AllowSANChange {
		return nil
	}
	have := namesOf(now.Leaf)
	for _, n := range namesOf(before.Leaf) {
		if !slices.Contains(have, n) {
			return fmt.Errorf("it lacks the name %s, which the old one has: set ssl.allow.san.changes=true and restart, or make it with all the old names", n)
		}
	}
	return nil
}

// NeedsRestart says that a setting with a listener's prefix is one that a listener
// takes up only when it starts (SslConfigs.NON_RECONFIGURABLE_CONFIGS).
func NeedsRestart(name string) bool {
	rest, prefixed := strings.CutPrefix(name, "listener.name.")
	_, key, _ := strings.Cut(rest, ".")
	return prefixed && slices.Contains(ServerKeys, key) && !slices.Contains(Reconfigurable, key)
}

// Equal says that two settings are the same.
func (s Settings) Equal(o Settings) bool {
	return s.Keystore == o.Keystore && s.Key == o.Key && s.Chain == o.Chain && s.KeyPassword == o.KeyPassword && s.Truststore == o.Truststore &&
		s.Trusted == o.Trusted && s.ClientAuth == o.ClientAuth && s.MinVersion == o.MinVersion && s.MaxVersion == o.MaxVersion && slices.Equal(s.Suites, o.Suites)
}

// namesOf are the subject alternative names of a certificate.
func namesOf(c *x509.Certificate) []string {
	out := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		out = append(out, ip.String())
	}
	return append(out, c.EmailAddresses...)
}
