package sluice

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/h1"
)

// What a handler leaves of a streamed body is drained only within these
// bounds; beyond them it is cheaper to open another connection.
const (
	drainLimit   = 256 << 10
	drainTimeout = 50 * time.Millisecond
)

// errStreamDetached is what a reader gets that outlives its request.
var errStreamDetached = errors.New("sluice: request body stream used after its request ended")

// requestStream is the body of a request that is read while it arrives
// (Server.StreamRequestBody). It is a part of its RequestCtx; the zero value
// has no body.
type requestStream struct {
	mu      sync.Mutex // a handler that timed out may still be reading
	conn    *serverConn
	ctx     *RequestCtx
	drained int64
	err     error // what every further Read returns; io.EOF at the verified end
	// waiting is set before a Read waits for the client: closing it ends that.
	waiting atomic.Pointer[net.Conn]
	// awaitsContinue is set while the client waits for 100-continue: it sends
	// the body when that is read, and may not send it otherwise.
	awaitsContinue bool
}

// attach makes s the body of the request that conn is reading.
func (s *requestStream) attach(c *serverConn) {
	s.conn, s.ctx = c, c.ctx
	c.ctx.Request.setServerStream(s)
}

// reset detaches s and forgets everything.
func (s *requestStream) reset() {
	if s.conn == nil {
		return
	}
	s.mu.Lock()
	s.conn, s.ctx, s.drained, s.err = nil, nil, 0, nil
	s.awaitsContinue = false
	if s.waiting.Load() != nil {
		s.waiting.Store(nil)
	}
	s.mu.Unlock()
}

// interrupt is reset for a ctx that was detached: a Read that is waiting ends
// with an error before it returns.
func (s *requestStream) interrupt() {
	if s.conn == nil {
		return
	}
	if !s.mu.TryLock() {
		if c := s.waiting.Load(); c != nil {
			(*c).Close()
		}
		s.mu.Lock()
	}
	s.mu.Unlock()
	s.reset()
}

// mayWait prepares for waiting for the client. The order, first waiting and
// then isDetached, is what interrupt relies on.
func (s *requestStream) mayWait() error {
	if s.waiting.Load() == nil {
		s.ctx.wire.Lock()
		c := s.conn.conn.Blocking()
		s.ctx.wire.Unlock()
		s.waiting.Store(&c)
	}
	if s.ctx.wire.isDetached.Load() {
		return errStreamDetached
	}
	if s.awaitsContinue {
		s.awaitsContinue = false
		return s.ctx.sendContinue()
	}
	return nil
}

// sendContinue has the client send the body that it announced (RFC 9110
// section 10.1.1), unless the answer was begun.
func (ctx *RequestCtx) sendContinue() error {
	if err := ctx.beginWrite(); err != nil {
		return errStreamDetached
	}
	defer ctx.endWrite()
	if ctx.hasFlushed {
		return nil
	}
	ctx.out = append(ctx.out, continueLine...)
	if !ctx.conn.flush() {
		return ErrConnectionClosed
	}
	return nil
}

// warn tells the log, once for each server, that a handler has the whole body
// read that Server.StreamRequestBody is to spare it.
func (s *requestStream) warn() {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && c.server.gauges.hasWarned.CompareAndSwap(false, true) {
		c.cfg.logger.Printf("a handler reads a streamed body by Request.Body, which keeps all of it in memory: use BodyStream")
	}
}

// isUnread tells whether some of the body was not read to its verified end.
func (s *requestStream) isUnread() bool {
	if s.conn == nil {
		return false
	}
	if !s.mu.TryLock() {
		return true // a handler that timed out is reading
	}
	defer s.mu.Unlock()
	return s.err != io.EOF
}

// Read implements io.Reader. It returns io.EOF only at the verified end of the
// body, and io.ErrUnexpectedEOF where the client stopped before that.
func (s *requestStream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.ctx.wire.isDetached.Load() {
		return 0, errStreamDetached
	}
	if s.err != nil {
		return 0, s.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	s.conn.conn.SetReadDeadline(s.ctx.start, s.ctx.readTimeout)
	n, err := s.read(p)
	if err == io.EOF && !s.isComplete() {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		s.err = err
	}
	if n > 0 {
		err = nil
	}
	return n, err
}

// isComplete tells whether the body's verified end was reached.
func (s *requestStream) isComplete() bool {
	if s.ctx.parser.Has(h1.ChunkedBody) {
		return s.ctx.trailerIsRead
	}
	return s.ctx.bodyLeft == 0
}

// read returns data that is there, or waits for some.
func (s *requestStream) read(p []byte) (int, error) {
	ctx := s.ctx
	if ctx.parser.Has(h1.ChunkedBody) {
		return s.readChunked(p)
	}
	if int64(len(p)) > ctx.bodyLeft {
		p = p[:ctx.bodyLeft]
	}
	if len(s.conn.conn.Buffered()) == 0 {
		if err := s.mayWait(); err != nil {
			return 0, err
		}
	}
	n, err := s.conn.conn.Read(p)
	s.conn.countRead(n)
	ctx.bodyLeft -= int64(n)
	if ctx.bodyLeft == 0 {
		return n, io.EOF
	}
	return n, err
}

func (s *requestStream) readChunked(p []byte) (int, error) {
	conn := s.conn.conn
	chunks := &s.ctx.chunks
	for {
		in := conn.Buffered()
		if len(in) == 0 {
			if err := s.mayWait(); err != nil {
				return 0, err
			}
			if err := conn.Fill(); err != nil {
				return 0, err
			}
			continue
		}
		if !chunks.Done() {
			used, err := chunks.Advance(in)
			s.conn.discard(used)
			if err != nil {
				return 0, err
			}
			if chunks.Done() {
				s.ctx.beginTrailer()
			}
			if in = in[used:]; len(in) == 0 {
				continue
			}
		}
		if !chunks.Done() { // there is data, of which p may not hold all
			in = in[:min(len(in), len(p))]
		}
		used, data, done, err := s.ctx.nextChunked(in)
		n := copy(p, data)
		s.conn.discard(used)
		switch {
		case err != nil:
			return n, err
		case done:
			return n, io.EOF
		case n > 0:
			return n, nil
		}
	}
}

// discard takes input as a part of the body that nobody wants.
func (s *requestStream) discard(in []byte) (used int, done bool, err error) {
	ctx := s.ctx
	if !ctx.parser.Has(h1.ChunkedBody) {
		used = int(min(int64(len(in)), ctx.bodyLeft))
		ctx.bodyLeft -= int64(used)
		done = ctx.bodyLeft == 0
	} else {
		for used < len(in) && !done && err == nil {
			var n int
			n, _, done, err = ctx.nextChunked(in[used:])
			used += n
		}
	}
	s.drained += int64(used)
	if !done && err == nil && s.drained > drainLimit {
		err = ErrBodyTooLarge
	}
	if done {
		s.err = io.EOF
	}
	return used, done, err
}

// mayDrain tells whether the rest of the body is worth waiting for.
func (s *requestStream) mayDrain() bool {
	if s.err != nil || s.awaitsContinue { // there may be no end to find
		return false
	}
	return s.ctx.parser.Has(h1.ChunkedBody) || s.ctx.bodyLeft <= drainLimit
}

// drainNow reads the rest of the body away at once, within the bounds. It
// reports whether the end was reached.
func (s *requestStream) drainNow() bool {
	if !s.mayDrain() {
		return false
	}
	conn := s.conn.conn
	conn.SetReadDeadline(clock.Nanos(), drainTimeout)
	for {
		in := conn.Buffered()
		if len(in) == 0 {
			if conn.Fill() != nil {
				return false
			}
			continue
		}
		used, done, err := s.discard(in)
		s.conn.discard(used)
		if done || err != nil {
			return done
		}
	}
}

// nextChunked takes input of a chunked body and its trailer section. data is a
// part of in; done says that the verified end was reached.
func (ctx *RequestCtx) nextChunked(in []byte) (used int, data []byte, done bool, err error) {
	if !ctx.chunks.Done() {
		used, data, err = ctx.chunks.Next(in)
		if ctx.chunks.Done() {
			ctx.beginTrailer()
		}
		return used, data, false, err
	}
	used, done, err = ctx.parseTrailer(in)
	return used, nil, done, err
}

// beginTrailer prepares for the trailer section of the request.
func (ctx *RequestCtx) beginTrailer() {
	keep := ctx.parser.Head
	ctx.parser.ResetTrailer()
	ctx.parser.Head = keep
	ctx.trailer.Reset()
}

// parseTrailer takes input of the trailer section. Fields that must not stand
// there are dropped.
func (ctx *RequestCtx) parseTrailer(in []byte) (used int, done bool, err error) {
	used, done, err = ctx.parser.Parse(&ctx.trailer, in)
	if done && err == nil {
		ctx.trailerIsRead = true
		if ctx.trailer.Len() > 0 {
			h1.DropForbiddenTrailers(&ctx.trailer)
			ctx.Request.Header.setParsedTrailers(&ctx.trailer)
		}
	}
	return used, done, err
}
