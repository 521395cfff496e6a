//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// errEngineReads is what reads and writes on a netConn report.
var errEngineReads = errors.New("the event engine reads and writes this connection: use RequestCtx.Conn during a request, or Hijack")

// A netConn is what Conn.NetConn returns for a bare socket: its addresses, and a
// Close that ends the connection. It may be retained for any time.
type netConn struct {
	driver  *driver
	serving *serving
	fd      int32
	gen     uint32
	remote  netip.AddrPort
	proxied *engine.Proxied // nil: no proxy has named other addresses
}

var _ net.Conn = (*netConn)(nil)

func (n *netConn) unsupported(op string) error {
	return &net.OpError{Op: op, Net: n.serving.network, Addr: n.RemoteAddr(), Err: errEngineReads}
}

// Read implements net.Conn; it fails.
func (n *netConn) Read([]byte) (int, error) { return 0, n.unsupported("read") }

// Write implements net.Conn; it fails.
func (n *netConn) Write([]byte) (int, error) { return 0, n.unsupported("write") }

// Close has the engine close the connection.
func (n *netConn) Close() error {
	if !n.driver.kill(int(n.fd), n.gen) {
		return &net.OpError{Op: "close", Net: n.serving.network, Addr: n.RemoteAddr(), Err: net.ErrClosed}
	}
	return nil
}

// LocalAddr implements net.Conn.
func (n *netConn) LocalAddr() net.Addr {
	if _, local := n.proxied.Addrs(); local != nil {
		return local
	}
	return n.driver.localAddrOf(int(n.fd), n.gen, n.serving)
}

// RemoteAddr implements net.Conn.
func (n *netConn) RemoteAddr() net.Addr {
	if remote, _ := n.proxied.Addrs(); remote != nil {
		return remote
	}
	return n.serving.remoteAddr(n.remote)
}

// Proxied returns what a proxy has said of the connection, nil if that is nothing, and the
// proxy's address; see engine.ProxiedBy.
func (n *netConn) Proxied() (said *engine.Proxied, by net.Addr) {
	return n.proxied, n.serving.remoteAddr(n.remote)
}

// SetDeadline implements net.Conn; it fails.
func (n *netConn) SetDeadline(time.Time) error { return n.unsupported("set") }

// SetReadDeadline implements net.Conn; it fails.
func (n *netConn) SetReadDeadline(time.Time) error { return n.unsupported("set") }

// SetWriteDeadline implements net.Conn; it fails.
func (n *netConn) SetWriteDeadline(time.Time) error { return n.unsupported("set") }

// A tlsNetConn is what Conn.NetConn returns for a TLS connection: a netConn with the
// TLS state. It is not a *tls.Conn, which would read and write the engine's socket.
type tlsNetConn struct {
	*netConn
	tlsStater
}

// setRemote notes the peer's address in the slot.
func (s *slot) setRemote(a *sock.Address) { s.ip, s.port, s.scope = a.IP() }

// remote returns the peer's address. It is not valid if the peer has no IP address.
func (s *slot) remote() netip.AddrPort {
	if s.port == 0 && s.ip == [16]byte{} {
		return netip.AddrPort{}
	}
	ip := netip.AddrFrom16(s.ip).Unmap()
	if s.scope != 0 {
		ip = ip.WithZone(zoneName(s.scope))
	}
	return netip.AddrPortFrom(ip, s.port)
}

// zoneName returns the name of a network interface by its index.
func zoneName(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return ""
}

// remoteAddr returns the address in the form that package net uses.
func (s *serving) remoteAddr(remote netip.AddrPort) net.Addr {
	if !remote.IsValid() {
		return &net.UnixAddr{Name: "", Net: "unix"}
	}
	return net.TCPAddrFromAddrPort(remote)
}

// localAddr returns the local address of the socket. Most connections of a listener have the
// same one, and those that keep it share it.
func (d *driver) localAddr(fd int, s *serving) net.Addr {
	var a sock.Address
	if sock.LocalName(fd, &a) == 0 {
		var local slot
		local.setRemote(&a)
		if addr := local.remote(); addr.IsValid() {
			last := s.local.Load()
			if last == nil || last.AddrPort() != addr {
				last = net.TCPAddrFromAddrPort(addr)
				s.local.Store(last)
			}
			return last
		}
	}
	return s.listener.Addr()
}

// localAddrOf is localAddr for a connection that may have ended.
func (d *driver) localAddrOf(fd int, gen uint32, s *serving) net.Addr {
	p := d.table.find(fd)
	if p.chunk == nil || !p.slot().hold(gen) {
		return s.listener.Addr()
	}
	defer p.slot().drop()
	return d.localAddr(fd, s)
}
