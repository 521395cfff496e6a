//go:build linux

package member

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
	"github.com/sluicehttp/sluice/tcp"
)

// A secret is a connection of HTTPS. crypto/tls makes the handshake. From then on there is a
// record layer, whose ciphers are kept from a request to its answer: a million connections
// with the state of crypto/tls, 7 KB each, would not fit beside their servers.
type secret struct {
	*tcp.Sender // nil until the engine has opened the connection

	mu    sync.Mutex
	state tls13.Packed // unless there is a layer
	layer *tls13.Layer // nil: no request is on its way

	part []byte // of an answer, whose other part comes in the next record
}

// handshakeTimeout bounds a TLS handshake. With many dialers on few cores one may
// wait for others.
const handshakeTimeout = time.Minute

// adoptSecret makes the TLS handshake and gives the connection to the engine.
func (c *client) adoptSecret(fd int) error {
	conn, err := socketConn(fd)
	if err != nil {
		return err
	}
	s, err := newSecret(conn)
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("TLS handshake: %w", err)
	}
	key := addressesOf(conn)
	c.mu.Lock()
	c.secrets[key] = s
	c.mu.Unlock()
	return c.server.AdoptConn(conn)
}

// takeSecret returns what adoptSecret has made of a connection.
func (c *client) takeSecret(conn *tcp.Conn) *secret {
	key := addressesOf(conn)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.secrets[key]
	delete(c.secrets, key)
	return s
}

// addressesOf returns what no other connection has.
func addressesOf(conn addressed) string {
	return conn.LocalAddr().String() + " " + conn.RemoteAddr().String()
}

type addressed interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// newSecret makes a TLS handshake on conn.
func newSecret(conn net.Conn) (*secret, error) {
	var log bytes.Buffer
	records := &recordConn{Conn: conn}
	// The servers are ours, on loopback, and make their own certificates, which no client
	// could verify.
	client := tls.Client(records, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, ClientSessionCache: noSessions{}, KeyLogWriter: &log})
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	suite := tls13.Suite(client.ConnectionState().CipherSuite)
	state, err := tls13.NewState(suite, secretIn(log.String(), "SERVER_TRAFFIC_SECRET_0"), secretIn(log.String(), "CLIENT_TRAFFIC_SECRET_0"), 0, 0)
	if err != nil {
		return nil, err
	}
	s := &secret{}
	if !state.Pack(&s.state) || len(records.rest) > 0 {
		return nil, fmt.Errorf("with the suite %#x, a connection cannot be packed", uint16(suite))
	}
	return s, nil
}

// noSessions has the server send its tickets, as other clients do, and keeps none.
type noSessions struct{}

// Get implements tls.ClientSessionCache.
func (noSessions) Get(string) (*tls.ClientSessionState, bool) { return nil, false }

// Put implements tls.ClientSessionCache.
func (noSessions) Put(string, *tls.ClientSessionState) {}

// secretIn returns a secret of a key log, whose lines have a label, a random and a secret.
func secretIn(log, label string) []byte {
	for line := range strings.Lines(log) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == label {
			secret, _ := hex.DecodeString(words[2]) // a wrong one has the wrong size
			return secret
		}
	}
	return nil
}

// A recordConn gives crypto/tls one record at a time, so that it has read nothing of what
// follows the handshake.
type recordConn struct {
	net.Conn
	rest []byte // of the record
}

// Read implements net.Conn.
func (r *recordConn) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.rest = make([]byte, tls13.HeaderSize, 1<<10)
		if _, err := io.ReadFull(r.Conn, r.rest); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint16(r.rest[tls13.HeaderSize-2:]))
		if _, err := io.ReadFull(r.Conn, body); err != nil {
			return 0, err
		}
		r.rest = append(r.rest, body...)
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TrySend implements sender.
func (s *secret) TrySend(request []byte) error {
	records, err := s.protect(nil, request)
	if err != nil {
		return err
	}
	return s.Sender.TrySend(records)
}

// protect appends the record of a request to dst.
func (s *secret) protect(dst, request []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.wakeLocked(); err != nil {
		return dst, err
	}
	return s.layer.Append(dst, request, 0)
}

// open opens the first record of in, in place, as tls13.Layer.Next does. One without data is a
// ticket, and nothing follows it.
func (s *secret) open(in []byte) (data []byte, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.wakeLocked(); err != nil {
		return nil, 0, err
	}
	data, n, err = s.layer.Next(in)
	if err == nil && len(data) == 0 {
		s.packLocked()
	}
	return data, n, err
}

// pack drops the ciphers.
func (s *secret) pack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packLocked()
}

func (s *secret) wakeLocked() error {
	if s.layer != nil {
		return nil
	}
	var state tls13.State
	s.state.Unpack(&state)
	s.layer = &tls13.Layer{}
	return s.layer.Start(tls13.Client, &state)
}

func (s *secret) packLocked() {
	if s.layer == nil || !s.layer.CanStop() {
		return
	}
	var state tls13.State
	s.layer.Stop(&state)
	state.Pack(&s.state) // it fits: its suite is that of the handshake
	s.layer = nil
}

var errSurplus = errors.New("something follows an answer that was not asked for")

// join adds the data of a record to what has come of an answer, and reports whether it is
// whole.
func (s *secret) join(data []byte) (isWhole bool, err error) {
	data = append(s.part, data...)
	s.part = nil
	size, err := responseSize(data)
	switch {
	case err != nil:
		return false, err
	case size == 0, size > len(data):
		s.part = data
		return false, nil
	case size < len(data):
		return false, errSurplus
	}
	return true, nil
}

// handleHTTPS takes a record.
func (c *client) handleHTTPS(conn *tcp.Conn, in []byte) (used int, err error) {
	p := conn.State().(*peer)
	s := p.sender.(*secret)
	data, used, err := s.open(in)
	if err != nil || len(data) == 0 {
		return used, err
	}
	if isWhole, err := s.join(data); !isWhole {
		return used, err
	}
	if !c.takes(p) {
		s.pack()
		return used, nil
	}
	records, err := s.protect(conn.AvailableBuffer(), c.request)
	if err == nil {
		_, err = conn.Write(records)
	}
	return used, err
}
