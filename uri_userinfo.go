package sluice

import (
	"bytes"
	"errors"

	"github.com/sluicehttp/sluice/internal/ascii"
)

// Reasons why user information is not sent. The texts do not contain it, because
// it is secret.
var (
	errUserinfoEscape  = errors.New("sluice: malformed percent-encoding in the user information of the URI")
	errUserinfoControl = errors.New("sluice: control character in the user information of the URI")
	errUserinfoColon   = errors.New("sluice: colon in the user name of the URI, where Basic authentication has none")
)

// Username returns the user name as it was given. The user name of a parsed URI
// is still percent-encoded.
func (u *URI) Username() []byte { return u.username }

// SetUsername sets the user name, not percent-encoded. It is never written as
// part of the URI: the client sends it in an Authorization field.
func (u *URI) SetUsername(username string) { u.SetUsernameBytes(ascii.Bytes(username)) }

// SetUsernameBytes is SetUsername for bytes.
func (u *URI) SetUsernameBytes(username []byte) {
	u.username, u.isUsernameEscaped = append(u.username[:0], username...), false
}

// Password returns the password as it was given. The password of a parsed URI
// is still percent-encoded.
func (u *URI) Password() []byte { return u.password }

// SetPassword sets the password, not percent-encoded. It is never written as
// part of the URI: the client sends it in an Authorization field.
func (u *URI) SetPassword(password string) { u.SetPasswordBytes(ascii.Bytes(password)) }

// SetPasswordBytes is SetPassword for bytes.
func (u *URI) SetPasswordBytes(password []byte) {
	u.password, u.isPasswordEscaped = append(u.password[:0], password...), false
}

// appendCredentials appends user-pass (RFC 7617 section 2): user name and
// password, decoded, with a colon between them.
func (u *URI) appendCredentials(dst []byte) ([]byte, error) {
	at := len(dst)
	dst, err := appendCredential(dst, u.username, u.isUsernameEscaped)
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(dst[at:], ':') >= 0 {
		return nil, errUserinfoColon
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
			return nil, errUserinfoEscape
		}
		dst = ascii.AppendUnescaped(dst, s)
	}
	if ascii.HasCTL(dst[at:]) {
		return nil, errUserinfoControl
	}
	return dst, nil
}
