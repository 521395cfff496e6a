package netconn

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A serving is one call of Serve.
type serving struct {
	driver   *driver
	listener net.Listener
	acceptor engine.Acceptor
	hooks    engine.Hooks // of acceptor
	isOurs   bool         // only the engine sets deadlines on its connections

	accepted chan *conn // unbuffered: for a goroutine that waits
	idle     atomic.Int32

	once sync.Once
	stop chan struct{} // closed by Shutdown
	gone chan struct{} // closed when Serve accepts no more
}

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
		accepted: make(chan *conn),
		stop:     make(chan struct{}),
		gone:     make(chan struct{}),
	}
	d.mu.Lock()
	if d.closing.Load() {
		d.mu.Unlock()
		return engine.ErrShutdown
	}
	d.servings[s] = struct{}{}
	d.mu.Unlock()
	defer s.leave()
	return s.accept()
}

// leave takes s out of the engine, when it accepts no more.
func (s *serving) leave() {
	d := s.driver
	d.mu.Lock()
	delete(d.servings, s)
	d.mu.Unlock()
	close(s.gone)
}

// isOfNet tells whether ln's connections come from package net alone, and TLS of
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

// accept accepts until the listener fails or Shutdown is called.
func (s *serving) accept() error {
	var backoff engine.Backoff
	for !s.hasEnded() {
		nc, err := s.listener.Accept()
		switch {
		case err == nil:
			backoff.Reset()
			s.serve(nc)
		case s.hasEnded():
		case !engine.IsTemporary(err):
			return err
		default:
			s.acceptor.AcceptError(err)
			s.pause(backoff.Next())
		}
	}
	if l, ok := s.listener.(deadliner); ok {
		_ = l.SetDeadline(noTime()) // the listener may be served again
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

// end makes Serve return. A listener that cannot be interrupted otherwise is closed.
func (s *serving) end() {
	s.once.Do(func() {
		close(s.stop)
		if l, ok := s.listener.(deadliner); ok && l.SetDeadline(past()) == nil {
			return
		}
		_ = s.listener.Close()
	})
}

// serve has an accepted connection served, unless Divert takes it.
func (s *serving) serve(nc net.Conn) {
	if hook := s.hooks.Arrived; hook != nil {
		hook()
	}
	if s.hooks.Divert != nil && s.diverts(nc) {
		return
	}
	c := s.driver.newConn(nc, s.acceptor, s.hooks.Departed)
	c.mayGo, c.isOurs = isBare(nc), s.isOurs
	c.register()
	select {
	case s.accepted <- c:
	default:
		go s.work(c)
	}
}

// idleWorkers is how many goroutines may wait for a connection. A new goroutine would
// cost more than the wait, because its stack must grow in several steps.
const idleWorkers = 16

// work is the goroutine of a connection, and of others that are accepted after it.
func (s *serving) work(c *conn) {
	for c != nil && c.run() {
		if c = nil; s.idle.Add(1) <= idleWorkers {
			select {
			case c = <-s.accepted:
			case <-s.gone:
			}
		}
		s.idle.Add(-1)
	}
}

// diverts offers nc to the Divert hook, and tells whether the hook has taken it.
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
	c, err := d.take(nc, engine.Parcel{Leftover: leftover}, a, false)
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
	p, err := p.For(a)
	if err == nil {
		var c *conn
		if c, err = d.take(nc, p, a, isBare(nc)); err == nil {
			go c.run()
			return nil
		}
	}
	_ = nc.Close()
	return err
}

// take returns a conn for nc, unless the engine shuts down.
func (d *driver) take(nc net.Conn, p engine.Parcel, a engine.Acceptor, mayGo bool) (*conn, error) {
	hooks := engine.HooksOf(a)
	if hooks.Arrived != nil {
		hooks.Arrived()
	}
	c := d.newConn(nc, a, hooks.Departed)
	c.Unread, c.packed = p.Leftover, p.State
	// The former owner of an adopted socket sets no deadlines on it.
	c.mayGo, c.isOurs = mayGo, mayGo
	c.register()
	if d.closing.Load() {
		c.conclude()
		return nil, engine.ErrShutdown
	}
	return c, nil
}
