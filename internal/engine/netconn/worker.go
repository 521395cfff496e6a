package netconn

import (
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A worker is a goroutine and the connection that it serves at the moment. The
// conn inside is used again for the next connection: do not retain it after
// Protocol.Closed.
type worker struct {
	conn
	serving   *serving       // nil: ServeConn
	backoff   engine.Backoff // after a failed Accept
	accepting bool           // counted in serving.accepting
	ended     bool           // run went its normal way
	result    error          // what Protocol.Closed got last
}

func newWorker(d *driver) *worker {
	w := &worker{}
	w.driver = d
	w.shard = d.registry.assign()
	return w
}

// run accepts and serves until the worker is not needed.
func (w *worker) run() {
	defer w.end()
	for w.acceptNext() {
		w.finish(w.pump())
		if w.detached != nil {
			// What the protocol does with the connection may need a stack that
			// the next one must not inherit.
			w.giveToProtocol()
			break
		}
	}
	w.ended = true
}

// end is run's last word, and cleans up when run was cut short: by Goexit in a
// handler, or by a panic.
func (w *worker) end() {
	if v := recover(); v != nil {
		w.Fail(&engine.PanicError{Value: v, Stack: debug.Stack()})
	}
	w.result = w.Err
	if !w.ended {
		if w.Fail(engine.ErrGoexit); w.result == nil {
			w.result = w.Err
		}
		w.closeNow(engine.Abort)
	}
	if w.serving != nil {
		w.serving.leave(w)
	}
}

// ServeConn implements engine.Engine. It serves on the caller's goroutine: a
// handler that calls runtime.Goexit ends that.
func (d *driver) ServeConn(nc net.Conn, leftover []byte, a engine.Acceptor) error {
	w, err := d.take(nc, leftover, a, false)
	if err != nil {
		return err
	}
	w.serveOne()
	result := w.result
	switch {
	case w.isDetached():
		go w.live()
	case w.ended:
		d.workers.put(w)
	}
	return result
}

// AdoptConn implements engine.Engine.
func (d *driver) AdoptConn(nc net.Conn, p engine.Parcel, a engine.Acceptor) error {
	p, err := p.For(a)
	if err != nil {
		_ = nc.Close()
		return err
	}
	w, err := d.take(nc, p.Leftover, a, true)
	if err != nil {
		_ = nc.Close()
		return err
	}
	w.packed = p.State
	go w.runOne()
	return nil
}

// take returns a worker for nc, whose runOne is to be called, unless the engine
// shuts down.
func (d *driver) take(nc net.Conn, leftover []byte, a engine.Acceptor, isOurs bool) (*worker, error) {
	hooks := engine.HooksOf(a)
	if hooks.Arrived != nil {
		hooks.Arrived()
	}
	w := d.workers.get(d)
	w.adopt(nc, a, hooks.Departed, isOurs)
	if d.closing.Load() {
		w.depart()
		w.unregister()
		return nil, engine.ErrShutdown
	}
	w.Unread = leftover
	return w, nil
}

// runOne serves the connection that w was made for to its end.
func (w *worker) runOne() {
	w.serveOne()
	if w.isDetached() {
		w.live()
	}
}

// serveOne serves the connection that w was made for until it is closed, or
// detached by a Run: then live is to be called.
func (w *worker) serveOne() {
	defer w.end()
	if w.begin() {
		isStarted := w.next != engine.Read // Protocol.Start wants the connection
		w.finish(w.pump())
		if w.detached != nil && isStarted {
			w.giveToProtocol()
		}
	}
	w.ended = true
}

// isDetached tells whether live is to be called.
func (w *worker) isDetached() bool { return w.detached != nil && w.Protocol != nil }

// live is the rest of a detached connection's life.
func (w *worker) live() {
	defer w.end()
	w.ended = false
	w.giveToProtocol()
	w.ended = true
}
