package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-io/tidemark/internal/tlsconf"
)

// ListenerPrefix is what Kafka puts before a setting that is for one listener.
func ListenerPrefix(listener string) string {
	return "listener.name." + strings.ToLower(listener) + "."
}

// ListenerTLS reads the ssl.* settings of a listener: those with its prefix, then
// those without one (AbstractConfig.valuesWithPrefixOverride). The error is an
// *Error.
func ListenerTLS(r Resolved, listener string) (tlsconf.Settings, error) {
	prefix := ListenerPrefix(listener)
	s, err := tlsconf.ForServer(func(key string) (string, string, bool) {
		if v, ok := r.Lookup(prefix + key); ok {
			return v, prefix + key, true
		}
		v, ok := r.Lookup(key)
		return v, key, ok
	})
	return s, TLSError(err)
}

// TLSError makes an *Error of a *tlsconf.Problem.
func TLSError(err error) error {
	var p *tlsconf.Problem
	if errors.As(err, &p) {
		return &Error{Key: p.Key, Value: p.Value, Reason: p.Reason}
	}
	return err
}

// ProtocolName is the name of a security protocol id.
func ProtocolName(id int16) string {
	for name, i := range protocolIDs {
		if i == id {
			return name
		}
	}
	return fmt.Sprintf("protocol %d", id)
}

// buildTLS refuses protocols that are not served and reads the settings of TLS
// listeners. Files are read when the server starts.
func (l *loader) buildTLS(c *ServerConfig, r Resolved) error {
	for _, e := range c.ControllerListeners {
		if e.SecurityProtocol != protocolPlaintext {
			return l.refuse("listener.security.protocol.map", "gives the controller's listener %s the protocol %s; it is served in PLAINTEXT only, so far: a cluster of one keeps it on loopback (%s://127.0.0.1:%d, and %s:PLAINTEXT in the map)",
				e.Listener, ProtocolName(e.SecurityProtocol), e.Listener, e.Port, e.Listener)
		}
	}
	c.TLS = map[string]tlsconf.Settings{}
	for _, e := range c.Listeners {
		switch e.SecurityProtocol {
		case protocolPlaintext:
			continue
		case protocolSSL:
		default:
			return l.refuse("listeners", "listener %s has the protocol %s, and SASL is not served yet: use SSL with ssl.client.auth=required to tell clients apart by certificate, or PLAINTEXT", e.Listener, ProtocolName(e.SecurityProtocol))
		}
		s, err := ListenerTLS(r, e.Listener)
		if err != nil {
			var ce *Error
			if errors.As(err, &ce) {
				ce.Origin = l.values[ce.Key].origin
			}
			return err
		}
		c.TLS[e.Listener] = s
	}
	c.Warnings = append(c.Warnings, l.strayPrefixes(c)...)
	return nil
}

// strayPrefixes names settings for a listener that does not exist. Kafka passes them
// over in silence, as it does a prefix that is not in lower case.
func (l *loader) strayPrefixes(c *ServerConfig) []string {
	var known, out []string
	for _, e := range slices.Concat(c.Listeners, c.ControllerListeners) {
		known = append(known, strings.ToLower(e.Listener))
	}
	for k := range l.values {
		rest, ok := strings.CutPrefix(k, "listener.name.")
		name, _, _ := strings.Cut(rest, ".")
		switch {
		case !ok || slices.Contains(known, name):
		case slices.Contains(known, strings.ToLower(name)):
			out = append(out, fmt.Sprintf("%s is set but not in force: the name of the listener is in lower case there, write listener.name.%s.", k, strings.ToLower(name)))
		default:
			out = append(out, fmt.Sprintf("%s is set but not in force: no listener is called %s", k, strings.ToUpper(name)))
		}
	}
	slices.Sort(out)
	return out
}
