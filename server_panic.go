package sluice

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// handlerPanicked makes the response a 500 if nothing was sent yet.
func (ctx *RequestCtx) handlerPanicked(v any) server.Outcome {
	if v == ErrAbortHandler {
		return server.OutcomeAbort
	}
	ctx.reportPanic(v)
	switch {
	case ctx.LastTimeoutErrorResponse() != nil: // other goroutines may be using ctx
		ctx.TimeoutErrorWithCode(StatusMessage(StatusInternalServerError), StatusInternalServerError)
		return server.OutcomePanic
	case ctx.isFlushed():
		return server.OutcomeAbort
	}
	(*servedRequest)(ctx).Decline(StatusInternalServerError)
	return server.OutcomePanic
}

// crash ends the process because of a panic (Server.CrashOnPanic). Engines
// recover panics, so it panics in another goroutine.
func crash(v any) {
	text := fmt.Sprintf("%v\n\n%s", v, debug.Stack())
	go panic(text)
	select {}
}

// ErrAbortHandler, as the value of a panic in a handler, makes the server close
// the connection without a response and without a log entry.
var ErrAbortHandler = errors.New("sluice: abort handler")

// panicSum tells panics apart, whose values need not be comparable. It is not 0.
func panicSum(v any) uint32 { return ascii.AddSum(0, []byte(fmt.Sprint(v))) | 1 }

// letGo releases what ends with a request, on a ctx that other goroutines still
// use as a context. The user values stay, because they may still be read.
func (ctx *RequestCtx) letGo() {
	ctx.Request.ResetBody()
	ctx.Response.ResetBody()
	ctx.VisitUserValuesAll(func(_, value any) {
		if c, ok := value.(io.Closer); ok {
			ctx.closeValue(c)
		}
	})
}
