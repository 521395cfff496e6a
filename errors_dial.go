package sluice

import (
	"strings"

	"github.com/sluicehttp/sluice/internal/dial"
	"github.com/sluicehttp/sluice/internal/message"
)

// ErrDialTimeout is returned, wrapped in an *ErrDialWithUpstream, when a dial
// function has no connection within its time limit. Its method Timeout returns
// true.
var ErrDialTimeout = dial.ErrTimeout

// ErrDialWithUpstream is returned when connecting failed. A failed lookup is
// not wrapped in it; it is a *net.DNSError. The error is a pointer: use
// errors.As to find it and its causes (ErrDialTimeout, *net.OpError, an errno).
type ErrDialWithUpstream struct {
	// Upstream is the address that failed: IP address and port. It is the address
	// as it was dialed if no IP address was tried: because the time ran out
	// before, or with TCPDialer.DisableDNSResolution.
	Upstream string

	addr    string // as it was dialed
	wrapErr error
}

// Error returns the address that was dialed and the cause of the failure. If
// several IP addresses were tried, it returns the cause for each.
func (e *ErrDialWithUpstream) Error() string {
	addr := e.addr
	if addr == "" {
		addr = e.Upstream
	}
	return "sluice: cannot connect to " + addr + ": " + strings.TrimPrefix(message.CauseText(e.wrapErr, "unknown reason"), "sluice: ")
}

// Unwrap returns the cause for Upstream, and the causes for the other
// addresses.
func (e *ErrDialWithUpstream) Unwrap() error { return e.wrapErr }
