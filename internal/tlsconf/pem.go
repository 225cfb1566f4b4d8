package tlsconf

import (
	"crypto"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// block is one PEM block.
type block struct {
	kind string
	der  []byte
}

const (
	pemBegin = "-----BEGIN "
	pemEnd   = "-----END "
	pemDash  = "-----"
)

// errOldEncryption is a key in OpenSSL's traditional encrypted form.
var errOldEncryption = errors.New("is encrypted in OpenSSL's traditional form, which is weak: convert it with \"openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW\"")

// pemBlocks reads the PEM blocks of a text. As in Kafka (PemParser) anything may
// stand around them, and white space takes the place of line ends: a value in a
// properties file often is one line.
func pemBlocks(text string) ([]block, error) {
	var out []block
	for {
		i := strings.Index(text, pemBegin)
		if i < 0 {
			return out, nil
		}
		text = text[i+len(pemBegin):]
		kind, rest, ok := strings.Cut(text, pemDash)
		if !ok {
			return nil, errors.New("has a BEGIN line that does not end")
		}
		body, after, ok := strings.Cut(rest, pemEnd+kind+pemDash)
		if !ok {
			return nil, fmt.Errorf("has a %s without its END line", kind)
		}
		if strings.Contains(body, "ENCRYPTED") {
			return nil, errOldEncryption
		}
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
		if err != nil {
			return nil, fmt.Errorf("has a %s that is not base64", kind)
		}
		out = append(out, block{kind: strings.TrimSpace(kind), der: der})
		text = after
	}
}

// pemCertificates reads every certificate of a text.
func pemCertificates(text string) ([]*x509.Certificate, error) {
	blocks, err := pemBlocks(text)
	if errors.Is(err, errOldEncryption) {
		err = nil // a key beside the certificates is not asked for
	}
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for _, b := range blocks {
		if b.kind != "CERTIFICATE" && b.kind != "X509 CERTIFICATE" && b.kind != "TRUSTED CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.der)
		if err != nil {
			return nil, fmt.Errorf("has a certificate that cannot be read: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("has no certificate (no BEGIN CERTIFICATE line)")
	}
	return out, nil
}

// pemKey reads the one private key of a text.
func pemKey(text string, password Secret) (crypto.Signer, error) {
	blocks, err := pemBlocks(text)
	if err != nil {
		return nil, err
	}
	var keys []block
	for _, b := range blocks {
		if strings.HasSuffix(b.kind, "PRIVATE KEY") {
			keys = append(keys, b)
		}
	}
	switch len(keys) {
	case 0:
		return nil, errors.New("has no private key (no BEGIN PRIVATE KEY line)")
	case 1:
	default:
		return nil, fmt.Errorf("has %d private keys; one is expected", len(keys))
	}
	return parseKey(keys[0], password)
}

// errWantsPassword is an encrypted key without ssl.key.password.
var errWantsPassword = errors.New("has an encrypted key: set ssl.key.password")

func parseKey(b block, password Secret) (crypto.Signer, error) {
	der := b.der
	switch b.kind {
	case "ENCRYPTED PRIVATE KEY":
		if !password.given {
			return nil, errWantsPassword
		}
		plain, err := decryptPKCS8(der, password.text)
		if err != nil {
			return nil, err
		}
		der = plain
	case "RSA PRIVATE KEY":
		k, err := x509.ParsePKCS1PrivateKey(der)
		return signer(k, err)
	case "EC PRIVATE KEY":
		k, err := x509.ParseECPrivateKey(der)
		return signer(k, err)
	}
	k, err := x509.ParsePKCS8PrivateKey(der)
	return signer(k, err)
}

func signer(k any, err error) (crypto.Signer, error) {
	if err != nil {
		return nil, errors.New("has a private key that cannot be read")
	}
	s, ok := k.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("has a private key of a kind that cannot sign (%T)", k)
	}
	return s, nil
}
