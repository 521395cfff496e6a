// Package dial connects to TCP addresses. It looks up hosts, caches their
// addresses, and races the addresses of a host as RFC 8305 describes. It also
// calls dialers without a context, makes TLS handshakes, and ends connections.
package dial

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Config configures a Call.
type Config struct {
	// Concurrency is the maximum number of calls of a Dialer that connect at the
	// same time. 0 is no limit. It must be the same for all calls.
	Concurrency int
	// LocalAddr is the local address of the connection; nil is any.
	LocalAddr *net.TCPAddr
	// Resolver looks up hosts; nil is net.DefaultResolver.
	Resolver Resolver
	// CacheDuration is how long the addresses of a host are cached. 0 or less
	// disables the cache.
	CacheDuration time.Duration
	// Unresolved passes the address to net.Dialer, which looks up the host.
	Unresolved bool
	// KeepAlive is net.Dialer.KeepAlive.
	KeepAlive time.Duration
}

// Trace holds functions that are called before and after lookup and connecting, by a
// Call, and the TLS handshake, by MakeSecure. Each may be nil.
type Trace struct {
	DNSStart  func(host string)
	DNSDone   func(addrs []net.IPAddr, err error)
	DialStart func(network, addr string)
	DialDone  func(network, addr string, err error)
	TLSStart  func()
	TLSDone   func(state tls.ConnectionState, err error)
}

// A Dialer is the state that calls share: the cache and the limit of concurrent
// connecting. The zero value is ready to use. It must not be copied after the
// first use.
type Dialer struct {
	// Connect replaces the system's connect in tests.
	Connect func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	dns   dnsCache
	once  sync.Once
	slots chan struct{} // holds an element for each call that connects; nil: no limit
}

// Flush clears the cache.
func (d *Dialer) Flush() { d.dns.flush() }

// Network returns the name of the network of dial functions: "tcp" for IPv6 and
// IPv4, "tcp4" for IPv4 only.
func Network(isDualStack bool) string {
	if isDualStack {
		return "tcp"
	}
	return "tcp4"
}

// A Call is one dial.
type Call struct {
	Dialer   *Dialer
	Config   Config
	Context  context.Context // Run ends with it
	Deadline time.Time       // Run ends then; zero: no deadline
	Network  string          // "tcp", "tcp4" or "tcp6"
	Addr     string          // what to dial, "host:port"; the port is required
	Trace    *Trace          // nil: no tracing

	upstream string          // the address that could not be connected to; "": none was tried
	phase    clock.Phase     // PhaseDNS, or PhaseDial: connecting, or waiting for other calls that connect
	failed   []error         // the errors of all failed addresses, if there are several
	ctx      context.Context // Context with Deadline
}

// Run looks up the host and connects to it. It may be called once. If Context
// ended, the error is a *clock.PhaseError. An *ErrDialWithUpstream says that connecting
// failed, or that Deadline passed: it then wraps ErrTimeout, and the errors of addresses
// that failed before.
func (c *Call) Run() (net.Conn, error) {
	host, port, err := splitAddr(c.Addr)
	if err != nil {
		return nil, err
	}
	c.ctx, c.phase = c.Context, clock.PhaseDNS
	if !c.Deadline.IsZero() {
		var cancel context.CancelFunc
		c.ctx, cancel = context.WithDeadline(c.Context, c.Deadline)
		defer cancel()
	}
	conn, err := c.run(host, port)
	if err != nil {
		return nil, c.explain(err)
	}
	return conn, nil
}

// splitAddr splits addr into host and port. The port is required.
func splitAddr(addr string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(addr)
	if err == nil && port == "" {
		err = &net.AddrError{Err: "missing port in address", Addr: addr}
	}
	return host, port, err
}

// explain returns the reason for which the call failed with err.
func (c *Call) explain(err error) error {
	if at, ok := c.ctx.Deadline(); ok && clock.IsTimeout(err) && !time.Now().Before(at) {
		<-c.ctx.Done() // the socket's timer fired before the context's
	}
	switch {
	case c.Context.Err() != nil && context.Cause(c.Context) != ErrTimeout:
		return clock.EndOf(c.Context, c.phase)
	case c.ctx.Err() != nil:
		own := slices.DeleteFunc(c.failed, func(err error) bool { // errors that the end of the context did not cause
			return clock.IsTimeout(err) || errors.Is(err, context.Canceled)
		})
		c.upstream = cmp.Or(c.upstream, c.Addr)
		err = join(ErrTimeout, own)
	}
	if c.upstream == "" {
		return err
	}
	return &ErrDialWithUpstream{Upstream: c.upstream, addr: c.Addr, cause: err}
}

// run is Run until c.ctx ends.
func (c *Call) run(host, port string) (net.Conn, error) {
	if err := c.ctx.Err(); err != nil {
		c.phase = clock.PhaseDial
		return nil, err
	}
	if c.Config.Unresolved {
		return c.runUnresolved()
	}
	number, err := lookupPort(c.ctx, port)
	if err != nil {
		return nil, err
	}
	var few [8]netip.Addr
	addrs, known, err := c.resolve(few[:0], host)
	if err != nil {
		return nil, err
	}
	if addrs = c.ofNetwork(addrs); len(addrs) == 0 {
		text := "no IPv6 address"
		if c.Network == "tcp4" {
			text = "no IPv4 address, and IPv6 is used with DialDualStack only"
		}
		return nil, &net.AddrError{Err: text, Addr: c.Addr}
	}
	if addrs = c.reachable(addrs); len(addrs) == 0 {
		return nil, &net.AddrError{Err: "no address of LocalAddr's IP version", Addr: c.Addr}
	}
	c.phase = clock.PhaseDial
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	conn, to, err := c.connectAny(addrs, number)
	switch {
	case known == nil:
	case err != nil:
		c.Dialer.dns.failed(host, known)
	case c.Network == "tcp":
		known.won(to)
	}
	return conn, err
}

// lookupPort returns the number of port, which may be a service name.
func lookupPort(ctx context.Context, port string) (uint16, error) {
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		return uint16(number), nil
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return uint16(number), err
}

// resolve appends the addresses of host to dst, in the order of the attempts.
// known is the host's cache entry; it is nil for an IP address and for an empty
// host.
func (c *Call) resolve(dst []netip.Addr, host string) (addrs []netip.Addr, known *hostAddrs, err error) {
	if host == "" {
		return append(dst, netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})), nil, nil
	}
	if mayBeIP(host) {
		if ip, err := netip.ParseAddr(host); err == nil {
			return append(dst, ip.Unmap()), nil, nil
		}
	}
	known = c.Dialer.dns.cached(host)
	if known == nil {
		if known, err = c.lookUp(host); err != nil {
			return nil, nil, err
		}
	}
	return known.appendOrder(dst), known, nil
}

// mayBeIP reports whether host may be an IP address. Other hosts are not
// parsed, since a failed parse costs an allocation.
func mayBeIP(host string) bool {
	last := host[len(host)-1]
	return last >= '0' && last <= '9' || strings.Contains(host, ":")
}

// lookUp looks up host and calls the trace.
func (c *Call) lookUp(host string) (*hostAddrs, error) {
	resolver := c.Config.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	if c.Trace != nil && c.Trace.DNSStart != nil {
		c.Trace.DNSStart(host)
	}
	known, err := c.Dialer.dns.find(c.ctx, host, resolver, c.Config.CacheDuration)
	if c.Trace != nil && c.Trace.DNSDone != nil {
		var all []net.IPAddr
		if err == nil {
			all = known.all
		}
		c.Trace.DNSDone(all, err)
	}
	return known, err
}

// ofNetwork removes the addresses that Network excludes.
func (c *Call) ofNetwork(addrs []netip.Addr) []netip.Addr {
	switch c.Network {
	case "tcp4":
		return slices.DeleteFunc(addrs, netip.Addr.Is6)
	case "tcp6":
		return slices.DeleteFunc(addrs, netip.Addr.Is4)
	}
	return addrs
}

// reachable removes the addresses to which LocalAddr cannot connect.
func (c *Call) reachable(addrs []netip.Addr) []netip.Addr {
	if c.Config.LocalAddr == nil {
		return addrs
	}
	local := c.Config.LocalAddr.AddrPort().Addr().Unmap()
	if !local.IsValid() {
		return addrs
	}
	return slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return addr.Is4() != local.Is4() })
}

// acquire waits until fewer than Concurrency calls connect.
func (c *Call) acquire() error {
	d := c.Dialer
	d.once.Do(func() {
		if n := c.Config.Concurrency; n > 0 {
			d.slots = make(chan struct{}, n)
		}
	})
	if d.slots == nil {
		return nil
	}
	select {
	case d.slots <- struct{}{}:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// release lets another call connect.
func (c *Call) release() {
	if c.Dialer.slots != nil {
		<-c.Dialer.slots
	}
}

// runUnresolved makes net.Dialer look up the host and connect.
func (c *Call) runUnresolved() (net.Conn, error) {
	c.phase = clock.PhaseDial
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	dialer := c.system()
	c.traceStart(c.Addr)
	conn, err := dialer.DialContext(c.ctx, c.Network, c.Addr)
	c.traceDone(c.Addr, err)
	if err != nil {
		c.upstream = c.Addr
	}
	return conn, err
}

// open connects to one address and calls the trace.
func (c *Call) open(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var name string
	if c.Trace != nil {
		name = to.String()
	}
	c.traceStart(name)
	conn, err := c.connect(ctx, to)
	c.traceDone(name, err)
	return conn, err
}

func (c *Call) traceStart(addr string) {
	if c.Trace != nil && c.Trace.DialStart != nil {
		c.Trace.DialStart(c.Network, addr)
	}
}

func (c *Call) traceDone(addr string, err error) {
	if c.Trace != nil && c.Trace.DialDone != nil {
		c.Trace.DialDone(c.Network, addr, err)
	}
}

// connect connects to one address.
func (c *Call) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if c.Dialer.Connect != nil {
		return c.Dialer.Connect(ctx, to)
	}
	dialer := c.system()
	return dialer.DialContext(ctx, c.Network, to.String())
}

// system returns the net.Dialer that connects.
func (c *Call) system() net.Dialer {
	dialer := net.Dialer{KeepAlive: c.Config.KeepAlive, FallbackDelay: attemptDelay}
	if c.Config.LocalAddr != nil {
		dialer.LocalAddr = c.Config.LocalAddr // only if not nil: a nil *net.TCPAddr is a net.Addr that is not nil
	}
	return dialer
}
