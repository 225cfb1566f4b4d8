package tlsconf

import (
	"crypto"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// identity is a private key with its certificates, the own one first.
type identity struct {
	key   crypto.Signer
	chain []*x509.Certificate
}

// Numbers that key files begin with. Java opens a PKCS12 file as JKS and the other
// way round (keystore.type.compat), and keytool has long written PKCS12 where JKS
// was asked for: what the file is counts, not what it is called.
const (
	magicJKS   = 0xfeedfeed
	magicJCEKS = 0xcececece
)

func magicOf(data []byte) uint32 {
	if len(data) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(data)
}

var (
	errJCEKS    = errors.New("is a JCEKS file, which is not served: convert it with \"keytool -importkeystore -srcstoretype JCEKS -deststoretype PKCS12\"")
	errIsPEM    = errors.New("is in PEM form: set the store's type to PEM, and take the store's password away")
	errNotStore = errors.New("is neither a PKCS12 nor a JKS file")
)

// readKeys reads the identities of a binary key store.
func readKeys(data []byte, storePassword, keyPassword Secret) ([]identity, error) {
	if !keyPassword.given {
		keyPassword = storePassword
	}
	switch {
	case magicOf(data) == magicJKS:
		s, err := parseJKS(data, storePassword)
		if err != nil {
			return nil, err
		}
		return s.identities(keyPassword.text)
	case magicOf(data) == magicJCEKS:
		return nil, errJCEKS
	case isPEM(data):
		return nil, errIsPEM
	}
	return pkcs12Keys(data, storePassword, keyPassword)
}

// readTrusted reads the certificates of a binary trust store.
func readTrusted(data []byte, password Secret) ([]*x509.Certificate, error) {
	switch {
	case magicOf(data) == magicJKS:
		s, err := parseJKS(data, password)
		if err != nil {
			return nil, err
		}
		return s.trusted, nil
	case magicOf(data) == magicJCEKS:
		return nil, errJCEKS
	case isPEM(data):
		return nil, errIsPEM
	}
	return pkcs12Trusted(data, password)
}

func isPEM(data []byte) bool {
	blocks, err := pemBlocks(string(data))
	return len(blocks) > 0 || errors.Is(err, errOldEncryption)
}

type publicKey interface{ Equal(crypto.PublicKey) bool }

// certifies says that cert was made for key.
func certifies(cert *x509.Certificate, key crypto.Signer) bool {
	p, ok := key.Public().(publicKey)
	return ok && p.Equal(cert.PublicKey)
}

// match puts the certificate of the key first. Of a PEM text the order stands, as in
// Kafka; a PKCS12 file has none, so the chain is followed from issuer to issuer.
func match(key crypto.Signer, certs []*x509.Certificate, ordered bool) (identity, error) {
	i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return certifies(c, key) })
	switch {
	case i < 0:
		return identity{}, errors.New("has a private key that belongs to none of its certificates: make the certificate from a request of this key (openssl req -new -key KEY)")
	case ordered && i > 0:
		return identity{}, fmt.Errorf("has the certificate of the key in place %d: the server's own certificate comes first, then that of its issuer", i+1)
	case ordered:
		return identity{key: key, chain: certs}, nil
	}
	chain := []*x509.Certificate{certs[i]}
	for len(chain) < len(certs) {
		last := chain[len(chain)-1]
		j := slices.IndexFunc(certs, func(c *x509.Certificate) bool {
			return !slices.ContainsFunc(chain, c.Equal) && last.CheckSignatureFrom(c) == nil
		})
		if j < 0 {
			break
		}
		chain = append(chain, certs[j])
	}
	return identity{key: key, chain: chain}, nil
}
