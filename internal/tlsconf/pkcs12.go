package tlsconf

import (
	"crypto/x509"
	"errors"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

const remakePKCS12 = "make it again with \"keytool -importkeystore -deststoretype PKCS12\" or \"openssl pkcs12 -export\""

// pkcs12Keys reads the one key of a PKCS12 file, with its chain.
func pkcs12Keys(data []byte, storePassword, keyPassword Secret) ([]identity, error) {
	if keyPassword.text != storePassword.text {
		return nil, errors.New("has one password in PKCS12 form, and ssl.key.password is another than ssl.keystore.password: take ssl.key.password away")
	}
	key, leaf, rest, err := pkcs12.DecodeChain(data, storePassword.text)
	if err != nil {
		return nil, explainPKCS12(err)
	}
	s, err := signer(key, nil)
	if err != nil {
		return nil, err
	}
	id, err := match(s, append([]*x509.Certificate{leaf}, rest...), false)
	if err != nil {
		return nil, err
	}
	return []identity{id}, nil
}

func pkcs12Trusted(data []byte, password Secret) ([]*x509.Certificate, error) {
	certs, err := pkcs12.DecodeTrustStore(data, password.text)
	if errors.Is(err, pkcs12.ErrIncorrectPassword) && !password.given {
		return nil, errors.New("is encrypted: set ssl.truststore.password")
	}
	if err != nil {
		return nil, explainPKCS12(err)
	}
	return certs, nil
}

// explainPKCS12 says what the library's error means for the person who made the file.
func explainPKCS12(err error) error {
	var unserved pkcs12.NotImplementedError
	text := err.Error()
	switch {
	case errors.Is(err, pkcs12.ErrIncorrectPassword), errors.Is(err, pkcs12.ErrDecryption):
		return errors.New("cannot be opened: the password is wrong")
	case strings.Contains(text, "exactly one key bag"):
		return errors.New("has more than one private key: keep the one of this listener (keytool -delete -alias OTHER)")
	case strings.Contains(text, "private key missing"):
		return errors.New("has no private key: it is a trust store, or the key was left out when it was made")
	case strings.Contains(text, "certificate missing"):
		return errors.New("has no certificate for its private key: " + remakePKCS12)
	case strings.Contains(text, "not marked as trusted"), strings.Contains(text, "only certificate bags"):
		return errors.New("has certificates that are not marked as trusted, which Java would not trust either: make it with \"keytool -importcert -trustcacerts -storetype PKCS12\", or use the PEM form")
	case errors.As(err, &unserved):
		return errors.New("is made in a way that is not served (" + strings.TrimPrefix(text, "pkcs12: ") + "): " + remakePKCS12)
	}
	return errNotStore
}
