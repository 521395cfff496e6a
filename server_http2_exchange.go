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
// stream carries, and the server.Exchange that the request uses.
type http2Exchange struct {
	stream         http2.Stream
	request        server.Request // nil: it is given up, at rest, or there was none yet
	requestHeader  *message.RequestHeader
	responseHeader *message.ResponseHeader
	start          int64         // Nanos at the head of the request
	rested         server.Rested // nil: the body goes on, or has arrived
	due            int64         // when the body of rested is late

	host    *http2Host
	failure error                 // why the request is refused
	form    *message.ResponseForm // of SendHead; nil: it was not called
	framing message.Framing
	buffer  []byte         // for files
	flight  *atomic.Int32  // of the Meter; nil: nothing is counted
	user    *http2UserConn // what UserConn has returned; nil: it was not called
	tunnel  *http2Tunnel   // of an extended CONNECT; nil: not used yet
	http2Marks
}

// http2Marks are facts about one request. They are cleared together.
type http2Marks struct {
	bodyLength int64 // announced; -1: unknown
	kept       int   // bytes of the body that the Request has
	decides    bool  // callbacks decide about the body, in Serve
	expects    bool  // the client waits for 100-continue
	isStreamed bool  // the handler reads the body
	connects   bool  // extended CONNECT
	isKeyed    bool  // of a client that has sent Sec-WebSocket-Key
	isAccepted bool  // the final head has opened the tunnel
	isExcused  bool  // the handler uses the tunnel
}

var (
	_ server.Exchange = (*http2Exchange)(nil)
	_ http2.Request   = (*http2Exchange)(nil)
)

// use makes r the Request of x, unless it is nil.
func (x *http2Exchange) use(r server.Request) {
	if r != nil && r != x.request {
		x.request = r
		x.requestHeader, x.responseHeader = r.Headers()
	}
}

// giveUp forgets the Request of x.
func (x *http2Exchange) giveUp() {
	x.request, x.requestHeader, x.responseHeader, x.form = nil, nil, nil, nil
}

func newHTTP2Exchange() *http2Exchange {
	x := &http2Exchange{}
	x.stream.Request = x
	return x
}

// begin starts a request.
func (x *http2Exchange) begin(h *http2Host, now int64) {
	x.host, x.start = h, now
	x.use(h.NewRequest(x, x.request))
	x.request.Begin(&h.facts, now)
	if one := h.cfg.single; one != nil {
		one.streams.Add(1)
	}
	if f := h.cfg.Meter.Flights; f != nil {
		x.flight = f.Begin(now)
	}
}

// Fields implements http2.Request.
func (x *http2Exchange) Fields() *field.Table { return &x.requestHeader.Table }

// HeadComplete implements http2.Request.
func (x *http2Exchange) HeadComplete(head *h2.Head, isLast bool) (isStreamed bool, err error) {
	h := x.requestHeader
	h.SetParsed(&head.Head)
	h.SetHTTP2()
	x.connects = head.Connect != h1.Span{}
	if x.connects {
		h.SetConnect(head.Connect)
		x.isKeyed = showUpgrade(h)
	}
	if err := x.request.HeadComplete(false); err != nil {
		return false, err
	}
	if x.connects {
		x.request.ExtendedConnect()
	}
	x.bodyLength = -1
	isComplete := isLast || x.connects || !x.host.cfg.streamBody && h.IsMethod(MethodConnect) // its client waits
	switch {
	case isComplete:
		x.bodyLength = 0
		h.SettleLength()
	case head.Has(h1.HasLength):
		x.bodyLength = head.ContentLength
	default:
		h.ContentLength = -1
	}
	x.expects = head.Has(h1.ExpectContinue) && x.bodyLength != 0
	if x.host.cfg.AsksUser || x.expects {
		x.decides = true // the user's callbacks may block
		return true, nil
	}
	if isComplete {
		return x.connects || !isLast, nil
	}
	x.isStreamed, err = x.request.ExpectBody(x.bodyLength)
	return x.isStreamed, err
}

// BodyReceived implements http2.Request.
func (x *http2Exchange) BodyReceived(p []byte) error {
	x.wake()
	x.kept += len(p)
	return x.request.BodyReceived(p, 0)
}

// BodyComplete implements http2.Request.
func (x *http2Exchange) BodyComplete(t *field.Table) {
	x.wake()
	if t != nil {
		x.requestHeader.ReceiveTrailers(t)
	}
	if x.bodyLength < 0 {
		x.requestHeader.SettleChunked(x.kept)
	}
}

// Refuse implements http2.Request. ErrorHandler sees which protocol it is.
func (x *http2Exchange) Refuse(err error, method []byte) {
	x.wake()
	x.failure = err
	x.requestHeader.SetHTTP2()
	if len(method) > 0 {
		x.requestHeader.SetMethod(method)
	}
}

// Holds implements http2.Request.
func (x *http2Exchange) Holds() (n int, isOwn bool) {
	if x.request == nil { // hijacked
		return 0, false
	}
	n, isOwn = x.request.Holds()
	return n + cap(x.buffer), isOwn
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
	if x.isStreamed {
		if start, timeout := x.request.ReadLimit(); timeout > 0 {
			x.stream.SetReadDeadline(start, timeout)
		}
	}
	switch {
	case x.failure == http2.ErrReset: // there is no client to answer
		return false
	case x.failure != nil:
		x.answerFailure()
	case isWanted:
		return x.handle()
	}
	x.respond() // what the callbacks have made
	return false
}

// handle runs the handler and answers.
func (x *http2Exchange) handle() (outlived bool) {
	o := x.runHandler()
	isHijacked := o == server.OutcomeHijack || o == server.OutcomeSilent || o == server.OutcomeTakeover
	switch {
	case o == server.OutcomeAbort:
		x.stream.Reset(h2.CodeInternalError)
		return false
	case isHijacked && x.mayHijack(o):
		return x.hijack(o)
	case o == server.OutcomeBody:
		return x.giveOver()
	}
	x.respond()
	return false
}

// respond sends the response.
func (x *http2Exchange) respond() (ok bool) {
	closes := x.responseHeader.ConnectionClose
	if ok = x.request.Respond(); !ok {
		x.stream.Reset(h2.CodeInternalError)
	}
	if closes {
		x.stream.EndAfter()
	}
	return ok
}

// served ends the reads of a goroutine that outlives the handler: the stream is used for
// other requests. A Request of which nothing is needed is given up while its content waits for
// the client.
func (x *http2Exchange) served() {
	if x.request == nil { // hijacked
		return
	}
	if x.isStreamed {
		x.request.EndReads()
	}
	if x.request.IsSpent() && x.stream.AwaitsPeer() {
		x.giveUp()
	}
}

// decide runs the callbacks between head and body, and reads a body that is not
// streamed. It returns false if the body is refused, for which the response is ready.
func (x *http2Exchange) decide() (isWanted bool) {
	if x.failure = x.request.HeaderReceived(); x.failure != nil || x.bodyLength == 0 {
		return true
	}
	isStreamed, err := x.request.ExpectBody(x.bodyLength)
	x.isStreamed = isStreamed
	if err == nil && x.expects {
		if isWanted, err = x.request.ExpectContinue(true); err == nil && !isWanted {
			return false
		}
	}
	switch {
	case err == server.ErrConnectionClosed:
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
			if err := x.BodyReceived(x.buffer[:n]); err != nil {
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

// bodyRest is how long nothing of a body arrives before the Request is given up. Bursts never
// pay for that.
const bodyRest = 2 * time.Second

// BodyDue implements http2.Request.
func (x *http2Exchange) BodyDue(heard int64) int64 {
	if x.rested != nil {
		return x.due
	}
	return min(x.bodyDue(heard), heard+int64(bodyRest))
}

// bodyDue returns when a body is late, of which the last part came at heard.
func (x *http2Exchange) bodyDue(heard int64) int64 {
	if timeout := x.request.BodyTimeout(); timeout > 0 {
		return x.start + int64(timeout)
	}
	return heard + int64(x.host.cfg.http2.ReadTimeout)
}

// BodyLate implements http2.Request.
func (x *http2Exchange) BodyLate(heard, now int64) (isOver bool) {
	if x.rested != nil {
		return true
	}
	due := x.bodyDue(heard)
	if due <= now {
		return true
	}
	x.rest(due)
	return false
}

// Rest implements http2.Request.
func (x *http2Exchange) Rest() {
	if x.rested == nil && x.failure == nil && !x.decides && !x.connects && !x.isStreamed {
		x.rest(0)
	}
}

// rest keeps only what wake needs. No callback has seen the Request yet.
func (x *http2Exchange) rest(due int64) {
	x.rested, x.due = x.request.Rest(), due
	x.giveUp()
}

// wake makes a Request of what rest has kept, if there is none.
func (x *http2Exchange) wake() {
	if x.rested != nil {
		x.use(x.rested.Wake(x))
		x.rested = nil
	}
}

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
		x.request.Refuse(err, public)
	default:
		x.request.Refuse(err, err)
	}
	if x.host.cfg.LogsAll {
		x.host.Log(x.host.conn, err)
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
	if x.rested != nil {
		x.rested.Drop()
		x.rested = nil
	}
	if x.endRequest(); isTunnel {
		return // Tunnels may be called late
	}
	x.failure, x.user, x.form = nil, nil, nil
	x.framing, x.http2Marks = message.Framing{}, http2Marks{}
	http2ExchangePool.Put(x)
}

// endRequest ends what x has of its request, once: a hijacked one ends before its stream.
func (x *http2Exchange) endRequest() {
	if x.host == nil {
		return
	}
	if x.request != nil {
		x.use(x.request.End())
		x.request.Release(false)
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
	return x.responseHeader.AppendFields(dst, e, x.framing)
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
	x.form, x.framing = f, f.Framing()
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
		x.responseHeader.Show(x.framing)
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
	case x.form.HasContent && x.responseHeader.HasTrailers(): // they may have been set after the head
		return x.stream.SendLast(p, http2Trailer{&x.responseHeader.Header})
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
			err = server.ErrConnectionClosed
		case left > 0 && readErr == io.EOF:
			err = io.ErrUnexpectedEOF
		case left > 0:
			err = readErr
		}
	}
	if err = cmp.Or(err, part.Done.Close()); err == nil && !x.SendData(nil, true) {
		return server.ErrConnectionClosed
	}
	return err
}

// Flush implements server.Exchange.
func (x *http2Exchange) Flush() bool { return x.stream.Flush() }

// ReadBody implements server.Exchange.
func (x *http2Exchange) ReadBody(p []byte) (int, error) {
	n, err := x.stream.ReadBody(p, x.request.MayWait)
	switch err {
	case io.EOF:
		if t := x.stream.Trailer(); t != nil {
			x.requestHeader.ReceiveTrailers(t)
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
