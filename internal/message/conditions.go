package message

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/conditional"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Conditions evaluates the preconditions of a request for a representation (RFC 9110
// section 13.2.2). isGetOrHead says that the method is one of these.
func (h *RequestHeader) Conditions(isGetOrHead bool, v conditional.Validators) conditional.Verdict {
	var matches, noneMatches [4][]byte
	c := conditional.Conditions{
		IsGetOrHead: isGetOrHead,
		IfMatch:     h.AppendLines(matches[:0], field.IfMatch),
		IfNoneMatch: h.AppendLines(noneMatches[:0], field.IfNoneMatch),
	}
	c.IfModifiedSince, c.HasIfModifiedSince = h.singleDate(field.IfModifiedSince)
	c.IfUnmodifiedSince, c.HasIfUnmodifiedSince = h.singleDate(field.IfUnmodifiedSince)
	return c.Evaluate(v)
}

// AppendLines appends the values of all fields with a name, in any spelling of it, even if
// names are kept. The values belong to h.
func (h *Header) AppendLines(dst [][]byte, id field.ID) [][]byte {
	for i := h.Table.FindID(id, 0); i >= 0; i = h.Table.FindID(id, i+1) {
		dst = append(dst, h.Table.Value(i))
	}
	return dst
}

// AppendAny is AppendLines for a name that has no ID.
func (h *Header) AppendAny(dst [][]byte, name string) [][]byte {
	for i := range h.Table.Len() {
		if ascii.EqualFold(h.Table.Name(i), name) {
			dst = append(dst, h.Table.Value(i))
		}
	}
	return dst
}

// SingleLine returns the value of a field and whether there is exactly one.
func (h *RequestHeader) SingleLine(id field.ID) (value []byte, ok bool) {
	i := h.Table.FindID(id, 0)
	if i < 0 {
		return nil, false
	}
	return h.Table.Value(i), h.Table.FindID(id, i+1) < 0
}

// singleDate returns the date in a field. An invalid date, and a field that
// occurs twice, count as absent (RFC 9110 sections 13.1.3 and 13.1.4).
func (h *RequestHeader) singleDate(id field.ID) (seconds int64, ok bool) {
	value, ok := h.SingleLine(id)
	if !ok {
		return 0, false
	}
	return UnixDate(value)
}

// UnixDate parses a date. ok is false if value is not a date.
func UnixDate(value []byte) (seconds int64, ok bool) {
	t, err := ParseDate(value)
	return t.Unix(), err == nil
}

// AddVary adds a field name to Vary (RFC 9110 section 12.5.5), whose fields are one
// list, unless it is there. A name that is not a token is ignored. AddVary changes the
// head even if Vary is announced as a trailer field, because caches read it from
// the head.
func (h *ResponseHeader) AddVary(name string) {
	if !h1.IsToken(ascii.Bytes(name)) {
		return
	}
	first := h.Table.Index(field.Vary)
	for i := first; i >= 0; i = h.Table.FindID(field.Vary, i+1) {
		for rest, found := h.Table.Value(i), true; found; {
			var member []byte
			member, rest, found = ascii.Cut(rest, ',')
			if member = ascii.TrimOWS(member); string(member) == "*" || ascii.EqualFold(member, name) {
				return
			}
		}
	}
	if first < 0 || len(h.Table.Value(first)) == 0 {
		h.Table.Set(field.Vary, ascii.Bytes(name))
		return
	}
	h.Table.SetValue(first, []byte(string(h.Table.Value(first))+","+name))
}
