package sluice

import (
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/invariants"
)

var (
	// CookieExpireDelete is a time in the past. Passed to Cookie.SetExpire, it
	// makes the client delete the cookie.
	CookieExpireDelete = time.Date(2009, time.November, 10, 23, 0, 0, 0, time.UTC)

	// CookieExpireUnlimited is the zero time. It stands for a cookie without
	// Expires, which the client deletes at the end of its session.
	CookieExpireUnlimited time.Time
)

// CookieSameSite is the value of a cookie's SameSite attribute (RFC 6265bis
// section 5.6.7).
type CookieSameSite int

const (
	// CookieSameSiteDisabled leaves the attribute out. It is the default.
	CookieSameSiteDisabled CookieSameSite = iota
	// CookieSameSiteDefaultMode writes the attribute without a value.
	CookieSameSiteDefaultMode
	// CookieSameSiteLaxMode writes SameSite=Lax.
	CookieSameSiteLaxMode
	// CookieSameSiteStrictMode writes SameSite=Strict.
	CookieSameSiteStrictMode
	// CookieSameSiteNoneMode writes SameSite=None. Clients accept it only for a
	// cookie that is Secure.
	CookieSameSiteNoneMode
)

// Cookie is the content of a Set-Cookie field (RFC 6265 section 4.1).
//
// The zero value is an empty cookie. Byte slices that methods return belong to
// the Cookie and stay valid until it is changed or released. A Cookie must not
// be copied (use CopyTo) and must not be used by several goroutines at once.
//
// Setters replace ";" and control characters other than HTAB, which could end
// the attribute or the field, with spaces; in a key they replace "=", too.
// Space, comma, quote and backslash stay, although RFC 6265 section 4.1.1 does
// not allow them: user agents accept them, and the application decides how to
// encode its values.
type Cookie struct {
	owned        invariants.Pooled
	key, value   []byte
	expire       time.Time
	maxAge       int
	domain, path []byte
	sameSite     CookieSameSite

	isHTTPOnly, isSecure, isPartitioned bool

	buf []byte
}

// Reset makes c the empty cookie. It keeps the memory for the next use.
func (c *Cookie) Reset() {
	*c = Cookie{
		key:    c.key[:0],
		value:  c.value[:0],
		domain: c.domain[:0],
		path:   c.path[:0],
		buf:    c.buf[:0],
	}
}

// CopyTo makes c a copy of src that shares no memory with it. Note the
// direction: the CopyTo of every other type makes its argument the copy. Cookie
// has fasthttp's direction, which existing programs rely on.
func (c *Cookie) CopyTo(src *Cookie) {
	if c == src {
		return
	}
	key, value, domain, path, buf := c.key[:0], c.value[:0], c.domain[:0], c.path[:0], c.buf
	*c = *src
	c.key = append(key, src.key...)
	c.value = append(value, src.value...)
	c.domain = append(domain, src.domain...)
	c.path = append(path, src.path...)
	c.buf = buf
}

// Key returns the cookie's name.
func (c *Cookie) Key() []byte { return c.key }

// SetKey sets the cookie's name.
func (c *Cookie) SetKey(key string) { c.SetKeyBytes(ascii.Bytes(key)) }

// SetKeyBytes is SetKey for bytes.
func (c *Cookie) SetKeyBytes(key []byte) {
	c.key = appendCookieText(c.key[:0], key)
	for i, b := range c.key {
		if b == '=' {
			c.key[i] = ' ' // the rest of the key would become part of the value
		}
	}
}

// appendCookieText appends s. It replaces every byte that would end s within a
// Set-Cookie field with a space.
func appendCookieText(dst, s []byte) []byte {
	for _, c := range s {
		if c < ' ' && c != '\t' || c == 0x7f || c == ';' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

// Value returns the cookie's value.
func (c *Cookie) Value() []byte { return c.value }

// SetValue sets the cookie's value.
func (c *Cookie) SetValue(value string) { c.SetValueBytes(ascii.Bytes(value)) }

// SetValueBytes is SetValue for bytes.
func (c *Cookie) SetValueBytes(value []byte) { c.value = appendCookieText(c.value[:0], value) }

// Expire returns the Expires attribute; CookieExpireUnlimited if there is none.
func (c *Cookie) Expire() time.Time { return c.expire }

// SetExpire sets the Expires attribute. CookieExpireUnlimited removes it. The
// attribute is not written if there is a Max-Age, which takes precedence (RFC
// 6265 section 4.1.2.2).
func (c *Cookie) SetExpire(expire time.Time) { c.expire = expire }

// MaxAge returns the Max-Age attribute in seconds. It is 0 if there is none, and
// negative if the client is to delete the cookie.
func (c *Cookie) MaxAge() int { return c.maxAge }

// SetMaxAge sets the Max-Age attribute to seconds. 0 removes it. A negative
// number makes the client delete the cookie, and is written as 0.
func (c *Cookie) SetMaxAge(seconds int) { c.maxAge = seconds }

// Domain returns the Domain attribute.
func (c *Cookie) Domain() []byte { return c.domain }

// SetDomain sets the Domain attribute. An empty one is left out.
func (c *Cookie) SetDomain(domain string) { c.SetDomainBytes(ascii.Bytes(domain)) }

// SetDomainBytes is SetDomain for bytes.
func (c *Cookie) SetDomainBytes(domain []byte) { c.domain = appendCookieText(c.domain[:0], domain) }

// Path returns the Path attribute.
func (c *Cookie) Path() []byte { return c.path }

// SetPath sets the Path attribute, normalised like URI.Path: percent-encodings
// are decoded, dot segments are removed, and an empty path becomes "/".
func (c *Cookie) SetPath(path string) { c.SetPathBytes(ascii.Bytes(path)) }

// SetPathBytes is SetPath for bytes.
func (c *Cookie) SetPathBytes(path []byte) {
	c.buf = appendNormalPath(c.buf[:0], path)
	c.path = appendCookieText(c.path[:0], c.buf)
}

// HTTPOnly tells whether the cookie has the HttpOnly attribute.
func (c *Cookie) HTTPOnly() bool { return c.isHTTPOnly }

// SetHTTPOnly sets or removes the HttpOnly attribute.
func (c *Cookie) SetHTTPOnly(httpOnly bool) { c.isHTTPOnly = httpOnly }

// Secure tells whether the cookie has the Secure attribute.
func (c *Cookie) Secure() bool { return c.isSecure }

// SetSecure sets or removes the Secure attribute.
func (c *Cookie) SetSecure(secure bool) { c.isSecure = secure }

// SameSite returns the SameSite attribute.
func (c *Cookie) SameSite() CookieSameSite { return c.sameSite }

// SetSameSite sets the SameSite attribute. CookieSameSiteNoneMode also sets
// Secure.
func (c *Cookie) SetSameSite(mode CookieSameSite) {
	c.sameSite = mode
	if mode == CookieSameSiteNoneMode {
		c.SetSecure(true)
	}
}

// Partitioned tells whether the cookie has the Partitioned attribute.
func (c *Cookie) Partitioned() bool { return c.isPartitioned }

// SetPartitioned sets or removes the Partitioned attribute. Setting it also sets
// Secure, without which clients refuse the cookie, and the path "/".
func (c *Cookie) SetPartitioned(partitioned bool) {
	c.isPartitioned = partitioned
	if partitioned {
		c.SetSecure(true)
		c.SetPath("/")
	}
}

// Cookie returns the content of the Set-Cookie field. It is valid until the
// next call of a method of c.
func (c *Cookie) Cookie() []byte {
	c.buf = c.AppendBytes(c.buf[:0])
	return c.buf
}

// String returns the content of the Set-Cookie field.
func (c *Cookie) String() string { return string(c.Cookie()) }

// WriteTo writes the content of the Set-Cookie field to w in one call. It
// implements io.WriterTo.
func (c *Cookie) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(c.Cookie())
	return int64(n), err
}

// AppendBytes appends the content of the Set-Cookie field to dst.
func (c *Cookie) AppendBytes(dst []byte) []byte {
	if len(c.key) > 0 {
		dst = append(dst, c.key...)
		dst = append(dst, '=')
	}
	dst = append(dst, c.value...)
	switch {
	case c.maxAge != 0:
		dst = append(dst, "; max-age="...)
		dst = ascii.AppendUint(dst, uint64(max(c.maxAge, 0)))
	case !c.expire.IsZero():
		dst = append(dst, "; expires="...)
		dst = AppendHTTPDate(dst, c.expire)
	}
	dst = appendAttribute(dst, "; domain=", c.domain)
	dst = appendAttribute(dst, "; path=", c.path)
	if c.isHTTPOnly {
		dst = append(dst, "; HttpOnly"...)
	}
	if c.isSecure {
		dst = append(dst, "; secure"...)
	}
	dst = append(dst, c.sameSite.attribute()...)
	if c.isPartitioned {
		dst = append(dst, "; Partitioned"...)
	}
	return dst
}

func appendAttribute(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, name...)
	return append(dst, value...)
}

func (mode CookieSameSite) attribute() string {
	switch mode {
	case CookieSameSiteDefaultMode:
		return "; SameSite"
	case CookieSameSiteLaxMode:
		return "; SameSite=Lax"
	case CookieSameSiteStrictMode:
		return "; SameSite=Strict"
	case CookieSameSiteNoneMode:
		return "; SameSite=None"
	}
	return ""
}
