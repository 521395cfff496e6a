package h1

import (
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A Role says which side's messages a parser reads. They differ in the start line, in
// obs-fold (joined in a response, RFC 9112 section 5.2; refused in a request) and in
// the meaning of the framing fields.
type Role uint8

const (
	// Requests: for a server.
	Requests Role = iota
	// Responses: for a client.
	Responses
)

// Limits bound a head. All fields must be positive.
type Limits struct {
	MaxLine   int // bytes of the request line, without its CRLF
	MaxHead   int // bytes of the whole head
	MaxFields int // number of field lines
}

// DefaultLimits: RFC 9112 section 3 recommends at least 8000 octets for the request
// line.
var DefaultLimits = Limits{MaxLine: 8 << 10, MaxHead: 64 << 10, MaxFields: 200}

// A Span is a range of bytes in the raw head.
type Span struct{ Start, End int }

// In returns the bytes of the span.
func (s Span) In(raw []byte) []byte { return raw[s.Start:s.End:s.End] }

// Flags describe a message and its connection, as far as its head says.
type Flags uint16

const (
	// ChunkedBody: the body is in the chunked coding.
	ChunkedBody Flags = 1 << iota
	// HasLength: Content-Length is present; see Head.ContentLength.
	HasLength
	// ConnectionClose: Connection lists close.
	ConnectionClose
	// ConnectionKeepAlive: Connection lists keep-alive.
	ConnectionKeepAlive
	// ConnectionUpgrade: Connection lists upgrade.
	ConnectionUpgrade
	// ExpectContinue: Expect is 100-continue.
	ExpectContinue
	// AbsoluteForm: the request target has scheme and authority.
	AbsoluteForm
	// AuthorityForm: the request is CONNECT; its target is host and port.
	AuthorityForm
	// MethodGet: the method is GET.
	MethodGet
	hasCoding
	badCoding
	unknownCoding
)

// A Head is the result of parsing a complete head, besides its fields.
type Head struct {
	Method, Target Span // Requests
	Reason         Span // Responses
	Protocol       Span
	Authority      Span // of the target in absolute and authority form
	Fields         Span // the field lines, with the CRLF that ends the head
	ContentLength  int64
	StatusCode     int
	Flags          Flags
	Minor          uint8 // 0 for HTTP/1.0, 1 for 1.1 and above
}

// Has reports whether any of the flags f is set.
func (h *Head) Has(f Flags) bool { return h.Flags&f != 0 }

// KeepsAlive reports whether the connection persists after this message, according to
// its head (RFC 9112 section 9.3): close takes precedence over keep-alive, and
// HTTP/1.0 closes by default.
func (h *Head) KeepsAlive() bool {
	if h.Has(ConnectionClose) {
		return false
	}
	return h.Minor > 0 || h.Has(ConnectionKeepAlive)
}

// A phase is what the parser reads next. The order is that of the bytes.
type phase uint8

const (
	atStart phase = iota // before the start line; empty lines are skipped
	inMethod
	inTarget
	inQuery // of the target
	inVersion
	inStatus // from the version of a response to its status code
	inReason
	atField // at the start of a field line or of the last line
	inName
	inValue
)

// A HeadParser reads one head, which may arrive in any pieces. The zero value with
// Limits is ready. Reset prepares it for the next head. After an error only Reset may
// be called.
//
// Every check depends only on bytes up to one position, and is made as soon as these
// have arrived. So the result does not depend on how the input is cut, and an input
// that cannot become a valid head is refused at once. Each byte is checked once;
// p.seen is the position to continue from.
type HeadParser struct {
	Head
	Limits  Limits
	Role    Role
	Opening *Opening  // of requests; nil: each line is parsed
	Last    *LastHead // of responses; nil: each line is parsed
	// AnswersConnect: the request was CONNECT. In a successful response, Content-Length and
	// Transfer-Encoding mean nothing then (RFC 9110 section 9.3.6).
	AnswersConnect bool
	phase          phase
	emptyLines     uint8
	isTrailer      bool // a trailer section: fields without a meaning for the framing
	line           int  // where the current line starts
	seen           int  // where the first unchecked byte is
	colon          int  // where the current field's name ends
	id             field.ID
	recalled       int // number of fields that are from Opening or Last
}

// Reset prepares for the next head. Limits, Role, Opening, Last and AnswersConnect stay.
func (p *HeadParser) Reset() {
	p.Head = Head{}
	p.phase, p.emptyLines, p.isTrailer = atStart, 0, false
	p.line, p.seen, p.recalled = 0, 0, 0
}

// ResetTrailer prepares for the trailer section after a chunked body. Parse then
// needs a separate, empty table.
func (p *HeadParser) ResetTrailer() {
	p.Reset()
	p.phase = atField
	p.isTrailer = true
}

// Parse reads from in, which continues the input of earlier calls. It keeps the raw
// head in t, which must be empty at the first call, and adds the fields to it. If the
// head is complete, done is true, and used is the number of bytes of in that belong
// to it. Otherwise all of in is used.
func (p *HeadParser) Parse(t *field.Table, in []byte) (used int, done bool, err error) {
	kept := len(t.Raw())
	if p.Last != nil && kept == 0 {
		if used := p.recallHead(t, in); used > 0 {
			return used, true, nil
		}
	}
	if room := p.Limits.MaxHead - kept; len(in) > room {
		in = in[:max(room, 0)]
	}
	raw := in
	if kept > 0 {
		t.Append(in)
		raw = t.Raw()
	}
	end, err := p.parse(t, raw)
	switch {
	case err != nil:
		return 0, false, err
	case end == 0 && len(raw) >= p.Limits.MaxHead:
		return 0, false, p.tooLarge()
	case end == 0:
		if len(t.Raw()) == 0 {
			t.Append(raw)
		}
		return len(raw) - kept, false, nil
	}
	if len(t.Raw()) == 0 { // parsed in the caller's buffer: one copy, at the end
		t.Append(raw[:end])
	}
	t.Seal(end)
	switch {
	case p.isRecalled(t):
		p.Opening.wait = openingLife
	case p.isTrailer:
	default:
		if err := p.finish(t); err != nil {
			return 0, false, err
		}
	}
	return end - kept, true, nil
}

// tooLarge returns the error for the limit that the head exceeds.
func (p *HeadParser) tooLarge() error {
	switch {
	case p.isTrailer:
		return ErrTrailerTooLarge
	case p.phase < atField:
		return ErrLineTooLong
	}
	return ErrHeadTooLarge
}

// parse continues where it stopped. It returns where the head ends, or 0 if the end
// has not arrived yet.
func (p *HeadParser) parse(t *field.Table, raw []byte) (end int, err error) {
	if p.phase < atField {
		done, err := false, error(nil)
		switch {
		case p.Role == Responses:
			done, err = p.statusLine(raw)
		case p.phase == atStart && p.plainGet(raw):
			done = true
		default:
			done, err = p.requestLine(raw)
		}
		if !done || err != nil {
			return 0, err
		}
		p.phase = atField
		p.line = p.seen
		p.Fields.Start = p.seen
		switch {
		case p.Opening.isPromising() && p.Minor > 0:
			p.recall(t, raw)
		case p.Last != nil:
			if err := p.recallLines(t, raw); err != nil {
				return 0, err
			}
		}
	}
	if end := p.line + len("\r\n"); p.phase == atField && end <= len(raw) && string(raw[p.line:end]) == "\r\n" { // as fieldLines does, without a call if all were recalled
		p.Fields.End = end
		return end, nil
	}
	return p.fieldLines(t, raw)
}
