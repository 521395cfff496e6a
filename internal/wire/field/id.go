// Package field holds the fields of one message. Known names have an ID and a slot;
// others are found by a short scan. Names and values are offsets into one buffer, so
// a parsed head costs one copy and no allocation.
package field

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// An ID is a field name that the library treats specially, or that is common enough
// to be found without comparing strings. The zero ID means any other name.
type ID uint8

// The known fields. To add one, add it here and to canonical. A test then tells
// whether the hash has a free seat for it. Names have four bytes or more.
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
	Forwarded
	XForwardedFor
	XForwardedHost
	XForwardedProto
	UpgradeInsecureRequests
	SecFetchDest
	SecFetchMode
	SecFetchSite
	SecFetchUser
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
	Forwarded:         []byte("Forwarded"),
	XForwardedFor:     []byte("X-Forwarded-For"),
	XForwardedHost:    []byte("X-Forwarded-Host"),
	XForwardedProto:   []byte("X-Forwarded-Proto"),

	UpgradeInsecureRequests: []byte("Upgrade-Insecure-Requests"),

	SecFetchDest: []byte("Sec-Fetch-Dest"),
	SecFetchMode: []byte("Sec-Fetch-Mode"),
	SecFetchSite: []byte("Sec-Fetch-Site"),
	SecFetchUser: []byte("Sec-Fetch-User"),
}

// A label is how the line of a known field begins. It is copied whole, which costs less than a copy
// of its own length.
type label struct {
	text [32]byte
	n    int
}

// labels has a label for each ID. No ID is larger than an index, so that none is checked.
var labels = func() (t [maxIDs]label) {
	for id := Other + 1; id < numIDs; id++ {
		t[id].n = copy(t[id].text[:], string(canonical[id])+": ")
	}
	return t
}()

// maxIDs bounds the IDs, of which there are sets in 64 bits.
const maxIDs = 64

// lineRoom is the room that a line needs beside its value and a name that is not known.
const lineRoom = len(label{}.text) + len("\r\n")

// AppendLine appends a line with the normalised name of id, which is not Other, and a valid value. It
// may write after the result.
func (id ID) AppendLine(dst, value []byte) []byte {
	if room := lineRoom + len(value); cap(dst)-len(dst) < room {
		dst = slices.Grow(dst, room)
	}
	dst = append(appendLabel(dst, id), value...)
	return append(dst, '\r', '\n')
}

// appendLabel appends the beginning of the line. dst has the room.
func appendLabel(dst []byte, id ID) []byte {
	n, l := len(dst), &labels[id%maxIDs]
	*(*[len(l.text)]byte)(dst[n : n+len(l.text)]) = l.text
	return dst[:n+l.n]
}

// Canonical returns the normalised name of id. The caller must not change it.
func (id ID) Canonical() []byte { return canonical[id] }

// seats is the size of the hash table of names, a power of two.
const seats = 128

// fold has the bit that lower-case letters have and upper-case letters have not, in
// each byte of a word.
const fold = 0x2020202020202020

// A spelling is a known name in lower case as two words: its first and its last bytes.
// They overlap, and a name of more than 16 bytes has a few between them.
type spelling struct{ first, last uint64 }

// words returns the words of a name of at least four bytes.
func words(name []byte) spelling {
	if n := len(name); n >= 8 {
		return spelling{binary.LittleEndian.Uint64(name), binary.LittleEndian.Uint64(name[n-8:])}
	}
	return spelling{uint64(binary.LittleEndian.Uint32(name)), uint64(binary.LittleEndian.Uint32(name[len(name)-4:]))}
}

// seat hashes a name in any case. No two known names have the same seat
// (TestNoTwoNamesShareASeat). The factor was found by trial.
func (s spelling) seat() uint64 {
	return ((s.first | fold) ^ bits.RotateLeft64(s.last|fold, 7)) * 0x83e3a5ca599362b3 >> 57
}

// isSame reports whether a word of a name equals one of a known name, which consists of
// lower-case letters and hyphens: only at letters the bit of fold does not count.
func isSame(word, known uint64) bool { return word|known>>1&fold == known }

// spellings and idAtSeat are what Lookup compares a name with.
var (
	spellings = func() (t [numIDs]spelling) {
		for id := Other + 1; id < numIDs; id++ {
			t[id] = words(bytes.ToLower(canonical[id]))
		}
		return t
	}()
	idAtSeat = func() (t [seats]ID) {
		for id := Other + 1; id < numIDs; id++ {
			t[words(canonical[id]).seat()] = id
		}
		return t
	}()
)

// Lookup returns the ID of a name in any case, or Other if it is unknown.
func Lookup[S []byte | string](name S) ID { return lookup([]byte(name)) }

func lookup(name []byte) ID {
	n := len(name)
	if n < 4 {
		return Other // every known name is longer
	}
	w := words(name)
	id := idAtSeat[w.seat()]
	if id >= numIDs || len(canonical[id]) != n || !isSame(w.first, spellings[id].first) || !isSame(w.last, spellings[id].last) {
		return Other
	}
	if n > 16 && !ascii.EqualFold(name[8:n-8], canonical[id][8:n-8]) {
		return Other
	}
	return id
}
