package upgrade

import "encoding/binary"

// stateMark is the first byte of the packed state of a connection that has left HTTP/1.1
// for a Protocol of this package. The state of HTTP/2 begins with another one.
const stateMark = 'u'

// MaxName is the longest result of Family.Name.
const MaxName = 255

// A State is what a connection of a Family takes along to another process.
type State struct {
	Name     string // of the Family
	Farewell string // what the client gets from a server that cannot take the connection over
	Own      []byte // what Host.Unpack gets
}

// AppendState appends what a State begins with. A Protocol that is an engine.Packer appends
// State.Own to it.
func AppendState(dst []byte, name, farewell string) []byte {
	return AppendText(AppendText(append(dst, stateMark), name), farewell)
}

// ParseState is the reverse of AppendState. Own is a part of in; ok is false if in is the
// state of another protocol, or damaged.
func ParseState(in []byte) (s State, ok bool) {
	if len(in) == 0 || in[0] != stateMark {
		return s, false
	}
	if s.Name, in, ok = CutText(in[1:]); !ok {
		return s, false
	}
	s.Farewell, s.Own, ok = CutText(in)
	return s, ok
}

// AppendText appends text with its length, for the states of Protocols.
func AppendText(dst []byte, text string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// CutText is the reverse of AppendText. ok is false if in has no whole text.
func CutText(in []byte) (text string, rest []byte, ok bool) {
	size, n := binary.Uvarint(in)
	if n <= 0 || size > uint64(len(in)-n) {
		return "", nil, false
	}
	return string(in[n : n+int(size)]), in[n+int(size):], true
}
