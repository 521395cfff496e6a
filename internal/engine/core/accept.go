//go:build linux && (amd64 || arm64)

package core

import (
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// closedPeriod is how often Serve checks whether its listener was closed: a Poller
// does not report that.
const closedPeriod = 200 * time.Millisecond

// A tally is a number that is written for each connection, on a cache line of its own.
type tally struct {
	count atomic.Int32
	_     [60]byte
}

// A serving is where connections come from. There are three kinds: a Serve whose
// listener yields a descriptor, from which a loop accepts; a Serve of another
// listener, from which the fallback engine accepts (filteringListener); and the
// connections that were adopted from one origin.
type serving struct {
	driver   *driver
	listener net.Listener
	acceptor engine.Acceptor
	waker    engine.Waker      // acceptor, if it is one
	hooks    engine.Hooks      // acceptor's
	config   *tls.Config       // nil: no TLS
	compact  *compact.Listener // nil: no TLS connection becomes compact
	network  string
	index    uint16
	users    []tally // connections, by loop

	// The rest is for the first kind.
	control  syscall.RawConn // of listener; nil: another kind
	isPrompt bool            // closing one of its connections never waits, nor resets it without unread input
	inherits bool            // connections inherit TCP_NODELAY
	stop     chan struct{}
	gone     chan struct{} // closed when Serve no longer needs its loop
	stalled  chan error    // buffered; a temporary error of Accept
	listenFD int           // while registered

	_     cacheLine
	local atomic.Pointer[net.TCPAddr] // the last local address that was asked for

	holds    atomic.Int32 // a Serve that has not returned, and Adopts
	mu       sync.Mutex   // held while accepting
	caughtUp bool         // all connections from before TCP_NODELAY was set are accepted
	isTold   bool         // the Backlog of listener was not 0, so the system tells it
	accepted bool         // since the last failure
	ended    bool
	err      error // why; nil: Shutdown
	_        cacheLine
}

// Serve implements engine.Engine.
func (d *driver) Serve(ln net.Listener, a engine.Acceptor) error {
	inner, config := ln, (*tls.Config)(nil)
	var shaking *compact.Listener
	if t, ok := ln.(*engine.TLSListener); ok && d.tlsWorks() {
		inner, config = t.Listener, t.Config
		if t.Compact {
			shaking = compact.NewListener(config)
		}
	}
	s := &serving{driver: d, listener: inner, acceptor: a, config: config, compact: shaking, network: "tcp",
		stop: make(chan struct{}), gone: make(chan struct{}), stalled: make(chan error, 1)}
	switch l := inner.(type) {
	case *net.TCPListener:
		s.control, _ = l.SyscallConn()
	case *net.UnixListener:
		s.control, _ = l.SyscallConn()
		s.network = "unix"
	}
	if !s.accepts() {
		return d.serveOthers(ln, s)
	}
	s, err := d.enter(s)
	if err != nil {
		return err
	}
	defer s.letGo()
	defer close(s.gone)
	if err := s.register(); err != nil {
		return err
	}
	defer s.unregister()
	return s.watch()
}

// accepts reports whether a loop accepts the connections.
func (s *serving) accepts() bool { return s.control != nil }

// register has a loop accept.
func (s *serving) register() error {
	s.mu.Lock() // connections may be there at once
	defer s.mu.Unlock()
	if s.ended { // by a Shutdown
		return s.err
	}
	var failed error
	err := s.control.Control(func(fd uintptr) {
		s.listenFD = int(fd)
		_ = syscall.SetNonblock(s.listenFD, true) // os.File.Fd on a duplicate ends it
		s.prepareSocket()
		if err := s.loop().poller.Add(s.listenFD, uint64(s.index)); err != nil {
			failed = &net.OpError{Op: "accept", Net: s.network, Addr: s.listener.Addr(), Err: err}
		}
	})
	if err != nil {
		return s.closedError()
	}
	return failed
}

func (s *serving) loop() *loop { return s.driver.loops[int(s.index)%len(s.driver.loops)] }

// prepareSocket sets on the listening socket what its connections inherit.
func (s *serving) prepareSocket() {
	if s.network != "tcp" {
		return
	}
	s.isPrompt = !sock.Lingers(s.listenFD)
	_ = syscall.SetsockoptInt(s.listenFD, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	// Sockets that an MPTCP socket has accepted inherit less.
	const optionProtocol = 38 // SO_PROTOCOL
	protocol, err := syscall.GetsockoptInt(s.listenFD, syscall.SOL_SOCKET, optionProtocol)
	s.inherits = err == nil && protocol == syscall.IPPROTO_TCP
	setProbes(s.listenFD, s.driver.options.KeepAlivePeriod)
}

// unregister ends accepting. After it has returned, no connection is accepted.
func (s *serving) unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.control.Control(func(fd uintptr) { s.loop().poller.Remove(int(fd)) })
}

// StopAccepting implements engine.Accepting. Otherwise epoll would report
// connections on a socket that other processes have too, even after our descriptor
// is closed.
func (d *driver) StopAccepting(ln net.Listener) {
	all := d.servings.Load()
	if all == nil {
		return
	}
	for _, s := range *all {
		if s != nil && s.accepts() && s.listener == ln { // other types need not be comparable
			s.end(nil)
			s.unregister()
		}
	}
}

// watch returns when accepting has ended.
func (s *serving) watch() error {
	ticker := time.NewTicker(closedPeriod)
	defer ticker.Stop()
	var backoff engine.Backoff
	for {
		select {
		case <-s.stop:
			return s.err
		case <-ticker.C:
			if s.control.Control(func(uintptr) {}) != nil {
				return s.closedError()
			}
		case err := <-s.stalled:
			s.mu.Lock()
			if s.accepted {
				backoff.Reset()
			}
			s.accepted = false
			s.mu.Unlock()
			s.acceptor.AcceptError(err)
			select {
			case <-time.After(backoff.Next()):
				s.rearm()
			case <-s.stop:
				return s.err
			}
		}
	}
}

// rearm has the listener's present state reported again.
func (s *serving) rearm() {
	_ = s.control.Control(func(fd uintptr) { _ = s.loop().poller.Add(int(fd), uint64(s.index)) })
}

// closedError is what Accept would have returned.
func (s *serving) closedError() error {
	return &net.OpError{Op: "accept", Net: s.network, Addr: s.listener.Addr(), Err: net.ErrClosed}
}

// end makes Serve return err.
func (s *serving) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked(err)
}

func (s *serving) endLocked(err error) {
	if !s.ended {
		s.ended, s.err = true, err
		close(s.stop)
	}
}

// arrive and depart tell the acceptor that there is another connection, and that
// one is over.
func (s *serving) arrive() {
	if hook := s.hooks.Arrived; hook != nil {
		hook()
	}
}

func (s *serving) depart() {
	if hook := s.hooks.Departed; hook != nil {
		hook()
	}
}

// close closes the descriptor of a connection. This may wait if the listener has
// SO_LINGER, or if other code could set the socket's options: the connection was
// adopted or accepted elsewhere. Closing a unix socket closes descriptors that were
// sent to it, which may wait too.
func (s *serving) close(fd int) { s.driver.source.Close(fd, s.isPrompt) }

// diverts asks Divert whether it takes ownership of the connection. If it does,
// fd is closed and counted out.
func (s *serving) diverts(fd int) bool {
	if s.hooks.Divert == nil || s.config != nil || !s.hooks.Divert(fd) {
		return false
	}
	s.close(fd)
	s.depart()
	return true
}

// prepare makes fd a claimed connection of a loop, which must queue it. The caller has
// counted it as open.
func (l *loop) prepare(fd int, peer *sock.Address, s *serving, parcel engine.Parcel) {
	d := l.driver
	s.users[l.index].count.Add(1)
	p := d.table.open(fd)
	gen := p.chunk.newGeneration()
	slot := p.slot()
	slot.setRemote(peer)
	slot.serving = s.index
	flags := flagFresh
	switch {
	case !parcel.IsNew():
		d.keepParcel(fd, gen, parcel)
		p.setProxied(engine.ParseProxied(parcel.Proxy))
	case s.hooks.Proxy != nil:
		flags |= flagHandshake // see awaitHeader
	}
	switch {
	case s.config != nil:
		flags |= flagTLS | flagStays // until it is compact
	case len(parcel.TLS) > 0:
		flags |= flagTLS
	}
	slot.open(gen, l.index, flags)
	if d.life.Has(engine.StageKilling) { // it was accepted before, and killAll did not see it
		d.kill(fd, gen)
	}
}

// start serves fd, unless the engine shuts down.
func (d *driver) start(fd int, peer *sock.Address, s *serving, parcel engine.Parcel) bool {
	// Shutdown reaches StageShutDown before it looks at open.
	l := d.nextLoop()
	l.open.Add(1)
	if d.life.Has(engine.StageShutDown) {
		l.countOut()
		return false
	}
	l.prepare(fd, peer, s, parcel)
	l.queue.push(int32(fd))
	return true
}

// serveOthers serves a listener that does not yield a descriptor. Connections
// that do are taken over; the fallback engine serves all others.
func (d *driver) serveOthers(ln net.Listener, s *serving) error {
	s, err := d.enter(s)
	if err != nil {
		return err
	}
	defer s.letGo()
	return d.fallback.Serve(&filteringListener{Listener: ln, serving: s}, s.acceptor)
}

// A filteringListener passes to the fallback engine what is not a bare TCP
// connection. The driver takes over the others.
type filteringListener struct {
	net.Listener // what the user gave
	serving      *serving
}

// Accept implements net.Listener.
func (l *filteringListener) Accept() (net.Conn, error) {
	source := l.Listener
	if l.serving.config != nil {
		source = l.serving.listener
	}
	for {
		nc, err := source.Accept()
		if err != nil {
			return nil, err
		}
		if l.serving.takeOver(nc) {
			continue
		}
		if l.serving.config != nil {
			return engine.Secure(nc, l.serving.config, l.serving.hooks.Proxy != nil), nil
		}
		return nc, nil
	}
}

// SetDeadline interrupts Accept, if the listener can do that.
func (l *filteringListener) SetDeadline(t time.Time) error {
	source := l.Listener
	if l.serving.config != nil {
		source = l.serving.listener
	}
	if d, ok := source.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return net.ErrClosed
}

// takeOver makes nc a connection of the driver, if it is a bare socket. It
// duplicates the descriptor and closes nc, so that nothing of it remains in Go's
// poller.
func (s *serving) takeOver(nc net.Conn) bool {
	d := s.driver
	tc, ok := nc.(*net.TCPConn)
	if !ok || d.options.NetConnIsKept || d.life.Has(engine.StageShutDown) {
		return false
	}
	control, err := tc.SyscallConn()
	if err != nil {
		return false
	}
	fd := -1
	var peer sock.Address
	_ = control.Control(func(old uintptr) {
		if sock.PeerName(int(old), &peer) == 0 {
			fd = sock.Duplicate(int(old))
		}
	})
	if fd < 0 {
		return false
	}
	s.arrive()
	if !s.diverts(fd) && !d.start(fd, &peer, s, engine.Parcel{}) {
		s.depart()
		s.close(fd)
		return false
	}
	_ = tc.Close()
	return true
}
