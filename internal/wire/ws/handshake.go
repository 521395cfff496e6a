package ws

import (
	"crypto/sha1"
	"encoding/base64"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// The names and values of the handshake (RFC 6455 section 4).
const (
	Version = "13"
	Token   = "websocket" // of the field Upgrade

	FieldKey        = "Sec-WebSocket-Key"
	FieldAccept     = "Sec-WebSocket-Accept"
	FieldVersion    = "Sec-WebSocket-Version"
	FieldProtocol   = "Sec-WebSocket-Protocol"
	FieldExtensions = "Sec-WebSocket-Extensions"

	// KeySize is the number of random bytes in a key.
	KeySize = 16
	// KeyLength is the length of a key in its field.
	KeyLength = 24

	// keyGUID follows the key in what is hashed (RFC 6455 section 1.3).
	keyGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
)

// ParseKey decodes a Sec-WebSocket-Key. ok is false if it is not the form of 16 bytes in
// base64.
func ParseKey(key []byte) (nonce [KeySize]byte, ok bool) {
	if len(key) != KeyLength {
		return nonce, false
	}
	var decoded [KeyLength]byte
	n, err := base64.StdEncoding.Decode(decoded[:], key)
	if n != KeySize || err != nil {
		return nonce, false
	}
	return [KeySize]byte(decoded[:KeySize]), true
}

// AppendKey appends the Sec-WebSocket-Key of nonce.
func AppendKey(dst []byte, nonce [KeySize]byte) []byte {
	return base64.StdEncoding.AppendEncode(dst, nonce[:])
}

// AppendAccept appends the Sec-WebSocket-Accept that answers key.
func AppendAccept(dst, key []byte) []byte {
	var text [KeyLength + len(keyGUID)]byte
	sum := sha1.Sum(append(append(text[:0], key...), keyGUID...))
	return base64.StdEncoding.AppendEncode(dst, sum[:])
}

// HasToken reports whether a list of tokens, separated by commas, has token. It ignores
// case. token must not contain commas.
func HasToken(list []byte, token string) bool {
	for len(list) > 0 {
		var member []byte
		if member, list = NextMember(list, ','); ascii.EqualFold(member, token) {
			return true
		}
	}
	return false
}

// NextMember returns the first member of a list without the space around it, and the rest
// of the list. The separator does not count in quoted strings.
func NextMember(list []byte, separator byte) (member, rest []byte) {
	isQuoted := false
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '"':
			isQuoted = !isQuoted
		case c == '\\' && isQuoted:
			i++ // a quoted pair
		case c == separator && !isQuoted:
			return ascii.TrimOWS(list[:i]), list[i+1:]
		}
	}
	return ascii.TrimOWS(list), nil
}
