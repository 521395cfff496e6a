package nettest

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
)

// A hearing keeps what is written, and has nothing to read.
type hearing struct {
	net.Conn
	heard bytes.Buffer
}

// Write implements net.Conn.
func (h *hearing) Write(p []byte) (int, error) { return h.heard.Write(p) }

// Read implements net.Conn.
func (*hearing) Read([]byte) (int, error) { return 0, io.EOF }

// ClientHello returns what crypto/tls sends first, one record.
func ClientHello(t testing.TB) []byte {
	t.Helper()
	var h hearing
	if err := tls.Client(&h, &tls.Config{ServerName: "localhost"}).Handshake(); err != io.EOF {
		t.Fatal(err)
	}
	return h.heard.Bytes()
}
