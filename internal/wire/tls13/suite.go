package tls13

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	_ "crypto/sha256" // crypto.SHA256
	_ "crypto/sha512" // crypto.SHA384
	"hash"

	"golang.org/x/crypto/chacha20poly1305"
)

// A Suite is a cipher suite of TLS 1.3, by its number (RFC 8446 appendix B.4).
type Suite uint16

// The suites that this package has.
const (
	AES128GCM Suite = 0x1301 // with SHA-256
	AES256GCM Suite = 0x1302 // with SHA-384
	ChaCha20  Suite = 0x1303 // with Poly1305 and SHA-256
)

const (
	nonceSize = 12
	tagSize   = 16
)

// IsKnown reports whether this package has the suite.
func (s Suite) IsKnown() bool { return s >= AES128GCM && s <= ChaCha20 }

// hash returns the hash function of the key schedule.
func (s Suite) hash() crypto.Hash {
	if s == AES256GCM {
		return crypto.SHA384
	}
	return crypto.SHA256
}

// SecretSize returns the size of a traffic secret in bytes.
func (s Suite) SecretSize() int { return s.hash().Size() }

// keySize returns the size of a traffic key in bytes.
func (s Suite) keySize() int {
	if s == AES128GCM {
		return 16
	}
	return 32
}

// aead returns the cipher with a key.
func (s Suite) aead(key []byte) (cipher.AEAD, error) {
	if s == ChaCha20 {
		return chacha20poly1305.New(key)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// mac returns HMAC with a secret, for expand.
func (s Suite) mac(secret *[maxSecret]byte) hash.Hash {
	return hmac.New(s.hash().New, secret[:s.SecretSize()])
}

// expand is HKDF-Expand-Label with an empty context (RFC 8446 section 7.1). One round of
// HKDF-Expand (RFC 5869) is enough: nothing is longer than the hash. mac must be new, or Reset.
func expand(mac hash.Hash, label string, size int) []byte {
	const prefix = "tls13 "
	info := make([]byte, 0, 32)
	info = append(info, byte(size>>8), byte(size), byte(len(prefix)+len(label)))
	info = append(info, prefix...)
	info = append(info, label...)
	info = append(info, 0, 1) // no context; the first round
	mac.Write(info)
	return mac.Sum(nil)[:size]
}
