package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// Extent says how much of a URI Update replaced.
type Extent uint8

const (
	// Reference: at most query and hash.
	Reference Extent = iota
	// Path: path, query, hash and user information.
	Path
	// Everything: all, perhaps but the scheme. An error of Update replaces
	// everything, too.
	Everything
)

// Update resolves reference, which is not empty, against the base u, and
// replaces u with the result (RFC 3986 section 5.2). The error is the reason why
// reference is refused: u is unchanged if it has control characters, and else the
// zero URI.
func (u *URI) Update(reference []byte) (Extent, error) {
	if ascii.HasCTL(reference) {
		return Reference, ErrInvalid
	}
	u.own()
	if scheme, rest, isAbsolute := cutScheme(reference); isAbsolute && isScheme(scheme) {
		u.scratch = append(u.scratch[:0], reference...) // reference may be part of u
		return Everything, u.replaceAuthority(u.scratch[:len(scheme)], u.scratch[len(reference)-len(rest):])
	}
	// A copy: reference may be part of u, and Reset keeps scratch.
	u.scratch = append(u.scratch[:0], u.trimScheme(reference)...)
	return u.updateRelative(u.scratch)
}

// UpdateReference is Update for a query or a fragment alone, which may have control
// characters here: they are percent-encoded when they are written. It reports whether
// reference is one.
func (u *URI) UpdateReference(reference []byte) bool {
	u.own()
	u.scratch = append(u.scratch[:0], u.trimScheme(reference)...)
	if len(u.scratch) == 0 || u.scratch[0] != '?' && u.scratch[0] != '#' {
		return false
	}
	_, _ = u.updateRelative(u.scratch)
	return true
}

// trimScheme removes u's own scheme from a reference without an authority, which is
// then relative: "http:x" (RFC 3986 section 5.2.2, for a parser that is not strict).
func (u *URI) trimScheme(reference []byte) []byte {
	if scheme, rest := cutOpaque(reference); ascii.EqualFold(scheme, u.Scheme()) {
		return rest
	}
	return reference
}

// updateRelative is Update for a reference without a scheme, in u.scratch.
func (u *URI) updateRelative(reference []byte) (Extent, error) {
	if len(reference) == 0 {
		return Reference, nil
	}
	switch reference[0] {
	case '#':
		u.SetHash(reference[1:])
		return Reference, nil
	case '?':
		query, hash, hasHash := ascii.Cut(reference[1:], '#')
		u.SetQuery(query)
		if hasHash {
			u.SetHash(hash)
		}
		return Reference, nil
	}
	if bytes.HasPrefix(reference, doubleSlash) {
		return Everything, u.replaceAuthority(nil, reference[2:])
	}
	if reference[0] != '/' {
		reference = u.mergePath(reference)
	}
	u.username = u.username[:0]
	u.password = u.password[:0]
	u.splitReference(reference)
	return Path, nil
}

// replaceAuthority replaces everything, but keeps the scheme if the new one is
// empty. After an error u is the zero URI.
func (u *URI) replaceAuthority(scheme, rest []byte) error {
	kept := u.Scheme()
	u.Reset(nil)
	if len(scheme) > 0 {
		u.scheme = ascii.AppendLower(u.scheme, scheme)
	} else {
		u.scheme = kept // Reset left its bytes in place
	}
	err := u.parseAuthority(rest)
	if err != nil {
		u.Reset(nil)
	}
	return err
}

// mergePath returns the directory of u's path, percent-encoded again, followed
// by reference (RFC 3986 section 5.2.3). reference is u.scratch. Path may give u memory of
// its own, without scratch.
func (u *URI) mergePath(reference []byte) []byte {
	path := u.Path()
	n := len(reference)
	merged := ascii.AppendPath(reference, path[:bytes.LastIndexByte(path, '/')+1])
	u.scratch = append(merged, merged[:n]...)
	return u.scratch[n:]
}

// cutOpaque cuts the scheme from a URI that has one, but no authority, such as
// "mailto:x" (RFC 3986 section 3). scheme is empty if reference is none.
func cutOpaque(reference []byte) (scheme, rest []byte) {
	scheme, rest, ok := ascii.Cut(reference, ':')
	if !ok || !isScheme(scheme) || bytes.HasPrefix(rest, doubleSlash) {
		return nil, reference
	}
	return scheme, rest
}

// IsOpaque reports whether reference is a URI with a scheme and without an
// authority, such as "mailto:x".
func IsOpaque(reference []byte) bool {
	scheme, _ := cutOpaque(reference)
	return len(scheme) > 0
}

// LeavesHTTP reports whether IsOpaque is true for another scheme than http and https.
func LeavesHTTP(reference []byte) bool {
	scheme, _ := cutOpaque(reference)
	return len(scheme) > 0 && !ascii.EqualFold(scheme, HTTP) && !ascii.EqualFold(scheme, HTTPS)
}
