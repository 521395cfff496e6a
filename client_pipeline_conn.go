package sluice

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/h1"
)

// A pipelineLink is the connection of a pipelineLane. The lane's goroutine
// writes to it, and a separate goroutine reads from it. The lane's lock guards
// the fields from isClosing on.
type pipelineLink struct {
	lane          *pipelineLane
	nc            net.Conn
	peek          peeker // tests the socket without reading
	local, remote net.Addr
	br            *bufio.Reader
	limits        h1.Limits
	maxBody       int
	ended         chan struct{} // closed when the reading goroutine has ended
	out           []byte        // the bytes of one write; the writer's
	total         int64         // bytes of all requests so far; the writer's
	written       atomic.Int64  // bytes that the connection accepted
	isOver        atomic.Bool   // the connection has failed or was closed

	isClosing   bool  // nothing more is sent on it
	isAnswering bool  // it failed within the answer to the first of sent
	isBusy      bool  // sent was not empty when it was last checked
	err         error // why the connection ended
	writeErr    error // why writing failed
	answers     int   // number of responses
	tick        *time.Timer
	seen        int // value of answers at the last tick
	quiet       int // consecutive ticks without an answer
}

const (
	defaultPipelineRead  = 16 << 10
	defaultPipelineWrite = 32 << 10

	// idleTicks is the number of checks in MaxIdleConnDuration. Because of the
	// checks, using a connection needs no clock.
	idleTicks = 4
)

func newPipelineLink(l *pipelineLane, nc net.Conn) *pipelineLink {
	k := &pipelineLink{
		lane: l, nc: nc,
		local: nc.LocalAddr(), remote: nc.RemoteAddr(),
		br:      bufio.NewReaderSize(nc, sizeOr(l.c.ReadBufferSize, defaultPipelineRead)),
		limits:  l.c.host.headLimits(),
		maxBody: l.c.MaxResponseBodySize,
		ended:   make(chan struct{}),
	}
	if _, isTLS := nc.(*tls.Conn); !isTLS && !l.c.IsTLS {
		k.peek.init(nc) // TLS sends unsolicited messages of its own
	}
	return k
}

// serve writes what is queued until the connection has ended and nothing uses
// it any more.
func (k *pipelineLink) serve() {
	l := k.lane
	l.mu.Lock()
	k.tick = time.AfterFunc(k.interval(), k.watch)
	l.mu.Unlock()
	// This check must precede the reader. Otherwise the reader could consume
	// unsolicited bytes and take them for the answer to a request that is sent
	// meanwhile.
	isQuiet := k.peek.isQuiet()
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
func (k *pipelineLink) awaitWork() bool {
	l := k.lane
	l.mu.Lock()
	for !k.isOver.Load() && (k.isClosing || !l.hasQueued() || l.isFull()) {
		wasFull := l.isFull()
		l.mu.Unlock()
		l.sleep(&k.isOver, wasFull)
		l.mu.Lock()
	}
	isIdle := l.sent.first == nil
	l.mu.Unlock()
	if k.isOver.Load() {
		return false
	}
	if isIdle && !k.peek.isQuiet() {
		// The server has closed the connection or sent unsolicited bytes. The
		// reader has not noticed that yet.
		k.fail(io.EOF)
		return false
	}
	return true
}

// collect moves requests from the queue into out.
func (k *pipelineLink) collect() bool {
	l := k.lane
	size := sizeOr(l.c.WriteBufferSize, defaultPipelineWrite)
	k.out = k.out[:0]
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.isOver.Load() || !l.hasQueued() {
		return false
	}
	n := 0
	for ; len(k.out) < size && !k.isClosing && !l.isFull(); n++ {
		w := l.queued.pop()
		if w == nil {
			break
		}
		w.state = workSent
		w.at = k.total + int64(len(k.out))
		k.out = append(k.out, w.out...)
		k.isClosing = w.closes
		l.sent.push(w)
		l.unanswered.Add(1)
	}
	l.vacate(n)
	if n > 1 {
		l.alone = 0
	}
	if l.sent.first != nil && !k.isBusy {
		k.isBusy, k.quiet = true, 0
		k.boundRead()
	}
	return len(k.out) > 0
}

// boundRead sets the deadline of the next answer. Called with the lock.
func (k *pipelineLink) boundRead() {
	timeout := k.lane.c.ReadTimeout
	if timeout <= 0 || k.writeErr != nil {
		return
	}
	var at time.Time
	if k.isBusy {
		at = clock.Deadline(clock.Nanos() + int64(timeout))
	}
	_ = k.nc.SetReadDeadline(at) // a broken connection fails when it is read
}

// flush writes out. If that fails, answers may still arrive: to earlier
// requests, or one that says why the server refuses the rest. The reader has
// refusalTime for them.
func (k *pipelineLink) flush() {
	timeout := k.lane.c.WriteTimeout
	if timeout > 0 {
		_ = k.nc.SetWriteDeadline(clock.Deadline(clock.Nanos() + int64(timeout)))
	}
	n, err := k.nc.Write(k.out)
	k.total += int64(len(k.out))
	k.written.Add(int64(n))
	if cap(k.out) > 2*sizeOr(k.lane.c.WriteBufferSize, defaultPipelineWrite) {
		k.out = nil
	}
	if err == nil {
		return
	}
	l := k.lane
	l.mu.Lock()
	k.isClosing, k.writeErr = true, err
	_ = k.nc.SetReadDeadline(clock.Deadline(clock.Nanos() + int64(refusalTime)))
	l.mu.Unlock()
}

// fail closes the connection and records err as the reason. Only the first call
// has an effect.
func (k *pipelineLink) fail(err error) {
	l := k.lane
	l.mu.Lock()
	isFirst := !k.isOver.Load()
	if isFirst {
		k.err = err
		k.isOver.Store(true)
	}
	l.mu.Unlock()
	if !isFirst {
		return
	}
	l.rouse()
	_ = k.nc.Close()
	if err != io.EOF && err != errPipelineIdle && err != errConnectionOver {
		l.logError(err)
	}
}

// outcome returns why the connection ended. Call it only after that.
func (k *pipelineLink) outcome() error {
	if k.writeErr != nil {
		return k.writeErr
	}
	return k.err
}

// callerError returns the error for a caller when a connection ended with err.
func callerError(err error) error {
	switch {
	case isDeadline(err):
		return ErrTimeout
	case err == io.EOF, err == errConnectionOver, err == errPipelineIdle:
		return errPipelineClosed
	}
	return err
}

// read reads answers until the connection ends.
func (k *pipelineLink) read() {
	defer close(k.ended)
	k.fail(k.readAll())
}

func (k *pipelineLink) readAll() error {
	var w *pipelineWork
	for {
		if _, err := k.br.Peek(1); err != nil {
			return err
		}
		if w == nil {
			if w = k.first(); w == nil {
				return errUnsolicited
			}
		}
		resp := w.into
		if err := resp.readFrom(k.br, k.limits, k.maxBody, w.isTunnel); err != nil {
			k.breakOff()
			resp.ResetBody() // another connection may read into it
			resp.Header.resetForReading()
			return err
		}
		resp.localAddr, resp.remoteAddr = k.local, k.remote
		if h := &resp.Header; w.isHead && h.closesByLength {
			h.connectionClose = false // there is no body that closing would end
		}
		persists := !w.closes && !resp.ConnectionClose() && resp.StatusCode() != StatusSwitchingProtocols
		w = k.answered()
		switch {
		case !persists:
			return errConnectionOver
		case w == nil && k.br.Buffered() > 0:
			return errUnsolicited
		}
	}
}

// first returns the request whose answer is next, or nil if there is none. It
// stays the first until answered removes it.
func (k *pipelineLink) first() *pipelineWork {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	return k.lane.sent.first
}

// breakOff records that the connection failed within an answer.
func (k *pipelineLink) breakOff() {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	k.isAnswering = true
}

// answered completes the first request, whose answer was read. It returns the
// next request.
func (k *pipelineLink) answered() *pipelineWork {
	l := k.lane
	l.mu.Lock()
	w := l.sent.pop()
	k.answers++
	next := l.sent.first
	k.isBusy = next != nil
	k.boundRead()
	wasFull := l.isFull()
	l.unanswered.Add(-1)
	isAbandoned := w.state == workAbandoned
	w.state = workDone
	l.mu.Unlock()
	if wasFull {
		l.rouse()
	}
	if isAbandoned {
		l.c.works.release(w)
	} else {
		w.done <- struct{}{}
	}
	return next
}

// interval returns the time between two ticks.
func (k *pipelineLink) interval() time.Duration {
	return max(k.lane.c.host.maxIdle()/idleTicks, time.Millisecond)
}

// watch closes the connection if it is unused, or if there is no answer and the
// call of the first unanswered request was given up. The timer calls it.
func (k *pipelineLink) watch() {
	l := k.lane
	l.mu.Lock()
	if k.isOver.Load() {
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
	k.isClosing = true // nothing more is sent on it
	l.mu.Unlock()
	if isIdle {
		k.fail(errPipelineIdle)
	} else {
		k.fail(errNoAnswer)
	}
}

// errNoAnswer is the error of a connection whose server has stopped answering.
var errNoAnswer = errors.New("sluice: the server does not answer")
