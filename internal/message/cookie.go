package message

import (
	"errors"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// The errors of sluice.Cookie.Parse.
var (
	ErrNoCookies          = errors.New("sluice: no cookie found")
	ErrInvalidCookieValue = errors.New("sluice: invalid cookie value")
)

// SameSite is the value of a cookie's SameSite attribute, as
// sluice.CookieSameSite.
type SameSite int

const (
	sameSiteDefault SameSite = iota + 1
	sameSiteLax
	sameSiteStrict
	sameSiteNone
)

// Cookie is the content of a Set-Cookie field (RFC 6265 section 4.1). The zero
// value is an empty cookie.
type Cookie struct {
	Key, Value   []byte
	Domain, Path []byte
	Expire       time.Time // zero: none
	MaxAge       int       // in seconds; 0: none, < 0: the cookie is deleted
	SameSite     SameSite

	IsHTTPOnly, IsSecure, IsPartitioned bool
	owner                               field.Owner

	text []byte // scratch memory; the result of Content
}

// Reset makes c the empty cookie. It keeps the memory for the next use.
func (c *Cookie) Reset() {
	if c.owner.IsCopy() {
		*c = Cookie{owner: c.owner}
	}
	*c = Cookie{
		owner:  c.owner,
		Key:    c.Key[:0],
		Value:  c.Value[:0],
		Domain: c.Domain[:0],
		Path:   c.Path[:0],
		text:   c.text[:0],
	}
}

// CopyTo makes dst, which is not c, a copy of c that shares no memory with it.
func (c *Cookie) CopyTo(dst *Cookie) {
	dst.Reset()
	old := *dst
	*dst = *c
	dst.owner = old.owner
	dst.Key = append(old.Key[:0], c.Key...)
	dst.Value = append(old.Value[:0], c.Value...)
	dst.Domain = append(old.Domain[:0], c.Domain...)
	dst.Path = append(old.Path[:0], c.Path...)
	dst.text = old.text
}

// own gives a cookie that was copied by assignment memory of its own, before a change.
func (c *Cookie) own() {
	if !c.owner.Owns() { // the first change
		c.claim()
	}
}

func (c *Cookie) claim() {
	if c.owner.IsCopy() {
		shared := *c
		*c = Cookie{owner: c.owner}
		shared.CopyTo(c)
	}
}

// SetKey sets the cookie's name.
func (c *Cookie) SetKey(key []byte) {
	c.own()
	c.Key = appendCookieKey(c.Key[:0], key)
}

// SetValue sets the cookie's value.
func (c *Cookie) SetValue(value []byte) {
	c.own()
	c.Value = appendCookieText(c.Value[:0], value)
}

// SetDomain sets the Domain attribute.
func (c *Cookie) SetDomain(domain []byte) {
	c.own()
	c.Domain = appendCookieText(c.Domain[:0], domain)
}

// SetPath sets the Path attribute, normalised as the path of a URI.
func (c *Cookie) SetPath(path []byte) {
	c.own()
	c.text = uri.AppendNormalPath(c.text[:0], path)
	c.Path = appendCookieText(c.Path[:0], c.text)
}

// SetPartitioned sets or removes the Partitioned attribute. Clients accept it
// only for a cookie that is Secure, with the path "/".
func (c *Cookie) SetPartitioned(partitioned bool) {
	c.IsPartitioned = partitioned
	if partitioned {
		c.own()
		c.IsSecure = true
		c.Path = append(c.Path[:0], '/')
	}
}

// HeldBytes is the memory that c keeps for its next use.
func (c *Cookie) HeldBytes() int {
	return cap(c.Key) + cap(c.Value) + cap(c.Domain) + cap(c.Path) + cap(c.text)
}

// SetSameSite sets the SameSite attribute. Clients accept None only for a cookie
// that is Secure.
func (c *Cookie) SetSameSite(mode SameSite) {
	c.SameSite = mode
	c.IsSecure = c.IsSecure || mode == sameSiteNone
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

// appendCookieKey is appendCookieText for a key: what follows a "=" would become
// part of the value.
func appendCookieKey(dst, key []byte) []byte {
	at := len(dst)
	dst = appendCookieText(dst, key)
	for i := at; i < len(dst); i++ {
		if dst[i] == '=' {
			dst[i] = ' '
		}
	}
	return dst
}

// Content returns the content of the Set-Cookie field, in memory of c.
func (c *Cookie) Content() []byte {
	c.own()
	c.text = c.AppendBytes(c.text[:0])
	return c.text
}

// AppendBytes appends the content of the Set-Cookie field to dst.
func (c *Cookie) AppendBytes(dst []byte) []byte {
	if len(c.Key) > 0 {
		dst = append(dst, c.Key...)
		dst = append(dst, '=')
	}
	dst = append(dst, c.Value...)
	switch {
	case c.MaxAge != 0:
		dst = append(dst, "; max-age="...)
		dst = ascii.AppendUint(dst, uint64(max(c.MaxAge, 0)))
	case !c.Expire.IsZero():
		dst = append(dst, "; expires="...)
		dst = AppendDate(dst, c.Expire)
	}
	dst = appendAttribute(dst, "; domain=", c.Domain)
	dst = appendAttribute(dst, "; path=", c.Path)
	if c.IsHTTPOnly {
		dst = append(dst, "; HttpOnly"...)
	}
	if c.IsSecure {
		dst = append(dst, "; secure"...)
	}
	dst = append(dst, c.SameSite.attribute()...)
	if c.IsPartitioned {
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

func (mode SameSite) attribute() string {
	switch mode {
	case sameSiteDefault:
		return "; SameSite"
	case sameSiteLax:
		return "; SameSite=Lax"
	case sameSiteStrict:
		return "; SameSite=Strict"
	case sameSiteNone:
		return "; SameSite=None"
	}
	return ""
}
