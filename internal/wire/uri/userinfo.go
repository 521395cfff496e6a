package uri

import (
	"bytes"

	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// Username returns the user name, decoded.
func (u *URI) Username() []byte { return u.username }

// SetUsername sets the user name, not percent-encoded.
func (u *URI) SetUsername(username []byte) {
	u.own()
	u.username = append(u.username[:0], username...)
}

// Password returns the password, decoded.
func (u *URI) Password() []byte { return u.password }

// SetPassword sets the password, not percent-encoded.
func (u *URI) SetPassword(password []byte) {
	u.own()
	u.password = append(u.password[:0], password...)
}

// AppendCredentials appends user-pass (RFC 7617 section 2): user name and
// password with a colon between them.
func (u *URI) AppendCredentials(dst []byte) ([]byte, error) {
	if err := u.CheckCredentials(); err != nil {
		return nil, err
	}
	dst = append(dst, u.username...)
	dst = append(dst, ':')
	return append(dst, u.password...), nil
}

// CheckCredentials returns the error of AppendCredentials.
func (u *URI) CheckCredentials() error {
	switch {
	case bytes.IndexByte(u.username, ':') >= 0:
		return ErrUserinfoColon
	case ascii.HasCTL(u.username), ascii.HasCTL(u.password):
		return ErrUserinfoControl
	}
	return nil
}
