package tls13

import (
	"crypto/cipher"
	"encoding/binary"
	"sync/atomic"
)

// A half is one direction of a Layer: its keys, and the number of the next record.
type half struct {
	aead     cipher.AEAD
	sequence uint64
	iv       [nonceSize]byte
	nonce    [nonceSize]byte // of the record at hand; here so that it is not allocated
	secret   [maxSecret]byte
}

// start makes the keys of a direction.
func (h *half) start(suite Suite, d *Direction) error {
	h.secret, h.sequence = d.Secret, d.Sequence
	return h.derive(suite)
}

// derive makes key and IV of the secret (RFC 8446 section 7.3).
func (h *half) derive(suite Suite) error {
	secret := h.secret[:suite.SecretSize()]
	key, err := suite.expand(secret, "key", suite.keySize())
	if err != nil {
		return err
	}
	defer clear(key)
	iv, err := suite.expand(secret, "iv", nonceSize)
	if err != nil {
		return err
	}
	h.aead, err = suite.aead(key)
	copy(h.iv[:], iv)
	clear(iv)
	return err
}

// update goes over to the next secret (RFC 8446 section 7.2).
func (h *half) update(suite Suite) error {
	next, err := suite.expand(h.secret[:suite.SecretSize()], "traffic upd", suite.SecretSize())
	if err != nil {
		return err
	}
	copy(h.secret[:], next)
	clear(next)
	h.sequence = 0
	return h.derive(suite)
}

// next returns the nonce of the next record (RFC 8446 section 5.3), and counts it.
func (h *half) next() ([]byte, error) {
	if h.sequence == 1<<64-1 {
		return nil, ErrSequence
	}
	h.nonce = h.iv
	binary.BigEndian.PutUint64(h.nonce[nonceSize-8:], binary.BigEndian.Uint64(h.iv[nonceSize-8:])^h.sequence)
	h.sequence++
	return h.nonce[:], nil
}

// A phase is how far a direction is.
type phase uint8

const (
	phaseOpen   phase = iota
	phaseClosed       // by close_notify
	phaseFailed       // by another alert, or a violation
)

// A Layer is the record layer of a connection in use. The zero value is to be started. It
// must not be copied, and one goroutine at a time may use each direction: Next, and Append
// with AppendClose and AppendAlert.
type Layer struct {
	suite     Suite
	side      Side
	in, out   half
	receiving phase
	sending   phase
	failure   error // of phaseFailed of receiving
	// fruitless counts the records since the last that brought data.
	fruitless uint8
	head      [messageHead]byte // of the handshake message that has come in part
	headSize  uint8             // so much of head has come; 0: there is no such message
	rest      uint32            // of the message's body, once head is complete
	// isUpdateDue reports that a KeyUpdate goes before the next data. Next sets it, Append
	// clears it.
	isUpdateDue atomic.Bool
}

// A Side is who uses a Layer. A client may get tickets.
type Side uint8

// The sides.
const (
	Server Side = iota
	Client
)

// Start makes the keys of a state. The state must not be used again until Stop.
func (l *Layer) Start(side Side, s *State) error {
	if !s.Suite.IsKnown() {
		l.Erase()
		return ErrState
	}
	*l = Layer{suite: s.Suite, side: side}
	l.isUpdateDue.Store(s.IsUpdateDue)
	err := l.in.start(s.Suite, &s.In)
	if err == nil {
		err = l.out.start(s.Suite, &s.Out)
	}
	if err != nil {
		l.Erase()
	}
	return err
}

// CanStop reports whether the state has all of the layer: both directions are open, and no
// handshake message has come in part.
func (l *Layer) CanStop() bool {
	return l.receiving == phaseOpen && l.sending == phaseOpen && !l.isInMessage()
}

// Stop stores the state in s and erases the layer. CanStop must be true.
func (l *Layer) Stop(s *State) {
	s.In.Secret, s.In.Sequence = l.in.secret, l.in.sequence
	s.Out.Secret, s.Out.Sequence = l.out.secret, l.out.sequence
	s.Suite, s.IsUpdateDue = l.suite, l.isUpdateDue.Load()
	l.Erase()
}

// Erase overwrites the secrets and drops the keys. The layer must be started before it is
// used again.
func (l *Layer) Erase() { *l = Layer{receiving: phaseFailed, sending: phaseFailed, failure: ErrState} }
