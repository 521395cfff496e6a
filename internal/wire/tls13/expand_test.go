package tls13

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"testing"
)

// TestExpand compares expand with the HMAC of the standard library, for all that is derived.
func TestExpand(t *testing.T) {
	var secret [maxSecret]byte
	for i := range secret {
		secret[i] = byte(7*i + 1)
	}
	for suite, size := range map[Suite]int{AES128GCM: 32, AES256GCM: 48, ChaCha20: 32} {
		newHash := func() hash.Hash { return sha256.New() }
		if suite == AES256GCM {
			newHash = func() hash.Hash { return sha512.New384() }
		}
		for label, length := range map[string]int{"key": suite.keySize(), "iv": nonceSize, "traffic upd": size} {
			info := append([]byte{0, byte(length), byte(len("tls13 " + label))}, "tls13 "+label+"\x00\x01"...)
			mac := hmac.New(newHash, secret[:size])
			mac.Write(info)
			want, got := mac.Sum(nil)[:length], make([]byte, length)
			if suite.expand(got, &secret, label); !bytes.Equal(got, want) {
				t.Errorf("%#x %s: %x, want %x", uint16(suite), label, got, want)
			}
			if n := testing.AllocsPerRun(100, func() { suite.expand(got, &secret, label) }); n > 0 {
				t.Errorf("%#x %s: %v allocations", uint16(suite), label, n)
			}
		}
	}
}
