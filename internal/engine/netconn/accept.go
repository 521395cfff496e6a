package netconn

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A serving is one call of Serve. Several goroutines accept. Each serves what it has
// accepted, so that no connection passes from one goroutine to another.
type serving struct {
	driver   *driver
	listener net.Listener
	acceptor engine.Acceptor
	hooks    engine.Hooks // of acceptor
	isOurs   bool         // only the engine sets deadlines on its connections

	// accepting is how many goroutines accept or are about to. It is 0 only after stop
	// is closed, and stays 0 then.
	accepting atomic.Int32

	once sync.Once
	stop chan struct{} // closed by Shutdown, or by an error of the listener
	err  error         // why the listener failed; it is set before stop is closed
	gone chan struct{} // closed when accepting is 0
}

// maxAccepting bounds serving.accepting. A goroutine that ends its connection accepts
// again if fewer do. A new goroutine costs more, because its stack must grow in several
// steps.
const maxAccepting = 16

// deadliner is a listener whose Accept can be interrupted without closing it.
type deadliner interface {
	SetDeadline(time.Time) error
}

// Serve implements engine.Engine.
func (d *driver) Serve(ln net.Listener, a engine.Acceptor) error {
	s := &serving{
		driver:   d,
		listener: ln,
		acceptor: a,
		hooks:    engine.HooksOf(a),
		isOurs:   !d.options.NetConnIsKept && isOfNet(ln),
		stop:     make(chan struct{}),
		gone:     make(chan struct{}),
	}
	if l, ok := ln.(*engine.TLSListener); ok && s.hooks.Proxy != nil {
		s.listener = &engine.TLSListener{Listener: l.Listener, Config: l.Config, MayBeProxied: true}
	}
	d.mu.Lock()
	if d.life.Has(engine.StageShutDown) {
		d.mu.Unlock()
		return engine.ErrShutdown
	}
	d.servings[s] = struct{}{}
	d.mu.Unlock()
	s.accepting.Store(1)
	go s.work()
	s.wait()
	if l, ok := s.listener.(deadliner); ok && s.err == nil {
		_ = l.SetDeadline(noTime()) // the listener may be served again
	}
	d.mu.Lock()
	delete(d.servings, s)
	d.mu.Unlock()
	return s.err
}

// isOfNet reports whether ln's connections come from package net alone, and TLS of
// ours.
func isOfNet(ln net.Listener) bool {
	if t, ok := ln.(*engine.TLSListener); ok {
		ln = t.Listener
	}
	switch ln.(type) {
	case *net.TCPListener, *net.UnixListener:
		return true
	}
	return false
}

// work accepts connections and serves them, one after the other. It is counted in
// accepting when it begins.
func (s *serving) work() {
	for c := s.accept(); c != nil; c = s.accept() {
		s.leave()
		if !c.run() || !s.enter() {
			return
		}
	}
	s.leave()
}

// enter counts the caller in accepting, unless enough goroutines accept, or none may.
func (s *serving) enter() bool {
	for {
		n := s.accepting.Load()
		if n == 0 || n >= maxAccepting {
			return false
		}
		if s.accepting.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// leave undoes enter. Before the end, another goroutine takes the place of the last one.
func (s *serving) leave() {
	for {
		n := s.accepting.Load()
		if n == 1 && !s.hasEnded() {
			go s.work()
			return
		}
		if s.accepting.CompareAndSwap(n, n-1) {
			if n == 1 {
				close(s.gone)
			}
			return
		}
	}
}

// accept returns the next connection that is to be served, or nil at the end.
func (s *serving) accept() *conn {
	var backoff engine.Backoff
	for !s.hasEnded() {
		nc, err := s.listener.Accept()
		switch {
		case err == nil:
			backoff.Reset()
			if c := s.take(nc); c != nil {
				return c
			}
		case s.hasEnded():
		case !engine.IsTemporary(err):
			s.end(err)
		default:
			s.acceptor.AcceptError(err)
			s.pause(backoff.Next())
		}
	}
	return nil
}

func (s *serving) hasEnded() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// pause waits before the next try to accept.
func (s *serving) pause(wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop:
	}
}

// wait returns when no goroutine accepts any more, or when the listener has failed: it
// need not make every Accept return then.
func (s *serving) wait() {
	<-s.stop
	if s.err == nil {
		<-s.gone
	}
}

// end makes Serve return err. For Shutdown, whose err is nil, it interrupts Accept; a
// listener that cannot be interrupted otherwise is closed.
func (s *serving) end(err error) {
	s.once.Do(func() {
		s.err = err
		close(s.stop)
		if err != nil {
			return
		}
		if l, ok := s.listener.(deadliner); ok && l.SetDeadline(past()) == nil {
			return
		}
		_ = s.listener.Close()
	})
}

// take returns the conn of an accepted connection, or nil if it is not to be served.
func (s *serving) take(nc net.Conn) *conn {
	if hook := s.hooks.Arrived; hook != nil {
		hook()
	}
	if s.hooks.Divert != nil && s.diverts(nc) {
		return nil
	}
	c := s.driver.newConn(nc, s.acceptor, &s.hooks)
	c.kind, c.isOurs = kindOf(nc), s.isOurs
	if !c.register() { // Serve has returned: its listener has failed
		_ = nc.Close()
		c.conclude()
		return nil
	}
	return c
}

// diverts offers nc to the Divert hook, and reports whether the hook has taken it.
func (s *serving) diverts(nc net.Conn) bool {
	if !isBare(nc) {
		return false
	}
	control, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return false
	}
	diverted := false
	_ = control.Control(func(fd uintptr) { diverted = s.hooks.Divert(int(fd)) })
	if diverted {
		_ = nc.Close()
		if hook := s.hooks.Departed; hook != nil {
			hook()
		}
	}
	return diverted
}

// ServeConn implements engine.Engine. It serves on the caller's goroutine: a handler
// that calls runtime.Goexit ends that.
func (d *driver) ServeConn(nc net.Conn, leftover []byte, a engine.Acceptor) error {
	c, err := d.take(nc, engine.Parcel{Leftover: leftover}, a, kindAny)
	if err != nil {
		return err
	}
	detached := c.serve()
	err = c.Err
	if detached != nil {
		go c.live(detached)
	} else {
		c.recycle()
	}
	return err
}

// AdoptConn implements engine.Engine.
func (d *driver) AdoptConn(nc net.Conn, p engine.Parcel, a engine.Acceptor) error {
	err := engine.ErrCompact
	if len(p.TLS) == 0 {
		p, err = p.For(a)
	}
	if err == nil {
		var c *conn
		if c, err = d.take(nc, p, a, kindOf(nc)); err == nil {
			go c.run()
			return nil
		}
	}
	_ = nc.Close()
	return err
}

// take returns a conn for nc, unless the engine has ended. While it shuts down, nc ends as one
// that was taken before.
func (d *driver) take(nc net.Conn, p engine.Parcel, a engine.Acceptor, k kind) (*conn, error) {
	hooks := engine.HooksOf(a)
	if hooks.Arrived != nil {
		hooks.Arrived()
	}
	c := d.newConn(nc, a, &hooks)
	c.Unread = p.Leftover
	if !p.IsNew() {
		c.awaitsHeader = false
		c.setProxied(engine.ParseProxied(p.Proxy))
	}
	if p.State != nil {
		state := p.State // a variable of this block: only here it is allocated
		c.packed = &state
	}
	// The former owner of an adopted socket sets no deadlines on it.
	c.kind, c.isOurs = k, k != kindAny
	if !c.register() {
		c.conclude()
		return nil, engine.ErrShutdown
	}
	return c, nil
}
