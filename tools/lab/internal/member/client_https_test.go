//go:build linux

package member

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// TestSecret: crypto/tls is the server. A ticket follows the handshake, and then requests and
// answers, between which the connection is packed.
func TestSecret(t *testing.T) {
	s, near, server := secretPair(t)
	in := make([]byte, 0, 1<<12)
	tickets := 0
	read := func() []byte {
		for {
			data, n, err := s.open(in)
			switch {
			case err != nil:
				t.Fatal(err)
			case len(data) > 0:
				in = in[n:]
				return data
			case s.layer != nil:
				t.Fatal("it has ciphers, and no answer has come")
			case n > 0:
				tickets++
				in = in[n:]
				continue
			}
			n, err = near.Read(in[len(in):cap(in)])
			if err != nil {
				t.Fatal(err)
			}
			in = in[:len(in)+n]
		}
	}
	for range 3 {
		records, err := s.protect(nil, getRequest)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := near.Write(records); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(getRequest))
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, getRequest) {
			t.Fatalf("the server has %q, %v", got, err)
		}
		if _, err := server.Write([]byte("pong")); err != nil {
			t.Fatal(err)
		}
		if data := read(); string(data) != "pong" || s.layer == nil {
			t.Fatalf("the client has %q, and ciphers: %v", data, s.layer != nil)
		}
		if s.pack(); s.layer != nil {
			t.Fatal("it is not packed")
		}
	}
	if tickets != 1 {
		t.Errorf("%d tickets", tickets)
	}
	if err := server.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	n, err := near.Read(in[:cap(in)])
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.open(in[:n]); !errors.Is(err, tls13.ErrEnd) {
		t.Errorf("the end is %v", err)
	}
}

// secretPair returns a connection after its handshake, and its server.
func secretPair(t *testing.T) (*secret, net.Conn, *tls.Conn) {
	t.Helper()
	certificate, err := selfsigned.New("localhost")
	if err != nil {
		t.Fatal(err)
	}
	near, far := nettest.TCPPair(t)
	server := tls.Server(far, &tls.Config{Certificates: []tls.Certificate{certificate}})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	s, err := newSecret(near)
	if err := errors.Join(err, <-shaken); err != nil {
		t.Fatal(err)
	}
	return s, near, server
}

// TestSecretFails: what is no handshake is none.
func TestSecretFails(t *testing.T) {
	for _, answer := range []string{"", "\x16\x03\x03", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x03\x00\x02\x02\x28"} {
		near, far := nettest.TCPPair(t)
		go func() {
			_, _ = far.Write([]byte(answer))
			_ = far.CloseWrite()
		}()
		if s, err := newSecret(near); err == nil {
			t.Errorf("%q: %+v", answer, s)
		}
	}
}

// TestJoin: an answer may take several records.
func TestJoin(t *testing.T) {
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
	for cut := range len(answer) {
		s := &secret{}
		for _, c := range []struct {
			data    string
			isWhole bool
		}{{answer, true}, {answer[:cut], false}, {answer[cut:], true}, {answer, true}} {
			if isWhole, err := s.join([]byte(c.data)); isWhole != c.isWhole || err != nil {
				t.Errorf("cut after %d: %q: %v, %v", cut, c.data, isWhole, err)
			}
		}
	}
	for _, wrong := range []string{answer + "H", "HTTP/1.1 500 no\r\n\r\n"} {
		if isWhole, err := new(secret).join([]byte(wrong)); isWhole || err == nil {
			t.Errorf("%q is an answer", wrong)
		}
	}
}
