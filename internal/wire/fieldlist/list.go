package fieldlist

import (
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// FieldOverhead is what a field counts beside its name and value (RFC 7541 section 4.1, RFC
// 9114 section 4.2.2).
const FieldOverhead = 32

// A List collects the decoded fields of one message after the other, validates them, and
// bounds them. For each list, call Begin; for each field append its name, unless KeepsName
// says no, to Out, call BeginValue, append the value, and call Counts and Add. Finish ends the
// list. Out is the Raw of Table while fields are added.
type List struct {
	// Limits bound a list: MaxLine the bytes of its path, MaxFields the number of its fields
	// without pseudo-fields, MaxHead the sum of names, values and 32 for each field.
	Limits h1.Limits
	// AcceptsConnect admits :protocol in requests, as our SETTINGS must have announced
	// (RFC 8441 section 3, RFC 9220 section 3).
	AcceptsConnect bool

	Kind  Kind         // of this list
	Table *field.Table // of its fields
	Head  *Head        // its pseudo-fields
	Out   []byte       // what is decoded
	Size  int          // of the list so far, up to the first field that exceeds a limit
	// Beyond is the size of the fields that are not stored, because a limit is exceeded.
	Beyond int64

	isPlain   bool // a field that is not a pseudo-field was seen
	hasCookie bool
	count     int     // fields, without pseudo-fields
	cookie    h1.Span // crumbs that were joined, not yet in Table
	refused   error   // the first violation that makes the message malformed
	excess    error   // the first limit that was exceeded
}

// Begin starts a list. Its fields will be added to t, which must be empty and have no raw
// head, and its pseudo-fields to h. Both may be nil for an Unwanted one, and h for a
// Trailer.
func (l *List) Begin(kind Kind, t *field.Table, h *Head) {
	if h != nil {
		*h = Head{}
		h.Minor = 1
	}
	l.Kind, l.Table, l.Head = kind, t, h
	l.isPlain, l.hasCookie = false, false
	l.count, l.Size, l.Beyond = 0, 0, 0
	l.refused, l.excess = nil, nil
}

// Discard makes the rest of the list an Unwanted one. The table and the Head of Begin are not
// used any more.
func (l *List) Discard() {
	l.Kind, l.Table, l.Head = Unwanted, nil, nil
	l.hasCookie = false
}

// KeepsName reports whether the bytes of a name are stored with the field.
func (l *List) KeepsName(code Code) bool {
	return code == Other || l.Table != nil && l.Table.KeepNames && !code.IsPseudo()
}

// BeginValue returns where the value of a field begins that begins at start: after its
// name, and for a cookie that follows another also after the separator that joins the
// two (RFC 9113 section 8.2.3, RFC 9114 section 4.2.1).
func (l *List) BeginValue(code Code, start int) int {
	if l.joins(code, start) {
		l.Out = append(l.Out, "; "...)
	}
	return len(l.Out)
}

// joins reports whether a field that begins at start is joined to the cookie before it.
func (l *List) joins(code Code, start int) bool {
	return code == Code(field.Cookie) && l.hasCookie && l.cookie.End == start && !l.KeepsName(code)
}

// Counts counts a field against the limits, and reports whether it is to be added. From the
// first field on that exceeds a limit, none is.
func (l *List) Counts(code Code, valueLen, size int) bool {
	if l.excess == nil {
		l.Size += size
		if !code.IsPseudo() {
			l.count++
		}
		switch {
		case code == PseudoPath && valueLen > l.Limits.MaxLine:
			l.excess = h1.ErrLineTooLong
		case l.Size > l.Limits.MaxHead:
			l.excess = h1.ErrHeadTooLarge
		case l.count > l.Limits.MaxFields:
			l.excess = h1.ErrTooManyFields
		}
	}
	if l.excess != nil {
		l.Beyond += int64(size)
		return false
	}
	return l.Kind != Unwanted
}

// Add adds a field that Counts has admitted. v is what is wrong with it alone. It begins at
// start of Out, and its value at value.
func (l *List) Add(code Code, v Violation, start, value int) {
	span := h1.Span{Start: value, End: len(l.Out)}
	switch {
	case v != None:
		l.refuse(v)
	case code.IsPseudo():
		l.addPseudo(code, span)
	}
	if code.IsPseudo() {
		return
	}
	l.isPlain = true
	if l.joins(code, start) {
		if value == span.End { // an empty crumb: a value does not end with a space
			l.Out = l.Out[:start]
		} else {
			l.cookie.End = span.End
		}
		return
	}
	if l.hasCookie {
		l.flushCookie()
	}
	if code == Code(field.Cookie) && !l.Table.KeepNames {
		l.hasCookie, l.cookie = true, span
		return
	}
	id := field.ID(code)
	l.Table.PushParsed(id, start, value, span.Start, span.End)
	if noted>>id&1 != 0 && l.Kind != Trailer {
		l.note(id, span.In(l.Out))
	}
}

// refuse keeps the first error that makes the message malformed.
func (l *List) refuse(err error) {
	if l.refused == nil {
		l.refused = err
	}
}

// addPseudo stores a pseudo-field.
func (l *List) addPseudo(code Code, value h1.Span) {
	switch {
	case !l.Kind.isExpected(code, l.AcceptsConnect):
		l.refuse(ErrPseudoForbidden)
	case l.isPlain:
		l.refuse(ErrPseudoOrder)
	case l.Head.HasPseudo(code):
		l.refuse(ErrPseudoRepeated)
	default:
		l.Head.notePseudo(code, value, l.Out)
	}
}

// noted is the set of the fields that note handles.
const noted uint64 = 1<<field.ContentLength | 1<<field.Expect

// note applies a field that frames the message.
func (l *List) note(id field.ID, value []byte) {
	role := h1.Requests
	if l.Kind == Response {
		role = h1.Responses
	}
	switch {
	case id == field.ContentLength:
		if l.Head.NoteLength(role, value) != nil {
			l.refuse(ErrLength)
		}
	case role == h1.Requests:
		if err := l.Head.NoteExpect(value); err != nil {
			l.refuse(err)
		}
	}
}

// flushCookie adds the crumbs that were joined.
func (l *List) flushCookie() {
	l.hasCookie = false
	l.Table.PushParsed(field.Cookie, l.cookie.Start, l.cookie.Start, l.cookie.Start, l.cookie.End)
}

// Finish ends the list, after Table has got what is in Out. A Violation makes the message
// malformed. An *h1.Error is a request that is answered with its status: a list that is too
// large, or a message that HTTP/1.1 refuses in the same way. With any error, the fields in the
// table mean nothing.
func (l *List) Finish() error {
	t := l.Table
	switch {
	case l.Kind == Unwanted:
		return nil
	case l.refused != nil:
		return l.refused
	case l.excess != nil:
		return l.excess
	}
	l.endCookies(t)
	var err error
	switch l.Kind {
	case Request:
		err = l.Head.finishRequest(t)
	case Response:
		err = l.Head.finishResponse()
	}
	t.Seal(len(t.Raw()))
	return err
}

// endCookies joins the cookies that did not follow each other.
func (l *List) endCookies(t *field.Table) {
	if l.hasCookie {
		l.flushCookie()
	}
	i := t.Index(field.Cookie)
	if i < 0 || t.FindID(field.Cookie, i+1) < 0 {
		return
	}
	raw := t.Raw()
	start := len(raw)
	if t.KeepNames {
		raw = append(raw, "cookie"...)
	}
	value := len(raw)
	for ; i >= 0; i = t.FindID(field.Cookie, i+1) {
		if len(t.Value(i)) > 0 && len(raw) > value {
			raw = append(raw, "; "...)
		}
		raw = append(raw, t.Value(i)...)
	}
	t.SetRaw(raw)
	t.PushParsed(field.Cookie, start, value, value, len(raw))
	t.KeepLast(1 << field.Cookie)
}
