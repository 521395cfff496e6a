package h2

import (
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
)

// A staticField is an entry of the static table.
type staticField struct {
	name, value string
	code        fieldlist.Code
}

// staticFields is the static table (RFC 7541 appendix A). Its indices begin with 1.
var staticFields = [...]staticField{
	1: {":authority", "", fieldlist.PseudoAuthority},
	{":method", "GET", fieldlist.PseudoMethod},
	{":method", "POST", fieldlist.PseudoMethod},
	{":path", "/", fieldlist.PseudoPath},
	{":path", "/index.html", fieldlist.PseudoPath},
	{":scheme", "http", fieldlist.PseudoScheme},
	{":scheme", "https", fieldlist.PseudoScheme},
	{":status", "200", fieldlist.PseudoStatus},
	{":status", "204", fieldlist.PseudoStatus},
	{":status", "206", fieldlist.PseudoStatus},
	{":status", "304", fieldlist.PseudoStatus},
	{":status", "400", fieldlist.PseudoStatus},
	{":status", "404", fieldlist.PseudoStatus},
	{":status", "500", fieldlist.PseudoStatus},
	{"accept-charset", "", fieldlist.Other},
	{"accept-encoding", "gzip, deflate", fieldlist.Code(field.AcceptEncoding)},
	{"accept-language", "", fieldlist.Code(field.AcceptLanguage)},
	{"accept-ranges", "", fieldlist.Code(field.AcceptRanges)},
	{"accept", "", fieldlist.Code(field.Accept)},
	{"access-control-allow-origin", "", fieldlist.Other},
	{"age", "", fieldlist.Other},
	{"allow", "", fieldlist.Other},
	{"authorization", "", fieldlist.Code(field.Authorization)},
	{"cache-control", "", fieldlist.Code(field.CacheControl)},
	{"content-disposition", "", fieldlist.Other},
	{"content-encoding", "", fieldlist.Code(field.ContentEncoding)},
	{"content-language", "", fieldlist.Other},
	{"content-length", "", fieldlist.Code(field.ContentLength)},
	{"content-location", "", fieldlist.Other},
	{"content-range", "", fieldlist.Code(field.ContentRange)},
	{"content-type", "", fieldlist.Code(field.ContentType)},
	{"cookie", "", fieldlist.Code(field.Cookie)},
	{"date", "", fieldlist.Code(field.Date)},
	{"etag", "", fieldlist.Code(field.ETag)},
	{"expect", "", fieldlist.Code(field.Expect)},
	{"expires", "", fieldlist.Other},
	{"from", "", fieldlist.Other},
	{"host", "", fieldlist.Code(field.Host)},
	{"if-match", "", fieldlist.Code(field.IfMatch)},
	{"if-modified-since", "", fieldlist.Code(field.IfModifiedSince)},
	{"if-none-match", "", fieldlist.Code(field.IfNoneMatch)},
	{"if-range", "", fieldlist.Code(field.IfRange)},
	{"if-unmodified-since", "", fieldlist.Code(field.IfUnmodifiedSince)},
	{"last-modified", "", fieldlist.Code(field.LastModified)},
	{"link", "", fieldlist.Other},
	{"location", "", fieldlist.Code(field.Location)},
	{"max-forwards", "", fieldlist.Other},
	{"proxy-authenticate", "", fieldlist.Other},
	{"proxy-authorization", "", fieldlist.Other},
	{"range", "", fieldlist.Code(field.Range)},
	{"referer", "", fieldlist.Code(field.Referer)},
	{"refresh", "", fieldlist.Other},
	{"retry-after", "", fieldlist.Other},
	{"server", "", fieldlist.Code(field.Server)},
	{"set-cookie", "", fieldlist.Code(field.SetCookie)},
	{"strict-transport-security", "", fieldlist.Other},
	{"transfer-encoding", "", fieldlist.Code(field.TransferEncoding)},
	{"user-agent", "", fieldlist.Code(field.UserAgent)},
	{"vary", "", fieldlist.Code(field.Vary)},
	{"via", "", fieldlist.Other},
	{"www-authenticate", "", fieldlist.Other},
}

// staticFlaws has what is wrong with the fields of the static table, for messages that must not
// have them.
var staticFlaws = func() (flaws [len(staticFields)]fieldlist.Violation) {
	for i := range staticFields {
		if i > 0 {
			f := &staticFields[i]
			flaws[i] = fieldlist.FieldViolation(f.code, fieldlist.None, []byte(f.name), []byte(f.value))
		}
	}
	return flaws
}()
