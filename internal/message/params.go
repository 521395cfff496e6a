package message

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// VisitParams calls f with each parameter of a field value; see
// sluice.VisitHeaderParams.
func VisitParams(b []byte, f func(key, value []byte) bool) {
	for {
		var found bool
		if _, b, found = ascii.Cut(b, ';'); !found {
			return
		}
		b = bytes.TrimLeft(b, "; \t")
		key, value, rest, ok := cutParameter(b)
		if !ok || !f(key, value) {
			return
		}
		b = rest
	}
}

// cutParameter cuts the parameter that b begins with.
func cutParameter(b []byte) (key, value, rest []byte, ok bool) {
	n := tokenLength(b)
	if n == 0 || n == len(b) || b[n] != '=' {
		return nil, nil, nil, false
	}
	key, b = b[:n], b[n+1:]
	if len(b) > 0 && b[0] == '"' {
		end := quotedLength(b[1:])
		if end < 0 {
			return nil, nil, nil, false
		}
		return key, b[1 : end+1], b[end+2:], true
	}
	n = tokenLength(b)
	return key, b[:n], b[n:], n > 0
}

func tokenLength(b []byte) int {
	n := 0
	for n < len(b) && ascii.Is(b[n], ascii.Token) {
		n++
	}
	return n
}

// quotedLength returns the number of bytes before the quote that ends b, -1 if
// there is none.
func quotedLength(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// cutFormParameter cuts the first parameter of a media type (RFC 9110 section
// 5.6.6). It is more tolerant than VisitParams, because many boundaries contain
// characters that require quotes, but are sent without quotes. A parameter with
// a blank before the "=" has no value; one after it belongs to the value.
func cutFormParameter(parameters []byte) (key, value, rest []byte) {
	equals := bytes.IndexByte(parameters, '=')
	semicolon := bytes.IndexByte(parameters, ';')
	if equals < 0 || 0 <= semicolon && semicolon < equals {
		key, rest, _ = ascii.Cut(parameters, ';')
		return ascii.TrimOWS(key), nil, rest
	}
	key = bytes.TrimLeft(parameters[:equals], " \t")
	value, rest = cutFormValue(parameters[equals+1:])
	if trimmed := ascii.TrimOWS(key); len(trimmed) < len(key) {
		return trimmed, nil, rest
	}
	return key, value, rest
}

// cutFormValue cuts the value that b begins with. Quotes that are not all of it
// are part of it.
func cutFormValue(b []byte) (value, rest []byte) {
	at := 0 // from where on a semicolon ends the value
	blanks := len(b) - len(bytes.TrimLeft(b, " \t"))
	if blanks < len(b) && b[blanks] == '"' {
		n := quotedLength(b[blanks+1:])
		if n < 0 {
			return ascii.TrimOWS(b), nil
		}
		at = blanks + n + 2
	}
	after, rest, _ := ascii.Cut(b[at:], ';')
	if at > 0 && blanks == 0 && len(ascii.TrimOWS(after)) == 0 {
		return b[1 : at-1], rest
	}
	return bytes.TrimRight(b[:at+len(after)], " \t"), rest
}
