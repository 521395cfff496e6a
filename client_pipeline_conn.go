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
// writes to it, and one of its own reads. The fields below the first group are
// under the lane's lock.
type pipelineLink struct {
	lane          *pipelineLane
	nc            net.Conn
	peek          peeker // looks at the socket without reading
	local, remote net.Addr
	br            *bufio.Reader
	limits        h1.Limits
	maxBody       int
	ended         chan struct{} // closed when nothing reads any more
	out           []byte        // what is written at once; the writer's
	total         int64         // bytes of all requests up to now; the writer's
	written       atomic.Int64  // bytes that the connection took
	isOver        atomic.Bool   // it was closed

	isClosing   bool  // nothing more is sent on it
	isAnswering bool  // it broke within the answer to the first of sent
	isBusy      bool  // sent had something when it was looked at last
	err         error // why it ended
	writeErr    error // why writing did
	answers     int   // responses
	tick        *time.Timer
	seen        int // answers at the last tick
	quiet       int // ticks without an answer
}

const (
	defaultPipelineRead  = 16 << 10
	defaultPipelineWrite = 32 << 10

	// idleTicks is how many times in MaxIdleConnDuration it is looked whether a
	// connection is used: using it costs no look at the clock.
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
		k.peek.init(nc) // TLS has messages of its own that come unasked
	}
	return k
}

// serve writes what is queued, until the connection ends and nothing uses it any
// more.
func (k *pipelineLink) serve() {
	l := k.lane
	l.mu.Lock()
	k.tick = time.AfterFunc(k.interval(), k.watch)
	l.mu.Unlock()
	// Later, the reader could have taken what the server said first, and take it for
	// the answer to what is sent meanwhile.
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

// awaitWork waits until there is something to write. False: the connection has
// ended.
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
		// The server has closed it, or said something unasked. The reader is about
		// to notice that.
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
	_ = k.nc.SetReadDeadline(at) // a connection that is broken says so when it is read
}

// flush writes out. When that fails, there may still be answers: to what was
// sent before, or one that says why the server doesn't want more.
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

// fail ends the connection because of err.
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

// outcome returns why the connection ended. Called when it has.
func (k *pipelineLink) outcome() error {
	if k.writeErr != nil {
		return k.writeErr
	}
	return k.err
}

// callerError returns what a caller is told when a connection ended with err.
func callerError(err error) error {
	switch {
	case isDeadline(err):
		return ErrTimeout
	case err == io.EOF, err == errConnectionOver, err == errPipelineIdle:
		return errPipelineClosed
	}
	return err
}

// read reads the answers, until the connection ends.
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
			resp.ResetBody() // it may be read once more
			resp.Header.resetForReading()
			return err
		}
		resp.localAddr, resp.remoteAddr = k.local, k.remote
		if h := &resp.Header; w.isHead && h.closesByLength {
			h.connectionClose = false // no body, no end of one
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

// first returns the request that is to be answered next, nil if there is none.
// It stays the first until answered.
func (k *pipelineLink) first() *pipelineWork {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	return k.lane.sent.first
}

// breakOff notes that the connection broke within an answer.
func (k *pipelineLink) breakOff() {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	k.isAnswering = true
}

// answered gives the first request its answer. It returns the next one.
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

// watch ends the connection if it is not used, or if it does not answer what
// nobody waits for any more. The timer calls it.
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
	k.isClosing = true // nothing is sent on it any more
	l.mu.Unlock()
	if isIdle {
		k.fail(errPipelineIdle)
	} else {
		k.fail(errNoAnswer)
	}
}

// errNoAnswer says that a server does not answer any more.
var errNoAnswer = errors.New("sluice: the server does not answer")
