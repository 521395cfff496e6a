package h2

import "github.com/sluicehttp/sluice/internal/wire/fieldlist"

// staticText is the static table (RFC 7541 appendix A). Its indices begin with 1.
var staticText = [...][2]string{
	1: {":authority", ""},
	{":method", "GET"},
	{":method", "POST"},
	{":path", "/"},
	{":path", "/index.html"},
	{":scheme", "http"},
	{":scheme", "https"},
	{":status", "200"},
	{":status", "204"},
	{":status", "206"},
	{":status", "304"},
	{":status", "400"},
	{":status", "404"},
	{":status", "500"},
	{"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"},
	{"accept-language", ""},
	{"accept-ranges", ""},
	{"accept", ""},
	{"access-control-allow-origin", ""},
	{"age", ""},
	{"allow", ""},
	{"authorization", ""},
	{"cache-control", ""},
	{"content-disposition", ""},
	{"content-encoding", ""},
	{"content-language", ""},
	{"content-length", ""},
	{"content-location", ""},
	{"content-range", ""},
	{"content-type", ""},
	{"cookie", ""},
	{"date", ""},
	{"etag", ""},
	{"expect", ""},
	{"expires", ""},
	{"from", ""},
	{"host", ""},
	{"if-match", ""},
	{"if-modified-since", ""},
	{"if-none-match", ""},
	{"if-range", ""},
	{"if-unmodified-since", ""},
	{"last-modified", ""},
	{"link", ""},
	{"location", ""},
	{"max-forwards", ""},
	{"proxy-authenticate", ""},
	{"proxy-authorization", ""},
	{"range", ""},
	{"referer", ""},
	{"refresh", ""},
	{"retry-after", ""},
	{"server", ""},
	{"set-cookie", ""},
	{"strict-transport-security", ""},
	{"transfer-encoding", ""},
	{"user-agent", ""},
	{"vary", ""},
	{"via", ""},
	{"www-authenticate", ""},
}

// A staticField is an entry of the static table.
type staticField struct {
	name, value string
	code        fieldlist.Code
	flaw        fieldlist.Violation // of a message that must not have it
}

// staticFields has no entry at index 0, as staticText.
var staticFields = func() (fields [len(staticText)]staticField) {
	for i := 1; i < len(staticText); i++ {
		name, value := staticText[i][0], staticText[i][1]
		code := fieldlist.CodeOf([]byte(name))
		fields[i] = staticField{name, value, code, fieldlist.FieldViolation(code, fieldlist.None, []byte(name), []byte(value))}
	}
	return fields
}()
