package sluice

import (
	"iter"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

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
