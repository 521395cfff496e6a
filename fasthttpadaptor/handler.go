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
// The request is complete, its context ends when the client goes away, when the
// handler has returned and when the server shuts down, and has the user values
// of the RequestCtx as its values. Status and fields that the RequestCtx has
// already stay, unless h sets them. A target that package net/url cannot parse
// is answered 400.
//
// The http.ResponseWriter also is an http.Flusher, http.Hijacker, io.ReaderFrom
// and io.StringWriter, and serves http.ResponseController. What h writes is
// collected in memory, however much it is, until h returns: handlers around this
// one can change the response until then. A handler that writes much should call
// Flush: with its first call this handler returns, with a body stream of what h
// has written and goes on to write, in pieces of at most 64 KiB or up to the
// next Flush. The stream is chunked if h has not set Content-Length. If nobody
// reads it to its end, h gets errors from Write, and its context ends. A response
// that has no body is sent when h returns. Hijack is an error after Flush.
// Request, its body and ResponseWriter are of no use after h has returned; what
// they return then is an error.
//
// h runs on a goroutine of its own. A panic with http.ErrAbortHandler, or
// runtime.Goexit, ends the connection without another byte; handlers around this
// one do not see it. Any other panic is logged and passed on to them and the
// server. After Flush it ends the connection without the end of the body.
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
		x.ready.Add(1)
		go x.run()
		x.ready.Wait()
		if x.writer.stream == nil {
			x.settle()
		}
	}
}

// An exchange is what one request needs beside its http.Request. It is not
// pooled: handlers may keep parts of it.
//
// The handler has a goroutine of its own, because the RequestHandler must return
// when the handler goes on after Flush. Until ready, the goroutine of the
// RequestHandler waits, and the RequestCtx is the handler's. From then on the
// response is that other goroutine's, which reads writer.stream.
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

// returned notes how the handler ended, and tells who waits for it.
func (x *exchange) returned() {
	v := recover()
	if v == nil && !x.hasReturned { // runtime.Goexit
		v = http.ErrAbortHandler
	}
	if v != nil && v != http.ErrAbortHandler {
		x.writer.ctx.Logger().Printf("panic in handler of net/http: %v\n%s", v, debug.Stack())
	}
	x.panicValue = v
	s := x.writer.stream
	if s == nil {
		x.writer.isOver.Store(true)
		x.ready.Done()
		return
	}
	if v == nil {
		_ = s.send(nil) // the reader knows better if it fails
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
	case c != nil && v == nil:
		c.pause()
	case c != nil:
		c.fail()
		if v != http.ErrAbortHandler {
			panic(sluice.ErrAbortHandler) // an answer would go to whoever speaks another protocol
		}
	case v == http.ErrAbortHandler:
		x.abort()
	case v != nil:
		panic(v)
	}
}

// end cuts everything that the handler may have kept off the RequestCtx.
func (x *exchange) end() {
	x.source.cut()
	x.context.end()
}

// abort ends the connection without another byte.
func (x *exchange) abort() {
	if c := x.writer.ctx.Conn(); c != nil {
		_ = c.Close() // the server sees that, and sends nothing
	}
}
