package fasthttpadaptor

import (
	"net/http"
	"runtime/debug"

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
// collected and sent with a Content-Length when h has returned, unless h calls
// Flush or writes more than 64 KiB: it is then sent as it comes, chunked if h
// has not set Content-Length. Request, its body and ResponseWriter are of no
// use after h has returned; what they return then is an error.
//
// A panic with http.ErrAbortHandler ends the connection. Any other one is the
// server's to handle: it answers 500 as long as nothing was sent.
func NewFastHTTPHandler(h http.Handler) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		x := &exchange{}
		x.context.ctx = ctx
		x.writer.ctx = ctx
		var received http.Request // copied by WithContext, so that only the copy is allocated
		if err := fillRequest(&received, ctx, &x.source, true); err != nil {
			ctx.Error("malformed request target", sluice.StatusBadRequest)
			return
		}
		r := received.WithContext(&x.context)
		x.source.request = r
		x.writer.request = &x.source
		defer x.end()
		h.ServeHTTP(&x.writer, r)
		x.writer.finish()
	}
}

// An exchange is what one request needs beside its http.Request. It is not
// pooled: handlers may keep parts of it.
type exchange struct {
	writer  responseWriter
	context requestContext
	source  requestBody
}

// end cuts everything that the handler may have kept off the RequestCtx, and
// gives panics the meaning that they have for sluice.
func (x *exchange) end() {
	v := recover()
	x.writer.isOver.Store(true)
	x.source.cut()
	x.context.end()
	if c := x.writer.hijacked; c != nil {
		if v == nil {
			c.pause()
			return
		}
		c.fail()
		if v != http.ErrAbortHandler {
			x.writer.ctx.Logger().Printf("panic in handler of a hijacked connection: %v\n%s", v, debug.Stack())
		}
		panic(sluice.ErrAbortHandler) // an answer would go to whoever speaks another protocol
	}
	switch v {
	case nil:
	case http.ErrAbortHandler:
		panic(sluice.ErrAbortHandler)
	default:
		panic(v)
	}
}
