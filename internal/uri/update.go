package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
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
// reference is refused; u is then the zero URI.
func (u *URI) Update(reference []byte) (Extent, error) {
	// A copy: reference may be part of u, and Reset keeps scratch.
	u.scratch = append(u.scratch[:0], reference...)
	extent, err := u.update(u.scratch)
	if err != nil {
		u.Reset()
		return Everything, err
	}
	return extent, nil
}

// update implements Update. reference is in u.scratch. After an error the
// content of u is undefined.
func (u *URI) update(reference []byte) (Extent, error) {
	if ascii.HasCTL(reference) {
		return Reference, ErrInvalid
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
	if scheme, rest, isAbsolute := cutScheme(reference); isAbsolute && isScheme(scheme) {
		return Everything, u.replaceAuthority(scheme, rest)
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
// empty.
func (u *URI) replaceAuthority(scheme, rest []byte) error {
	kept := u.Scheme()
	u.Reset()
	if len(scheme) > 0 {
		u.scheme = ascii.AppendLower(u.scheme, scheme)
	} else {
		u.scheme = kept // Reset left its bytes in place
	}
	return u.parseAuthority(rest)
}

// mergePath returns the directory of u's path, percent-encoded again, followed
// by reference (RFC 3986 section 5.2.3). reference is in u.scratch.
func (u *URI) mergePath(reference []byte) []byte {
	n := len(reference)
	path := u.Path()
	u.scratch = ascii.AppendPath(u.scratch, path[:bytes.LastIndexByte(path, '/')+1])
	u.scratch = append(u.scratch, u.scratch[:n]...)
	return u.scratch[n:]
}

// HasOtherScheme tells whether reference is a URI with a scheme and without an
// authority, such as "javascript:x" (RFC 3986 section 3.1), and not a path.
func HasOtherScheme(reference []byte) bool {
	scheme, rest, ok := ascii.Cut(reference, ':')
	return ok && isScheme(scheme) && !bytes.HasPrefix(rest, doubleSlash)
}
