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

// A Producer writes the content of a response after its Task: it has the calls of an
// engine.Protocol that such a stream needs. What the peer sends is discarded. All calls but
// Closed are made with Conn.mu locked: they must not block, nor call the Stream.
type Producer interface {
	// Prompted is called when the peer may take content, after a call of Prompt; see
	// engine.Prompted. With Run, it is called again when the window has room. It appends
	// about as much as streamConn.Room says: the Stream holds what goes beyond.
	engine.Prompted
	// TimedOut is that of engine.Protocol. It is not called while content waits.
	TimedOut(out []byte) ([]byte, engine.Next)
	// Closed is the last call. err is nil after the end of the content, and io.EOF if the
	// peer has cancelled the stream.
	Closed(err error)
}

// A streamConn is the engine.Conn of a Producer. Besides the addresses of the connection, it has
// Prompter, Target, which is zero, and the time-outs; Room is for the Producer only.
type streamConn struct {
	engine.Conn
	conn     *Conn
	prompter engine.Prompter
	producer Producer // nil: it is part of a protocolConn

	isListed atomic.Bool
	next     *streamConn // in Conn.prompted

	// Conn.mu guards these after Produce.
	stream  *Stream // nil: it is over
	room    int
	hasMore bool          // the Producer has more content
	due     int64         // when TimedOut is called, in Nanos; 0: never
	timeout time.Duration // of SetWriteTimeout
	err     error         // why the stream was reset
}

// Produce leaves the rest of the content to what open returns, with the first part of that
// content. The final head must have been sent. open gets the streamConn, and may block. If it
// returns nil, the stream is reset. Call Produce at the end of Serve, which returns outlived
// then: the stream may have ended already.
func (s *Stream) Produce(open func(c engine.Conn, out []byte) (Producer, []byte)) {
	c := s.conn
	k := &streamConn{Conn: c.conn, conn: c, prompter: c.prompter}
	first := buf.Get(0)
	k.producer, first.B = open(k, first.B)
	c.mu.Lock()
	defer c.unlock()
	if k.producer == nil {
		first.Release()
		c.ownerDone(s)
		return
	}
	s.owner, s.streamConn, k.stream, s.writeTimeout = ownerProducer, k, s, k.timeout
	c.heads, s.head, s.onGone = c.heads-s.head, 0, nil
	c.discard(s)
	c.answered(s, 0)
	priority := s.node.Priority()
	priority.IsIncremental = true // else it sends before all that were opened later
	c.ready.Place(&s.node, priority)
	if s.output != outputOpen {
		first.Release()
		c.removeIfOver(s)
		return
	}
	if s.progress.begin(clock.Nanos()); len(s.held) > 0 { // the handler has sent some
		s.held = append(s.held, first.B...)
		c.held += len(first.B)
		first.Release()
	} else {
		s.inbox, s.held = nil, nil
		c.produced(s, first, engine.Read)
	}
	c.scheduleTimeout(k)
	k.Prompt() // what was prompted before was not seen
}

// CanMove implements engine.Conn: the connection of HTTP/2 may, but not with a stream that
// goes on.
func (k *streamConn) CanMove() bool { return false }

// Target implements engine.Conn.
func (k *streamConn) Target() engine.Target { return engine.Target{} }

// Prompter implements engine.Conn.
func (k *streamConn) Prompter() engine.Prompter { return k }

// Prompt implements engine.Prompter. It takes no lock, because a Producer may hold its own.
func (k *streamConn) Prompt() {
	if !k.isListed.CompareAndSwap(false, true) {
		return
	}
	for {
		k.next = k.conn.prompted.Load()
		if k.conn.prompted.CompareAndSwap(k.next, k) {
			break
		}
	}
	k.prompter.Prompt()
}

// SetReadDeadline implements engine.Conn: it sets the time of TimedOut.
func (k *streamConn) SetReadDeadline(now int64, timeout time.Duration) {
	if k.due = 0; timeout > 0 {
		k.due = now + int64(timeout)
	}
	if k.stream != nil {
		k.conn.scheduleTimeout(k)
	}
}

// SetWriteTimeout implements engine.Conn.
func (k *streamConn) SetWriteTimeout(timeout time.Duration) {
	if k.timeout = timeout; k.stream != nil {
		k.stream.writeTimeout = timeout
	}
}

// Room returns how many bytes the peer takes at once.
func (k *streamConn) Room() int { return k.room }

// setCause stores why the stream of a streamConn ends; the first reason counts.
func (s *Stream) setCause(err error) {
	if k := s.streamConn; k != nil && k.err == nil {
		k.err = err
	}
}

// producerHasMore reports whether the Producer of s has content.
func (s *Stream) producerHasMore() bool { return s.streamConn != nil && s.streamConn.hasMore }

// scheduleTimeout makes the engine call TimedOut at the time of k.
func (c *Conn) scheduleTimeout(k *streamConn) {
	if k.due != 0 && (c.producerDue == 0 || k.due < c.producerDue) {
		c.producerDue = k.due
	}
}

// takePrompts has the streams send whose Producers have prompted.
func (c *Conn) takePrompts(now int64) {
	for k := c.prompted.Swap(nil); k != nil; {
		next := k.next // Prompt changes it from now on
		k.isListed.Store(false)
		if k.stream != nil {
			c.producerReady(k.stream, now)
		}
		k = next
	}
}

// producerReady makes a stream send what its Producer has.
func (c *Conn) producerReady(s *Stream, now int64) {
	k := s.streamConn
	if s.output != outputOpen || k.hasMore {
		return
	}
	if s.owner == ownerProtocol {
		s.protocol.isPrompted = true
		s.protocol.startTaskLocked()
		return
	}
	if len(s.held) == 0 {
		s.progress.begin(now)
	}
	k.hasMore = true
	if len(s.held) == 0 && min(c.sendWindow, s.sendWindow) <= 0 { // it may have nothing
		c.produce(s, 0)
	}
	c.schedule(s)
}

// produce lets the Producer of s append content. Nothing is held.
func (c *Conn) produce(s *Stream, room int) {
	k, b := s.streamConn, buf.Get(0)
	k.room = room
	var next engine.Next
	b.B, next = k.producer.Prompted(b.B)
	k.room = 0
	c.produced(s, b, next)
}

// produced is called after a call of a Producer, which has appended to b.
func (c *Conn) produced(s *Stream, b *buf.Buffer, next engine.Next) {
	if len(b.B) > 0 {
		s.held, s.heldBuffer = b.B, b
		c.held += len(b.B)
	} else {
		b.Release()
	}
	s.streamConn.hasMore = next == engine.Run
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

// notifyStage prompts all Producers when the server has begun to end, and when it shuts down.
func (c *Conn) notifyStage(now int64) {
	stage := c.host.Stage()
	if stage <= c.notifiedStage {
		return
	}
	c.notifiedStage = stage
	for s := range c.streams.each() {
		if s.streamConn != nil {
			c.producerReady(s, now)
		}
	}
}

// timeOutProducers calls TimedOut for those whose time has come. Those that wait for the peer
// come later: see appendContent.
func (c *Conn) timeOutProducers(now int64) {
	if c.producerDue == 0 || c.producerDue > now {
		return
	}
	c.producerDue = 0
	for s := range c.streams.each() {
		k := s.streamConn
		switch {
		case k == nil || s.output != outputOpen || len(s.held) > 0 || k.hasMore:
		case k.due == 0 || k.due > now:
			c.scheduleTimeout(k)
		case s.owner == ownerProtocol:
			s.protocol.startTaskLocked()
		default:
			k.due = 0
			s.progress.begin(now)
			b := buf.Get(0)
			var next engine.Next
			b.B, next = k.producer.TimedOut(b.B)
			c.produced(s, b, next)
		}
	}
}

// closeProducer is the last call for a stream that is over. Conn.mu is not locked.
func (s *Stream) closeProducer() {
	if s.owner != ownerProducer {
		return
	}
	k := s.streamConn
	s.owner, s.streamConn = ownerConn, nil
	if s.output == outputReset && k.err == nil {
		k.err = net.ErrClosed
	}
	k.producer.Closed(k.err)
}

// errStalled ends a Producer whose peer takes nothing.
var errStalled = os.ErrDeadlineExceeded

// cancelled returns why a Producer ends that the peer has reset.
func cancelled(code h2.Code) error {
	if code == h2.CodeCancel || code == h2.CodeNoError {
		return io.EOF
	}
	return errTunnelReset
}
