package message

import (
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// ResponseHeader is the head of a response. The zero value is the head of
// "HTTP/1.1 200 OK" without fields.
type ResponseHeader struct {
	Header

	status   int
	reasonAt h1.Span // in the raw head, if it was received
	reason   []byte
	joined   []byte // the result of Peek for several Set-Cookie fields
	// closesByLength: ConnectionClose is set only because the length is missing.
	closesByLength bool

	typeText   [len("text/plain; charset=utf-8")]byte // ContentType's default
	serverText []byte                                 // Server's default

	// DefaultServer is the name of the server that will write the response, nil
	// if it has none. It has no control characters. Reset keeps it.
	DefaultServer []byte
	// DefaultAltSvc is the Alt-Svc of a response that has none of its own, nil if there is none
	// (RFC 7838 section 3). Getters do not show it. As DefaultServer otherwise.
	DefaultAltSvc []byte

	start headStart // of the last head that was written; Reset keeps it
}

// Reset makes h the zero value. It keeps memory for the next use.
func (h *ResponseHeader) Reset() {
	h.reset()
	h.resetStatus()
}

// ResetMessage empties the header before a message is read. It keeps the
// settings.
func (h *ResponseHeader) ResetMessage() {
	h.resetMessage()
	h.resetStatus()
}

func (h *ResponseHeader) resetStatus() {
	h.status = 0
	h.reasonAt = h1.Span{}
	h.reason = h.reason[:0]
}

// CopyTo makes dst, which is not h, a copy of h that shares no memory with it.
func (h *ResponseHeader) CopyTo(dst *ResponseHeader) {
	h.copyTo(&dst.Header)
	dst.ShowsServer = false
	if server := h.headServer(); len(server) > 0 && h.Table.Index(field.Server) < 0 {
		dst.Table.Set(field.Server, server)
	}
	dst.status = h.status
	dst.reasonAt = h.reasonAt
	replace(&dst.reason, h.reason)
}

// Exchange swaps what was received with other.
func (h *ResponseHeader) Exchange(other *ResponseHeader) {
	h.Header, other.Header = other.Header, h.Header
	h.Header.Moved()
	other.Header.Moved()
	h.status, other.status = other.status, h.status
	h.reasonAt, other.reasonAt = other.reasonAt, h.reasonAt
	h.reason, other.reason = other.reason, h.reason
	h.closesByLength = other.closesByLength
}

// SetParsed sets the state from the head that a parser has put into h.Table. A
// body whose length is not announced ends with the connection (RFC 9112 section
// 6.3).
func (h *ResponseHeader) SetParsed(head *h1.Head) {
	h.setParsed(head)
	h.Table.Join(field.ContentEncoding)
	h.Table.KeepLast(uint64(lastCountsInResponses))
	h.status = head.StatusCode
	h.reasonAt = head.Reason
	h.closesByLength = !h.ConnectionClose && h.ContentLength == -2 && !BodyForbidden(head.StatusCode)
	if h.closesByLength {
		h.ConnectionClose = true
	}
}

// SettleHead is called for the answer to HEAD: there is no body whose end
// closes the connection.
func (h *ResponseHeader) SettleHead() {
	if h.closesByLength {
		h.ConnectionClose = false
	}
}

// Status returns the status code, 200 if none was set.
func (h *ResponseHeader) Status() int {
	if h.status == 0 {
		return StatusOK
	}
	return h.status
}

// SetStatus sets the status code. A response with a code below 100 or above 999
// is written as 500.
func (h *ResponseHeader) SetStatus(code int) { h.status = code }

// Sum returns a number that changes, in all likelihood, when the status, its reason or a field
// of the head does. The length of the body, trailer fields and ConnectionClose do not count.
func (h *ResponseHeader) Sum() uint32 {
	sum := uint32(h.Status())
	sum = ascii.AddSum(sum, h.Reason())
	for i := range h.Table.Len() {
		sum = ascii.AddSum(ascii.AddSum(sum, h.Table.Name(i)), h.Table.Value(i))
	}
	return sum
}

// Reason returns the reason phrase that was received or set, nil if there is
// none; the usual phrase of the status code is then written.
func (h *ResponseHeader) Reason() []byte {
	switch {
	case h.reasonAt.End > h.reasonAt.Start:
		return h.reasonAt.In(h.Table.Raw())
	case len(h.reason) > 0:
		return h.reason
	}
	return nil
}

// SetReason sets the reason phrase.
func (h *ResponseHeader) SetReason(reason []byte) {
	h.reason = ascii.AppendOneLine(h.reason[:0], reason)
	h.reasonAt = h1.Span{}
}

// ContentType returns the value of the Content-Type field, or the default.
func (h *ResponseHeader) ContentType() []byte {
	if value := h.Table.Get(field.ContentType); len(value) > 0 || h.NoDefaultContentType {
		return value
	}
	return own(h.typeText[:], textPlain)
}

// SetContentLength sets the length of the body; see
// sluice.ResponseHeader.SetContentLength.
func (h *ResponseHeader) SetContentLength(n int) {
	switch {
	case BodyForbidden(h.Status()):
	case n >= 0:
		h.setLength(n)
	default:
		h.ContentLength, h.HasLength = max(n, -2), false
		if n < -1 {
			h.ConnectionClose = true
		}
	}
}

// Server returns the value of the Server field of the head. If that is absent or
// empty, it returns the field of the trailer section.
func (h *ResponseHeader) Server() []byte {
	if value := h.ownServer(); len(value) > 0 {
		return value
	}
	return h.Get(field.Server)
}

// ownServer is headServer, with a result that belongs to h: callers that write
// to it change no other message.
func (h *ResponseHeader) ownServer() []byte {
	value := h.headServer()
	if len(value) == 0 || len(h.Table.Get(field.Server)) > 0 {
		return value
	}
	h.serverText = append(h.serverText[:0], value...)
	return h.serverText
}

// headServer is Server without the trailer section.
func (h *ResponseHeader) headServer() []byte {
	if h.ShowsServer && h.Table.Index(field.Server) < 0 {
		return h.DefaultServer
	}
	return h.Table.Get(field.Server)
}

// altSvc returns the Alt-Svc to write that is not a field of h.
func (h *ResponseHeader) altSvc() []byte {
	if len(h.DefaultAltSvc) == 0 { // a call would cost every response
		return nil
	}
	return h.otherAltSvc()
}

func (h *ResponseHeader) otherAltSvc() []byte {
	for i := range h.Table.Len() {
		if h.Table.ID(i) == field.Other && ascii.EqualFold(h.Table.Name(i), textAltSvc) {
			return nil
		}
	}
	return h.DefaultAltSvc
}

// SetDate sets the Date field; see sluice.ResponseHeader.SetDate.
func (h *ResponseHeader) SetDate(value []byte) {
	h.Table.DelID(field.Date)
	if len(value) > 0 {
		h.Table.Set(field.Date, h.FitValue(value))
	}
	h.OwnsDate = true
}

// IsSet reports whether there is a field named key; see sluice.ResponseHeader.IsSet.
func (h *ResponseHeader) IsSet(key []byte) bool {
	switch id := field.Lookup(key); id {
	case field.ContentType, field.Server:
		return h.Table.Index(id) >= 0
	default:
		return h.peek(id, key) != nil
	}
}

// SetLastModified sets the Last-Modified field.
func (h *ResponseHeader) SetLastModified(t time.Time) {
	h.text = AppendDate(h.text[:0], t)
	h.SetKnown(field.LastModified, h.text)
}

// SetContentRange sets the Content-Range field; see
// sluice.ResponseHeader.SetContentRange.
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
	h.SetKnown(field.ContentRange, h.text)
}

// Peek is Header.Peek with the defaults of responses and all cookies in one
// value.
func (h *ResponseHeader) Peek(key []byte) []byte { return h.peek(field.Lookup(key), key) }

// peek shadows Header.peek for Set-Cookie and for the fields that have a default
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
	return h.Header.peek(id, key)
}

// PeekCanonical is Peek without normalisation of the key.
func (h *ResponseHeader) PeekCanonical(key []byte) []byte {
	switch id := field.Lookup(key); id {
	case field.ContentType, field.Server, field.SetCookie:
		if string(id.Canonical()) == string(key) {
			return h.peek(id, key)
		}
	}
	return h.Header.PeekCanonical(key)
}

// PeekAll returns the values of all fields named key, first those of the head,
// then those of the trailer section.
func (h *ResponseHeader) PeekAll(key []byte) [][]byte {
	switch id := field.Lookup(key); id {
	case field.ContentType, field.SetCookie:
		return h.peekedOne(h.peek(id, key))
	case field.Server:
		return h.peekedSingle(id, h.ownServer())
	default:
		return h.peekEvery(id, key, responseFields|1<<field.Date)
	}
}

// PeekKeys returns the names that Visit yields.
func (h *ResponseHeader) PeekKeys() [][]byte {
	h.peeked, h.names = h.peeked[:0], h.names[:0]
	h.Visit(func(key, _ []byte) bool {
		h.addPeeked(key)
		return true
	})
	return h.peeked
}

// Len returns the number of fields that Visit yields.
func (h *ResponseHeader) Len() int {
	n := 0
	h.Visit(func(_, _ []byte) bool {
		n++
		return true
	})
	return n
}

// Visit yields the fields: first those that are treated specially, then the
// others in their order. It returns false if yield returned false.
func (h *ResponseHeader) Visit(yield func(key, value []byte) bool) bool {
	return visitKnown(field.ContentLength, h.lengthValue(), yield) &&
		visitKnown(field.ContentType, h.ContentType(), yield) &&
		visitKnown(field.ContentEncoding, h.Table.Get(field.ContentEncoding), yield) &&
		visitKnown(field.Server, h.ownServer(), yield) &&
		h.visitSetCookies(yield) &&
		visitKnown(field.Trailer, h.announcement(), yield) &&
		h.visitChunked(yield) && h.visitPlain(responseFields, yield) && h.visitClose(yield)
}

func (h *ResponseHeader) visitSetCookies(yield func(key, value []byte) bool) bool {
	for i := h.Table.Index(field.SetCookie); i >= 0; i = h.Table.FindID(field.SetCookie, i+1) {
		if !yield(field.SetCookie.Canonical(), h.Table.Value(i)) {
			return false
		}
	}
	return true
}

// Head returns the head in wire format, with the current date, in memory of h.
func (h *ResponseHeader) Head() []byte {
	h.text = h.AppendHead(h.text[:0], h.Framing())
	return h.text
}
