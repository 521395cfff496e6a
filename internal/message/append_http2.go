package message

import (
	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h2"
)

// AppendFields appends the head to a field block of HTTP/2, in the order of AppendHead.
// The connection's options in f have no meaning.
func (h *ResponseHeader) AppendFields(dst []byte, e *h2.Encoder, f Framing) []byte {
	status := h.Status()
	if !isStatusCode(status) {
		status = statusInternalServerError
	}
	dst = e.AppendStatus(dst, status)
	server := h.headServer()
	if len(server) == 0 && f.NamesServer {
		server = h.DefaultServer
	}
	dst = h.appendEncoded(dst, e, field.Server, server)
	skip := responseFields
	if f.Date != 0 {
		skip = skip.with(field.Date)
		dst = e.AppendDate(dst, clock.Date(f.Date)[:])
	}
	dst = h.appendEncoded(dst, e, field.ContentType, h.contentTypeFor(f))
	dst = h.appendEncoded(dst, e, field.ContentEncoding, h.Table.Get(field.ContentEncoding))
	if f.Length >= 0 {
		dst = e.AppendLength(dst, f.Length)
	}
	for i := range h.Table.Len() {
		if id := h.Table.ID(i); !skip.has(id) || id == field.SetCookie {
			dst = e.AppendField(dst, id, h.Table.Name(i), h.fieldValue(h.Table.Value(i)))
		}
	}
	return h.appendEncoded(dst, e, field.Trailer, h.announcement())
}

// AppendTrailerFields appends the trailer fields to a field block of HTTP/2.
func (h *Header) AppendTrailerFields(dst []byte, e *h2.Encoder) []byte {
	if h.trailer == nil {
		return dst
	}
	values := &h.trailer.values
	for i := range values.Len() {
		dst = e.AppendField(dst, values.ID(i), values.Name(i), h.fieldValue(values.Value(i)))
	}
	return dst
}

// appendEncoded appends a field with a known name, unless the value is empty.
func (h *Header) appendEncoded(dst []byte, e *h2.Encoder, id field.ID, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return e.AppendField(dst, id, id.Canonical(), h.fieldValue(value))
}

// fieldValue returns value with spaces for control characters, and without blanks
// around it, which HTTP/2 forbids (RFC 9113 section 8.2.1).
func (h *Header) fieldValue(value []byte) []byte {
	value = ascii.TrimOWS(value)
	if h.hasControls {
		h.clean = append(h.clean[:0], value...)
		ascii.BlankControls(h.clean)
		value = ascii.TrimOWS(h.clean)
	}
	return value
}
