package netconn

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A serving is one call of Serve. Connections are not handed from an accepting
// goroutine to a serving one: whoever accepted a connection serves it, after
// making sure that somebody else accepts.
type serving struct {
	driver   *driver
	listener net.Listener
	acceptor engine.Acceptor
	hooks    engine.Hooks // of acceptor
	limit    int32        // goroutines that may wait in Accept
	isOurs   bool         // nobody else gets hold of its connections

	// accepting counts the goroutines that are in Accept or on the way to it.
	accepting atomic.Int32

	ended atomic.Bool
	once  sync.Once
	stop  chan struct{} // closed when ended is set
	left  chan struct{} // told when accepting falls to 0 after that
	gone  chan struct{} // closed when Serve is done
	err   error         // why it ended; nil: Shutdown
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
		limit:    int32(2 * runtime.GOMAXPROCS(0)),
		stop:     make(chan struct{}),
		left:     make(chan struct{}, 1),
		gone:     make(chan struct{}),
	}
	s.isOurs = !d.options.NetConnIsKept && isOfNet(ln)
	defer close(s.gone)
	d.mu.Lock()
	if d.closing.Load() {
		d.mu.Unlock()
		return engine.ErrShutdown
	}
	d.servings[s] = struct{}{}
	d.mu.Unlock()

	s.spawn()
	<-s.stop
	if s.err == nil {
		s.await()
		if l, ok := ln.(deadliner); ok {
			_ = l.SetDeadline(time.Time{}) // the listener may be served again
		}
	}
	d.mu.Lock()
	delete(d.servings, s)
	d.mu.Unlock()
	return s.err
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

// spawn starts a worker that is counted as accepting already.
func (s *serving) spawn() {
	s.accepting.Add(1)
	w := newWorker(s.driver)
	w.serving = s
	w.accepting = true
	go w.run()
}

// enter counts w as accepting, unless there are enough or it is over.
func (s *serving) enter(w *worker) bool {
	if !w.accepting {
		if s.accepting.Add(1) > s.limit {
			s.exit()
			return false
		}
		w.accepting = true
	}
	// This look comes after the count, and end waits for the count after it
	// has set ended: nobody calls Accept once end's caller went on.
	if s.ended.Load() {
		s.leave(w)
		return false
	}
	return true
}

// leave undoes enter. The last one to leave sends another worker in.
func (s *serving) leave(w *worker) {
	if !w.accepting {
		return
	}
	w.accepting = false
	if s.exit() && !s.ended.Load() {
		s.spawn()
	}
}

// exit tells whether nobody is left accepting.
func (s *serving) exit() bool {
	if s.accepting.Add(-1) != 0 {
		return false
	}
	if s.ended.Load() {
		select {
		case s.left <- struct{}{}:
		default:
		}
	}
	return true
}

// await returns when nobody is accepting; ended is set.
func (s *serving) await() {
	for s.accepting.Load() > 0 {
		<-s.left
	}
}

// end makes Serve return err.
func (s *serving) end(err error) {
	s.once.Do(func() {
		s.err = err
		s.ended.Store(true)
		close(s.stop)
		if err == nil {
			s.interrupt()
		}
	})
}

// interrupt makes Accept calls return. Listeners that cannot be interrupted
// otherwise are closed.
func (s *serving) interrupt() {
	if l, ok := s.listener.(deadliner); ok && l.SetDeadline(past()) == nil {
		return
	}
	_ = s.listener.Close()
}

// acceptNext accepts connections until one has a protocol. It returns false
// when the worker is not needed any more.
func (w *worker) acceptNext() bool {
	s := w.serving
	for s.enter(w) {
		nc, err := s.listener.Accept()
		if err != nil {
			if w.retryAccept(err) {
				continue
			}
			s.leave(w)
			return false
		}
		w.backoff.Reset()
		if hook := s.hooks.Arrived; hook != nil {
			hook()
		}
		if s.hooks.Divert != nil && s.diverts(nc) {
			continue
		}
		w.adopt(nc, s.acceptor, s.hooks.Departed, true)
		s.leave(w)
		if w.begin() {
			return true
		}
	}
	return false
}

// diverts asks whether nc is somebody else's, and forgets it then.
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

// retryAccept deals with a failed Accept; true means to try again.
func (w *worker) retryAccept(err error) bool {
	s := w.serving
	if s.ended.Load() {
		return false
	}
	if !engine.IsTemporary(err) {
		s.end(err)
		return false
	}
	s.acceptor.AcceptError(err)
	timer := time.NewTimer(w.backoff.Next())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop:
	}
	return true
}
