package http3

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
)

const (
	// protocolHTTP3 is the name of HTTP/3 in TLS and in Alt-Svc (RFC 9114 section 3.1).
	protocolHTTP3 = "h3"
	// headStart is what QUIC has before TCP is dialed, too.
	headStart = 250 * time.Millisecond
	// quicTimeout bounds the opening of a connection of QUIC, tcpTimeout that of TCP beside it.
	quicTimeout = 10 * time.Second
	tcpTimeout  = 60 * time.Second
	// mostStreams is how many streams a connection may have, if the server admits as many.
	mostStreams = 1000
)

// peers are the connections of a HostClient.
type peers struct {
	transport *Transport
	host      *streams.Host
	settings  pool.SharedSettings[*clientConn]
	name      string // the host of the only address; "": there are several, or it has no name
	next      atomic.Uint32
	pool      pool.Shared[*clientConn]
	isLate    atomic.Bool // TCP was first, and QUIC is still being tried
}

var _ streams.Peers = (*peers)(nil)

func newPeers(t *Transport, h *streams.Host) *peers {
	p := &peers{transport: t, host: h}
	p.settings = pool.SharedSettings[*clientConn]{
		MaxConns: h.MaxConns, MaxIdle: h.MaxIdle, MaxAge: h.MaxAge,
		Close: func(c *clientConn) { c.close() },
		Look:  func(*clientConn) {},
	}
	if len(h.Addrs) == 1 {
		p.name, _, _ = net.SplitHostPort(h.Addrs[0])
	}
	return p
}

// Acquire implements streams.Peers.
func (p *peers) Acquire(call streams.Call) (streams.Stream, error) {
	if call.NeedsHTTP1 || p.host.TLS == nil {
		return nil, p.elsewhere(ErrNotHTTP3)
	}
	addr := p.address()
	if addr == "" {
		return nil, streams.ErrElsewhere
	}
	var failed chan error // gets the error of our attempt to open a connection
	got, ok := p.pool.Take(p.settings)
	for {
		if !ok {
			var err error
			if got, err = p.wait(call); err != nil {
				return nil, err
			}
		}
		switch {
		case got.Err == pool.ErrFull:
			return nil, p.elsewhere(pool.ErrFull)
		case got.Err != nil:
			return nil, got.Err
		case got.Member != nil:
			return p.streamOn(got.Member, call.IsLast), nil
		}
		select {
		case err := <-failed: // before we waited
			p.pool.Abandon(p.settings)
			return nil, err
		default:
		}
		// Who waits for the connection may give up; the connection is for all.
		*call.Phase = clock.PhaseDial
		failed, ok = make(chan error, 1), false
		go p.open(addr, call.Trace, failed)
	}
}

// elsewhere returns the error of a request that another version may serve, but in the mode Only.
func (p *peers) elsewhere(otherwise error) error {
	if p.transport.Mode == Only {
		return otherwise
	}
	return streams.ErrElsewhere
}

// address returns what to dial for HTTP/3 now; "": HTTP/3 is not to be used.
func (p *peers) address() string {
	addrs := p.host.Addrs
	switch {
	case p.transport.Mode == Only && len(addrs) > 0:
		return addrs[(p.next.Add(1)-1)%uint32(len(addrs))]
	case p.transport.Mode == Auto && p.host.HasDialer, p.name == "", p.isLate.Load():
		return ""
	}
	assumed := ""
	if p.transport.Mode == Prefer {
		_, assumed, _ = net.SplitHostPort(addrs[0])
	}
	port := p.transport.origins.port(addrs[0], assumed)
	if port == "" {
		return ""
	}
	return net.JoinHostPort(p.name, port)
}

// wait waits for a stream, or the permission to open a connection.
func (p *peers) wait(call streams.Call) (got pool.Grant[*clientConn], err error) {
	patience := max(p.host.MaxWait, 0)
	if patience == 0 && call.Done() != nil {
		patience = -1
	}
	if p.transport.Mode != Only {
		patience = 0 // TCP is there
	}
	got, ok := p.pool.Wait(p.settings, patience, call.Bounds)
	if ok {
		return got, nil
	}
	if err := call.Err(); err != nil {
		return got, err
	}
	return got, sluice.ErrTimeout // the timer was early
}

// streamOn returns a stream with the place on m.
func (p *peers) streamOn(m *pool.Member[*clientConn], isLast bool) *clientStream {
	if isLast {
		p.pool.Drain(p.settings, m)
	}
	s := acquireClientStream()
	s.conn, s.isReused = m.Conn, m.Conn.wasUsed.Swap(true)
	return s
}

// Announced implements streams.Peers.
func (p *peers) Announced(lines [][]byte, age []byte) {
	if p.transport.Mode != Only && p.name != "" {
		p.transport.origins.learn(p.host.Addrs[0], p.name, lines, age)
	}
}

// Misdirected implements streams.Peers.
func (p *peers) Misdirected() bool {
	p.failed() // what it says over TCP would make it be asked again
	return p.transport.Mode != Only
}

// CloseIdle implements streams.Peers.
func (p *peers) CloseIdle() { p.pool.CloseIdle(p.settings) }

// Counts implements streams.Peers.
func (p *peers) Counts() (open, idle int) { return p.pool.Counts() }

// failed says that QUIC has failed.
func (p *peers) failed() {
	if p.transport.Mode != Only {
		p.transport.origins.failed(p.host.Addrs[0])
	}
}

// open opens a connection with the permission of the pool. Unless the mode is Only, TCP takes part.
func (p *peers) open(addr string, trace *dial.Trace, failed chan<- error) {
	var tcp chan error // gets the outcome of TCP; nil: it was not dialed
	var start <-chan time.Time
	if p.transport.Mode != Only {
		timer := time.NewTimer(cmp.Or(p.transport.headStart, headStart))
		defer timer.Stop()
		start = timer.C
	}
	quic := make(chan dialed, 1)
	go func() {
		c, err := p.dial(addr, trace)
		quic <- dialed{c, err}
	}()
	for {
		select {
		case <-start:
			tcp = p.openTCP()
			start = nil
		case err := <-tcp:
			if err == nil {
				p.openLate(quic, failed)
				return
			}
			if d := <-quic; d.err == nil { // only QUIC may still connect
				p.opened(d.conn)
			} else {
				p.giveUp(err, failed) // as without HTTP/3; it may be the network
			}
			return
		case d := <-quic:
			if d.err == nil {
				p.opened(d.conn)
				return
			}
			if p.transport.Mode == Only {
				p.giveUp(d.err, failed)
				return
			}
			if tcp == nil {
				tcp = p.openTCP()
			}
			err := <-tcp
			if err == nil { // it is not the network
				p.failed()
				err = streams.ErrElsewhere
			}
			p.giveUp(err, failed)
			return
		}
	}
}

// giveUp tells those who wait for a connection why there is none.
func (p *peers) giveUp(err error, failed chan<- error) {
	failed <- err
	p.pool.Failed(p.settings, err)
}

// dialed is the outcome of dialing QUIC.
type dialed struct {
	conn *clientConn
	err  error
}

// openTCP opens a connection of TCP for the HostClient.
func (p *peers) openTCP() chan error {
	outcome := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), tcpTimeout)
		defer cancel()
		outcome <- p.host.OpenTCP(ctx)
	}()
	return outcome
}

// opened gives a new connection to those who wait for it.
func (p *peers) opened(c *clientConn) {
	p.pool.Opened(p.settings, c.member)
	p.settle(c)
}

// settle makes a new connection, on which the caller has a place, one of the pool.
func (p *peers) settle(c *clientConn) {
	p.pool.SetLimit(p.settings, c.member, mostStreams)
	c.start()
	p.pool.Release(p.settings, c.member)
}

// openLate sends those who wait for QUIC to TCP, and waits for QUIC.
func (p *peers) openLate(quic <-chan dialed, failed chan<- error) {
	p.isLate.Store(true)
	defer p.isLate.Store(false)
	p.giveUp(streams.ErrElsewhere, failed)
	d := <-quic
	if d.err != nil {
		p.failed()
		return
	}
	p.pool.Admit(p.settings, d.conn.member)
	p.settle(d.conn)
}

// dial opens a connection.
func (p *peers) dial(addr string, trace *dial.Trace) (*clientConn, error) {
	timeout := cmp.Or(p.transport.patience, quicTimeout)
	if limit := p.host.WriteTimeout; limit > 0 {
		timeout = min(timeout, limit)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, dial.ErrTimeout)
	defer cancel()
	dialer := dial.Dialer{Connect: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) { return p.connect(ctx, to, addr) }}
	call := dial.Call{
		Dialer: &dialer, Context: ctx, Network: p.host.Network, Addr: addr, Trace: traceUDP(trace),
	}
	nc, err := call.Run()
	if err != nil {
		return nil, dial.WithUpstream(err, addr)
	}
	info := nc.(*netConn)
	c, err := newClientConn(p, info, addr)
	if err != nil {
		return nil, dial.WithUpstream(err, addr)
	}
	return c, nil
}

// traceUDP returns trace with functions that get the name of the network, "udp".
func traceUDP(trace *dial.Trace) *dial.Trace {
	if trace == nil {
		return nil
	}
	udp := *trace
	if f := trace.DialStart; f != nil {
		udp.DialStart = func(_, addr string) { f("udp", addr) }
	}
	if f := trace.DialDone; f != nil {
		udp.DialDone = func(_, addr string, err error) { f("udp", addr, err) }
	}
	return &udp
}

// connect makes the handshake with an address of addr, on a socket of its own.
func (p *peers) connect(ctx context.Context, to netip.AddrPort, addr string) (net.Conn, error) {
	network := "udp6"
	if to.Addr().Unmap().Is4() {
		network = "udp4"
	}
	socket, err := net.ListenUDP(network, nil)
	if err != nil {
		return nil, err
	}
	transport := &quic.Transport{Conn: socket}
	release := func() {
		_ = transport.Close()
		_ = socket.Close()
	}
	conn, err := transport.Dial(ctx, net.UDPAddrFromAddrPort(to), p.tlsConfig(addr), p.quicConfig())
	if err != nil {
		release()
		return nil, err
	}
	context.AfterFunc(conn.Context(), release)
	return newNetConn(conn), nil
}

// tlsConfig returns the configuration of a handshake.
func (p *peers) tlsConfig(addr string) *tls.Config {
	config := onlyHTTP3(p.host.TLS)
	if config.ServerName == "" {
		host, _, _ := net.SplitHostPort(addr) // which was dialed
		config.ServerName, _, _ = strings.Cut(host, "%")
	}
	return config
}

// quicConfig returns the settings of all connections.
func (p *peers) quicConfig() *quic.Config {
	silence := cmp.Or(p.transport.silence, silence)
	return &quic.Config{
		HandshakeIdleTimeout:       quicTimeout / 2,
		MaxIdleTimeout:             silence,
		KeepAlivePeriod:            silence / 3,
		InitialPacketSize:          firstPacketSize,
		MaxIncomingStreams:         -1, // servers open none (RFC 9114 section 6.1)
		MaxIncomingUniStreams:      maxServerStreams,
		RequireStreamCreditRelease: true,
		MaxStreamReceiveWindow:     4 << 20,
		MaxConnectionReceiveWindow: 16 << 20,
	}
}

const (
	// silence is how long a server may send nothing before its connection is lost: a third of
	// that after the last packet, it is asked for an answer.
	silence = 15 * time.Second
	// maxServerStreams is how many unidirectional streams a server may open on a connection: it
	// needs three.
	maxServerStreams = 8
)
