// Package field holds the fields of one message. Known names have an ID and a slot;
// others are found by a short scan. Names and values are offsets into one buffer, so
// a parsed head costs one copy and no allocation.
package field

import "github.com/sluicehttp/sluice/internal/ascii"

// An ID is a field name that the library treats specially, or that is common enough
// to be found without comparing strings. The zero ID means any other name.
type ID uint8

// The known fields. To add one, add it here and to canonical. A test then tells
// whether the hash has a free seat for it.
const (
	Other ID = iota
	Host
	ContentType
	UserAgent
	ContentLength
	TransferEncoding
	Connection
	Cookie
	SetCookie
	Server
	Date
	Expect
	Trailer
	ContentEncoding
	Accept
	AcceptEncoding
	AcceptLanguage
	Referer
	Origin
	Location
	Authorization
	IfModifiedSince
	IfNoneMatch
	IfRange
	Range
	CacheControl
	LastModified
	ETag
	Upgrade
	KeepAlive
	ContentRange
	Vary
	AcceptRanges
	IfMatch
	IfUnmodifiedSince
	numIDs
)

// canonical has the normalised spelling of every known name. VisitAll and PeekKeys
// return these bytes, which callers must not change.
var canonical = [numIDs][]byte{
	Host:              []byte("Host"),
	ContentType:       []byte("Content-Type"),
	UserAgent:         []byte("User-Agent"),
	ContentLength:     []byte("Content-Length"),
	TransferEncoding:  []byte("Transfer-Encoding"),
	Connection:        []byte("Connection"),
	Cookie:            []byte("Cookie"),
	SetCookie:         []byte("Set-Cookie"),
	Server:            []byte("Server"),
	Date:              []byte("Date"),
	Expect:            []byte("Expect"),
	Trailer:           []byte("Trailer"),
	ContentEncoding:   []byte("Content-Encoding"),
	Accept:            []byte("Accept"),
	AcceptEncoding:    []byte("Accept-Encoding"),
	AcceptLanguage:    []byte("Accept-Language"),
	Referer:           []byte("Referer"),
	Origin:            []byte("Origin"),
	Location:          []byte("Location"),
	Authorization:     []byte("Authorization"),
	IfModifiedSince:   []byte("If-Modified-Since"),
	IfNoneMatch:       []byte("If-None-Match"),
	IfRange:           []byte("If-Range"),
	Range:             []byte("Range"),
	CacheControl:      []byte("Cache-Control"),
	LastModified:      []byte("Last-Modified"),
	ETag:              []byte("Etag"),
	Upgrade:           []byte("Upgrade"),
	KeepAlive:         []byte("Keep-Alive"),
	ContentRange:      []byte("Content-Range"),
	Vary:              []byte("Vary"),
	AcceptRanges:      []byte("Accept-Ranges"),
	IfMatch:           []byte("If-Match"),
	IfUnmodifiedSince: []byte("If-Unmodified-Since"),
}

// Canonical returns the normalised name of id. The caller must not change it.
func (id ID) Canonical() []byte { return canonical[id] }

// seats is the size of the hash table of names, a power of two.
const seats = 256

// seatOf hashes a name by its length and three of its letters, folded. No two known
// names have the same seat (TestNoTwoNamesShareASeat).
func seatOf[S []byte | string](name S) int {
	n := len(name)
	return (n*1 ^ int(name[0]|0x20)*2 ^ int(name[n-1]|0x20)*1 ^ int(name[n>>1]|0x20)*12) & (seats - 1)
}

// idAtSeat maps a seat to its ID.
var idAtSeat = func() (t [seats]ID) {
	for id := Other + 1; id < numIDs; id++ {
		t[seatOf(canonical[id])] = id
	}
	return t
}()

// Lookup returns the ID of a name in any case, or Other if it is unknown.
func Lookup[S []byte | string](name S) ID {
	if len(name) == 0 {
		return Other
	}
	id := idAtSeat[seatOf(name)]
	if id == Other {
		return Other
	}
	c := canonical[id]
	if len(c) != len(name) || (string(name) != string(c) && !ascii.EqualFold(name, c)) {
		return Other
	}
	return id
}
