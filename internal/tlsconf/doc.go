// Package tlsconf turns Kafka's ssl.* settings into a crypto/tls configuration.
//
// Purpose: the rules of SslConfigs, SslFactory and DefaultSslEngineFactory of
// Apache Kafka 4.3: which settings go together, the formats of key and trust
// stores (PEM, PKCS12, JKS), Java's names of protocols and cipher suites, which
// new certificate may take the place of an old one. Brokers and the command line
// read the same settings, so they share it.
//
// Invariants:
//   - No I/O and no clock: files come through a function, time is an argument.
//   - Everything refused is a *Problem: the key, its value unless it is secret, the
//     reason, and what to do. No password and no key is ever in a text.
//   - Stores come from an administrator, yet a damaged one is an error, never a panic.
//
// Locks: none. Called by: config (rules between settings), server (listeners),
// cli (--command-config, server --check).
package tlsconf
