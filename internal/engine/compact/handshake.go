package compact

import (
	"crypto/tls"
	"encoding/binary"
	"net"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

const (
	// maxRecords is how many records a server sends with one key until the handshake has ended,
	// at most: its certificates and tickets may take several.
	maxRecords = 64
	// usualTickets is how many of them are tickets, as a rule at most.
	usualTickets = 4
)

// A Handshake lies between crypto/tls and the socket. It hands on one record at a time, so
// that crypto/tls never has input that belongs to what follows the handshake. The zero value
// with a Listener is ready to use.
type Handshake struct {
	Listener *Listener

	head     [tls13.HeaderSize]byte // of the record that is being handed on
	headSize int
	rest     int    // of that record
	ahead    []byte // received, and not handed on

	last []byte  // the last record that was sent
	told secrets // by the configuration of this handshake
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

// Sent notes what was sent: whole records.
func (h *Handshake) Sent(p []byte) {
	for len(p) >= tls13.HeaderSize {
		size := tls13.HeaderSize + int(binary.BigEndian.Uint16(p[3:]))
		if size >= len(p) {
			h.last = append(h.last[:0], p...)
			return
		}
		p = p[size:]
	}
	h.last = nil
}

// End ends the handshake, also one that has failed. If the connection can be compact, it
// returns it; it is over below.
func (h *Handshake) End(c *tls.Conn, below net.Conn) *Conn {
	defer h.forget()
	if h.told.out.size == 0 {
		return nil
	}
	said := c.ConnectionState()
	suite := tls13.Suite(said.CipherSuite)
	if !said.HandshakeComplete || said.Version != tls.VersionTLS13 || !suite.IsKnown() || h.rest > 0 || h.headSize > 0 {
		return nil
	}
	state, err := tls13.NewState(suite, h.told.in.bytes[:h.told.in.size], h.told.out.bytes[:h.told.out.size], 0, 0)
	if err != nil {
		return nil // they are not all known
	}
	compact, err := NewConn(below, &state, nil)
	if err != nil || !h.skipTickets(suite, &compact.layer) {
		compact.layer.Erase()
		return nil
	}
	compact.facts = h.Listener.facts.get(&said)
	return compact
}

// forget overwrites the secrets: the tls.Conn refers to the Handshake as long as it lives.
func (h *Handshake) forget() { h.told, h.last = secrets{}, nil }

// skipTickets counts the records that were sent with the traffic keys: the tickets, with which
// the server's flight ends. The last record of the handshake shows it, since a record opens
// with its own key and number only.
//
// It shows, too, whose secrets these are: whatever goes wrong where they are told, the result
// is false if the record opens with none of them.
func (h *Handshake) skipTickets(suite tls13.Suite, l *tls13.Layer) bool {
	if len(h.last) == 0 || h.last[0] != tls13.TypeApplication {
		return false
	}
	if l.GoOnAfter(h.last, 0, usualTickets) {
		return true
	}
	secret := h.told.handshake.bytes[:h.told.handshake.size]
	handshake, err := tls13.NewState(suite, secret, secret, 0, 0)
	if err != nil {
		return false
	}
	defer handshake.Erase()
	if _, ok := handshake.Out.Number(suite, h.last, 0, maxRecords); ok {
		return true // the client wants no tickets
	}
	return l.GoOnAfter(h.last, usualTickets, maxRecords)
}
