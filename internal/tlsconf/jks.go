package tlsconf

import (
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// Java's own key store (sun.security.provider.JavaKeyStore): entries one after the
// other, and a digest over them that is seeded with the password. A private key is
// covered by a stream of digests (KeyProtector).

// jks is what a file holds.
type jks struct {
	keys    []jksKey
	trusted []*x509.Certificate
}

type jksKey struct {
	alias   string
	covered []byte // EncryptedPrivateKeyInfo
	chain   []*x509.Certificate
}

const (
	jksKeyEntry     = 1
	jksTrustedEntry = 2
	// maxJKSEntries bounds what a damaged file can claim.
	maxJKSEntries = 10_000
)

var errJKSDamaged = errors.New("is a damaged JKS file")

// oidKeyProtector marks a key that KeyProtector covers.
var oidKeyProtector = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

// javaPassword is a password as Java digests it: UTF-16, the high byte first.
func javaPassword(text string) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune(text)) {
		out = binary.BigEndian.AppendUint16(out, u)
	}
	return out
}

// parseJKS reads a file. As in Java its digest is checked when there is a password.
func parseJKS(data []byte, password Secret) (*jks, error) {
	if len(data) < sha1.Size {
		return nil, errJKSDamaged
	}
	body, sum := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	if password.given {
		h := sha1.New()
		h.Write(javaPassword(password.text))
		h.Write([]byte("Mighty Aphrodite"))
		h.Write(body)
		if subtle.ConstantTimeCompare(h.Sum(nil), sum) != 1 {
			return nil, errors.New("cannot be opened: the password is wrong, or the file is damaged")
		}
	}
	r := &jksReader{b: body}
	r.u32() // the magic, which brought us here
	version, entries := r.u32(), r.u32()
	if version != 1 && version != 2 || entries > maxJKSEntries {
		return nil, errJKSDamaged
	}
	s := &jks{}
	for range entries {
		if err := r.entry(s, version); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// jksReader reads fields; after a field that is not whole it is failed and every
// other field is empty.
type jksReader struct {
	b      []byte
	failed bool
}

func (r *jksReader) take(n int) []byte {
	if r.failed || n < 0 || n > len(r.b) {
		r.failed = true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *jksReader) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *jksReader) text() string {
	if b := r.take(2); b != nil {
		return string(r.take(int(binary.BigEndian.Uint16(b))))
	}
	return ""
}

func (r *jksReader) entry(s *jks, version uint32) error {
	kind, alias := r.u32(), r.text()
	r.take(8) // when it was made
	switch kind {
	case jksKeyEntry:
		k := jksKey{alias: alias, covered: r.take(int(r.u32()))}
		n := r.u32()
		for range min(n, maxJKSEntries) {
			c, err := r.certificate(version)
			if err != nil {
				return err
			}
			k.chain = append(k.chain, c)
		}
		if len(k.chain) == 0 {
			return errJKSDamaged
		}
		// Java's trust manager trusts the certificate of an own key too.
		s.keys, s.trusted = append(s.keys, k), append(s.trusted, k.chain[0])
	case jksTrustedEntry:
		c, err := r.certificate(version)
		if err != nil {
			return err
		}
		s.trusted = append(s.trusted, c)
	default:
		return errJKSDamaged
	}
	return nil
}

func (r *jksReader) certificate(version uint32) (*x509.Certificate, error) {
	if version == 2 {
		r.text() // "X.509"
	}
	der := r.take(int(r.u32()))
	if r.failed {
		return nil, errJKSDamaged
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("has a certificate that cannot be read: %w", err)
	}
	return c, nil
}

// identities uncovers the private keys.
func (s *jks) identities(password string) ([]identity, error) {
	var out []identity
	for _, k := range s.keys {
		der, err := uncover(k.covered, javaPassword(password))
		if err != nil {
			return nil, fmt.Errorf("has the key %q, which %w", k.alias, err)
		}
		parsed, err := x509.ParsePKCS8PrivateKey(der)
		key, err := signer(parsed, err)
		if err != nil {
			return nil, err
		}
		id, err := match(key, k.chain, true)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	if len(out) == 0 {
		return nil, errors.New("has no private key: it is a trust store")
	}
	return out, nil
}

func uncover(der, password []byte) ([]byte, error) {
	var k encryptedKey
	if _, err := asn1.Unmarshal(der, &k); err != nil || !k.Algorithm.Algorithm.Equal(oidKeyProtector) || len(k.Data) < 2*sha1.Size {
		return nil, errors.New("cannot be read")
	}
	salt, covered, check := k.Data[:sha1.Size], k.Data[sha1.Size:len(k.Data)-sha1.Size], k.Data[len(k.Data)-sha1.Size:]
	plain := make([]byte, len(covered))
	pad := salt
	for i := 0; i < len(covered); i += sha1.Size {
		sum := sha1.Sum(append(bytes.Clone(password), pad...))
		pad = sum[:]
		n := min(sha1.Size, len(covered)-i)
		subtle.XORBytes(plain[i:i+n], covered[i:i+n], pad[:n])
	}
	if sum := sha1.Sum(append(bytes.Clone(password), plain...)); subtle.ConstantTimeCompare(sum[:], check) != 1 {
		return nil, errors.New("cannot be opened: ssl.key.password is wrong (without it ssl.keystore.password is used)")
	}
	return plain, nil
}
