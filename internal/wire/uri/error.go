package uri

import (
	"errors"
	"strconv"
)

var (
	// ErrInvalid: a URI has control characters, or its scheme or user
	// information is malformed.
	ErrInvalid = errors.New("sluice: invalid uri")
	// ErrEmptyTarget: a request has no target.
	ErrEmptyTarget = errors.New("sluice: the request target is empty")
)

// Reasons why user information is not sent. The texts do not contain it, because
// it is secret.
var (
	ErrUserinfoControl = errors.New("sluice: control character in the user information of the URI")
	ErrUserinfoColon   = errors.New("sluice: colon in the user name of the URI, where Basic authentication has none")
)

// EscapeError is the percent-encoding because of which a host is refused: it is
// malformed, or it is not allowed there.
type EscapeError string

// Error quotes the invalid percent-encoding.
func (e EscapeError) Error() string {
	return "sluice: invalid url escape " + strconv.Quote(string(e))
}

// InvalidHostError is a host that is refused, with its port if it had one.
type InvalidHostError string

// Error quotes the invalid host.
func (e InvalidHostError) Error() string {
	return "sluice: invalid host " + strconv.Quote(string(e))
}
