package compact

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// maxTickets is how many tickets a server sends in a handshake, at most.
const maxTickets = 64

// errSecrets: the log of keys has told others than crypto/tls uses.
var errSecrets = errors.New("sluice: the secrets of a TLS handshake are not those of its connection")

// A Handshake lies between crypto/tls and the socket. It hands on one record at a time, so
// that crypto/tls never has input that belongs to what follows the handshake. The zero value
// with a Listener is ready to use.
type Handshake struct {
	Listener *Listener

	head     [tls13.HeaderSize]byte // of the record that is being handed on
	headSize int
	rest     int    // of that record
	ahead    []byte // received, and not handed on

	told    secrets // by the configuration of this handshake
	isProof bool    // what crypto/tls writes is not sent, but kept as proof
	proof   []byte
}

// Read hands on a part of one record. It calls receive if nothing was received ahead.
func (h *Handshake) Read(p []byte, receive func([]byte) (int, error)) (int, error) {
	if ahead := h.ahead; len(ahead) > 0 {
		n := h.pass(ahead[:min(len(ahead), len(p))])
		h.ahead = ahead[n:]
		return copy(p, ahead[:n]), nil
	}
	received, err := receive(p)
	n := h.pass(p[:received])
	h.ahead = append([]byte(nil), p[n:received]...) // crypto/tls reads into p again
	return n, err
}

// pass returns how much of p belongs to the record that is being handed on.
func (h *Handshake) pass(p []byte) (n int) {
	if h.rest == 0 {
		n = copy(h.head[h.headSize:], p)
		if h.headSize += n; h.headSize < tls13.HeaderSize {
			return n
		}
		h.rest, h.headSize = int(binary.BigEndian.Uint16(h.head[3:])), 0
	}
	body := min(len(p)-n, h.rest)
	h.rest -= body
	return n + body
}

// Ahead returns what was received and not handed on. It is the session's input after the
// handshake.
func (h *Handshake) Ahead() []byte { return h.ahead }

// Withholds reports whether p, which crypto/tls writes, must not be sent: End has asked for it.
func (h *Handshake) Withholds(p []byte) bool {
	if h.isProof {
		h.proof = append(h.proof, p...)
	}
	return h.isProof
}

// End ends the handshake, also one that has failed. If the connection can be compact, it
// returns it; it is over below. After an error the connection cannot go on.
func (h *Handshake) End(c *tls.Conn, below net.Conn) (*Conn, error) {
	defer h.forget()
	if h.told.out.size == 0 {
		return nil, nil
	}
	said := c.ConnectionState()
	suite := tls13.Suite(said.CipherSuite)
	if !said.HandshakeComplete || said.Version != tls.VersionTLS13 || !suite.IsKnown() || h.rest > 0 || h.headSize > 0 {
		return nil, nil
	}
	state, err := tls13.NewState(suite, h.told.in.bytes[:h.told.in.size], h.told.out.bytes[:h.told.out.size], 0, 0)
	if err != nil {
		return nil, nil // they are not all known
	}
	compact, err := NewConn(below, &state, nil)
	if err != nil {
		return nil, err
	}
	if err := h.prove(c, &compact.layer); err != nil {
		compact.layer.Erase()
		return nil, err
	}
	compact.facts = h.Listener.facts.get(&said)
	return compact, nil
}

// forget overwrites the secrets: the tls.Conn refers to the Handshake as long as it lives.
func (h *Handshake) forget() { h.told, h.proof = secrets{}, nil }

// prove lets crypto/tls make one more record, which is not sent. It shows the number of the next
// record, since tickets may have been sent with the traffic keys.
//
// It also shows whose secrets these are: if crypto/tls tells wrong ones, the record
// opens with those of crypto/tls only.
func (h *Handshake) prove(c *tls.Conn, l *tls13.Layer) error {
	h.isProof = true
	defer func() { h.isProof = false }()
	if _, err := c.Write([]byte{0}); err != nil {
		return err
	}
	if !l.GoOnAs(h.proof, maxTickets) {
		return errSecrets
	}
	return nil
}
