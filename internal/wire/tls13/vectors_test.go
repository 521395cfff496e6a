package tls13

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

func unhex(s string) []byte {
	p, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return p
}

// RFC 8448 section 3: the records after the handshake. The server's first one was a ticket.
var (
	clientSecret = unhex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5")
	serverSecret = unhex("a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643")

	clientData = unhex(`17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab
		3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62 92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4`)
	serverData = unhex(`17 03 03 00 43 2e 93 7e 11 ef 4a c7 40 e5 38 ad 36 00 5f c4 a4 69 32 fc 32 25 d0 5f 82 aa 1b
		36 e3 0e fa f9 7d 90 e6 df fc 60 2d cb 50 1a 59 a8 fc c4 9c 4b f2 e5 f0 a2 1c 00 47 c2 ab f3 32 54 0d d0 32 e1 67 c2 95 5d`)
	clientClose = unhex(`17 03 03 00 13 c9 87 27 60 65 56 66 b7 4d 7f f1 15 3e fd 6d b6 d0 b0 e3`)
	serverClose = unhex(`17 03 03 00 13 b5 8f d6 71 66 eb f5 99 d2 47 20 cf be 7e fa 7a 88 64 a9`)
)

func TestVectors(t *testing.T) {
	data := make([]byte, 50)
	for i := range data {
		data[i] = byte(i)
	}
	for _, side := range []struct {
		name           string
		secret         []byte
		first          uint64
		record, ending []byte
	}{
		{"client", clientSecret, 0, clientData, clientClose},
		{"server", serverSecret, 1, serverData, serverClose},
	} {
		s, err := NewState(AES128GCM, side.secret, side.secret, side.first, side.first)
		if err != nil {
			t.Fatal(err)
		}
		var l Layer
		if err := l.Start(Server, &s); err != nil {
			t.Fatal(err)
		}
		got, err := l.Append(nil, data, 0)
		if err != nil || !bytes.Equal(got, side.record) {
			t.Errorf("%s: data becomes % x, %v", side.name, got, err)
		}
		if got := l.AppendClose(nil); !bytes.Equal(got, side.ending) {
			t.Errorf("%s: close_notify becomes % x", side.name, got)
		}
		opened, n, err := l.Next(bytes.Clone(side.record))
		if err != nil || n != len(side.record) || !bytes.Equal(opened, data) {
			t.Errorf("%s: the record has % x, %d, %v", side.name, opened, n, err)
		}
		if _, n, err := l.Next(bytes.Clone(side.ending)); err != ErrEnd || n != len(side.ending) {
			t.Errorf("%s: close_notify: %d, %v", side.name, n, err)
		}
	}
}
