package compact

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"slices"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/wire/tls13"
)

// maxTickets is how many tickets a server sends in a handshake, at most.
const maxTickets = 64

// errSecrets: the log of keys has told others than crypto/tls uses.
var errSecrets = errors.New("sluice: the secrets of a TLS handshake are not those of its connection")

// A Handshake lies between crypto/tls and the socket. It hands on one record at a time, so
// that crypto/tls never has input that belongs to what follows the handshake. Listener.Begin
// makes it.
type Handshake struct {
	listener *Listener
	config   *tls.Config // of this handshake, unless the program chooses one; nil: not made yet
	log      keyLog      // of the configuration that is used
	tickets  uint64      // how many the client will probably get: 0 or 1

	head     [tls13.HeaderSize]byte // of the record that is being handed on
	headSize int
	rest     int         // of that record
	input    *buf.Buffer // nil: nothing is ahead
	ahead    []byte      // of input: received, and not handed on

	isProof bool // what crypto/tls writes is not sent, but kept as proof
	proof   []byte
}

// Read hands on a part of one record. It calls receive if nothing was received ahead.
func (h *Handshake) Read(p []byte, receive func([]byte) (int, error)) (int, error) {
	if ahead := h.ahead; len(ahead) > 0 {
		n := h.pass(ahead[:min(len(ahead), len(p))])
		copy(p, ahead[:n])
		if h.ahead = ahead[n:]; len(h.ahead) == 0 {
			h.dropInput()
		}
		return n, nil
	}
	received, err := receive(p)
	n := h.pass(p[:received])
	if n < received { // crypto/tls reads into p again
		h.input = buf.Get(received - n)
		h.ahead = append(h.input.B[:0], p[n:received]...)
	}
	return n, err
}

func (h *Handshake) dropInput() {
	if h.input != nil {
		h.input.Release()
		h.input, h.ahead = nil, nil
	}
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

// Withholds reports whether p, which crypto/tls writes, must not be sent: End has asked for it.
func (h *Handshake) Withholds(p []byte) bool {
	if h.isProof {
		h.proof = append(h.proof, p...)
	}
	return h.isProof
}

// End ends the handshake, also one that has failed. If the connection can be compact, it
// returns it; it is over below, and c must not be used any more. Otherwise it returns what was
// received and not handed on. After an error the connection cannot go on. h must not be used
// any more.
func (h *Handshake) End(c *tls.Conn, below net.Conn) (compact *Conn, ahead []byte, err error) {
	compact, err = h.end(c, below)
	h.forget()
	if compact == nil { // c refers to h
		ahead = slices.Clone(h.ahead)
		h.dropInput()
		return nil, ahead, err
	}
	compact.input, compact.received = h.input, h.ahead
	*h = Handshake{listener: h.listener, config: h.config, proof: h.proof}
	h.listener.spare.Put(h)
	return compact, nil, nil
}

func (h *Handshake) end(c *tls.Conn, below net.Conn) (*Conn, error) {
	told := &h.log.told
	if told.out.size == 0 {
		return nil, nil
	}
	said := c.ConnectionState()
	suite := tls13.Suite(said.CipherSuite)
	if !said.HandshakeComplete || said.Version != tls.VersionTLS13 || !suite.IsKnown() || h.rest > 0 || h.headSize > 0 {
		return nil, nil
	}
	state, err := tls13.NewState(suite, told.in.bytes[:told.in.size], told.out.bytes[:told.out.size], 0, 0)
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
	compact.facts = h.listener.facts.get(&said)
	return compact, nil
}

// forget overwrites the secrets: the tls.Conn refers to the Handshake as long as it lives.
func (h *Handshake) forget() {
	h.log = keyLog{}
	clear(h.proof)
	h.proof = h.proof[:0]
}

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
	if !l.GoOnAs(h.proof, h.tickets, maxTickets) {
		return errSecrets
	}
	return nil
}
