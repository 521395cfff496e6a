package dial

import (
	"errors"
	"strings"
)

// ErrTimeout is the error of a Call whose Deadline passed. A Context with this
// cause counts as a Deadline.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string { return "sluice: dialing timed out" }

// Timeout returns true; see net.Error.
func (timeoutError) Timeout() bool { return true }

// ErrDialWithUpstream is the error of connecting.
type ErrDialWithUpstream struct {
	// Upstream is the address that failed.
	Upstream string

	addr  string // as it was dialed
	cause error
}

// WithUpstream returns err as an *ErrDialWithUpstream for addr, unless it is one already.
func WithUpstream(err error, addr string) error {
	if known := (*ErrDialWithUpstream)(nil); errors.As(err, &known) {
		return err
	}
	return &ErrDialWithUpstream{Upstream: addr, addr: addr, cause: err}
}

// Error returns the address that was dialed and the cause of the failure. If
// several IP addresses were tried, it returns the cause for each.
func (e *ErrDialWithUpstream) Error() string {
	addr, reason := e.addr, "unknown reason"
	if addr == "" {
		addr = e.Upstream
	}
	if e.cause != nil {
		reason = strings.TrimPrefix(e.cause.Error(), "sluice: ")
	}
	return "sluice: cannot connect to " + addr + ": " + reason
}

// Unwrap returns the cause for Upstream, and the causes for the other
// addresses.
func (e *ErrDialWithUpstream) Unwrap() error { return e.cause }
