package http2

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/drive"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A protocolConn serves an engine.Protocol on the stream of an extended CONNECT (RFC 8441), as an
// engine serves one on a connection. It calls the Protocol in Tasks, one after the other.
// While there is nothing to do, it has no Task and no buffer, and the Protocol sleeps if it
// can. DATA is input. It gets credit when the Protocol has used it. What the Stream holds
// is the room for output.
//
// It is the engine.Conn of the Protocol, without what only HTTP/1.1 needs: Blocking, Fill,
// WriteBuffers, SendFile and OnPeerGone.
type protocolConn struct {
	streamConn // its engine.Conn is nil, because that may be over
	addrs      net.Conn

	// A Task has these.
	drive.State
	memo       engine.Memo // of a Protocol that sleeps
	input      *buf.Buffer // of Unread; nil: none
	output     *buf.Buffer // of Out; nil: none
	uncredited int         // bytes of input without credit: Unread, and what was used since
	deadline   int64       // what SetReadDeadline has set, in Nanos; 0: none
	hasEnded   bool        // the Protocol has ended the stream

	// Conn.mu guards these. Functions whose caller must hold it end in Locked.
	isBusy       bool // a Task is queued, or runs
	isPrompted   bool
	isHalfClosed bool // HalfClosed was called
}

var (
	_ engine.Conn = (*protocolConn)(nil)
	_ engine.Task = (*protocolConn)(nil)
	_ drive.Host  = (*protocolConn)(nil)
)

// A step is what a Task of a protocolConn does.
type step uint8

const (
	stepNone step = iota // the Task ends
	stepResume
	stepPrompted
	stepFeed
	stepTimedOut
	stepHalfClosed
	stepEnd // the stream is over
)

// ServeProtocol leaves the stream of an extended CONNECT to the Protocol that open returns, with
// what that sends first. The final head must have been sent. open gets the stream's
// engine.Conn, with the addresses of addrs, and may block. If it returns nil, the stream is
// reset. Call ServeProtocol at the end of Exchange.serve, which returns outlived then: the stream may
// have ended already.
func (s *Stream) ServeProtocol(addrs net.Conn, open func(c engine.Conn, out []byte) (engine.Protocol, []byte)) {
	c := s.conn
	x := &protocolConn{streamConn: streamConn{conn: c, prompter: c.prompter, stream: s}, addrs: addrs, isBusy: true}
	x.ServedBy(x)
	c.mu.Lock()
	s.owner, s.streamConn, s.protocol = ownerProtocol, &x.streamConn, x
	x.isPrompted = c.notifiedStage != server.StageServing
	c.heads, s.head = c.heads-s.head, 0
	c.mu.Unlock()
	x.acquireOutput()
	p, out := open(x, x.Out)
	c.mu.Lock()
	if p == nil {
		defer c.unlock()
		x.releaseStreamLocked()
		return
	}
	s.readDue, s.writeDue = 0, 0
	c.prompter.Prompt() // the head, too
	c.mu.Unlock()
	x.Out = out
	next := x.Begin(p)
	if next == engine.Read {
		next = x.Resume()
	}
	x.act(next)
	x.Run()
}

// Run implements engine.Task.
func (x *protocolConn) Run() {
	for {
		switch step := x.next(); step {
		case stepNone:
			return
		case stepEnd:
			x.end()
			return
		default:
			x.act(x.do(step))
		}
	}
}

// Lost implements engine.Task. Closed may block.
func (x *protocolConn) Lost(err error) {
	x.conn.mu.Lock()
	if x.stream == nil {
		x.conn.mu.Unlock() // the connection may have ended
		return
	}
	defer x.conn.unlock()
	x.stream.setCause(err)
	x.conn.reset(x.stream, h2.CodeInternalError)
	x.conn.prompter.Prompt()
	go x.end()
}

// startTaskLocked starts a Task if there is something to do.
func (x *protocolConn) startTaskLocked() {
	if !x.isBusy && x.wantsLocked() != stepNone {
		x.isBusy = true
		x.conn.workers.Go(x)
	}
}

// wantsLocked returns what is to be done. It is called while no Task does something.
func (x *protocolConn) wantsLocked() step {
	s := x.stream
	switch {
	case s == nil, s.output == outputLast:
		return stepNone
	case s.output >= outputEnded:
		return stepEnd
	case len(x.Out) > 0 && len(s.held) > 0:
		return stepNone
	case len(x.Out) > 0:
		return stepResume
	case x.isPrompted:
		return stepPrompted
	case len(x.Unread) > 0, s.taken < len(s.inbox):
		return stepFeed
	case x.due != 0 && x.due <= clock.Nanos() && len(s.held) == 0:
		return stepTimedOut
	case s.input == inputEnded && !x.isHalfClosed:
		return stepHalfClosed
	}
	return stepNone
}

// next begins the next step. After stepNone, another Task may run.
func (x *protocolConn) next() step {
	c, s := x.conn, x.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == nil { // Detached has it
		return stepNone
	}
	x.creditLocked()
	if due := c.producerDue; x.deadline != x.due {
		x.due = x.deadline
		if c.scheduleTimeout(&x.streamConn); c.producerDue != due {
			c.prompter.Prompt() // to arm
		}
	}
	step := x.wantsLocked()
	switch step {
	case stepNone:
		x.releaseIdleLocked()
		x.isBusy = false
	case stepPrompted:
		x.isPrompted = false
	case stepFeed:
		if len(x.Unread) == 0 {
			x.releaseInput()
			x.Unread, x.input, x.uncredited = s.inbox[s.taken:], s.inboxBuffer, x.uncredited+len(s.inbox)-s.taken
			s.inbox, s.inboxBuffer, s.taken = nil, nil, 0
		}
	case stepTimedOut:
		x.due, x.deadline = 0, 0
	case stepHalfClosed:
		x.isHalfClosed = true
	}
	return step
}

// do calls the Protocol. It returns what follows.
func (x *protocolConn) do(step step) engine.Next {
	x.wake()
	x.acquireOutput()
	switch step {
	case stepResume:
		return x.Resume()
	case stepPrompted:
		return x.Prompted()
	case stepFeed:
		return x.Drive(x.Unread)
	case stepTimedOut:
		return x.TimedOut()
	}
	return x.HalfClosed()
}

// act does what the Protocol wants after a step.
func (x *protocolConn) act(next engine.Next) {
	switch next {
	case engine.Read:
		return
	case engine.Detach:
		x.detach()
		return
	}
	c, s := x.conn, x.stream
	c.mu.Lock()
	defer c.unlock()
	x.hasEnded = s.output == outputOpen
	switch c.discard(s); {
	case next == engine.Abort:
		c.reset(s, h2.CodeCancel)
	case s.output == outputOpen:
		c.finish(s, nil)
	}
	c.prompter.Prompt()
}

// wake wakes a Protocol that sleeps.
func (x *protocolConn) wake() {
	if x.Protocol == nil {
		x.Protocol = x.conn.host.Wake(x, x.memo)
		x.Can = x.Protocol.Capabilities()
	}
}

// releaseIdleLocked releases what a protocolConn without a Task does not need.
func (x *protocolConn) releaseIdleLocked() {
	if len(x.Unread) == 0 {
		x.releaseInput()
	}
	if len(x.Out) > 0 {
		return
	}
	x.releaseOutput()
	if len(x.Unread) > 0 || x.Protocol == nil || x.stream.output != outputOpen || x.Pause() || !x.Can.Has(engine.CanSleep) {
		return
	}
	if memo, ok := x.Protocol.(engine.Sleeper).Sleep(); ok {
		x.memo, x.Protocol = memo, nil
	}
}

func (x *protocolConn) acquireOutput() {
	if x.output == nil {
		x.output = buf.Get(0)
		x.Out = x.output.B
	}
}

func (x *protocolConn) releaseOutput() {
	if x.output != nil {
		x.output.B = x.Out
		x.output.Release()
		x.output, x.Out = nil, nil
	}
}

func (x *protocolConn) releaseInput() {
	if x.input != nil {
		x.input.Release()
		x.input, x.Unread = nil, nil
	}
}

// end makes the last call of the Protocol. Nothing else of the stream goes on.
func (x *protocolConn) end() {
	c, s := x.conn, x.stream
	c.mu.Lock()
	err := x.err
	c.mu.Unlock()
	if !x.hasEnded {
		err = x.cause()
	}
	if x.Can.Has(engine.CanSleep) { // otherwise it is awake, or, after Goexit, has not begun
		x.wake()
	}
	if x.Protocol != nil {
		x.Protocol.Closed(err)
	}
	x.releaseInput()
	x.releaseOutput()
	c.mu.Lock()
	defer c.unlock()
	s.inbox = s.emptied(&s.inboxBuffer, nil)
	x.releaseStreamLocked()
}

// cause returns why the stream has ended without an end of either side.
func (x *protocolConn) cause() error {
	x.conn.mu.Lock()
	defer x.conn.mu.Unlock()
	if x.err == nil || x.err == io.EOF {
		return errTunnelReset
	}
	return x.err
}

// releaseStreamLocked gives up the stream.
func (x *protocolConn) releaseStreamLocked() {
	s := x.stream
	x.stream, s.protocol, s.streamConn = nil, nil, nil
	x.conn.ownerDone(s)
}

// detach gives the stream, as a Tunnel, to the Protocol's Detached.
func (x *protocolConn) detach() {
	c, s := x.conn, x.stream
	rest := append([]byte(nil), x.Unread...)
	x.Unread = nil
	x.releaseInput()
	x.releaseOutput()
	c.mu.Lock()
	x.creditLocked()
	x.stream, s.protocol, s.streamConn = nil, nil, nil
	t := s.Tunnel(x.addrs)
	t.outliveLocked()
	c.mu.Unlock()
	go func() {
		defer x.Protocol.Closed(nil)
		x.Protocol.Detached(engine.WithUnread(t, rest, nil))
	}()
}

// leastCredit is how many bytes of input are used before a Task looks whether credit is due.
const leastCredit = 4 << 10

// Discard implements engine.Conn.
func (x *protocolConn) Discard(n int) {
	if x.State.Discard(n); x.uncredited-len(x.Unread) >= leastCredit {
		x.conn.mu.Lock()
		defer x.conn.mu.Unlock()
		x.creditLocked()
	}
}

// creditLocked returns credit for the input that was used.
func (x *protocolConn) creditLocked() {
	used := x.uncredited - len(x.Unread)
	if used == 0 {
		return
	}
	x.uncredited -= used
	before := len(x.conn.out)
	if x.conn.consumedOf(x.stream, used, clock.Nanos()); len(x.conn.out) > before {
		x.conn.prompter.Prompt()
	}
}

// BeginRun implements drive.Host.
func (x *protocolConn) BeginRun() {}

// EndRun implements drive.Host.
func (x *protocolConn) EndRun(next engine.Next) (after engine.Next, isMuch bool) {
	return next, next != engine.Abort && len(x.Out) >= maxHeld
}

// Began implements drive.Host.
func (x *protocolConn) Began(bool) {}

// Flush implements drive.Host: the Stream holds as much as it may.
func (x *protocolConn) Flush(engine.Next) drive.Written {
	if len(x.Out) == 0 {
		return drive.WroteAll
	}
	c, s := x.conn, x.stream
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.output != outputOpen {
		x.Out = x.Out[:0]
		return drive.WroteNot
	}
	if len(s.held) == 0 {
		s.progress.begin(clock.Nanos())
	}
	x.Out = x.Out[:copy(x.Out, c.hold(s, x.Out))]
	c.prompter.Prompt()
	if len(x.Out) > 0 {
		return drive.WroteSome
	}
	return drive.WroteAll
}

// ReadInRun implements drive.Host.
func (x *protocolConn) ReadInRun([]byte) (int, error) { return 0, errors.ErrUnsupported }

// Write implements engine.Conn.
func (x *protocolConn) Write(p []byte) (int, error) {
	if !x.stream.Send(p) || !x.stream.Flush() {
		return 0, x.cause()
	}
	return len(p), nil
}

// WriteReady implements engine.Conn. All of v is copied anyway.
func (x *protocolConn) WriteReady(*net.Buffers) int64 { return 0 }

// SetReadDeadline implements engine.Conn.
func (x *protocolConn) SetReadDeadline(now int64, timeout time.Duration) {
	if x.deadline = 0; timeout > 0 {
		x.deadline = now + int64(timeout)
	}
}

// SetWriteTimeout implements engine.Conn.
func (x *protocolConn) SetWriteTimeout(timeout time.Duration) { x.stream.SetWriteTimeout(timeout) }

// LocalAddr implements engine.Conn.
func (x *protocolConn) LocalAddr() net.Addr { return x.addrs.LocalAddr() }

// RemoteAddr implements engine.Conn.
func (x *protocolConn) RemoteAddr() net.Addr { return x.addrs.RemoteAddr() }

// NetConn implements engine.Conn: it is the connection of HTTP/2.
func (x *protocolConn) NetConn() net.Conn { return x.addrs }

// IsSocket implements engine.Conn.
func (x *protocolConn) IsSocket() bool { return false }

// Workers implements engine.Conn.
func (x *protocolConn) Workers() engine.Workers { return x.conn.workers }
