package http3

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

// An exchange is one request and its response: the server.Exchange of HTTP/3, and the Task
// that reads and answers the request.
type exchange struct {
	stream
	request        server.Request // nil: it has not begun, or has ended
	requestHeader  *message.RequestHeader
	responseHeader *message.ResponseHeader
	facts          server.Facts // of the connection, with the stream's number
	start          int64        // Nanos
	flight         *atomic.Int32
	user           *streams.UserConn // what UserConn has returned; nil: it was not called
	marks
}

// marks are facts about one request. They are cleared together.
type marks struct {
	failure    error                 // why the request is refused
	form       *message.ResponseForm // of SendHead; nil: it was not called
	framing    message.Framing
	bodyLength int64                 // announced; -1: unknown
	kept       int                   // bytes of the body that the Request has
	decides    bool                  // callbacks decide about the body
	expects    bool                  // the client waits for 100-continue
	connects   bool                  // extended CONNECT
	isKeyed    bool                  // of a client that has sent Sec-WebSocket-Key
	isEager    bool                  // the content may wait for the body, so that none of it may wait for more
	isAccepted bool                  // the final head has opened the tunnel
	isExempt   bool                  // the handler uses the tunnel
	outlived   bool                  // hijacked: conn.tunnels counts it
	isCounted  bool                  // what is transferred is counted by the protocol that has the stream
	tunnel     *streams.HijackedConn // of an extended CONNECT; nil: not used yet
}

var (
	_ server.Exchange = (*exchange)(nil)
	_ engine.Task     = (*exchange)(nil)
)

// use makes r the Request of x, unless it is nil.
func (x *exchange) use(r server.Request) {
	if r != nil && r != x.request {
		x.request = r
		x.requestHeader, x.responseHeader = r.Headers()
	}
}

// begin starts the request.
func (x *exchange) begin() {
	kept, _ := requestPool.Get().(server.Request)
	x.use(x.conn.serving.attachment.NewRequest(x, kept))
	x.request.Begin(&x.facts, x.start)
	if f := x.conn.serving.cfg.Meter.Flights; f != nil {
		x.flight = f.Begin(x.start)
	}
}

// Run implements engine.Task.
func (x *exchange) Run() {
	if x.receive() == nil && x.serve() {
		return // something else has the stream
	}
	x.end()
}

// Lost implements engine.Task.
func (x *exchange) Lost(error) {
	x.reset(h3.InternalError)
	x.end()
}

// receive reads the head, and the body unless it is streamed. An error means that there is no
// client to answer; a request that is refused has x.failure.
func (x *exchange) receive() error {
	serving := x.conn.serving
	limits := serving.cfg.Limits
	x.expect(waitHead, x.start+int64(serving.readTimeout))
	section, isTooLong, err := x.readHead(limits.MaxHead)
	x.wait.Store(0)
	if err != nil {
		return err
	}
	x.begin()
	if isTooLong {
		x.refuse(h1.ErrHeadTooLarge)
		return nil
	}
	w := x.scratch
	w.decoder.Limits, w.decoder.AcceptsConnect = limits, !serving.config.DisableWebSocket
	err = w.decoder.Decode(section, fieldlist.Request, &x.requestHeader.Table, &w.head)
	keepErr := x.keepFields(&x.requestHeader.Table)
	x.dropSection()
	if keepErr != nil {
		return keepErr
	}
	if violation := h3.Violation(err); violation != nil {
		return x.violated(violation)
	}
	x.message.HeadReceived(false)
	if err != nil {
		x.refuse(err)
		x.requestHeader.SetMethod(w.head.Method.In(x.requestHeader.Table.Raw()))
		return nil
	}
	if err := x.awaitProof(); err != nil {
		return err
	}
	return x.headComplete()
}

// headComplete goes on after a valid head.
func (x *exchange) headComplete() error {
	head, h, cfg := &x.scratch.head, x.requestHeader, x.conn.serving.cfg
	h.SetParsed(&head.Head)
	h.SetVersion(3)
	x.connects = head.Connect != h1.Span{}
	if x.connects {
		h.SetConnect(head.Connect)
		x.isKeyed = streams.ShowUpgrade(h)
		x.message.Tunnel()
	}
	if x.facts.IsEarly { // another server learns it (RFC 8470 section 5.1)
		h.Put(sluice.HeaderEarlyData, []byte("1"), message.Sets)
	}
	x.readPriority()
	if err := x.request.HeadComplete(false, false); err != nil {
		x.failure = err
		return nil
	}
	if x.connects {
		x.request.ExtendedConnect()
	}
	length, expects := int64(-1), head.Has(h1.ExpectContinue)
	if head.Has(h1.HasLength) {
		length = head.ContentLength
	}
	isLast := x.input == inputEnded && x.from == x.to
	if isLast {
		if err := x.endOfBody(length); err != nil {
			return err
		}
		length = 0
	}
	isComplete := isLast || x.connects || !cfg.StreamsBodies && h.IsMethod("CONNECT") // its client waits
	switch {
	case isComplete:
		x.bodyLength = 0
		h.SettleLength()
	default:
		x.bodyLength, x.declared = length, length
		if length < 0 {
			h.ContentLength = -1
		}
	}
	x.expects = expects && x.bodyLength != 0
	if x.decides = cfg.AsksUser || x.expects; x.decides || isComplete {
		return nil
	}
	x.isStream, x.failure = x.request.ExpectBody(x.bodyLength)
	if x.failure != nil || x.isStream {
		return nil
	}
	return x.keepBody()
}

// endOfBody checks a request that ends with its head.
func (x *exchange) endOfBody(length int64) error {
	x.declared = length
	if err := x.endInput(); err != io.EOF {
		return err
	}
	return nil
}

// refuse makes serve answer with err, which is that of a head beyond the limits, instead of calling a
// handler.
func (x *exchange) refuse(err error) {
	x.failure = err
	x.charge(costLargeHead)
	x.requestHeader.SetVersion(3) // ErrorHandler sees it
}

// end is the last call.
func (x *exchange) end() {
	if x.user != nil {
		x.user.End()
	}
	if x.tunnel != nil {
		x.tunnel.Tunnel.Revoke()
	}
	if x.input == inputOpen || x.from != x.to {
		x.quic.CancelRead(quicNoError)
	}
	if x.output < outputEnded && !x.isReset.Load() {
		x.reset(h3.InternalError)
	}
	if x.isTunnel {
		x.endTunnel()
		return
	}
	x.endRequest()
	x.conn.ended(x)
	x.forget()
	x.user, x.marks = nil, marks{}
	exchangePool.Put(x)
}

// endRequest ends what x has of its request, once.
func (x *exchange) endRequest() {
	if x.request != nil {
		x.use(x.request.End())
		x.request.Release(false)
		requestPool.Put(x.request)
		x.request, x.requestHeader, x.responseHeader, x.form = nil, nil, nil, nil
	}
	if x.flight != nil {
		x.flight.Add(-1)
		x.flight = nil
	}
}

// AppendFields implements streams.Fields for the final head.
func (x *exchange) AppendFields(dst []byte, e message.FieldEncoder) []byte {
	return x.responseHeader.AppendFields(dst, e, x.framing)
}

// SendInterim implements server.Exchange.
func (x *exchange) SendInterim(h *message.ResponseHeader) bool {
	return x.stream.sendHead(streams.InterimFields{Header: h}, true, false)
}

// SendHead implements server.Exchange.
func (x *exchange) SendHead(f *message.ResponseForm, p []byte, isLast bool) bool {
	x.form, x.framing = f, f.Framing()
	x.framing.Length = f.Length // trailer fields need no chunks
	if x.connects {
		if streams.OpensTunnel(f, x.responseHeader) {
			return x.accept(p)
		}
		if x.tunnel != nil && !x.tunnel.Revoke() {
			return false
		}
	}
	if f.IsShown {
		x.responseHeader.Show(x.framing)
	}
	if !isLast || len(p) > collected {
		x.mergePriority()
	}
	switch {
	case !f.HasContent:
		return x.stream.sendHead(x, false, true)
	case isLast && !f.HasTrailers:
		return x.stream.respond(x, p)
	}
	x.isEager = f.IsStream && x.isStream
	return x.stream.sendHead(x, false, false) && x.SendData(p, isLast)
}

// SendData implements server.Exchange.
func (x *exchange) SendData(p []byte, isLast bool) bool {
	switch {
	case !isLast, x.isAccepted: // the HijackHandler ends the stream
		return x.stream.send(p) && (!x.isEager || x.flush())
	case x.form.HasContent && x.responseHeader.HasTrailers(): // they may have been set after the head
		return x.stream.sendLast(p, streams.TrailerFields{Header: &x.responseHeader.Header})
	}
	return x.stream.sendLast(p, nil)
}

// Flush implements server.Exchange.
func (x *exchange) Flush() bool { return x.stream.flush() }

// Arm implements server.Exchange.
func (x *exchange) Arm() {}

// InterruptRead implements server.Exchange.
func (x *exchange) InterruptRead() { x.stream.interruptRead() }

// InterruptWrite implements server.Exchange.
func (x *exchange) InterruptWrite() { x.stream.reset(h3.InternalError) }

// Cancel implements streams.Stream.
func (x *exchange) Cancel() { x.stream.reset(h3.RequestCancelled) }

// HasTarget implements server.Exchange.
func (x *exchange) HasTarget() bool { return false }

// OnPeerGone implements server.Exchange.
func (x *exchange) OnPeerGone(f func()) { x.watch.set(x.quic.Context(), f) }

// SetReadDeadline implements server.Exchange.
func (x *exchange) SetReadDeadline(now int64, timeout time.Duration) {
	if timeout <= 0 {
		x.stream.setReadDeadline(time.Time{})
		return
	}
	x.stream.setReadDeadline(clock.Deadline(now + int64(timeout)))
}

// SetWriteTimeout implements server.Exchange.
func (x *exchange) SetWriteTimeout(timeout time.Duration) {
	if timeout <= 0 && x.writeTimeout > 0 {
		_ = x.quic.SetWriteDeadline(time.Time{}) // that of the last write
	}
	x.writeTimeout = timeout
}

// LocalAddr implements server.Exchange.
func (x *exchange) LocalAddr() net.Addr { return x.conn.net.LocalAddr() }

// RemoteAddr implements server.Exchange.
func (x *exchange) RemoteAddr() net.Addr { return x.conn.net.RemoteAddr() }

// NetConn implements server.Exchange.
func (x *exchange) NetConn() net.Conn { return x.conn.net }

// UserConn implements server.Exchange.
func (x *exchange) UserConn() net.Conn {
	if x.connects {
		return x.useTunnel()
	}
	if x.user == nil {
		x.user = streams.NewUserConn(x, sluice.ErrNotSupportedHTTP2)
	}
	return x.user
}
