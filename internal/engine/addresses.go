package engine

import (
	"net"
	"net/netip"
	"sync"
)

// An AddressCounter counts connections by client address, for Acceptors that
// limit them. The zero value is ready.
type AddressCounter struct {
	mu     sync.Mutex
	counts map[netip.Addr]int
}

// Add counts c, unless its address has limit connections already.
func (n *AddressCounter) Add(c net.Conn, limit int) bool {
	ip := addressOf(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts[ip] >= limit {
		return false
	}
	if n.counts == nil {
		n.counts = make(map[netip.Addr]int)
	}
	n.counts[ip]++
	return true
}

// Remove counts out a connection that Add has counted.
func (n *AddressCounter) Remove(c net.Conn) {
	ip := addressOf(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.counts[ip]--; n.counts[ip] <= 0 {
		delete(n.counts, ip)
	}
}

// addressOf returns a connection's client address. Those without an IP address
// (unix sockets, pipes) count as one client.
func addressOf(c net.Conn) netip.Addr {
	if tcp, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
