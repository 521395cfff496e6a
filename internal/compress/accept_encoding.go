package compress

import "github.com/sluicehttp/sluice/internal/wire/ascii"

// ByName returns the content coding with that name (RFC 9110 section 8.4.1).
func ByName(name []byte) (c Coding, ok bool) {
	switch {
	case ascii.EqualFold(name, "gzip"), ascii.EqualFold(name, "x-gzip"):
		return Gzip, true
	case ascii.EqualFold(name, "br"):
		return Brotli, true
	case ascii.EqualFold(name, "zstd"):
		return Zstd, true
	case ascii.EqualFold(name, "deflate"):
		return Deflate, true
	}
	return 0, false
}

// Name returns the name of a content coding: it is the inverse of ByName.
func (c Coding) Name() string {
	switch c {
	case Gzip:
		return "gzip"
	case Brotli:
		return "br"
	case Zstd:
		return "zstd"
	}
	return "deflate"
}

// Offer is a coding that a server offers.
type Offer struct {
	Coding Coding
	Level  int
}

// quality is the weight of a coding in Accept-Encoding: the weight in
// thousandths plus 1, so that the zero value means that the coding is not
// named.
type quality int

const refused quality = 1

// Accept is a parsed Accept-Encoding (RFC 9110 section 12.5.3). The zero value is
// that of a request without one.
type Accept struct {
	codings       [codings]quality
	identity, any quality
}

// Read adds the members of a field value. It skips those with a malformed
// weight.
func (a *Accept) Read(value []byte) {
	for found := true; found; {
		var member []byte
		member, value, found = ascii.Cut(value, ',')
		name, parameter, hasParameter := ascii.Cut(member, ';')
		weight := quality(1001)
		if hasParameter {
			var ok bool
			if weight, ok = parseWeight(parameter); !ok {
				continue
			}
		}
		name = ascii.TrimOWS(name)
		if c, ok := ByName(name); ok {
			a.codings[c] = weight
		} else if string(name) == "*" {
			a.any = weight
		} else if ascii.EqualFold(name, "identity") {
			a.identity = weight
		}
	}
}

// parseWeight parses "q=" and a weight (RFC 9110 section 12.4.2).
func parseWeight(b []byte) (weight quality, ok bool) {
	b = ascii.TrimOWS(b)
	if len(b) < 3 || len(b) > 7 || b[0]|0x20 != 'q' || b[1] != '=' || len(b) > 3 && b[3] != '.' {
		return 0, false
	}
	thousandths, unit := 0, 1000
	for i, c := range b[2:] {
		if i == 1 {
			continue // the dot
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		thousandths += int(c-'0') * unit
		unit /= 10
	}
	return quality(thousandths + 1), thousandths <= 1000
}

// RefusesIdentity reports whether the client refuses a body without encoding.
func (a *Accept) RefusesIdentity() bool {
	return a.identity == refused || a.identity == 0 && a.any == refused
}

// Choose returns the offer with the highest weight, the first among equals. It
// finds none if the client prefers identity. If a client lists codings and does
// not list identity, it prefers any of them to identity.
func (a *Accept) Choose(offers []Offer) (best Offer, found bool) {
	bound := refused
	for _, offer := range offers {
		weight := a.codings[offer.Coding]
		if weight == 0 && a.RefusesIdentity() {
			weight = a.any
		}
		if weight > bound {
			best, bound, found = offer, weight, true
		}
	}
	identity := a.identity
	if identity == 0 {
		identity = a.any
	}
	return best, found && bound >= identity
}

// compressibleTypes are prefixes of media types whose content gets smaller.
var compressibleTypes = [...]string{
	"text/", "application/", "font/", "multipart/", "image/svg", "image/x-icon",
}

// IsCompressible reports whether bodies of a media type get smaller.
func IsCompressible(contentType []byte) bool {
	for _, prefix := range compressibleTypes {
		if len(contentType) >= len(prefix) && ascii.EqualFold(contentType[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}
