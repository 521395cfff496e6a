package sluice

import (
	"bufio"
	"io"
	"iter"
	"time"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// ResponseHeader is the head of a response: status and fields.
//
// The zero value is the head of "HTTP/1.1 200 OK" without fields. Byte slices
// that methods return belong to the header and must not be changed. They stay
// valid until the header is changed or reset, or its Response is released. A
// ResponseHeader must not be copied (use CopyTo) and must not be used by
// several goroutines at once.
//
// The header is always written as one well-formed head, whatever its setters
// were given. A field name that is not a token sets nothing. CR and LF in values
// and reason phrases become spaces; other control characters except HTAB are
// written as spaces.
type ResponseHeader struct {
	noCopy noCopy
	header

	statusCode int
	reasonAt   h1.Span // in the raw head, if it was received
	reason     []byte
	joined     []byte // the result of Peek for several Set-Cookie fields
	// closesByLength: connectionClose is set only because the length is missing.
	closesByLength bool

	typeText   [len("text/plain; charset=utf-8")]byte // ContentType's default
	serverText []byte                                 // Server's default

	// defaultServer is the name of the server that will write the response, nil
	// if it has none. It has no control characters. Reset keeps it.
	defaultServer []byte
}

// Reset makes h the zero value. It keeps memory for the next use.
func (h *ResponseHeader) Reset() {
	h.header.reset()
	h.resetStatus()
}

func (h *ResponseHeader) resetStatus() {
	h.statusCode = 0
	h.reasonAt = h1.Span{}
	if len(h.reason) > 0 {
		h.reason = h.reason[:0]
	}
}

// CopyTo makes dst a copy of h that shares no memory with it.
func (h *ResponseHeader) CopyTo(dst *ResponseHeader) {
	if h == dst {
		return
	}
	h.header.copyTo(&dst.header)
	dst.showsServer = false
	if server := h.headServer(); len(server) > 0 && h.table.Index(field.Server) < 0 {
		dst.table.Set(field.Server, server)
	}
	dst.statusCode = h.statusCode
	dst.reasonAt = h.reasonAt
	dst.reason = append(dst.reason[:0], h.reason...)
}

// setParsed sets the state from the head that a parser has put into h.table. A
// body whose length is not announced ends with the connection (RFC 9112 section
// 6.3).
func (h *ResponseHeader) setParsed(head *h1.Head) {
	h.header.setParsed(head)
	h.table.KeepLast(uint64(lastCountsInResponses))
	h.statusCode = head.StatusCode
	h.reasonAt = head.Reason
	h.closesByLength = !h.connectionClose && h.contentLength == -2 && !bodyForbidden(head.StatusCode)
	if h.closesByLength {
		h.connectionClose = true
	}
}

// StatusCode returns the status code, 200 if none was set.
func (h *ResponseHeader) StatusCode() int {
	if h.statusCode == 0 {
		return StatusOK
	}
	return h.statusCode
}

// SetStatusCode sets the status code. A response with a code below 100 or above
// 999 is written as 500, because a status line must not have such a code.
func (h *ResponseHeader) SetStatusCode(statusCode int) { h.statusCode = statusCode }

// StatusMessage returns the reason phrase that was received or set. It returns
// nil if there is none; the usual phrase of the status code is then written.
func (h *ResponseHeader) StatusMessage() []byte {
	switch {
	case h.reasonAt.End > h.reasonAt.Start:
		return h.reasonAt.In(h.table.Raw())
	case len(h.reason) > 0:
		return h.reason
	}
	return nil
}

// SetStatusMessage sets the reason phrase. An empty one selects the usual
// phrase of the status code. CR and LF become spaces; other control characters
// except HTAB are written as spaces.
func (h *ResponseHeader) SetStatusMessage(statusMessage []byte) {
	h.reason = ascii.AppendOneLine(h.reason[:0], statusMessage)
	h.reasonAt = h1.Span{}
}

// SetProtocol sets what Protocol returns. The response is written as HTTP/1.0
// if protocol is "HTTP/1.0", and as HTTP/1.1 otherwise.
func (h *ResponseHeader) SetProtocol(protocol []byte) { h.setProtocol(protocol) }

// ContentType returns the value of the Content-Type field. If there is none, it
// returns the default, unless SetNoDefaultContentType has switched it off.
func (h *ResponseHeader) ContentType() []byte {
	if value := h.table.Get(field.ContentType); len(value) > 0 || h.noDefaultContentType {
		return value
	}
	return own(h.typeText[:], textPlain)
}

// SetContentLength sets the length of the body in bytes. -1 stands for a chunked
// body. Any smaller number stands for a body that ends with the connection, and
// also sets "Connection: close". SetContentLength has no effect on a response
// whose status forbids a body. Writing a Response sets the length from the body.
func (h *ResponseHeader) SetContentLength(contentLength int) {
	switch {
	case bodyForbidden(h.StatusCode()):
	case contentLength >= 0:
		h.setLength(contentLength)
	default:
		h.contentLength, h.hasLength = max(contentLength, -2), false
		if contentLength < -1 {
			h.connectionClose = true
		}
	}
}

// Server returns the value of the Server field of the head. If that is absent or
// empty, Server returns the field of the trailer section. In a handler, the
// initial value is the server's name.
func (h *ResponseHeader) Server() []byte {
	if value := h.ownServer(); len(value) > 0 {
		return value
	}
	return h.get(field.Server)
}

// ownServer is headServer, with a result that belongs to h: callers that write
// to it change no other message.
func (h *ResponseHeader) ownServer() []byte {
	value := h.headServer()
	if len(value) == 0 || len(h.table.Get(field.Server)) > 0 {
		return value
	}
	h.serverText = append(h.serverText[:0], value...)
	return h.serverText
}

// headServer is Server without the trailer section.
func (h *ResponseHeader) headServer() []byte {
	if h.showsServer && h.table.Index(field.Server) < 0 {
		return h.defaultServer
	}
	return h.table.Get(field.Server)
}

// SetServer sets the Server field. If the value is empty or the field was
// deleted, a Server sends its own name.
func (h *ResponseHeader) SetServer(server string) { h.SetServerBytes(ascii.Bytes(server)) }

// SetServerBytes is SetServer for bytes.
func (h *ResponseHeader) SetServerBytes(server []byte) { h.setKnown(field.Server, server) }

// SetLastModified sets the Last-Modified field.
func (h *ResponseHeader) SetLastModified(t time.Time) {
	h.text = AppendHTTPDate(h.text[:0], t)
	h.setKnown(field.LastModified, h.text)
}

// SetContentRange sets the Content-Range field to "bytes
// startPos-endPos/contentLength" (RFC 9110 section 14.4). A negative
// contentLength stands for an unknown length. A negative startPos, or an endPos
// below startPos, stands for a range that cannot be satisfied.
func (h *ResponseHeader) SetContentRange(startPos, endPos, contentLength int) {
	h.text = append(h.text[:0], "bytes "...)
	if startPos < 0 || endPos < startPos {
		h.text = append(h.text, '*')
	} else {
		h.text = ascii.AppendUint(h.text, uint64(startPos))
		h.text = append(h.text, '-')
		h.text = ascii.AppendUint(h.text, uint64(endPos))
	}
	h.text = append(h.text, '/')
	if contentLength < 0 {
		h.text = append(h.text, '*')
	} else {
		h.text = ascii.AppendUint(h.text, uint64(contentLength))
	}
	h.setKnown(field.ContentRange, h.text)
}

// Peek returns the value of the first field named key, nil if there is none. For
// Content-Type and Server it returns what the methods of these names return.
// Several Set-Cookie fields are returned as one value, joined with "; ". If a
// field is not in the head, Peek looks in the trailer section.
func (h *ResponseHeader) Peek(key string) []byte { return h.PeekBytes(ascii.Bytes(key)) }

// PeekBytes is Peek for bytes.
func (h *ResponseHeader) PeekBytes(key []byte) []byte { return h.peek(field.Lookup(key), key) }

// peek shadows header.peek for Set-Cookie and for the fields that have a default
// in responses.
func (h *ResponseHeader) peek(id field.ID, key []byte) []byte {
	switch id {
	case field.ContentType:
		return h.ContentType()
	case field.Server:
		return h.Server()
	case field.SetCookie:
		return h.setCookies()
	}
	return h.header.peek(id, key)
}

// PeekCanonical is PeekBytes without normalisation of the key: it finds what
// SetCanonical set with the same key.
func (h *ResponseHeader) PeekCanonical(key []byte) []byte {
	switch id := field.Lookup(key); id {
	case field.ContentType, field.Server, field.SetCookie:
		if string(id.Canonical()) == string(key) {
			return h.peek(id, key)
		}
	}
	return h.peekCanonical(key)
}

// PeekAll returns the values of all fields named key, first those of the head,
// then those of the trailer section. See Peek for fields that have one value.
// The slice of values is valid until the next call of a Peek method.
func (h *ResponseHeader) PeekAll(key string) [][]byte {
	switch id := field.Lookup(key); id {
	case field.ContentType, field.SetCookie:
		return h.peekedOne(h.peek(id, ascii.Bytes(key)))
	case field.Server:
		return h.peekedSingle(id, h.ownServer())
	default:
		return h.peekEvery(id, ascii.Bytes(key), responseFields|1<<field.Date)
	}
}

// PeekKeys returns the names of all fields, in the order of All. The slice is
// valid until the next call of a Peek method.
func (h *ResponseHeader) PeekKeys() [][]byte {
	h.peeked, h.names = h.peeked[:0], h.names[:0]
	h.visit(func(key, _ []byte) bool {
		h.addPeeked(key)
		return true
	})
	return h.peeked
}

// Len returns the number of fields that All iterates over.
func (h *ResponseHeader) Len() int {
	n := 0
	h.visit(func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}

// visit yields the fields: first those that are treated specially, then the
// others in their order.
func (h *ResponseHeader) visit(yield func(key, value []byte) bool) bool {
	return visitKnown(field.ContentLength, h.lengthValue(), yield) &&
		visitKnown(field.ContentType, h.ContentType(), yield) &&
		visitKnown(field.ContentEncoding, h.ContentEncoding(), yield) &&
		visitKnown(field.Server, h.ownServer(), yield) &&
		h.visitSetCookies(yield) &&
		visitKnown(field.Trailer, h.announcement(), yield) &&
		h.visitChunked(yield) && h.visitPlain(responseFields, yield) && h.visitClose(yield)
}

func (h *ResponseHeader) visitSetCookies(yield func(key, value []byte) bool) bool {
	for i := h.table.Index(field.SetCookie); i >= 0; i = h.table.FindID(field.SetCookie, i+1) {
		if !yield(field.SetCookie.Canonical(), h.table.Value(i)) {
			return false
		}
	}
	return true
}

// All iterates over the fields of the head: Content-Length, Content-Type,
// Content-Encoding, Server, Set-Cookie and Trailer first, then the others in the
// order in which they were received or added. Trailer lists the names of all
// trailer fields, including those that were received without an announcement.
// For the trailer fields themselves, see Trailers and Peek. The header must not
// be changed during the iteration.
func (h *ResponseHeader) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.visit(yield) }
}

// VisitAll calls f for each field; see All. f must not retain the slices.
//
// Deprecated: Use All.
func (h *ResponseHeader) VisitAll(f func(key, value []byte)) { h.visit(visitor(f)) }

// AppendBytes appends the head to dst in wire format, with the current date.
func (h *ResponseHeader) AppendBytes(dst []byte) []byte { return h.appendHead(dst, h.framing()) }

// Header returns the head in wire format. It does not include the trailer
// section; see TrailerHeader. The result is valid until the next call of Header
// or change of the header.
func (h *ResponseHeader) Header() []byte {
	h.text = h.AppendBytes(h.text[:0])
	return h.text
}

// String returns the head in wire format.
func (h *ResponseHeader) String() string { return string(h.Header()) }

// Write writes the head to w.
func (h *ResponseHeader) Write(w *bufio.Writer) error {
	_, err := w.Write(h.Header())
	return err
}

// WriteTo writes the head to w in one call. It implements io.WriterTo.
func (h *ResponseHeader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(h.Header())
	return int64(n), err
}
