package sluice

import "strings"

// ErrDialTimeout is returned, within an *ErrDialWithUpstream, when there is no
// connection within the time-out of a dial function. Its method Timeout returns
// true.
var ErrDialTimeout error = dialTimeoutError{}

// dialTimeoutError is the type of ErrDialTimeout.
type dialTimeoutError struct{}

func (dialTimeoutError) Error() string { return "sluice: dialing timed out" }

// Timeout returns true.
func (dialTimeoutError) Timeout() bool { return true }

// ErrDialWithUpstream is returned when connecting failed; look-ups that fail are
// *net.DNSError without it. It comes as a pointer: use errors.As to find it, and
// what led to it (ErrDialTimeout, *net.OpError, an errno).
type ErrDialWithUpstream struct {
	// Upstream is the address that failed: IP address and port. It is the
	// address as it was dialed when no connection was tried: when the time
	// passed before, or with TCPDialer.DisableDNSResolution.
	Upstream string

	addr    string // as it was dialed
	wrapErr error
}

// Error tells what was dialed and why it failed: for each address that was
// tried, if there are several.
func (e *ErrDialWithUpstream) Error() string {
	addr := e.addr
	if addr == "" {
		addr = e.Upstream
	}
	return "sluice: cannot connect to " + addr + ": " + strings.TrimPrefix(causeText(e.wrapErr, "unknown reason"), "sluice: ")
}

// Unwrap returns why Upstream could not be connected to, and why the other
// addresses could not.
func (e *ErrDialWithUpstream) Unwrap() error { return e.wrapErr }
