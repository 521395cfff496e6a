package fasthttpadaptor

import (
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/sluicehttp/sluice"
)

// NewFastHTTPHandlerFunc is NewFastHTTPHandler for a function.
func NewFastHTTPHandlerFunc(h http.HandlerFunc) sluice.RequestHandler { return NewFastHTTPHandler(h) }

// NewFastHTTPHandler returns a handler that runs h.
//
// h gets a complete request. The context of the request ends when the client
// closes the connection, when h has returned, and when the server shuts down.
// The values of the context are the user values of the RequestCtx. Below a route of
// package router, Pattern and PathValue of the request are that route's. The status
// and the fields that the RequestCtx already has stay unless h sets them. If
// package net/url cannot parse the target, the response is 400.
//
// The http.ResponseWriter also is an http.Flusher, http.Hijacker, io.ReaderFrom
// and io.StringWriter, and supports http.ResponseController. What h writes is
// collected in memory, without a limit, until h returns. Until then, the handlers
// around this one can change the response.
//
// A handler that writes much should call Flush. At the first Flush, the returned
// RequestHandler returns, and the body becomes a stream of what h has written
// and will write. The stream is passed on at each Flush, and whenever 64 KiB are
// collected. It is chunked if h has not set Content-Length. If the stream is
// closed before its end, Write returns errors to h, and the context ends. The
// Flush of a response without a body has no effect: it is sent when h returns.
// Hijack after Flush is an error.
//
// The request's body and the ResponseWriter must not be used after h has
// returned; their methods then return errors.
//
// h runs on its own goroutine. A panic with http.ErrAbortHandler, or
// runtime.Goexit, closes the connection without another byte; the handlers
// around this one do not see it. Any other panic is logged once, and then raised
// again in the handlers around this one and the server. After Flush, such a
// panic closes the connection before the end of the body.
func NewFastHTTPHandler(h http.Handler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		x := &exchange{handler: h}
		x.context.ctx = ctx
		x.writer.ctx = ctx
		x.writer.exchange = x
		var received http.Request // copied by WithContext, so that only the copy is allocated
		if err := fillRequest(&received, ctx, &x.source, true); err != nil {
			ctx.Error("malformed request target", sluice.StatusBadRequest)
			return
		}
		x.request = received.WithContext(&x.context)
		x.source.request = x.request
		x.source.endsRead = x.source.stream != nil && ctx.ProtoMajor() > 1
		x.ready.Add(1)
		go x.run()
		x.ready.Wait()
		if x.writer.stream == nil {
			x.settle()
		}
	}
}

// An exchange is the state of one request besides its http.Request. It is not
// pooled, because handlers may retain parts of it.
//
// The handler runs on its own goroutine, because the RequestHandler must return
// while the handler continues after Flush. Until ready, the goroutine of the
// RequestHandler waits, and the handler owns the RequestCtx. After that, the
// goroutine of the RequestHandler owns the response and reads writer.stream.
type exchange struct {
	writer  responseWriter
	context requestContext
	source  requestBody

	handler     http.Handler
	request     *http.Request
	ready       sync.WaitGroup // until the handler has returned or called Flush
	hasReturned bool           // without panic and Goexit
	panicValue  any            // why the handler ended; nil: it has returned
}

// run calls the handler.
func (x *exchange) run() {
	defer x.returned()
	x.handler.ServeHTTP(&x.writer, x.request)
	x.hasReturned = true
}

// returned records how the handler ended, and wakes the goroutine that waits
// for it.
func (x *exchange) returned() {
	v := recover()
	if v == nil && !x.hasReturned { // runtime.Goexit
		v = http.ErrAbortHandler
	}
	s := x.writer.stream
	switch {
	case v == nil || v == http.ErrAbortHandler:
	case s == nil:
		x.writer.ctx.LogPanic(v) // here, where the stack is that of the handler
	default: // it is not raised again
		x.writer.ctx.Logger().Printf("panic in handler of net/http, after Flush: %v\n%s", v, debug.Stack())
	}
	x.panicValue = v
	if s == nil {
		x.writer.isOver.Store(true)
		x.ready.Done()
		return
	}
	if v == nil {
		_ = s.send(nil) // it fails only if the reader has closed the stream
	}
	x.writer.isOver.Store(true)
	s.finish(v != nil)
}

// settle completes the response of a handler that has ended without Flush.
func (x *exchange) settle() {
	v := x.panicValue
	if v == nil {
		x.writer.finish()
	}
	x.end()
	c := x.writer.hijacked
	switch {
	case c != nil && v == nil && x.writer.ctx.LastTimeoutErrorResponse() == nil: // otherwise the connection is closed
		c.pause()
	case c != nil:
		c.fail()
		if v != nil && v != http.ErrAbortHandler {
			panic(sluice.ErrAbortHandler) // the peer may already speak another protocol: send no response
		}
	case v == http.ErrAbortHandler:
		x.abort()
	case v != nil:
		panic(v)
	}
}

// end detaches from the RequestCtx everything that the handler may retain.
func (x *exchange) end() {
	x.source.cut()
	x.context.end()
}

// abort ends the connection without another byte.
func (x *exchange) abort() {
	if c := x.writer.ctx.Conn(); c != nil {
		_ = c.Close() // the server notices it and sends nothing
	}
}
