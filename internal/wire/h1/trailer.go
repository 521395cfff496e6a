package h1

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// MayTrail reports whether a field may be in a trailer section. Fields that frame,
// route, authenticate or modify the message, or say how to read the content, may not
// (RFC 9110 section 6.5.1).
func MayTrail(id field.ID, name []byte) bool {
	switch id {
	case field.Other:
		for _, forbidden := range forbiddenTrailers {
			if ascii.EqualFold(name, forbidden) {
				return false
			}
		}
		for _, family := range forbiddenTrailerFamilies {
			if len(name) >= len(family) && ascii.EqualFold(name[:len(family)], family) {
				return false
			}
		}
		return true
	case field.ETag, field.LastModified, field.Server, field.Date, field.UserAgent,
		field.Accept, field.AcceptLanguage, field.Referer, field.Origin, field.Vary:
		return true
	}
	return false
}

var forbiddenTrailers = [...]string{
	"Age", "Authentication-Info", "Cf-Connecting-Ip", "Client-Ip", "Content-Disposition",
	"Content-Location", "Early-Data", "Expires", "Forwarded", "Http2-Settings", "Max-Forwards",
	"Pragma", "Retry-After", "TE", "True-Client-Ip", "Via", "Warning", "Www-Authenticate",
	"X-Client-Ip", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Real-Ip",
}

// forbiddenTrailerFamilies are prefixes of names that only intermediaries or user
// agents set, and that take effect before the trailer arrives.
var forbiddenTrailerFamilies = [...]string{
	"Access-Control-", "If-", "Proxy-", "Sec-", "X-Forwarded-", "X-Original-", "X-Rewrite-",
}

// DropForbiddenTrailers removes fields that may not be in a trailer section from a
// parsed one.
func DropForbiddenTrailers(t *field.Table) {
	for i := t.Len() - 1; i >= 0; i-- {
		if !MayTrail(t.ID(i), t.Name(i)) {
			t.DelAt(i)
		}
	}
}
