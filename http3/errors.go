package http3

import (
	"strings"

	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// An Error is why a request of a Transport has failed over HTTP/3: the server's response or
// connection breaks a rule of RFC 9114, or one side has ended the stream or the connection. It
// wraps io.EOF if the connection has ended, a *net.OpError, "remote error", if with an alert of TLS.
type Error struct {
	// Code is that of RFC 9114 section 8.1 or RFC 9204 section 8.3.
	Code uint64
	// IsRemote reports whether the server has sent Code. Otherwise it was sent to the server.
	IsRemote bool

	text  string
	cause error
}

// Error describes the failure.
func (e *Error) Error() string {
	return "sluice: http3: " + e.text + " (" + h3.Code(e.Code).String() + ")"
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// violationError returns the error for a violation by the server.
func violationError(err *h3.Error) *Error {
	return &Error{Code: uint64(err.Code), text: strings.TrimPrefix(err.Error(), "sluice: http3: "), cause: err}
}
