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

// The server drains the unread rest of a streamed body only within these
// limits. Beyond them, opening another connection is cheaper.
const (
	drainLimit   = 256 << 10
	drainTimeout = 50 * time.Millisecond
)

// errStreamDetached is returned to a reader that outlives its request.
var errStreamDetached = errors.New("sluice: request body stream used after its request ended")

// requestStream is the body of a request that is read while it arrives
// (Server.StreamRequestBody). It is a part of its RequestCtx. The zero value
// has no body.
type requestStream struct {
	mu      sync.Mutex // a handler that timed out may still be reading
	conn    *serverConn
	ctx     *RequestCtx
	drained int64
	err     error // returned by every further Read; io.EOF at the verified end
	// waiting is set before a Read waits for the client: closing it ends the wait.
	waiting atomic.Pointer[net.Conn]
	// awaitsContinue is set while the client waits for 100-continue. The server
	// sends that when the body is read; without it the client may not send the
	// body at all.
	awaitsContinue bool
}

// attach makes s the body of the request that c is reading.
func (s *requestStream) attach(c *serverConn) {
	s.conn, s.ctx = c, c.ctx
	c.ctx.Request.setServerStream(s)
}

// reset detaches s from its request and clears it.
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

// interrupt is reset for a detached ctx. It first ends a waiting Read, which
// then returns an error.
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

// mayWait prepares to wait for the client. interrupt relies on the order:
// waiting is set before isDetached is read.
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

// sendContinue asks the client to send the body that it announced (RFC 9110
// section 10.1.1), unless the response has begun.
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

// warn logs, once for each server, that a handler reads a whole body into
// memory although Server.StreamRequestBody is set.
func (s *requestStream) warn() {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && c.server.gauges.hasWarned.CompareAndSwap(false, true) {
		c.cfg.logger.Printf("a handler reads a streamed body by Request.Body, which keeps all of it in memory: use BodyStream")
	}
}

// isUnread reports whether the body was not read to its verified end.
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
// body, and io.ErrUnexpectedEOF if the client stopped before that.
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

// isComplete reports whether the verified end of the body was reached.
func (s *requestStream) isComplete() bool {
	if s.ctx.parser.Has(h1.ChunkedBody) {
		return s.ctx.trailerIsRead
	}
	return s.ctx.bodyLeft == 0
}

// read returns buffered data, or waits for some.
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
		if !chunks.Done() { // p may not hold all the data
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

// discard consumes input as a part of the body without returning it. done says
// that the verified end was reached.
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

// mayDrain reports whether the rest of the body should be drained.
func (s *requestStream) mayDrain() bool {
	if s.err != nil || s.awaitsContinue { // the end may never arrive
		return false
	}
	return s.ctx.parser.Has(h1.ChunkedBody) || s.ctx.bodyLeft <= drainLimit
}

// drainNow reads and discards the rest of the body, within the limits. It
// reports whether it reached the end.
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

// nextChunked consumes input of a chunked body and its trailer section. data is
// a part of in; done says that the verified end was reached.
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

// parseTrailer consumes input of the trailer section. It drops fields that a
// trailer section must not contain.
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
