package sluice

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
)

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
// hash that they do not name. If Parse would refuse newURI, u becomes the zero
// URI: with its empty host, no request can be sent to an unintended host.
func (u *URI) Update(newURI string) { u.UpdateBytes(ascii.Bytes(newURI)) }

// UpdateBytes is Update for bytes. It does not retain newURI.
func (u *URI) UpdateBytes(newURI []byte) {
	if len(newURI) == 0 {
		return
	}
	_ = u.resolve(newURI) // after an error u is the zero URI
}

// resolve is UpdateBytes for a newURI that is not empty. Its error is the reason
// why newURI is refused.
func (u *URI) resolve(newURI []byte) error {
	// A copy: newURI may be part of u, and Reset keeps scratch.
	u.scratch = append(u.scratch[:0], newURI...)
	err := u.update(u.scratch)
	if err != nil {
		u.Reset()
	}
	return err
}

// update implements resolve. reference is in u.scratch. After an error the
// content of u is undefined.
func (u *URI) update(reference []byte) error {
	if ascii.HasCTL(reference) {
		return ErrorInvalidURI
	}
	switch reference[0] {
	case '#':
		u.SetHashBytes(reference[1:])
		return nil
	case '?':
		query, hash, hasHash := cutByte(reference[1:], '#')
		u.SetQueryStringBytes(query)
		if hasHash {
			u.SetHashBytes(hash)
		}
		return nil
	}
	if scheme, rest, isAbsolute := cutScheme(reference); isAbsolute && isScheme(scheme) {
		return u.replaceAuthority(scheme, rest)
	}
	if bytes.HasPrefix(reference, doubleSlash) {
		return u.replaceAuthority(nil, reference[2:])
	}
	if reference[0] != '/' {
		reference = u.mergePath(reference)
	}
	u.DisablePathNormalizing = false
	u.username = u.username[:0]
	u.password = u.password[:0]
	u.splitReference(reference)
	return nil
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
