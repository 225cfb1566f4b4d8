package tlsconf

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
)

// Encrypted PKCS#8 keys (RFC 5958) with PBES2, PBKDF2 and a CBC cipher (RFC 8018):
// what OpenSSL and Java write today.

type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct {
	Derivation, Encryption pkix.AlgorithmIdentifier
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

var hashes = map[string]func() hash.Hash{
	"":                    sha1.New,
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.8":  sha256.New224,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}

var blockCiphers = map[string]struct {
	keyBytes int
	make     func([]byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// maxIterations bounds the work that a key file can ask for.
const maxIterations = 2_000_000

var (
	errWrongPassword = errors.New("cannot be decrypted: the password is wrong")
	errKeyForm       = errors.New("has an encrypted key that cannot be read")
)

const convertKey = "convert the key with \"openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW\""

// decryptPKCS8 returns the plain PKCS#8 form of an encrypted key.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var k encryptedKey
	if rest, err := asn1.Unmarshal(der, &k); err != nil || len(rest) > 0 {
		return nil, errKeyForm
	}
	if !k.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("has a key that is encrypted in a way that is not served (%v): %s", k.Algorithm.Algorithm, convertKey)
	}
	var p pbes2Params
	if _, err := asn1.Unmarshal(k.Algorithm.Parameters.FullBytes, &p); err != nil {
		return nil, errKeyForm
	}
	c, ok := blockCiphers[p.Encryption.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("has a key that is encrypted with a cipher that is not served (%v): %s", p.Encryption.Algorithm, convertKey)
	}
	key, err := deriveKey(p.Derivation, password, c.keyBytes)
	if err != nil {
		return nil, err
	}
	blk, err := c.make(key)
	if err != nil {
		return nil, errKeyForm
	}
	var iv []byte
	if _, err := asn1.Unmarshal(p.Encryption.Parameters.FullBytes, &iv); err != nil || len(iv) != blk.BlockSize() {
		return nil, errKeyForm
	}
	if len(k.Data) == 0 || len(k.Data)%blk.BlockSize() != 0 {
		return nil, errKeyForm
	}
	plain := make([]byte, len(k.Data))
	cipher.NewCBCDecrypter(blk, iv).CryptBlocks(plain, k.Data)
	return unpad(plain, blk.BlockSize())
}

func deriveKey(a pkix.AlgorithmIdentifier, password string, n int) ([]byte, error) {
	if !a.Algorithm.Equal(oidPBKDF2) {
		return nil, fmt.Errorf("has a key whose password is stretched in a way that is not served (%v): %s", a.Algorithm, convertKey)
	}
	var p pbkdf2Params
	if _, err := asn1.Unmarshal(a.Parameters.FullBytes, &p); err != nil || p.Iterations < 1 || p.Iterations > maxIterations {
		return nil, errKeyForm
	}
	prf := ""
	if len(p.PRF.Algorithm) > 0 {
		prf = p.PRF.Algorithm.String()
	}
	h, ok := hashes[prf]
	if !ok {
		return nil, fmt.Errorf("has a key whose password is stretched with a hash that is not served (%s): %s", prf, convertKey)
	}
	return pbkdf2.Key(h, password, p.Salt, p.Iterations, n)
}

// unpad takes the padding away; a wrong password shows in it, or in what it leaves.
func unpad(b []byte, size int) ([]byte, error) {
	n := int(b[len(b)-1])
	if n < 1 || n > size || !bytes.Equal(b[len(b)-n:], bytes.Repeat([]byte{byte(n)}, n)) {
		return nil, errWrongPassword
	}
	b = b[:len(b)-n]
	var whole asn1.RawValue
	if rest, err := asn1.Unmarshal(b, &whole); err != nil || len(rest) > 0 {
		return nil, errWrongPassword
	}
	return b, nil
}
