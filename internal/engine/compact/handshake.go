package compact

import (
	"crypto/tls"
	"encoding/binary"

	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

const (
	recordHead = 5
	// helloSize is the part of the ClientHello's record up to the end of its random: head of
	// the record, head of the message, version, random (RFC 8446 section 4.1.2).
	helloSize = recordHead + 4 + 2 + randomSize

	recordHandshake = 22
	recordProtected = 23
	clientHello     = 1

	// maxRecords is how many records a server sends with one key until the handshake has ended,
	// at most: its certificates and tickets may take several.
	maxRecords = 64
)

// A Handshake sees what crypto/tls reads and writes. It hands on one record at a time, so
// that crypto/tls never has input that belongs to what follows the handshake. The zero value
// with a Listener is ready to use.
type Handshake struct {
	Listener *Listener

	hello        [helloSize]byte
	received     int // of hello
	isRegistered bool

	head     [recordHead]byte // of the record that is being received
	headSize int
	rest     int // of that record

	last []byte // the last record that was sent
}

// Room returns the part of p that may be received into.
func (h *Handshake) Room(p []byte) []byte {
	if h.rest == 0 {
		return p[:min(len(p), recordHead-h.headSize)]
	}
	return p[:min(len(p), h.rest)]
}

// Received notes what was received into the result of Room.
func (h *Handshake) Received(p []byte) {
	if h.received < helloSize {
		h.received += copy(h.hello[h.received:], p)
		if h.received == helloSize {
			h.register()
		}
	}
	if h.rest > 0 {
		h.rest -= len(p)
		return
	}
	h.headSize += copy(h.head[h.headSize:], p)
	if h.headSize == recordHead {
		h.rest, h.headSize = int(binary.BigEndian.Uint16(h.head[3:])), 0
	}
}

// register tells the listener of the handshake. The ClientHello must have its random in its
// first record: clients do not cut it before that.
func (h *Handshake) register() {
	length := int(binary.BigEndian.Uint16(h.hello[3:]))
	if h.hello[0] == recordHandshake && h.hello[recordHead] == clientHello && length >= helloSize-recordHead {
		h.isRegistered = true
		h.Listener.register(h.random())
	}
}

func (h *Handshake) random() [randomSize]byte {
	return [randomSize]byte(h.hello[helloSize-randomSize:])
}

// Sent notes what was sent: whole records.
func (h *Handshake) Sent(p []byte) {
	for len(p) >= recordHead {
		size := recordHead + int(binary.BigEndian.Uint16(p[3:]))
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
	if !h.isRegistered {
		return state, nil, false
	}
	h.isRegistered = false
	told := h.Listener.take(h.random())
	said := c.ConnectionState()
	suite := tls13.Suite(said.CipherSuite)
	if !said.HandshakeComplete || said.Version != tls.VersionTLS13 || !suite.IsKnown() || h.rest > 0 || h.headSize > 0 {
		return state, nil, false
	}
	state, err := tls13.NewState(suite, told.in.bytes[:told.in.size], told.out.bytes[:told.out.size], 0, 0)
	if err != nil {
		return state, nil, false // they are not known
	}
	if state.Out.Sequence, ok = h.tickets(suite, &state, &told); !ok {
		state.Erase()
		return state, nil, false
	}
	return state, h.Listener.facts.get(&said), true
}

// tickets returns how many records were sent with the traffic keys: the tickets, with which
// the server's flight ends. The last record of the handshake shows it, since a record opens
// with its own key and number only.
//
// It shows, too, whose secrets these are. The random does not: a handshake with another
// configuration (GetConfigForClient, Encrypted Client Hello) tells nothing here, and an
// attacker who has read its ClientHello could tell secrets of his own for its random. ok is false if
// the record opens with none of them.
func (h *Handshake) tickets(suite tls13.Suite, state *tls13.State, told *secrets) (n uint64, ok bool) {
	if len(h.last) == 0 || h.last[0] != recordProtected {
		return 0, false
	}
	if n, ok := state.Out.Number(suite, h.last, maxRecords); ok {
		return n + 1, true
	}
	handshake, err := tls13.NewState(suite, told.handshake.bytes[:told.handshake.size], told.handshake.bytes[:told.handshake.size], 0, 0)
	if err != nil {
		return 0, false
	}
	_, ok = handshake.Out.Number(suite, h.last, maxRecords)
	return 0, ok
}
