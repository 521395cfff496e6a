package sluice

import (
	"context"
	"net"
	"time"
)

const (
	// DefaultDialTimeout is the time limit of the dial functions without a
	// timeout parameter.
	DefaultDialTimeout = 3 * time.Second
	// DefaultDNSCacheDuration is how long the addresses of a host are cached if
	// TCPDialer.DNSCacheDuration is 0.
	DefaultDNSCacheDuration = time.Minute
)

// Resolver looks up the addresses of a host. *net.Resolver implements it. A
// TCPDialer calls it concurrently, on separate goroutines.
type Resolver interface {
	// LookupIPAddr returns the addresses of host, of both IP versions. ctx ends
	// after 10 s. It does not carry the values of the caller's context.
	LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error)
}

// DialFunc connects to addr, "host:port"; an IPv6 host is in brackets. Clients
// call it concurrently.
type DialFunc func(addr string) (net.Conn, error)

// DialFuncWithTimeout is a DialFunc that fails after timeout.
type DialFuncWithTimeout func(addr string, timeout time.Duration) (net.Conn, error)

// sharedDialer is the dialer of the functions below and of clients without a
// custom dialer. They all share its DNS cache.
var sharedDialer TCPDialer

// defaultDialer returns the dialer of clients without a custom dialer.
func defaultDialer() *TCPDialer { return &sharedDialer }

// Dial connects to addr, "host:port", over IPv4, within DefaultDialTimeout; see
// TCPDialer.Dial. It caches looked-up addresses for DefaultDNSCacheDuration.
func Dial(addr string) (net.Conn, error) { return sharedDialer.Dial(addr) }

// DialTimeout is Dial with another time limit, which covers lookup and
// connecting. If timeout is 0 or less, it fails with ErrDialTimeout at once.
func DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return sharedDialer.DialTimeout(addr, timeout)
}

// DialDualStack is Dial over both IP versions; see TCPDialer.
func DialDualStack(addr string) (net.Conn, error) { return sharedDialer.DialDualStack(addr) }

// DialDualStackTimeout is DialTimeout over both IP versions; see TCPDialer.
func DialDualStackTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return sharedDialer.DialDualStackTimeout(addr, timeout)
}

// DialContext is DialDualStack with a context; see TCPDialer.DialContext.
func DialContext(ctx context.Context, addr string) (net.Conn, error) {
	return sharedDialer.DialContext(ctx, addr)
}

// FlushDNSCache clears the DNS cache of the functions above and of clients
// without a custom dialer.
func FlushDNSCache() { sharedDialer.FlushDNSCache() }
