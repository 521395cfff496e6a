package h2

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A flaw is what is wrong with a single field, in whatever message it is. Entries of
// the dynamic table have theirs, so that a field is examined once.
type flaw uint8

const (
	noFlaw flaw = iota
	flawName
	flawValue
	flawConnection
	flawTE
	flawUnknown
	flawMethod
	flawScheme
	flawPath
	flawAuthority
	flawStatus
	flawProtocol
)

// flawErrors has the error of each flaw.
var flawErrors = [...]*Error{
	flawName: ErrFieldName, flawValue: ErrFieldValue, flawConnection: ErrConnectionOnly,
	flawTE: ErrTE, flawUnknown: ErrPseudoUnknown, flawMethod: ErrMethod, flawScheme: ErrScheme,
	flawPath: ErrPath, flawAuthority: ErrAuthority, flawStatus: ErrStatus, flawProtocol: ErrProtocol,
}

// connectionOnly is the set of the known fields that concern a connection (RFC 9113
// section 8.2.2).
const connectionOnly uint64 = 1<<field.Connection | 1<<field.KeepAlive | 1<<field.TransferEncoding | 1<<field.Upgrade

// isConnectionOnly reports whether HTTP/2 forbids a field of that name, in any case.
func isConnectionOnly(id field.ID, name []byte) bool {
	if id != field.Other {
		return connectionOnly>>id&1 != 0
	}
	return len(name) == len("proxy-connection") && ascii.EqualFold(name, "proxy-connection")
}

// nameFlaw examines a name that was sent as a string.
func nameFlaw(code fieldCode, name []byte) flaw {
	if code.isPseudo() {
		if code == pseudoUnknown {
			return flawUnknown
		}
		return noFlaw
	}
	for _, c := range name {
		if !ascii.Is(c, ascii.Token) || 'A' <= c && c <= 'Z' {
			return flawName
		}
	}
	if len(name) == 0 {
		return flawName
	}
	return noFlaw
}

// fieldFlaw examines a field whose name has n.flaw. name may be absent if it is in the
// static table.
func fieldFlaw(n fieldName, name, value []byte) flaw {
	switch {
	case n.flaw != noFlaw:
		return n.flaw
	case n.code.isPseudo():
		return pseudoFlaw(n.code, value)
	case isConnectionOnly(field.ID(n.code), name):
		return flawConnection
	case string(name) == "te" && !ascii.EqualFold(value, "trailers"):
		return flawTE
	case !h1.IsFieldValue(value):
		return flawValue
	}
	return noFlaw
}

// pseudoFlaw examines the value of a pseudo-field (RFC 9113 sections 8.3.1, 8.3.2).
func pseudoFlaw(code fieldCode, value []byte) flaw {
	switch code {
	case pseudoMethod:
		return flawUnless(h1.IsToken(value), flawMethod)
	case pseudoScheme:
		return flawUnless(isScheme(value), flawScheme)
	case pseudoPath:
		isPath := len(value) > 0 && value[0] == '/' && h1.IsPath(value)
		return flawUnless(isPath || string(value) == "*", flawPath)
	case pseudoAuthority:
		return flawUnless(h1.ValidHost(value), flawAuthority)
	case pseudoStatus:
		isStatus := len(value) == 3 && value[0] != '0' && ascii.All(value, ascii.Digit)
		return flawUnless(isStatus, flawStatus)
	case pseudoProtocol:
		return flawUnless(h1.IsToken(value), flawProtocol)
	}
	return flawUnknown
}

func flawUnless(isValid bool, f flaw) flaw {
	if isValid {
		return noFlaw
	}
	return f
}

// isScheme reports whether s is a scheme (RFC 3986 section 3.1).
func isScheme(s []byte) bool {
	for i, c := range s {
		isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !isLetter && (i == 0 || !ascii.Is(c, ascii.Digit) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return len(s) > 0
}

// staticFlaws are the flaws of the static table's fields.
var staticFlaws = func() (flaws [len(staticFields)]flaw) {
	for i := range staticFields {
		if i > 0 {
			f := &staticFields[i]
			flaws[i] = fieldFlaw(fieldName{code: f.code}, []byte(f.name), []byte(f.value))
		}
	}
	return flaws
}()

// A FieldBlock is what a field block is the list of.
type FieldBlock uint8

const (
	// RequestBlock: the head of a request.
	RequestBlock FieldBlock = iota
	// ResponseBlock: the head of a response.
	ResponseBlock
	// TrailerBlock: trailer fields.
	TrailerBlock
	// UnwantedBlock: no message has it. It is decoded because the tables of both
	// sides must agree; nothing is stored.
	UnwantedBlock
)

// A Head is what the pseudo-fields and the framing fields of a message say. The spans
// are ranges of Raw of the message's table. For a request, Method, Target (the path,
// or the authority of CONNECT) and Authority are as those of HTTP/1.1.
type Head struct {
	h1.Head
	Scheme h1.Span
	// Connect is :protocol of an extended CONNECT (RFC 8441), otherwise empty.
	Connect h1.Span
	has     uint8 // a bit for each pseudo-field
}

func (h *Head) hasPseudo(code fieldCode) bool { return h.has>>(code-pseudoAuthority)&1 != 0 }

// notePseudo stores a pseudo-field without flaws. value is its place in raw.
func (h *Head) notePseudo(code fieldCode, value h1.Span, raw []byte) {
	h.has |= 1 << (code - pseudoAuthority)
	switch code {
	case pseudoMethod:
		h.Method = value
	case pseudoScheme:
		h.Scheme = value
	case pseudoPath:
		h.Target = value
	case pseudoAuthority:
		h.Authority = value
	case pseudoProtocol:
		h.Connect = value
	case pseudoStatus:
		for _, c := range value.In(raw) {
			h.StatusCode = h.StatusCode*10 + int(c-'0')
		}
	}
}

// isExpected reports whether the message may have the pseudo-field.
func (b FieldBlock) isExpected(code fieldCode, acceptsConnect bool) bool {
	switch b {
	case RequestBlock:
		return code != pseudoStatus && (code != pseudoProtocol || acceptsConnect)
	case ResponseBlock:
		return code == pseudoStatus
	}
	return false
}

// finishRequest makes the checks that need the whole list (RFC 9113 sections 8.3.1
// and 8.5, RFC 8441 section 4). A request without a Host field gets the authority as
// its Host.
func (h *Head) finishRequest(t *field.Table) error {
	raw := t.Raw()
	switch {
	case !h.hasPseudo(pseudoMethod):
		return ErrPseudoMissing
	case string(h.Method.In(raw)) == "CONNECT":
		if err := h.finishConnect(raw); err != nil {
			return err
		}
	case h.hasPseudo(pseudoProtocol):
		return ErrPseudoForbidden
	case !h.hasPseudo(pseudoScheme) || !h.hasPseudo(pseudoPath):
		return ErrPseudoMissing
	case string(h.Target.In(raw)) == "*" && string(h.Method.In(raw)) != "OPTIONS":
		return ErrPath
	}
	if h.hasPseudo(pseudoScheme) {
		if s := h.Scheme.In(raw); !ascii.EqualFold(s, "https") && !ascii.EqualFold(s, "http") {
			return h1.ErrMisdirected
		}
	}
	if h1.HasTwoCredentials(t) {
		return h1.ErrTwoCredentials
	}
	return h.finishHost(t, raw)
}

// finishConnect: CONNECT has only an authority, with a port; extended CONNECT has all
// pseudo-fields.
func (h *Head) finishConnect(raw []byte) error {
	isPlain := !h.hasPseudo(pseudoProtocol)
	switch {
	case !h.hasPseudo(pseudoAuthority):
		return ErrPseudoMissing
	case isPlain && (h.hasPseudo(pseudoScheme) || h.hasPseudo(pseudoPath)):
		return ErrPseudoForbidden
	case isPlain && !h1.HasPort(h.Authority.In(raw)):
		return ErrAuthority
	case isPlain:
		h.Target = h.Authority
		h.Flags |= h1.AuthorityForm
	case !h.hasPseudo(pseudoScheme) || !h.hasPseudo(pseudoPath):
		return ErrPseudoMissing
	case string(h.Target.In(raw)) == "*":
		return ErrPath
	}
	return nil
}

// finishHost: a request has an authority or a Host field, or both with one value.
func (h *Head) finishHost(t *field.Table, raw []byte) error {
	authority := h.Authority.In(raw)
	i := t.Index(field.Host)
	switch {
	case i < 0 && !h.hasPseudo(pseudoAuthority):
		return ErrNoAuthority
	case i < 0 && t.KeepNames:
		name := len(raw)
		t.Append([]byte("host"))
		t.PushParsed(field.Host, name, name+len("host"), h.Authority.Start, h.Authority.End)
	case i < 0:
		t.PushParsed(field.Host, 0, 0, h.Authority.Start, h.Authority.End)
	case t.FindID(field.Host, i+1) >= 0:
		return ErrHostDisagrees
	case !h.hasPseudo(pseudoAuthority):
		return hostError(t.Value(i))
	case !ascii.EqualFold(t.Value(i), authority):
		return ErrHostDisagrees
	}
	return nil
}

func hostError(host []byte) error {
	if !h1.ValidHost(host) {
		return ErrAuthority
	}
	return nil
}

// finishResponse: a response has a status; 101 has no meaning in HTTP/2 (RFC 9113
// section 8.6).
func (h *Head) finishResponse() error {
	switch {
	case !h.hasPseudo(pseudoStatus):
		return ErrPseudoMissing
	case h.StatusCode == 101:
		return ErrStatus
	}
	return nil
}
