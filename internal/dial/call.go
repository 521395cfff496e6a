// Package dial connects to TCP addresses: it looks hosts up, remembers their
// addresses, and has the addresses of a host race as RFC 8305 says. What its
// errors mean to users is the facade's.
package dial

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says how to connect.
type Config struct {
	// Concurrency bounds how many calls of a Dialer connect at the same time. 0
	// is no bound. It must be the same for all calls.
	Concurrency int
	// LocalAddr is the address to dial from, nil any.
	LocalAddr *net.TCPAddr
	// Resolver looks hosts up. nil is net.DefaultResolver.
	Resolver Resolver
	// CacheDuration is how long the addresses of a host are remembered. They are
	// not if it is not positive.
	CacheDuration time.Duration
	// Unresolved leaves looking up to the system.
	Unresolved bool
	// KeepAlive is net.Dialer's.
	KeepAlive time.Duration
}

// Trace is told what a call does. Each function may be nil.
type Trace struct {
	DNSStart  func(host string)
	DNSDone   func(addrs []net.IPAddr, err error)
	DialStart func(network, addr string)
	DialDone  func(network, addr string, err error)
}

// A Dialer is what calls share: the cache and the bound of connecting ones. The
// zero value is ready for use. It must not be copied after the first use.
type Dialer struct {
	// Connect replaces connecting, in tests.
	Connect func(ctx context.Context, to netip.AddrPort) (net.Conn, error)

	dns   dnsCache
	once  sync.Once
	slots chan struct{} // holds an element for each call that connects; nil: no bound
}

// Flush forgets the addresses of all hosts.
func (d *Dialer) Flush() { d.dns.flush() }

// A Call is one dial. Run fills in the last three fields.
type Call struct {
	Dialer  *Dialer
	Config  Config
	Context context.Context // Run ends with it
	Addr    string          // what to dial, "host:port"
	Trace   *Trace          // nil: nobody is told

	IsConnecting bool    // looking up is over
	Upstream     string  // the address that could not be connected to; "": none was tried
	Failed       []error // why further addresses could not be connected to
}

// Run looks host up and connects to it.
func (c *Call) Run(host, port string) (net.Conn, error) {
	if err := c.Context.Err(); err != nil {
		c.IsConnecting = true
		return nil, err
	}
	if c.Config.Unresolved {
		return c.runUnresolved()
	}
	number, err := lookupPort(c.Context, port)
	if err != nil {
		return nil, err
	}
	var few [8]netip.Addr
	addrs, known, err := c.resolve(few[:0], host)
	if err != nil {
		return nil, err
	}
	if addrs = c.reachable(addrs); len(addrs) == 0 {
		return nil, &net.AddrError{Err: "no address of LocalAddr's IP version", Addr: c.Addr}
	}
	c.IsConnecting = true
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

// mayBeIP tells whether host may be an IP address: others are not parsed, since
// failing to costs an allocation.
func mayBeIP(host string) bool {
	last := host[len(host)-1]
	return last >= '0' && last <= '9' || strings.Contains(host, ":")
}

// lookUp looks host up.
func (c *Call) lookUp(host string) (*hostAddrs, error) {
	resolver := c.Config.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	if c.Trace != nil && c.Trace.DNSStart != nil {
		c.Trace.DNSStart(host)
	}
	known, err := c.Dialer.dns.find(c.Context, host, resolver, c.Config.CacheDuration)
	if c.Trace != nil && c.Trace.DNSDone != nil {
		var all []net.IPAddr
		if err == nil {
			all = known.all
		}
		c.Trace.DNSDone(all, err)
	}
	return known, err
}

// reachable drops the addresses that LocalAddr cannot connect to.
func (c *Call) reachable(addrs []netip.Addr) []netip.Addr {
	if c.Config.LocalAddr == nil {
		return addrs
	}
	local := c.Config.LocalAddr.AddrPort().Addr().Unmap()
	if !local.IsValid() {
		return addrs
	}
	kept := addrs[:0]
	for _, addr := range addrs {
		if addr.Is4() == local.Is4() {
			kept = append(kept, addr)
		}
	}
	return kept
}

// acquire waits until the call may connect.
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
	case <-c.Context.Done():
		return c.Context.Err()
	}
}

// release lets the next connect.
func (c *Call) release() {
	if c.Dialer.slots != nil {
		<-c.Dialer.slots
	}
}

// runUnresolved lets the system look up and connect.
func (c *Call) runUnresolved() (net.Conn, error) {
	c.IsConnecting = true
	if err := c.acquire(); err != nil {
		return nil, err
	}
	defer c.release()
	dialer := c.system()
	c.traceStart(c.Addr)
	conn, err := dialer.DialContext(c.Context, "tcp", c.Addr)
	c.traceDone(c.Addr, err)
	if err != nil {
		c.Upstream = c.Addr
	}
	return conn, err
}

// open connects to one address, and tells the trace.
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
		c.Trace.DialStart("tcp", addr)
	}
}

func (c *Call) traceDone(addr string, err error) {
	if c.Trace != nil && c.Trace.DialDone != nil {
		c.Trace.DialDone("tcp", addr, err)
	}
}

// connect connects to one address.
func (c *Call) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if c.Dialer.Connect != nil {
		return c.Dialer.Connect(ctx, to)
	}
	dialer := c.system()
	return dialer.DialContext(ctx, "tcp", to.String())
}

// system returns what makes the connections.
func (c *Call) system() net.Dialer {
	dialer := net.Dialer{KeepAlive: c.Config.KeepAlive, FallbackDelay: attemptDelay}
	if c.Config.LocalAddr != nil {
		dialer.LocalAddr = c.Config.LocalAddr // and not a nil *net.TCPAddr in a net.Addr
	}
	return dialer
}
