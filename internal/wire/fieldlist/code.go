package fieldlist

import "github.com/sluicehttp/sluice/internal/wire/field"

// A Code is a field.ID or, from PseudoAuthority on, a pseudo-field.
type Code uint8

// The codes beside those of the known fields.
const (
	Other           = Code(field.Other)
	PseudoAuthority = Code(0x80) + iota - 1
	PseudoMethod
	PseudoPath
	PseudoScheme
	PseudoStatus
	PseudoProtocol
	PseudoNone // a name that begins with a colon, and is none of these
)

// IsPseudo reports whether the code is that of a pseudo-field.
func (c Code) IsPseudo() bool { return c >= PseudoAuthority }

// CodeOf returns the code of a name in lower case.
func CodeOf(name []byte) Code {
	if len(name) == 0 || name[0] != ':' {
		return Code(field.Lookup(name))
	}
	switch string(name) {
	case ":authority":
		return PseudoAuthority
	case ":method":
		return PseudoMethod
	case ":path":
		return PseudoPath
	case ":scheme":
		return PseudoScheme
	case ":status":
		return PseudoStatus
	case ":protocol":
		return PseudoProtocol
	}
	return PseudoNone
}
