package message

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// Framing is the part of a head that depends on the body and the connection.
// The writer of the whole message derives it.
type Framing struct {
	// Length of the body in bytes: >= 0 writes Content-Length, -1 writes
	// "Transfer-Encoding: chunked", -2 writes neither.
	Length int64
	// Date is the time of the Date field, as of clock.Nanos. With 0, Date is
	// written only if it was set.
	Date int64
	// CloseConnection writes "Connection: close".
	CloseConnection bool
	// KeepAlive writes "Connection: keep-alive", for a peer with HTTP/1.0,
	// unless there is a Connection field.
	KeepAlive bool
	// OmitDefaultType leaves out the default Content-Type.
	OmitDefaultType bool
	// NamesServer writes the server's name if a response has no Server field.
	NamesServer bool
	// HasContent reports whether a chunked body is known not to be empty. A request then gets
	// the default Content-Type.
	HasContent bool
}

// Interim returns the Framing of an interim response.
func Interim() Framing { return Framing{Length: -2, OmitDefaultType: true} }

// Constant texts, which are copied into messages and results. They are never
// written to.
var (
	textHTTP10        = []byte("HTTP/1.0")
	textHTTP11        = []byte("HTTP/1.1")
	textGet           = []byte("GET")
	textSlash         = []byte("/")
	textChunked       = []byte("chunked")
	textAltSvc        = []byte("Alt-Svc")
	textClose         = []byte("close")
	textKeepAlive     = []byte("keep-alive")
	textCRLF          = []byte("\r\n")
	textPlain         = []byte("text/plain; charset=utf-8")
	textOctetStream   = []byte("application/octet-stream")
	textMultipartForm = []byte("multipart/form-data")
)

// requestFields and responseFields are not written and visited in the order of
// the table, but at fixed places.
const (
	requestFields = framingFields | 1<<field.Host | 1<<field.ContentType | 1<<field.UserAgent | 1<<field.Cookie

	responseFields = framingFields | 1<<field.ContentType | 1<<field.ContentEncoding |
		1<<field.Server | 1<<field.SetCookie

	// If several of one of these were received, the last one counts.
	lastCountsInRequests  = 1<<field.ContentType | 1<<field.UserAgent
	lastCountsInResponses = 1<<field.ContentType | 1<<field.Server
)

// AppendHead appends a complete head: status line, Server, Date, Content-Type,
// Content-Encoding, the framing, all other fields in their order, Trailer,
// Set-Cookie, Connection, and the empty line. It may write after the result.
func (h *ResponseHeader) AppendHead(dst []byte, f Framing) []byte {
	start := h.startFor(&f)
	if start != nil && h.isBare(&f) {
		return append(dst, start.head(f.Length)...)
	}
	return h.appendHead(dst, start, &f)
}

// appendHead is AppendHead for a head with more fields, or with an unusual start.
func (h *ResponseHeader) appendHead(dst []byte, start *headStart, f *Framing) []byte {
	at := len(dst)
	if start != nil {
		dst = append(dst, start.text[:start.end]...)
	} else {
		var date []byte
		if f.Date != 0 {
			date = clock.Date(f.Date)[:]
		}
		dst = h.appendStart(dst, h.serverFor(f), h.altSvc(), date)
		dst = appendKnown(dst, field.ContentType, h.contentTypeFor(f))
	}
	skip := responseFields
	if f.Date != 0 {
		skip = skip.with(field.Date)
	}
	dst = appendKnown(dst, field.ContentEncoding, h.Table.Get(field.ContentEncoding))
	dst = appendLength(dst, f.Length)
	dst = h.appendPlain(dst, skip, f)
	dst = appendKnown(dst, field.Trailer, h.announcement())
	for i := h.Table.Index(field.SetCookie); i >= 0; i = h.Table.FindID(field.SetCookie, i+1) {
		dst = field.SetCookie.AppendLine(dst, h.Table.Value(i))
	}
	dst = h.appendConnection(dst, f)
	return h.written(append(dst, "\r\n"...), at)
}

// serverFor returns the value of Server to write.
func (h *ResponseHeader) serverFor(f *Framing) []byte {
	if server := h.headServer(); len(server) > 0 || !f.NamesServer {
		return server
	}
	return h.DefaultServer
}

// appendStart appends the status line, Server, Alt-Svc and Date, without those that are empty.
func (h *ResponseHeader) appendStart(dst, server, altSvc, date []byte) []byte {
	dst = h.appendStatusLine(dst)
	if len(server) > 0 {
		dst = append(dst, "Server: "...)
		dst = append(dst, server...)
		dst = append(dst, "\r\n"...)
	}
	if len(altSvc) > 0 {
		dst = append(dst, "Alt-Svc: "...)
		dst = append(dst, altSvc...)
		dst = append(dst, "\r\n"...)
	}
	if len(date) > 0 {
		dst = append(dst, "Date: "...)
		dst = append(dst, date...)
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// show stores in h what AppendHead has added because of f, so that getters
// return it.
func (h *ResponseHeader) Show(f Framing) {
	h.ShowsServer = h.ShowsServer || f.NamesServer
	switch {
	case f.Length >= 0:
		h.setLength(int(f.Length))
	case f.Length == -1:
		h.ContentLength, h.HasLength = -1, false
	}
	switch {
	case f.CloseConnection:
		h.ConnectionClose = true
	case f.KeepAlive && h.Table.Index(field.Connection) < 0:
		h.Table.Set(field.Connection, textKeepAlive)
	}
}

// appendStatusLine appends the status line (RFC 9112 section 4).
func (h *ResponseHeader) appendStatusLine(dst []byte) []byte {
	at := len(dst)
	if reason := h.Reason(); len(reason) > 0 && string(reason) != Reason(h.Status()) {
		dst = appendStatusLine(dst, h.Status(), ascii.String(reason))
	} else {
		dst = append(dst, statusLine(h.Status())...)
	}
	if h.IsHTTP10 {
		dst[at+len("HTTP/1.")] = '0'
	}
	return dst
}

// contentTypeFor returns the Content-Type to write. A response without a body
// has one only if it was set.
func (h *ResponseHeader) contentTypeFor(f *Framing) []byte {
	if value := h.Table.Get(field.ContentType); len(value) > 0 {
		return value
	}
	if h.NoDefaultContentType || f.OmitDefaultType || f.Length == 0 ||
		f.Length == -2 && BodyForbidden(h.Status()) {
		return nil
	}
	return textPlain
}

// Framing derives the framing of a response that is written without a body,
// from what was set or received.
func (h *ResponseHeader) Framing() Framing {
	f := Framing{Length: -2, CloseConnection: h.ConnectionClose}
	if !h.OwnsDate {
		f.Date = max(clock.Nanos(), 1)
	}
	switch status := h.Status(); {
	case BodyForbidden(status):
		// RFC 9110 section 8.6: of these statuses, only 304 may have a
		// Content-Length. It is the length of the 200 response that it stands for.
		if status == StatusNotModified && h.HasLength && h.ContentLength > 0 {
			f.Length = int64(h.ContentLength)
			f.OmitDefaultType = true
		}
	case h.ContentLength == -1 && h.IsHTTP10:
		f.CloseConnection = true // RFC 9112 section 6.1
	case h.ContentLength == -1:
		f.Length = -1
	case h.HasLength && h.ContentLength >= 0:
		f.Length = int64(h.ContentLength)
	case h.ContentLength == 0:
		f.OmitDefaultType = true
	}
	return f
}

// AppendHead appends a complete head: request line, User-Agent, Host,
// Content-Type, the framing, all other fields in their order, Trailer, Cookie,
// Connection, and the empty line. It may write after the result.
func (h *RequestHeader) AppendHead(dst []byte, f Framing) []byte {
	at := len(dst)
	dst = append(dst, h.Method()...)
	dst = append(dst, ' ')
	dst = h.appendTarget(dst)
	if h.IsHTTP10 {
		dst = append(dst, " HTTP/1.0\r\n"...)
	} else {
		dst = append(dst, " HTTP/1.1\r\n"...)
	}
	if h.isRaw {
		return h.written(h.appendRawFields(dst, f), at)
	}
	dst = appendKnown(dst, field.UserAgent, h.Table.Get(field.UserAgent))
	dst = appendKnown(dst, field.Host, h.Host())
	contentType := h.Table.Get(field.ContentType)
	if len(contentType) == 0 && (f.Length > 0 || f.HasContent) && !h.NoDefaultContentType && !f.OmitDefaultType {
		contentType = textOctetStream
	}
	dst = appendKnown(dst, field.ContentType, contentType)
	dst = appendLength(dst, f.Length)
	dst = h.appendPlain(dst, requestFields, &f)
	dst = appendKnown(dst, field.Trailer, h.announcement())
	dst = appendKnown(dst, field.Cookie, h.cookies())
	dst = h.appendConnection(dst, &f)
	return h.written(append(dst, "\r\n"...), at)
}

// appendTarget appends the request-target. It leaves out the fragment, which is
// never sent (RFC 9110 section 7.1), and percent-encodes every byte that would
// end the target.
func (h *RequestHeader) appendTarget(dst []byte) []byte {
	target := h.Target()
	if h.isTargetFit {
		return append(dst, target...)
	}
	if i := bytes.IndexByte(target, '#'); i >= 0 {
		target = target[:i]
	}
	if len(target) == 0 {
		return append(dst, '/')
	}
	return ascii.AppendTarget(dst, target)
}

// appendRawFields appends the fields in the order in which they were set, and
// the empty line. Fields for the framing get their values from f, which
// determines how the body is written.
func (h *RequestHeader) appendRawFields(dst []byte, f Framing) []byte {
	hasFraming, hasTrailer := false, false
	var number [20]byte
	for i := range h.Table.Len() {
		value := h.Table.Value(i)
		switch h.Table.ID(i) {
		case field.ContentLength:
			if f.Length < 0 || hasFraming {
				continue
			}
			hasFraming = true
			value = ascii.AppendUint(number[:0], uint64(f.Length)) // not h.text, which may be dst
		case field.TransferEncoding:
			if f.Length != -1 || hasFraming {
				continue
			}
			hasFraming = true
			value = textChunked
		case field.Trailer:
			if value = h.announcement(); value == nil || hasTrailer {
				continue
			}
			hasTrailer = true
		}
		dst = h1.AppendField(dst, h.Table.Name(i), value)
	}
	if !hasFraming && f.Length != 0 {
		dst = appendLength(dst, f.Length)
	}
	if !hasTrailer {
		dst = appendKnown(dst, field.Trailer, h.announcement())
	}
	impliesClose := h.IsHTTP10 && !h.connectionLists(h1.ConnectionKeepAlive)
	if f.CloseConnection && !impliesClose && !h.connectionLists(h1.ConnectionClose) {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// Framing derives the framing of a request that is written without a body,
// from what was set or received.
func (h *RequestHeader) Framing() Framing {
	f := Framing{Length: -2, CloseConnection: h.ConnectionClose}
	switch {
	case h.ContentLength == -1 && !h.IsHTTP10:
		f.Length = -1
	case h.HasLength && h.ContentLength >= 0:
		f.Length = int64(h.ContentLength)
	}
	return f
}

// appendLength appends the field that frames a body; see Framing.Length.
func appendLength(dst []byte, length int64) []byte {
	switch {
	case length >= 0:
		dst = append(dst, "Content-Length: "...)
		dst = ascii.AppendUint(dst, uint64(length))
		return append(dst, "\r\n"...)
	case length == -1:
		return append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	return dst
}

// appendKnown appends a field with a known name, unless the value is empty.
func appendKnown(dst []byte, id field.ID, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return id.AppendLine(dst, value)
}

// appendPlain appends the fields that are not in skip, in their order.
func (h *Header) appendPlain(dst []byte, skip idSet, f *Framing) []byte {
	if !f.CloseConnection && !h.ConnectionClose || h.Table.Index(field.Connection) < 0 {
		return h.Table.AppendLines(dst, uint64(skip))
	}
	skip = skip.with(field.Connection) // close is written last
	for i := range h.Table.Len() {
		id := h.Table.ID(i)
		if !skip.has(id) || id == field.Connection && !isAboutClose(h.Table.Value(i)) {
			dst = h.Table.AppendLine(dst, i)
		}
	}
	return dst
}

// appendConnection appends the Connection field that lists close or keep-alive.
func (h *Header) appendConnection(dst []byte, f *Framing) []byte {
	switch {
	case f.CloseConnection && !h.ConnectionClose:
		return append(dst, "Connection: close\r\n"...)
	case h.ConnectionClose:
		return field.Connection.AppendLine(dst, h.closeValue())
	case f.KeepAlive && h.Table.Index(field.Connection) < 0:
		return append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}
