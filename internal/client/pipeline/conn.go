package pipeline

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/client/dial"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/clock"
)

// A conn is the connection of a lane. The lane's goroutine
// writes to it, and a separate goroutine reads from it. The lane's lock guards
// the fields from isAnswering on.
type conn struct {
	lane          *lane
	cfg           *Config
	nc            net.Conn
	peek          pool.Peeker // tests the socket without reading
	local, remote net.Addr
	br            *bufio.Reader
	ended         chan struct{} // closed when the reading goroutine has ended
	out           []byte        // the bytes of one write; the writer's
	total         int64         // bytes of all requests so far; the writer's
	written       atomic.Int64  // bytes that the connection accepted
	phase         atomic.Uint32 // a connPhase; changed under the lock

	isAnswering bool  // it failed within the answer to the first of sent
	err         error // why the connection ended
	writeErr    error // why writing failed
	answers     int   // number of answers
	tick        *time.Timer
	seen        int // value of answers at the last tick
	quiet       int // consecutive ticks without an answer
}

// connPhase is a part of the life of a connection, which goes through the phases
// in order.
type connPhase uint32

const (
	connOpen    connPhase = iota
	connClosing           // nothing more is sent on it
	connOver              // it has failed or was closed
)

// enterLocked begins a phase, unless the connection is in that phase or a later one.
// Called with the lock.
func (k *conn) enterLocked(phase connPhase) (entered bool) {
	entered = k.is() < phase
	if entered {
		k.phase.Store(uint32(phase))
	}
	return entered
}

func (k *conn) is() connPhase { return connPhase(k.phase.Load()) }

func (k *conn) isOver() bool { return k.is() == connOver }

// idleTicks is the number of checks in MaxIdle. Because of the checks, using a
// connection needs no clock.
const idleTicks = 4

// refusalTime is how long the conn reads from a broken connection, for an answer
// that arrived before.
const refusalTime = time.Second

func newConn(l *lane, nc net.Conn) *conn {
	k := &conn{
		lane: l, cfg: l.cfg, nc: nc,
		local: nc.LocalAddr(), remote: nc.RemoteAddr(),
		br:    bufio.NewReaderSize(nc, l.cfg.ReadBuffer),
		ended: make(chan struct{}),
	}
	if _, isTLS := nc.(dial.Secure); !isTLS && !l.cfg.IsTLS {
		k.peek.Init(nc) // TLS sends unsolicited messages of its own
	}
	return k
}

// serve writes what is queued until the connection has ended and nothing uses
// it any more.
func (k *conn) serve() {
	l := k.lane
	l.mu.Lock()
	k.tick = time.AfterFunc(k.interval(), k.watch)
	l.mu.Unlock()
	// This check must precede the reader. Otherwise the reader could consume
	// unsolicited bytes and take them for the answer to a request that is sent
	// meanwhile.
	isQuiet := k.peek.IsQuiet()
	go k.read()
	for isQuiet && k.awaitWork() {
		l.gather()
		if k.collect() {
			k.flush()
		}
	}
	<-k.ended
}

// awaitWork waits until there is something to write. It returns false if the
// connection has ended.
func (k *conn) awaitWork() bool {
	l := k.lane
	l.mu.Lock()
	// hasQueued is the first: sleep does not wait while a request is in arrived.
	for !k.isOver() && (!l.hasQueuedLocked() || k.is() == connClosing || l.isFull()) {
		wasFull := l.isFull()
		l.mu.Unlock()
		l.sleep(k, wasFull)
		l.mu.Lock()
	}
	isIdle := l.sent.first == nil
	l.mu.Unlock()
	if k.isOver() {
		return false
	}
	if isIdle && !k.peek.IsQuiet() {
		// The server has closed the connection or sent unsolicited bytes. The
		// reader has not noticed that yet.
		k.fail(io.EOF)
		return false
	}
	return true
}

// collect moves requests from the queue into out.
func (k *conn) collect() bool {
	l := k.lane
	k.out = k.out[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.isOver() || !l.hasQueuedLocked() {
		return false
	}
	wasIdle, n := l.sent.first == nil, 0
	for ; len(k.out) < k.cfg.WriteBuffer && k.is() == connOpen && !l.isFull(); n++ {
		w := l.queued.pop()
		if w == nil {
			break
		}
		w.state = workSent
		w.at = k.total + int64(len(k.out))
		k.out = append(k.out, w.Out...)
		if w.IsLast {
			k.enterLocked(connClosing)
		}
		l.sent.push(w)
		l.unanswered.Add(1)
	}
	l.vacate(n)
	if n > 1 {
		l.alone = 0
	}
	if wasIdle && n > 0 {
		k.quiet = 0
		k.boundReadLocked()
	}
	return len(k.out) > 0
}

// boundReadLocked sets the deadline of the next answer. Called with the lock.
func (k *conn) boundReadLocked() {
	timeout := k.cfg.ReadTimeout
	if timeout <= 0 || k.writeErr != nil {
		return
	}
	var at time.Time
	if k.lane.sent.first != nil {
		at = clock.Deadline(clock.Later(clock.Nanos(), timeout))
	}
	_ = k.nc.SetReadDeadline(at) // a broken connection fails when it is read
}

// flush writes out. If that fails, answers may still arrive: to earlier
// requests, or one that says why the server refuses the rest. The reader has
// refusalTime for them.
func (k *conn) flush() {
	timeout := k.cfg.WriteTimeout
	if timeout > 0 {
		_ = k.nc.SetWriteDeadline(clock.Deadline(clock.Later(clock.Nanos(), timeout)))
	}
	n, err := k.nc.Write(k.out)
	k.total += int64(len(k.out))
	k.written.Add(int64(n))
	if cap(k.out) > 2*k.cfg.WriteBuffer {
		k.out = nil
	}
	if err == nil {
		return
	}
	l := k.lane
	l.mu.Lock()
	k.enterLocked(connClosing)
	k.writeErr = err
	_ = k.nc.SetReadDeadline(clock.Deadline(clock.Nanos() + int64(refusalTime)))
	l.mu.Unlock()
}

// fail closes the connection and records err as the reason. Only the first call
// has an effect.
func (k *conn) fail(err error) {
	l := k.lane
	l.mu.Lock()
	isFirst := k.enterLocked(connOver)
	if isFirst {
		k.err = err
	}
	l.mu.Unlock()
	if !isFirst {
		return
	}
	l.rouse()
	if err == errIdle || err == errLast {
		dial.Close(k.nc)
		return
	}
	dial.Cut(k.nc) // the server may have stopped reading, and calls wait for this
	if err != io.EOF {
		k.cfg.Log(err)
	}
}

// outcome returns why the connection ended. Call it only after that.
func (k *conn) outcome() error {
	if k.writeErr != nil {
		return k.writeErr
	}
	return k.err
}

// read reads answers until the connection ends.
func (k *conn) read() {
	defer close(k.ended)
	k.fail(k.readAll())
}

func (k *conn) readAll() error {
	var w *Work
	for {
		if _, err := k.br.Peek(1); err != nil {
			return err
		}
		if w == nil {
			if w = k.first(); w == nil {
				return errUnsolicited
			}
		}
		isLast, err := w.answer.Read(k.br, k.local, k.remote)
		if err != nil {
			k.breakOff()
			return err
		}
		isLast = isLast || w.IsLast
		w = k.answered()
		switch {
		case isLast:
			return errLast
		case w == nil && k.br.Buffered() > 0:
			return errUnsolicited
		}
	}
}

// first returns the request whose answer is next, or nil if there is none. It
// stays the first until answered removes it.
func (k *conn) first() *Work {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	return k.lane.sent.first
}

// breakOff records that the connection failed within an answer.
func (k *conn) breakOff() {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	k.isAnswering = true
}

// answered completes the first request, whose answer was read. It returns the
// next request.
func (k *conn) answered() *Work {
	l := k.lane
	l.mu.Lock()
	w := l.sent.pop()
	k.answers++
	next := l.sent.first
	k.boundReadLocked()
	wasFull := l.isFull()
	l.unanswered.Add(-1)
	isAbandoned := w.state == workAbandoned
	w.state = workDone
	l.mu.Unlock()
	if wasFull {
		l.rouse()
	}
	if isAbandoned {
		w.answer.Release()
	} else {
		w.done <- struct{}{}
	}
	return next
}

// interval returns the time between two ticks.
func (k *conn) interval() time.Duration {
	return max(k.cfg.MaxIdle/idleTicks, time.Millisecond)
}

// watch closes the connection if it is unused, or if there is no answer and the
// call of the first unanswered request was given up. The timer calls it.
func (k *conn) watch() {
	l := k.lane
	l.mu.Lock()
	if k.isOver() {
		l.mu.Unlock()
		return
	}
	k.quiet++
	if k.answers != k.seen {
		k.seen, k.quiet = k.answers, 0
	}
	first := l.sent.first
	isIdle := l.pending() == 0
	if k.quiet < idleTicks || !isIdle && (first == nil || first.state != workAbandoned) {
		k.tick.Reset(k.interval())
		l.mu.Unlock()
		return
	}
	k.enterLocked(connClosing)
	l.mu.Unlock()
	if isIdle {
		k.fail(errIdle)
	} else {
		k.fail(errNoAnswer)
	}
}
