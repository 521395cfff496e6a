package perconn

import (
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A worker is a goroutine and the connection that it serves at the moment. The
// conn inside is used again for the next connection: nobody may hold it beyond
// Protocol.Closed.
//
// On the raw path the goroutine's own frames must fit into a stack of 2 KB for
// good. So the methods that run on it (run, serve, step, and inside RawConn.Read
// input) do nothing but switch to a coroutine.
type worker struct {
	conn
	serving   *serving   // nil: ServeConn
	co        *coroutine // borrowed
	input     func(fd uintptr) bool
	readErr   error          // why RawConn.Read returned
	backoff   engine.Backoff // after a failed Accept
	accepting bool           // counted in serving.accepting
	broken    bool           // a panic came out of a task
	ended     bool           // run went its normal way
	result    error          // what Protocol.Closed got last
}

func newWorker(d *driver) *worker {
	w := &worker{}
	w.driver = d
	w.shard = d.registry.assign()
	w.input = w.inputReady
	return w
}

// run accepts and serves until the worker is not needed.
func (w *worker) run() {
	defer w.end()
	for !w.broken && w.accept() {
		w.serve()
		if w.detached != nil {
			// What the protocol does with the connection needs a stack that
			// the next one must not inherit.
			w.giveBack()
			w.giveToProtocol()
			break
		}
	}
	w.ended = !w.broken
}

func (w *worker) accept() bool {
	if w.serving.yieldsRaw.Load() {
		return w.step(taskAccept)
	}
	return w.acceptNext()
}

// serve serves the connection to its end.
func (w *worker) serve() {
	switch {
	case !w.raw.enabled():
		w.finish(w.runPlain())
	case w.next != engine.Read: // the protocol's Start said so
		w.readErr = nil
		w.step(taskLeft)
	default:
		for again := true; again; again = w.step(taskLeft) {
			w.readErr = w.raw.read(w.input)
		}
	}
}

// step runs one task on a coroutine.
func (w *worker) step(t task) bool {
	co := w.co
	if co == nil {
		co = w.driver.stacks.get(w.shard)
		w.co = co
	}
	co.worker, co.task = w, t
	co.resume()
	return co.result
}

// inputReady is what RawConn.Read calls, at first and whenever the socket may
// have become readable. True leaves RawConn.Read.
func (w *worker) inputReady(fd uintptr) bool {
	w.raw.enter(fd)
	leave := w.step(taskInput)
	w.raw.exit()
	if !leave {
		w.giveBack()
	}
	return leave
}

// giveBack returns the coroutine, so that waiting holds none.
func (w *worker) giveBack() {
	co := w.co
	if co != nil {
		w.co, co.worker = nil, nil
		co.home.put(co)
	}
}

// perform is the coroutine's side of step.
func (w *worker) perform(t task) bool {
	switch t {
	case taskAccept:
		return w.acceptNext()
	case taskOpen:
		return w.begin()
	case taskInput:
		return w.inputRaw(w.co)
	default:
		return w.leftRaw(w.co)
	}
}

// panicked takes note of a panic out of a task, and returns the task's result.
// Protocols must not let one out; the process survives it anyway.
func (w *worker) panicked(t task, value any) bool {
	w.broken = true
	w.fail(&engine.PanicError{Value: value, Stack: debug.Stack()})
	return t == taskInput // leave RawConn.Read; elsewhere end the worker
}

// end is run's last word, and cleans up when run was cut short: by Goexit in a
// handler (which a coroutine passes on to the goroutine that resumed it), or by
// a panic.
func (w *worker) end() {
	if v := recover(); v != nil {
		w.fail(&engine.PanicError{Value: v, Stack: debug.Stack()})
	}
	w.result = w.err
	if w.ended {
		w.giveBack()
	} else {
		w.abandon()
	}
	if w.serving != nil {
		w.serving.leave(w)
	}
}

// abandon ends the connection of a worker that cannot go on.
func (w *worker) abandon() {
	if co := w.co; co != nil {
		// Of a coroutine that Goexit has ended only the memory is left; one
		// that a panic came out of is not worth keeping. stop does for both.
		w.co, co.worker = nil, nil
		co.end()
	}
	if w.fail(engine.ErrGoexit); w.result == nil {
		w.result = w.err
	}
	w.raw.exit()
	w.closeNow(engine.Abort)
}

// ServeConn implements engine.Engine. On the plain path it serves on the
// caller's goroutine: a handler that calls runtime.Goexit ends that.
func (d *driver) ServeConn(nc net.Conn, leftover []byte, a engine.Acceptor) error {
	w, err := d.take(nc, leftover, a, false)
	if err != nil {
		return err
	}
	if w.raw.enabled() {
		return w.serveApart()
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

// serveApart is serveOne on a goroutine of its own: the caller may be locked to
// a thread, which may not switch coroutines.
func (w *worker) serveApart() (result error) {
	done := make(chan struct{})
	go func() {
		func() {
			defer func() { result = w.result; close(done) }()
			w.serveOne()
		}()
		if w.isDetached() {
			w.live()
		}
	}()
	<-done
	return result
}

// AdoptConn implements engine.Engine.
func (d *driver) AdoptConn(nc net.Conn, leftover []byte, a engine.Acceptor) error {
	w, err := d.take(nc, append([]byte(nil), leftover...), a, true)
	if err != nil {
		_ = nc.Close()
		return err
	}
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
	w.unread = leftover
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
	open := false
	if w.raw.enabled() {
		open = w.step(taskOpen)
	} else {
		open = w.begin()
	}
	if open && !w.broken {
		isStarted := w.next != engine.Read // Protocol.Start wants the connection
		w.serve()
		if w.detached != nil {
			w.giveBack()
			if isStarted {
				w.giveToProtocol()
			}
		}
	}
	w.ended = !w.broken
}

// isDetached tells whether live is to be called.
func (w *worker) isDetached() bool { return w.detached != nil && w.protocol != nil }

// live is the rest of a detached connection's life.
func (w *worker) live() {
	defer w.end()
	w.ended = false
	w.giveToProtocol()
	w.ended = true
}
