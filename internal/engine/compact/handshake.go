package compact

import (
	"crypto/tls"
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

const (
	// maxRecords is how many records a server sends with one key until the handshake has ended,
	// at most: its certificates and tickets may take several.
	maxRecords = 64
	// usualTickets is how many of them are tickets, as a rule at most.
	usualTickets = 4
)

// A Handshake sees what crypto/tls reads and writes. It hands on one record at a time, so
// that crypto/tls never has input that belongs to what follows the handshake. The zero value
// with a Listener is ready to use.
type Handshake struct {
	Listener *Listener

	head     [tls13.HeaderSize]byte // of the record that is being received
	headSize int
	rest     int // of that record

	last []byte  // the last record that was sent
	told secrets // by the configuration of this handshake
}

// Room returns the part of p that may be received into.
func (h *Handshake) Room(p []byte) []byte {
	if h.rest == 0 {
		return p[:min(len(p), tls13.HeaderSize-h.headSize)]
	}
	return p[:min(len(p), h.rest)]
}

// Received notes what was received into the result of Room.
func (h *Handshake) Received(p []byte) {
	if h.rest > 0 {
		h.rest -= len(p)
		return
	}
	h.headSize += copy(h.head[h.headSize:], p)
	if h.headSize == tls13.HeaderSize {
		h.rest, h.headSize = int(binary.BigEndian.Uint16(h.head[3:])), 0
	}
}

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
// returns the state of its record layer, and what c.ConnectionState says of it.
func (h *Handshake) End(c *tls.Conn) (state tls13.State, facts *Facts, ok bool) {
	defer h.forget()
	if h.told.out.size == 0 {
		return state, nil, false
	}
	said := c.ConnectionState()
	suite := tls13.Suite(said.CipherSuite)
	if !said.HandshakeComplete || said.Version != tls.VersionTLS13 || !suite.IsKnown() || h.rest > 0 || h.headSize > 0 {
		return state, nil, false
	}
	state, err := tls13.NewState(suite, h.told.in.bytes[:h.told.in.size], h.told.out.bytes[:h.told.out.size], 0, 0)
	if err != nil {
		return state, nil, false // they are not all known
	}
	if state.Out.Sequence, ok = h.tickets(suite, &state); !ok {
		state.Erase()
		return state, nil, false
	}
	return state, h.Listener.facts.get(&said), true
}

// forget overwrites the secrets: the tls.Conn refers to the Handshake as long as it lives.
func (h *Handshake) forget() { h.told, h.last = secrets{}, nil }

// tickets returns how many records were sent with the traffic keys: the tickets, with which
// the server's flight ends. The last record of the handshake shows it, since a record opens
// with its own key and number only.
//
// It shows, too, whose secrets these are: whatever goes wrong where they are told, ok is false
// if the record opens with none of them.
func (h *Handshake) tickets(suite tls13.Suite, state *tls13.State) (n uint64, ok bool) {
	if len(h.last) == 0 || h.last[0] != tls13.TypeApplication {
		return 0, false
	}
	if n, ok := state.Out.Number(suite, h.last, 0, usualTickets); ok {
		return n + 1, true
	}
	secret := h.told.handshake.bytes[:h.told.handshake.size]
	handshake, err := tls13.NewState(suite, secret, secret, 0, 0)
	if err != nil {
		return 0, false
	}
	defer handshake.Erase()
	if _, ok := handshake.Out.Number(suite, h.last, 0, maxRecords); ok {
		return 0, true // the client wants no tickets
	}
	if n, ok := state.Out.Number(suite, h.last, usualTickets, maxRecords); ok {
		return n + 1, true
	}
	return 0, false
}
