package message

import (
	"math"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// Parse replaces c with the content of a Set-Cookie field, read as user agents
// do (RFC 6265 section 5.2). After an error c is empty. It does not retain src.
func (c *Cookie) Parse(src []byte) error {
	c.Reset()
	if len(src) == 0 {
		return ErrNoCookies
	}
	err := c.parse(src)
	if err != nil {
		c.Reset()
	}
	return err
}

func (c *Cookie) parse(src []byte) error {
	pair, src, _ := ascii.Cut(src, ';')
	key, value, hasKey := cutAttribute(pair)
	if !hasKey {
		// A pair without "=" is a value without a name, as in browsers.
		key, value = nil, key
	}
	value = unquote(value)
	c.Key = appendWithoutLineEnds(c.Key, key)
	c.Value = appendWithoutLineEnds(c.Value, value)
	if !isCookieText(c.Key) || !isCookieText(c.Value) || !hasNoQuote(c.Value) {
		return ErrInvalidCookieValue
	}
	for len(src) > 0 {
		var attribute []byte
		attribute, src, _ = ascii.Cut(src, ';')
		name, value, hasValue := cutAttribute(attribute)
		c.setAttribute(name, unquote(value), hasValue)
	}
	return nil
}

// cutAttribute slices s around its first "=" and trims both parts.
func cutAttribute(s []byte) (name, value []byte, hasValue bool) {
	name, value, hasValue = ascii.Cut(s, '=')
	return ascii.TrimOWS(name), ascii.TrimOWS(value), hasValue
}

// unquote removes one pair of quotes around s.
func unquote(s []byte) []byte {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

func appendWithoutLineEnds(dst, s []byte) []byte {
	for _, c := range s {
		if isLineEnd(c) {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

func isLineEnd(c byte) bool { return c == '\r' || c == '\n' }

// isCookieText reports whether s has no control character other than HTAB.
func isCookieText(s []byte) bool { return ascii.All(s, ascii.Value) }

func hasNoQuote(s []byte) bool {
	for _, c := range s {
		if c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// setAttribute stores one attribute, unless its value cannot be used (RFC 6265
// sections 5.2.1 to 5.2.6).
func (c *Cookie) setAttribute(name, value []byte, hasValue bool) {
	switch {
	case ascii.EqualFold(name, "expires"):
		if expire, ok := parseCookieDate(value); ok {
			c.Expire = expire.In(gmt)
		}
	case ascii.EqualFold(name, "max-age"):
		if seconds, ok := parseMaxAge(value); ok {
			c.MaxAge = seconds
		}
	case ascii.EqualFold(name, "domain"):
		if hasValue && isCookieDomain(value) {
			c.Domain = appendWithoutLineEnds(c.Domain[:0], value)
		}
	case ascii.EqualFold(name, "path"):
		if hasValue && isCookiePath(value) {
			c.Path = appendWithoutLineEnds(c.Path[:0], value)
		}
	case ascii.EqualFold(name, "secure"):
		c.IsSecure = true
	case ascii.EqualFold(name, "httponly"):
		c.IsHTTPOnly = true
	case ascii.EqualFold(name, "partitioned"):
		c.IsPartitioned = true
	case ascii.EqualFold(name, "samesite"):
		c.parseSameSite(value, hasValue)
	}
}

// isCookieDomain reports whether s, without its line ends, can be a Domain.
func isCookieDomain(s []byte) bool {
	for _, c := range s {
		if !isLineEnd(c) && !ascii.Is(c, ascii.Value) {
			return false
		}
	}
	return hasNoQuote(s)
}

// isCookiePath reports whether s, without its line ends, is *av-octet (RFC 6265
// section 4.1.1).
func isCookiePath(s []byte) bool {
	for _, c := range s {
		if !isLineEnd(c) && (c < ' ' || c >= 0x7f) {
			return false
		}
	}
	return true
}

// parseMaxAge parses a Max-Age (RFC 6265 section 5.2.2). For 0 and negative
// numbers it returns -1, which makes the client delete the cookie: a Cookie with
// 0 has no Max-Age. ok is false for a number that an int cannot hold.
func parseMaxAge(s []byte) (seconds int, ok bool) {
	isNegative := len(s) > 0 && s[0] == '-'
	if isNegative {
		s = s[1:]
	}
	n, err := ascii.ParseUint(s)
	if err != nil || n > math.MaxInt {
		return 0, false
	}
	if isNegative || n == 0 {
		return -1, true
	}
	return int(n), true
}

func (c *Cookie) parseSameSite(value []byte, hasValue bool) {
	switch {
	case !hasValue:
		c.SameSite = sameSiteDefault
	case ascii.EqualFold(value, "lax"):
		c.SameSite = sameSiteLax
	case ascii.EqualFold(value, "strict"):
		c.SameSite = sameSiteStrict
	case ascii.EqualFold(value, "none"):
		c.SameSite = sameSiteNone
	}
}
