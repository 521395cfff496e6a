//go:build linux && (amd64 || arm64)

package epoll

import (
	"runtime"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A worker is a goroutine that serves claimed connections, one after the other.
// It lends each of them its buffers, and a conn to those that have none.
type worker struct {
	loop   *loop
	conn   *conn // what it serves; nil: nothing
	spare  *conn // for the next connection that has none
	input  *buf.Buffer
	output *buf.Buffer
	peer   netConn // lent to Acceptor's Admit and Release

	more        chan struct{} // buffered; told when there is work, or none for it
	below       *worker       // in runQueue.idle
	isSpare     bool
	isDismissed bool
	isDone      bool // run went its normal way
}

// connectionsInARow is how many connections a worker serves before others in the
// process have a turn: timers, the loop, and whoever waits for another socket.
const connectionsInARow = 64

// run serves until the worker is not needed.
func (w *worker) run() {
	defer w.end()
	for served := 0; ; {
		fd, ok := w.loop.queue.next(w)
		if !ok {
			break
		}
		w.serve(fd)
		if served++; served%connectionsInARow == 0 {
			runtime.Gosched()
		}
	}
	w.isDone = true
}

// serve serves the claimed connection fd until it waits or has ended.
func (w *worker) serve(fd int) {
	d := w.loop.driver
	p := d.table.find(fd)
	c := p.conn().Load()
	if c == nil {
		c = w.borrow()
		c.bind(d, p, fd)
	}
	w.conn = c
	c.attach(w)
	c.serve()
	w.conn = nil
}

// borrow returns a conn that no connection has.
func (w *worker) borrow() *conn {
	if c := w.spare; c != nil {
		w.spare = nil
		return c
	}
	return w.loop.driver.conns.get()
}

// keep takes back a conn that no connection has any more.
func (w *worker) keep(c *conn) {
	if w.spare == nil {
		w.spare = c
		return
	}
	w.loop.driver.conns.put(c)
}

// describe returns what Admit and Release get of c's connection: it is for the
// time of the call.
func (w *worker) describe(c *conn) *netConn {
	w.peer = netConn{driver: c.driver, serving: c.serving, fd: c.fd, gen: c.gen, remote: c.remote()}
	return &w.peer
}

// workerMemory is about what a worker's stack and its buffers take.
const workerMemory = 32 << 10

// lockedThreads is how many nested LockOSThread calls of a handler are undone.
const lockedThreads = 4

// pause is called before the worker waits for work. It keeps its buffers: taking
// them from the pool and giving them back costs 2 % of a request, and idle
// workers do not last.
func (w *worker) pause() {
	for range lockedThreads {
		runtime.UnlockOSThread() // every switch costs microseconds otherwise
	}
}

// dropBuffers gives the buffers back when the worker ends, and its stack with
// them.
func (w *worker) dropBuffers() {
	buf.LetGo(workerMemory)
	if w.input != nil {
		w.input.Release()
		w.input = nil
	}
	if w.output != nil {
		w.output.Release()
		w.output = nil
	}
}

// end is run's last word. It cleans up when run was cut short: by Goexit in a
// handler, or by a panic.
func (w *worker) end() {
	cause := engine.ErrGoexit
	if v := recover(); v != nil {
		cause = &engine.PanicError{Value: v, Stack: debug.Stack()}
	}
	if c := w.conn; c != nil {
		c.abandon(cause)
	}
	w.dropBuffers()
	if !w.isDone {
		w.loop.queue.lost()
	}
	w.loop.gone.Done()
}
