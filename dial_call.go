package sluice

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// dialCall is one dial.
type dialCall struct {
	dialer   *TCPDialer
	parent   context.Context // the caller's
	ctx      context.Context // ends with parent, or when the time-out passes
	addr     string          // what to dial, "host:port"
	trace    *ClientTrace
	phase    Phase
	upstream string  // the address that was tried last
	failed   []error // why addresses could not be connected to
}

// run looks up and connects.
func (c *dialCall) run(host, port string) (net.Conn, error) {
	if err := c.ctx.Err(); err != nil {
		c.phase = PhaseDial
		return nil, err
	}
	if c.dialer.DisableDNSResolution {
		return c.runUnresolved()
	}
	c.phase = PhaseDNS
	number, err := lookupPort(c.ctx, port)
	if err != nil {
		return nil, err
	}
	var few [8]netip.Addr
	addrs, known, err := c.resolve(few[:0], host)
	if err != nil {
		return nil, err
	}
	if addrs = c.dialer.reachable(addrs); len(addrs) == 0 {
		return nil, &net.AddrError{Err: "no address of LocalAddr's IP version", Addr: c.addr}
	}
	c.phase = PhaseDial
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	conn, to, err := c.connectAny(addrs, number)
	if err == nil && known != nil {
		known.won(to)
	}
	return conn, err
}

// lookupPort returns the number of port, which may be a service's name.
func lookupPort(ctx context.Context, port string) (uint16, error) {
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		return uint16(number), nil
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	return uint16(number), err
}

// resolve appends the addresses of host to dst, in the order in which to try
// them; known is their entry in the cache, nil if they were not looked up.
func (c *dialCall) resolve(dst []netip.Addr, host string) (addrs []netip.Addr, known *hostAddrs, err error) {
	if host == "" {
		return append(dst, netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})), nil, nil
	}
	if mayBeIP(host) {
		if ip, err := netip.ParseAddr(host); err == nil {
			return append(dst, ip.Unmap()), nil, nil
		}
	}
	known = c.dialer.dns.cached(host)
	if known == nil {
		if known, err = c.lookUp(host); err != nil {
			return nil, nil, err
		}
	}
	return known.appendOrder(dst), known, nil
}

// mayBeIP tells whether host may be an IP address: others are not parsed, since
// failing to costs an allocation.
func mayBeIP(host string) bool {
	last := host[len(host)-1]
	return last >= '0' && last <= '9' || strings.Contains(host, ":")
}

// lookUp looks host up.
func (c *dialCall) lookUp(host string) (*hostAddrs, error) {
	d := c.dialer
	resolver, keep := d.Resolver, d.DNSCacheDuration
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	if keep == 0 {
		keep = DefaultDNSCacheDuration
	}
	if c.trace != nil && c.trace.DNSStart != nil {
		c.trace.DNSStart(host)
	}
	known, err := d.dns.find(c.ctx, host, resolver, keep)
	if c.trace != nil && c.trace.DNSDone != nil {
		var all []net.IPAddr
		if err == nil {
			all = known.all
		}
		c.trace.DNSDone(all, err)
	}
	return known, err
}

// acquire waits until the dialer may connect.
func (c *dialCall) acquire() error {
	d := c.dialer
	d.once.Do(d.makeSlots)
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

// release lets the next connect.
func (c *dialCall) release() {
	if c.dialer.slots != nil {
		<-c.dialer.slots
	}
}

// runUnresolved lets the system look up and connect.
func (c *dialCall) runUnresolved() (net.Conn, error) {
	c.phase = PhaseDial
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	dialer := c.dialer.system()
	c.traceStart(c.addr)
	conn, err := dialer.DialContext(c.ctx, "tcp", c.addr)
	c.traceDone(c.addr, err)
	if err != nil {
		return nil, &ErrDialWithUpstream{Upstream: c.addr, addr: c.addr, wrapErr: err}
	}
	return conn, nil
}

// open connects to one address, and tells the trace.
func (c *dialCall) open(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var name string
	if c.trace != nil {
		name = to.String()
	}
	c.traceStart(name)
	conn, err := c.dialer.openTCP(ctx, to)
	c.traceDone(name, err)
	return conn, err
}

func (c *dialCall) traceStart(addr string) {
	if c.trace != nil && c.trace.DialStart != nil {
		c.trace.DialStart("tcp", addr)
	}
}

func (c *dialCall) traceDone(addr string, err error) {
	if c.trace != nil && c.trace.DialDone != nil {
		c.trace.DialDone("tcp", addr, err)
	}
}

// explain returns the error of a dial that failed with err.
func (c *dialCall) explain(err error) error {
	if at, ok := c.ctx.Deadline(); ok && isDeadline(err) && !time.Now().Before(at) {
		<-c.ctx.Done() // the socket's timer fired before the context's
	}
	switch {
	case c.parent.Err() != nil && context.Cause(c.parent) != ErrDialTimeout:
		return &PhaseError{Phase: c.phase, Err: context.Cause(c.parent)}
	case c.ctx.Err() != nil:
		upstream := c.upstream
		if upstream == "" {
			upstream = c.addr
		}
		return &ErrDialWithUpstream{Upstream: upstream, addr: c.addr, wrapErr: joinDialErrors(ErrDialTimeout, c.ownFailures())}
	}
	return err
}

// ownFailures returns the failures of addresses that were not the end of ctx.
func (c *dialCall) ownFailures() []error {
	return slices.DeleteFunc(c.failed, func(err error) bool {
		return isDeadline(err) || errors.Is(err, context.Canceled)
	})
}
