package sluice

import (
	"io"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h1"
)

// Flush sends the response so far. The first call sends the head with the
// fields set until now; every call sends the body written until now, and
// empties it. Later changes of status and header have no effect. Flush returns
// ErrConnectionClosed when the client has disconnected, and ErrNilConnection
// outside a server or after TimeoutError took effect. If a body stream is set,
// Flush does nothing: streams are flushed while they are written.
//
// The rest of the body is chunked; for an HTTP/1.0 client it ends with the
// connection. After ctx.Response.Header.SetContentLength(n) before the first
// call, and without trailers, the body has n bytes instead: Flush drops bytes
// beyond that, and the server closes the connection if bytes are missing.
func (ctx *RequestCtx) Flush() error {
	if err := ctx.beginWrite(); err != nil {
		return err
	}
	defer ctx.endWrite()
	c := ctx.conn
	resp := &ctx.Response
	if resp.stream != nil {
		return nil
	}
	if !ctx.hasFlushed {
		if ctx.hijackHandler == nil {
			c.correctStatus()
		}
		c.flushHead()
	}
	if ctx.flushSendsBody {
		w := bodyWriter{c: c, left: ctx.flushed.length, isChunked: ctx.flushed.length == -1}
		if _, err := w.Write(resp.bodyBytes()); err != nil {
			return err
		}
		ctx.flushed.length = w.left
	}
	resp.ResetBody()
	if !c.flush() {
		return ErrConnectionClosed
	}
	return nil
}

// flushHead appends the head of a response whose body is not complete.
func (c *serverConn) flushHead() {
	ctx := c.ctx
	resp := &ctx.Response
	resp.stream, resp.streamSize = unfinishedBody{}, -1
	if resp.Header.hasLength {
		resp.streamSize = resp.Header.contentLength
	}
	// A body that awaits 100-continue will not arrive any more.
	ctx.flushed, ctx.flushSendsBody = c.framing(c.persists() && !ctx.requestStream.awaitsContinue)
	resp.stream, resp.streamSize = nil, 0
	ctx.hasFlushed = true
	c.countStatus(resp.StatusCode())
	ctx.out = resp.Header.appendHead(ctx.out, ctx.flushed)
	resp.Header.show(ctx.flushed)
}

// unfinishedBody stands for the rest of a flushed body while its framing is
// derived.
type unfinishedBody struct{}

// Read implements io.Reader; nothing is ever read.
func (unfinishedBody) Read([]byte) (int, error) { return 0, io.EOF }

// finishFlushed completes a response whose head the handler has flushed.
func (c *serverConn) finishFlushed() engine.Next {
	ctx := c.ctx
	resp := &ctx.Response
	f := ctx.flushed // length is what is left of it
	switch {
	case resp.stream != nil:
		if !c.writeStream(f, ctx.flushSendsBody) {
			return c.abort()
		}
	case ctx.flushSendsBody && f.length == -1:
		ctx.out = h1.AppendChunk(ctx.out, resp.bodyBytes())
		ctx.out = append(ctx.out, h1.LastChunk...)
		ctx.out = resp.Header.appendTrailers(ctx.out)
	case ctx.flushSendsBody:
		w := bodyWriter{c: c, left: f.length}
		if _, err := w.Write(resp.bodyBytes()); err != nil {
			return c.abort()
		}
		if w.left > 0 {
			c.cfg.logger.Printf("the handler for %q has not written %d bytes of its Content-Length", c.conn.RemoteAddr(), w.left)
			return c.abort()
		}
	}
	return c.afterResponse(!f.closeConnection)
}

// EarlyHints sends a 103 response (RFC 8297) with the Link fields that
// ctx.Response has so far. They stay in the final response. It does nothing
// without Link fields, after Flush, and for HTTP/1.0 clients, which do not know
// interim responses. It returns ErrNilConnection outside a server, and
// ErrConnectionClosed when the client has disconnected.
func (ctx *RequestCtx) EarlyHints() error {
	if err := ctx.beginWrite(); err != nil {
		return err
	}
	defer ctx.endWrite()
	c := ctx.conn
	links := ctx.Response.Header.PeekAll(HeaderLink)
	if ctx.isHTTP10() || ctx.hasFlushed || len(links) == 0 {
		return nil
	}
	ctx.out = append(ctx.out, "HTTP/1.1 103 Early Hints\r\n"...)
	for _, link := range links {
		ctx.out = h1.AppendField(ctx.out, []byte(HeaderLink), h1.AppendFieldValue(nil, link))
	}
	ctx.out = append(ctx.out, "\r\n"...)
	if !c.flush() {
		return ErrConnectionClosed
	}
	return nil
}
