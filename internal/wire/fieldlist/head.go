package fieldlist

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A Kind is what a List is the list of.
type Kind uint8

const (
	// Request: the head of a request.
	Request Kind = iota
	// Response: the head of a response.
	Response
	// Trailer: trailer fields.
	Trailer
	// Unwanted: no message has it. It is decoded because the tables of both sides must
	// agree; nothing is stored.
	Unwanted
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

// HasPseudo reports whether the list has a pseudo-field.
func (h *Head) HasPseudo(code Code) bool { return h.has>>(code-PseudoAuthority)&1 != 0 }

// notePseudo stores a valid pseudo-field. value is its place in raw.
func (h *Head) notePseudo(code Code, value h1.Span, raw []byte) {
	h.has |= 1 << (code - PseudoAuthority)
	switch code {
	case PseudoMethod:
		h.Method = value
	case PseudoScheme:
		h.Scheme = value
	case PseudoPath:
		h.Target = value
	case PseudoAuthority:
		h.Authority = value
	case PseudoProtocol:
		h.Connect = value
	case PseudoStatus:
		for _, c := range value.In(raw) {
			h.StatusCode = h.StatusCode*10 + int(c-'0')
		}
	}
}

// isExpected reports whether the message may have the pseudo-field.
func (k Kind) isExpected(code Code, acceptsConnect bool) bool {
	switch k {
	case Request:
		return code != PseudoStatus && (code != PseudoProtocol || acceptsConnect)
	case Response:
		return code == PseudoStatus
	}
	return false
}

// finishRequest makes the checks that need the whole list (RFC 9113 sections 8.3.1
// and 8.5, RFC 8441 section 4, RFC 9114 sections 4.3.1 and 4.4). A request without a Host field gets the authority as
// its Host.
func (h *Head) finishRequest(t *field.Table) error {
	raw := t.Raw()
	switch {
	case !h.HasPseudo(PseudoMethod):
		return ErrPseudoMissing
	case string(h.Method.In(raw)) == "CONNECT":
		if err := h.finishConnect(raw); err != nil {
			return err
		}
	case h.HasPseudo(PseudoProtocol):
		return ErrPseudoForbidden
	case !h.HasPseudo(PseudoScheme) || !h.HasPseudo(PseudoPath):
		return ErrPseudoMissing
	case string(h.Target.In(raw)) == "*" && string(h.Method.In(raw)) != "OPTIONS":
		return ErrPath
	}
	if h.HasPseudo(PseudoScheme) {
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
	isPlain := !h.HasPseudo(PseudoProtocol)
	switch {
	case !h.HasPseudo(PseudoAuthority):
		return ErrPseudoMissing
	case isPlain && (h.HasPseudo(PseudoScheme) || h.HasPseudo(PseudoPath)):
		return ErrPseudoForbidden
	case isPlain && !h1.HasPort(h.Authority.In(raw)):
		return ErrAuthority
	case isPlain:
		h.Target = h.Authority
		h.Flags |= h1.AuthorityForm
	case !h.HasPseudo(PseudoScheme) || !h.HasPseudo(PseudoPath):
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
	case i < 0 && !h.HasPseudo(PseudoAuthority):
		return ErrNoAuthority
	case i < 0 && t.KeepNames:
		name := len(raw)
		t.Append([]byte("host"))
		t.PushParsed(field.Host, name, name+len("host"), h.Authority.Start, h.Authority.End)
	case i < 0:
		t.PushParsed(field.Host, 0, 0, h.Authority.Start, h.Authority.End)
	case t.FindID(field.Host, i+1) >= 0:
		return ErrHostDisagrees
	case !h.HasPseudo(PseudoAuthority):
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

// finishResponse: a response has a status; 101 has no meaning in HTTP/2 and HTTP/3 (RFC
// 9113 section 8.6, RFC 9114 section 4.5).
func (h *Head) finishResponse() error {
	switch {
	case !h.HasPseudo(PseudoStatus):
		return ErrPseudoMissing
	case h.StatusCode == 101:
		return ErrStatus
	}
	return nil
}
