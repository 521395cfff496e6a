package tls13

import (
	"encoding/binary"
	"math"
)

// maxSecret is the size of the largest traffic secret.
const maxSecret = 48

// A Direction is what protects the records of one side.
type Direction struct {
	Secret   [maxSecret]byte // the application traffic secret; the first Suite.SecretSize bytes
	Sequence uint64          // number of the next record
}

// A State is the record layer of a connection that has nothing to do: no record has been
// received in part, and all that were made are sent. It is secret, has no pointers, and is a
// connection's only copy: two that go on from one State would use a nonce twice.
type State struct {
	In, Out Direction
	Suite   Suite
	// IsUpdateDue reports that the peer has asked for a KeyUpdate, which goes before the next
	// data (RFC 8446 section 4.6.3).
	IsUpdateDue bool
}

// NewState returns the state after a handshake with these application traffic secrets, which
// it copies. The numbers are those of the next records.
func NewState(suite Suite, in, out []byte, nextIn, nextOut uint64) (State, error) {
	if !suite.IsKnown() || len(in) != suite.SecretSize() || len(out) != suite.SecretSize() {
		return State{}, ErrState
	}
	s := State{Suite: suite, In: Direction{Sequence: nextIn}, Out: Direction{Sequence: nextOut}}
	copy(s.In.Secret[:], in)
	copy(s.Out.Secret[:], out)
	return s, nil
}

// Erase overwrites the secrets.
func (s *State) Erase() { *s = State{} }

// A Packed is a State in less memory. The zero value is none.
type Packed struct {
	in, out [packedSecret]byte
	inNext  uint32 // number of the next record
	outNext uint32 // the same, and suite and isUpdateDue in the upper bits
}

const (
	packedSecret = 32
	suiteBase    = AES128GCM - 1

	// The upper bits of Packed.outNext.
	packedSuite = 30 // from this bit on: Suite less suiteBase
	packedDue   = 1 << 29
)

// Pack moves the state to p, and erases s. It returns false, and does nothing, if p cannot
// hold it: the secrets have more than 32 bytes, as those of AES256GCM have, or the peer has sent
// 2^32 records without a KeyUpdate. This side sends one before its number has 2^29.
func (s *State) Pack(p *Packed) bool {
	if s.Suite.SecretSize() > packedSecret || s.In.Sequence > math.MaxUint32 || s.Out.Sequence >= packedDue {
		return false
	}
	copy(p.in[:], s.In.Secret[:])
	copy(p.out[:], s.Out.Secret[:])
	p.inNext, p.outNext = uint32(s.In.Sequence), uint32(s.Out.Sequence)
	p.outNext |= uint32(s.Suite-suiteBase) << packedSuite
	if s.IsUpdateDue {
		p.outNext |= packedDue
	}
	s.Erase()
	return true
}

// Unpack moves what was packed to s, and erases p. It returns false if p has none.
func (p *Packed) Unpack(s *State) bool {
	if p.outNext>>packedSuite == 0 {
		return false
	}
	s.Erase()
	copy(s.In.Secret[:], p.in[:])
	copy(s.Out.Secret[:], p.out[:])
	s.In.Sequence, s.Out.Sequence = uint64(p.inNext), uint64(p.outNext&(packedDue-1))
	s.Suite, s.IsUpdateDue = suiteBase+Suite(p.outNext>>packedSuite), p.outNext&packedDue != 0
	*p = Packed{}
	return true
}

// StateSize is the size of an encoded State in bytes.
const StateSize = 1 + 2 + 2*(maxSecret+8)

// Append appends the state to dst, for another process.
func (s *State) Append(dst []byte) []byte {
	due := byte(0)
	if s.IsUpdateDue {
		due = 1
	}
	dst = append(dst, due)
	dst = binary.BigEndian.AppendUint16(dst, uint16(s.Suite))
	for _, d := range []*Direction{&s.In, &s.Out} {
		dst = append(dst, d.Secret[:]...)
		dst = binary.BigEndian.AppendUint64(dst, d.Sequence)
	}
	return dst
}

// ParseState reads what Append has written. Its error is ErrState.
func ParseState(p []byte) (s State, err error) {
	if len(p) != StateSize || p[0] > 1 {
		return s, ErrState
	}
	s.IsUpdateDue = p[0] == 1
	s.Suite = Suite(binary.BigEndian.Uint16(p[1:]))
	p = p[3:]
	for _, d := range []*Direction{&s.In, &s.Out} {
		p = p[copy(d.Secret[:], p):]
		d.Sequence, p = binary.BigEndian.Uint64(p), p[8:]
	}
	if !s.Suite.IsKnown() || !s.In.fits(s.Suite) || !s.Out.fits(s.Suite) {
		s.Erase()
		return s, ErrState
	}
	return s, nil
}

// fits reports whether the secret has the size of the suite's: the rest is zero.
func (d *Direction) fits(suite Suite) bool {
	for _, b := range d.Secret[suite.SecretSize():] {
		if b != 0 {
			return false
		}
	}
	return true
}
