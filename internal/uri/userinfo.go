package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// Username returns the user name as it was given. The user name of a parsed URI
// is still percent-encoded.
func (u *URI) Username() []byte { return u.username }

// SetUsername sets the user name, not percent-encoded.
func (u *URI) SetUsername(username []byte) {
	u.username, u.isUsernameEscaped = append(u.username[:0], username...), false
}

// Password returns the password as it was given. The password of a parsed URI
// is still percent-encoded.
func (u *URI) Password() []byte { return u.password }

// SetPassword sets the password, not percent-encoded.
func (u *URI) SetPassword(password []byte) {
	u.password, u.isPasswordEscaped = append(u.password[:0], password...), false
}

// AppendCredentials appends user-pass (RFC 7617 section 2): user name and
// password, decoded, with a colon between them.
func (u *URI) AppendCredentials(dst []byte) ([]byte, error) {
	at := len(dst)
	dst, err := appendCredential(dst, u.username, u.isUsernameEscaped)
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(dst[at:], ':') >= 0 {
		return nil, ErrUserinfoColon
	}
	return appendCredential(append(dst, ':'), u.password, u.isPasswordEscaped)
}

// appendCredential appends a user name or password, decoded if it is escaped.
func appendCredential(dst, s []byte, isEscaped bool) ([]byte, error) {
	at := len(dst)
	if !isEscaped {
		dst = append(dst, s...)
	} else {
		if !ascii.IsEscaped(s) {
			return nil, ErrUserinfoEscape
		}
		dst = ascii.AppendUnescaped(dst, s)
	}
	if ascii.HasCTL(dst[at:]) {
		return nil, ErrUserinfoControl
	}
	return dst, nil
}
