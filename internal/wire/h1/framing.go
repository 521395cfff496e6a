package h1

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// noted is the set of the fields that note handles.
const noted = 1<<field.ContentLength | 1<<field.TransferEncoding | 1<<field.Connection | 1<<field.Expect

// note applies a field that frames the message or concerns the connection. It is
// called in the order of the field lines.
func (p *HeadParser) note(id field.ID, value []byte) error {
	if p.AnswersConnect && p.StatusCode/100 == 2 && (id == field.ContentLength || id == field.TransferEncoding) {
		return nil
	}
	switch id {
	case field.ContentLength:
		return p.NoteLength(p.Role, value)
	case field.TransferEncoding:
		p.noteCoding(value)
	case field.Connection:
		p.noteConnection(value)
	case field.Expect:
		if p.Role == Requests && p.Minor != 0 { // RFC 9110 section 10.1.1
			return p.NoteExpect(value)
		}
	}
	return nil
}

// NoteLength reads Content-Length, which consists of digits. In a response, a list or
// several fields are accepted if all members are equal. In a request they are
// refused, which RFC 9112 section 6.3 permits: no client needs them, and servers
// behind a proxy read them differently.
func (h *Head) NoteLength(role Role, value []byte) error {
	for {
		member, rest, more := cutComma(value)
		n, ok := parseLength(member)
		if !ok {
			return ErrContentLength
		}
		if h.Has(HasLength) && (role == Requests || n != h.ContentLength) {
			return ErrContentLengthConflict
		}
		h.ContentLength = n
		h.Flags |= HasLength
		if !more {
			return nil
		}
		value = rest
	}
}

// parseLength reads 1*DIGIT without overflow.
func parseLength(s []byte) (n int64, ok bool) {
	if len(s) == 0 {
		return 0, false
	}
	for _, c := range s {
		digit := int64(c - '0')
		if !ascii.Is(c, ascii.Digit) || n > (1<<63-1-digit)/10 {
			return 0, false
		}
		n = n*10 + digit
	}
	return n, true
}

// cutComma splits a list at its first comma and trims the first member.
func cutComma(list []byte) (member, rest []byte, more bool) {
	if i := bytes.IndexByte(list, ','); i >= 0 {
		return ascii.TrimOWS(list[:i]), list[i+1:], true
	}
	return ascii.TrimOWS(list), nil, false
}

// noteCoding reads Transfer-Encoding. Only a single "chunked" is accepted. For other
// values the flags decide which error the message gets.
func (p *HeadParser) noteCoding(value []byte) {
	if p.Has(hasCoding) {
		p.Flags |= badCoding
	}
	p.Flags |= hasCoding
	if ascii.EqualFold(value, "chunked") {
		p.Flags |= ChunkedBody
		return
	}
	for more := len(value) > 0; more; {
		var member []byte
		member, value, more = cutComma(value)
		name := member
		if i := bytes.IndexAny(member, "; \t"); i >= 0 {
			name = member[:i]
		}
		switch {
		case len(name) == 0 || !ascii.All(name, ascii.Token):
			p.Flags |= badCoding
		case ascii.EqualFold(name, "chunked") && (more || len(name) != len(member)),
			ascii.EqualFold(name, "identity"):
			p.Flags |= badCoding
		case !ascii.EqualFold(name, "chunked"):
			p.Flags |= unknownCoding
		}
	}
	if !p.Has(badCoding | unknownCoding) {
		p.Flags |= badCoding
	}
}

// noteConnection reads the options of a Connection field (RFC 9110 section
// 7.6.1).
func (p *HeadParser) noteConnection(value []byte) {
	p.Flags |= ConnectionOptions(value)
}

// ConnectionOptions returns the ConnectionX flags for the options in a Connection
// field's value.
func ConnectionOptions(value []byte) (f Flags) {
	for more := true; more; {
		var member []byte
		member, value, more = cutComma(value)
		switch {
		case ascii.EqualFold(member, "close"):
			f |= ConnectionClose
		case ascii.EqualFold(member, "keep-alive"):
			f |= ConnectionKeepAlive
		case ascii.EqualFold(member, "upgrade"):
			f |= ConnectionUpgrade
		}
	}
	return f
}

// NoteExpect reads Expect, which only requests have (RFC 9110 section 10.1.1).
func (h *Head) NoteExpect(value []byte) error {
	if !ascii.EqualFold(value, "100-continue") {
		return ErrExpectation
	}
	h.Flags |= ExpectContinue
	return nil
}

// finish makes the checks that need the whole head, for one that is not recalled.
func (p *HeadParser) finish(t *field.Table) error {
	if p.Has(hasCoding) {
		if err := p.checkCoding(); err != nil {
			return err
		}
	}
	if p.Role == Responses {
		if p.Last != nil {
			p.keep(t)
		}
		return nil
	}
	if err := p.checkHost(t); err != nil {
		return err
	}
	if HasTwoCredentials(t) {
		return ErrTwoCredentials
	}
	if p.Opening != nil && p.Minor > 0 {
		p.remember(t)
	}
	return nil
}

// HasTwoCredentials reports whether a request has several Authorization fields, which are no
// list (RFC 9110 section 11.6.2): one program would check the first, another one the last.
func HasTwoCredentials(t *field.Table) bool { return t.Repeats(field.Authorization) }

func (p *HeadParser) checkCoding() error {
	switch {
	case p.Minor == 0:
		return ErrTransferCodingHTTP10
	case p.Has(HasLength):
		return ErrLengthAndCoding
	case p.Has(badCoding):
		return ErrTransferCoding
	case p.Has(unknownCoding):
		return ErrTransferCodingUnknown
	}
	return nil
}

// checkHost: exactly one valid Host in HTTP/1.1, at most one in HTTP/1.0 (RFC
// 9112 section 3.2).
func (p *HeadParser) checkHost(t *field.Table) error {
	i := t.Index(field.Host)
	if i < 0 {
		if p.Minor == 0 {
			return nil
		}
		return ErrHostMissing
	}
	if t.FindID(field.Host, i+1) >= 0 {
		return ErrHostDuplicate
	}
	if i >= p.recalled && !ValidHost(t.Value(i)) {
		return ErrHost
	}
	return nil
}
