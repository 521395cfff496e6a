package sluice

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/clock"
)

// hostSetup is what a HostClient derives from its fields, once.
type hostSetup struct {
	once  sync.Once
	addrs []string
	tls   *tls.Config
	alpn  *tls.Config // tls that also offers HTTP/2; nil: HTTP2Off
	http2 *http2client.Config
}

// prepared returns the addresses and the TLS configuration. The first call
// derives them.
func (c *HostClient) prepared() *hostSetup {
	s := &c.setup
	s.once.Do(func() {
		s.addrs = dial.Addrs(c.Addr, c.IsTLS, c.Dial != nil || c.DialTimeout != nil || c.DialContext != nil)
		if c.IsTLS {
			s.tls = &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0)}
			if c.TLSConfig != nil {
				s.tls = c.TLSConfig.Clone()
			}
		}
		switch {
		case c.mayUseHTTP2():
			c.prepareHTTP2()
		case s.tls != nil: // what is not spoken is not offered
			s.tls, _ = dial.OfferHTTP2(s.tls)
		}
	})
	return s
}

// firstAddr returns the address, or the first of several, or "".
func (c *HostClient) firstAddr() string {
	if addrs := c.prepared().addrs; len(addrs) > 0 {
		return addrs[0]
	}
	return ""
}

// dial opens a connection to the next address that can be reached: m if it speaks HTTP/2,
// which it may with offersHTTP2, and otherwise cc.
func (c *HostClient) dial(call *clientCall, offersHTTP2 bool) (m *http2Member, cc *clientConn, err error) {
	addrs := c.prepared().addrs
	first := c.nextAddr.Add(1) - 1
	err = errNoAddr
	// Connecting fails only after every address has failed.
	for i := range addrs {
		addr := addrs[(first+uint32(i))%uint32(len(addrs))]
		call.upstream = addr
		var nc net.Conn
		var isHTTP2 bool
		nc, isHTTP2, err = c.dialAddr(call, addr, offersHTTP2)
		switch {
		case err == nil && !isHTTP2:
			return nil, newClientConn(nc, addr), nil
		case err == nil:
			return c.newHTTP2Peer(nc, addr), nil, nil
		}
		err = call.dialError(err, addr)
		if call.err() != nil {
			break
		}
	}
	return nil, nil, err
}

// dialAddr connects to addr, with TLS if IsTLS is set. With TLS, WriteTimeout
// limits dialing and handshake together. isHTTP2: HTTP/2 is spoken on the connection.
func (c *HostClient) dialAddr(call *clientCall, addr string, offersHTTP2 bool) (nc net.Conn, isHTTP2 bool, err error) {
	isOnly := offersHTTP2 && c.HTTP2 == HTTP2Only
	if !c.IsTLS {
		nc, err = c.callDialer(call, addr)
		return nc, isOnly, err
	}
	own := call.Bounds
	if c.WriteTimeout > 0 {
		call.Allow(c.WriteTimeout)
	}
	secure, err := c.dialTLS(call, addr, offersHTTP2)
	isOver := call.err() != nil
	call.Restore(own)
	if err != nil {
		if isOver && call.err() == nil {
			err = ErrTLSHandshakeTimeout
		}
		return nil, false, err
	}
	isHTTP2 = offersHTTP2 && secure.ConnectionState().NegotiatedProtocol == dial.HTTP2
	if isOnly && !isHTTP2 {
		dial.Close(secure)
		return nil, false, ErrNoHTTP2
	}
	return secure, isHTTP2, nil
}

// dialTLS connects to addr with TLS. It does not dial an address whose host would be
// no server name.
func (c *HostClient) dialTLS(call *clientCall, addr string, offersHTTP2 bool) (*tls.Conn, error) {
	config := c.prepared().tls
	if offersHTTP2 {
		config = c.prepared().alpn
	}
	if err := dial.CheckServerName(config, addr); err != nil {
		return nil, err
	}
	nc, err := c.callDialer(call, addr)
	if err != nil {
		return nil, err
	}
	call.phase = PhaseTLS
	ctx, cancel := call.Within()
	defer cancel()
	secure, err := dial.MakeSecure(ctx, nc, config, addr, call.trace.ofDial())
	if clock.IsTimeout(err) {
		err = ErrTLSHandshakeTimeout
	}
	return secure, err
}

var (
	errNoConn = errors.New("sluice: the dialer returned neither a connection nor an error")
	errNoAddr = errors.New("sluice: HostClient.Addr has no address")
)

// callDialer connects to addr with the dialer that takes precedence.
func (c *HostClient) callDialer(call *clientCall, addr string) (nc net.Conn, err error) {
	call.phase = PhaseDial
	defer func() {
		switch {
		case err != nil:
			nc = nil // a dialer may return both
		case nc == nil:
			err = errNoConn
		}
	}()
	switch {
	case c.DialContext != nil:
		ctx, cancel := call.Within()
		defer cancel()
		if call.trace != nil {
			ctx = WithClientTrace(ctx, call.trace)
		}
		return c.DialContext(ctx, addr)
	case c.DialTimeout != nil:
		left := call.Left(DefaultDialTimeout) // evaluated here, because the call may have ended when the function runs
		return dialAside(call, func() (net.Conn, error) { return c.DialTimeout(addr, left) })
	case c.Dial != nil:
		return dialAside(call, func() (net.Conn, error) { return c.Dial(addr) })
	}
	ctx, cancel := call.Within()
	defer cancel()
	return sharedDialer.dial(ctx, dial.Network(c.DialDualStack), addr, time.Now().Add(DefaultDialTimeout), call.trace)
}

// dialAside calls a dialer that supports neither contexts nor deadlines. If the
// call ends first, the dialer keeps running and its connection is closed.
func dialAside(call *clientCall, f func() (net.Conn, error)) (net.Conn, error) {
	if !call.IsBound() {
		return f()
	}
	ctx, cancel := call.Within()
	defer cancel()
	return dial.Aside(ctx, f)
}

// dialError wraps err with the address that could not be dialed. If the call has ended,
// it returns the reason instead.
func (c *clientCall) dialError(err error, addr string) error {
	switch {
	case c.err() != nil:
		return c.explain(err)
	case err == ErrTLSHandshakeTimeout:
		return err
	}
	return dial.WithUpstream(err, addr)
}

// clientConn is a connection of a HostClient that speaks HTTP/1.1. The pool owns it while it is
// idle; otherwise the one request that uses it does.
type clientConn struct {
	wire     http1client.Conn
	addr     string
	created  int64 // clock.Nanos
	lastUse  int64
	isReused bool
	exchange exchange // of the present request
}

func newClientConn(c net.Conn, addr string) *clientConn {
	cc := &clientConn{addr: addr, created: clock.Nanos()}
	cc.exchange.cc = cc
	cc.wire.Init(c, &cc.exchange.Exchange, &cc.exchange)
	return cc
}

func (cc *clientConn) close() { dial.Close(cc.wire.Net) }

// Conn returns the connection. The caller owns it from AcquireConn until
// ReleaseConn or CloseConn.
func (cc *clientConn) Conn() net.Conn { return cc.wire.Net }

// CreatedTime returns when the connection was opened.
func (cc *clientConn) CreatedTime() time.Time { return clock.Time(cc.created) }

// LastUseTime returns when the connection was last released. It may be up to
// half a second too early. It is the zero time for a new connection.
func (cc *clientConn) LastUseTime() time.Time {
	if cc.lastUse == 0 {
		return time.Time{}
	}
	return clock.Time(cc.lastUse)
}

// AcquireTimer returns a timer from a pool. The timer sends the time on its
// channel after timeout. Return it with ReleaseTimer when it is no longer used.
// This is optional and saves allocations.
func AcquireTimer(timeout time.Duration) *time.Timer { return clock.AcquireTimer(timeout) }

// ReleaseTimer stops t and returns it to the pool. t must come from AcquireTimer
// or time.NewTimer, and must not be used afterwards.
func ReleaseTimer(t *time.Timer) { clock.ReleaseTimer(t) }
