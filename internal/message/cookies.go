package message

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// The cookies of a request are stored as the text of its Cookie field and parsed
// on each access, because most requests' cookies are read once or never. The
// cookies of a response are its Set-Cookie fields.

// cookies returns the text of the Cookie field, nil if there is none. It joins
// several fields, which no user agent sends (RFC 6265 section 5.4), into one.
func (h *Header) cookies() []byte {
	i := h.Table.Index(field.Cookie)
	if i < 0 {
		return nil
	}
	if h.Table.FindID(field.Cookie, i+1) >= 0 {
		h.joinCookies(i)
	}
	return h.Table.Value(i)
}

// joinCookies joins the Cookie fields into the first one, at i.
func (h *Header) joinCookies(i int) {
	var joined []byte // not h.text, which callers may be using
	for at := i; at >= 0; at = h.Table.FindID(field.Cookie, at+1) {
		joined = appendCookies(joined, h.Table.Value(at))
	}
	for at := h.Table.FindID(field.Cookie, i+1); at >= 0; at = h.Table.FindID(field.Cookie, i+1) {
		h.Table.DelAt(at)
	}
	h.Table.SetValue(i, joined)
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
func (h *Header) addCookies(key, value []byte) {
	if len(value) == 0 {
		return
	}
	old := h.cookies()
	if old == nil {
		h.Table.Add(field.Cookie, key, value)
		return
	}
	h.text = appendCookies(append(h.text[:0], old...), value)
	h.Table.SetValue(h.Table.Index(field.Cookie), h.text)
}

// cutCookie cuts the first cookie from a Cookie field's value (RFC 6265 section
// 4.2.1). pair is the whole cookie; value is without the quotes around it. A
// cookie without "=" has no key. ok is false at the end.
func cutCookie(cookies []byte) (key, value, pair, rest []byte, ok bool) {
	for len(cookies) > 0 {
		pair, cookies, _ = ascii.Cut(cookies, ';')
		pair = ascii.TrimOWS(pair)
		if len(pair) == 0 {
			continue
		}
		key, value, found := ascii.Cut(pair, '=')
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
	dst = appendCookieKey(dst, key)
	dst = append(dst[:at], ascii.TrimOWS(dst[at:])...)
	if len(dst) > at {
		dst = append(dst, '=')
	}
	at = len(dst)
	dst = appendCookieText(dst, value)
	return append(dst[:at], ascii.TrimOWS(dst[at:])...)
}

// Cookie returns the value of the first cookie with that name, without the
// quotes around it, nil if there is none.
func (h *RequestHeader) Cookie(key []byte) []byte {
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
func (h *RequestHeader) SetCookie(key, value []byte) {
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
	h.Table.Replace(field.Cookie, ascii.TrimOWS(h.text))
}

// DelCookie removes the cookies with that name.
func (h *RequestHeader) DelCookie(key []byte) {
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
		h.Table.DelID(field.Cookie)
		return
	}
	h.Table.Replace(field.Cookie, h.text)
}

// VisitCookies yields the names and values of the cookies that exist when it is
// called. Cookies may be set and deleted meanwhile.
func (h *RequestHeader) VisitCookies(yield func(key, value []byte) bool) {
	name, value, _, rest, ok := cutCookie(h.cookies())
	for ; ok && yield(name, value); name, value, _, rest, ok = cutCookie(rest) {
	}
}

// setCookieKey returns the name of the cookie that a Set-Cookie field sets. A
// pair without "=" is a value without a name, as in user agents.
func setCookieKey(value []byte) []byte {
	pair, _, _ := ascii.Cut(value, ';')
	key, _, hasKey := ascii.Cut(pair, '=')
	if !hasKey {
		return nil
	}
	return ascii.TrimOWS(key)
}

// findSetCookie returns the index of the first Set-Cookie field at or after
// from that sets the cookie key, or -1.
func (h *ResponseHeader) findSetCookie(key []byte, from int) int {
	for i := h.Table.FindID(field.SetCookie, from); i >= 0; i = h.Table.FindID(field.SetCookie, i+1) {
		if string(setCookieKey(h.Table.Value(i))) == string(key) {
			return i
		}
	}
	return -1
}

// setCookies returns the values of all Set-Cookie fields, joined with "; ", nil
// if there is none.
func (h *ResponseHeader) setCookies() []byte {
	i := h.Table.Index(field.SetCookie)
	if i < 0 {
		return nil
	}
	next := h.Table.FindID(field.SetCookie, i+1)
	if next < 0 {
		return h.Table.Value(i)
	}
	h.joined = append(h.joined[:0], h.Table.Value(i)...)
	for ; next >= 0; next = h.Table.FindID(field.SetCookie, next+1) {
		h.joined = append(h.joined, "; "...)
		h.joined = append(h.joined, h.Table.Value(next)...)
	}
	return h.joined
}

// PeekCookie returns the value of the Set-Cookie field that sets the cookie key.
func (h *ResponseHeader) PeekCookie(key []byte) (value []byte, ok bool) {
	if i := h.findSetCookie(key, 0); i >= 0 {
		return h.Table.Value(i), true
	}
	return nil, false
}

// SetCookie adds a Set-Cookie field for cookie, or replaces the one with the
// same key.
func (h *ResponseHeader) SetCookie(cookie *Cookie) {
	h.text = cookie.AppendBytes(h.text[:0])
	value := h.FitValue(h.text)
	if i := h.findSetCookie(setCookieKey(value), 0); i >= 0 {
		h.Table.SetValue(i, value)
		return
	}
	h.Table.Add(field.SetCookie, field.SetCookie.Canonical(), value)
}

// DelCookie removes the Set-Cookie fields that set the cookie key.
func (h *ResponseHeader) DelCookie(key []byte) {
	for i := h.findSetCookie(key, 0); i >= 0; i = h.findSetCookie(key, i) {
		h.Table.DelAt(i)
	}
}

// VisitCookies yields the name of each cookie that the response sets and the
// whole value of its Set-Cookie field.
func (h *ResponseHeader) VisitCookies(yield func(key, value []byte) bool) {
	for i := h.Table.Index(field.SetCookie); i >= 0; i = h.Table.FindID(field.SetCookie, i+1) {
		value := h.Table.Value(i)
		if !yield(setCookieKey(value), value) {
			return
		}
	}
}
