package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// bodyFraming is the part of a head that depends on the body and the connection.
// The writer of the whole message derives it.
type bodyFraming struct {
	// length of the body in bytes: >= 0 writes Content-Length, -1 writes
	// "Transfer-Encoding: chunked", -2 writes neither.
	length int64
	// date is the time of the Date field, as of clock.Nanos. With 0, Date is
	// written only if it was set.
	date int64
	// closeConnection writes "Connection: close".
	closeConnection bool
	// keepAlive writes "Connection: keep-alive", for a peer with HTTP/1.0,
	// unless there is a Connection field.
	keepAlive bool
	// omitDefaultType leaves out the default Content-Type.
	omitDefaultType bool
	// namesServer writes the server's name if a response has no Server field.
	namesServer bool
	// hasContent: a chunked body is known not to be empty. A request then gets
	// the default Content-Type.
	hasContent bool
}

// Constant texts, which are copied into messages and results. They are never
// written to.
var (
	textHTTP10           = []byte("HTTP/1.0")
	textHTTP11           = []byte("HTTP/1.1")
	textGet              = []byte("GET")
	textSlash            = []byte("/")
	textChunked          = []byte("chunked")
	textClose            = []byte("close")
	textKeepAlive        = []byte("keep-alive")
	textCRLF             = []byte("\r\n")
	textPlain            = []byte("text/plain; charset=utf-8")
	textOctetStream      = []byte("application/octet-stream")
	textMultipartForm    = []byte("multipart/form-data")
	textMultipartTrailer = []byte("; boundary=")
)

// requestFields and responseFields are not written and visited in the order of
// the table, but at fixed places.
const (
	requestFields = framingFields | 1<<field.Host | 1<<field.ContentType | 1<<field.UserAgent | 1<<field.Cookie

	responseFields = framingFields | 1<<field.ContentType | 1<<field.ContentEncoding |
		1<<field.Server | 1<<field.SetCookie

	// If several of one of these were received, the last one counts.
	lastCountsInRequests  = 1<<field.ContentType | 1<<field.UserAgent
	lastCountsInResponses = 1<<field.ContentType | 1<<field.ContentEncoding | 1<<field.Server
)

// appendHead appends a complete head: status line, Server, Date, Content-Type,
// Content-Encoding, the framing, all other fields in their order, Trailer,
// Set-Cookie, Connection, and the empty line.
func (h *ResponseHeader) appendHead(dst []byte, f bodyFraming) []byte {
	at := len(dst)
	dst = h.appendStatusLine(dst)
	server := h.headServer()
	if len(server) == 0 && f.namesServer {
		server = h.defaultServer
	}
	if len(server) > 0 {
		dst = append(dst, "Server: "...)
		dst = append(dst, server...)
		dst = append(dst, "\r\n"...)
	}
	skip := responseFields
	if f.date != 0 {
		skip = skip.with(field.Date)
		dst = append(dst, "Date: "...)
		dst = clock.AppendDate(dst, f.date)
		dst = append(dst, "\r\n"...)
	}
	if contentType := h.contentTypeFor(f); len(contentType) > 0 {
		dst = append(dst, "Content-Type: "...)
		dst = append(dst, contentType...)
		dst = append(dst, "\r\n"...)
	}
	dst = appendKnown(dst, field.ContentEncoding, h.ContentEncoding())
	dst = appendLength(dst, f.length)
	dst = h.appendPlain(dst, skip, f)
	dst = appendKnown(dst, field.Trailer, h.announcement())
	for i := h.table.Index(field.SetCookie); i >= 0; i = h.table.FindID(field.SetCookie, i+1) {
		dst = h1.AppendField(dst, field.SetCookie.Canonical(), h.table.Value(i))
	}
	dst = h.appendConnection(dst, f)
	return h.written(append(dst, "\r\n"...), at)
}

// show stores in h what appendHead has added because of f, so that getters
// return it.
func (h *ResponseHeader) show(f bodyFraming) {
	h.showsServer = h.showsServer || f.namesServer
	switch {
	case f.length >= 0:
		h.setLength(int(f.length))
	case f.length == -1:
		h.contentLength, h.hasLength = -1, false
	}
	switch {
	case f.closeConnection:
		h.connectionClose = true
	case f.keepAlive && h.table.Index(field.Connection) < 0:
		h.table.Set(field.Connection, textKeepAlive)
	}
}

// appendStatusLine appends the status line (RFC 9112 section 4).
func (h *ResponseHeader) appendStatusLine(dst []byte) []byte {
	at := len(dst)
	if reason := h.StatusMessage(); len(reason) > 0 {
		dst = appendStatusLine(dst, h.StatusCode(), ascii.String(reason))
	} else {
		dst = append(dst, statusLine(h.StatusCode())...)
	}
	if h.isHTTP10 {
		dst[at+len("HTTP/1.")] = '0'
	}
	return dst
}

// contentTypeFor returns the Content-Type to write. A response without a body
// has one only if it was set.
func (h *ResponseHeader) contentTypeFor(f bodyFraming) []byte {
	if value := h.table.Get(field.ContentType); len(value) > 0 {
		return value
	}
	if h.noDefaultContentType || f.omitDefaultType || f.length == 0 ||
		f.length == -2 && bodyForbidden(h.StatusCode()) {
		return nil
	}
	return textPlain
}

// framing derives the framing of a response that is written without a body,
// from what was set or received.
func (h *ResponseHeader) framing() bodyFraming {
	f := bodyFraming{length: -2, date: max(clock.Nanos(), 1), closeConnection: h.connectionClose}
	switch status := h.StatusCode(); {
	case bodyForbidden(status):
		// RFC 9110 section 8.6: of these statuses, only 304 may have a
		// Content-Length. It is the length of the 200 response that it stands for.
		if status == StatusNotModified && h.hasLength && h.contentLength > 0 {
			f.length = int64(h.contentLength)
			f.omitDefaultType = true
		}
	case h.contentLength == -1 && h.isHTTP10:
		f.closeConnection = true // RFC 9112 section 6.1
	case h.contentLength == -1:
		f.length = -1
	case h.hasLength && h.contentLength >= 0:
		f.length = int64(h.contentLength)
	case h.contentLength == 0:
		f.omitDefaultType = true
	}
	return f
}

// appendHead appends a complete head: request line, User-Agent, Host,
// Content-Type, the framing, all other fields in their order, Trailer, Cookie,
// Connection, and the empty line.
func (h *RequestHeader) appendHead(dst []byte, f bodyFraming) []byte {
	at := len(dst)
	dst = append(dst, h.verb()...)
	dst = append(dst, ' ')
	dst = h.appendTarget(dst)
	if h.isHTTP10 {
		dst = append(dst, " HTTP/1.0\r\n"...)
	} else {
		dst = append(dst, " HTTP/1.1\r\n"...)
	}
	if h.isRaw {
		return h.written(h.appendRawFields(dst, f), at)
	}
	dst = appendKnown(dst, field.UserAgent, h.table.Get(field.UserAgent))
	dst = appendKnown(dst, field.Host, h.Host())
	contentType := h.ContentType()
	if len(contentType) == 0 && (f.length > 0 || f.hasContent) && !h.noDefaultContentType && !f.omitDefaultType {
		contentType = textOctetStream
	}
	dst = appendKnown(dst, field.ContentType, contentType)
	dst = appendLength(dst, f.length)
	dst = h.appendPlain(dst, requestFields, f)
	dst = appendKnown(dst, field.Trailer, h.announcement())
	dst = appendKnown(dst, field.Cookie, h.cookies())
	dst = h.appendConnection(dst, f)
	return h.written(append(dst, "\r\n"...), at)
}

// appendTarget appends the request-target. It leaves out the fragment, which is
// never sent (RFC 9110 section 7.1), and percent-encodes every byte that would
// end the target.
func (h *RequestHeader) appendTarget(dst []byte) []byte {
	target := h.requestTarget()
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
func (h *RequestHeader) appendRawFields(dst []byte, f bodyFraming) []byte {
	hasFraming, hasTrailer := false, false
	var number [20]byte
	for i := range h.table.Len() {
		value := h.table.Value(i)
		switch h.table.ID(i) {
		case field.ContentLength:
			if f.length < 0 || hasFraming {
				continue
			}
			hasFraming = true
			value = ascii.AppendUint(number[:0], uint64(f.length)) // not h.text, which may be dst
		case field.TransferEncoding:
			if f.length != -1 || hasFraming {
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
		dst = h1.AppendField(dst, h.table.Name(i), value)
	}
	if !hasFraming && f.length != 0 {
		dst = appendLength(dst, f.length)
	}
	if !hasTrailer {
		dst = appendKnown(dst, field.Trailer, h.announcement())
	}
	impliesClose := h.isHTTP10 && !h.connectionLists(h1.ConnectionKeepAlive)
	if f.closeConnection && !impliesClose && !h.connectionLists(h1.ConnectionClose) {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// framing derives the framing of a request that is written without a body,
// from what was set or received.
func (h *RequestHeader) framing() bodyFraming {
	f := bodyFraming{length: -2, closeConnection: h.connectionClose}
	switch {
	case h.contentLength == -1 && !h.isHTTP10:
		f.length = -1
	case h.hasLength && h.contentLength >= 0:
		f.length = int64(h.contentLength)
	}
	return f
}

// appendLength appends the field that frames a body; see bodyFraming.length.
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
	return h1.AppendField(dst, id.Canonical(), value)
}

// appendPlain appends the fields that are not in skip, in their order.
func (h *header) appendPlain(dst []byte, skip idSet, f bodyFraming) []byte {
	n := h.table.Len()
	if n == 0 {
		return dst
	}
	if f.closeConnection || h.connectionClose {
		skip = skip.with(field.Connection) // close is written last
	}
	for i := range n {
		id := h.table.ID(i)
		if !skip.has(id) || id == field.Connection && !isAboutClose(h.table.Value(i)) {
			dst = h1.AppendField(dst, h.table.Name(i), h.table.Value(i))
		}
	}
	return dst
}

// appendConnection appends the Connection field that lists close or keep-alive.
func (h *header) appendConnection(dst []byte, f bodyFraming) []byte {
	switch {
	case f.closeConnection && !h.connectionClose:
		return append(dst, "Connection: close\r\n"...)
	case h.connectionClose:
		return h1.AppendField(dst, field.Connection.Canonical(), h.closeValue())
	case f.keepAlive && h.table.Index(field.Connection) < 0:
		return append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}
