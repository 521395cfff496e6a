package tls13

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

// crypto/tls makes the handshake, and its client is the peer.
func TestPeerIsCryptoTLS(t *testing.T) {
	near, far := tlsPair(t)
	big := bytes.Repeat([]byte("0123456789"), 10_000)
	go func() {
		out, err := near.layer.Append(nil, []byte("hello"), 0)
		if err == nil {
			out, err = near.layer.Append(out, big, 1000)
		}
		if err != nil {
			t.Error(err)
		}
		near.conn.Write(near.layer.AppendClose(out))
	}()
	if got, err := io.ReadAll(far); err != nil || !bytes.Equal(got, append([]byte("hello"), big...)) {
		t.Errorf("the client has %d bytes, %v", len(got), err)
	}
	go func() {
		far.Write(big)
		far.CloseWrite()
	}()
	if got, err := near.readAll(); !errors.Is(err, ErrEnd) || !bytes.Equal(got, big) {
		t.Errorf("the server has %d bytes, %v", len(got), err)
	}
}

// A nearEnd is a connection whose handshake has ended, with a Layer in place of crypto/tls.
type nearEnd struct {
	conn  net.Conn
	layer *Layer
}

func (e *nearEnd) readAll() (data []byte, err error) {
	var in []byte
	buffer := make([]byte, 1000)
	for {
		n, err := e.conn.Read(buffer)
		in = append(in, buffer[:n]...)
		for {
			part, n, err := e.layer.Next(in)
			data = append(data, part...)
			if err != nil {
				return data, err
			}
			if n == 0 {
				break
			}
			in = in[n:]
		}
		if err != nil {
			return data, err
		}
	}
}

// tlsPair makes a handshake over a pipe. The server sends no ticket, so both sequence
// numbers are 0.
func tlsPair(t *testing.T) (*nearEnd, *tls.Conn) {
	t.Helper()
	certificate, err := selfsigned.New("localhost")
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	var log bytes.Buffer
	server := tls.Server(near, &tls.Config{Certificates: []tls.Certificate{certificate}, KeyLogWriter: &log, SessionTicketsDisabled: true})
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	var shaken sync.WaitGroup
	shaken.Go(func() {
		if err := client.Handshake(); err != nil {
			t.Error(err)
		}
	})
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	shaken.Wait()
	s, err := NewState(Suite(server.ConnectionState().CipherSuite), secretIn(&log, "CLIENT_TRAFFIC_SECRET_0"), secretIn(&log, "SERVER_TRAFFIC_SECRET_0"), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	e := &nearEnd{near, &Layer{}}
	if err := e.layer.Start(Server, &s); err != nil {
		t.Fatal(err)
	}
	return e, client
}

// secretIn returns a secret of a key log: label, the client's random, secret.
func secretIn(log *bytes.Buffer, label string) []byte {
	for line := range strings.Lines(log.String()) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == label {
			return unhex(words[2])
		}
	}
	return nil
}
