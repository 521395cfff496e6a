package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Resolver looks up the addresses of a host. Calls use it on goroutines of their
// own and concurrently.
type Resolver interface {
	// LookupIPAddr returns the addresses of host, of both IP versions.
	LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error)
}

const (
	// maxCachedHosts bounds what a cache remembers: a crawler meets millions of
	// hosts once.
	maxCachedHosts = 4096
	// maxLookups bounds what a dialer asks at the same time; system look-ups
	// can take a thread each.
	maxLookups = 64
	// lookupTimeout bounds a look-up that nobody waits for any more. It is
	// longer than a resolver takes to ask a second server.
	lookupTimeout = 10 * time.Second
)

var errLookupPanicked = errors.New("sluice: the resolver did not return")

// hostAddrs are the addresses of a host. What is not atomic never changes.
type hostAddrs struct {
	ip6, ip4 []netip.Addr
	all      []net.IPAddr // as they were looked up, for traces
	expires  int64        // clock.Nanos
	turn     atomic.Uint32
	// prefersIP4 is set while IPv4 won the last race against IPv6 (RFC 8305
	// section 4 asks to use what is known): a host whose IPv6 leads nowhere
	// costs the delay once per look-up and not once per connection.
	prefersIP4 atomic.Bool
}

// newHostAddrs sorts addrs, which were looked up for host, by family.
func newHostAddrs(host string, addrs []net.IPAddr) (*hostAddrs, error) {
	h := &hostAddrs{all: addrs}
	for _, a := range addrs {
		addr, ok := netip.AddrFromSlice(a.IP)
		if addr = addr.Unmap(); !ok {
			continue
		}
		family := &h.ip4
		if addr.Is6() {
			addr, family = addr.WithZone(a.Zone), &h.ip6
		}
		if !slices.Contains(*family, addr) {
			*family = append(*family, addr)
		}
	}
	if len(h.ip6)+len(h.ip4) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return h, nil
}

// appendOrder appends the addresses in the order in which to try them: the
// families by turns, IPv6 first (RFC 8305 section 4), and each from the next
// address on from call to call, which spreads connections.
func (h *hostAddrs) appendOrder(dst []netip.Addr) []netip.Addr {
	turn := h.turn.Add(1) - 1
	first, second := h.ip6, h.ip4
	if h.prefersIP4.Load() {
		first, second = second, first
	}
	for i := range uint32(max(len(first), len(second))) {
		for _, family := range [...][]netip.Addr{first, second} {
			if n := uint32(len(family)); i < n {
				dst = append(dst, family[(turn%n+i)%n])
			}
		}
	}
	return dst
}

// won notes which address of the host could be connected to.
func (h *hostAddrs) won(addr netip.Addr) {
	if len(h.ip6) > 0 && len(h.ip4) > 0 && h.prefersIP4.Load() != addr.Is4() {
		h.prefersIP4.Store(addr.Is4())
	}
}

// dnsCache remembers the addresses of hosts and looks them up, each host once
// at a time. The zero value is an empty cache.
type dnsCache struct {
	mu      sync.Mutex
	hosts   map[string]*hostAddrs // expired ones go when there are too many
	lookups map[string]*lookup    // in progress
	slots   chan struct{}         // holds an element for each look-up that runs
}

// lookup is a look-up that several may wait for.
type lookup struct {
	host      string
	resolver  Resolver
	keep      time.Duration // how long to remember what is found
	abandoned chan struct{} // closed when nobody waits any more, while it has not begun
	done      chan struct{} // closed when addrs and err are there
	addrs     *hostAddrs
	err       error

	waiters int  // guarded by dnsCache.mu, as the next
	hasSlot bool // it has begun
}

// cached returns what is known of host, nil if nothing is.
func (c *dnsCache) cached(host string) *hostAddrs {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.hosts[host]; h != nil && clock.Nanos() < h.expires {
		return h
	}
	return nil
}

// find looks host up until ctx ends. Others who ask for the same host wait for
// the same look-up, each until its own context ends.
func (c *dnsCache) find(ctx context.Context, host string, resolver Resolver, keep time.Duration) (*hostAddrs, error) {
	l := c.join(host, resolver, keep)
	select {
	case <-l.done:
		return l.addrs, l.err
	case <-ctx.Done():
		c.leave(l)
		return nil, ctx.Err()
	}
}

// join returns the look-up of host that is in progress, or a new one.
func (c *dnsCache) join(host string, resolver Resolver, keep time.Duration) *lookup {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lookups[host]
	if l == nil {
		l = &lookup{host: host, resolver: resolver, keep: keep, abandoned: make(chan struct{}), done: make(chan struct{})}
		if c.lookups == nil {
			c.lookups = make(map[string]*lookup)
			c.slots = make(chan struct{}, maxLookups)
		}
		c.lookups[host] = l
		go c.run(l)
	}
	l.waiters++
	return l
}

// leave gives up waiting for l. A look-up that runs goes on, so that what it
// finds is there for the next; one that waits for its turn is given up with its
// last waiter, or they would heap up while a name server is down.
func (c *dnsCache) leave(l *lookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.waiters--
	if l.waiters == 0 && !l.hasSlot {
		c.drop(l)
		close(l.abandoned)
	}
}

// drop lets the next who asks for l's host begin anew. c.mu is held.
func (c *dnsCache) drop(l *lookup) (wasCurrent bool) {
	wasCurrent = c.lookups[l.host] == l
	if wasCurrent {
		delete(c.lookups, l.host)
	}
	return wasCurrent
}

// run does l, when it is its turn.
func (c *dnsCache) run(l *lookup) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-l.abandoned:
		return
	}
	c.mu.Lock()
	l.hasSlot = l.waiters > 0
	c.mu.Unlock()
	if !l.hasSlot {
		return // abandoned just now
	}
	l.err = errLookupPanicked
	defer c.finish(l)
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addrs, err := l.resolver.LookupIPAddr(ctx, l.host)
	if err == nil {
		l.addrs, err = newHostAddrs(l.host, addrs)
	}
	l.err = err
}

// finish remembers what l found and tells those who wait. Failures are not
// remembered, nor is what was asked before a flush.
func (c *dnsCache) finish(l *lookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drop(l) && l.err == nil && l.keep > 0 {
		l.addrs.expires = clock.Nanos() + int64(l.keep)
		c.store(l.host, l.addrs)
	}
	close(l.done)
}

// store puts h into the cache. c.mu is held.
func (c *dnsCache) store(host string, h *hostAddrs) {
	if c.hosts == nil {
		c.hosts = make(map[string]*hostAddrs)
	}
	if _, isKnown := c.hosts[host]; !isKnown && len(c.hosts) >= maxCachedHosts {
		c.evict()
	}
	c.hosts[host] = h
}

// evict makes place for a host: it drops the expired ones among a few, or one of
// them. Maps are walked in random order, so that each has its turn.
func (c *dnsCache) evict() {
	const sample = 16
	now, seen, victim := clock.Nanos(), 0, ""
	for host, h := range c.hosts {
		if now >= h.expires {
			delete(c.hosts, host)
		} else if victim == "" {
			victim = host
		}
		if seen++; seen == sample {
			break
		}
	}
	if len(c.hosts) >= maxCachedHosts {
		delete(c.hosts, victim)
	}
}

// flush forgets everything. Look-ups in progress still answer those who wait
// for them, but nobody else.
func (c *dnsCache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.hosts)
	clear(c.lookups)
}
