package sluice

import (
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
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
// The zero value is an empty cookie. It owns the slices that its methods return; see the
// package comment. Copies by assignment share memory until they change: use CopyTo.
//
// Setters replace ";" and control characters other than HTAB, which could end
// the attribute or the field, with spaces; in a key they replace "=", too.
// Space, comma, quote and backslash stay, although RFC 6265 section 4.1.1 does
// not allow them: user agents accept them, and the application decides how to
// encode its values.
type Cookie struct {
	owned invariants.Pooled
	m     message.Cookie
}

// Reset makes c the empty cookie. It keeps the memory for the next use.
func (c *Cookie) Reset() { c.m.Reset() }

// CopyTo makes c a copy of src that shares no memory with it. Note the
// direction: the CopyTo of every other type makes its argument the copy. Cookie
// has fasthttp's direction, which existing programs rely on.
func (c *Cookie) CopyTo(src *Cookie) {
	if c != src {
		src.m.CopyTo(&c.m)
	}
}

// Parse replaces c with the content of a Set-Cookie field. It reads the field as
// user agents do (RFC 6265 section 5.2): unknown attributes and attributes with
// a meaningless value are ignored, and the last one of repeated attributes
// counts. Ignored are also a Domain with a quote, backslash or control character
// other than HTAB, and a Path with a control character or a byte above 0x7F. One
// pair of quotes around a value is removed. CR and LF become spaces.
//
// The error is ErrNoCookies if s is empty. It is ErrInvalidCookieValue if the
// value contains a quote or backslash, or if key or value contains a control
// character other than HTAB. After an error c is empty.
func (c *Cookie) Parse(s string) error { return c.m.Parse(ascii.Bytes(s)) }

// ParseBytes is Parse for bytes. It does not retain src.
func (c *Cookie) ParseBytes(src []byte) error { return c.m.Parse(src) }

// Key returns the cookie's name.
func (c *Cookie) Key() []byte { return c.m.Key }

// SetKey sets the cookie's name.
func (c *Cookie) SetKey(key string) { c.m.SetKey(ascii.Bytes(key)) }

// SetKeyBytes is SetKey for bytes.
func (c *Cookie) SetKeyBytes(key []byte) { c.m.SetKey(key) }

// Value returns the cookie's value.
func (c *Cookie) Value() []byte { return c.m.Value }

// SetValue sets the cookie's value.
func (c *Cookie) SetValue(value string) { c.m.SetValue(ascii.Bytes(value)) }

// SetValueBytes is SetValue for bytes.
func (c *Cookie) SetValueBytes(value []byte) { c.m.SetValue(value) }

// Expire returns the Expires attribute; CookieExpireUnlimited if there is none.
func (c *Cookie) Expire() time.Time { return c.m.Expire }

// SetExpire sets the Expires attribute. CookieExpireUnlimited removes it. The
// attribute is not written if there is a Max-Age, which takes precedence (RFC
// 6265 section 4.1.2.2).
func (c *Cookie) SetExpire(expire time.Time) { c.m.Expire = expire }

// MaxAge returns the Max-Age attribute in seconds. It is 0 if there is none, and
// negative if the client is to delete the cookie.
func (c *Cookie) MaxAge() int { return c.m.MaxAge }

// SetMaxAge sets the Max-Age attribute to seconds. 0 removes it. A negative
// number makes the client delete the cookie, and is written as 0.
func (c *Cookie) SetMaxAge(seconds int) { c.m.MaxAge = seconds }

// Domain returns the Domain attribute.
func (c *Cookie) Domain() []byte { return c.m.Domain }

// SetDomain sets the Domain attribute. An empty one is left out.
func (c *Cookie) SetDomain(domain string) { c.m.SetDomain(ascii.Bytes(domain)) }

// SetDomainBytes is SetDomain for bytes.
func (c *Cookie) SetDomainBytes(domain []byte) { c.m.SetDomain(domain) }

// Path returns the Path attribute.
func (c *Cookie) Path() []byte { return c.m.Path }

// SetPath sets the Path attribute, normalised like URI.Path: percent-encodings
// are decoded, dot segments are removed, and an empty path becomes "/".
func (c *Cookie) SetPath(path string) { c.SetPathBytes(ascii.Bytes(path)) }

// SetPathBytes is SetPath for bytes.
func (c *Cookie) SetPathBytes(path []byte) { c.m.SetPath(path) }

// HTTPOnly reports whether the cookie has the HttpOnly attribute.
func (c *Cookie) HTTPOnly() bool { return c.m.IsHTTPOnly }

// SetHTTPOnly sets or removes the HttpOnly attribute.
func (c *Cookie) SetHTTPOnly(httpOnly bool) { c.m.IsHTTPOnly = httpOnly }

// Secure reports whether the cookie has the Secure attribute.
func (c *Cookie) Secure() bool { return c.m.IsSecure }

// SetSecure sets or removes the Secure attribute.
func (c *Cookie) SetSecure(secure bool) { c.m.IsSecure = secure }

// SameSite returns the SameSite attribute.
func (c *Cookie) SameSite() CookieSameSite { return CookieSameSite(c.m.SameSite) }

// SetSameSite sets the SameSite attribute. CookieSameSiteNoneMode also sets
// Secure.
func (c *Cookie) SetSameSite(mode CookieSameSite) { c.m.SetSameSite(message.SameSite(mode)) }

// Partitioned reports whether the cookie has the Partitioned attribute.
func (c *Cookie) Partitioned() bool { return c.m.IsPartitioned }

// SetPartitioned sets or removes the Partitioned attribute. Setting it also sets
// Secure, without which clients refuse the cookie, and the path "/".
func (c *Cookie) SetPartitioned(partitioned bool) { c.m.SetPartitioned(partitioned) }

// Cookie returns the content of the Set-Cookie field. It is valid until the
// next call of a method of c.
func (c *Cookie) Cookie() []byte { return c.m.Content() }

// String returns the content of the Set-Cookie field.
func (c *Cookie) String() string { return string(c.m.Content()) }

// WriteTo writes the content of the Set-Cookie field to w in one call. It
// implements io.WriterTo.
func (c *Cookie) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(c.m.Content())
	return int64(n), err
}

// AppendBytes appends the content of the Set-Cookie field to dst.
func (c *Cookie) AppendBytes(dst []byte) []byte { return c.m.AppendBytes(dst) }
