package http2

import (
	"math"
	"slices"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

const (
	// maxOut is how many bytes may wait in Conn.out before Tasks wait. Each call of
	// Send may exceed it once.
	maxOut = 256 << 10
	// outLimit is how many bytes may wait in Conn.out before the connection ends: the
	// peer sends what we must answer, and does not read.
	outLimit = 2 << 20
	// keptOut is how much memory an idle connection keeps for Conn.out, at most.
	keptOut = 16 << 10
	// turnSize is how large the output of a turn becomes at most by content. Engines keep
	// buffers up to this size.
	turnSize = 64 << 10
	// directSize is the size of content that is sent without the scheduler.
	directSize = 4 << 10
	// inOrderSize is how much content a response sends before those of later requests, if
	// the peer has named no priority.
	inOrderSize = 256 << 10
	// frameSize is the largest payload of a DATA frame: larger ones would delay other
	// streams.
	frameSize = 16 << 10
)

// SendHead sends the head of an interim or of the final response. With isLast, which
// an interim response may not have, the response ends with it. It waits while too much
// waits for the peer. The result is false after a reset.
func (s *Stream) SendHead(f streams.Fields, isInterim, isLast bool) bool {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.sendHead(f, isInterim, isLast)
}

func (s *Stream) sendHead(f streams.Fields, isInterim, isLast bool) bool {
	c := s.conn
	if !s.awaitRoom(nil) {
		return false
	}
	if !isInterim {
		s.output = outputOpen
	}
	c.appendFields(s, f, isLast)
	if isInterim {
		c.prompter.Prompt()
	}
	return true
}

// Respond sends the whole of a final response: its head and its content, which belongs
// to the Request until End.
func (s *Stream) Respond(f streams.Fields, content []byte) bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.awaitRoom(content) {
		return false
	}
	s.output = outputOpen
	if len(content) == 0 {
		c.appendFields(s, f, true)
		return true
	}
	c.appendFields(s, f, false)
	n := len(content)
	if n <= directSize && len(c.out) < maxOut && int(min(c.sendWindow, s.sendWindow)) >= n {
		s.sendWindow.Take(n)
		if c.sendWindow.Take(n); c.sendWindow <= 0 {
			c.progress.begin(clock.Nanos())
		}
		c.out = h2.AppendDataHead(c.out, s.id, n, true)
		c.out = append(c.out, content...)
		c.budget.SentData()
		s.output = outputEnded
		return true
	}
	s.last, s.output = content, outputLast
	s.progress.begin(clock.Nanos())
	c.store(s, content, 0)
	c.schedule(s)
	return true
}

// awaitRoom waits until little enough waits in out, with a response that has content. It is
// false after a reset.
func (s *Stream) awaitRoom(content []byte) bool {
	c := s.conn
	if len(c.out) > maxOut && s.output != outputReset {
		c.store(s, content, taskMemory)
		for len(c.out) > maxOut && s.output != outputReset {
			c.prompter.Prompt()
			c.workers.Exempt(1)
			c.room.Wait()
			c.workers.Exempt(-1)
		}
		c.uncount(s)
	}
	return s.output != outputReset
}

// appendFields appends a field block.
func (c *Conn) appendFields(s *Stream, f streams.Fields, isLast bool) {
	start := len(c.out)
	c.out = h2.BeginHeaders(c.out)
	c.out = f.AppendFields(c.encoder.Begin(c.out), &c.encoder)
	c.out = h2.FinishHeaders(c.out, start, s.id, isLast, c.peer.MaxFrameSize)
	if isLast {
		s.output = outputEnded
	}
}

// Send sends p as the next part of the content, and copies it. It waits while as much
// as a Stream holds waits for the peer. The result is false after a reset.
func (s *Stream) Send(p []byte) bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.held) == 0 {
		s.progress.begin(clock.Nanos())
	}
	for s.output == outputOpen {
		p = c.hold(s, p)
		if len(p) == 0 {
			return true
		}
		c.blocked(s)
		c.prompter.Prompt()
		s.wait()
	}
	return false
}

// hold copies as much of p as s may hold, and returns the rest.
func (c *Conn) hold(s *Stream, p []byte) (rest []byte) {
	most := maxHeld
	if c.stored() >= maxWaiting {
		most = leastHeld
	}
	if n := min(len(p), most-len(s.held)); n > 0 {
		s.held = s.keep(&s.heldBuffer, s.held, p[:n])
		if c.held += n; c.stored() > maxWaiting/2 {
			c.limitTasks(maxHeld)
		}
		p = p[n:]
		c.schedule(s)
	}
	return p
}

// SendLast sends p as the last part of the content. p belongs to the Request until
// End. With trailer, which may be nil, trailer fields follow.
func (s *Stream) SendLast(p []byte, trailer streams.Fields) bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.output != outputOpen {
		return false
	}
	if len(s.held) == 0 {
		s.progress.begin(clock.Nanos())
	}
	if trailer == nil {
		c.finish(s, p)
		return true
	}
	c.store(s, p, 0)
	for len(p) > 0 || len(s.held) > 0 { // the fields follow the content in out
		p = c.hold(s, p)
		c.prompter.Prompt()
		if s.wait(); s.output != outputOpen {
			return false
		}
	}
	if !s.awaitRoom(nil) {
		return false
	}
	c.appendFields(s, trailer, true)
	return true
}

// AwaitsPeer reports whether the rest of the content waits until the peer opens a window.
func (s *Stream) AwaitsPeer() bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.output == outputLast && len(s.last) > int(min(c.sendWindow, s.sendWindow))
}

// finish sends p as the last part of the content, after what is held.
func (c *Conn) finish(s *Stream, p []byte) {
	if len(p)+len(s.held) == 0 { // needs no window
		c.out = h2.AppendDataHead(c.out, s.id, 0, true)
		s.output = outputEnded
		return
	}
	s.last, s.output = p, outputLast
	if len(p) > 0 || !s.hasTunnel { // the Request of a tunnel may have ended
		c.store(s, p, 0)
	}
	c.schedule(s)
}

// takeTurns counts n bytes of content of s. Without a word of the peer, a response is not
// incremental (RFC 9218 section 4.2), and a download would delay those of later requests
// until it ends. So a large one becomes incremental: from then on it shares the connection.
func (c *Conn) takeTurns(s *Stream, n int) {
	if s.inOrder -= n; s.inOrder <= 0 {
		c.ready.Place(&s.node, fieldlist.Priority{Urgency: fieldlist.DefaultPriority().Urgency, IsIncremental: true})
		s.inOrder = math.MaxInt
	}
}

// Flush makes the engine send what was given to s. It does not wait.
func (s *Stream) Flush() bool {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompter.Prompt()
	return s.output != outputReset
}

// Reset resets the stream, unless its response is complete. Content that was given to s
// is sent before, as far as the windows allow it.
func (s *Stream) Reset(code h2.Code) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.resetAfter(s, code)
}

// resetAfter is Reset with mu locked.
func (c *Conn) resetAfter(s *Stream, code h2.Code) {
	for s.output == outputOpen && len(s.held) > 0 && c.sendWindow > 0 && s.sendWindow > 0 && len(c.out) < turnSize-h2.FrameHeadSize {
		c.out = c.appendContent(c.out, s, clock.Nanos())
	}
	if s.output < outputEnded {
		c.reset(s, code)
		c.prompter.Prompt()
	}
}

// taskDone ends the Task of s.
func (c *Conn) taskDone(s *Stream) {
	c.mu.Lock()
	defer c.unlock()
	c.ownerDone(s)
}

// ownerDone is called when no Task and no Tunnel has s any more.
func (c *Conn) ownerDone(s *Stream) {
	s.owner = ownerConn
	c.answered(s, 0)
	switch s.output {
	case outputNone, outputOpen:
		c.reset(s, h2.CodeInternalError)
	case outputEnded:
		c.outputComplete(s)
	case outputReset:
		c.removeIfOver(s)
	}
	// Also for the timers of content that waits, and of an idle connection.
	if c.hasOutput() || s.output == outputLast || c.streams.count() == 0 || c.phase == phaseDraining {
		c.prompter.Prompt()
	}
}

// outputComplete handles the end of a response. If the request is still arriving, the
// peer is told to stop (RFC 9113 section 8.1).
func (c *Conn) outputComplete(s *Stream) {
	if s.owner >= ownerTask {
		return // ownerDone calls it again
	}
	s.onGone = nil
	if s.input != inputEnded {
		c.reset(s, h2.CodeNoError)
		return
	}
	c.budget.Refund(h2.RequestRefund)
	c.removeIfOver(s)
}

// schedule queues s if it has content to send and a window for it.
func (c *Conn) schedule(s *Stream) {
	if s.output != outputOpen && s.output != outputLast {
		return
	}
	if !s.hasContent() || s.sendWindow <= 0 && (len(s.held)+len(s.last) > 0 || s.output == outputOpen) {
		return
	}
	c.ready.Push(&s.node)
}

// hasContent reports whether s, which is not over, has something to send.
func (s *Stream) hasContent() bool {
	return len(s.held) > 0 || s.output == outputLast || s.producerHasMore()
}

// hasOutput reports whether Run would send something.
func (c *Conn) hasOutput() bool {
	return len(c.out) > 0 || !c.ready.IsEmpty() && c.sendWindow > 0 || c.isDone()
}

// Run implements engine.Protocol.
func (c *Conn) Run(out []byte) ([]byte, engine.Next) { return c.Prompted(out) }

// Prompted implements engine.Prompted. It appends what is to be sent: frames in their
// order, then content by priority.
func (c *Conn) Prompted(out []byte) ([]byte, engine.Next) {
	c.mu.Lock()
	defer c.unlock()
	now := clock.Nanos()
	if c.host.IsClosing(&c.facts) {
		c.leave(now)
		c.notifyStage(now)
	}
	c.takePrompts(now)
	c.cutTunnels()
	out = c.takeOut(out)
	if c.isDone() {
		return out, engine.CloseLinger
	}
	for turnSize-len(out) > h2.FrameHeadSize+h2.MinData && c.sendWindow > 0 {
		node := c.ready.Next()
		if node == nil {
			break
		}
		out = c.appendContent(out, node.Owner, now)
	}
	if c.hasOutput() {
		c.prompter.Prompt()
	}
	c.sent()
	c.arm()
	return out, engine.Read
}

// takeOut appends what waits in c.out to out.
func (c *Conn) takeOut(out []byte) []byte {
	out = append(out, c.out...)
	c.out = c.out[:0]
	c.budget.AcksSent()
	if cap(c.out) > keptOut && c.streams.count() == 0 || cap(c.out) > maxOut {
		c.out = nil
	}
	c.room.Broadcast()
	return out
}

// grow makes room in out for a frame with n bytes. It makes room for a whole turn if the frame
// is large. Small frames double the room: each worker of an engine keeps its output, and those
// that send some events only would hold as much as those that send files.
func grow(out []byte, n int) []byte {
	room := turnSize - len(out)
	if n < h2.MinData {
		room = min(room, max(cap(out), 2*h2.MinData))
	}
	return slices.Grow(out, max(room, h2.FrameHeadSize+n))
}

// appendContent appends one frame of the content of s, which the scheduler has chosen.
func (c *Conn) appendContent(out []byte, s *Stream, now int64) []byte {
	room := int(min(frameSize, int64(turnSize-h2.FrameHeadSize-len(out)), int64(c.sendWindow), int64(s.sendWindow)))
	if len(s.held) == 0 && s.output == outputOpen && s.producerHasMore() && room > 0 {
		c.produce(s, room)
	}
	p := s.held
	isHeld := len(p) > 0
	if !isHeld {
		p = s.last
	}
	n := max(min(len(p), room), 0)
	if n == 0 && (len(p) > 0 || s.output != outputLast) {
		c.ready.Remove(&s.node)
		return out
	}
	c.sendWindow.Take(n)
	s.sendWindow.Take(n)
	c.progress.add(n, now)
	c.drainCredit = min(c.drainCredit+n, maxWaiting)
	s.progress.add(n, now)
	c.takeTurns(s, n)
	if n == len(p) || n >= h2.MinData {
		c.budget.SentData()
	}
	isLast := s.output == outputLast && n == len(p) && (!isHeld || len(s.last) == 0)
	if h2.FrameHeadSize+n > cap(out)-len(out) {
		out = grow(out, n)
	}
	out = h2.AppendDataHead(out, s.id, n, isLast)
	out = append(out, p[:n]...)
	if isHeld {
		if s.held = s.held[:copy(s.held, s.held[n:])]; len(s.held) == 0 {
			s.held = s.emptied(&s.heldBuffer, s.held)
			c.caughtUp(s)
		}
		c.held -= n
	} else {
		s.last = s.last[n:]
	}
	switch {
	case isLast:
		c.ready.Remove(&s.node)
		s.output = outputEnded
		c.outputComplete(s)
	case !s.hasContent():
		c.ready.Remove(&s.node)
		if s.streamConn != nil {
			c.scheduleTimeout(s.streamConn) // its time may have come meanwhile
		}
	case s.sendWindow <= 0:
		c.ready.Remove(&s.node)
	}
	if isHeld {
		s.notify()
	}
	return out
}
