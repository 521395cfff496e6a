package sluice

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http2"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// http2Exchange is one request and its response in HTTP/2: the http2.Request that a
// stream carries, and the server.Exchange that its RequestCtx uses.
type http2Exchange struct {
	stream  http2.Stream
	ctx     *RequestCtx   // replaced when it is given up; nil: after shed, while waiting is set, and none yet
	waiting *http2Waiting // nil: the body goes on, or has arrived
	host    *http2Host
	failure error // why the request is refused
	framing message.Framing
	buffer  []byte         // for files
	flight  *atomic.Int32  // of the Meter; nil: nothing is counted
	user    *http2UserConn // what RequestCtx.Conn has returned; nil: it was not called
	tunnel  *http2Tunnel   // of an extended CONNECT; nil: not used yet
	http2Marks
}

// http2Marks are facts about one request. They are cleared together.
type http2Marks struct {
	bodyLength int64 // announced; -1: unknown
	decides    bool  // callbacks decide about the body, in Serve
	expects    bool  // the client waits for 100-continue
	connects   bool  // extended CONNECT
	isKeyed    bool  // of a client that has sent Sec-WebSocket-Key
	isAccepted bool  // the final head has opened the tunnel
	isExcused  bool  // the handler uses the tunnel
}

var (
	_ server.Exchange = (*http2Exchange)(nil)
	_ http2.Request   = (*http2Exchange)(nil)
)

// request returns the RequestCtx as a server.Request.
func (x *http2Exchange) request() *servedRequest { return (*servedRequest)(x.ctx) }

// use makes fresh the Request of x, unless it is nil.
func (x *http2Exchange) use(fresh server.Request) {
	if fresh != nil {
		x.ctx = (*RequestCtx)(fresh.(*servedRequest))
	}
}

func newHTTP2Exchange() *http2Exchange {
	x := &http2Exchange{}
	x.stream.Request = x
	return x
}

// Fields implements http2.Request.
func (x *http2Exchange) Fields() *field.Table { return &x.ctx.Request.Header.m.Table }

// HeadComplete implements http2.Request.
func (x *http2Exchange) HeadComplete(head *h2.Head, isLast bool) (isStreamed bool, err error) {
	ctx := x.ctx
	h := &ctx.Request.Header
	h.m.SetParsed(&head.Head)
	h.m.SetHTTP2()
	ctx.streamID = x.stream.ID()
	x.connects = head.Connect != h1.Span{}
	if x.connects {
		h.m.SetConnect(head.Connect)
		x.isKeyed = showUpgrade(h)
	}
	if err := x.request().HeadComplete(false); err != nil {
		return false, err
	}
	if x.connects {
		ctx.verb = verbExtended
	}
	x.bodyLength = -1
	isComplete := isLast || x.connects || ctx.verb == verbConnect && !ctx.cfg.streamBody // its client waits
	switch {
	case isComplete:
		x.bodyLength = 0
		h.m.SettleLength()
	case head.Has(h1.HasLength):
		x.bodyLength = head.ContentLength
	default:
		h.m.ContentLength = -1
	}
	x.expects = head.Has(h1.ExpectContinue) && x.bodyLength != 0
	if ctx.cfg.headerReceived != nil || x.expects {
		x.decides = true // the user's callbacks may block
		return true, nil
	}
	if isComplete {
		return x.connects || !isLast, nil
	}
	return x.request().ExpectBody(x.bodyLength)
}

// BodyReceived implements http2.Request.
func (x *http2Exchange) BodyReceived(p []byte) error {
	x.wake()
	return x.request().BodyReceived(p, 0)
}

// BodyComplete implements http2.Request.
func (x *http2Exchange) BodyComplete(t *field.Table) {
	x.wake()
	h := &x.ctx.Request.Header.m
	if t != nil {
		h.ReceiveTrailers(t)
	}
	if x.bodyLength < 0 {
		h.SettleChunked(len(x.ctx.Request.buffered()))
	}
}

// Refuse implements http2.Request. ErrorHandler sees which protocol it is.
func (x *http2Exchange) Refuse(err error, method []byte) {
	x.wake()
	x.failure = err
	x.ctx.streamID = x.stream.ID()
	h := &x.ctx.Request.Header
	h.m.SetHTTP2()
	if len(method) == 0 {
		return
	}
	if h.SetMethodBytes(method); h.IsHead() {
		x.ctx.verb = verbHead
	}
}

// Holds implements http2.Request.
func (x *http2Exchange) Holds() (n int, isOwn bool) {
	if x.ctx == nil { // hijacked
		return 0, false
	}
	resp := &x.ctx.Response
	n = x.ctx.heldBytes() + cap(x.buffer) + body.Holds(resp.streamed())
	return n, resp.rawBody() == nil && resp.streamed() == nil
}

// Serve implements http2.Request.
func (x *http2Exchange) Serve() (outlived bool) {
	defer func() {
		if !outlived { // else x may have another request
			x.served()
		}
	}()
	x.wake()
	isWanted := !x.decides || x.decide()
	if ctx := x.ctx; ctx.requestStream.exchange != nil && ctx.readTimeout > 0 {
		x.stream.SetReadDeadline(ctx.start, ctx.readTimeout)
	}
	switch {
	case x.failure == http2.ErrReset: // there is no client to answer
		return false
	case x.failure != nil:
		x.answerFailure()
	case !isWanted: // the response is ready
	default:
		o := x.runHandler()
		switch {
		case o == server.OutcomeAbort:
			x.stream.Reset(h2.CodeInternalError)
			return false
		case x.asksToHijack() && x.mayHijack():
			return x.hijack()
		case o == server.OutcomeBody:
			return x.giveOver()
		}
	}
	x.respond()
	return false
}

// respond sends the response.
func (x *http2Exchange) respond() (ok bool) {
	closes := x.ctx.Response.ConnectionClose()
	if ok = x.request().Respond(); !ok {
		x.stream.Reset(h2.CodeInternalError)
	}
	if closes {
		x.stream.EndAfter()
	}
	return ok
}

// served ends the reads of a goroutine that outlives the handler: the stream is used for
// other requests.
func (x *http2Exchange) served() {
	if x.ctx == nil { // hijacked
		return
	}
	x.ctx.requestStream.interrupt()
	x.shed()
}

// leastShed is how much content makes shed worth a new RequestCtx.
const leastShed = 16 << 10

// shed gives up a RequestCtx of which nothing is needed, while content that the handler has
// set with SetBodyRaw waits for the client. It goes to no pool, because the content may
// refer to memory of it.
func (x *http2Exchange) shed() {
	ctx := x.ctx
	r := &ctx.Request
	if len(ctx.Response.rawBody()) < leastShed || ctx.bodyHeld > 0 || r.hasUserValues() || r.hasForm() || r.hasFormFiles() ||
		ctx.requestStream.exchange != nil || ctx.done.Load() != nil || !x.stream.AwaitsPeer() {
		return
	}
	x.ctx = nil
}

// decide runs the callbacks between head and body, and reads a body that is not
// streamed. It returns false if the body is refused, for which the response is ready.
func (x *http2Exchange) decide() (isWanted bool) {
	if x.failure = x.request().HeaderReceived(); x.failure != nil || x.bodyLength == 0 {
		return true
	}
	isStreamed, err := x.request().ExpectBody(x.bodyLength)
	if err == nil && x.expects {
		if isWanted, err = x.request().ExpectContinue(true); err == nil && !isWanted {
			return false
		}
	}
	switch {
	case err == ErrConnectionClosed:
		x.failure = http2.ErrReset
	case err != nil:
		x.failure = err
	case !isStreamed:
		x.failure = x.keepStreamed()
	}
	return true
}

// keepStreamed reads the body into memory.
func (x *http2Exchange) keepStreamed() error {
	if x.buffer == nil {
		x.buffer = make([]byte, 16<<10)
	}
	for {
		now := clock.Nanos()
		x.stream.SetReadDeadline(now, time.Duration(max(x.bodyDue(now)-now, 1)))
		n, err := x.stream.ReadBody(x.buffer, noWaitHook)
		if n > 0 {
			if err := x.request().BodyReceived(x.buffer[:n], 0); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			x.BodyComplete(x.stream.Trailer())
			return nil
		case os.ErrDeadlineExceeded:
			return server.ErrTimeout
		default:
			return err
		}
	}
}

func noWaitHook() error { return nil }

// answerFailure makes the response to a request that does not reach the handler.
func (x *http2Exchange) answerFailure() {
	err := x.failure
	var wire *h1.Error
	switch {
	case errors.As(err, &wire):
		public := err
		if wire.Status == StatusRequestHeaderFieldsTooLarge || wire == h1.ErrLineTooLong {
			public = message.SmallBuffer(err)
		}
		x.request().Refuse(err, public)
	default:
		x.request().Refuse(err, err)
	}
	if x.ctx.cfg.LogsAll {
		x.ctx.cfg.logConnError(x.host.conn, err)
	}
}

// End implements http2.Request.
func (x *http2Exchange) End() {
	if x.user != nil {
		x.user.end()
	}
	if x.tunnel != nil {
		x.tunnel.tunnel.Revoke()
	}
	isTunnel := x.stream.IsTunnel()
	x.stream.Release()
	x.forget()
	if x.endRequest(); isTunnel {
		return // Tunnels may be called late
	}
	x.failure, x.user = nil, nil
	x.framing, x.http2Marks = message.Framing{}, http2Marks{}
	http2ExchangePool.Put(x)
}

// endRequest ends what x has of its request, once: a hijacked one ends before its stream.
func (x *http2Exchange) endRequest() {
	if x.host == nil {
		return
	}
	if x.ctx != nil {
		x.use(x.request().End())
		x.request().Release(false)
	}
	if x.flight != nil {
		x.flight.Add(-1)
	}
	one := x.host.cfg.single
	x.host, x.flight = nil, nil
	if one != nil {
		one.streams.Done()
	}
}

// AppendFields implements http2.Fields for the final head.
func (x *http2Exchange) AppendFields(dst []byte, e *h2.Encoder) []byte {
	return x.ctx.Response.Header.m.AppendFields(dst, e, x.framing)
}

// http2Trailer implements http2.Fields for the trailer fields.
type http2Trailer struct{ header *message.Header }

// AppendFields implements http2.Fields.
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

// AppendFields implements http2.Fields.
func (i http2Interim) AppendFields(dst []byte, e *h2.Encoder) []byte {
	dst = e.AppendStatus(dst, i.status)
	for _, link := range i.links {
		dst = e.AppendField(dst, field.Lookup(linkName), linkName, h1.AppendFieldValue(nil, link))
	}
	return dst
}

// SendInterim implements server.Exchange.
func (x *http2Exchange) SendInterim(status int, links [][]byte) bool {
	return x.stream.SendHead(http2Interim{status, links}, true, false)
}

// SendHead implements server.Exchange.
func (x *http2Exchange) SendHead(f *message.ResponseForm, p []byte, isLast bool) bool {
	x.framing = f.Framing()
	x.framing.Length = f.Length // trailer fields need no chunks
	if x.connects {
		if x.opensTunnel() {
			return x.accept(p)
		}
		if x.tunnel != nil && !x.tunnel.revoke() {
			return false
		}
	}
	if f.IsShown {
		x.ctx.Response.Header.m.Show(x.framing)
	}
	switch {
	case !f.HasContent:
		return x.stream.SendHead(x, false, true)
	case isLast && !f.HasTrailers:
		return x.stream.Respond(x, p)
	}
	return x.stream.SendHead(x, false, false) && x.SendData(p, isLast)
}

// SendData implements server.Exchange.
func (x *http2Exchange) SendData(p []byte, isLast bool) bool {
	switch {
	case !isLast, x.isAccepted: // the HijackHandler ends the stream
		return x.stream.Send(p)
	case x.ctx.form.HasContent && x.ctx.Response.Header.m.HasTrailers(): // they may have been set after the head
		return x.stream.SendLast(p, http2Trailer{&x.ctx.Response.Header.m.Header})
	}
	return x.stream.SendLast(p, nil)
}

// SendFile implements server.Exchange.
func (x *http2Exchange) SendFile(part engine.File) error {
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
	if err = cmp.Or(err, part.Done.Close()); err == nil && !x.SendData(nil, true) {
		return ErrConnectionClosed
	}
	return err
}

// Flush implements server.Exchange.
func (x *http2Exchange) Flush() bool { return x.stream.Flush() }

// ReadBody implements server.Exchange.
func (x *http2Exchange) ReadBody(p []byte) (int, error) {
	n, err := x.stream.ReadBody(p, x.request().MayWait)
	switch err {
	case io.EOF:
		if t := x.stream.Trailer(); t != nil {
			x.ctx.Request.Header.m.ReceiveTrailers(t)
		}
	case http2.ErrReset:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Arm implements server.Exchange.
func (x *http2Exchange) Arm() {}

// InterruptRead implements server.Exchange.
func (x *http2Exchange) InterruptRead() { x.stream.InterruptRead() }

// InterruptWrite implements server.Exchange.
func (x *http2Exchange) InterruptWrite() { x.stream.Reset(h2.CodeInternalError) }

// OnPeerGone implements server.Exchange.
func (x *http2Exchange) OnPeerGone(f func()) { x.stream.OnGone(f) }

// SetReadDeadline implements server.Exchange.
func (x *http2Exchange) SetReadDeadline(now int64, timeout time.Duration) {
	x.stream.SetReadDeadline(now, timeout)
}

// SetWriteTimeout implements server.Exchange.
func (x *http2Exchange) SetWriteTimeout(timeout time.Duration) { x.stream.SetWriteTimeout(timeout) }

// LocalAddr implements server.Exchange.
func (x *http2Exchange) LocalAddr() net.Addr { return x.host.netConn.LocalAddr() }

// RemoteAddr implements server.Exchange.
func (x *http2Exchange) RemoteAddr() net.Addr { return x.host.netConn.RemoteAddr() }

// NetConn implements server.Exchange.
func (x *http2Exchange) NetConn() net.Conn { return x.host.netConn }

// UserConn implements server.Exchange.
func (x *http2Exchange) UserConn() net.Conn {
	if x.connects {
		return x.useTunnel()
	}
	if x.user == nil {
		x.user = &http2UserConn{AddressOnly: engine.AddressOnly{Conn: x.host.netConn, Err: ErrNotSupportedHTTP2}, stream: &x.stream}
	}
	return x.user
}

// http2UserConn is what RequestCtx.Conn returns: the connection's addresses and TLS
// state. What concerns its bytes is not supported.
type http2UserConn struct {
	engine.AddressOnly
	mu     sync.Mutex
	stream *http2.Stream // nil: the request has ended
}

// end ends the use of the stream.
func (c *http2UserConn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = nil
}

// Close implements net.Conn: it resets the stream of the request.
func (c *http2UserConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil {
		return net.ErrClosed
	}
	c.stream.Reset(h2.CodeInternalError)
	return nil
}

// ConnectionState returns the state of a TLS connection.
func (c *http2UserConn) ConnectionState() tls.ConnectionState { return tlsStateOf(c.Conn) }

// tlsStateOf returns the TLS state of c; the zero value without TLS.
func tlsStateOf(c net.Conn) (state tls.ConnectionState) {
	if stater, ok := c.(tlsStater); ok {
		state = stater.ConnectionState()
	}
	return state
}

// ErrNotSupportedHTTP2 is returned by the methods of RequestCtx.Conn that HTTP/2 does
// not support, because a connection carries several requests, and by clients with
// HTTP2Only for the method CONNECT.
var ErrNotSupportedHTTP2 = errors.New("sluice: not supported with HTTP/2")
