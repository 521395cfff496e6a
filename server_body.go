package sluice

import (
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// HeaderReceived implements server.Request. It applies the limits that the callback returns.
func (r *servedRequest) HeaderReceived() error {
	ctx := (*RequestCtx)(r)
	if ctx.cfg.headerReceived == nil {
		return nil
	}
	return ctx.callBack(func(c *serverConfig) {
		own := c.headerReceived(&ctx.Request.Header)
		if own.MaxRequestBodySize > 0 {
			ctx.maxBodySize = own.MaxRequestBodySize
			ctx.Request.setLimit(own.MaxRequestBodySize)
		}
		if own.ReadTimeout > 0 {
			ctx.readTimeout = own.ReadTimeout
		}
		if own.WriteTimeout > 0 {
			ctx.exchange.SetWriteTimeout(own.WriteTimeout)
		}
	})
}

// callBack runs f, which calls a callback of the user. It returns a panic of it as an error.
func (ctx *RequestCtx) callBack(f func(c *serverConfig)) (err error) {
	defer func() {
		if v := recover(); v != nil {
			if ctx.cfg.crashOnPanic {
				crash(v)
			}
			ctx.cfg.logger.Printf("panic in a callback for %q: %v\n%s", ctx.exchange.RemoteAddr(), v, debug.Stack())
			err = errCallbackPanicked
		}
	}()
	f(ctx.cfg)
	return nil
}

// errCallbackPanicked says that a callback of the Server panicked.
var errCallbackPanicked = errors.New("sluice: internal server error")

// ExpectBody implements server.Request. If the body is streamed, the handler runs before it
// has arrived.
func (r *servedRequest) ExpectBody(length int64) (isStreamed bool, err error) {
	ctx := (*RequestCtx)(r)
	switch {
	case length >= message.TooLong: // an int cannot hold the length
		return false, ErrBodyTooLarge
	case ctx.cfg.streamBody:
		ctx.requestStream.attach(ctx)
		return true, nil
	case length > int64(ctx.maxBodySize):
		return false, ErrBodyTooLarge
	}
	return false, nil
}

// BodyReceived implements server.Request. Memory grows with the bytes that have arrived,
// within the limits of this request and of the server.
func (r *servedRequest) BodyReceived(p []byte, more uint64) error {
	ctx := (*RequestCtx)(r)
	if !ctx.mayHold(uint64(len(p))) {
		return ErrBodyTooLarge
	}
	ctx.bodyHeld += int64(len(p))
	if ctx.cfg.maxBodyMemory > 0 {
		if ctx.server.gauges.bodyMemory.Add(int64(len(p))) > ctx.cfg.maxBodyMemory {
			return errBodyMemory
		}
	}
	ctx.Request.appendBodyBytes(p)
	if !ctx.mayHold(more) {
		return ErrBodyTooLarge
	}
	return nil
}

// mayHold reports whether n more bytes of the body are within the limit.
func (ctx *RequestCtx) mayHold(n uint64) bool {
	return n <= uint64(int64(ctx.maxBodySize)-ctx.bodyHeld)
}

// bodyRateGrace is how long a body may arrive more slowly than MinBodyRate.
const bodyRateGrace = 5 * time.Second

// BodyTimeout implements server.Request. With a minimum rate, every byte that arrives extends
// it.
func (r *servedRequest) BodyTimeout() time.Duration {
	ctx := (*RequestCtx)(r)
	timeout := ctx.readTimeout
	if minRate := ctx.cfg.minBodyRate; minRate > 0 {
		earned := bodyRateGrace + time.Duration(float64(ctx.bodyHeld)/float64(minRate)*float64(time.Second))
		if timeout == 0 || earned < timeout {
			timeout = earned
		}
	}
	return timeout
}

// errStreamDetached is returned to a reader that outlives its request.
var errStreamDetached = errors.New("sluice: request body stream used after its request ended")

// requestStream is the body of a request that is read while it arrives
// (Server.StreamRequestBody). It is a part of its RequestCtx. The zero value
// has no body.
type requestStream struct {
	mu       sync.Mutex // a handler that timed out may still be reading
	ctx      *RequestCtx
	exchange server.Exchange // of ctx, also after ctx was given up; nil: no body is streamed
	err      error           // returned by every further Read; io.EOF at the verified end
	isArmed  bool            // exchange.arm was called
	isEnding atomic.Bool     // stop was called
	limit    int64           // of LimitBody; 0: none
	taken    int64           // bytes that Read has returned
	// awaitsContinue is set while the client waits for 100-continue; see ExpectContinue.
	// Without it the client may not send the body at all.
	awaitsContinue bool
}

// attach makes s the body of the request in ctx.
func (s *requestStream) attach(ctx *RequestCtx) {
	s.mu.Lock() // a goroutine of the request before may still try to read
	s.ctx, s.exchange = ctx, ctx.exchange
	s.mu.Unlock()
	ctx.Request.setServerStream(s)
}

// reset detaches s from its request and clears it.
func (s *requestStream) reset() {
	if s.exchange != nil { // so that the compiler inlines the usual case
		s.end()
	}
}

func (s *requestStream) end() {
	s.mu.Lock()
	s.ctx, s.exchange, s.err = nil, nil, nil
	s.isArmed, s.awaitsContinue = false, false
	s.isEnding.Store(false)
	s.limit, s.taken = 0, 0
	s.mu.Unlock()
}

// interrupt is reset for a ctx that was given up. It first ends a waiting Read,
// which then returns an error.
func (s *requestStream) interrupt() {
	if s.exchange == nil {
		return
	}
	if !s.mu.TryLock() {
		s.exchange.InterruptRead()
		s.mu.Lock()
	}
	s.mu.Unlock()
	s.reset()
}

// stop makes a waiting Read return, and every further one; the rest of the body counts as
// unread. It relies on the order in MayWait, as interrupt does.
func (s *requestStream) stop() {
	if s.exchange == nil {
		return
	}
	s.isEnding.Store(true)
	if !s.mu.TryLock() {
		s.exchange.InterruptRead()
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = errStreamDetached
	}
}

// MayWait implements server.Request. interrupt relies on the order: Arm is called before
// isDetached is read.
func (r *servedRequest) MayWait() error {
	ctx := (*RequestCtx)(r)
	s := &ctx.requestStream
	if !s.isArmed {
		ctx.wire.Lock()
		s.exchange.Arm()
		ctx.wire.Unlock()
		s.isArmed = true
	}
	if ctx.wire.isDetached.Load() || s.isEnding.Load() {
		return errStreamDetached
	}
	if !s.awaitsContinue {
		return nil
	}
	if err := ctx.beginWrite(); err != nil {
		return errStreamDetached
	}
	defer ctx.endWrite()
	if !ctx.askForBody() {
		return ErrConnectionClosed
	}
	return nil
}

// promiseContinue sends 100-continue to a client that waits for it, unless the body is
// streamed: then askForBody sends it. It returns false if the connection is broken.
func (ctx *RequestCtx) promiseContinue() bool {
	ctx.requestStream.awaitsContinue = true
	return ctx.requestStream.exchange != nil || ctx.askForBody()
}

// askForBody sends 100-continue if the client still waits for it: after the head of the
// response, no interim response may follow. It returns false if the connection is broken.
func (ctx *RequestCtx) askForBody() bool {
	if !ctx.requestStream.awaitsContinue {
		return true
	}
	ctx.requestStream.awaitsContinue = false
	return ctx.isFlushed() || ctx.exchange.SendInterim(nil)
}

// warn logs, once for each server, that a handler reads a whole body into
// memory although Server.StreamRequestBody is set.
func (s *requestStream) warn() {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx != nil {
		ctx.warn(misuseReadsBody)
	}
}

// isUnread reports whether the body was not read to its verified end.
func (s *requestStream) isUnread() bool {
	return s.exchange != nil && s.hasMore() // so that the compiler inlines the usual case
}

func (s *requestStream) hasMore() bool {
	if !s.mu.TryLock() {
		return true // a handler that timed out is reading
	}
	defer s.mu.Unlock()
	return s.err != io.EOF
}

// Unread implements server.Request.
func (r *servedRequest) Unread() (server.BodyState, error) {
	s := &r.requestStream
	switch {
	case !s.isUnread():
		return server.BodyRead, nil
	case s.awaitsContinue:
		return server.BodyAwaited, s.err
	}
	return server.BodyUnread, s.err
}

// ReadLimit implements server.Request.
func (r *servedRequest) ReadLimit() (start int64, timeout time.Duration) {
	return r.start, r.readTimeout
}

// Read implements io.Reader. It returns io.EOF only at the verified end of the
// body, io.ErrUnexpectedEOF if the client stopped before that, and ErrBodyTooLarge if there
// is more than LimitBody allows.
func (s *requestStream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exchange == nil || s.ctx.wire.isDetached.Load() {
		return 0, errStreamDetached
	}
	if s.err != nil {
		return 0, s.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	isFull := false
	if s.limit > 0 {
		isFull = s.taken >= s.limit
		p = p[:min(int64(len(p)), max(s.limit-s.taken, 1))] // when it is full, one byte tells whether there is more
	}
	n, err := s.exchange.ReadBody(p)
	if err != nil {
		s.err = err
	}
	switch {
	case n > 0 && isFull:
		s.err = ErrBodyTooLarge
		return 0, s.err
	case n > 0:
		err = nil
	}
	s.taken += int64(n)
	return n, err
}

// limitTo is LimitBody for s. It reports whether the body is known to be larger. It does not wait
// for a Read of another goroutine, which may wait for the response to begin.
func (s *requestStream) limitTo(n int64) (isOver bool) {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	if s.exchange != nil && (s.limit == 0 || n < s.limit) {
		s.limit = n
	}
	return s.err == ErrBodyTooLarge || s.taken > n
}

// LimitBody lowers the limit of the request's body to n bytes, for a handler that expects less
// than Server.MaxRequestBodySize allows. It also bounds what the body decodes to. An n below 1
// changes nothing.
//
// It returns ErrBodyTooLarge if the body is known to be larger: by its Content-Length, by what
// has arrived, or because a read of the stream has failed for that reason. With
// Server.StreamRequestBody, the stream returns the first n bytes of a larger body, and then
// ErrBodyTooLarge; the server closes the connection after the response. Call it before another
// goroutine reads the stream: during a Read it does not change the stream.
func (ctx *RequestCtx) LimitBody(n int) error {
	if n < 1 {
		return nil
	}
	req := &ctx.Request
	if req.limit == 0 || n < req.limit {
		req.setLimit(n)
	}
	isOver := req.Header.ContentLength() > n || len(req.bodyBytes()) > n
	if ctx.requestStream.limitTo(int64(n)) || isOver {
		return ErrBodyTooLarge
	}
	return nil
}
