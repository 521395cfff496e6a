package h1

import "github.com/sluicehttp/sluice/internal/wire/ascii"

// An extensionPart is a place in chunk-ext (RFC 9112 section 7.1.1):
//
//	*( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
type extensionPart uint8

const (
	malformedExtension extensionPart = iota
	beforeName
	inExtensionName
	afterName // white space was seen
	beforeValue
	inExtensionValue
	quoted
	quotedPair
	behindQuoted
	afterValue // white space was seen
)

// next returns the part after b. The end of a line never leads to another part.
func (p extensionPart) next(b byte) extensionPart {
	isBlank := b == ' ' || b == '\t'
	switch {
	case p == quoted:
		return nextQuoted(b)
	case p == quotedPair && ascii.Is(b, ascii.Value):
		return quoted
	case p == quotedPair:
		return malformedExtension
	case isBlank && (p == beforeName || p == beforeValue):
		return p
	case isBlank && (p == inExtensionName || p == afterName):
		return afterName
	case isBlank:
		return afterValue
	case b == ';' && p != beforeName && p != beforeValue:
		return beforeName
	case b == '=' && (p == inExtensionName || p == afterName):
		return beforeValue
	case b == '"' && p == beforeValue:
		return quoted
	case !ascii.Is(b, ascii.Token):
		return malformedExtension
	case p == beforeName || p == inExtensionName:
		return inExtensionName
	case p == beforeValue || p == inExtensionValue:
		return inExtensionValue
	}
	return malformedExtension
}

// nextQuoted is next within a quoted-string (RFC 9110 section 5.6.4).
func nextQuoted(b byte) extensionPart {
	switch {
	case b == '"':
		return behindQuoted
	case b == '\\':
		return quotedPair
	case ascii.Is(b, ascii.Quoted):
		return quoted
	}
	return malformedExtension
}
