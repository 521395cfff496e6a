package sluice

import (
	"errors"
	"runtime/debug"
	"time"

	"github.com/sluicehttp/sluice/internal/message"
)

// headerReceived calls Server.HeaderReceived and applies the limits that it
// returns.
func (ctx *RequestCtx) headerReceived() (err error) {
	if ctx.cfg.headerReceived == nil {
		return nil
	}
	defer ctx.recoverCallback(&err)
	r := ctx.cfg.headerReceived(&ctx.Request.Header)
	if r.MaxRequestBodySize > 0 {
		ctx.maxBodySize, ctx.Request.limit = r.MaxRequestBodySize, r.MaxRequestBodySize
	}
	if r.ReadTimeout > 0 {
		ctx.readTimeout = r.ReadTimeout
	}
	if r.WriteTimeout > 0 {
		ctx.exchange.SetWriteTimeout(r.WriteTimeout)
	}
	return nil
}

// expectStatus returns the status for a body that waits for 100-continue (RFC
// 9110 section 10.1.1).
func (ctx *RequestCtx) expectStatus() (status int, err error) {
	defer ctx.recoverCallback(&err)
	switch {
	case ctx.cfg.expectHandler != nil:
		return ctx.cfg.expectHandler(ctx), nil
	case ctx.cfg.continueHandler != nil && !ctx.cfg.continueHandler(&ctx.Request.Header):
		return StatusExpectationFailed, nil
	}
	return StatusContinue, nil
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

// refuseBody makes the response to a request whose body was refused with status.
func (ctx *RequestCtx) refuseBody(status int) {
	resp := &ctx.Response
	resp.SetStatusCode(status)
	if len(resp.bodyBytes()) == 0 && resp.stream == nil {
		resp.SetBodyString(StatusMessage(status))
	}
}

// expectBody prepares for a body of length bytes, -1 if the length is unknown.
// If the body is streamed, the handler runs before it has arrived.
func (ctx *RequestCtx) expectBody(length int64) (isStreamed bool, err error) {
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

// keepBody stores received bytes of the body. Memory grows with the bytes that
// have arrived, within the limits of this request and of the server.
func (ctx *RequestCtx) keepBody(data []byte) error {
	if !ctx.mayHold(uint64(len(data))) {
		return ErrBodyTooLarge
	}
	ctx.bodyHeld += int64(len(data))
	if ctx.cfg.maxBodyMemory > 0 {
		if ctx.server.gauges.bodyMemory.Add(int64(len(data))) > ctx.cfg.maxBodyMemory {
			return errBodyMemory
		}
	}
	ctx.Request.appendBodyBytes(data)
	return nil
}

// mayHold reports whether n more bytes of the body are within the limit.
func (ctx *RequestCtx) mayHold(n uint64) bool {
	return n <= uint64(int64(ctx.maxBodySize)-ctx.bodyHeld)
}

// bodyRateGrace is how long a body may arrive more slowly than MinBodyRate.
const bodyRateGrace = 5 * time.Second

// bodyTimeout returns how long the rest of the body may take, counted from the
// start of the request. With a minimum rate, every byte that arrives extends
// it.
func (ctx *RequestCtx) bodyTimeout() time.Duration {
	timeout := ctx.readTimeout
	if minRate := ctx.cfg.minBodyRate; minRate > 0 {
		earned := bodyRateGrace + time.Duration(float64(ctx.bodyHeld)/float64(minRate)*float64(time.Second))
		if timeout == 0 || earned < timeout {
			timeout = earned
		}
	}
	return timeout
}
