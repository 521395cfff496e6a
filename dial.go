package sluice

import (
	"context"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
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

// TCPDialer makes TCP connections and caches the addresses of hosts. The zero
// value is ready to use. Its fields must not be changed after the first use. It
// is safe for concurrent use and must not be copied after the first use.
//
// Dial and DialTimeout connect over IPv4 only. DialDualStack,
// DialDualStackTimeout and DialContext connect over IPv6 and IPv4.
//
// A TCPDialer dials a host with several addresses as RFC 8305 ("happy
// eyeballs") describes. It alternates between IPv6 and IPv4. It tries the next
// address 250 ms after the previous one, or at once when an attempt fails. It
// keeps the first connection and closes the others. Within an IP version, each
// dial begins with the next address.
type TCPDialer struct {
	// Concurrency is the maximum number of dials that connect at the same time.
	// Other dials wait, and waiting counts towards their time limit. A host with
	// several addresses counts once. 0 is no limit.
	Concurrency int

	// LocalAddr is the local address of the connections. If it has an IP address,
	// only addresses of the same IP version are dialed. If it is nil, the system
	// selects the local address.
	LocalAddr *net.TCPAddr

	// Resolver looks up hosts; nil is net.DefaultResolver.
	Resolver Resolver

	// DNSCacheDuration is how long the addresses of a host are cached. 0 is
	// DefaultDNSCacheDuration; a negative value disables the cache. Failed
	// lookups are not cached.
	DNSCacheDuration time.Duration

	// DisableDNSResolution passes addresses to net.Dialer unresolved. The system
	// then looks up the host for each connection, without Resolver and cache.
	DisableDNSResolution bool

	// KeepAlive is the time between TCP keep-alive probes, and the idle time
	// before the first. 0 is 15 s; a negative value disables probes.
	KeepAlive time.Duration

	dialer dial.Dialer
}

// Dial connects to addr, "host:port", over IPv4, within DefaultDialTimeout. The
// port may be a service name; an empty host is the local machine.
//
// The error is an *ErrDialWithUpstream if connecting failed (wrapping
// ErrDialTimeout if the time ran out), the Resolver's error if the lookup
// failed, and *net.AddrError if addr is malformed, has no port, or has no IPv4
// address.
func (d *TCPDialer) Dial(addr string) (net.Conn, error) {
	return d.DialTimeout(addr, DefaultDialTimeout)
}

// DialTimeout is Dial with another time limit. It covers waiting for other
// dials (see Concurrency), lookup and connecting. If timeout is 0 or less,
// DialTimeout fails with ErrDialTimeout at once.
func (d *TCPDialer) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.dial(context.Background(), dial.Network(false), addr, time.Now().Add(timeout), nil)
}

// DialDualStack is Dial over IPv6 and IPv4.
func (d *TCPDialer) DialDualStack(addr string) (net.Conn, error) {
	return d.DialDualStackTimeout(addr, DefaultDialTimeout)
}

// DialDualStackTimeout is DialTimeout over IPv6 and IPv4.
func (d *TCPDialer) DialDualStackTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.dial(context.Background(), dial.Network(true), addr, time.Now().Add(timeout), nil)
}

// DialContext is DialDualStack with a context. It is DialNetwork for "tcp".
func (d *TCPDialer) DialContext(ctx context.Context, addr string) (net.Conn, error) {
	return d.DialNetwork(ctx, "tcp", addr)
}

// DialNetwork connects to addr, "host:port", over network: "tcp" is IPv6 and
// IPv4, "tcp4" is IPv4, "tcp6" is IPv6. The error of another network is
// net.UnknownNetworkError; the other errors are those of Dial.
//
// If ctx has no deadline, the time limit is DefaultDialTimeout. If ctx ends, the
// error is a *PhaseError; its Phase is PhaseDNS or PhaseDial. If the context's
// cause is ErrDialTimeout, the error is that of a time-out of Dial. DialNetwork
// calls the functions of the ClientTrace of ctx for lookup and connecting.
func (d *TCPDialer) DialNetwork(ctx context.Context, network, addr string) (net.Conn, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return nil, net.UnknownNetworkError(network)
	}
	var deadline time.Time
	if _, hasOwn := ctx.Deadline(); !hasOwn {
		deadline = time.Now().Add(DefaultDialTimeout)
	}
	return d.dial(ctx, network, addr, deadline, traceOf(ctx))
}

// FlushDNSCache clears the DNS cache.
func (d *TCPDialer) FlushDNSCache() { d.dialer.Flush() }

// dial is the common part of the Dial methods. With the zero deadline, only
// ctx's deadline applies. trace may be nil.
func (d *TCPDialer) dial(ctx context.Context, network, addr string, deadline time.Time, trace *ClientTrace) (net.Conn, error) {
	call := dial.Call{
		Dialer: &d.dialer, Config: d.config(), Context: ctx, Deadline: deadline,
		Network: network, Addr: addr, Trace: trace.ofDial(),
	}
	return call.Run()
}

// config returns the internal configuration, with defaults filled in.
func (d *TCPDialer) config() dial.Config {
	keep := d.DNSCacheDuration
	if keep == 0 {
		keep = DefaultDNSCacheDuration
	}
	return dial.Config{
		Concurrency:   d.Concurrency,
		LocalAddr:     d.LocalAddr,
		Resolver:      d.Resolver,
		CacheDuration: keep,
		Unresolved:    d.DisableDNSResolution,
		KeepAlive:     d.KeepAlive,
	}
}

// ofDial returns the part of t that concerns dialing; nil for nil.
func (t *ClientTrace) ofDial() *dial.Trace {
	if t == nil {
		return nil
	}
	return &dial.Trace{
		DNSStart: t.DNSStart, DNSDone: t.DNSDone, DialStart: t.DialStart, DialDone: t.DialDone,
		TLSStart: t.TLSStart, TLSDone: t.TLSDone,
	}
}
