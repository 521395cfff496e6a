package upgrade

import "encoding/binary"

// stateMark is the first byte of the packed state of a connection that has left HTTP/1.1
// for a Protocol of this package. The state of HTTP/2 begins with another one.
const stateMark = 'u'

// MaxName is the longest result of Family.Name.
const MaxName = 255

// AppendState appends what the state of a connection of a Family begins with. A Protocol
// that is an engine.Packer appends its own state to it, which Host.Unpack gets.
func AppendState(dst []byte, name string) []byte {
	return append(append(dst, stateMark, byte(len(name))), name...)
}

// ParseState is the reverse of AppendState. rest is the Protocol's own state; ok is false
// if state is that of another protocol, or damaged.
func ParseState(state []byte) (name string, rest []byte, ok bool) {
	if len(state) < 2 || state[0] != stateMark || len(state) < 2+int(state[1]) {
		return "", nil, false
	}
	at := 2 + int(state[1])
	return string(state[2:at]), state[at:], true
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
