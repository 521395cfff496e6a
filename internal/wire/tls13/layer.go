package tls13

import (
	"crypto/cipher"
	"encoding/binary"
	"sync/atomic"
)

// A half is one direction of a Layer: its keys, and the number of the next record.
type half struct {
	suite    Suite
	aead     cipher.AEAD // nil: it is made for the next record
	sequence uint64
	iv       [nonceSize]byte
	nonce    [nonceSize]byte // of the record at hand; here so that it is not allocated
	secret   [maxSecret]byte
}

// start sets the keys of a direction.
func (h *half) start(suite Suite, d *Direction) {
	*h = half{suite: suite, secret: d.Secret, sequence: d.Sequence}
}

// derive makes key and IV of the secret (RFC 8446 section 7.3).
func (h *half) derive() error {
	if !h.suite.IsKnown() {
		return ErrState
	}
	var room [maxKey]byte
	key := room[:h.suite.keySize()]
	h.suite.expand(key, &h.secret, "key")
	h.suite.expand(h.iv[:], &h.secret, "iv")
	var err error
	h.aead, err = h.suite.aead(key)
	clear(key)
	return err
}

// update goes over to the next secret (RFC 8446 section 7.2).
func (h *half) update() {
	h.suite.expand(h.secret[:h.suite.SecretSize()], &h.secret, "traffic upd")
	h.sequence, h.aead = 0, nil
}

// next returns the nonce of the next record (RFC 8446 section 5.3), and counts it.
func (h *half) next() ([]byte, error) {
	if h.sequence == 1<<64-1 {
		return nil, ErrSequence
	}
	if h.aead == nil {
		if err := h.derive(); err != nil {
			return nil, err
		}
	}
	h.nonce = h.iv
	binary.BigEndian.PutUint64(h.nonce[nonceSize-8:], binary.BigEndian.Uint64(h.iv[nonceSize-8:])^h.sequence)
	h.sequence++
	return h.nonce[:], nil
}

// number returns with which number, below end, a record was protected; false if with none of
// them. guess, 0 or 1, is tried first.
func (h *half) number(record []byte, guess, end uint64) (number uint64, ok bool) {
	if n, err := Need(record); err != nil || n != len(record) {
		return 0, false
	}
	kept := h.sequence
	defer func() { h.sequence = kept }()
	try := append(record[len(record):], record...)
	defer clear(try)
	for i := range (end + 1) &^ 1 {
		n := i ^ guess
		if n >= end {
			continue
		}
		h.sequence = n
		copy(try, record) // it is overwritten
		if _, _, err := h.open(try); err == nil {
			return n, true
		}
	}
	return 0, false
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

// Start sets the keys of a state, and leaves the ciphers for the first records. The state must
// not be used again until Stop. The error is ErrState.
func (l *Layer) Start(side Side, s *State) error {
	if !s.Suite.IsKnown() {
		l.Erase()
		return ErrState
	}
	*l = Layer{side: side}
	l.isUpdateDue.Store(s.IsUpdateDue)
	l.in.start(s.Suite, &s.In)
	l.out.start(s.Suite, &s.Out)
	return nil
}

// Rest drops the ciphers, which need the most memory. The next records make them again.
func (l *Layer) Rest() { l.in.aead, l.out.aead = nil, nil }

// GoOnAs gives the next record that is sent the number of record, if that was protected by the
// keys of this side, with a number below end. It reports whether it was. guess, 0 or 1, is
// tried first. The record must never be sent: two with one number break the cipher. Nothing may
// have been appended yet. What follows record in its array is overwritten.
func (l *Layer) GoOnAs(record []byte, guess, end uint64) bool {
	n, ok := l.out.number(record, guess, end)
	if ok {
		l.out.sequence = n
	}
	return ok
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
	s.Suite, s.IsUpdateDue = l.in.suite, l.isUpdateDue.Load()
	l.Erase()
}

// Erase overwrites the secrets and drops the keys. The layer must be started before it is
// used again.
func (l *Layer) Erase() { *l = Layer{receiving: phaseFailed, sending: phaseFailed, failure: ErrState} }
