package sluice

import (
	"bytes"
	"io"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// URI is a parsed http or https URI: scheme, user information, host, path,
// query and fragment ("hash").
//
// The zero value is "http:///". Byte slices that methods return belong to the
// URI and must not be changed. They stay valid until the URI is changed or
// released. A URI must not be copied (use CopyTo) and must not be used by
// several goroutines at once, except that getters may run concurrently after
// Parse.
//
// Setters store their arguments verbatim. RequestURI, FullURI, AppendBytes,
// String and WriteTo percent-encode every byte that is not allowed in its
// place, so that no part can end another part or the line it is written to.
type URI struct {
	owned invariants.Pooled
	// DisablePathNormalizing makes RequestURI, FullURI and the other writers
	// use PathOriginal instead of the normalised Path. Parse sets it to false,
	// and Update does if it replaces the path; set it after them.
	DisablePathNormalizing bool

	// isPathOriginal: Path is pathOriginal, byte for byte, and path is not used.
	// Most requests need no normalisation, and then no copy.
	isPathOriginal bool
	// hasQueryArgs: the query is queryArgs, not queryString.
	hasQueryArgs bool
	// isUsernameEscaped and isPasswordEscaped: the part was parsed from a URI
	// and is percent-encoded. Setters store an unencoded part.
	isUsernameEscaped, isPasswordEscaped bool

	scheme, username, password, host []byte
	pathOriginal, path               []byte
	queryString, hash                []byte
	queryArgs                        Args

	requestURI, fullURI []byte // results of the methods of these names
	scratch             []byte // memory of Update
}

// Reset makes u the zero URI. It keeps the memory for the next use.
func (u *URI) Reset() {
	u.DisablePathNormalizing = false
	u.isPathOriginal = false
	u.hasQueryArgs = false
	u.isUsernameEscaped, u.isPasswordEscaped = false, false
	u.scheme = u.scheme[:0]
	u.username = u.username[:0]
	u.password = u.password[:0]
	u.host = u.host[:0]
	u.pathOriginal = u.pathOriginal[:0]
	u.path = u.path[:0]
	u.queryString = u.queryString[:0]
	u.hash = u.hash[:0]
	u.queryArgs.Reset()
}

// CopyTo makes dst a copy of u that shares no memory with it.
func (u *URI) CopyTo(dst *URI) {
	if u == dst {
		return
	}
	dst.DisablePathNormalizing = u.DisablePathNormalizing
	dst.isPathOriginal = u.isPathOriginal
	dst.hasQueryArgs = u.hasQueryArgs
	dst.isUsernameEscaped, dst.isPasswordEscaped = u.isUsernameEscaped, u.isPasswordEscaped
	dst.scheme = append(dst.scheme[:0], u.scheme...)
	dst.username = append(dst.username[:0], u.username...)
	dst.password = append(dst.password[:0], u.password...)
	dst.host = append(dst.host[:0], u.host...)
	dst.pathOriginal = append(dst.pathOriginal[:0], u.pathOriginal...)
	dst.path = append(dst.path[:0], u.path...)
	dst.queryString = append(dst.queryString[:0], u.queryString...)
	dst.hash = append(dst.hash[:0], u.hash...)
	u.queryArgs.CopyTo(&dst.queryArgs)
}

// Scheme returns the scheme in lower case; "http" if none was given.
func (u *URI) Scheme() []byte {
	if len(u.scheme) == 0 {
		u.scheme = append(u.scheme, schemeHTTP...)
	}
	return u.scheme
}

// SetScheme sets the scheme, without "://".
func (u *URI) SetScheme(scheme string) { u.scheme = ascii.AppendLower(u.scheme[:0], scheme) }

// SetSchemeBytes is SetScheme for bytes.
func (u *URI) SetSchemeBytes(scheme []byte) { u.scheme = ascii.AppendLower(u.scheme[:0], scheme) }

// isHTTPS tells whether the scheme is "https".
func (u *URI) isHTTPS() bool { return string(u.scheme) == schemeHTTPS }

// Host returns the host in lower case, with the port if one was given.
func (u *URI) Host() []byte { return u.host }

// SetHost sets the host, which may have a port after ":". An IPv6 address must
// be in brackets.
func (u *URI) SetHost(host string) { u.host = ascii.AppendLower(u.host[:0], host) }

// SetHostBytes is SetHost for bytes.
func (u *URI) SetHostBytes(host []byte) { u.host = ascii.AppendLower(u.host[:0], host) }

// Path returns the path in normal form: percent-encodings are decoded, "//" is
// collapsed, and dot segments are removed. It begins with "/". It may contain
// any byte, including NUL and line ends.
func (u *URI) Path() []byte {
	if u.isPathOriginal {
		return u.pathOriginal
	}
	if len(u.path) == 0 {
		u.path = append(u.path, '/')
	}
	return u.path
}

// PathOriginal returns the path as it was given. It may be empty.
func (u *URI) PathOriginal() []byte { return u.pathOriginal }

// SetPath sets the path; percent-encodings in it are decoded.
func (u *URI) SetPath(path string) { u.SetPathBytes(ascii.Bytes(path)) }

// SetPathBytes is SetPath for bytes.
func (u *URI) SetPathBytes(path []byte) {
	u.pathOriginal = append(u.pathOriginal[:0], path...)
	u.normalizePath(isNormalPath(u.pathOriginal))
}

// normalizePath makes path from pathOriginal.
func (u *URI) normalizePath(isNormal bool) {
	u.isPathOriginal = isNormal
	u.path = u.path[:0]
	if !isNormal {
		u.path = appendNormalPath(u.path, u.pathOriginal)
	}
}

// LastPathSegment returns the part of Path after the last "/", which may be
// empty.
func (u *URI) LastPathSegment() []byte {
	path := u.Path()
	return path[bytes.LastIndexByte(path, '/')+1:]
}

// QueryString returns the query as it was given, without "?". It does not show
// changes that were made through QueryArgs.
func (u *URI) QueryString() []byte { return u.queryString }

// SetQueryString sets the query, without "?". Percent-encodings in it are kept.
func (u *URI) SetQueryString(query string) { u.SetQueryStringBytes(ascii.Bytes(query)) }

// SetQueryStringBytes is SetQueryString for bytes.
func (u *URI) SetQueryStringBytes(query []byte) {
	u.queryString = append(u.queryString[:0], query...)
	u.hasQueryArgs = false
}

// QueryArgs returns the pairs of the query, which it parses on the first call.
// From then on, the pairs are written as the query, until the next
// SetQueryString, Parse or Reset. The Args belongs to the URI.
func (u *URI) QueryArgs() *Args {
	if !u.hasQueryArgs {
		u.queryArgs.ParseBytes(u.queryString)
		u.hasQueryArgs = true
	}
	return &u.queryArgs
}

// Hash returns the fragment as it was given, without "#".
func (u *URI) Hash() []byte { return u.hash }

// SetHash sets the fragment, without "#".
func (u *URI) SetHash(hash string) { u.hash = append(u.hash[:0], hash...) }

// SetHashBytes is SetHash for bytes.
func (u *URI) SetHashBytes(hash []byte) { u.hash = append(u.hash[:0], hash...) }

// RequestURI returns path and query in the form of a request line: the
// origin-form of RFC 9112 section 3.2.1. It is valid until the next call.
func (u *URI) RequestURI() []byte {
	u.requestURI = u.appendRequestURI(u.requestURI[:0])
	return u.requestURI
}

func (u *URI) appendRequestURI(dst []byte) []byte {
	if u.DisablePathNormalizing {
		dst = appendOriginalPath(dst, u.pathOriginal)
	} else {
		dst = ascii.AppendPath(dst, u.Path())
	}
	switch {
	case u.hasQueryArgs:
		if u.queryArgs.Len() > 0 {
			dst = append(dst, '?')
			dst = u.queryArgs.AppendBytes(dst)
		}
	case len(u.queryString) > 0:
		dst = append(dst, '?')
		dst = ascii.AppendTarget(dst, u.queryString)
	}
	return dst
}

// appendOriginalPath appends a path that is not normalised. It keeps "*" for
// OPTIONS (RFC 9112 section 3.2.4). Any other path that does not begin with "/"
// gets one, because it would otherwise become part of the host.
func appendOriginalPath(dst, path []byte) []byte {
	if string(path) == "*" {
		return append(dst, '*')
	}
	if len(path) == 0 || path[0] != '/' {
		dst = append(dst, '/')
	}
	return ascii.AppendTarget(dst, path)
}

// FullURI returns the whole URI without user information. It is valid until
// the next call.
func (u *URI) FullURI() []byte {
	u.fullURI = u.AppendBytes(u.fullURI[:0])
	return u.fullURI
}

// AppendBytes appends the whole URI, without user information, to dst.
func (u *URI) AppendBytes(dst []byte) []byte {
	dst = ascii.AppendScheme(dst, u.Scheme())
	dst = append(dst, "://"...)
	dst = ascii.AppendHost(dst, u.host)
	if u.DisablePathNormalizing && string(u.pathOriginal) == "*" {
		dst = append(dst, '/') // appendOriginalPath does not add it to "*"
	}
	dst = u.appendRequestURI(dst)
	if len(u.hash) > 0 {
		dst = append(dst, '#')
		dst = ascii.AppendFragment(dst, u.hash)
	}
	return dst
}

// String returns the whole URI without user information.
func (u *URI) String() string { return string(u.FullURI()) }

// WriteTo writes the whole URI, without user information, to w in one call.
// It implements io.WriterTo.
func (u *URI) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(u.FullURI())
	return int64(n), err
}
