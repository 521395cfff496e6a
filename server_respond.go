package sluice

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// setForm derives the form of ctx.Response. If the status or the method
// forbids content, none of its bytes is sent (RFC 9110 section 6.4.1).
func (ctx *RequestCtx) setForm() {
	resp, f := &ctx.Response, &ctx.form
	*f = message.ResponseForm{IsStream: resp.streamed() != nil, IsShown: ctx.Request.hasUserValues(), Next: ctx.nextUse()}
	if !ctx.cfg.noDate && !resp.Header.m.OwnsDate {
		f.Date = ctx.start
	}
	isHead := ctx.verb == verbHead
	status := resp.StatusCode()
	switch {
	case message.BodyForbidden(status):
		f.Length = -2
		if status == StatusNotModified && resp.Header.m.HasLength && resp.Header.m.ContentLength > 0 {
			f.Length = int64(resp.Header.m.ContentLength) // the length of the body that is not sent
			f.OmitDefaultType = true
		}
		return
	case status == StatusResetContent, resp.SkipBody && !isHead:
		return
	case ctx.verb == verbConnect && status/100 == 2: // what follows the head is the tunnel's (RFC 9110 section 9.3.6)
		f.Length, f.HasContent = -2, !ctx.leavesHTTP()
		f.OmitDefaultType = !f.HasContent || resp.streamed() == nil && len(resp.bodyBytes()) == 0
		return
	case resp.streamed() != nil:
		resp.settleLength(&resp.Header.m.Header)
		f.Length = max(int64(resp.bodyLength()), -1)
	default:
		f.Length = int64(len(resp.bodyBytes()))
		if isHead && f.Length == 0 {
			head := resp.Header.m.Framing() // that of the answer to GET, if it was set or read
			f.Length, f.OmitDefaultType = head.Length, head.OmitDefaultType
		}
	}
	f.HasContent = !isHead
	f.HasTrailers = !isHead && !ctx.isHTTP10 && resp.Header.m.HasTrailers()
}

// Respond implements server.Request.
func (r *servedRequest) Respond() bool {
	ctx := (*RequestCtx)(r)
	if ctx.phase == phaseFlushed {
		return ctx.finishFlushed()
	}
	resp := &ctx.Response
	if ctx.mayBeWrong() && !ctx.leavesHTTP() {
		ctx.correctStatus()
	}
	ctx.setForm()
	if resp.streamed() != nil && !isFileStream(resp.streamed()) && !ctx.askForBody() {
		return false
	}
	ctx.countStatus()
	switch {
	case resp.streamed() == nil && ctx.form.HasContent:
		return ctx.exchange.SendHead(&ctx.form, resp.bodyBytes(), true)
	case resp.streamed() == nil:
		return ctx.exchange.SendHead(&ctx.form, nil, true)
	case !ctx.form.HasContent:
		ok := ctx.exchange.SendHead(&ctx.form, nil, true)
		_ = resp.endStream(nil) // the response is complete without it
		return ok
	}
	return ctx.exchange.SendHead(&ctx.form, nil, false) &&
		resp.sendStream(ctx.exchange, ctx.cfg, &ctx.form, ctx.form.Length)
}

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
	case ctx.isTakenOver():
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

// HeadSent reports whether Flush has sent the head of the response, so that its status and
// fields cannot change any more.
func (ctx *RequestCtx) HeadSent() bool { return ctx.isFlushed() }

// isFlushed is HeadSent.
func (ctx *RequestCtx) isFlushed() bool { return ctx.phase >= phaseFlushed }

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
		return resp.sendStream(ctx.exchange, ctx.cfg, f, left)
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
	var hints *message.ResponseHeader
	for _, link := range ctx.Response.Header.m.AppendAny(nil, HeaderLink) {
		if hints == nil {
			hints = new(message.ResponseHeader)
			hints.SetStatus(StatusEarlyHints)
		}
		hints.Put(HeaderLink, link, message.Adds)
	}
	if ctx.server == nil && ctx.netConn != nil {
		if hints == nil || !ctx.Request.Header.IsHTTP11() {
			return nil
		}
		_, err := ctx.netConn.Write(hints.AppendHead(nil, message.Interim()))
		return err
	}
	return ctx.sendInterim(hints)
}

// sendInterim sends an interim response, nil: none, unless the client does not know them. Its errors
// are those of EarlyHints.
func (ctx *RequestCtx) sendInterim(h *message.ResponseHeader) error {
	if err := ctx.beginWrite(); err != nil {
		return err
	}
	defer ctx.endWrite()
	switch {
	case ctx.isSilent():
		return ErrTakenOver
	case ctx.phase == phaseFlushed:
		return ErrHeadSent
	case ctx.isHTTP10 || h == nil:
		return nil
	}
	if !ctx.exchange.SendInterim(h) {
		return ErrConnectionClosed
	}
	return nil
}

// countStatus counts the request by the status of its final response.
func (ctx *RequestCtx) countStatus() {
	if m := ctx.cfg.meter; m != nil {
		m.countStatus(ctx)
	}
}

// mayBeWrong reports whether correctStatus could replace the response.
func (ctx *RequestCtx) mayBeWrong() bool {
	status := ctx.Response.StatusCode()
	return status < StatusOK || status == StatusNotFound || ctx.verb == verbExtended
}

// isWrong reports whether correctStatus replaces the response.
func (ctx *RequestCtx) isWrong() bool {
	status := ctx.Response.StatusCode()
	return status < StatusOK || status == StatusNotFound && ctx.verb == verbConnect || status/100 == 2 && ctx.verb == verbExtended
}

// correctStatus replaces responses whose status is wrong. They are an interim
// status, after which the client would wait for the final response (RFC 9110
// section 15.2); 101 without a hijack handler; and 404 to CONNECT. CONNECT asks
// for a tunnel, not for a resource, so a handler without tunnels must answer
// 501. So does one that answers an extended CONNECT with success.
func (ctx *RequestCtx) correctStatus() {
	closes := ctx.Response.ConnectionClose()
	switch status := ctx.Response.StatusCode(); {
	case status < StatusOK:
		what := "interim status"
		if status < StatusContinue {
			what = "impossible status"
		}
		ctx.cfg.logger.Printf("handler answered %q with the %s %d", ctx.exchange.RemoteAddr(), what, status)
		ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
	case ctx.isWrong():
		ctx.Error(StatusMessage(StatusNotImplemented), StatusNotImplemented)
	default:
		return
	}
	if closes {
		ctx.SetConnectionClose()
	}
}

// Refuse implements server.Request. The response says err; ErrorHandler and ServeConn
// receive public.
func (r *servedRequest) Refuse(err, public error) {
	ctx := (*RequestCtx)(r)
	if ctx.phase == phaseReceiving && ctx.Request.Header.IsHead() { // the method was valid, and the head was not
		ctx.verb = verbHead
	}
	status := failureStatus(err)
	if errors.Is(err, server.ErrTimeout) {
		ctx.cfg.meter.timedOut()
	}
	ctx.replaceResponse(status)
	if status == StatusMethodNotAllowed {
		ctx.Response.Header.Set(HeaderAllow, "GET, HEAD")
	}
	ctx.cfg.fail(public)
	if ctx.cfg.errorHandler != nil {
		ctx.callErrorHandler(public)
		return
	}
	if status == StatusRequestEntityTooLarge {
		ctx.Response.SetBodyString(fmt.Sprintf("the body is larger than the limit of %d bytes", ctx.maxBodySize))
		return
	}
	ctx.Response.SetBodyString(strings.TrimPrefix(err.Error(), "sluice: "))
}

// callErrorHandler runs the user's ErrorHandler and answers its panics with
// 500.
func (ctx *RequestCtx) callErrorHandler(err error) {
	defer func() {
		if v := recover(); v != nil {
			ctx.cfg.logger.Printf("panic in ErrorHandler: %v\n%s", v, debug.Stack())
			ctx.Error(StatusMessage(StatusInternalServerError), StatusInternalServerError)
		}
	}()
	ctx.cfg.errorHandler(ctx, err)
}

// failureStatus returns the status for err.
func failureStatus(err error) int {
	var violation *h1.Error
	switch {
	case errors.As(err, &violation):
		return violation.Status
	case errors.Is(err, ErrBodyTooLarge):
		return StatusRequestEntityTooLarge
	case errors.Is(err, ErrGetOnly):
		return StatusMethodNotAllowed
	case errors.Is(err, server.ErrTimeout):
		return StatusRequestTimeout
	case errors.Is(err, errBodyMemory):
		return StatusServiceUnavailable
	case errors.Is(err, errCallbackPanicked):
		return StatusInternalServerError
	}
	return StatusBadRequest
}

// errBodyMemory says that Server.MaxBodyMemory is used up.
var errBodyMemory = errors.New("sluice: no memory left for request bodies")

// keepNames applies the server's setting to the request, before its head is parsed. It is not
// inlined, so that its callers can be.
//
//go:noinline
func (ctx *RequestCtx) keepNames() { ctx.Request.Header.DisableNormalizing() }

// prepareResponse applies the server's defaults to the response, which was reset.
func (ctx *RequestCtx) prepareResponse() {
	h := &ctx.Response.Header
	h.m.DefaultServer, h.m.DefaultAltSvc = ctx.cfg.name, nil
	if ctx.facts.IsTLS && ctx.facts.Version < 3 {
		if altSvc := ctx.server.gauges.altSvc.Load(); altSvc != nil {
			h.m.DefaultAltSvc = *altSvc
		}
	}
	h.SetNoDefaultContentType(ctx.cfg.noContentType)
	if ctx.cfg.keepNames {
		h.DisableNormalizing()
	}
}

// replaceResponse makes the response one without fields of its own and a body.
func (ctx *RequestCtx) replaceResponse(statusCode int) {
	ctx.Response.Reset()
	if ctx.cfg != nil {
		ctx.prepareResponse()
	}
	ctx.SetStatusCode(statusCode)
}

// refusalText returns the response for a connection over a limit.
func refusalText(status int, text string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		status, StatusMessage(status), len(text), text)
}

// sendContent makes content the body, as a stream, like that of every file.
// content must not change any more.
func (ctx *RequestCtx) sendContent(content []byte) {
	resp := &ctx.Response
	resp.ResetBody()
	ctx.content.Left = content
	resp.setStream(&ctx.content, len(content))
	resp.Header.SetContentLength(len(content))
}
