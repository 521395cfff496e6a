package sluice

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/sluicehttp/sluice/internal/message"
)

// HeaderReceived implements server.Request. It applies the limits that the callback returns.
func (r *servedRequest) HeaderReceived() (err error) {
	ctx := (*RequestCtx)(r)
	if ctx.cfg.headerReceived == nil {
		return nil
	}
	defer ctx.recoverCallback(&err)
	own := ctx.cfg.headerReceived(&ctx.Request.Header)
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
	return nil
}

// recoverCallback turns a panic of a callback into an error.
func (ctx *RequestCtx) recoverCallback(err *error) {
	if v := recover(); v != nil {
		if ctx.cfg.crashOnPanic {
			crash(v)
		}
		ctx.cfg.logger.Printf("panic in a callback for %q: %v\n%s", ctx.exchange.RemoteAddr(), v, debug.Stack())
		*err = errCallbackPanicked
	}
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
