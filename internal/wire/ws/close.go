package ws

import (
	"encoding/binary"
	"unicode/utf8"
)

// A Code says why a connection is closed (RFC 6455 section 7.4).
type Code uint16

// The codes of RFC 6455 section 7.4.1 and of the registry of IANA.
const (
	CodeNormal         Code = 1000
	CodeGoingAway      Code = 1001 // the server shuts down, or the browser leaves the page
	CodeProtocolError  Code = 1002
	CodeUnsupported    Code = 1003 // data of this kind is not accepted
	CodeNone           Code = 1005 // the Close frame had no code; never sent
	CodeAbnormal       Code = 1006 // the connection ended without a Close frame; never sent
	CodeInvalidText    Code = 1007 // a text is not UTF-8
	CodePolicy         Code = 1008
	CodeTooLarge       Code = 1009
	CodeExtension      Code = 1010 // the client needs an extension that the server does not offer
	CodeInternal       Code = 1011
	CodeServiceRestart Code = 1012
	CodeTryAgain       Code = 1013 // the server is overloaded
	CodeBadGateway     Code = 1014
	CodeTLS            Code = 1015 // never sent
)

// MaxReason is the largest reason of a Close frame, in bytes.
const MaxReason = MaxControl - 2

// MaySend reports whether a Close frame may have the code: codes of the registry, except
// 1005, 1006 and 1015, and those for libraries and applications, 3000 to 4999.
func (c Code) MaySend() bool {
	switch {
	case c >= CodeNormal && c <= CodeUnsupported, c >= CodeInvalidText && c <= CodeBadGateway:
		return true
	}
	return c >= 3000 && c < 5000
}

// ParseClose parses the body of a Close frame (RFC 6455 section 5.5.1). An empty body has
// the code CodeNone. reason is a part of body.
func ParseClose(body []byte) (code Code, reason []byte, err error) {
	switch {
	case len(body) == 0:
		return CodeNone, nil, nil
	case len(body) < 2:
		return 0, nil, ErrClose
	}
	code, reason = Code(binary.BigEndian.Uint16(body)), body[2:]
	switch {
	case !code.MaySend():
		return 0, nil, ErrClose
	case !utf8.Valid(reason):
		return 0, nil, ErrCloseText
	}
	return code, reason, nil
}

// AppendClose appends the body of a Close frame. With CodeNone it is empty. A reason of
// more than MaxReason bytes is cut between two characters. code must be one that
// MaySend, and reason must be UTF-8.
func AppendClose(dst []byte, code Code, reason string) []byte {
	if code == CodeNone {
		return dst
	}
	if len(reason) > MaxReason {
		end := MaxReason
		for !utf8.RuneStart(reason[end]) {
			end--
		}
		reason = reason[:end]
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(code)), reason...)
}
