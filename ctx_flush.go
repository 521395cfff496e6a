package sluice

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/http1"
)

// Flush sends the response so far. The first call sends the head with the
// fields set until now; every call sends the body written until now, and
// empties it. Later changes of status and header have no effect, but for a line in the log.
// Flush returns
// ErrConnectionClosed when the client has disconnected, and ErrNilConnection
// outside a server and after TimeoutError, and ErrTakenOver for a hijacked connection that
// gets no response. If a body stream is set, Flush does nothing: streams are flushed while they are written.
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
	switch {
	case ctx.isSilent():
		return ErrTakenOver
	case ctx.takeover != nil:
		ctx.settleTakeover()
	}
	resp := &ctx.Response
	if resp.streamed() != nil {
		return nil
	}
	if ctx.phase != phaseFlushed {
		if !ctx.leavesHTTP() && ctx.isWrong() {
			return errStatus
		}
		ctx.flushHead()
	}
	if ctx.form.HasContent {
		p := ctx.dueBody()
		if len(p) > 0 && (!ctx.exchange.SendData(p, false) || !ctx.exchange.Flush()) {
			return ErrConnectionClosed
		}
		if ctx.form.Length >= 0 {
			ctx.form.Length -= int64(len(p))
		}
	}
	resp.ResetBody()
	if !ctx.exchange.Flush() {
		return ErrConnectionClosed
	}
	return nil
}

// errStatus is what Flush returns for a head that must not be sent.
var errStatus = errors.New("sluice: the status is no final answer to this request: set another one")

// flushHead sends the head of a response whose body is not complete.
func (ctx *RequestCtx) flushHead() {
	resp := &ctx.Response
	resp.setStream(unfinishedBody{}, -1)
	ctx.setForm()
	if ctx.form.HasTrailers {
		ctx.form.Length = -1
	}
	ctx.form.IsShown = true
	if ctx.requestStream.awaitsContinue {
		ctx.form.Next = message.UseNone // the body will not arrive any more
	}
	ctx.phase = phaseFlushed
	ctx.countStatus()
	ctx.exchange.SendHead(&ctx.form, nil, !ctx.form.HasContent) // flush fails too
	resp.leaveStream()
	ctx.sentHead = resp.Header.m.Sum()
}

// unfinishedBody stands for the rest of a flushed body while its framing is
// derived.
type unfinishedBody struct{}

// Read implements io.Reader; nothing is ever read.
func (unfinishedBody) Read([]byte) (int, error) { return 0, io.EOF }

// finishFlushed completes a response whose head the handler has flushed; see
// Respond.
func (ctx *RequestCtx) finishFlushed() bool {
	resp := &ctx.Response
	f := &ctx.form
	if resp.Header.m.Sum() != ctx.sentHead {
		ctx.warn(misuseHead)
	}
	switch {
	case !f.HasContent:
		_ = resp.endStream(nil)
		return true
	case resp.streamed() != nil:
		left := f.Length
		if left < 0 {
			left = int64(resp.bodyLength())
		}
		return ctx.sendStream(left)
	}
	p := ctx.dueBody()
	if missing := f.Length - int64(len(p)); missing > 0 {
		if ctx.exchange.SendData(p, false) && ctx.exchange.Flush() {
			ctx.cfg.logger.Printf("the handler for %q has not written %d bytes of its Content-Length", ctx.exchange.RemoteAddr(), missing)
		}
		return false
	}
	return ctx.exchange.SendData(p, true)
}

// dueBody returns what is sent of a body in memory: not more than the rest of a length
// that Flush has announced.
func (ctx *RequestCtx) dueBody() []byte {
	p := ctx.Response.bodyBytes()
	if ctx.form.Length >= 0 {
		p = p[:min(int64(len(p)), ctx.form.Length)]
	}
	return p
}

// EarlyHints sends a 103 response (RFC 8297) with the Link fields that
// ctx.Response has so far. They stay in the final response. It does nothing
// without Link fields, and for HTTP/1.0 clients, which do not know
// interim responses. It returns ErrHeadSent after Flush, ErrNilConnection after
// TimeoutError, and ErrConnectionClosed when the client has disconnected. Outside a server,
// it writes to the connection of Init2 and returns the error of Write, or ErrNilConnection
// without one.
func (ctx *RequestCtx) EarlyHints() error {
	if ctx.server == nil && ctx.netConn != nil {
		links := ctx.Response.Header.m.AppendAny(nil, HeaderLink)
		if len(links) == 0 || !ctx.Request.Header.IsHTTP11() {
			return nil
		}
		_, err := ctx.netConn.Write(http1.AppendEarlyHints(nil, links))
		return err
	}
	if err := ctx.beginWrite(); err != nil {
		return err
	}
	defer ctx.endWrite()
	links := ctx.Response.Header.m.AppendAny(nil, HeaderLink)
	switch {
	case ctx.isSilent():
		return ErrTakenOver
	case ctx.phase == phaseFlushed:
		return ErrHeadSent
	case ctx.isHTTP10 || len(links) == 0:
		return nil
	}
	if !ctx.exchange.SendInterim(StatusEarlyHints, links) {
		return ErrConnectionClosed
	}
	return nil
}

// ctxWire guards the exchange of a RequestCtx at the end of the request: a
// handler that has timed out may still be using it. The zero value is ready.
type ctxWire struct {
	// Mutex is held while a handler uses the exchange, even while a write waits
	// for the client.
	sync.Mutex
	// isDetached is set once: the exchange no longer belongs to the RequestCtx.
	isDetached atomic.Bool
	// isWriting is set while the holder of the Mutex may wait for the client;
	// server.Exchange.InterruptWrite can then end the wait.
	isWriting atomic.Bool
}

// beginWrite locks the wire for writing to the client, until endWrite. It
// returns ErrNilConnection if there is no exchange any more, or another response than
// that of ctx will be sent.
//
// sever relies on the order: isWriting is set before isDetached is read.
func (ctx *RequestCtx) beginWrite() error {
	w := &ctx.wire
	w.Lock()
	if ctx.server == nil || w.isDetached.Load() || ctx.timeoutResponse.Load() != nil {
		w.Unlock()
		return ErrNilConnection
	}
	ctx.exchange.Arm()
	w.isWriting.Store(true)
	if w.isDetached.Load() {
		ctx.endWrite()
		return ErrNilConnection
	}
	return nil
}

func (ctx *RequestCtx) endWrite() {
	ctx.wire.isWriting.Store(false)
	ctx.wire.Unlock()
}

// sever takes the exchange away from a handler that keeps running, and returns
// with the wire locked. It first interrupts a write that waits for the client:
// the client may never read, and nothing can be sent after a partial write.
// hasBroken says that a write was interrupted.
func (ctx *RequestCtx) sever() (hasBroken bool) {
	w := &ctx.wire
	w.isDetached.Store(true)
	if w.TryLock() {
		return false
	}
	if w.isWriting.Load() {
		hasBroken = true
		ctx.exchange.InterruptWrite()
	}
	w.Lock()
	return hasBroken
}
