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

// Resolver looks up the addresses of a host. *net.Resolver implements it. Calls
// use it concurrently, on separate goroutines.
type Resolver interface {
	// LookupIPAddr returns the addresses of host, of both IP versions.
	LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error)
}

const (
	// maxCachedHosts limits the cache: a crawler meets millions of hosts, each
	// once.
	maxCachedHosts = 4096
	// maxAddrs limits the addresses of a host of each IP version, and so the attempts to
	// connect: an answer of a name server has room for thousands.
	maxAddrs = 32
	// failureTime is how long the addresses of a host are kept after none of them could be
	// connected to: it may have moved.
	failureTime = time.Second
	// maxLookups limits the concurrent lookups of a dialer; each lookup by the
	// system may block a thread.
	maxLookups = 64
	// lookupTimeout limits a lookup, also after all its waiters have left. It is
	// longer than a resolver takes to query a second server.
	lookupTimeout = 10 * time.Second
)

var errLookupPanicked = errors.New("sluice: the resolver did not return")

// hostAddrs are the addresses of a host. All fields that are not atomic are
// immutable once other goroutines can see them, but for expires.
type hostAddrs struct {
	ip6, ip4 []netip.Addr
	all      []net.IPAddr // both, for traces
	expires  int64        // clock.Nanos; guarded by dnsCache.mu
	turn     atomic.Uint32
	// prefersIP4 is true after IPv4 has won the last race against IPv6 (RFC 8305
	// section 4 recommends to use such knowledge). A host whose IPv6 addresses do
	// not answer then costs the delay once per lookup and not once per
	// connection.
	prefersIP4 atomic.Bool
}

// newHostAddrs groups addrs, the result of the lookup of host, by IP version.
func newHostAddrs(host string, addrs []net.IPAddr) (*hostAddrs, error) {
	h := new(hostAddrs)
	for _, a := range addrs {
		addr, ok := netip.AddrFromSlice(a.IP)
		if addr = addr.Unmap(); !ok {
			continue
		}
		family := &h.ip4
		if addr.Is6() {
			addr, family = addr.WithZone(a.Zone), &h.ip6
		}
		if len(*family) < maxAddrs && !slices.Contains(*family, addr) {
			*family = append(*family, addr)
			h.all = append(h.all, a)
		}
	}
	if len(h.ip6)+len(h.ip4) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return h, nil
}

// appendOrder appends the addresses in the order of the attempts. It alternates
// between the IP versions, IPv6 first (RFC 8305 section 4) unless IPv4 is
// preferred. Each call begins with the next address of each version, which
// distributes connections.
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

// won records the address that was connected to.
func (h *hostAddrs) won(addr netip.Addr) {
	if len(h.ip6) > 0 && len(h.ip4) > 0 && h.prefersIP4.Load() != addr.Is4() {
		h.prefersIP4.Store(addr.Is4())
	}
}

// dnsCache looks up hosts and caches their addresses. At most one lookup of a
// host is in progress. The zero value is an empty cache.
type dnsCache struct {
	mu      sync.Mutex
	hosts   map[string]*hostAddrs // expired entries are removed when it is full
	lookups map[string]*lookup    // in progress
	slots   chan struct{}         // holds an element for each running lookup
}

// lookup is a lookup for which several callers may wait.
type lookup struct {
	host      string
	resolver  Resolver
	keep      time.Duration // how long to cache the result
	abandoned chan struct{} // closed when the last waiter leaves before the lookup runs
	done      chan struct{} // closed after addrs and err are set
	addrs     *hostAddrs
	err       error

	waiters int  // guarded by dnsCache.mu, as hasSlot is
	hasSlot bool // the lookup runs
}

// cached returns the cached addresses of host, or nil.
func (c *dnsCache) cached(host string) *hostAddrs {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.hosts[host]; h != nil && clock.Nanos() < h.expires {
		return h
	}
	return nil
}

// failed notes that no address of h, those of host, could be connected to.
func (c *dnsCache) failed(host string, h *hostAddrs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hosts[host] == h {
		h.expires = min(h.expires, clock.Later(clock.Nanos(), failureTime))
	}
}

// find looks up host until ctx ends. Concurrent callers for the same host share
// one lookup; each waits until its own context ends.
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

// join returns the lookup of host that is in progress, or starts one. The
// caller becomes a waiter.
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

// leave ends one caller's wait for l. A running lookup continues, so that its
// result is cached. A lookup that waits for a slot is given up with its last
// waiter; otherwise, lookups would accumulate while a name server is down.
func (c *dnsCache) leave(l *lookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.waiters--
	if l.waiters == 0 && !l.hasSlot {
		c.dropLocked(l)
		close(l.abandoned)
	}
}

// dropLocked removes l from the lookups in progress: the next call for its host
// starts a new one. It returns false if l was removed before. c.mu is held.
func (c *dnsCache) dropLocked(l *lookup) (wasCurrent bool) {
	wasCurrent = c.lookups[l.host] == l
	if wasCurrent {
		delete(c.lookups, l.host)
	}
	return wasCurrent
}

// run waits for a slot and runs l.
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
		return // the last waiter left just now
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

// finish caches the result of l and wakes the waiters. It does not cache
// failures, nor a result that was requested before a flush.
func (c *dnsCache) finish(l *lookup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropLocked(l) && l.err == nil && l.keep > 0 {
		l.addrs.expires = clock.Later(clock.Nanos(), l.keep)
		c.storeLocked(l.host, l.addrs)
	}
	close(l.done)
}

// storeLocked adds h to the cache. c.mu is held.
func (c *dnsCache) storeLocked(host string, h *hostAddrs) {
	if c.hosts == nil {
		c.hosts = make(map[string]*hostAddrs)
	}
	if _, isKnown := c.hosts[host]; !isKnown && len(c.hosts) >= maxCachedHosts {
		c.evict()
	}
	c.hosts[host] = h
}

// evict makes room for a host. It looks at a sample of 16 entries and removes
// the expired ones; if there are none, it removes one that is not expired. Map
// iteration starts at a random entry, so every entry is looked at eventually.
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

// flush empties the cache. A lookup in progress still serves its waiters, but
// no later caller.
func (c *dnsCache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.hosts)
	clear(c.lookups)
}
