package message

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
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
// characters that require quotes, but are sent without quotes.
func cutFormParameter(parameters []byte) (key, value, rest []byte) {
	equals := bytes.IndexByte(parameters, '=')
	semicolon := bytes.IndexByte(parameters, ';')
	if equals < 0 || 0 <= semicolon && semicolon < equals {
		key, rest, _ = ascii.Cut(parameters, ';')
		return ascii.TrimOWS(key), nil, rest
	}
	key, value = ascii.TrimOWS(parameters[:equals]), ascii.TrimOWS(parameters[equals+1:])
	if len(value) > 0 && value[0] == '"' {
		if end := quotedLength(value[1:]); end >= 0 {
			_, rest, _ = ascii.Cut(value[end+2:], ';')
			return key, value[1 : end+1], rest
		}
	}
	value, rest, _ = ascii.Cut(value, ';')
	return key, ascii.TrimOWS(value), rest
}
