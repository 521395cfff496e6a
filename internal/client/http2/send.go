package http2

import (
	"io"
	"runtime"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

const (
	// asideSize is the size from which a write may wait for the peer: a goroutine does it.
	asideSize = 32 << 10
	// turnSize is how large a write becomes at most by content.
	turnSize = 64 << 10
	// frameSize is the largest payload of a DATA frame: larger ones would delay other
	// streams.
	frameSize = 16 << 10
	// uploadSize is how many bytes of a Source are read at once.
	uploadSize = 32 << 10
	// keptOut is how much memory a connection keeps for each of out and spare.
	keptOut = 16 << 10
	// maxOut is how many bytes may wait in out: the peer sends what must be answered, and
	// does not read.
	maxOut = 2 << 20
	// closeTime bounds the writing of the last frames.
	closeTime = int64(time.Second)
)

// writing is the part of a Conn that writes.
type writing struct {
	out       []byte // frames in the order in which they are sent
	spare     []byte // the memory of out while out is written
	isWriting bool   // a goroutine is writing, or about to
	writer    *waiter
	offered   int64 // bytes that were given to conn.Write
	drained   int64 // of them the peer has read so many, because it has answered what followed
	isCut     bool  // out begins with the rest of a frame
	// writeLimit is the deadline of conn for writes, in Nanos; 0: none; passed: it is over.
	writeLimit int64

	encoder    h2.Encoder
	sendWindow h2.SendWindow
	ready      h2.Scheduler[Stream]
}

// appendRequest appends the head of s, and makes its content wait.
func (c *Conn) appendRequest(s *Stream, now int64) {
	s.start = c.offered + int64(len(c.out))
	isLast := s.Source == nil && len(s.Content) == 0 && !s.HasTrailer && !s.IsConnect
	start := len(c.out)
	c.out = h2.BeginHeaders(c.out)
	c.out = s.Request.AppendHead(c.encoder.Begin(c.out), &c.encoder)
	c.out = h2.FinishHeaders(c.out, start, s.id, isLast, c.peer.MaxFrameSize)
	switch {
	case s.IsConnect:
	case isLast:
		c.requestSent(s, now)
	case s.Source == nil:
		c.supply(s, s.Content, true, now)
	}
}

// supply makes p the content of s that waits, which must be sent before the next. isLast:
// nothing follows.
func (c *Conn) supply(s *Stream, p []byte, isLast bool, now int64) {
	if s.content = p; isLast {
		s.output = outputLast
	}
	if len(p) > 0 {
		c.schedule(s)
	} else if isLast {
		c.appendEnd(s, now)
	}
}

// schedule queues s if it has content to send and a window for it.
func (c *Conn) schedule(s *Stream) {
	if len(s.content) > 0 && s.sendWindow > 0 {
		c.ready.Push(&s.node)
	}
}

// fillOut appends content by turns.
func (c *Conn) fillOut() {
	if c.phase >= phaseBroken {
		return
	}
	now := int64(0)
	for c.sendWindow > 0 && len(c.out) < turnSize-frameSize {
		node := c.ready.Next()
		if node == nil {
			return
		}
		if now == 0 {
			now = clock.Nanos()
		}
		c.appendContent(node.Owner, now)
	}
}

// appendContent appends one frame of the content of s, which is scheduled.
func (c *Conn) appendContent(s *Stream, now int64) {
	n := int(min(int64(len(s.content)), frameSize, int64(c.sendWindow), int64(s.sendWindow)))
	if n <= 0 {
		c.ready.Remove(&s.node)
		return
	}
	c.sendWindow.Take(n)
	s.sendWindow.Take(n)
	isDone := n == len(s.content)
	isLast := isDone && s.output == outputLast
	c.out = h2.AppendDataHead(c.out, s.id, n, isLast && !s.HasTrailer)
	c.out = append(c.out, s.content[:n]...)
	s.content = s.content[n:]
	if isDone || s.sendWindow <= 0 {
		c.ready.Remove(&s.node)
	}
	switch {
	case isLast && s.HasTrailer:
		c.appendEnd(s, now)
	case isLast:
		c.requestSent(s, now)
	}
	if isDone || n >= h2.MinData {
		c.budget.SentData()
	}
	if isDone {
		s.moved.Broadcast()
		c.wake(&s.sender)
	}
}

// appendEnd appends what ends the request after its content: trailer fields, or an empty
// frame if there are none.
func (c *Conn) appendEnd(s *Stream, now int64) {
	if !s.HasTrailer || !c.appendTrailer(s) {
		c.out = h2.AppendDataHead(c.out, s.id, 0, true)
	}
	c.requestSent(s, now)
}

// appendTrailer appends the trailer fields. It returns false if there are none.
func (c *Conn) appendTrailer(s *Stream) bool {
	start := len(c.out)
	c.out = h2.BeginHeaders(c.out)
	block := len(c.out)
	c.out = s.Request.AppendTrailer(c.encoder.Begin(c.out), &c.encoder)
	if len(c.out) == block {
		c.out = c.out[:start]
		return false
	}
	c.out = h2.FinishHeaders(c.out, start, s.id, true, c.peer.MaxFrameSize)
	return true
}

// requestSent notes that the request is complete. From now on, ReadTimeout bounds it. A
// tunnel may be over.
func (c *Conn) requestSent(s *Stream, now int64) {
	s.output = outputEnded
	switch s.input {
	case inputStreamed:
		return
	case inputEnded:
		c.finish(s, nil)
		return
	}
	s.due = s.Deadline
	if s.ReadTimeout > 0 {
		s.due = earlier(s.due, clock.Later(now, s.ReadTimeout))
	}
	c.setDue(s.due)
}

// earlier returns the earlier of two times, of which 0 is never.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// hasOutput reports whether there is something to write.
func (c *Conn) hasOutput() bool {
	return len(c.out) > 0 || !c.ready.IsEmpty() && c.sendWindow > 0 && c.phase < phaseBroken
}

// flush writes what there is, unless another goroutine writes: that one writes it too.
// w is the caller; nil: it may wait for the peer.
func (c *Conn) flush(w *waiter) {
	if c.phase == phaseBroken {
		c.out = c.out[:0]
	}
	if c.isWriting || c.phase == phaseClosed {
		return
	}
	if !c.hasOutput() && c.phase < phaseFailed {
		return
	}
	c.isWriting = true
	if w != nil && len(c.streams) > 1 {
		// Other callers that can run add their frames: one write for many.
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.write(w)
}

// write writes until there is nothing to write. w is the caller, or nil.
func (c *Conn) write(w *waiter) {
	for isFirst := true; c.phase < phaseClosed; isFirst = false {
		c.fillOut()
		if len(c.out) == 0 || c.phase == phaseBroken {
			break
		}
		if w != nil && (c.mayWait() || !isFirst && w.isSignalled) || !c.writeOut(w) {
			go c.writeAside()
			return
		}
	}
	c.isWriting = false
	if c.phase == phaseFailed {
		c.phase = phaseClosed
	}
}

// mayWait reports whether the next write may wait for the peer. Over TLS, where a waiting
// write cannot be interrupted, it may also wait for what was written before.
func (c *Conn) mayWait() bool {
	size := int64(len(c.out))
	if c.cfg.IsTLS {
		size += c.offered - c.drained
	}
	return size > asideSize
}

// writeAside writes on a goroutine of its own.
func (c *Conn) writeAside() {
	c.mu.Lock()
	defer c.unlock()
	c.write(nil)
}

// writeOut writes what is in out now. It is false if w, the caller, is signalled before,
// and the write was interrupted.
func (c *Conn) writeOut(w *waiter) bool {
	p := c.out
	c.out, c.spare, c.isCut = c.spare[:0], nil, false
	c.budget.AcksSent()
	c.offered += int64(len(p))
	now := clock.Nanos()
	for at, began := 0, now; at < len(p) && c.phase < phaseClosed; {
		c.limitWrite(c.writeDue(now), now)
		c.writer = w
		c.mu.Unlock()
		n, err := c.conn.Write(p[at:])
		c.mu.Lock()
		c.writer = nil
		at += n
		if err == nil || c.phase == phaseClosed {
			continue
		}
		if now = clock.Nanos(); n > 0 {
			began = now
		}
		switch {
		case isTimeout(err) && !c.cfg.IsTLS && c.phase < phaseFailed && now-began < int64(c.cfg.StallTimeout):
			c.writeLimit = passed
			c.expire(now)
			if w != nil && (w.isSignalled || c.signalAt(w, now)) && at < len(p) {
				c.takeBack(p, at)
				return false
			}
		default:
			c.offered -= int64(len(p) - at)
			c.stopWriting(err)
			return true
		}
	}
	c.spare = p[:0]
	return true
}

// takeBack puts p[at:] back to the beginning of out.
func (c *Conn) takeBack(p []byte, at int) {
	c.offered -= int64(len(p) - at)
	rest := p[:copy(p, p[at:])]
	c.spare, c.out, c.isCut = c.out, append(rest, c.out...), c.isCut || at > 0
}

// writeDue returns when a write is to be interrupted that begins now. A write over TLS
// cannot be continued: it is interrupted only to end the connection.
func (c *Conn) writeDue(now int64) int64 {
	switch limit := now + int64(c.cfg.StallTimeout); {
	case c.phase >= phaseFailed:
		return now + closeTime
	case !c.cfg.IsTLS:
		return earlier(c.due, limit)
	case c.writeLimit != 0 && c.writeLimit > now+int64(c.cfg.StallTimeout)/2:
		return c.writeLimit
	default:
		c.writeLimit = passed
		return limit
	}
}

// limitWrite makes writes end at due, or before, as limitRead does.
func (c *Conn) limitWrite(due, now int64) {
	if c.writeLimit != 0 && c.writeLimit > now && c.writeLimit <= due {
		return
	}
	c.writeLimit = due
	_ = c.conn.SetWriteDeadline(clock.DeadlineOrNone(due)) // a failure shows when writing
}

// readSource sends the body of s.
func (s *Stream) readSource() {
	b := buf.Get(uploadSize)
	p := b.B[:uploadSize]
	left := s.Length
	for err := error(nil); err == nil; {
		part := p
		if left >= 0 {
			part = p[:min(left, uploadSize)]
		}
		var n int
		if len(part) > 0 {
			n, err = s.Source.Read(part)
		}
		if left >= 0 {
			left -= int64(n)
		}
		switch {
		case left == 0:
			err = io.EOF
		case err == io.EOF && left > 0:
			err = streams.ErrSourceLength
		}
		if !s.send(p[:n], err) {
			break
		}
	}
	c := s.conn
	c.mu.Lock()
	defer c.unlock()
	s.upload = uploadNone
	s.moved.Broadcast()
	b.Release()
}

// send sends the next part of the body, after which err has ended the Source or nil has
// not. It waits until p is not used any more. The result is false if the stream has ended.
func (s *Stream) send(p []byte, err error) bool {
	c := s.conn
	c.mu.Lock()
	defer c.unlock()
	switch {
	case s.state != streamOpen:
		return false
	case err == body.ErrWithheld:
		return false
	case err != nil && err != io.EOF:
		c.cancel(s, err)
		c.flush(nil)
		return false
	}
	s.upload = uploadSending
	c.supply(s, p, err == io.EOF, clock.Nanos())
	c.flush(nil)
	for len(s.content) > 0 {
		s.moved.Wait()
	}
	s.upload = uploadReading
	return s.state == streamOpen
}

// join waits until Source is not used any more.
func (s *Stream) join() {
	c := s.conn
	if s.upload == uploadReading {
		if source, ok := s.Source.(io.Closer); ok {
			c.mu.Unlock()
			_ = source.Close() // it makes Read return
			c.mu.Lock()
		}
	}
	for s.upload != uploadNone {
		s.moved.Wait()
	}
}
