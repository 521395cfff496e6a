//go:build linux && (amd64 || arm64)

package core

import (
	"crypto/tls"
	"net"

	"github.com/sluicehttp/sluice/internal/test/selfsigned"
)

const testMessage = "a record that comes in two parts"

// testTLS reports whether a tls.Conn continues after a read without input, even in the
// middle of a record. crypto/tls works like that, but does not promise it. If it
// does not, the fallback engine serves TLS. testTLS makes a connection in memory and
// delivers a record in two parts.
func testTLS() bool {
	certificate, err := selfsigned.New("")
	if err != nil {
		return false
	}
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	record := make(chan []byte, 1)
	go func() {
		capture := &recorder{Conn: theirs}
		client := tls.Client(capture, &tls.Config{InsecureSkipVerify: true})
		if client.Handshake() != nil {
			ours.Close()
			return
		}
		capture.keeps = true
		_, _ = client.Write([]byte(testMessage))
		record <- capture.kept
	}()
	feed := &feeder{Conn: ours}
	server := tls.Server(feed, &tls.Config{
		Certificates:           []tls.Certificate{certificate},
		SessionTicketsDisabled: true, // the client would have to read them
	})
	if server.Handshake() != nil {
		return false
	}
	feed.isFed = true
	return resumes(server, feed, <-record)
}

// resumes feeds a record in two parts.
func resumes(server *tls.Conn, feed *feeder, record []byte) bool {
	p := make([]byte, len(testMessage))
	for _, part := range [][]byte{nil, record[:len(record)/2], nil} {
		feed.input = part
		if _, err := server.Read(p); err != errWouldBlock {
			return false
		}
	}
	feed.input = record[len(record)/2:]
	n, err := server.Read(p)
	return err == nil && string(p[:n]) == testMessage
}

// recorder stores what is written, instead of writing it, when keeps is set.
type recorder struct {
	net.Conn
	keeps bool
	kept  []byte
}

// Write implements net.Conn.
func (r *recorder) Write(p []byte) (int, error) {
	if !r.keeps {
		return r.Conn.Write(p)
	}
	r.kept = append(r.kept, p...)
	return len(p), nil
}

// feeder returns input from its own buffer when isFed is set.
type feeder struct {
	net.Conn
	isFed bool
	input []byte
}

// Read implements net.Conn.
func (f *feeder) Read(p []byte) (int, error) {
	if !f.isFed {
		return f.Conn.Read(p)
	}
	if len(f.input) == 0 {
		return 0, errWouldBlock
	}
	n := copy(p, f.input)
	f.input = f.input[n:]
	return n, nil
}
