package sluice

import (
	"io"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

const (
	schemeHTTP  = uri.HTTP
	schemeHTTPS = uri.HTTPS
)

// URI is a parsed http or https URI: scheme, user information, host, path,
// query and fragment ("hash").
//
// The zero value is "http:///". It owns the slices that its methods return; see the
// package comment. Copies by assignment share memory until they change: use CopyTo.
// Getters may run concurrently after Parse.
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

	m         uri.URI
	queryArgs Args // the pairs of m's query

	requestURI, fullURI []byte // results of the methods of these names
}

// Reset makes u the zero URI. It keeps the memory for the next use.
func (u *URI) Reset() {
	u.DisablePathNormalizing = false
	u.m.Reset(&u.queryArgs.m)
}

// CopyTo makes dst a copy of u that shares no memory with it.
func (u *URI) CopyTo(dst *URI) {
	dst.DisablePathNormalizing = u.DisablePathNormalizing
	u.m.CopyTo(&dst.m)
	u.queryArgs.CopyTo(&dst.queryArgs)
}

// Parse replaces u with the given URI. uri is one of
//
//   - absolute: scheme://[user[:password]@]host[:port][/path][?query][#hash];
//     the argument host is then ignored, and an empty scheme before "://" stands
//     for http;
//   - without scheme: //host/path, only if the argument host is empty;
//   - path, query and hash only; host is then the URI's host.
//
// Neither slice is retained. The error is ErrorInvalidURI for control
// characters, for a malformed scheme, and for characters in the user
// information that RFC 3986 section 3.2.1 does not allow. An invalid host is
// InvalidHostError or EscapeError. After an error u is the zero URI.
func (u *URI) Parse(host, uri []byte) error {
	u.DisablePathNormalizing = false
	u.queryArgs.m.Reset()
	return u.m.Parse(host, uri)
}

// Update resolves the reference newURI against the base u, and replaces u with
// the result (RFC 3986 section 5.2):
//
//   - http://host/path: replaces everything;
//   - //host/path: replaces everything but the scheme;
//   - /path?query#hash: replaces path, query and hash;
//   - path?query#hash: the same, relative to the last "/" of u's path;
//   - ?query or ?query#hash, and #hash: replace what they name;
//   - empty: changes nothing.
//
// All but the last two kinds remove the user information, and the query and
// hash that they do not name. u's own scheme in front of the last four kinds is
// left out: http:path. If Parse would refuse newURI, u becomes the zero
// URI: with its empty host, no request can be sent to an unintended host. A query or a
// fragment alone may have control characters.
func (u *URI) Update(newURI string) { u.UpdateBytes(ascii.Bytes(newURI)) }

// UpdateBytes is Update for bytes. It does not retain newURI.
func (u *URI) UpdateBytes(newURI []byte) {
	if u.UpdateBytesErr(newURI) != nil && !u.m.UpdateReference(newURI) {
		u.Reset()
	}
}

// UpdateBytesErr is UpdateBytes and returns the error with which Parse would
// refuse newURI, also for a query or a fragment alone. If newURI has control characters,
// which is ErrorInvalidURI, u is then unchanged. After any other error it is the zero URI.
func (u *URI) UpdateBytesErr(newURI []byte) error {
	if len(newURI) == 0 {
		return nil
	}
	extent, err := u.m.Update(newURI)
	if extent >= uri.Path {
		u.DisablePathNormalizing = false
	}
	if extent == uri.Everything {
		u.queryArgs.Reset()
	}
	return err
}

// Scheme returns the scheme in lower case; "http" if none was given.
func (u *URI) Scheme() []byte { return u.m.Scheme() }

// SetScheme sets the scheme, without "://".
func (u *URI) SetScheme(scheme string) { u.m.SetScheme(ascii.Bytes(scheme)) }

// SetSchemeBytes is SetScheme for bytes.
func (u *URI) SetSchemeBytes(scheme []byte) { u.m.SetScheme(scheme) }

// Host returns the host in lower case, with the port if one was given.
func (u *URI) Host() []byte { return u.m.Host() }

// SetHost sets the host, which may have a port after ":". An IPv6 address must
// be in brackets.
func (u *URI) SetHost(host string) { u.m.SetHost(ascii.Bytes(host)) }

// SetHostBytes is SetHost for bytes.
func (u *URI) SetHostBytes(host []byte) { u.m.SetHost(host) }

// Path returns the path in normal form: percent-encodings are decoded, "//" is
// collapsed, and dot segments are removed. It begins with "/". It may contain
// any byte, including NUL and line ends.
func (u *URI) Path() []byte { return u.m.Path() }

// PathOriginal returns the path as it was given. It may be empty.
func (u *URI) PathOriginal() []byte { return u.m.PathOriginal() }

// SetPath sets the path; percent-encodings in it are decoded.
func (u *URI) SetPath(path string) { u.m.SetPath(ascii.Bytes(path)) }

// SetPathBytes is SetPath for bytes.
func (u *URI) SetPathBytes(path []byte) { u.m.SetPath(path) }

// LastPathSegment returns the part of Path after the last "/", which may be
// empty.
func (u *URI) LastPathSegment() []byte { return u.m.LastPathSegment() }

// QueryString returns the query as it was given, without "?". It does not show
// changes that were made through QueryArgs.
func (u *URI) QueryString() []byte { return u.m.Query() }

// SetQueryString sets the query, without "?". Percent-encodings in it are kept.
func (u *URI) SetQueryString(query string) { u.m.SetQuery(ascii.Bytes(query)) }

// SetQueryStringBytes is SetQueryString for bytes.
func (u *URI) SetQueryStringBytes(query []byte) { u.m.SetQuery(query) }

// QueryArgs returns the pairs of the query, which it parses on the first call.
// From then on, the pairs are written as the query, until the next
// SetQueryString, Parse or Reset. The Args belongs to the URI.
func (u *URI) QueryArgs() *Args {
	if !u.m.HasArgs() {
		u.m.ParseQuery(&u.queryArgs.m)
	}
	return &u.queryArgs
}

// Hash returns the fragment as it was given, without "#".
func (u *URI) Hash() []byte { return u.m.Hash() }

// SetHash sets the fragment, without "#".
func (u *URI) SetHash(hash string) { u.m.SetHash(ascii.Bytes(hash)) }

// SetHashBytes is SetHash for bytes.
func (u *URI) SetHashBytes(hash []byte) { u.m.SetHash(hash) }

// Username returns the user name. Percent-encodings of a parsed URI are decoded;
// malformed ones stay. It may contain any byte, including NUL and line ends.
func (u *URI) Username() []byte { return u.m.Username() }

// SetUsername sets the user name, not percent-encoded. It is never written as
// part of the URI: the client sends it in an Authorization field, unless the
// request has one.
func (u *URI) SetUsername(username string) { u.m.SetUsername(ascii.Bytes(username)) }

// SetUsernameBytes is SetUsername for bytes.
func (u *URI) SetUsernameBytes(username []byte) { u.m.SetUsername(username) }

// Password is Username for the password.
func (u *URI) Password() []byte { return u.m.Password() }

// SetPassword is SetUsername for the password.
func (u *URI) SetPassword(password string) { u.m.SetPassword(ascii.Bytes(password)) }

// SetPasswordBytes is SetPassword for bytes.
func (u *URI) SetPasswordBytes(password []byte) { u.m.SetPassword(password) }

// RequestURI returns path and query in the form of a request line: the
// origin-form of RFC 9112 section 3.2.1. It is valid until the next call.
func (u *URI) RequestURI() []byte {
	u.requestURI = u.m.AppendRequestURI(u.requestURI[:0], &u.queryArgs.m, u.DisablePathNormalizing)
	return u.requestURI
}

func (u *URI) appendRequestURI(dst []byte) []byte {
	return u.m.AppendRequestURI(dst, &u.queryArgs.m, u.DisablePathNormalizing)
}

// FullURI returns the whole URI without user information. It is valid until
// the next call.
func (u *URI) FullURI() []byte {
	u.fullURI = u.m.AppendBytes(u.fullURI[:0], &u.queryArgs.m, u.DisablePathNormalizing)
	return u.fullURI
}

// AppendBytes appends the whole URI, without user information, to dst.
func (u *URI) AppendBytes(dst []byte) []byte {
	return u.m.AppendBytes(dst, &u.queryArgs.m, u.DisablePathNormalizing)
}

// String returns the whole URI without user information.
func (u *URI) String() string { return string(u.FullURI()) }

// WriteTo writes the whole URI, without user information, to w in one call.
// It implements io.WriterTo.
func (u *URI) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(u.FullURI())
	return int64(n), err
}
