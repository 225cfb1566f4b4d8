package app

import (
	"crypto/tls"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-io/tidemark/internal/tlsconf"
)

// clientKeys are the settings of --command-config that are followed.
var clientKeys = []string{
	"security.protocol", "ssl.cipher.suites", "ssl.enabled.protocols", "ssl.endpoint.identification.algorithm", "ssl.key.password",
	"ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol",
	"ssl.truststore.certificates", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
}

// javaKeys name Java code or tune a Java library.
var javaKeys = []string{
	"ssl.engine.factory.class", "ssl.keymanager.algorithm", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "security.providers",
}

// otherKeys are settings of Kafka's clients that files for several tools have, and
// that have no meaning for a command.
var otherKeys = []string{
	"acks", "auto.offset.reset", "batch.size", "bootstrap.servers", "buffer.memory", "check.crcs", "client.dns.lookup", "client.id", "client.rack", "compression.type",
	"connections.max.idle.ms", "default.api.timeout.ms", "delivery.timeout.ms", "enable.auto.commit", "enable.idempotence", "enable.metrics.push",
	"fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "group.protocol", "isolation.level", "key.deserializer", "key.serializer", "linger.ms",
	"max.block.ms", "max.in.flight.requests.per.connection", "max.partition.fetch.bytes", "max.poll.interval.ms", "max.poll.records", "max.request.size",
	"metadata.max.age.ms", "metadata.recovery.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries",
	"retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms", "socket.connection.setup.timeout.max.ms",
	"socket.connection.setup.timeout.ms", "value.deserializer", "value.serializer",
}

// loadSecurity reads --command-config: how to reach the cluster, by the names of
// Kafka's client.properties.
func (a *App) loadSecurity() error {
	if a.CommandConfig == "" {
		return nil
	}
	data, err := os.ReadFile(a.CommandConfig)
	if err != nil {
		return Usage("--command-config cannot be read: %v", err)
	}
	ld := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := ld.LoadBytes(data)
	if err != nil {
		return Usage("--command-config %s is not a properties file: %v", a.CommandConfig, err)
	}
	for _, k := range p.Keys() {
		if err := checkClientKey(k); err != nil {
			return Usage("--command-config %s: %v", a.CommandConfig, err)
		}
	}
	switch protocol := strings.TrimSpace(p.GetString("security.protocol", "PLAINTEXT")); protocol {
	case "PLAINTEXT":
		return nil
	case "SSL":
	case "SASL_PLAINTEXT", "SASL_SSL":
		return Usage("--command-config %s: security.protocol=%s: SASL is not served yet; use SSL, with a client certificate where the cluster tells clients apart", a.CommandConfig, protocol)
	default:
		return Usage("--command-config %s: security.protocol=%s: must be PLAINTEXT or SSL", a.CommandConfig, protocol)
	}
	s, err := tlsconf.ForClient(func(key string) (string, string, bool) {
		v, ok := p.Get(key)
		return v, key, ok
	})
	if err == nil {
		var m *tlsconf.Material
		if m, err = tlsconf.Client(s, os.ReadFile, time.Now()); err == nil {
			a.tls = m.Config
			for _, w := range m.Warnings {
				a.Note("note: %s", w)
			}
		}
	}
	if err != nil {
		return Usage("--command-config %s: %v", a.CommandConfig, err)
	}
	return nil
}

// checkClientKey refuses what is unknown, and what would be passed over in silence
// although somebody relies on it.
func checkClientKey(k string) error {
	switch {
	case slices.Contains(clientKeys, k), slices.Contains(otherKeys, k):
		return nil
	case strings.HasPrefix(k, "sasl."):
		return errors.New(k + ": SASL is not served yet; use security.protocol=SSL, with a client certificate where the cluster tells clients apart")
	case slices.Contains(javaKeys, k):
		return errors.New(k + ": names Java code, which has no meaning here: take the line away")
	}
	return errors.New(k + ": there is no such setting; did you mean " + tlsconf.Nearest(k, slices.Concat(clientKeys, otherKeys)) + "?")
}

// TLS is how to connect, nil for plaintext.
func (a *App) TLS() *tls.Config { return a.tls }

// Dial are the options of every client of the cluster.
func (a *App) Dial() []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(a.Bootstrap...), kgo.ClientID("tidemark-cli"), kgo.DialTimeout(min(a.Timeout, 5*time.Second))}
	if a.tls != nil {
		opts = append(opts, kgo.DialTLSConfig(a.tls))
	}
	return opts
}

// tlsReason says in words why TLS did not come about; "" when that was not it.
func (a *App) tlsReason(err error) string {
	var junk tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	switch {
	case errors.As(err, &junk):
		return "what listens there does not speak TLS: is it a plaintext listener (security.protocol=PLAINTEXT)?"
	case errors.As(err, &cert) && a.tls != nil && a.tls.RootCAs == nil:
		return "the certificate of the broker is not trusted: " + cert.Err.Error() + " (name its authority with ssl.truststore.location)"
	case errors.As(err, &cert):
		return "the certificate of the broker is not trusted: " + cert.Err.Error()
	case errors.As(err, &alert) || strings.Contains(err.Error(), "remote error: tls: "):
		_, words, _ := strings.Cut(err.Error(), "remote error: tls: ")
		return "the broker refused the TLS handshake: " + words
	case a.tls == nil && strings.Contains(err.Error(), "tls"):
		return "what listens there speaks TLS: name a file with security.protocol=SSL by --command-config"
	}
	return ""
}
