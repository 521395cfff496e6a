package message

import (
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// A FieldEncoder appends a head to a field block of HTTP/2 or a field section of HTTP/3. See
// the Encoders of packages h2 and h3.
type FieldEncoder interface {
	AppendStatus(dst []byte, status int) []byte
	// AppendServer appends the fields that a server adds to its responses, Server and Alt-Svc
	// (RFC 7838 section 3), unless they are empty. They are valid, and their bytes do not
	// change: an Encoder may compare their addresses instead.
	AppendServer(dst, server, altSvc []byte) []byte
	AppendRequest(dst []byte, r fieldlist.RequestFields) []byte
	AppendField(dst []byte, id field.ID, name, value []byte) []byte
	AppendLength(dst []byte, length int64) []byte
	AppendDate(dst, date []byte) []byte
}

// AppendFields appends the head to a field block, in the order of AppendHead. The connection's
// options in f have no meaning.
func (h *ResponseHeader) AppendFields(dst []byte, e FieldEncoder, f Framing) []byte {
	status := h.Status()
	if !isStatusCode(status) {
		status = StatusInternalServerError
	}
	dst = e.AppendStatus(dst, status)
	server := h.DefaultServer
	if own := h.Table.Get(field.Server); len(own) > 0 {
		server = nil
		dst = h.appendEncoded(dst, e, field.Server, own)
	} else if !f.NamesServer && (!h.ShowsServer || h.Table.Index(field.Server) >= 0) {
		server = nil
	}
	dst = e.AppendServer(dst, server, h.altSvc())
	skip := responseFields
	if f.Date != 0 {
		skip = skip.with(field.Date)
		dst = e.AppendDate(dst, clock.Date(f.Date)[:])
	}
	dst = h.appendEncoded(dst, e, field.ContentType, h.contentTypeFor(&f))
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

// AppendFields appends the head to a field block, in the order of AppendHead.
// Target must be in origin-form or "*". Fields that concern a connection are left out
// (RFC 9113 section 8.2.2, RFC 9114 section 4.2), and Connection's options in f have no meaning.
//
// Cookies stay one field. Splitting them, as section 8.2.3 admits, helps an encoder
// that indexes them. Encoder never indexes cookies, and a second field costs at least 3
// bytes where "; " costs less than 2.
func (h *RequestHeader) AppendFields(dst []byte, e FieldEncoder, scheme []byte, f Framing) []byte {
	return h.appendFields(dst, e, fieldlist.RequestFields{Method: h.Method(), Scheme: scheme}, f)
}

// textConnect is the method of AppendConnect. It is never written to.
var textConnect = []byte("CONNECT")

// AppendConnect is AppendFields for an extended CONNECT (RFC 8441 section 4), whatever the
// method is.
func (h *RequestHeader) AppendConnect(dst []byte, e FieldEncoder, scheme, protocol []byte) []byte {
	fields := fieldlist.RequestFields{Method: textConnect, Scheme: scheme, Protocol: protocol}
	return h.appendFields(dst, e, fields, Framing{Length: -2, OmitDefaultType: true})
}

// appendFields appends fields, completed, and those of h.
func (h *RequestHeader) appendFields(dst []byte, e FieldEncoder, fields fieldlist.RequestFields, f Framing) []byte {
	fields.Path, fields.Authority = h.Target(), ascii.TrimOWS(h.Host())
	if !h.isTargetFit {
		h.text = h.appendTarget(h.text[:0])
		fields.Path = h.text
	}
	dst = e.AppendRequest(dst, fields)
	skip := framingFields.with(field.Host).with(field.Cookie)
	if !h.isRaw {
		skip = requestFields
		dst = h.appendEncoded(dst, e, field.UserAgent, h.Table.Get(field.UserAgent))
		contentType := h.Table.Get(field.ContentType)
		if len(contentType) == 0 && (f.Length > 0 || f.HasContent) && !h.NoDefaultContentType && !f.OmitDefaultType {
			contentType = textOctetStream
		}
		dst = h.appendEncoded(dst, e, field.ContentType, contentType)
	}
	if f.Length >= 0 {
		dst = e.AppendLength(dst, f.Length)
	}
	for i := range h.Table.Len() {
		id, name, value := h.Table.ID(i), h.Table.Name(i), h.Table.Value(i)
		isTE := id == field.Other && ascii.EqualFold(name, "te")
		if skip.has(id) || isTE && !ascii.EqualFold(value, "trailers") {
			continue
		}
		if isTE || !h.isHopByHop(name) { // Connection of HTTP/1.1 lists TE (RFC 9110 section 10.1.4)
			dst = e.AppendField(dst, id, name, h.fieldValue(value))
		}
	}
	dst = h.appendEncoded(dst, e, field.Trailer, h.announcement())
	return h.appendEncoded(dst, e, field.Cookie, h.cookies())
}

// isHopByHop reports whether a Connection field lists name (RFC 9110 section 7.6.1).
func (h *Header) isHopByHop(name []byte) bool {
	for i := h.Table.Index(field.Connection); i >= 0; i = h.Table.FindID(field.Connection, i+1) {
		var member []byte
		for list, more := h.Table.Value(i), true; more; {
			member, list, more = ascii.Cut(list, ',')
			if ascii.EqualFold(ascii.TrimOWS(member), name) {
				return true
			}
		}
	}
	return false
}

// SetReceived sets the state from the head of a response in HTTP/2 or HTTP/3, as major says,
// that a decoder has put into h.Table. isLast tells that no body follows. A body without
// Content-Length has the length -1, as a chunked one: its end does not end the connection.
func (h *ResponseHeader) SetReceived(head *fieldlist.Head, isLast bool, major uint8) {
	h.SetParsed(&head.Head)
	h.SetVersion(major)
	h.ConnectionClose, h.closesByLength = false, false
	if h.ContentLength == -2 && !BodyForbidden(head.StatusCode) {
		h.ContentLength = -1
		if isLast {
			h.setLength(0)
		}
	}
}

// What Protocol returns for HTTP/2 and HTTP/3. They are never written to.
var (
	textHTTP2 = []byte("HTTP/2.0")
	textHTTP3 = []byte("HTTP/3.0")
)

// AppendTrailerFields appends the trailer fields to a field block.
func (h *Header) AppendTrailerFields(dst []byte, e FieldEncoder) []byte {
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
func (h *Header) appendEncoded(dst []byte, e FieldEncoder, id field.ID, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return e.AppendField(dst, id, id.Canonical(), h.fieldValue(value))
}

// fieldValue returns value with spaces for control characters, and without blanks
// around it, which HTTP/2 and HTTP/3 forbid (RFC 9113 section 8.2.1).
func (h *Header) fieldValue(value []byte) []byte {
	value = ascii.TrimOWS(value)
	if h.hasControls {
		h.clean = append(h.clean[:0], value...)
		ascii.BlankControls(h.clean)
		value = ascii.TrimOWS(h.clean)
	}
	return value
}
