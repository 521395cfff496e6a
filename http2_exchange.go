package sluice

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/h2"
	"github.com/sluicehttp/sluice/internal/http2"
	"github.com/sluicehttp/sluice/internal/message"
)

// http2Exchange is one request and its response in HTTP/2: the http2.Request that a
// stream carries, and the serverExchange that its RequestCtx uses.
type http2Exchange struct {
	stream  http2.Stream
	ctx     *RequestCtx // replaced when it is given up
	host    *http2Host
	failure error // why the request is refused
	framing message.Framing
	buffer  []byte // for files
	http2Marks
}

// http2Marks are facts about one request. They are cleared together.
type http2Marks struct {
	bodyLength int64 // announced; -1: unknown
	decides    bool  // callbacks decide about the body, in Serve
	isTorn     bool  // the response cannot become complete
}

var (
	_ serverExchange = (*http2Exchange)(nil)
	_ http2.Request  = (*http2Exchange)(nil)
)

// newHTTP2Exchange returns an exchange and its RequestCtx, which refer to each other.
func newHTTP2Exchange() *http2Exchange {
	x := &http2Exchange{ctx: new(RequestCtx)}
	x.ctx.exchange = x
	x.stream.Request = x
	return x
}

// Fields implements http2.Request.
func (x *http2Exchange) Fields() *field.Table { return &x.ctx.Request.Header.m.Table }

// HeadReceived implements http2.Request.
func (x *http2Exchange) HeadReceived(head *h2.Head, isLast bool) (isStreamed bool, err error) {
	ctx := x.ctx
	h := &ctx.Request.Header
	h.m.SetParsed(&head.Head)
	h.m.SetProtocol(protocolHTTP2)
	if err := ctx.headComplete(false); err != nil {
		return false, err
	}
	x.bodyLength = -1
	switch {
	case isLast:
		x.bodyLength = 0
		h.m.SettleLength()
	case head.Has(h1.HasLength):
		x.bodyLength = head.ContentLength
	default:
		h.m.ContentLength = -1
	}
	if ctx.cfg.headerReceived != nil || head.Has(h1.ExpectContinue) && !isLast {
		x.decides = true // by the user's callbacks, which may block
		return true, nil
	}
	if isLast {
		return false, nil
	}
	return ctx.expectBody(x.bodyLength)
}

// protocolHTTP2 is what Protocol returns. It is never written to.
var protocolHTTP2 = []byte("HTTP/2.0")

// BodyReceived implements http2.Request.
func (x *http2Exchange) BodyReceived(p []byte) error { return x.ctx.keepBody(p) }

// BodyComplete implements http2.Request.
func (x *http2Exchange) BodyComplete(t *field.Table) {
	h := &x.ctx.Request.Header.m
	if t != nil {
		h.ReceiveTrailers(t)
	}
	if x.bodyLength < 0 {
		h.SettleChunked(len(x.ctx.Request.bytes))
	}
}

// Refuse implements http2.Request.
func (x *http2Exchange) Refuse(err error) { x.failure = err }

// Serve implements http2.Request.
func (x *http2Exchange) Serve() {
	if x.decides {
		x.decide()
	}
	if x.failure != nil {
		x.answerFailure()
	} else {
		ctx, end := x.ctx.runHandler()
		x.ctx = ctx
		switch {
		case end == handlerAborted:
			x.stream.Reset(h2.CodeInternalError)
			return
		case ctx.hijackHandler != nil:
			ctx.hijackHandler = nil
			ctx.cfg.logger.Printf("a request of HTTP/2 cannot be hijacked: %q", ctx.Path())
			ctx.Response.Reset()
			ctx.Error(StatusMessage(StatusNotImplemented), StatusNotImplemented)
		}
	}
	closes := x.ctx.Response.ConnectionClose()
	if !x.ctx.respond() || x.isTorn {
		x.stream.Reset(h2.CodeInternalError)
	}
	if closes {
		x.stream.EndAfter()
	}
}

// decide runs the callbacks between head and body, and reads a body that is not
// streamed.
func (x *http2Exchange) decide() {
	ctx := x.ctx
	if x.failure = ctx.headerReceived(); x.failure != nil || x.bodyLength == 0 {
		return
	}
	isStreamed, err := ctx.expectBody(x.bodyLength)
	if err != nil {
		x.failure = err
		return
	}
	status, err := ctx.expectStatus()
	if err != nil {
		x.failure = err
		return
	}
	if status != StatusContinue {
		x.failure = refusedBody(status)
		return
	}
	if isStreamed {
		ctx.requestStream.awaitsContinue = true
		return
	}
	if !x.sendInterim(StatusContinue, nil) {
		x.failure = ErrConnectionClosed
		return
	}
	x.failure = x.keepStreamed()
}

// refusedBody is the status with which a callback refuses a body.
type refusedBody int

func (refusedBody) Error() string { return "sluice: the body is refused" }

// keepStreamed reads the body into memory.
func (x *http2Exchange) keepStreamed() error {
	if x.buffer == nil {
		x.buffer = make([]byte, 16<<10)
	}
	for {
		n, err := x.stream.ReadBody(x.buffer, noWaitHook)
		if n > 0 {
			if err := x.ctx.keepBody(x.buffer[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			x.BodyComplete(x.stream.Trailer())
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func noWaitHook() error { return nil }

// answerFailure makes the response to a request that does not reach the handler.
func (x *http2Exchange) answerFailure() {
	err := x.failure
	var status refusedBody
	var wire *h1.Error
	switch {
	case errors.As(err, &status):
		x.ctx.refuseBody(int(status))
	case errors.As(err, &wire):
		x.ctx.refuse(wire.Status, err, err)
	case errors.Is(err, http2.ErrTimeout):
		x.ctx.refuse(StatusRequestTimeout, errRequestTimeout, errRequestTimeout)
	default:
		x.ctx.refuse(failureStatus(err), err, err)
	}
}

// End implements http2.Request.
func (x *http2Exchange) End() {
	x.ctx = x.ctx.end()
	x.ctx.shrink()
	x.host, x.failure = nil, nil
	x.framing, x.http2Marks = message.Framing{}, http2Marks{}
	http2ExchangePool.Put(x)
}

// AppendFields implements http2.Fields for the final head.
func (x *http2Exchange) AppendFields(dst []byte, e *h2.Encoder) []byte {
	return x.ctx.Response.Header.m.AppendFields(dst, e, x.framing)
}

// http2Trailer implements http2.Fields for the trailer fields.
type http2Trailer struct{ header *message.Header }

func (t http2Trailer) AppendFields(dst []byte, e *h2.Encoder) []byte {
	return t.header.AppendTrailerFields(dst, e)
}

// linkName is the field of early hints. It is never written to.
var linkName = []byte(HeaderLink)

// http2Interim implements http2.Fields for interim responses.
type http2Interim struct {
	status int
	links  [][]byte
}

func (i http2Interim) AppendFields(dst []byte, e *h2.Encoder) []byte {
	dst = e.AppendStatus(dst, i.status)
	for _, link := range i.links {
		dst = e.AppendField(dst, field.Lookup(linkName), linkName, h1.AppendFieldValue(nil, link))
	}
	return dst
}

// sendInterim implements serverExchange.
func (x *http2Exchange) sendInterim(status int, links [][]byte) bool {
	return x.stream.SendHead(http2Interim{status, links}, true, false)
}

// sendHead implements serverExchange.
func (x *http2Exchange) sendHead(p []byte, isLast bool) bool {
	form := &x.ctx.form
	x.framing = message.Framing{Length: form.length, Date: form.date, OmitDefaultType: form.omitDefaultType, NamesServer: true}
	if form.hasTrailers {
		x.framing.Length = -1
	}
	if x.ctx.phase == phaseFlushed || len(x.ctx.Request.userValues) > 0 {
		x.ctx.Response.Header.m.Show(x.framing)
	}
	switch {
	case !form.hasContent:
		return x.stream.SendHead(x, false, true)
	case isLast && !form.hasTrailers:
		return x.stream.Respond(x, p)
	}
	return x.stream.SendHead(x, false, false) && x.sendData(p, isLast)
}

// sendData implements serverExchange.
func (x *http2Exchange) sendData(p []byte, isLast bool) bool {
	switch {
	case !isLast:
		return x.stream.Send(p)
	case x.ctx.form.hasTrailers:
		return x.stream.SendLast(p, http2Trailer{&x.ctx.Response.Header.m.Header})
	}
	return x.stream.SendLast(p, nil)
}

// sendFile implements serverExchange.
func (x *http2Exchange) sendFile(part engine.File) error {
	if x.buffer == nil {
		x.buffer = make([]byte, 16<<10)
	}
	var err error
	for left := part.Size; left > 0 && err == nil; {
		n, readErr := part.Source.ReadAt(x.buffer[:min(left, int64(len(x.buffer)))], part.Offset)
		part.Offset += int64(n)
		left -= int64(n)
		switch {
		case !x.stream.Send(x.buffer[:n]):
			err = ErrConnectionClosed
		case left > 0 && readErr == io.EOF:
			err = io.ErrUnexpectedEOF
		case left > 0:
			err = readErr
		}
	}
	if err = x.ctx.Response.closeStream(err); err == nil && !x.sendData(nil, true) {
		return ErrConnectionClosed
	}
	return err
}

// flush implements serverExchange.
func (x *http2Exchange) flush() bool { return x.stream.Flush() }

// readBody implements serverExchange.
func (x *http2Exchange) readBody(p []byte) (int, error) {
	n, err := x.stream.ReadBody(p, x.ctx.requestStream.mayWait)
	if err == io.EOF {
		if t := x.stream.Trailer(); t != nil {
			x.ctx.Request.Header.m.ReceiveTrailers(t)
		}
	}
	return n, err
}

// arm implements serverExchange.
func (x *http2Exchange) arm() {}

// interruptRead implements serverExchange.
func (x *http2Exchange) interruptRead() { x.stream.InterruptRead() }

// interruptWrite implements serverExchange.
func (x *http2Exchange) interruptWrite() { x.stream.Reset(h2.CodeInternalError) }

// onPeerGone implements serverExchange.
func (x *http2Exchange) onPeerGone(f func()) { x.stream.OnGone(f) }

// setReadDeadline implements serverExchange.
func (x *http2Exchange) setReadDeadline(now int64, timeout time.Duration) {
	x.stream.SetReadDeadline(now, timeout)
}

// setWriteTimeout implements serverExchange.
func (x *http2Exchange) setWriteTimeout(timeout time.Duration) { x.stream.SetWriteTimeout(timeout) }

// LocalAddr implements serverExchange.
func (x *http2Exchange) LocalAddr() net.Addr { return x.host.netConn.LocalAddr() }

// RemoteAddr implements serverExchange.
func (x *http2Exchange) RemoteAddr() net.Addr { return x.host.netConn.RemoteAddr() }

// netConn implements serverExchange.
func (x *http2Exchange) netConn() net.Conn { return x.host.netConn }

// userConn implements serverExchange.
func (x *http2Exchange) userConn() net.Conn { return http2UserConn{x.host.netConn, &x.stream} }

// http2UserConn is what RequestCtx.Conn returns: the connection's addresses and TLS
// state. What concerns its bytes is not supported.
type http2UserConn struct {
	net.Conn
	stream *http2.Stream
}

// ErrNotSupportedHTTP2 is returned by the methods of RequestCtx.Conn that HTTP/2 does
// not support: a connection carries several requests.
var ErrNotSupportedHTTP2 = errors.New("sluice: not supported with HTTP/2")

func (http2UserConn) Read([]byte) (int, error)         { return 0, ErrNotSupportedHTTP2 }
func (http2UserConn) Write([]byte) (int, error)        { return 0, ErrNotSupportedHTTP2 }
func (http2UserConn) SetDeadline(time.Time) error      { return ErrNotSupportedHTTP2 }
func (http2UserConn) SetReadDeadline(time.Time) error  { return ErrNotSupportedHTTP2 }
func (http2UserConn) SetWriteDeadline(time.Time) error { return ErrNotSupportedHTTP2 }
func (c http2UserConn) Close() error                   { c.stream.Reset(h2.CodeCancel); return nil }
