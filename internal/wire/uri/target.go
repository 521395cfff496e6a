package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// ParseTarget replaces u with the target URI of a request (RFC 9112
// section 3.3). host is the Host field, which may be empty. target is in
// origin-form, absolute-form with scheme http or https, authority-form, or "*".
// Unlike Parse it allows neither user information nor a fragment, and accepts
// only a strictly valid host. After an error u is the zero URI.
func (u *URI) ParseTarget(host, target []byte, isTLS bool) error {
	u.Reset(nil)
	u.setScheme(isTLS)
	if len(target) > 0 && target[0] == '/' && u.setRequestHost(host) && u.setOriginForm(target) {
		return nil
	}
	err := u.parseOtherTarget(host, target)
	if err != nil {
		u.Reset(nil)
	}
	return err
}

// SetOrigin is ParseTarget for a host and a target in origin-form that package h1 has
// checked, and for a URI that is new or was reset. The bytes of both must stay as they are
// until u is reset or changed: host, path and query are parts of them.
func (u *URI) SetOrigin(host, target []byte, isTLS bool) {
	if !u.owner.Owns() { // new, or a copy by assignment
		u.Reset(nil)
	}
	u.setScheme(isTLS)
	if len(host) > 0 && host[0] == '[' { // an IPv6 address may have a zone, which is decoded
		u.setCheckedHost(host)
	} else {
		u.lentHost = host
	}
	end := normalEnd(target, '?')
	u.isPathOriginal = end == len(target) || target[end] == '?'
	if !u.isPathOriginal {
		if end = bytes.IndexByte(target, '?'); end < 0 {
			end = len(target)
		}
		u.path = AppendNormalPath(u.path, target[:end])
	}
	u.target = target[:end:len(target)]
	u.isPathLent, u.isQueryLent = true, true
}

// setScheme gives u, which was reset, the scheme of a connection.
func (u *URI) setScheme(isTLS bool) {
	switch n := len(HTTP); {
	case isTLS:
		u.scheme = append(u.scheme, HTTPS...)
	case n <= cap(u.scheme) && string(u.scheme[:n]) == HTTP: // mostly, it had it before
		u.scheme = u.scheme[:n]
	default:
		u.scheme = append(u.scheme, HTTP...)
	}
}

// setOriginForm fills path and query from a target in origin-form. It takes one
// pass over the path and one over the query. It returns false if a byte is not
// allowed; u is then unchanged.
func (u *URI) setOriginForm(target []byte) bool {
	end, isNormal := len(target), true
	for i, c := range target {
		if c == '?' {
			end = i
			break
		}
		if !ascii.Is(c, ascii.Target) {
			return false
		}
		if c == '%' || c == '/' && i+1 < len(target) && (target[i+1] == '/' || target[i+1] == '.') {
			isNormal = false
		}
	}
	if end < len(target) && !ascii.All(target[end+1:], ascii.Target) {
		return false
	}
	u.pathOriginal = append(u.pathOriginal, target[:end]...)
	if end < len(target) { // after the path, because target may be the query of u
		u.query = append(u.query, target[end+1:]...)
		u.hasEmptyQuery = end+1 == len(target)
	}
	u.normalizePath(isNormal)
	return true
}

// setRequestHost sets the host if it is valid. A host without a port, the usual
// case, is checked in one pass.
func (u *URI) setRequestHost(host []byte) bool {
	for _, c := range host {
		if !ascii.Is(c, ascii.HostChar) {
			if !h1.ValidHost(host) {
				return false
			}
			break
		}
	}
	u.setCheckedHost(host)
	return true
}

// setCheckedHost sets a valid host. A zone that cannot be decoded is kept encoded.
func (u *URI) setCheckedHost(host []byte) {
	u.host = u.host[:0]
	if len(host) > 0 && host[0] == '[' {
		if decoded, err := appendIPv6Host(u.host, host); err == nil {
			u.host = decoded
			return
		}
	}
	u.host = ascii.AppendLower(u.host, host)
}

// parseOtherTarget parses every target that does not begin with "/", and returns
// the error of an invalid target that does.
func (u *URI) parseOtherTarget(host, target []byte) error {
	if len(target) == 0 {
		return ErrEmptyTarget
	}
	if !ascii.All(target, ascii.Target) {
		return ErrInvalid
	}
	if scheme, rest, isAbsolute := cutScheme(target); isAbsolute {
		return u.parseAbsoluteTarget(scheme, rest)
	}
	if string(target) != "*" && target[0] != '/' {
		// authority-form: the host is that of the target, not of the Host field.
		host = target
		if bytes.IndexByte(target, ':') < 0 {
			return ErrInvalid
		}
	}
	if !u.setRequestHost(host) {
		return InvalidHostError(host)
	}
	u.SetPath(target)
	return nil
}

func (u *URI) parseAbsoluteTarget(scheme, rest []byte) error {
	if !ascii.EqualFold(scheme, HTTP) && !ascii.EqualFold(scheme, HTTPS) {
		return ErrInvalid
	}
	u.scheme = ascii.AppendLower(u.scheme[:0], scheme)
	authority, reference := rest, slash
	if i := bytes.IndexAny(rest, "/?"); i >= 0 {
		authority, reference = rest[:i], rest[i:]
	}
	if !h1.ValidHost(authority) {
		return InvalidHostError(authority)
	}
	u.setCheckedHost(authority)
	u.splitReference(reference)
	return nil
}
