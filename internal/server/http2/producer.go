package http2

import (
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A Carried writes the content of a response after its Task: it has the calls of an
// engine.Protocol that such a stream needs. What the peer sends is discarded. All calls but
// Closed are made with Conn.mu locked: they must not block, nor call the Stream.
type Carried interface {
	// Prompted is called when the peer may take content, after a call of Prompt; see
	// engine.Prompted. With Run, it is called again when the window has room. It appends
	// about as much as carriage.Room says: the Stream holds what goes beyond.
	engine.Prompted
	// TimedOut is that of engine.Protocol. It is not called while content waits.
	TimedOut(out []byte) ([]byte, engine.Next)
	// Closed is the last call. err is nil after the end of the content, and io.EOF if the
	// peer has cancelled the stream.
	Closed(err error)
}

// A carriage is the engine.Conn of a Carried. Besides the addresses of the connection, it has
// Prompter, Target, which is zero, and the time-outs; Room is for the Carried only.
type carriage struct {
	engine.Conn
	conn     *Conn
	prompter engine.Prompter
	carried  Carried // nil: it is part of a session

	isRung atomic.Bool
	next   *carriage // in Conn.rung

	// Conn.mu guards these after Carry.
	stream  *Stream // nil: it is over
	room    int
	isOwing bool          // the Carried has more content
	due     int64         // when TimedOut is called, in Nanos; 0: never
	timeout time.Duration // of SetWriteTimeout
	err     error         // why the stream was reset
}

// Carry leaves the rest of the content to what open returns, with the first part of that
// content. The final head must have been sent. open gets the carriage, and may block. If it
// returns nil, the stream is reset. Call Carry at the end of Serve, which returns outlived
// then: the stream may have ended already.
func (s *Stream) Carry(open func(c engine.Conn, out []byte) (Carried, []byte)) {
	c := s.conn
	k := &carriage{Conn: c.conn, conn: c, prompter: c.prompter}
	first := buf.Get(0)
	k.carried, first.B = open(k, first.B)
	c.mu.Lock()
	defer c.unlock()
	if k.carried == nil {
		first.Release()
		c.leave(s)
		return
	}
	s.carriage, k.stream, s.task, s.writeTimeout = k, s, taskEnded, k.timeout
	c.heads, s.head, s.onGone = c.heads-s.head, 0, nil
	c.discard(s)
	c.answered(s, 0)
	priority := s.node.Priority()
	priority.IsIncremental = true // else it sends before all that were opened later
	c.ready.Place(&s.node, priority)
	if s.output != outputOpen {
		first.Release()
		c.settle(s)
		return
	}
	if s.progress.begin(clock.Nanos()); len(s.held) > 0 { // the handler has sent some
		s.held = append(s.held, first.B...)
		c.held += len(first.B)
		first.Release()
	} else {
		s.inbox, s.held = nil, nil
		c.took(s, first, engine.Read)
	}
	c.remind(k)
	k.Prompt() // what has rung before was not heard
}

// Target implements engine.Conn.
func (k *carriage) Target() engine.Target { return engine.Target{} }

// Prompter implements engine.Conn.
func (k *carriage) Prompter() engine.Prompter { return k }

// Prompt implements engine.Prompter. It takes no lock, because a Carried may hold its own.
func (k *carriage) Prompt() {
	if !k.isRung.CompareAndSwap(false, true) {
		return
	}
	for {
		k.next = k.conn.rung.Load()
		if k.conn.rung.CompareAndSwap(k.next, k) {
			break
		}
	}
	k.prompter.Prompt()
}

// SetReadDeadline implements engine.Conn: it sets the time of TimedOut.
func (k *carriage) SetReadDeadline(now int64, timeout time.Duration) {
	if k.due = 0; timeout > 0 {
		k.due = now + int64(timeout)
	}
	if k.stream != nil {
		k.conn.remind(k)
	}
}

// SetWriteTimeout implements engine.Conn.
func (k *carriage) SetWriteTimeout(timeout time.Duration) {
	if k.timeout = timeout; k.stream != nil {
		k.stream.writeTimeout = timeout
	}
}

// Room returns how many bytes the peer takes at once.
func (k *carriage) Room() int { return k.room }

// note stores why a carried stream ends; the first reason counts.
func (s *Stream) note(err error) {
	if k := s.carriage; k != nil && k.err == nil {
		k.err = err
	}
}

// isOwed tells whether the Carried of s has content.
func (s *Stream) isOwed() bool { return s.carriage != nil && s.carriage.isOwing }

// remind makes the engine call TimedOut at the time of k.
func (c *Conn) remind(k *carriage) {
	if k.due != 0 && (c.carriedDue == 0 || k.due < c.carriedDue) {
		c.carriedDue = k.due
	}
}

// answer finds out for the Carried that have rung what they owe.
func (c *Conn) answer(now int64) {
	for k := c.rung.Swap(nil); k != nil; {
		next := k.next // Prompt changes it from now on
		k.isRung.Store(false)
		if k.stream != nil {
			c.owes(k.stream, now)
		}
		k = next
	}
}

// owes makes a stream send what its Carried has.
func (c *Conn) owes(s *Stream, now int64) {
	k := s.carriage
	if s.output != outputOpen || k.isOwing {
		return
	}
	if s.session != nil {
		s.session.isPrompted = true
		s.session.rouse()
		return
	}
	if len(s.held) == 0 {
		s.progress.begin(now)
	}
	k.isOwing = true
	if len(s.held) == 0 && min(c.sendWindow, s.sendWindow) <= 0 { // it may have nothing
		c.ask(s, 0)
	}
	c.schedule(s)
}

// ask lets the Carried of s append content. Nothing is held.
func (c *Conn) ask(s *Stream, room int) {
	k, b := s.carriage, buf.Get(0)
	k.room = room
	var next engine.Next
	b.B, next = k.carried.Prompted(b.B)
	k.room = 0
	c.took(s, b, next)
}

// took is called after a call of a Carried, which has appended to b.
func (c *Conn) took(s *Stream, b *buf.Buffer, next engine.Next) {
	if len(b.B) > 0 {
		s.held, s.heldBuffer = b.B, b
		c.held += len(b.B)
	} else {
		b.Release()
	}
	s.carriage.isOwing = next == engine.Run
	switch next {
	case engine.Read, engine.Run:
	case engine.Abort:
		c.reset(s, h2.CodeInternalError)
	default:
		c.finish(s, nil)
		if s.output == outputEnded {
			c.ready.Remove(&s.node)
			c.outputComplete(s)
		}
	}
	c.schedule(s)
}

// tellCarried asks all Carried when the server has begun to end, and when it shuts down.
func (c *Conn) tellCarried(now int64) {
	stage := c.host.Stage()
	if stage <= c.told {
		return
	}
	c.told = stage
	for s := range c.streams.each() {
		if s.carriage != nil {
			c.owes(s, now)
		}
	}
}

// timeOutCarried calls TimedOut for those whose time has come. Those that wait for the peer
// come later: see appendContent.
func (c *Conn) timeOutCarried(now int64) {
	if c.carriedDue == 0 || c.carriedDue > now {
		return
	}
	c.carriedDue = 0
	for s := range c.streams.each() {
		k := s.carriage
		switch {
		case k == nil || s.output != outputOpen || len(s.held) > 0 || k.isOwing:
		case k.due == 0 || k.due > now:
			c.remind(k)
		case s.session != nil:
			s.session.rouse()
		default:
			k.due = 0
			s.progress.begin(now)
			b := buf.Get(0)
			var next engine.Next
			b.B, next = k.carried.TimedOut(b.B)
			c.took(s, b, next)
		}
	}
}

// closeCarried is the last call for a stream that is over. Conn.mu is not locked.
func (s *Stream) closeCarried() {
	k := s.carriage
	if k == nil {
		return
	}
	s.carriage = nil
	if s.output == outputReset && k.err == nil {
		k.err = net.ErrClosed
	}
	k.carried.Closed(k.err)
}

// errStalled ends a Carried whose peer takes nothing.
var errStalled = os.ErrDeadlineExceeded

// cancelled returns why a Carried ends that the peer has reset.
func cancelled(code h2.Code) error {
	if code == h2.CodeCancel || code == h2.CodeNoError {
		return io.EOF
	}
	return errTunnelReset
}
