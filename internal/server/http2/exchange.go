package http2

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/streams"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// An Exchange is one request and its response on a stream: the server.Exchange of HTTP/2. The
// Conn calls it with mu locked, or in a Task; see each method.
type Exchange struct {
	stream         Stream
	request        server.Request // nil: it is given up, at rest, or there was none yet
	requestHeader  *message.RequestHeader
	responseHeader *message.ResponseHeader
	start          int64         // Nanos at the head of the request
	rested         server.Rested // nil: the body goes on, or has arrived
	due            int64         // when the body of rested is late

	cfg     *Config // of the connection, as the next two; nil: the request has ended
	host    Host
	netConn net.Conn
	failure error                 // why the request is refused
	form    *message.ResponseForm // of SendHead; nil: it was not called
	framing message.Framing
	buffer  []byte                // for files
	flight  *atomic.Int32         // of the Meter; nil: nothing is counted
	user    *streams.UserConn     // what UserConn has returned; nil: it was not called
	tunnel  *streams.HijackedConn // of an extended CONNECT; nil: not used yet
	marks
}

// marks are facts about one request. They are cleared together.
type marks struct {
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

var _ server.Exchange = (*Exchange)(nil)

// use makes r the Request of x, unless it is nil.
func (x *Exchange) use(r server.Request) {
	if r != nil && r != x.request {
		x.request = r
		x.requestHeader, x.responseHeader = r.Headers()
	}
}

// giveUp forgets the Request of x.
func (x *Exchange) giveUp() {
	x.request, x.requestHeader, x.responseHeader, x.form = nil, nil, nil, nil
}

func newExchange() *Exchange {
	x := &Exchange{}
	x.stream.exchange = x
	return x
}

// begin starts a request on c. Conn.mu is locked, as it is until Serve.
func (x *Exchange) begin(c *Conn, now int64) {
	x.cfg, x.host, x.netConn, x.start = c.cfg, c.host, c.netConn, now
	x.use(c.host.NewRequest(x, x.request))
	x.request.Begin(&c.facts, now)
	if r := c.cfg.Requests; r != nil {
		r.Add(1)
	}
	if f := c.cfg.Meter.Flights; f != nil {
		x.flight = f.Begin(now)
	}
}

// fields returns the table that the head is decoded to.
func (x *Exchange) fields() *field.Table { return &x.requestHeader.Table }

// headComplete is called with a valid head. Without isLast, a body follows; with it, the
// request is complete. isStreamed: Serve begins now and reads the body with ReadBody, or that
// of an extended CONNECT with a Tunnel. An error refuses the request; Serve then answers it.
func (x *Exchange) headComplete(head *fieldlist.Head, isLast bool) (isStreamed bool, err error) {
	h := x.requestHeader
	h.SetParsed(&head.Head)
	h.SetVersion(2)
	x.connects = head.Connect != h1.Span{}
	if x.connects {
		h.SetConnect(head.Connect)
		x.isKeyed = streams.ShowUpgrade(h)
	}
	if err := x.request.HeadComplete(false, false); err != nil {
		return false, err
	}
	if x.connects {
		x.request.ExtendedConnect()
	}
	x.bodyLength = -1
	isComplete := isLast || x.connects || !x.cfg.StreamsBodies && h.IsMethod("CONNECT") // its client waits
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
	if x.cfg.AsksUser || x.expects {
		x.decides = true // the user's callbacks may block
		return true, nil
	}
	if isComplete {
		return x.connects || !isLast, nil
	}
	x.isStreamed, err = x.request.ExpectBody(x.bodyLength)
	return x.isStreamed, err
}

// bodyReceived gets the next part of a body that is not streamed. An error refuses the
// request.
func (x *Exchange) bodyReceived(p []byte) error {
	x.wake()
	x.kept += len(p)
	return x.request.BodyReceived(p, 0)
}

// bodyComplete is called at the end of a body that is not streamed. t has the trailer fields;
// nil: there are none. t belongs to the caller.
func (x *Exchange) bodyComplete(t *field.Table) {
	x.wake()
	if t != nil {
		x.requestHeader.ReceiveTrailers(t)
	}
	if x.bodyLength < 0 {
		x.requestHeader.SettleChunked(x.kept)
	}
}

// refuse makes Serve answer with err instead of calling a handler. method is that of a request
// whose head was refused, without a call of headComplete; empty: it is not known, or there was
// the call.
func (x *Exchange) refuse(err error, method []byte) {
	x.wake()
	x.failure = err
	x.requestHeader.SetVersion(2) // ErrorHandler sees it
	if len(method) > 0 {
		x.requestHeader.SetMethod(method)
	}
}

// holds returns how many bytes of memory are kept for the response, and until End. With isOwn,
// the content is in them. Conn.mu is locked, by a method of the Stream that gets content.
func (x *Exchange) holds() (n int, isOwn bool) {
	if x.request == nil { // hijacked
		return 0, false
	}
	n, isOwn = x.request.Holds()
	return n + cap(x.buffer), isOwn
}

// serve answers the request. It runs in a Task and may block. When it returns, the response is
// complete, or else the stream is reset. With outlived, something else has the stream: a Tunnel,
// or what Produce or ServeProtocol got.
func (x *Exchange) serve() (outlived bool) {
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
	case x.failure == ErrReset: // there is no client to answer
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
func (x *Exchange) handle() (outlived bool) {
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
func (x *Exchange) respond() (ok bool) {
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
func (x *Exchange) served() {
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
func (x *Exchange) decide() (isWanted bool) {
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
		x.failure = ErrReset
	case err != nil:
		x.failure = err
	case !isStreamed:
		x.failure = x.keepStreamed()
	}
	return true
}

// keepStreamed reads the body into memory.
func (x *Exchange) keepStreamed() error {
	if x.buffer == nil {
		x.buffer = make([]byte, 16<<10)
	}
	for {
		now := clock.Nanos()
		x.stream.SetReadDeadline(now, time.Duration(max(x.lateAt(now)-now, 1)))
		n, err := x.stream.ReadBody(x.buffer, noWaitHook)
		if n > 0 {
			if err := x.bodyReceived(x.buffer[:n]); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			x.bodyComplete(x.stream.Trailer())
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

// bodyDue returns when bodyLate is called unless more of a body that is not streamed arrives,
// in Nanos. heard is when its last part came.
func (x *Exchange) bodyDue(heard int64) int64 {
	if x.rested != nil {
		return x.due
	}
	return min(x.lateAt(heard), heard+int64(bodyRest))
}

// lateAt returns when a body is late, of which the last part came at heard.
func (x *Exchange) lateAt(heard int64) int64 {
	if timeout := x.request.BodyTimeout(); timeout > 0 {
		return x.start + int64(timeout)
	}
	return heard + int64(x.cfg.ReadTimeout)
}

// bodyLate refuses the request with isOver, or else has another bodyDue.
func (x *Exchange) bodyLate(heard, now int64) (isOver bool) {
	if x.rested != nil {
		return true
	}
	due := x.lateAt(heard)
	if due <= now {
		return true
	}
	x.rest(due)
	return false
}

// restUntilServed keeps what serve needs only, which has to wait.
func (x *Exchange) restUntilServed() {
	if x.rested == nil && x.failure == nil && !x.decides && !x.connects && !x.isStreamed {
		x.rest(0)
	}
}

// rest keeps only what wake needs. No callback has seen the Request yet.
func (x *Exchange) rest(due int64) {
	x.rested, x.due = x.request.Rest(), due
	x.giveUp()
}

// wake makes a Request of what rest has kept, if there is none.
func (x *Exchange) wake() {
	if x.rested != nil {
		x.use(x.rested.Wake(x))
		x.rested = nil
	}
}

// answerFailure makes the response to a request that does not reach the handler.
func (x *Exchange) answerFailure() {
	streams.Refuse(x.request, x.failure)
	if x.cfg.LogsAll {
		x.host.Log(x.stream.conn.conn, x.failure)
	}
}

// end is the last call: the Conn uses the Stream no longer.
func (x *Exchange) end() {
	if x.user != nil {
		x.user.End()
	}
	if x.tunnel != nil {
		x.tunnel.Tunnel.Revoke()
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
	x.framing, x.marks = message.Framing{}, marks{}
	exchangePool.Put(x)
}

// endRequest ends what x has of its request, once: a hijacked one ends before its stream.
func (x *Exchange) endRequest() {
	cfg := x.cfg
	if cfg == nil {
		return
	}
	if x.request != nil {
		x.use(x.request.End())
		x.request.Release(false)
	}
	if x.flight != nil {
		x.flight.Add(-1)
	}
	x.cfg, x.host, x.netConn, x.flight = nil, nil, nil, nil
	if cfg.Requests != nil {
		cfg.Requests.Done()
	}
}

// AppendFields implements Fields for the final head.
func (x *Exchange) AppendFields(dst []byte, e message.FieldEncoder) []byte {
	return x.responseHeader.AppendFields(dst, e, x.framing)
}

// SendInterim implements server.Exchange.
func (x *Exchange) SendInterim(h *message.ResponseHeader) bool {
	return x.stream.SendHead(streams.InterimFields{Header: h}, true, false)
}

// SendHead implements server.Exchange.
func (x *Exchange) SendHead(f *message.ResponseForm, p []byte, isLast bool) bool {
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
	if !isLast || len(p) > directSize {
		x.stream.mergePriority(&x.responseHeader.Table)
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
func (x *Exchange) SendData(p []byte, isLast bool) bool {
	switch {
	case !isLast, x.isAccepted: // the HijackHandler ends the stream
		return x.stream.Send(p)
	case x.form.HasContent && x.responseHeader.HasTrailers(): // they may have been set after the head
		return x.stream.SendLast(p, streams.TrailerFields{Header: &x.responseHeader.Header})
	}
	return x.stream.SendLast(p, nil)
}

// SendFile implements server.Exchange.
func (x *Exchange) SendFile(part engine.File) error {
	if x.buffer == nil {
		x.buffer = make([]byte, 16<<10)
	}
	return streams.SendFile(x, part, x.buffer)
}

// Flush implements server.Exchange.
func (x *Exchange) Flush() bool { return x.stream.Flush() }

// ReadBody implements server.Exchange.
func (x *Exchange) ReadBody(p []byte) (int, error) {
	n, err := x.stream.ReadBody(p, x.request.MayWait)
	switch err {
	case io.EOF:
		if t := x.stream.Trailer(); t != nil {
			x.requestHeader.ReceiveTrailers(t)
		}
	case ErrReset:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Arm implements server.Exchange.
func (x *Exchange) Arm() {}

// InterruptRead implements server.Exchange.
func (x *Exchange) InterruptRead() { x.stream.InterruptRead() }

// InterruptWrite implements server.Exchange.
func (x *Exchange) InterruptWrite() { x.stream.Reset(h2.CodeInternalError) }

// Cancel implements streams.Stream.
func (x *Exchange) Cancel() { x.stream.Reset(h2.CodeCancel) }

// HasTarget implements server.Exchange.
func (x *Exchange) HasTarget() bool { return false }

// Peer returns what may send for the handler; nil: nothing. It cannot tell the client.
func (x *Exchange) Peer() (holder engine.Holder, client netip.AddrPort) {
	holder, _ = x.stream.conn.workers.(engine.Holder)
	return holder, client
}

// OnPeerGone implements server.Exchange.
func (x *Exchange) OnPeerGone(f func()) { x.stream.OnGone(f) }

// SetReadDeadline implements server.Exchange.
func (x *Exchange) SetReadDeadline(now int64, timeout time.Duration) {
	x.stream.SetReadDeadline(now, timeout)
}

// SetWriteTimeout implements server.Exchange.
func (x *Exchange) SetWriteTimeout(timeout time.Duration) { x.stream.SetWriteTimeout(timeout) }

// LocalAddr implements server.Exchange.
func (x *Exchange) LocalAddr() net.Addr { return x.netConn.LocalAddr() }

// RemoteAddr implements server.Exchange.
func (x *Exchange) RemoteAddr() net.Addr { return x.netConn.RemoteAddr() }

// NetConn implements server.Exchange.
func (x *Exchange) NetConn() net.Conn { return x.netConn }

// UserConn implements server.Exchange.
func (x *Exchange) UserConn() net.Conn {
	if x.connects {
		return x.useTunnel()
	}
	if x.user == nil {
		x.user = streams.NewUserConn(x, ErrNotSupported)
	}
	return x.user
}

// ErrNotSupported is sluice.ErrNotSupportedHTTP2, which HTTP/3 shares.
var ErrNotSupported = errors.New("sluice: not supported with HTTP/2 and HTTP/3")
