package sluice

import (
	"bufio"
	"io"
	"iter"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// RequestHeader is the head of a request: method, target, version and fields.
//
// The zero value is the head of "GET / HTTP/1.1" without fields. It owns the slices that
// its methods return; see the package comment.
//
// The header is always written as one well-formed head, whatever its setters
// were given. A field name that is not a token sets nothing. CR and LF in values
// become spaces; other control characters except HTAB are written as spaces. The
// request-target is percent-encoded where needed.
type RequestHeader struct {
	noCopy noCopy
	m      message.RequestHeader
}

// Reset makes h the zero value. It keeps memory for the next use.
func (h *RequestHeader) Reset() { h.m.Reset() }

// CopyTo makes dst a copy of h that shares no memory with it.
func (h *RequestHeader) CopyTo(dst *RequestHeader) {
	if h != dst {
		h.m.CopyTo(&dst.m)
	}
}

// Method returns the method, "GET" if none was set.
func (h *RequestHeader) Method() []byte { return h.m.OwnMethod() }

// SetMethod sets the method. A method that is not a token (RFC 9110 section
// 9.1) selects the default, GET.
func (h *RequestHeader) SetMethod(method string) { h.m.SetMethod(ascii.Bytes(method)) }

// SetMethodBytes is SetMethod for bytes.
func (h *RequestHeader) SetMethodBytes(method []byte) { h.m.SetMethod(method) }

// IsGet reports whether the method is GET.
func (h *RequestHeader) IsGet() bool { return h.m.IsMethod(MethodGet) }

// IsHead reports whether the method is HEAD.
func (h *RequestHeader) IsHead() bool { return h.m.IsMethod(MethodHead) }

// IsPost reports whether the method is POST.
func (h *RequestHeader) IsPost() bool { return h.m.IsMethod(MethodPost) }

// IsPut reports whether the method is PUT.
func (h *RequestHeader) IsPut() bool { return h.m.IsMethod(MethodPut) }

// IsDelete reports whether the method is DELETE.
func (h *RequestHeader) IsDelete() bool { return h.m.IsMethod(MethodDelete) }

// IsPatch reports whether the method is PATCH.
func (h *RequestHeader) IsPatch() bool { return h.m.IsMethod(MethodPatch) }

// IsConnect reports whether the method is CONNECT.
func (h *RequestHeader) IsConnect() bool { return h.m.IsMethod(MethodConnect) }

// ConnectProtocol returns the protocol that a client of HTTP/2 asks for with an extended
// CONNECT, as it was received (":protocol", RFC 8441 section 4); empty: it is no such
// request. A WebSocket has "websocket" and is otherwise shown as an upgrade of HTTP/1.1;
// see HTTP2Config.DisableWebSocket.
func (h *RequestHeader) ConnectProtocol() []byte { return h.m.Connect() }

// IsOptions reports whether the method is OPTIONS.
func (h *RequestHeader) IsOptions() bool { return h.m.IsMethod(MethodOptions) }

// IsTrace reports whether the method is TRACE.
func (h *RequestHeader) IsTrace() bool { return h.m.IsMethod(MethodTrace) }

// IsQuery reports whether the method is QUERY.
func (h *RequestHeader) IsQuery() bool { return h.m.IsMethod(MethodQuery) }

// RequestURI returns the request-target (RFC 9112 section 3.2) as it was
// received or set, "/" if there is none.
func (h *RequestHeader) RequestURI() []byte { return h.m.OwnTarget() }

// SetRequestURI sets the request-target, which should be percent-encoded (RFC
// 3986 section 2.1). When the request is written, bytes that a target must not
// contain are encoded, and a fragment is left out. A target that begins with
// "?" gets a "/" before it, because every path begins with one.
func (h *RequestHeader) SetRequestURI(requestURI string) { h.m.SetTarget(ascii.Bytes(requestURI)) }

// SetRequestURIBytes is SetRequestURI for bytes.
func (h *RequestHeader) SetRequestURIBytes(requestURI []byte) { h.m.SetTarget(requestURI) }

// SetProtocol sets what Protocol returns. The request is written as HTTP/1.0 if
// protocol is "HTTP/1.0", and as HTTP/1.1 otherwise.
func (h *RequestHeader) SetProtocol(protocol string) { h.m.SetProtocol(ascii.Bytes(protocol)) }

// SetProtocolBytes is SetProtocol for bytes.
func (h *RequestHeader) SetProtocolBytes(protocol []byte) { h.m.SetProtocol(protocol) }

// Host returns the value of the Host field. A request in absolute form may ask
// for another host: see Request.Host.
func (h *RequestHeader) Host() []byte { return h.m.Host() }

// SetHost sets the Host field.
func (h *RequestHeader) SetHost(host string) { h.m.SetKnown(field.Host, ascii.Bytes(host)) }

// SetHostBytes is SetHost for bytes.
func (h *RequestHeader) SetHostBytes(host []byte) { h.m.SetKnown(field.Host, host) }

// UserAgent returns the value of the User-Agent field of the head. If the head
// has none, it returns the field of the trailer section.
func (h *RequestHeader) UserAgent() []byte { return h.m.Get(field.UserAgent) }

// SetUserAgent sets the User-Agent field.
func (h *RequestHeader) SetUserAgent(userAgent string) {
	h.m.SetKnown(field.UserAgent, ascii.Bytes(userAgent))
}

// SetUserAgentBytes is SetUserAgent for bytes.
func (h *RequestHeader) SetUserAgentBytes(userAgent []byte) { h.m.SetKnown(field.UserAgent, userAgent) }

// Referer is UserAgent for the Referer field.
func (h *RequestHeader) Referer() []byte { return h.m.Get(field.Referer) }

// SetReferer sets the Referer field.
func (h *RequestHeader) SetReferer(referer string) { h.m.SetKnown(field.Referer, ascii.Bytes(referer)) }

// SetRefererBytes is SetReferer for bytes.
func (h *RequestHeader) SetRefererBytes(referer []byte) { h.m.SetKnown(field.Referer, referer) }

// ContentType returns the value of the Content-Type field, nil if there is
// none.
func (h *RequestHeader) ContentType() []byte { return h.m.Table.Get(field.ContentType) }

// SetContentLength sets the length of the body in bytes. A negative length
// stands for a chunked body. Writing a Request sets the length from the body.
func (h *RequestHeader) SetContentLength(contentLength int) { h.m.SetContentLength(contentLength) }

// SetByteRange sets the Range field to "bytes=startPos-endPos" (RFC 9110
// section 14.2). If startPos is negative, the range is the last -startPos
// bytes. If endPos is negative, the range begins at startPos and has no end.
func (h *RequestHeader) SetByteRange(startPos, endPos int) { h.m.SetByteRange(startPos, endPos) }

// HasAcceptEncoding reports whether an Accept-Encoding field lists the content
// coding with a weight other than 0 (RFC 9110 section 12.5.3). The comparison
// is case-insensitive. A listed "*" does not count.
func (h *RequestHeader) HasAcceptEncoding(acceptEncoding string) bool {
	return h.m.Accepts(ascii.Bytes(acceptEncoding))
}

// HasAcceptEncodingBytes is HasAcceptEncoding for bytes.
func (h *RequestHeader) HasAcceptEncodingBytes(acceptEncoding []byte) bool {
	return h.m.Accepts(acceptEncoding)
}

// MultipartFormBoundary returns the boundary of the Content-Type
// "multipart/form-data; boundary=…". It returns nil if the Content-Type is
// another one or has no boundary.
func (h *RequestHeader) MultipartFormBoundary() []byte { return h.m.MultipartBoundary() }

// SetMultipartFormBoundary sets the Content-Type to "multipart/form-data;
// boundary=…".
func (h *RequestHeader) SetMultipartFormBoundary(boundary string) {
	h.m.SetMultipartBoundary(ascii.Bytes(boundary))
}

// SetMultipartFormBoundaryBytes is SetMultipartFormBoundary for bytes. A
// boundary that is not a token is quoted. Quotes and backslashes are then left
// out: a boundary must not contain them (RFC 2046 section 5.1.1).
func (h *RequestHeader) SetMultipartFormBoundaryBytes(boundary []byte) {
	h.m.SetMultipartBoundary(boundary)
}

// DisableSpecialHeader switches off the special treatment of fields. All fields
// are then written in the order in which they were set. A field is repeated only
// if it was added more than once. No field is added, except those that frame
// the body and those that the connection needs. It reports whether the special
// treatment was off before.
func (h *RequestHeader) DisableSpecialHeader() bool { return h.m.SetRaw(true) }

// EnableSpecialHeader switches on the special treatment of fields, which is the
// default; see DisableSpecialHeader. It reports whether the special treatment
// was off before.
func (h *RequestHeader) EnableSpecialHeader() bool { return h.m.SetRaw(false) }

// Peek returns the value of the first field named key in the head. If the head
// has none, Peek looks in the trailer section. It returns nil if neither has
// the field.
func (h *RequestHeader) Peek(key string) []byte { return h.m.Peek(ascii.Bytes(key)) }

// PeekBytes is Peek for bytes.
func (h *RequestHeader) PeekBytes(key []byte) []byte { return h.m.Peek(key) }

// PeekCanonical is PeekBytes without normalisation of the key: it finds what
// SetCanonical set with the same key.
func (h *RequestHeader) PeekCanonical(key []byte) []byte { return h.m.PeekCanonical(key) }

// PeekAll returns the values of all fields named key, first those of the head,
// then those of the trailer section. The slice of values is valid until the
// next call of a Peek method.
func (h *RequestHeader) PeekAll(key string) [][]byte { return h.m.PeekAll(ascii.Bytes(key)) }

// PeekKeys returns the names of all fields, in the order of All. The slice is
// valid until the next call of a Peek method.
func (h *RequestHeader) PeekKeys() [][]byte { return h.m.PeekKeys() }

// Len returns the number of fields that All iterates over.
func (h *RequestHeader) Len() int { return h.m.Len() }

// All iterates over the fields of the head: Host, Content-Length, Content-Type,
// User-Agent, Trailer and Cookie first, then the others in the order in which
// they were received or added. Trailer lists the names of all trailer fields,
// including those that were received without an announcement. For the trailer
// fields themselves, see Trailers and Peek. The header must not be changed
// during the iteration. For the order on the wire, use AllInOrder.
func (h *RequestHeader) All() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.m.Visit(yield) }
}

// VisitAll calls f for each field. f must not retain the slices.
//
// Deprecated: Use All.
func (h *RequestHeader) VisitAll(f func(key, value []byte)) { h.m.Visit(visitor(f)) }

// AllInOrder iterates over the fields of a request that was read, in the order
// and with the values that were received. It does not show later changes. The
// name is valid until the next iteration.
func (h *RequestHeader) AllInOrder() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.m.VisitReceived(yield) }
}

// VisitAllInOrder calls f for each field; see AllInOrder. f must not retain the
// slices.
//
// Deprecated: Use AllInOrder.
func (h *RequestHeader) VisitAllInOrder(f func(key, value []byte)) { h.m.VisitReceived(visitor(f)) }

// RawHeaders returns the field lines as they were received, with the empty line
// that ends them. It is empty if the head had no field, and nil if no head was
// read.
func (h *RequestHeader) RawHeaders() []byte { return h.m.RawFields() }

// AppendBytes appends the head to dst in wire format.
func (h *RequestHeader) AppendBytes(dst []byte) []byte { return append(dst, h.m.Head()...) }

// Header returns the head in wire format. It does not include the trailer
// section; see TrailerHeader. The result is valid until the next call of Header
// or change of the header.
func (h *RequestHeader) Header() []byte { return h.m.Head() }

// String returns the head in wire format.
func (h *RequestHeader) String() string { return string(h.m.Head()) }

// Write writes the head to w.
func (h *RequestHeader) Write(w *bufio.Writer) error {
	_, err := w.Write(h.m.Head())
	return err
}

// WriteTo writes the head to w in one call. It implements io.WriterTo.
func (h *RequestHeader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(h.m.Head())
	return int64(n), err
}

// DisableNormalizing switches off the normalisation of field names. Names that
// are set or received from now on are compared and written verbatim. By
// default, the first letter and each letter after a hyphen are written in upper
// case, and all others in lower case: "cONTENT-tYPE" becomes "Content-Type".
// Fields with a method or meaning of their own (Host, Content-Type, Cookie and
// so on) are found in any spelling and written in the usual one.
// DisableNormalizing reports whether normalisation was off before.
func (h *RequestHeader) DisableNormalizing() bool { return h.m.SetKeepNames(true) }

// EnableNormalizing switches on the normalisation of field names, which is the
// default; see DisableNormalizing. It reports whether normalisation was off
// before.
func (h *RequestHeader) EnableNormalizing() bool { return h.m.SetKeepNames(false) }

// Protocol returns the protocol version: "HTTP/1.1" unless another one was
// received or set. If a higher minor version was received, it is "HTTP/1.1" too
// (RFC 9110 section 2.5). The bytes must not be changed.
func (h *RequestHeader) Protocol() []byte { return h.m.Protocol() }

// IsHTTP11 reports whether the protocol is HTTP/1.1, HTTP/2 or HTTP/3.
func (h *RequestHeader) IsHTTP11() bool { return h.m.IsHTTP11() }

// ContentLength returns the length of the body that the header announces, in
// bytes. It is -1 for a chunked body. It is -2 if the header announces no body;
// the body of a response then ends with the connection. It is 0 if nothing was
// set or received. Where an int has 32 bits, a length of 2 GiB or more is
// math.MaxInt; no such body is read.
func (h *RequestHeader) ContentLength() int { return h.m.ContentLength }

// ConnectionClose reports whether the connection ends with this message. It does
// after SetConnectionClose, with a Connection field that lists close, and, in a
// message that was received, with HTTP/1.0 without keep-alive.
func (h *RequestHeader) ConnectionClose() bool { return h.m.ConnectionClose }

// SetConnectionClose adds "Connection: close" to the message.
func (h *RequestHeader) SetConnectionClose() { h.m.ConnectionClose = true }

// ResetConnectionClose removes "Connection: close". Connection fields keep their
// other options; fields that list only close are removed.
func (h *RequestHeader) ResetConnectionClose() { h.m.ResetConnectionClose() }

// ConnectionUpgrade reports whether a Connection field lists upgrade (RFC 9110
// section 7.8). It is false if the connection ends with this message.
func (h *RequestHeader) ConnectionUpgrade() bool { return h.m.ConnectionUpgrade() }

// ContentEncoding returns the value of Content-Encoding, nil if there is none.
// It is valid until the header is changed or released.
func (h *RequestHeader) ContentEncoding() []byte { return h.m.ContentEncoding() }

// SetContentEncoding sets Content-Encoding. A response with an empty value is
// written without the field.
func (h *RequestHeader) SetContentEncoding(contentEncoding string) {
	h.m.SetKnown(field.ContentEncoding, ascii.Bytes(contentEncoding))
}

// SetContentEncodingBytes is SetContentEncoding for bytes.
func (h *RequestHeader) SetContentEncodingBytes(contentEncoding []byte) {
	h.m.SetKnown(field.ContentEncoding, contentEncoding)
}

// SetContentType sets Content-Type. An empty value selects the default; see
// SetNoDefaultContentType.
func (h *RequestHeader) SetContentType(contentType string) {
	h.m.SetKnown(field.ContentType, ascii.Bytes(contentType))
}

// SetContentTypeBytes is SetContentType for bytes.
func (h *RequestHeader) SetContentTypeBytes(contentType []byte) {
	h.m.SetKnown(field.ContentType, contentType)
}

// SetNoDefaultContentType controls how a message that has a body and no
// Content-Type is written. With true, it is written without the field. With
// false, the default, it is written with "text/plain; charset=utf-8" in
// responses and with "application/octet-stream" in requests.
func (h *RequestHeader) SetNoDefaultContentType(noDefaultContentType bool) {
	h.m.NoDefaultContentType = noDefaultContentType
}

// Set sets the field key to value. If there are several fields of that name,
// the first one is changed and the others stay.
//
// A field whose name is announced as a trailer field is set in the trailer
// section, even if a peer announced it; fields of that name in the head are
// removed. To ignore the announcement of a peer, call Del("Trailer") first.
//
// Some fields are treated specially. Cookie and Set-Cookie add to the existing
// cookies. Content-Length is ignored unless it is a number. Transfer-Encoding
// is ignored, except after DisableSpecialHeader: the framing follows from the
// body. Trailer announces trailer fields; see SetTrailer.
//
// A key that is not a token (RFC 9110 section 5.1) sets nothing. In the value, CR
// and LF become spaces. Other control characters become spaces when the header is
// written.
func (h *RequestHeader) Set(key, value string) { h.m.Put(key, ascii.Bytes(value), message.Sets) }

// SetBytesK is Set for a key of bytes.
func (h *RequestHeader) SetBytesK(key []byte, value string) {
	h.m.Put(ascii.String(key), ascii.Bytes(value), message.Sets)
}

// SetBytesV is Set for a value of bytes.
func (h *RequestHeader) SetBytesV(key string, value []byte) { h.m.Put(key, value, message.Sets) }

// SetBytesKV is Set for bytes.
func (h *RequestHeader) SetBytesKV(key, value []byte) {
	h.m.Put(ascii.String(key), value, message.Sets)
}

// Add adds a field after the existing ones of the same name. Fields that occur
// only once (Host, Content-Type, Content-Encoding, Content-Length, Connection,
// User-Agent, Server, Date) are set instead, unless they are announced as
// trailer fields. Trailer adds to the announced names; see AddTrailer. See Set
// for the fields that are treated specially, and for invalid keys and values.
func (h *RequestHeader) Add(key, value string) { h.m.Put(key, ascii.Bytes(value), message.Adds) }

// AddBytesK is Add for a key of bytes.
func (h *RequestHeader) AddBytesK(key []byte, value string) {
	h.m.Put(ascii.String(key), ascii.Bytes(value), message.Adds)
}

// AddBytesV is Add for a value of bytes.
func (h *RequestHeader) AddBytesV(key string, value []byte) { h.m.Put(key, value, message.Adds) }

// AddBytesKV is Add for bytes.
func (h *RequestHeader) AddBytesKV(key, value []byte) {
	h.m.Put(ascii.String(key), value, message.Adds)
}

// SetCanonical is SetBytesKV without normalisation of the key: the key is
// compared and written verbatim. Fields that are treated specially are set in
// any spelling.
func (h *RequestHeader) SetCanonical(key, value []byte) { h.m.PutCanonical(key, value, message.Sets) }

// Del removes all fields of that name from the head and the trailer section. An
// announced name stays announced. Del("Trailer") removes all announcements, as
// SetTrailer("") does.
func (h *RequestHeader) Del(key string) { h.m.Del(ascii.Bytes(key)) }

// DelBytes is Del for bytes.
func (h *RequestHeader) DelBytes(key []byte) { h.m.Del(key) }

// AddTrailer announces trailer fields: fields of these names, set before or
// after the call, are sent after a chunked body instead of in the head (RFC
// 9110 section 6.6.2). trailer is a name or a list of names separated by commas.
// Values can be set until the whole body has been sent.
//
// The error is ErrBadTrailer if a name is not a token, or if fields of that name
// must not be trailer fields: those that frame or route the message,
// authenticate, or say how to handle it (RFC 9110 section 6.5.1). The other
// names of the list are announced nevertheless. At most 64 names can be
// announced; the error of more is ErrBadTrailer, too.
func (h *RequestHeader) AddTrailer(trailer string) error { return h.m.Announce(ascii.Bytes(trailer)) }

// AddTrailerBytes is AddTrailer for bytes.
func (h *RequestHeader) AddTrailerBytes(trailer []byte) error { return h.m.Announce(trailer) }

// SetTrailer announces the names of the list trailer and no others; see
// AddTrailer. Fields whose name was announced before and is not in the list
// return to the head with all their values. Trailer fields that were received
// stay trailer fields (RFC 9110 section 6.5.1). A list without a valid name
// removes all announcements.
func (h *RequestHeader) SetTrailer(trailer string) error {
	return h.m.ReplaceAnnouncement(ascii.Bytes(trailer))
}

// SetTrailerBytes is SetTrailer for bytes.
func (h *RequestHeader) SetTrailerBytes(trailer []byte) error {
	return h.m.ReplaceAnnouncement(trailer)
}

// PeekTrailerKeys returns the names of all trailer fields, the announced ones
// first. The result is valid until the next call of a Peek method or change of
// the header.
func (h *RequestHeader) PeekTrailerKeys() [][]byte { return h.m.TrailerKeys() }

// Trailers iterates over the names of all trailer fields, the announced ones
// first, and yields each name once. The names are valid until the header is
// changed. The header must not be changed during the iteration.
func (h *RequestHeader) Trailers() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { h.m.VisitTrailers(yield) }
}

// VisitAllTrailer calls f with the names of all trailer fields. f must not
// retain them.
//
// Deprecated: Use Trailers.
func (h *RequestHeader) VisitAllTrailer(f func(value []byte)) {
	for name := range h.Trailers() {
		f(name)
	}
}

// TrailerHeader returns the trailer section in wire format, with the empty line
// that ends it. The section is written after a chunked body. The result is
// valid until the next call of TrailerHeader or change of the header.
func (h *RequestHeader) TrailerHeader() []byte { return h.m.TrailerSection() }

// Cookie returns the value of the first cookie with that name, without the
// quotes around it. It returns nil if there is none.
func (h *RequestHeader) Cookie(key string) []byte { return h.m.Cookie(ascii.Bytes(key)) }

// CookieBytes is Cookie for bytes.
func (h *RequestHeader) CookieBytes(key []byte) []byte { return h.m.Cookie(key) }

// SetCookie sets the cookie key to value. In key and value, ";" and control
// characters other than HTAB become spaces; in the key, "=" does, too.
func (h *RequestHeader) SetCookie(key, value string) {
	h.m.SetCookie(ascii.Bytes(key), ascii.Bytes(value))
}

// SetCookieBytesK is SetCookie for a key of bytes.
func (h *RequestHeader) SetCookieBytesK(key []byte, value string) {
	h.m.SetCookie(key, ascii.Bytes(value))
}

// SetCookieBytesKV is SetCookie for bytes.
func (h *RequestHeader) SetCookieBytesKV(key, value []byte) { h.m.SetCookie(key, value) }

// DelCookie removes the cookies with that name.
func (h *RequestHeader) DelCookie(key string) { h.m.DelCookie(ascii.Bytes(key)) }

// DelCookieBytes is DelCookie for bytes.
func (h *RequestHeader) DelCookieBytes(key []byte) { h.m.DelCookie(key) }

// DelCredentials removes the fields that a client which follows a redirect must not send
// to another origin (RFC 9110 section 15.4): Authorization, Cookie, and their like.
func (h *RequestHeader) DelCredentials() {
	for _, name := range [...]string{HeaderAuthorization, HeaderProxyAuthorization, HeaderCookie, "Cookie2", HeaderWWWAuthenticate} {
		h.m.DelAny(name)
	}
}

// DelAllCookies removes all cookies.
func (h *RequestHeader) DelAllCookies() { h.m.Table.DelID(field.Cookie) }

// Cookies iterates over the names and values of the cookies that exist when the
// iteration begins. Cookies may be set and deleted during the iteration. Any
// other change of the header invalidates the yielded slices.
func (h *RequestHeader) Cookies() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) { h.m.VisitCookies(yield) }
}

// VisitAllCookie calls f with name and value of each cookie. f must not retain
// them.
//
// Deprecated: Use Cookies.
func (h *RequestHeader) VisitAllCookie(f func(key, value []byte)) { h.m.VisitCookies(visitor(f)) }

// Read reads the head of a request from r. What follows the head stays in r. h
// keeps its settings (see DisableNormalizing and DisableSpecialHeader).
//
// After an error h is empty. The error is io.EOF if r ends before the first
// byte of the head, ErrNothingRead if r fails before that byte,
// io.ErrUnexpectedEOF if r ends within the head, and *ErrSmallBuffer if the
// head is larger than r's buffer. Any other failure of r is returned unchanged.
// The error of a malformed head says what is wrong, and often matches a
// variable of this package: use errors.Is and errors.As.
func (h *RequestHeader) Read(r *bufio.Reader) error {
	return h.m.Read(r, message.ReaderLimits(r))
}

// ReadTrailer reads the trailer section after the last chunk of a body. It
// drops fields that must not be trailer fields (RFC 9110 section 6.5.1). Peek
// finds the others, and Trailers lists their names; All does not show them. The
// errors are those of RequestHeader.Read. The error of a section that is
// malformed or too large also matches ErrBadTrailer.
func (h *RequestHeader) ReadTrailer(r *bufio.Reader) error {
	return h.m.ReadTrailer(r, message.ReaderLimits(r))
}

// head returns h as the packages of protocols, of files and of compression take it.
func (h *RequestHeader) head() *message.RequestHeader { return &h.m }

// isRepeatable reports whether the request may be sent again although the server
// may have processed it (RFC 9110 section 9.2.2).
func (h *RequestHeader) isRepeatable() bool {
	switch string(h.m.Method()) {
	case MethodGet, MethodHead, MethodOptions, MethodTrace, MethodPut, MethodDelete, MethodQuery:
		return true
	}
	var room [1][]byte
	keys := h.m.AppendAny(room[:0], "Idempotency-Key")
	return len(keys) > 0 && len(keys[0]) > 0
}

// has reports whether there is a field with that name, in any case.
func (h *RequestHeader) has(name string) bool {
	var room [1][]byte
	return len(h.m.AppendAny(room[:0], name)) > 0
}

// setDefaultAgent sets User-Agent if the head, without the trailer section, has none: to name,
// or to the library's if hasDefault.
func (h *RequestHeader) setDefaultAgent(name string, hasDefault bool) {
	switch {
	case len(h.m.Table.Get(field.UserAgent)) > 0:
	case name != "":
		h.m.Table.Set(field.UserAgent, h.m.FitValue(ascii.Bytes(name)))
	case hasDefault:
		h.m.Table.Set(field.UserAgent, textClientName) // needs no cleaning
	}
}

// textClientName is the default User-Agent. It is never written to.
var textClientName = []byte("sluice")

// delAny removes the fields of that name in any spelling.
func (h *RequestHeader) delAny(name string) { h.m.DelAny(name) }

// keepsNames reports whether names are not normalised.
func (h *RequestHeader) keepsNames() bool { return h.m.Table.KeepNames }

// heldBytes is the memory that h keeps for its next use.
func (h *RequestHeader) heldBytes() int { return h.m.Table.HeldBytes() }

// shrink releases memory beyond maxBytes, and that for more than maxFields.
func (h *RequestHeader) shrink(maxBytes, maxFields int) { h.m.Shrink(maxBytes, maxFields) }
