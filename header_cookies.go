package sluice

import (
	"iter"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/field"
)

// The cookies of a request are stored as the text of its Cookie field and parsed
// on each access, because most requests' cookies are read once or never. The
// cookies of a response are its Set-Cookie fields.

// cookies returns the text of the Cookie field, nil if there is none. It joins
// several fields, which no user agent sends (RFC 6265 section 5.4), into one.
func (h *header) cookies() []byte {
	i := h.table.Index(field.Cookie)
	if i < 0 {
		return nil
	}
	if h.table.FindID(field.Cookie, i+1) >= 0 {
		h.joinCookies(i)
	}
	return h.table.Value(i)
}

// joinCookies joins the Cookie fields into the first one, at i.
func (h *header) joinCookies(i int) {
	var joined []byte // not h.text, which callers may be using
	for at := i; at >= 0; at = h.table.FindID(field.Cookie, at+1) {
		joined = appendCookies(joined, h.table.Value(at))
	}
	for at := h.table.FindID(field.Cookie, i+1); at >= 0; at = h.table.FindID(field.Cookie, i+1) {
		h.table.DelAt(at)
	}
	h.table.SetValue(i, joined)
}

// appendCookies appends cookies to dst, the text of other cookies.
func appendCookies(dst, cookies []byte) []byte {
	if len(cookies) == 0 {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, "; "...)
	}
	return append(dst, cookies...)
}

// addCookies adds the cookies of a Cookie field's value to the existing ones.
// value has no control characters.
func (h *header) addCookies(key, value []byte) {
	if len(value) == 0 {
		return
	}
	old := h.cookies()
	if old == nil {
		h.table.Add(field.Cookie, key, value)
		return
	}
	h.text = appendCookies(append(h.text[:0], old...), value)
	h.table.SetValue(h.table.Index(field.Cookie), h.text)
}

// cutCookie cuts the first cookie from a Cookie field's value (RFC 6265 section
// 4.2.1). pair is the whole cookie; value is without the quotes around it. A
// cookie without "=" has no key. ok is false at the end.
func cutCookie(cookies []byte) (key, value, pair, rest []byte, ok bool) {
	for len(cookies) > 0 {
		pair, cookies, _ = cutByte(cookies, ';')
		pair = ascii.TrimOWS(pair)
		if len(pair) == 0 {
			continue
		}
		key, value, found := cutByte(pair, '=')
		if !found {
			return nil, unquote(pair), pair, cookies, true
		}
		return ascii.TrimOWS(key), unquote(ascii.TrimOWS(value)), pair, cookies, true
	}
	return nil, nil, nil, nil, false
}

// appendCookiePair appends a cookie in the format of a Cookie field.
func appendCookiePair(dst, key, value []byte) []byte {
	at := len(dst)
	dst = appendCookieText(dst, key)
	for i := at; i < len(dst); i++ {
		if dst[i] == '=' {
			dst[i] = ' ' // the rest of the key would become part of the value
		}
	}
	dst = append(dst[:at], ascii.TrimOWS(dst[at:])...)
	if len(dst) > at {
		dst = append(dst, '=')
	}
	at = len(dst)
	dst = appendCookieText(dst, value)
	return append(dst[:at], ascii.TrimOWS(dst[at:])...)
}

// Cookie returns the value of the first cookie with that name, without the
// quotes around it. It returns nil if there is none. The value is valid until
// the header is changed or released.
func (h *RequestHeader) Cookie(key string) []byte { return h.CookieBytes(ascii.Bytes(key)) }

// CookieBytes is Cookie for bytes.
func (h *RequestHeader) CookieBytes(key []byte) []byte {
	name, value, _, rest, ok := cutCookie(h.cookies())
	for ; ok; name, value, _, rest, ok = cutCookie(rest) {
		if string(name) == string(key) {
			return value
		}
	}
	return nil
}

// SetCookie sets the cookie key to value. In key and value, ";" and control
// characters other than HTAB become spaces; in the key, "=" does, too.
func (h *RequestHeader) SetCookie(key, value string) {
	h.SetCookieBytesKV(ascii.Bytes(key), ascii.Bytes(value))
}

// SetCookieBytesK is SetCookie for a key of bytes.
func (h *RequestHeader) SetCookieBytesK(key []byte, value string) {
	h.SetCookieBytesKV(key, ascii.Bytes(value))
}

// SetCookieBytesKV is SetCookie for bytes.
func (h *RequestHeader) SetCookieBytesKV(key, value []byte) {
	h.clean = appendCookiePair(h.clean[:0], key, value)
	added := h.clean
	wanted, _, _, _, _ := cutCookie(added)
	h.text = h.text[:0]
	isSet := false
	name, _, pair, rest, ok := cutCookie(h.cookies())
	for ; ok; name, _, pair, rest, ok = cutCookie(rest) {
		if !isSet && string(name) == string(wanted) {
			pair, isSet = added, true
		}
		h.text = appendCookies(h.text, pair)
	}
	if !isSet {
		h.text = appendCookies(h.text, added)
	}
	h.table.Replace(field.Cookie, ascii.TrimOWS(h.text))
}

// DelCookie removes the cookies with that name.
func (h *RequestHeader) DelCookie(key string) { h.DelCookieBytes(ascii.Bytes(key)) }

// DelCookieBytes is DelCookie for bytes.
func (h *RequestHeader) DelCookieBytes(key []byte) {
	h.text = h.text[:0]
	name, _, pair, rest, ok := cutCookie(h.cookies())
	if !ok {
		return
	}
	for ; ok; name, _, pair, rest, ok = cutCookie(rest) {
		if string(name) != string(key) {
			h.text = appendCookies(h.text, pair)
		}
	}
	if len(h.text) == 0 {
		h.table.DelID(field.Cookie)
		return
	}
	h.table.Replace(field.Cookie, h.text)
}

// DelAllCookies removes all cookies.
func (h *RequestHeader) DelAllCookies() { h.table.DelID(field.Cookie) }

// Cookies iterates over the names and values of the cookies that exist when the
// iteration begins. Cookies may be set and deleted during the iteration. Any
// other change of the header invalidates the yielded slices.
func (h *RequestHeader) Cookies() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		name, value, _, rest, ok := cutCookie(h.cookies())
		for ; ok && yield(name, value); name, value, _, rest, ok = cutCookie(rest) {
		}
	}
}

// VisitAllCookie calls f with name and value of each cookie. f must not retain
// them.
//
// Deprecated: Use Cookies.
func (h *RequestHeader) VisitAllCookie(f func(key, value []byte)) { h.Cookies()(visitor(f)) }

// setCookieKey returns the name of the cookie that a Set-Cookie field sets. A
// pair without "=" is a value without a name, as in user agents.
func setCookieKey(value []byte) []byte {
	pair, _, _ := cutByte(value, ';')
	key, _, hasKey := cutByte(pair, '=')
	if !hasKey {
		return nil
	}
	return ascii.TrimOWS(key)
}

// findSetCookie returns the index of the first Set-Cookie field at or after
// from that sets the cookie key, or -1.
func (h *ResponseHeader) findSetCookie(key []byte, from int) int {
	for i := h.table.FindID(field.SetCookie, from); i >= 0; i = h.table.FindID(field.SetCookie, i+1) {
		if string(setCookieKey(h.table.Value(i))) == string(key) {
			return i
		}
	}
	return -1
}

// setCookies returns the values of all Set-Cookie fields, joined with "; ", nil
// if there is none.
func (h *ResponseHeader) setCookies() []byte {
	i := h.table.Index(field.SetCookie)
	if i < 0 {
		return nil
	}
	next := h.table.FindID(field.SetCookie, i+1)
	if next < 0 {
		return h.table.Value(i)
	}
	h.joined = append(h.joined[:0], h.table.Value(i)...)
	for ; next >= 0; next = h.table.FindID(field.SetCookie, next+1) {
		h.joined = append(h.joined, "; "...)
		h.joined = append(h.joined, h.table.Value(next)...)
	}
	return h.joined
}

// Cookie reads into cookie the Set-Cookie field that sets cookie's key. A
// malformed field makes cookie empty. If there is no such field, Cookie returns
// false and does not change cookie.
func (h *ResponseHeader) Cookie(cookie *Cookie) bool {
	i := h.findSetCookie(cookie.Key(), 0)
	if i < 0 {
		return false
	}
	// A malformed field makes cookie empty.
	_ = cookie.ParseBytes(h.table.Value(i))
	return true
}

// PeekCookie returns the value of the Set-Cookie field that sets the cookie
// key, nil if there is none. Cookie.ParseBytes parses it. The value is valid
// until the header is changed or released.
func (h *ResponseHeader) PeekCookie(key string) []byte {
	if i := h.findSetCookie(ascii.Bytes(key), 0); i >= 0 {
		return h.table.Value(i)
	}
	return nil
}

// SetCookie adds a Set-Cookie field for cookie, or replaces the one with the
// same key. It does not retain cookie.
func (h *ResponseHeader) SetCookie(cookie *Cookie) {
	h.text = cookie.AppendBytes(h.text[:0])
	value := h.fitValue(h.text)
	if i := h.findSetCookie(setCookieKey(value), 0); i >= 0 {
		h.table.SetValue(i, value)
		return
	}
	h.table.Add(field.SetCookie, field.SetCookie.Canonical(), value)
}

// DelCookie removes the Set-Cookie fields that set the cookie key. To make the
// client delete a cookie, use DelClientCookie.
func (h *ResponseHeader) DelCookie(key string) { h.DelCookieBytes(ascii.Bytes(key)) }

// DelCookieBytes is DelCookie for bytes.
func (h *ResponseHeader) DelCookieBytes(key []byte) {
	for i := h.findSetCookie(key, 0); i >= 0; i = h.findSetCookie(key, i) {
		h.table.DelAt(i)
	}
}

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
func (h *ResponseHeader) DelAllCookies() { h.table.DelID(field.SetCookie) }

// Cookies iterates over the cookies that the response sets. It yields the name
// of each, and the whole value of its Set-Cookie field, which Cookie.ParseBytes
// parses. Both are valid until the header is changed. The header must not be
// changed during the iteration.
func (h *ResponseHeader) Cookies() iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for i := h.table.Index(field.SetCookie); i >= 0; i = h.table.FindID(field.SetCookie, i+1) {
			value := h.table.Value(i)
			if !yield(setCookieKey(value), value) {
				return
			}
		}
	}
}

// VisitAllCookie calls f with the name of each cookie that the response sets
// and the whole value of its Set-Cookie field, which Cookie.ParseBytes parses.
// f must not retain them.
//
// Deprecated: Use Cookies.
func (h *ResponseHeader) VisitAllCookie(f func(key, value []byte)) { h.Cookies()(visitor(f)) }
