package h3

import (
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// staticText is the static table (RFC 9204 appendix A). Its indices begin with 0.
var staticText = [...][2]string{
	{":authority", ""},
	{":path", "/"},
	{"age", "0"},
	{"content-disposition", ""},
	{"content-length", "0"},
	{"cookie", ""},
	{"date", ""},
	{"etag", ""},
	{"if-modified-since", ""},
	{"if-none-match", ""},
	{"last-modified", ""},
	{"link", ""},
	{"location", ""},
	{"referer", ""},
	{"set-cookie", ""},
	{":method", "CONNECT"},
	{":method", "DELETE"},
	{":method", "GET"},
	{":method", "HEAD"},
	{":method", "OPTIONS"},
	{":method", "POST"},
	{":method", "PUT"},
	{":scheme", "http"},
	{":scheme", "https"},
	{":status", "103"},
	{":status", "200"},
	{":status", "304"},
	{":status", "404"},
	{":status", "503"},
	{"accept", "*/*"},
	{"accept", "application/dns-message"},
	{"accept-encoding", "gzip, deflate, br"},
	{"accept-ranges", "bytes"},
	{"access-control-allow-headers", "cache-control"},
	{"access-control-allow-headers", "content-type"},
	{"access-control-allow-origin", "*"},
	{"cache-control", "max-age=0"},
	{"cache-control", "max-age=2592000"},
	{"cache-control", "max-age=604800"},
	{"cache-control", "no-cache"},
	{"cache-control", "no-store"},
	{"cache-control", "public, max-age=31536000"},
	{"content-encoding", "br"},
	{"content-encoding", "gzip"},
	{"content-type", "application/dns-message"},
	{"content-type", "application/javascript"},
	{"content-type", "application/json"},
	{"content-type", "application/x-www-form-urlencoded"},
	{"content-type", "image/gif"},
	{"content-type", "image/jpeg"},
	{"content-type", "image/png"},
	{"content-type", "text/css"},
	{"content-type", "text/html; charset=utf-8"},
	{"content-type", "text/plain"},
	{"content-type", "text/plain;charset=utf-8"},
	{"range", "bytes=0-"},
	{"strict-transport-security", "max-age=31536000"},
	{"strict-transport-security", "max-age=31536000; includesubdomains"},
	{"strict-transport-security", "max-age=31536000; includesubdomains; preload"},
	{"vary", "accept-encoding"},
	{"vary", "origin"},
	{"x-content-type-options", "nosniff"},
	{"x-xss-protection", "1; mode=block"},
	{":status", "100"},
	{":status", "204"},
	{":status", "206"},
	{":status", "302"},
	{":status", "400"},
	{":status", "403"},
	{":status", "421"},
	{":status", "425"},
	{":status", "500"},
	{"accept-language", ""},
	{"access-control-allow-credentials", "FALSE"},
	{"access-control-allow-credentials", "TRUE"},
	{"access-control-allow-headers", "*"},
	{"access-control-allow-methods", "get"},
	{"access-control-allow-methods", "get, post, options"},
	{"access-control-allow-methods", "options"},
	{"access-control-expose-headers", "content-length"},
	{"access-control-request-headers", "content-type"},
	{"access-control-request-method", "get"},
	{"access-control-request-method", "post"},
	{"alt-svc", "clear"},
	{"authorization", ""},
	{"content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"},
	{"early-data", "1"},
	{"expect-ct", ""},
	{"forwarded", ""},
	{"if-range", ""},
	{"origin", ""},
	{"purpose", "prefetch"},
	{"server", ""},
	{"timing-allow-origin", "*"},
	{"upgrade-insecure-requests", "1"},
	{"user-agent", ""},
	{"x-forwarded-for", ""},
	{"x-frame-options", "deny"},
	{"x-frame-options", "sameorigin"},
}

// A staticField is an entry of the static table.
type staticField struct {
	code fieldlist.Code
	flaw fieldlist.Violation // of a message that must not have it
}

var staticFields = func() (fields [len(staticText)]staticField) {
	for i, text := range staticText {
		name, value := []byte(text[0]), []byte(text[1])
		code := fieldlist.CodeOf(name)
		fields[i] = staticField{code, fieldlist.FieldViolation(code, fieldlist.None, name, value)}
	}
	return fields
}()

// A staticRange is where the static table has a name: indices from first on, count of them.
type staticRange struct{ first, count uint8 }

// staticOfCode has the longest range of each code's name. The table has :status and
// access-control-allow-headers in two.
var staticOfCode = func() (ranges [256]staticRange) {
	for i := 0; i < len(staticText); {
		r := rangeAt(i)
		if code := staticFields[i].code; code != fieldlist.Other && r.count > ranges[code].count {
			ranges[code] = r
		}
		i += int(r.count)
	}
	return ranges
}()

// otherStatics has the ranges of the names without a code.
var otherStatics = func() (ranges []staticRange) {
	for i := 0; i < len(staticText); {
		r := rangeAt(i)
		if staticFields[i].code == fieldlist.Other {
			ranges = append(ranges, r)
		}
		i += int(r.count)
	}
	return ranges
}()

// rangeAt returns the range of the name at index i, which begins there.
func rangeAt(i int) staticRange {
	r := staticRange{first: uint8(i)}
	for i < len(staticText) && staticText[i][0] == staticText[r.first][0] {
		i++
		r.count++
	}
	return r
}

// findName returns where the static table has a name in any case, whose code is code; count is
// 0 if it has not.
func findName(code fieldlist.Code, name []byte) staticRange {
	if code != fieldlist.Other {
		return staticOfCode[code]
	}
	for _, r := range otherStatics {
		if text := staticText[r.first][0]; len(text) == len(name) && ascii.EqualFold(name, text) {
			return r
		}
	}
	return staticRange{}
}

// statusIndex returns the index of a status, or 0.
func statusIndex(status int) byte {
	switch status {
	case 103:
		return 24
	case 200:
		return 25
	case 304:
		return 26
	case 404:
		return 27
	case 503:
		return 28
	case 100:
		return 63
	case 204:
		return 64
	case 206:
		return 65
	case 302:
		return 66
	case 400:
		return 67
	case 403:
		return 68
	case 421:
		return 69
	case 425:
		return 70
	case 500:
		return 71
	}
	return 0
}

// indexOfName is the index of a name that the static table has.
const (
	indexAuthority = 0
	indexPath      = 1
	indexLength    = 4
	indexDate      = 6
	indexMethod    = 15
	indexScheme    = 22
	indexStatus    = 24
)
