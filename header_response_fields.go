package sluice

import (
	"iter"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

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
