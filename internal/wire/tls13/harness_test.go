package tls13

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// secretOf returns a secret of a suite.
func secretOf(suite Suite, b byte) []byte { return bytes.Repeat([]byte{b}, suite.SecretSize()) }

// pair returns a server and its client.
func pair(t testing.TB, suite Suite) (server, client *Layer) {
	t.Helper()
	server, client = &Layer{}, &Layer{}
	for side, l := range []*Layer{server, client} {
		s, err := NewState(suite, secretOf(suite, byte(side)), secretOf(suite, 1-byte(side)), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Start(Side(side), &s); err != nil {
			t.Fatal(err)
		}
	}
	return server, client
}

// protect appends a record whose content with type and padding is inner.
func protect(t testing.TB, l *Layer, dst, inner []byte) []byte {
	t.Helper()
	nonce, err := l.out.next()
	if err != nil {
		t.Fatal(err)
	}
	header := binary.BigEndian.AppendUint16([]byte{TypeApplication, 3, 3}, uint16(len(inner)+tagSize))
	return l.out.aead.Seal(append(dst, header...), nonce, inner, header)
}

// receive opens all records of in.
func receive(l *Layer, in []byte) (data []byte, err error) {
	for len(in) > 0 {
		part, n, err := l.Next(in)
		data = append(data, part...)
		if err != nil || n == 0 {
			return data, err
		}
		in = in[n:]
	}
	return data, nil
}
