//go:build linux && (amd64 || arm64)

package epoll

import (
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

const (
	// closedPeriod is how often Serve looks whether its listener was closed:
	// epoll forgets a descriptor that is closed without a word.
	closedPeriod = 200 * time.Millisecond
	// acceptsInARow is how many connections are accepted before somebody else
	// has a turn.
	acceptsInARow = 256
)

// A serving is one call of Serve on a listener whose descriptor we may use.
type serving struct {
	driver   *driver
	listener net.Listener
	acceptor engine.Acceptor
	waker    engine.Waker // acceptor, if it is one
	hooks    engine.Hooks // acceptor's
	config   *tls.Config  // nil: no TLS
	network  string
	index    uint16
	users    atomic.Int32 // connections, and Serve itself

	control  syscall.RawConn
	isPrompt bool       // closing a connection of its never waits
	inherits bool       // connections inherit TCP_NODELAY
	caughtUp bool       // those that were there before it was set are accepted
	accepted bool       // since the last failure
	mu       sync.Mutex // held while accepting
	ended    bool
	err      error // why; nil: Shutdown
	stop     chan struct{}
	gone     chan struct{} // closed when Serve needs its loop no longer
	stalled  chan error    // buffered; Accept failed for now
	listenFD int           // while registered
}

// Serve implements engine.Engine.
func (d *driver) Serve(ln net.Listener, a engine.Acceptor) error {
	inner, config := ln, (*tls.Config)(nil)
	if t, ok := ln.(*engine.TLSListener); ok && d.tlsWorks() {
		inner, config = t.Listener, t.Config
	}
	s := &serving{driver: d, listener: inner, acceptor: a, config: config, network: "tcp",
		stop: make(chan struct{}), gone: make(chan struct{}), stalled: make(chan error, 1)}
	switch l := inner.(type) {
	case *net.TCPListener:
		s.control, _ = l.SyscallConn()
	case *net.UnixListener:
		s.control, _ = l.SyscallConn()
		s.network = "unix"
	}
	if s.control == nil {
		return d.serveOthers(ln, s)
	}
	s, err := d.enter(s)
	if err != nil {
		return err
	}
	defer s.leave()
	defer close(s.gone)
	if err := s.register(); err != nil {
		return err
	}
	defer s.unregister()
	return s.watch()
}

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
		event := syscall.EpollEvent{Events: syscall.EPOLLIN | 1<<31, Fd: int32(s.index)}
		if errno := epollControl(s.loop().fd, syscall.EPOLL_CTL_ADD, s.listenFD, &event); errno != 0 {
			failed = &net.OpError{Op: "accept", Net: s.network, Addr: s.listener.Addr(), Err: errno}
		}
	})
	if err != nil {
		return s.closedError()
	}
	return failed
}

func (s *serving) loop() *loop { return s.driver.loopOf(int(s.index)) }

// prepareSocket sets on the listening socket what its connections inherit.
func (s *serving) prepareSocket() {
	if s.network != "tcp" {
		return
	}
	s.isPrompt = !lingers(s.listenFD)
	_ = syscall.SetsockoptInt(s.listenFD, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	// Sockets that an MPTCP socket has accepted inherit less.
	const optionProtocol = 38 // SO_PROTOCOL
	protocol, err := syscall.GetsockoptInt(s.listenFD, syscall.SOL_SOCKET, optionProtocol)
	s.inherits = err == nil && protocol == syscall.IPPROTO_TCP
	setProbes(s.listenFD, s.driver.options.KeepAlivePeriod)
}

// unregister ends accepting: when it has returned, nobody accepts any more.
func (s *serving) unregister() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	_ = s.control.Control(func(fd uintptr) {
		epollControl(s.loop().fd, syscall.EPOLL_CTL_DEL, int(fd), nil)
	})
}

// StopAccepting implements engine.Accepting. epoll would go on to tell of
// connections on a socket that other processes have as well, after our
// descriptor is closed.
func (d *driver) StopAccepting(ln net.Listener) {
	all := d.servings.Load()
	if all == nil {
		return
	}
	for _, s := range *all {
		if s != nil && s.listener == ln && s.control != nil {
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

// rearm has epoll look at the listener again.
func (s *serving) rearm() {
	_ = s.control.Control(func(fd uintptr) {
		event := syscall.EpollEvent{Events: syscall.EPOLLIN | 1<<31, Fd: int32(s.index)}
		epollControl(s.loop().fd, syscall.EPOLL_CTL_MOD, int(fd), &event)
	})
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

// accept is called by loop l when the listener of a serving has connections.
func (d *driver) accept(l *loop, index uint16) {
	s := d.servingAt(index)
	if s == nil || s.control == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	_ = s.control.Control(func(fd uintptr) {
		for count := 1; s.acceptOne(l, int(fd)); count++ {
			if count%acceptsInARow == 0 {
				l.queue.push(l.ready...)
				l.ready = l.ready[:0]
				runtime.Gosched()
			}
		}
	})
}

// acceptOne accepts a connection and queues it. False: there is none.
func (s *serving) acceptOne(l *loop, listener int) bool {
	var peer rawAddress
	fd, errno := acceptFD(listener, &peer)
	switch errno {
	case 0:
	case syscall.EAGAIN:
		s.caughtUp = true
		return false
	case syscall.ECONNABORTED, syscall.EPROTO, syscall.ECONNRESET:
		return true // the peer has given up
	default:
		err := &net.OpError{Op: "accept", Net: s.network, Addr: s.listener.Addr(), Err: errno}
		if engine.IsTemporary(err) {
			select {
			case s.stalled <- err:
			default: // it is being seen to
			}
		} else {
			s.endLocked(err)
		}
		return false
	}
	if s.network == "tcp" && !(s.inherits && s.caughtUp) {
		s.prepareConn(fd)
	}
	s.accepted = true
	s.arrive()
	if s.diverts(fd) {
		return true
	}
	s.driver.open.Add(1)
	s.driver.prepare(fd, &peer, s, nil)
	if responsible := s.driver.loopOf(fd); responsible != l {
		responsible.queue.push(int32(fd))
	} else {
		l.ready = append(l.ready, int32(fd))
	}
	return true
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

// close closes the descriptor of a connection. That may wait where the listener
// said so, or where the socket's options were in others' hands: connections that
// were adopted or accepted elsewhere. Closing a unix socket closes descriptors
// that were sent to it.
func (s *serving) close(fd int) {
	if s.isPrompt {
		closeFD(fd)
		return
	}
	_ = syscall.Close(fd) // nothing is left to be done about an error
}

// diverts asks whether fd is somebody else's, and forgets it then.
func (s *serving) diverts(fd int) bool {
	if s.hooks.Divert == nil || s.config != nil || !s.hooks.Divert(fd) {
		return false
	}
	s.close(fd)
	s.depart()
	return true
}

// prepare makes fd a connection that is claimed, and to be queued. It counts as
// open already.
func (d *driver) prepare(fd int, peer *rawAddress, s *serving, leftover []byte) {
	d.loopOf(fd).open.Add(1)
	s.users.Add(1)
	gen := d.newGeneration()
	p := d.table.open(fd)
	slot := p.slot()
	slot.setRemote(peer)
	slot.serving = s.index
	if len(leftover) > 0 {
		d.keepLeftover(fd, gen, leftover)
	}
	flags := flagFresh
	if s.config != nil {
		flags |= flagTLS
	}
	slot.open(gen, flags)
	if d.killing.Load() { // it was accepted before, and killAll did not see it
		d.kill(fd, gen)
	}
}

// start serves fd, unless the engine shuts down.
func (d *driver) start(fd int, peer *rawAddress, s *serving, leftover []byte) bool {
	// Shutdown sets closing before it looks at open.
	d.open.Add(1)
	if d.closing.Load() {
		d.countOut()
		return false
	}
	d.prepare(fd, peer, s, leftover)
	d.loopOf(fd).queue.push(int32(fd))
	return true
}

// serveOthers serves a listener that does not yield a descriptor. Connections
// that do are taken over; the fallback engine serves all others.
func (d *driver) serveOthers(ln net.Listener, s *serving) error {
	s, err := d.enter(s)
	if err != nil {
		return err
	}
	defer s.leave()
	return d.fallback.Serve(&filteringListener{Listener: ln, serving: s}, s.acceptor)
}

// A filteringListener is a listener that keeps bare TCP connections back.
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
			return tls.Server(nc, l.serving.config), nil
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

// takeOver makes nc a connection of the engine's, if it is nothing but a socket.
// Its descriptor is duplicated and nc closed, which leaves nothing of it in Go's
// poller.
func (s *serving) takeOver(nc net.Conn) bool {
	d := s.driver
	tc, ok := nc.(*net.TCPConn)
	if !ok || d.options.NetConnIsKept || d.closing.Load() {
		return false
	}
	control, err := tc.SyscallConn()
	if err != nil {
		return false
	}
	fd := -1
	var peer rawAddress
	_ = control.Control(func(old uintptr) {
		if getPeerName(int(old), &peer) == 0 {
			fd = duplicate(int(old))
		}
	})
	if fd < 0 {
		return false
	}
	s.arrive()
	if !s.diverts(fd) && !d.start(fd, &peer, s, nil) {
		s.depart()
		s.close(fd)
		return false
	}
	_ = tc.Close()
	return true
}
