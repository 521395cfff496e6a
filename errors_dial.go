package sluice

import "github.com/sluicehttp/sluice/internal/client/dial"

// ErrDialTimeout is returned, wrapped in an *ErrDialWithUpstream, when a dial
// function has no connection within its time limit. Its method Timeout returns
// true.
var ErrDialTimeout = dial.ErrTimeout

// ErrDialWithUpstream is returned when connecting failed. A failed lookup is
// not wrapped in it; it is a *net.DNSError. The error is a pointer: use
// errors.As to find it and its causes (ErrDialTimeout, *net.OpError, an errno).
//
// Its field Upstream is the address that failed: IP address and port. It is the address
// as it was dialed if no IP address was tried: because the time ran out
// before, or with TCPDialer.DisableDNSResolution.
type ErrDialWithUpstream = dial.ErrDialWithUpstream
