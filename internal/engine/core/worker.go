//go:build linux && (amd64 || arm64)

package core

import (
	"runtime"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
)

// A worker is a goroutine that serves claimed connections, one after the other.
// It lends each of them its buffers, and a conn to those that have none.
type worker struct {
	loop    *loop
	conn    *conn       // what it serves; nil: nothing
	task    engine.Task // what it runs instead, or has run; nil: nothing
	spare   *conn       // for the next connection that has none; at rest if it isUsual, otherwise reset
	input   *buf.Buffer
	output  *buf.Buffer
	wide    *buf.Buffer // in place of input during serve; see wideInput
	lent    *conn       // was the last to get input and output; nil: they have changed since
	isWide  bool        // the last message of a Receiver fits into wide, and not into input
	peer    netConn     // lent to Acceptor's Admit and Release
	claimed []int32     // see sendBatches

	more    chan struct{} // buffered; receives when there is work, or on dismissal
	below   *worker       // in runQueue.idle
	batch   *batch        // that it fills first; nil: there are none
	role    role          // guarded by runQueue.mu
	mayHold bool          // a spare worker is runnable, so output may wait in a batch
	isDone  bool          // run has returned normally
	isLast  bool          // it ends when it finds nothing to do: a handshake has failed, maybe one of thousands
	// unlooked is how many handlers it runs before it looks at the clock again.
	unlooked int8
}

// A role is what a worker is in its runQueue. A spare becomes a regular worker when it looks
// at the queue, and a regular one that is idle becomes the spare, or is dismissed. The reserve
// is never idle, and nor is the loop's goroutine: they stay what they are until they end.
type role uint8

const (
	roleRegular   role = iota
	roleSpare          // it is runnable, and has not looked at the queue yet
	roleReserve        // see runQueue
	roleDismissed      // it ends when it finds nothing to do
	roleLoop           // the loop's goroutine: see direct; it is not in the runQueue
)

// A worker yields to other goroutines after turnsInARow: to timers, the loop, and goroutines that
// wait for other sockets. A connection counts as connectionTurns, because it may have many requests.
// A task is one turn, because the answers of a burst share packets if they come together.
const (
	turnsInARow     = 256
	connectionTurns = 4
)

// run serves connections until the worker is no longer needed.
func (w *worker) run() {
	defer w.end()
	for turns := 0; ; {
		fd, ok := w.loop.queue.next(w)
		if !ok {
			break
		}
		if w.mustLook() {
			w.sendBeforeWork()
		}
		if w.task != nil {
			engine.RunTask(w.task)
			turns++
		} else {
			w.attend(fd).serve() // with few frames, as handlers wait
			w.conn = nil
			w.dropWide()
			turns += connectionTurns
		}
		if turns >= turnsInARow {
			turns = 0
			w.flushBatches()
			runtime.Gosched()
		}
	}
	w.flushBatches()
	w.isDone = true
}

// attend returns the conn of the claimed connection fd, with the worker's buffers, to be served.
func (w *worker) attend(fd int) *conn {
	d := w.loop.driver
	p := d.table.find(fd)
	c := p.conn().Load()
	if c == nil {
		if c = w.spare; c != nil && c.isUsual && c.rebind(p, fd) {
			w.spare = nil
		} else {
			c = w.borrow(p, fd)
		}
	}
	w.conn = c
	if c.worker != w || w.lent != c {
		c.attach(w)
	}
	return c
}

// borrow returns a conn for the connection at p, which has none, and cannot have the spare by rebind.
func (w *worker) borrow(p place, fd int) *conn {
	d, c := w.loop.driver, w.spare
	w.spare = nil
	if c == nil {
		c = d.conns.get()
	} else if c.isUsual {
		c.reset()
	}
	c.bind(d, p, fd)
	return c
}

// keep takes back a conn that no connection uses any more.
func (w *worker) keep(c *conn) {
	if c.isUsual && w.spare == nil {
		c.rest()
		w.spare = c
		return
	}
	c.reset()
	if w.spare == nil {
		w.spare = c
		return
	}
	c.releaseRetired()
	w.loop.driver.conns.put(c)
}

// describe returns the net.Conn for Admit and Release, which is valid during the
// call only.
func (w *worker) describe(c *conn) *netConn {
	if int(w.peer.fd) != c.fd || w.peer.gen != c.gen { // the last one was another
		w.peer = c.describe()
	}
	return &w.peer
}

// workerMemory is the approximate size of a worker's stack and buffers.
const workerMemory = 32 << 10

// pause is called before the worker waits for work. The worker keeps its buffers:
// getting them from the pool and returning them costs 2 % of a request, and idle
// workers end soon.
func (w *worker) pause() {
	// Nested LockOSThread calls of a handler are undone, four of them: otherwise every switch
	// costs microseconds.
	runtime.UnlockOSThread()
	runtime.UnlockOSThread()
	runtime.UnlockOSThread()
	runtime.UnlockOSThread()
}

// dropBuffers releases the buffers. The worker gets others when they are needed.
func (w *worker) dropBuffers() {
	w.lent = nil
	if w.input != nil {
		w.input.Release()
		w.input = nil
	}
	if w.output != nil {
		w.output.Release()
		w.output = nil
	}
	w.dropWide()
}

func (w *worker) dropWide() {
	if w.wide != nil {
		w.wide.Release()
		w.wide = nil
	}
}

// end is run's deferred call. It cleans up if Goexit or a panic in a handler has
// ended run.
func (w *worker) end() {
	cause := engine.ErrGoexit
	if v := recover(); v != nil {
		if w.role == roleLoop && w.conn == nil {
			panic(v) // no handler did that: all connections of the loop would wait for ever
		}
		cause = &engine.PanicError{Value: v, Stack: debug.Stack()}
	}
	if c := w.conn; c != nil {
		c.abandon(cause)
	}
	w.dropBuffers()
	buf.LetGo(workerMemory) // the stack is free, too
	switch {
	case w.role == roleLoop:
		w.loop.queue.endTask(w)
	case !w.isDone:
		w.loop.queue.lost(w)
	}
	w.loop.gone.Done()
}
