package sluice

import (
	"io"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/h1"
)

// Flush sends what there is of the response so far: on the first call the
// head, with the fields set until now, and then the body written until now,
// which is emptied. Later changes of status and header have no effect. It
// returns ErrConnectionClosed when the client is gone, and ErrNilConnection
// outside a server or after TimeoutError took effect. With a body stream set it
// does nothing: streams are flushed while they are written.
//
// A body that goes on is chunked, or ends with the connection for a client of
// HTTP/1.0. With ctx.Response.Header.SetContentLength(n) before the first call
// and no trailers, it has n bytes instead: what is written beyond is dropped,
// and the connection ends where some are missing.
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

// flushHead collects the head of a response whose body is still being written.
func (c *serverConn) flushHead() {
	ctx := c.ctx
	resp := &ctx.Response
	resp.stream, resp.streamSize = unfinishedBody{}, -1
	if resp.Header.hasLength {
		resp.streamSize = resp.Header.contentLength
	}
	// What awaits 100-continue will not come any more.
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

// finishFlushed ends a response whose head was flushed by the handler.
func (c *serverConn) finishFlushed() engine.Next {
	ctx := c.ctx
	resp := &ctx.Response
	f := ctx.flushed // with the length that is left
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
// ctx.Response has so far. They stay in the final response. It does nothing for
// clients of HTTP/1.0, which know no interim responses, and returns
// ErrNilConnection outside a server.
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
