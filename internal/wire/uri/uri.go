// Package uri parses, changes and writes http and https URIs and the lists of
// arguments in their queries. It implements the root package's URI and Args,
// whose comments say what its methods promise.
package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// URI is a parsed URI; its zero value is "http:///". Slices that methods return
// stay valid until the URI is changed; those that methods take are copied, and
// may be parts of u.
//
// The pairs of the query belong to the caller, who passes the same Args to each
// call.
type URI struct {
	// isPathOriginal: Path is pathOriginal, byte for byte, and path is not used.
	// Most requests need no normalisation, and then no copy.
	isPathOriginal bool
	// hasArgs: the query is the caller's Args, not query.
	hasArgs bool
	// hasEmptyQuery: the query that was parsed is there, and empty.
	hasEmptyQuery bool
	// isPathLent, isQueryLent: the part is in target, not in memory of u.
	isPathLent, isQueryLent bool
	owner                   field.Owner

	scheme, username, password, host []byte
	pathOriginal, path               []byte
	query, hash                      []byte

	// target is the path of SetOrigin's target, whose caller keeps it; cap is the end
	// of the whole target.
	target []byte
	// lentHost is SetOrigin's host, unless it is empty: then the host is in memory of u.
	lentHost []byte

	scratch []byte // memory of Update
}

// Reset makes u the zero URI, and empties args, which may be nil. Both keep their memory for
// the next use.
func (u *URI) Reset(args *Args) {
	if args != nil {
		args.Reset()
	}
	if u.owner.IsCopy() {
		*u = URI{owner: u.owner}
	}
	u.isPathOriginal = false
	u.hasArgs, u.hasEmptyQuery = false, false
	u.isPathLent, u.isQueryLent = false, false
	u.target, u.lentHost = nil, nil
	u.scheme = u.scheme[:0]
	u.username = u.username[:0]
	u.password = u.password[:0]
	u.host = u.host[:0]
	u.pathOriginal = u.pathOriginal[:0]
	u.path = u.path[:0]
	u.query = u.query[:0]
	u.hash = u.hash[:0]
}

// own gives a URI that was copied by assignment memory of its own, before a change.
func (u *URI) own() {
	if !u.owner.Owns() { // the first change
		u.claim()
	}
}

func (u *URI) claim() {
	if u.owner.IsCopy() {
		shared := *u
		*u = URI{owner: u.owner}
		shared.CopyTo(u)
	}
}

// HeldBytes is the memory that u keeps for its next use.
func (u *URI) HeldBytes() int {
	return cap(u.scheme) + cap(u.username) + cap(u.password) + cap(u.host) +
		cap(u.pathOriginal) + cap(u.path) + cap(u.query) + cap(u.hash) + cap(u.scratch)
}

// CopyTo makes dst a copy of u that shares no memory with it.
func (u *URI) CopyTo(dst *URI) {
	if u == dst {
		return
	}
	dst.Reset(nil)
	dst.isPathOriginal = u.isPathOriginal
	dst.hasArgs, dst.hasEmptyQuery = u.hasArgs, u.isQueryEmpty()
	dst.scheme = append(dst.scheme[:0], u.scheme...)
	dst.username = append(dst.username[:0], u.username...)
	dst.password = append(dst.password[:0], u.password...)
	dst.host = append(dst.host[:0], u.Host()...)
	dst.pathOriginal = append(dst.pathOriginal[:0], u.PathOriginal()...)
	dst.path = append(dst.path[:0], u.path...)
	dst.query = append(dst.query[:0], u.Query()...)
	dst.hash = append(dst.hash[:0], u.hash...)
}

// Scheme returns the scheme in lower case; "http" if none was given.
func (u *URI) Scheme() []byte {
	if len(u.scheme) == 0 {
		u.own()
		u.scheme = append(u.scheme, HTTP...)
	}
	return u.scheme
}

// SetScheme sets the scheme, without "://".
func (u *URI) SetScheme(scheme []byte) {
	u.own()
	u.scheme = ascii.AppendLower(u.scheme[:0], scheme)
}

// IsHTTPS reports whether the scheme is "https".
func (u *URI) IsHTTPS() bool { return string(u.scheme) == HTTPS }

// Host returns the host in lower case, with the port if one was given.
func (u *URI) Host() []byte {
	if host := u.lentHost; len(host) > 0 {
		if ascii.IsLower(host) {
			return host[:len(host):len(host)]
		}
		return ascii.AppendLower(nil, host) // in no memory of u, as getters may run concurrently
	}
	return u.host
}

// SetHost sets the host, which may have a port.
func (u *URI) SetHost(host []byte) {
	u.own()
	u.host, u.lentHost = ascii.AppendLower(u.host[:0], host), nil
}

// Path returns the path in normal form.
func (u *URI) Path() []byte {
	if u.isPathOriginal && u.isPathLent { // the usual case
		return u.target[:len(u.target):len(u.target)]
	}
	return u.ownPath()
}

// ownPath is Path for a path in memory of u.
func (u *URI) ownPath() []byte {
	if u.isPathOriginal {
		return u.pathOriginal
	}
	if len(u.path) == 0 {
		u.own()
		u.path = append(u.path, '/')
	}
	return u.path
}

// PathOriginal returns the path as it was given.
func (u *URI) PathOriginal() []byte {
	if u.isPathLent {
		return u.target[:len(u.target):len(u.target)]
	}
	return u.pathOriginal
}

// SetPath sets the path; percent-encodings in it are decoded.
func (u *URI) SetPath(path []byte) {
	u.own()
	u.pathOriginal = append(u.pathOriginal[:0], path...)
	u.isPathLent = false
	u.normalizePath(isNormalPath(u.pathOriginal))
}

// normalizePath makes path from pathOriginal.
func (u *URI) normalizePath(isNormal bool) {
	u.isPathOriginal = isNormal
	u.path = u.path[:0]
	if !isNormal {
		u.path = AppendNormalPath(u.path, u.pathOriginal)
	}
}

// LastPathSegment returns the part of Path after the last "/".
func (u *URI) LastPathSegment() []byte {
	path := u.Path()
	return path[bytes.LastIndexByte(path, '/')+1:]
}

// Query returns the query as it was given, without "?".
func (u *URI) Query() []byte {
	if u.isQueryLent {
		n := cap(u.target)
		return u.target[min(len(u.target)+1, n):n]
	}
	return u.query
}

// SetQuery sets the query, without "?".
func (u *URI) SetQuery(query []byte) {
	u.own()
	u.query = append(u.query[:0], query...)
	u.isQueryLent, u.hasArgs, u.hasEmptyQuery = false, false, false
}

// isQueryEmpty reports whether u was parsed from text with "?" and an empty query, and no other
// query was set.
func (u *URI) isQueryEmpty() bool {
	return u.hasEmptyQuery || u.isQueryLent && cap(u.target) == len(u.target)+1
}

// hasParsed reports whether args still is what ParseQuery has made of the query.
func (u *URI) hasParsed(args *Args) bool {
	var parsed Args
	parsed.Parse(u.Query())
	return bytes.Equal(parsed.QueryString(), args.AppendBytes(nil))
}

// AppendForwarded is AppendRequestURI for a proxy: it stands for PathOriginal, and for the query as
// it was given, unless args was changed. AppendRequestURI omits an empty query, which RFC 3986
// section 6.2.3 tells from none.
func (u *URI) AppendForwarded(dst []byte, args *Args) []byte {
	if u.hasArgs && !u.hasParsed(args) {
		return u.AppendRequestURI(dst, args, true)
	}
	dst = appendOriginalPath(dst, u.PathOriginal())
	if query := u.Query(); len(query) > 0 || u.isQueryEmpty() {
		dst = ascii.AppendTarget(append(dst, '?'), query)
	}
	return dst
}

// HasArgs reports whether the query is the caller's Args.
func (u *URI) HasArgs() bool { return u.hasArgs }

// ParseQuery fills args with the pairs of the query. From then on, args is
// written as the query, until the next SetQuery, Parse or Reset. It is not
// inlined, so that its caller can be.
//
//go:noinline
func (u *URI) ParseQuery(args *Args) {
	args.Parse(u.Query())
	u.hasArgs = true
}

// Hash returns the fragment as it was given, without "#".
func (u *URI) Hash() []byte { return u.hash }

// SetHash sets the fragment, without "#".
func (u *URI) SetHash(hash []byte) {
	u.own()
	u.hash = append(u.hash[:0], hash...)
}

// AppendRequestURI appends path and query in origin-form (RFC 9112 section
// 3.2.1). isOriginal stands for PathOriginal in place of Path.
func (u *URI) AppendRequestURI(dst []byte, args *Args, isOriginal bool) []byte {
	if isOriginal {
		dst = appendOriginalPath(dst, u.PathOriginal())
	} else {
		dst = ascii.AppendPath(dst, u.Path())
	}
	switch {
	case u.hasArgs:
		if args.Len() > 0 {
			dst = append(dst, '?')
			dst = args.AppendBytes(dst)
		}
	case len(u.Query()) > 0:
		dst = append(dst, '?')
		dst = ascii.AppendTarget(dst, u.Query())
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

// AppendBytes appends the whole URI, without user information, to dst.
func (u *URI) AppendBytes(dst []byte, args *Args, isOriginal bool) []byte {
	dst = ascii.AppendScheme(dst, u.Scheme())
	dst = append(dst, "://"...)
	dst = appendWrittenHost(dst, u.Host())
	if isOriginal && string(u.PathOriginal()) == "*" {
		dst = append(dst, '/') // appendOriginalPath does not add it to "*"
	}
	dst = u.AppendRequestURI(dst, args, isOriginal)
	if len(u.hash) > 0 {
		dst = append(dst, '#')
		dst = ascii.AppendFragment(dst, u.hash)
	}
	return dst
}
