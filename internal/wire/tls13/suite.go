package tls13

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"

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
	maxKey    = 32
)

// IsKnown reports whether this package has the suite.
func (s Suite) IsKnown() bool { return s >= AES128GCM && s <= ChaCha20 }

// SecretSize returns the size of a traffic secret in bytes: that of the hash of the key
// schedule, SHA-256 or SHA-384.
func (s Suite) SecretSize() int {
	if s == AES256GCM {
		return sha512.Size384
	}
	return sha256.Size
}

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

// hmacBlock is the block size of the largest hash, and infoSize bounds what expand
// hashes after a block: a label of at most 11 bytes with what belongs to it, or a sum.
const (
	hmacBlock = sha512.BlockSize
	infoSize  = 64
)

// expand is HKDF-Expand-Label with an empty context (RFC 8446 section 7.1), into out. One round
// of HKDF-Expand (RFC 5869) is enough: nothing is longer than the hash. The round is HMAC (RFC
// 2104), here in a few lines because that of the standard library allocates: each new
// connection has four.
func (s Suite) expand(out []byte, secret *[maxSecret]byte, label string) {
	const prefix = "tls13 "
	var room [hmacBlock + infoSize]byte
	text := s.pad(&room, secret, innerPad)
	text = append(text, byte(len(out)>>8), byte(len(out)), byte(len(prefix)+len(label)))
	text = append(text, prefix...)
	text = append(text, label...)
	text = append(text, 0, 1) // no context; the first round
	sum := s.sum(text)
	sum = s.sum(append(s.pad(&room, secret, outerPad), sum[:s.SecretSize()]...))
	copy(out, sum[:])
	clear(room[:])
	clear(sum[:])
}

// The pads of HMAC, as long as the longest block.
const (
	inner16, outer16 = "6666666666666666", `\\\\\\\\\\\\\\\\` // 0x36, 0x5c

	inner64  = inner16 + inner16 + inner16 + inner16
	outer64  = outer16 + outer16 + outer16 + outer16
	innerPad = inner64 + inner64
	outerPad = outer64 + outer64
)

// pad returns a block of the hash, in room, with the secret and a pad of HMAC.
func (s Suite) pad(room *[hmacBlock + infoSize]byte, secret *[maxSecret]byte, pad string) []byte {
	block := room[:sha256.BlockSize]
	if s == AES256GCM {
		block = room[:sha512.BlockSize]
	}
	copy(block, pad)
	subtle.XORBytes(block, block, secret[:s.SecretSize()])
	return block
}

// sum returns the hash of text, in its first bytes.
func (s Suite) sum(text []byte) (sum [maxSecret]byte) {
	if s == AES256GCM {
		return sha512.Sum384(text)
	}
	short := sha256.Sum256(text)
	copy(sum[:], short[:])
	return sum
}
