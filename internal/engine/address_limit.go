package engine

import (
	"net"
	"net/netip"
	"sync"
)

// An AddressLimit bounds the connections of one client. The zero value has no
// bound.
type AddressLimit struct {
	// Conns is how many connections a client may have; 0: any number.
	Conns int
	// PrefixIPv6 is how many leading bits of an IPv6 address identify the client.
	// 0 means 64: a customer gets at least a /64, and can use every address in it.
	// More than 128 means 128.
	PrefixIPv6 int
}

// client returns the client of a connection: an IPv4 address, or the prefix of an
// IPv6 address. An IPv4-mapped address is the IPv4 address. The result is the zero Addr
// without an IP address (unix sockets, pipes): nothing tells such clients apart.
func (l AddressLimit) client(c net.Conn) netip.Addr {
	remote, ok := c.RemoteAddr().(interface{ AddrPort() netip.AddrPort }) // of TCP and UDP
	if !ok {
		return netip.Addr{}
	}
	ip := remote.AddrPort().Addr().Unmap().WithZone("")
	if !ip.Is6() {
		return ip
	}
	bits := l.PrefixIPv6
	if bits <= 0 {
		bits = 64
	}
	prefix, err := ip.Prefix(min(bits, ip.BitLen()))
	if err != nil {
		return ip
	}
	return prefix.Addr()
}

// An AddressCounter counts connections by client, for Acceptors that limit them.
// The zero value is ready.
type AddressCounter struct {
	mu     sync.Mutex
	counts map[netip.Addr]int
}

// Add counts c and returns true, unless its client already has limit.Conns
// connections. A client without an IP address has no limit.
func (n *AddressCounter) Add(c net.Conn, limit AddressLimit) bool {
	if limit.Conns <= 0 {
		return true
	}
	ip := limit.client(c)
	if !ip.IsValid() {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts[ip] >= limit.Conns {
		return false
	}
	if n.counts == nil {
		n.counts = make(map[netip.Addr]int)
	}
	n.counts[ip]++
	return true
}

// Remove uncounts a connection that Add has counted with the same limit.
func (n *AddressCounter) Remove(c net.Conn, limit AddressLimit) {
	if limit.Conns <= 0 {
		return
	}
	ip := limit.client(c)
	if !ip.IsValid() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts[ip]--; n.counts[ip] <= 0 {
		delete(n.counts, ip)
	}
}
