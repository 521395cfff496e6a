package sluice

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/server"
)

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
	// awaitsContinue is set while the client waits for 100-continue; see ExpectContinue.
	// Without it the client may not send the body at all.
	awaitsContinue bool
}

// attach makes s the body of the request in ctx.
func (s *requestStream) attach(ctx *RequestCtx) {
	s.ctx, s.exchange = ctx, ctx.exchange
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
	if ctx.wire.isDetached.Load() {
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
// body, and io.ErrUnexpectedEOF if the client stopped before that.
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
	n, err := s.exchange.ReadBody(p)
	if err != nil {
		s.err = err
	}
	if n > 0 {
		err = nil
	}
	return n, err
}
