package http2

import (
	"os"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// timers are the times at which something is due, in Nanos; 0: never. The engine knows
// the earliest one.
type timers struct {
	blockDue    int64  // the preface and the first SETTINGS, a field block or a frame must be complete
	unit        uint32 // which one; see h2.Parser.Unit
	ackDue      int64  // our SETTINGS must be acknowledged
	bodyDue     int64  // a body that is waited for must go on
	stallDue    int64  // the peer must open a window for content that waits
	idleDue     int64  // a connection without streams ends
	sleepDue    int64  // a connection without streams may sleep
	firstDue    int64  // the first request is not awaited any more; 0 also after it
	drainDue    int64  // the peer must acknowledge the PING after the first GOAWAY
	producerDue int64  // a Producer may have something to do
	roomDue     int64  // a deferred stream may begin, or rest
	armed       int64  // what the engine knows
	isPrefaced  bool   // the first SETTINGS frame has come
	maySleep    bool   // there was no stream since sleepDue
}

func (c *Conn) startTimers(now int64) {
	c.blockDue = now + int64(c.cfg.ReadTimeout)
	c.ackDue = now + int64(c.cfg.StallTimeout)
	c.firstDue = now + int64(firstTime)
}

// bodyBegan starts the clock of a body.
func (c *Conn) bodyBegan(now int64) {
	if c.bodyDue == 0 {
		c.bodyDue = now + int64(c.cfg.ReadTimeout)
	}
}

// inputHandled is called after input.
func (c *Conn) inputHandled(now int64) {
	unit := c.parser.Unit()
	switch {
	case !c.isPrefaced:
	case !c.parser.IsWithin():
		c.blockDue = 0
	case unit != c.unit, c.blockDue == 0:
		c.blockDue = now + int64(c.cfg.ReadTimeout)
	}
	c.unit = unit
	if !c.own.Waits() {
		c.ackDue = 0
	}
	if c.bodyDue != 0 {
		_, c.bodyDue = c.lateBody()
	}
	if c.streams.count() == 0 && c.sleepDue == 0 && !c.maySleep && c.isPrefaced {
		c.becomeIdle(now)
	}
}

// lateBody returns the stream whose body is due first, and when; nil and 0: there is none.
// The write deadlines of tunnels are among them.
func (c *Conn) lateBody() (first *Stream, due int64) {
	for s := range c.streams.each() {
		t := int64(0)
		switch {
		case s.input == inputOpen && s.owner == ownerNone:
			t = s.exchange.bodyDue(s.lastInput)
		case s.reader == waitRuns:
			t = s.readDue
		}
		if s.writer == waitRuns && s.writeDue != 0 && (t == 0 || s.writeDue < t) {
			t = s.writeDue
		}
		if t != 0 && (first == nil || t < due) {
			first, due = s, t
		}
	}
	return first, due
}

// A progress tells when content was last taken by the peer.
type progress struct {
	at    int64 // in Nanos
	since int   // bytes since then
}

// minProgress is how many bytes the peer must take, so that a few at a time do not
// extend a time-out for ever.
const minProgress = 1 << 10

// begin starts the time-out: there is content, or a window has closed.
func (p *progress) begin(now int64) { *p = progress{at: now} }

// add counts n bytes that were sent.
func (p *progress) add(n int, now int64) {
	if p.since += n; p.since >= minProgress {
		*p = progress{at: now}
	}
}

// sent is called when the engine has got output.
func (c *Conn) sent() { _, c.stallDue = c.lateContent() }

// lateContent returns the stream for whose content the peer must open a window first,
// and when; nil and 0: there is none. Content that waits only for its turn is not late. Streams
// that are deferred wait for the content of others.
func (c *Conn) lateContent() (first *Stream, due int64) {
	for s := range c.streams.each() {
		isDeferred := s.owner == ownerAdmission
		if len(s.held)+len(s.last) == 0 && !s.producerHasMore() && !isDeferred || s.output >= outputEnded {
			continue
		}
		at := s.progress.at
		switch {
		case isDeferred:
			at = max(at, c.progress.at)
		case s.sendWindow <= 0:
		case c.sendWindow <= 0:
			at = max(at, c.progress.at)
		default:
			continue
		}
		timeout := s.writeTimeout
		if timeout == 0 {
			timeout = c.cfg.StallTimeout
		}
		if t := at + int64(timeout); first == nil || t < due {
			first, due = s, t
		}
	}
	return first, due
}

// arm tells the engine when the next time-out is due.
func (c *Conn) arm() {
	due := int64(0)
	for _, t := range [...]int64{c.blockDue, c.ackDue, c.bodyDue, c.stallDue, c.idleDue, c.sleepDue, c.drainDue, c.producerDue, c.roomDue} {
		if t != 0 && (due == 0 || t < due) {
			due = t
		}
	}
	if c.phase == phaseAwaiting && (due == 0 || c.firstDue < due) {
		due = c.firstDue
	}
	if due == c.armed {
		return
	}
	c.armed = due
	if due == 0 {
		c.conn.SetReadDeadline(0, 0)
		return
	}
	now := clock.Nanos()
	c.conn.SetReadDeadline(now, time.Duration(max(due-now, 1)))
}

// TimedOut implements engine.Protocol.
func (c *Conn) TimedOut(out []byte) ([]byte, engine.Next) {
	c.mu.Lock()
	defer c.unlock()
	now := clock.Nanos()
	c.armed = 0
	isDue := func(t int64) bool { return t != 0 && t <= now }
	switch {
	case isDue(c.blockDue) && !c.isPrefaced:
		c.phase = max(c.phase, phaseFailed) // it may not be a client of HTTP/2
		c.breakAll(os.ErrDeadlineExceeded)
	case isDue(c.blockDue):
		c.fail(h2.ErrSlow)
	case isDue(c.ackDue):
		c.fail(h2.ErrSettingsTimeout)
	case isDue(c.drainDue), isDue(c.idleDue):
		c.drain()
	case c.phase == phaseAwaiting && isDue(c.firstDue):
		c.warn()
	}
	c.timeOutStreams(now)
	c.timeOutProducers(now)
	c.timeOutRoom(now)
	c.cutTunnels()
	out = c.takeOut(out)
	if c.isDone() {
		return out, engine.CloseLinger
	}
	if isDue(c.sleepDue) {
		c.prepareSleep()
	}
	if c.hasOutput() {
		c.prompter.Prompt()
	}
	c.arm()
	return out, engine.Read
}

// timeOutStreams resets the streams whose peer has sent nothing of a body, or opened no
// window for content, for too long.
func (c *Conn) timeOutStreams(now int64) {
	for {
		var s *Stream
		if s, c.bodyDue = c.lateBody(); s == nil || c.bodyDue > now {
			break
		}
		switch {
		case s.writer == waitRuns && s.writeDue != 0 && s.writeDue <= now:
			s.writer = waitNone
			s.changed.Broadcast()
		case s.reader == waitRuns:
			s.reader = waitNone
			s.changed.Broadcast()
		case s.exchange.bodyLate(s.lastInput, now):
			c.refuseRequest(s, server.ErrTimeout, nil)
		}
	}
	for {
		var s *Stream
		if s, c.stallDue = c.lateContent(); s == nil || c.stallDue > now {
			break
		}
		code := h2.CodeCancel
		if s.owner == ownerAdmission {
			code = h2.CodeRefusedStream // it was not processed
		}
		s.setCause(errStalled)
		c.reset(s, code)
	}
}

// SetReadDeadline bounds the waits of ReadBody: now+timeout, in Nanos; 0: for ever.
func (s *Stream) SetReadDeadline(now int64, timeout time.Duration) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.readDue = 0
	if timeout > 0 {
		s.readDue = now + int64(timeout)
	}
	if s.reader == waitRuns {
		s.rearm(s.readDue)
	}
}

// rearm changes the deadline of a wait.
func (s *Stream) rearm(due int64) {
	if due != 0 && due <= clock.Nanos() { // at once: deadlines of engines are late
		s.changed.Broadcast()
	} else {
		s.armWait(due)
	}
}

// SetWriteTimeout bounds how long content of this response may wait for the peer; 0:
// Config.StallTimeout.
func (s *Stream) SetWriteTimeout(timeout time.Duration) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writeTimeout = timeout
}
