package sluice

import (
	"context"
	"net"
	"time"
)

const (
	// DefaultDialTimeout is how long the dial functions without a time-out try.
	DefaultDialTimeout = 3 * time.Second
	// DefaultDNSCacheDuration is how long the addresses of a host are used
	// before they are looked up again, where TCPDialer.DNSCacheDuration is 0.
	DefaultDNSCacheDuration = time.Minute
)

// Resolver looks up the addresses of a host. *net.Resolver is one. A TCPDialer
// calls it, on goroutines of its own and concurrently.
type Resolver interface {
	// LookupIPAddr returns the addresses of host, of both IP versions. ctx ends
	// after 10 s; it does not carry the values of the caller's context.
	LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error)
}

// DialFunc connects to addr, "host:port" with the host in brackets if it is an
// IPv6 address. Clients call it; it must be safe for concurrent use.
type DialFunc func(addr string) (net.Conn, error)

// DialFuncWithTimeout is a DialFunc that gives up after timeout.
type DialFuncWithTimeout func(addr string, timeout time.Duration) (net.Conn, error)

// sharedDialer is the dialer of the functions below and of clients that have
// none: together they have one DNS cache.
var sharedDialer TCPDialer

// defaultDialer returns the dialer of clients that have none.
func defaultDialer() *TCPDialer { return &sharedDialer }

// Dial connects to addr, "host:port", within DefaultDialTimeout; see
// TCPDialer.Dial. Addresses of both IP versions are tried, and looked-up hosts
// are remembered for DefaultDNSCacheDuration.
func Dial(addr string) (net.Conn, error) { return sharedDialer.Dial(addr) }

// DialTimeout is Dial with another time-out, which covers looking up and
// connecting. One that is not positive fails with ErrDialTimeout at once.
func DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return sharedDialer.DialTimeout(addr, timeout)
}

// DialDualStack is Dial.
func DialDualStack(addr string) (net.Conn, error) { return sharedDialer.Dial(addr) }

// DialDualStackTimeout is DialTimeout.
func DialDualStackTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return sharedDialer.DialTimeout(addr, timeout)
}

// DialContext is Dial until ctx ends; see TCPDialer.DialContext.
func DialContext(ctx context.Context, addr string) (net.Conn, error) {
	return sharedDialer.DialContext(ctx, addr)
}

// FlushDNSCache forgets the addresses of the hosts that the functions above and
// clients without a dialer of their own have looked up.
func FlushDNSCache() { sharedDialer.FlushDNSCache() }
