package h1

import (
	"github.com/sluicehttp/sluice/internal/field"
)

// A Role says which side's messages a parser reads. The differences between
// the two are the start line, obs-fold (an answer's is joined, RFC 9112 section
// 5.2; a request's is refused) and what the framing fields mean.
type Role uint8

const (
	// Requests: the parser is a server's.
	Requests Role = iota
	// Responses: the parser is a client's.
	Responses
)

// Limits bound a head. All fields must be positive.
type Limits struct {
	MaxLine   int // bytes of the request line, without its CRLF
	MaxHead   int // bytes of the whole head
	MaxFields int // number of field lines
}

// DefaultLimits: RFC 9112 section 3 asks for 8000 octets of request line at
// the least.
var DefaultLimits = Limits{MaxLine: 8 << 10, MaxHead: 64 << 10, MaxFields: 200}

// A Span locates bytes in the raw head.
type Span struct{ Start, End int }

// In returns the bytes of the span.
func (s Span) In(raw []byte) []byte { return raw[s.Start:s.End:s.End] }

// Flags are what a head says about its message and connection.
type Flags uint16

const (
	// ChunkedBody: the body is in the chunked coding.
	ChunkedBody Flags = 1 << iota
	// HasLength: Content-Length is present; Head.ContentLength has it.
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
	hasCoding
	badCoding
	unknownCoding
)

// A Head is what a parser learnt from a complete head besides its fields.
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

// Has tells whether any of the flags f is set.
func (h *Head) Has(f Flags) bool { return h.Flags&f != 0 }

// KeepsAlive tells whether the connection persists after this message, as far
// as its head says (RFC 9112 section 9.3): close wins over keep-alive, and
// HTTP/1.0 closes unless it says otherwise.
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

// A HeadParser reads one head, in as many pieces as it comes in. The zero
// value, with Limits set, is ready; Reset makes it ready again. After an error
// nothing but Reset is of use.
//
// Every check depends on the bytes up to one place and on nothing behind it,
// and is made as soon as these bytes are there. So the result is the same
// however the input is cut, and no peer waits for an answer to what can never
// become a head. Each byte is looked at once; p.seen says where to go on.
type HeadParser struct {
	Head
	Limits     Limits
	Role       Role
	phase      phase
	emptyLines uint8
	isTrailer  bool // a trailer section: fields only, which frame nothing
	line       int  // where the line that is being read starts
	seen       int  // where the first byte is that was not yet looked at
	colon      int  // where the name of the field that is being read ends
	id         field.ID
}

// Reset prepares for the next head; Limits and Role stay.
func (p *HeadParser) Reset() {
	*p = HeadParser{Limits: p.Limits, Role: p.Role}
}

// ResetTrailer prepares for the trailer section behind a chunked body. The
// table that Parse gets must be one of its own, and empty.
func (p *HeadParser) ResetTrailer() {
	p.Reset()
	p.phase = atField
	p.isTrailer = true
}

// Parse reads from in, which follows on what was given before. It keeps the
// raw head in t, which must be empty at the first call, and records the fields
// there. done says that the head is complete; used is then how much of in
// belongs to it. Otherwise all of in is used.
func (p *HeadParser) Parse(t *field.Table, in []byte) (used int, done bool, err error) {
	kept := len(t.Raw())
	if room := p.Limits.MaxHead - kept; len(in) > room {
		in = in[:max(room, 0)]
	}
	raw := in
	if kept > 0 {
		t.Append(in)
		raw = t.Raw()
	}
	end, err := p.parse(t, raw)
	if err != nil {
		return 0, false, err
	}
	if end == 0 {
		if len(raw) >= p.Limits.MaxHead {
			return 0, false, p.tooLarge()
		}
		end = len(raw)
	} else {
		done = true
	}
	if len(t.Raw()) == 0 { // parsed where it was received: one copy, at the end
		t.Append(raw[:end])
	}
	if done {
		t.Seal(end)
		if !p.isTrailer {
			err = p.finish(t)
		}
	}
	if err != nil {
		return 0, false, err
	}
	return end - kept, done, nil
}

// tooLarge names the limit that an endless head ran into.
func (p *HeadParser) tooLarge() error {
	switch {
	case p.isTrailer:
		return ErrTrailerTooLarge
	case p.phase < atField:
		return ErrLineTooLong
	}
	return ErrHeadTooLarge
}

// parse goes on where it stopped and returns where the head ends, 0 if that is
// not there yet.
func (p *HeadParser) parse(t *field.Table, raw []byte) (end int, err error) {
	if p.phase < atField {
		done, err := false, error(nil)
		if p.Role == Requests {
			done, err = p.requestLine(raw)
		} else {
			done, err = p.statusLine(raw)
		}
		if !done || err != nil {
			return 0, err
		}
		p.phase = atField
		p.line = p.seen
		p.Fields.Start = p.seen
	}
	return p.fieldLines(t, raw)
}
