package engine

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/wire/proxy"
)

// A ProxyRule says which connections begin with a header of the PROXY protocol, and who is
// believed. It concerns new connections: those that were adopted with a Parcel have begun.
type ProxyRule struct {
	// Requires refuses connections without a header, and those of untrusted peers. Otherwise
	// these are what they seem to be, and what an untrusted peer sends is input.
	Requires bool
	// Trusted are the addresses of proxies that are believed. Those that come over a unix
	// socket always are.
	Trusted []netip.Prefix
	// Refused is called for each connection that ends because of the rule, on any goroutine;
	// nil: not. remote is the peer's own address.
	Refused func(remote net.Addr, err error)
}

// The errors of connections that a ProxyRule refuses, beside those of proxy.Parse.
var (
	ErrUntrusted = errors.New("sluice: the connection comes from no trusted proxy")
	errInsideTLS = errors.New("sluice: the PROXY protocol needs ServeTLS: the listener makes TLS connections itself")
)

// Expects reports whether a connection of peer may begin with a header. The error means that
// it is refused.
func (r *ProxyRule) Expects(peer netip.AddrPort, isUnix bool) (bool, error) {
	ip := peer.Addr().Unmap().WithZone("")
	if isUnix || slices.ContainsFunc(r.Trusted, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return true, nil
	}
	if r.Requires {
		return false, ErrUntrusted
	}
	return false, nil
}

// Parse parses the header with which in begins, of n bytes; without Requires there may be none.
// p is nil if the proxy says nothing of the client. The result false means that more must come,
// which is never so after proxy.MaxSize bytes.
func (r *ProxyRule) Parse(in []byte) (p *Proxied, n int, isWhole bool, err error) {
	h, n, err := proxy.Parse(in)
	switch {
	case errors.Is(err, proxy.ErrAbsent) && !r.Requires:
		return nil, 0, true, nil
	case err != nil || n == 0:
		return nil, 0, false, err
	}
	return proxiedOf(h, in[:n]), n, true, nil
}

// Refuse calls Refused.
func (r *ProxyRule) Refuse(remote net.Addr, err error) {
	if r.Refused != nil {
		r.Refused(remote, err)
	}
}

// Parcel returns what the Parcel of a connection needs, p being what was said of it, or nil.
// The rule may be nil.
func (r *ProxyRule) Parcel(p *Proxied) []byte {
	switch {
	case p != nil:
		return p.header
	case r != nil:
		return []byte(proxy.Local) // its next owner must not wait for a header
	}
	return nil
}

// firstHeader is the room for a header, which nearly all fit in.
const firstHeader = 128

// Receive reads the header of nc, if there may be one. It waits until ctx ends, and closes nc
// then. rest is input that was read with it.
func (r *ProxyRule) Receive(ctx context.Context, nc net.Conn) (p *Proxied, rest []byte, err error) {
	var peer netip.AddrPort
	isUnix := false
	switch at := nc.RemoteAddr().(type) {
	case *net.TCPAddr:
		peer = at.AddrPort()
	case *net.UnixAddr:
		isUnix = true
	}
	expects, err := r.Expects(peer, isUnix)
	if !expects {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	p, rest, err = r.receive(nc)
	switch {
	case stop():
		return p, rest, err
	case ctx.Err() == context.DeadlineExceeded:
		return nil, nil, os.ErrDeadlineExceeded
	}
	return nil, nil, ErrShutdown
}

func (r *ProxyRule) receive(nc net.Conn) (p *Proxied, rest []byte, err error) {
	for in := make([]byte, 0, firstHeader); ; in = slices.Grow(in, 1) {
		n, readErr := nc.Read(in[len(in):cap(in)])
		in = in[:len(in)+n]
		p, size, isWhole, err := r.Parse(in)
		switch {
		case isWhole:
			return p, bytes.Clone(in[size:]), nil
		case err != nil:
			return nil, nil, err
		case readErr == io.EOF && len(in) > 0:
			return nil, nil, io.ErrUnexpectedEOF
		case readErr != nil:
			return nil, nil, readErr
		}
	}
}

// A Proxied is what a proxy has said of a connection. It keeps the header only, which is parsed
// when it is asked for: a million connections have one each.
type Proxied struct{ header []byte }

// proxiedOf returns what h, which was parsed of header, says; nil if it says nothing. It copies
// header.
func proxiedOf(h proxy.Header, header []byte) *Proxied {
	if !h.HasAddresses() && len(h.TLVs) == 0 {
		return nil
	}
	return &Proxied{bytes.Clone(header)}
}

// ParseProxied returns what a Parcel says, nil if it says nothing.
func ParseProxied(header []byte) *Proxied {
	h, n, err := proxy.Parse(header)
	if err != nil || n == 0 {
		return nil
	}
	return proxiedOf(h, header[:n])
}

// Header returns the header. Its bytes must not be changed.
func (p *Proxied) Header() proxy.Header {
	h, _, _ := proxy.Parse(p.header)
	return h
}

// Addrs returns the addresses of the client's connection: of the client, and the one that it has
// connected to. They are nil if p is, and if it does not say.
func (p *Proxied) Addrs() (remote, local net.Addr) {
	if p != nil {
		remote, local = p.addrs()
	}
	return remote, local
}

func (p *Proxied) addrs() (remote, local net.Addr) {
	h := p.Header()
	switch {
	case h.IsUnix:
		return &net.UnixAddr{Name: string(h.SourceName), Net: "unix"}, &net.UnixAddr{Name: string(h.DestinationName), Net: "unix"}
	case h.Source.IsValid():
		return net.TCPAddrFromAddrPort(h.Source), net.TCPAddrFromAddrPort(h.Destination)
	}
	return nil, nil
}

// A ProxiedConn is a connection with the addresses that a proxy has named, if it has.
type ProxiedConn struct {
	net.Conn
	said atomic.Pointer[Proxied]
	rest []byte // input that was read with the header
}

// NewProxiedConn returns nc with what was said of it, nc itself if that is nil. The result has
// the methods of a net.Conn, NetConn and CloseWrite.
func NewProxiedConn(nc net.Conn, said *Proxied) net.Conn {
	if said == nil {
		return nc
	}
	c := &ProxiedConn{Conn: nc}
	c.said.Store(said)
	return c
}

// Secure returns the server side of a TLS connection over nc. If that may begin with a header,
// the TLS connection is over a ProxiedConn, whose Receive must be called first.
func Secure(nc net.Conn, config *tls.Config, mayBeProxied bool) net.Conn {
	if mayBeProxied {
		nc = &ProxiedConn{Conn: nc}
	}
	return tls.Server(nc, config)
}

// ReceiveBelow is Receive for nc, which may be a TLS connection of Secure: this gets rest then.
func (r *ProxyRule) ReceiveBelow(ctx context.Context, nc net.Conn) (p *Proxied, rest []byte, err error) {
	secured, isTLS := nc.(*tls.Conn)
	if !isTLS {
		return r.Receive(ctx, nc)
	}
	c, isOurs := secured.NetConn().(*ProxiedConn)
	switch {
	case isOurs:
		p, c.rest, err = r.Receive(ctx, c.Conn)
		c.said.Store(p)
	case r.Requires:
		err = errInsideTLS
	}
	return p, nil, err
}

// Read implements net.Conn.
func (c *ProxiedConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 {
		c.rest = nil // frees its memory
	}
	return n, nil
}

// RemoteAddr implements net.Conn.
func (c *ProxiedConn) RemoteAddr() net.Addr {
	if remote, _ := c.said.Load().Addrs(); remote != nil {
		return remote
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr implements net.Conn.
func (c *ProxiedConn) LocalAddr() net.Addr {
	if _, local := c.said.Load().Addrs(); local != nil {
		return local
	}
	return c.Conn.LocalAddr()
}

// Proxied returns what the proxy has said, nil if that is nothing, and the proxy's address.
func (c *ProxiedConn) Proxied() (said *Proxied, by net.Addr) {
	return c.said.Load(), c.Conn.RemoteAddr()
}

// NetConn returns the connection underneath, which has the addresses of the socket.
func (c *ProxiedConn) NetConn() net.Conn { return c.Conn }

// CloseWrite closes the sending side. Its error is errors.ErrUnsupported if the connection
// underneath cannot do it.
func (c *ProxiedConn) CloseWrite() error { return closeWrite(c.Conn) }

// ProxiedBy returns what a proxy has said of nc, nil if that is nothing, and the proxy's address.
func ProxiedBy(nc net.Conn) (said *Proxied, by net.Addr) {
	for nc != nil {
		if c, ok := nc.(interface{ Proxied() (*Proxied, net.Addr) }); ok {
			return c.Proxied()
		}
		under, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = under.NetConn()
	}
	return nil, nil
}
