package sluice

import (
	"bufio"
	"io"
	"iter"
	"time"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// ResponseHeader is the head of a response: status and fields.
//
// The zero value is the head of "HTTP/1.1 200 OK" without fields. What RequestHeader
// promises of slices and of what setters are given holds here, too, also for reason
// phrases.
type ResponseHeader struct {
	noCopy noCopy
	m      message.ResponseHeader
}

// Reset makes h the zero value. It keeps memory for the next use.
func (h *ResponseHeader) Reset() { h.m.Reset() }

// CopyTo makes dst a copy of h that shares no memory with it.
func (h *ResponseHeader) CopyTo(dst *ResponseHeader) {
	if h != dst {
		h.m.CopyTo(&dst.m)
	}
}

// StatusCode returns the status code, 200 if none was set.
func (h *ResponseHeader) StatusCode() int { return h.m.Status() }

// SetStatusCode sets the status code. A response with a code below 100 or above
// 999 is written as 500, because a status line must not have such a code.
func (h *ResponseHeader) SetStatusCode(statusCode int) { h.m.SetStatus(statusCode) }

// StatusMessage returns the reason phrase that was received or set. It returns
// nil if there is none; the usual phrase of the status code is then written.
func (h *ResponseHeader) StatusMessage() []byte { return h.m.Reason() }

// SetStatusMessage sets the reason phrase. An empty one selects the usual
// phrase of the status code.
func (h *ResponseHeader) SetStatusMessage(statusMessage []byte) { h.m.SetReason(statusMessage) }

// SetProtocol is RequestHeader.SetProtocolBytes.
func (h *ResponseHeader) SetProtocol(protocol []byte) { h.m.SetProtocol(protocol) }

// ContentType returns the value of the Content-Type field. If there is none, it
// returns the default, unless SetNoDefaultContentType has switched it off.
func (h *ResponseHeader) ContentType() []byte { return h.m.ContentType() }

// SetContentLength sets the length of the body in bytes. -1 stands for a chunked
// body. Any smaller number stands for a body that ends with the connection, and
// also sets "Connection: close". SetContentLength has no effect on a response
// whose status forbids a body. Writing a Response sets the length from the body.
func (h *ResponseHeader) SetContentLength(contentLength int) { h.m.SetContentLength(contentLength) }

// Server returns the value of the Server field of the head. If that is absent or
// empty, Server returns the field of the trailer section. In a handler, the
// initial value is the server's name.
func (h *ResponseHeader) Server() []byte { return h.m.Server() }

// SetServer sets the Server field. If the value is empty or the field was
// deleted, a Server sends its own name.
func (h *ResponseHeader) SetServer(server string) { h.m.SetKnown(field.Server, ascii.Bytes(server)) }

// SetServerBytes is SetServer for bytes.
func (h *ResponseHeader) SetServerBytes(server []byte) { h.m.SetKnown(field.Server, server) }

// SetDate sets the Date field, which Set and Add ignore. It is sent instead of the
// server's: a gateway passes on when the origin has made a response (RFC 9110 section
// 6.6.1). With an empty value, no Date is sent. Del("Date") undoes it.
func (h *ResponseHeader) SetDate(value string) { h.m.SetDate(ascii.Bytes(value)) }

// IsSet reports whether a field named key was set or received. Unlike Peek, it does not
// count what is sent by default: the server's name and the default Content-Type.
func (h *ResponseHeader) IsSet(key string) bool { return h.m.IsSet(ascii.Bytes(key)) }

// SetLastModified sets the Last-Modified field.
func (h *ResponseHeader) SetLastModified(t time.Time) { h.m.SetLastModified(t) }

// SetContentRange sets the Content-Range field to "bytes
// startPos-endPos/contentLength" (RFC 9110 section 14.4). A negative
// contentLength stands for an unknown length. A negative startPos, or an endPos
// below startPos, stands for a range that cannot be satisfied.
func (h *ResponseHeader) SetContentRange(startPos, endPos, contentLength int) {
	h.m.SetContentRange(startPos, endPos, contentLength)
}

// Peek returns the value of the first field named key, nil if there is none. For
// Content-Type and Server it returns what the methods of these names return.
// Several Set-Cookie fields are returned as one value, joined with "; ". If a
// field is not in the head, Peek looks in the trailer section.
func (h *ResponseHeader) Peek(key string) []byte { return h.m.Peek(ascii.Bytes(key)) }

// PeekBytes is Peek for bytes.
func (h *ResponseHeader) PeekBytes(key []byte) []byte { return h.m.Peek(key) }

// PeekCanonical is RequestHeader.PeekCanonical.
func (h *ResponseHeader) PeekCanonical(key []byte) []byte { return h.m.PeekCanonical(key) }

// PeekAll is RequestHeader.PeekAll. See Peek for fields that have one value.
func (h *ResponseHeader) PeekAll(key string) [][]byte { return h.m.PeekAll(ascii.Bytes(key)) }

// PeekKeys is RequestHeader.PeekKeys.
func (h *ResponseHeader) PeekKeys() [][]byte { return h.m.PeekKeys() }

// Len returns the number of fields that All iterates over.
func (h *ResponseHeader) Len() int { return h.m.Len() }

// All is RequestHeader.All, but the fields that come first are Content-Length,
// Content-Type, Content-Encoding, Server, Set-Cookie and Trailer.
func (h *ResponseHeader) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.m.Visit(yield) }
}

// VisitAll calls f for each field; see All. f must not retain the slices.
//
// Deprecated: Use All.
func (h *ResponseHeader) VisitAll(f func(key, value []byte)) { h.m.Visit(visitor(f)) }

// AppendBytes appends the head to dst in wire format, with the current date.
func (h *ResponseHeader) AppendBytes(dst []byte) []byte { return append(dst, h.m.Head()...) }

// Header is RequestHeader.Header.
func (h *ResponseHeader) Header() []byte { return h.m.Head() }

// String returns the head in wire format.
func (h *ResponseHeader) String() string { return string(h.m.Head()) }

// Write writes the head to w.
func (h *ResponseHeader) Write(w *bufio.Writer) error {
	_, err := w.Write(h.m.Head())
	return err
}

// WriteTo writes the head to w in one call. It implements io.WriterTo.
func (h *ResponseHeader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(h.m.Head())
	return int64(n), err
}

// DisableNormalizing is RequestHeader.DisableNormalizing.
func (h *ResponseHeader) DisableNormalizing() bool { return h.m.SetKeepNames(true) }

// EnableNormalizing is RequestHeader.EnableNormalizing.
func (h *ResponseHeader) EnableNormalizing() bool { return h.m.SetKeepNames(false) }

// Protocol is RequestHeader.Protocol.
func (h *ResponseHeader) Protocol() []byte { return h.m.Protocol() }

// IsHTTP11 is RequestHeader.IsHTTP11.
func (h *ResponseHeader) IsHTTP11() bool { return h.m.IsHTTP11() }

// ContentLength is RequestHeader.ContentLength.
func (h *ResponseHeader) ContentLength() int { return h.m.ContentLength }

// ConnectionClose is RequestHeader.ConnectionClose.
func (h *ResponseHeader) ConnectionClose() bool { return h.m.ConnectionClose }

// SetConnectionClose is RequestHeader.SetConnectionClose.
func (h *ResponseHeader) SetConnectionClose() { h.m.ConnectionClose = true }

// ResetConnectionClose is RequestHeader.ResetConnectionClose.
func (h *ResponseHeader) ResetConnectionClose() { h.m.ResetConnectionClose() }

// ConnectionUpgrade is RequestHeader.ConnectionUpgrade.
func (h *ResponseHeader) ConnectionUpgrade() bool { return h.m.ConnectionUpgrade() }

// ContentEncoding is RequestHeader.ContentEncoding.
func (h *ResponseHeader) ContentEncoding() []byte { return h.m.ContentEncoding() }

// SetContentEncoding is RequestHeader.SetContentEncoding.
func (h *ResponseHeader) SetContentEncoding(contentEncoding string) {
	h.m.SetKnown(field.ContentEncoding, ascii.Bytes(contentEncoding))
}

// SetContentEncodingBytes is RequestHeader.SetContentEncodingBytes.
func (h *ResponseHeader) SetContentEncodingBytes(contentEncoding []byte) {
	h.m.SetKnown(field.ContentEncoding, contentEncoding)
}

// SetContentType is RequestHeader.SetContentType.
func (h *ResponseHeader) SetContentType(contentType string) {
	h.m.SetContentType(ascii.Bytes(contentType))
}

// SetContentTypeBytes is RequestHeader.SetContentTypeBytes.
func (h *ResponseHeader) SetContentTypeBytes(contentType []byte) {
	h.m.SetContentType(contentType)
}

// SetNoDefaultContentType is RequestHeader.SetNoDefaultContentType.
func (h *ResponseHeader) SetNoDefaultContentType(noDefaultContentType bool) {
	h.m.NoDefaultContentType = noDefaultContentType
}

// Set is RequestHeader.Set, but ignores Date unless Date is announced as a trailer
// field: the server writes the current date.
func (h *ResponseHeader) Set(key, value string) { h.m.Put(key, ascii.Bytes(value), message.DropsDate) }

// SetBytesK is RequestHeader.SetBytesK without Date; see Set.
func (h *ResponseHeader) SetBytesK(key []byte, value string) {
	h.m.Put(ascii.String(key), ascii.Bytes(value), message.DropsDate)
}

// SetBytesV is RequestHeader.SetBytesV without Date; see Set.
func (h *ResponseHeader) SetBytesV(key string, value []byte) { h.m.Put(key, value, message.DropsDate) }

// SetBytesKV is RequestHeader.SetBytesKV without Date; see Set.
func (h *ResponseHeader) SetBytesKV(key, value []byte) {
	h.m.Put(ascii.String(key), value, message.DropsDate)
}

// Add is RequestHeader.Add without Date; see Set.
func (h *ResponseHeader) Add(key, value string) {
	h.m.Put(key, ascii.Bytes(value), message.Adds|message.DropsDate)
}

// AddBytesK is RequestHeader.AddBytesK without Date; see Set.
func (h *ResponseHeader) AddBytesK(key []byte, value string) {
	h.m.Put(ascii.String(key), ascii.Bytes(value), message.Adds|message.DropsDate)
}

// AddBytesV is RequestHeader.AddBytesV without Date; see Set.
func (h *ResponseHeader) AddBytesV(key string, value []byte) {
	h.m.Put(key, value, message.Adds|message.DropsDate)
}

// AddBytesKV is RequestHeader.AddBytesKV without Date; see Set.
func (h *ResponseHeader) AddBytesKV(key, value []byte) {
	h.m.Put(ascii.String(key), value, message.Adds|message.DropsDate)
}

// SetCanonical is RequestHeader.SetCanonical without Date; see Set.
func (h *ResponseHeader) SetCanonical(key, value []byte) {
	h.m.PutCanonical(key, value, message.DropsDate)
}

// AddVary adds a field name to Vary, unless Vary has it, or is "*" (RFC 9110 section 12.5.5). It
// ignores a name that is not a token, as Set does.
func (h *ResponseHeader) AddVary(name string) { h.m.AddVary(name) }

// Del is RequestHeader.Del.
func (h *ResponseHeader) Del(key string) { h.m.Del(ascii.Bytes(key)) }

// DelBytes is RequestHeader.DelBytes.
func (h *ResponseHeader) DelBytes(key []byte) { h.m.Del(key) }

// AddTrailer is RequestHeader.AddTrailer.
func (h *ResponseHeader) AddTrailer(trailer string) error { return h.m.Announce(ascii.Bytes(trailer)) }

// AddTrailerBytes is RequestHeader.AddTrailerBytes.
func (h *ResponseHeader) AddTrailerBytes(trailer []byte) error { return h.m.Announce(trailer) }

// SetTrailer is RequestHeader.SetTrailer.
func (h *ResponseHeader) SetTrailer(trailer string) error {
	return h.m.ReplaceAnnouncement(ascii.Bytes(trailer))
}

// SetTrailerBytes is RequestHeader.SetTrailerBytes.
func (h *ResponseHeader) SetTrailerBytes(trailer []byte) error {
	return h.m.ReplaceAnnouncement(trailer)
}

// PeekTrailerKeys is RequestHeader.PeekTrailerKeys.
func (h *ResponseHeader) PeekTrailerKeys() [][]byte { return h.m.TrailerKeys() }

// Trailers is RequestHeader.Trailers.
func (h *ResponseHeader) Trailers() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { h.m.VisitTrailers(yield) }
}

// VisitAllTrailer is RequestHeader.VisitAllTrailer.
func (h *ResponseHeader) VisitAllTrailer(f func(value []byte)) {
	for name := range h.Trailers() {
		f(name)
	}
}

// TrailerHeader is RequestHeader.TrailerHeader.
func (h *ResponseHeader) TrailerHeader() []byte { return h.m.TrailerSection() }

// Cookie reads into cookie the Set-Cookie field that sets cookie's key. A
// malformed field makes cookie empty. If there is no such field, Cookie returns
// false and does not change cookie.
func (h *ResponseHeader) Cookie(cookie *Cookie) bool {
	value, ok := h.m.PeekCookie(cookie.Key())
	if ok {
		_ = cookie.ParseBytes(value) // an error makes cookie empty
	}
	return ok
}

// PeekCookie returns the value of the Set-Cookie field that sets the cookie
// key, nil if there is none. Cookie.ParseBytes parses it.
func (h *ResponseHeader) PeekCookie(key string) []byte {
	value, _ := h.m.PeekCookie(ascii.Bytes(key))
	return value
}

// SetCookie adds a Set-Cookie field for cookie, or replaces the one with the
// same key. It does not retain cookie.
func (h *ResponseHeader) SetCookie(cookie *Cookie) { h.m.SetCookie(&cookie.m) }

// DelCookie removes the Set-Cookie fields that set the cookie key. To make the
// client delete a cookie, use DelClientCookie.
func (h *ResponseHeader) DelCookie(key string) { h.m.DelCookie(ascii.Bytes(key)) }

// DelCookieBytes is DelCookie for bytes.
func (h *ResponseHeader) DelCookieBytes(key []byte) { h.m.DelCookie(key) }

// DelClientCookie makes the client delete the cookie key: it sets the cookie
// with an expiry in the past. A cookie with a domain or path is a different
// cookie: to delete it, set one with the same key, domain and path, and the
// expiry CookieExpireDelete.
func (h *ResponseHeader) DelClientCookie(key string) { h.DelClientCookieBytes(ascii.Bytes(key)) }

// DelClientCookieBytes is DelClientCookie for bytes.
func (h *ResponseHeader) DelClientCookieBytes(key []byte) {
	h.DelCookieBytes(key)
	cookie := AcquireCookie()
	cookie.SetKeyBytes(key)
	cookie.SetExpire(CookieExpireDelete)
	h.SetCookie(cookie)
	ReleaseCookie(cookie)
}

// DelAllCookies removes all Set-Cookie fields.
func (h *ResponseHeader) DelAllCookies() { h.m.Table.DelID(field.SetCookie) }

// Cookies iterates over the cookies that the response sets. It yields the name
// of each, and the whole value of its Set-Cookie field, which Cookie.ParseBytes
// parses. The header must not be changed during the iteration.
func (h *ResponseHeader) Cookies() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.m.VisitCookies(yield) }
}

// VisitAllCookie calls f with what Cookies yields. f must not retain it.
//
// Deprecated: Use Cookies.
func (h *ResponseHeader) VisitAllCookie(f func(key, value []byte)) { h.m.VisitCookies(visitor(f)) }

// Read reads the head of a response from r. What follows the head stays in r. h
// keeps its settings. Up to four line ends before the head are skipped.
//
// The errors are those of RequestHeader.Read, with two differences. If r fails
// before the first byte, the error is ErrTimeout for a time-out; for any other
// failure, it matches both io.EOF and the error of r. The error of a malformed
// head also matches ErrReadingResponseHeaders.
func (h *ResponseHeader) Read(r *bufio.Reader) error {
	h.m.ResetMessage()
	return startError(h.m.Read(r, message.ReaderLimits(r), nil), io.EOF)
}

// ReadTrailer is RequestHeader.ReadTrailer.
func (h *ResponseHeader) ReadTrailer(r *bufio.Reader) error {
	return h.m.ReadTrailer(r, message.ReaderLimits(r))
}

// head returns h as the packages of protocols, of files and of compression take it.
func (h *ResponseHeader) head() *message.ResponseHeader { return &h.m }

// location returns the target of a redirect.
func (h *ResponseHeader) location() []byte { return h.m.Get(field.Location) }

// resetMessage empties h before a head is read, and keeps the settings.
func (h *ResponseHeader) resetMessage() { h.m.ResetMessage() }

// settleHead is called for the answer to HEAD.
func (h *ResponseHeader) settleHead() { h.m.SettleHead() }

// exchange swaps what was received with other; the settings stay.
func (h *ResponseHeader) exchange(other *ResponseHeader) { h.m.Exchange(&other.m) }

// forgetFraming leaves it to the request how the body is delimited.
func (h *ResponseHeader) forgetFraming() { h.m.HasLength, h.m.IsHTTP10 = false, false }

// heldBytes is the memory that h keeps for its next use.
func (h *ResponseHeader) heldBytes() int { return h.m.Table.HeldBytes() }

// shrink releases memory beyond maxBytes, and that for more than maxFields.
func (h *ResponseHeader) shrink(maxBytes, maxFields int) { h.m.Shrink(maxBytes, maxFields) }
