package proxy

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// An exchange is a request and its response. Handle owns it; if the response's body is
// streamed, the server does from then on, until it closes the body. It is a context that ends
// when the client disconnects.
type exchange struct {
	proxy *Proxy
	ctx   *sluice.RequestCtx
	taker upgrade.Taker // of ctx
	// What is in the heads of ctx and of req.
	received, sent *message.RequestHeader
	answered       *message.ResponseHeader
	// holder sends for the handler of the request; nil: nothing does.
	holder engine.Holder
	req    sluice.Request   // to the upstream
	resp   *sluice.Response // of the upstream: room, or that of a hedge
	room   sluice.Response

	pick  balance.Pick[*upstream] // of the attempt that is running, or has succeeded
	tried []*balance.Member[*upstream]
	key   uint64 // of Hash
	// cookie is what the client has sent for Sticky; "": nothing.
	cookie string

	upload  upload
	head    []byte // the beginning of the response's body, which was read and not sent yet
	isBusy  bool   // pick counts as pending
	isJudge bool   // pick must be judged
	// cancel ends the context of a hedged request; nil: that is x.
	cancel context.CancelFunc

	isUploading bool // the request's body is upload
	// namesUpstream: each upstream gets its own host, by an option, or because a client of HTTP/1.0
	// has named none (RFC 9112 section 3.2).
	namesUpstream bool
	isStreaming   bool // the response's body is a stream, which owns the exchange

	scratch   []byte // for values of fields
	forwarded message.ForwardedFields
	block     *[blockSize]byte // for bodies up to its length; nil: none is needed
	refused   *refusal         // what the body of a response to an upgrade is read from; nil: no connection of its own

	done  chan struct{} // closed when the client has disconnected
	state atomic.Uint32 // contextState
	// conn is of the goroutine that sends, and with contextGuards of who changes state.
	conn   interrupter
	mu     sync.Mutex
	ends   []interrupter // interrupted when the client has disconnected, as conn
	others atomic.Int32  // length of ends, written with mu

	gone      func() // x.disconnected
	onInterim func(*sluice.ResponseHeader)
}

var _ context.Context = (*exchange)(nil)

// blockSize is the length of exchange.block.
const blockSize = 16 << 10

// newExchange returns one that can be kept.
func newExchange() *exchange {
	x := &exchange{scratch: make([]byte, 0, 256), done: make(chan struct{})}
	x.resp = &x.room
	x.upload.x = x
	x.gone = x.disconnected
	x.onInterim = x.forwardInterim
	return x
}

// run forwards the request and prepares the response. The error says why there is none.
func (x *exchange) run() error {
	if status := x.ownStatus(); status != 0 {
		x.ctx.Error(sluice.StatusMessage(status), status)
		return nil
	}
	var client netip.AddrPort
	x.holder, client = x.taker.Watch(x.gone)
	x.buildHead(client)
	if hook := x.proxy.options.Request; hook != nil {
		if err := hook(x.ctx, &x.req); err != nil {
			return hookError{err}
		}
	}
	x.namesUpstream = x.proxy.options.RewriteHost || len(x.req.Header.Host()) == 0
	if err := x.takeBody(); err != nil {
		return err
	}
	// A request with a long body does not change the protocol: its server need not do so (RFC 9110
	// section 7.8).
	if protocol := upgradeOf(&x.ctx.Request.Header); protocol != "" && !x.isUploading {
		return x.tunnel(protocol)
	}
	if err := x.send(); err != nil {
		return err
	}
	return x.answer()
}

// ownStatus returns the status of a request that is not forwarded, 0 for others.
func (x *exchange) ownStatus() int {
	h := &x.ctx.Request.Header
	left, isBounded := x.forwardsLeft()
	isLast := isBounded && left == 0 // it asks the proxy itself
	switch {
	case h.IsConnect(), isLast && h.IsTrace():
		return sluice.StatusNotImplemented
	case isLast:
		return sluice.StatusOK
	case x.isLoop():
		return sluice.StatusLoopDetected
	}
	return 0
}

// send sends the request until there is a response, or it must not be sent again.
func (x *exchange) send() error {
	hasStream := x.req.IsBodyStream()
	for attempt := 1; ; attempt++ {
		x.begin(x.choose())
		var err error
		if attempt == 1 && x.mayHedge() {
			err = x.sendHedged()
		} else {
			err = x.sendOnce(x)
		}
		if err == nil {
			x.judge(balance.Good)
			return nil
		}
		isStalled := x.upload.isStalled.Load()
		isOwn := !isStalled && (x.isEnded() || x.upload.failure() != nil)
		if isOwn || errors.Is(err, sluice.ErrNoFreeConns) { // one that has much to do is not ill
			x.judge(balance.Unknown)
		} else {
			x.pick.Member.Client.failed.Add(1)
			x.judge(balance.Bad)
		}
		x.end()
		switch {
		case isOwn, isStalled, attempt >= x.proxy.options.Attempts, len(x.tried) >= len(x.proxy.options.To):
			return err
		case hasStream && !x.req.IsBodyStream(): // it was read
			return err
		case !isUnsent(err) && (isTimeout(err) || !mayRepeat(&x.req.Header)):
			return err
		}
	}
}

// sendOnce sends the request to the upstream that was picked. ctx is x, or ends with it.
func (x *exchange) sendOnce(ctx context.Context) error {
	x.resp.StreamBody, x.resp.SkipBody, x.resp.OnInterim = true, false, x.onInterim
	u := x.pick.Member.Client
	x.aim(&x.req, u)
	err := u.client.DoContext(ctx, &x.req, x.resp)
	if x.uploadsHTTP1() {
		x.upload.settled()
	}
	return err
}

// uploadsHTTP1 reports whether the body is a stream, and no Read of it outlives the attempt.
func (x *exchange) uploadsHTTP1() bool {
	return x.isUploading && x.pick.Member.Client.client.HTTP2 == sluice.HTTP2Off
}

// begin makes pick the upstream of the next attempt.
func (x *exchange) begin(pick balance.Pick[*upstream]) {
	x.pick, x.isBusy, x.isJudge = pick, true, true
	x.tried = append(x.tried, pick.Member)
	pick.Member.Client.sent.Add(1)
}

// judge says what came of the attempt.
func (x *exchange) judge(verdict balance.Verdict) {
	if x.isJudge {
		x.isJudge = false
		x.pick.Report(verdict)
	}
}

// end ends the attempt, if there is one.
func (x *exchange) end() {
	x.judge(balance.Unknown)
	if x.isBusy {
		x.isBusy = false
		x.pick.Member.Client.ended.Add(1)
	}
}

// isUnsent reports whether err says that the upstream has got nothing of the request.
func isUnsent(err error) bool {
	var dialed *sluice.ErrDialWithUpstream
	return errors.As(err, &dialed) || errors.Is(err, sluice.ErrNoFreeConns) || errors.Is(err, sluice.ErrTLSHandshakeTimeout)
}

// mayRepeat reports whether a request may be sent again although an upstream may have
// processed it.
func mayRepeat(h *sluice.RequestHeader) bool {
	switch string(h.Method()) {
	case "PUT", "DELETE":
		return true
	}
	return isSafe(h) || len(h.Peek("Idempotency-Key")) > 0
}

// isSafe reports whether a request asks for no change (RFC 9110 section 9.2.1).
func isSafe(h *sluice.RequestHeader) bool {
	switch string(h.Method()) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "QUERY":
		return true
	}
	return false
}

func isTimeout(err error) bool {
	var timed interface{ Timeout() bool }
	return errors.Is(err, sluice.ErrTimeout) || errors.As(err, &timed) && timed.Timeout()
}

// leave ends Handle: x is released, unless the response's body owns it.
func (x *exchange) leave() {
	if !x.isStreaming {
		x.release()
	}
}

// release ends x, and has ctx keep it.
func (x *exchange) release() {
	x.end()
	if x.refused != nil {
		x.refused.close()
		x.refused = nil
	}
	if x.resp.IsBodyStream() { // it was not wanted
		_ = x.resp.CloseBodyStream()
	}
	if x.isUploading {
		_ = x.upload.Close()
	}
	if x.cancel != nil {
		x.cancel()
		x.cancel = nil
	}
	x.releaseBlock()
	x.taker.OnPeerGone(nil)
	releaseExchange(x)
}

// A contextState is the state of an exchange as a context.
type contextState uint32

const (
	contextOpen   contextState = iota
	contextGuards              // open, and conn is interrupted at the end
	contextEnded               // done is closed, or about to be
)

// disconnected ends the context: the client has disconnected.
func (x *exchange) disconnected() {
	switch contextState(x.state.Swap(uint32(contextEnded))) {
	case contextEnded:
		return
	case contextGuards:
		go x.conn.Interrupt()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.done)
	for _, end := range x.ends {
		go end.Interrupt()
	}
	x.ends = nil
	x.others.Store(0)
}

// isSpent reports whether the context has ended, or a goroutine may still wait for its end or
// hold the upload.
func (x *exchange) isSpent() bool {
	return x.contextState() != contextOpen || x.others.Load() > 0 || x.isUploading
}

func (x *exchange) contextState() contextState { return contextState(x.state.Load()) }

func (x *exchange) isEnded() bool { return x.contextState() == contextEnded }

// Done implements context.Context.
func (x *exchange) Done() <-chan struct{} { return x.done }

// Err implements context.Context.
func (x *exchange) Err() error {
	if x.isEnded() {
		return context.Canceled
	}
	return nil
}

// Holder returns what sends for the handler of the request. The client calls it.
func (x *exchange) Holder() engine.Holder { return x.holder }

// Proxied tells the client that the call is one of this package.
func (x *exchange) Proxied() {}

// Deadline implements context.Context.
func (x *exchange) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value implements context.Context.
func (x *exchange) Value(key any) any {
	if x.isEnded() {
		return nil // the request may be over
	}
	return x.ctx.UserValue(key)
}

// An interrupter is what ends with the context: a connection to an upstream, or an *endFunc.
type interrupter = interface{ Interrupt() }

// Guard has conn interrupted once, on another goroutine, when the context ends. The client
// calls it, on the goroutine that sends.
func (x *exchange) Guard(conn interrupter) {
	if x.contextState() == contextOpen { // the usual case, without a lock
		x.conn = conn
		if x.state.CompareAndSwap(uint32(contextOpen), uint32(contextGuards)) {
			return
		}
	}
	x.guardOther(conn)
}

// Unguard ends what Guard has begun. It reports whether conn was not interrupted.
func (x *exchange) Unguard(conn interrupter) bool {
	if x.conn == conn && x.state.CompareAndSwap(uint32(contextGuards), uint32(contextOpen)) {
		x.conn = nil
		return true
	}
	return x.unguardOther(conn)
}

// guardOther is Guard for any goroutine.
func (x *exchange) guardOther(end interrupter) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.isEnded() {
		go end.Interrupt()
		return
	}
	x.ends = append(x.ends, end)
	x.others.Store(int32(len(x.ends)))
}

// unguardOther is Unguard for what guardOther has got.
func (x *exchange) unguardOther(end interrupter) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := slices.Index(x.ends, end)
	if i < 0 {
		return false
	}
	x.ends = slices.Delete(x.ends, i, i+1)
	x.others.Store(int32(len(x.ends)))
	return true
}

// An endFunc is a function that AfterFunc got.
type endFunc struct{ f func() }

// Interrupt calls the function.
func (e *endFunc) Interrupt() { e.f() }

// AfterFunc has f called on another goroutine when the context ends. context.AfterFunc
// calls it.
func (x *exchange) AfterFunc(f func()) (stop func() bool) {
	end := &endFunc{f}
	x.guardOther(end)
	return func() bool { return x.unguardOther(end) }
}

// An upload is the body of a request that is forwarded while it arrives. It may take any time
// as a whole, but the client must keep sending.
type upload struct {
	x    *exchange
	body io.Reader // nil: none is forwarded so
	left int64     // of Options.MaxBody
	due  int64     // of Content-Length; < 0: unknown
	none [1]byte   // what the end is read into

	reading  sync.Mutex // held by Read
	isClosed atomic.Bool

	stall     *time.Timer // runs while the upstream takes a piece; nil before the first one
	isStalled atomic.Bool // it took too long

	mu     sync.Mutex
	err    error // of the client
	isOver bool  // body was read to its end
}

// Read implements io.Reader. After Close it does not touch the request, which may be over:
// with HTTP/2 to the upstream, the goroutine that reads may outlive it.
func (u *upload) Read(p []byte) (int, error) {
	u.reading.Lock()
	defer u.reading.Unlock()
	if u.isClosed.Load() {
		return 0, io.ErrClosedPipe
	}
	ctx, timeout := u.x.ctx, u.x.proxy.options.Timeout
	u.limit(0)
	err := ctx.SetReadDeadline(time.Now().Add(timeout))
	n := 0
	if err == nil {
		n, err = u.body.Read(p)
	}
	if u.due -= int64(n); n > 0 && u.due == 0 && err == nil {
		// Who knows the length need not read the end, without which the connection is not kept.
		_, err = u.body.Read(u.none[:])
	}
	if u.left -= int64(n); u.left < 0 && u.x.proxy.options.MaxBody > 0 {
		n, err = 0, sluice.ErrBodyTooLarge
	}
	switch {
	case err != nil && err != io.EOF && u.isClosed.Load(): // by Close; the client has not failed
	case err != nil:
		u.end(err)
		if err == io.EOF && u.x.uploadsHTTP1() {
			u.limit(2 * timeout) // for the last piece; the response has a limit of its own
		}
	default:
		u.limit(timeout)
	}
	return n, err
}

// MayHaveTrailers tells the client of HTTP/2 that trailer fields may follow which the request does
// not announce.
func (u *upload) MayHaveTrailers() bool { return u.due < 0 || u.x.ctx.StreamID() != 0 }

// ReadTrailers adds the trailer fields to h. The client of HTTP/2 calls it after the end, when its
// request may be over.
func (u *upload) ReadTrailers(h *sluice.RequestHeader) { forwardTrailers(&u.x.req.Header, h) }

// limit ends the exchange if the upstream has not taken what Read returns within d; 0: there is
// no limit. The client of package sluice limits only the whole of a request. u.reading is held.
func (u *upload) limit(d time.Duration) {
	switch {
	case !u.x.isUploading: // nothing is sent yet
	case u.stall != nil && d == 0:
		u.stall.Stop()
	case u.stall != nil:
		u.stall.Reset(d)
	case d > 0:
		u.stall = time.AfterFunc(d, func() {
			u.isStalled.Store(true)
			u.x.disconnected()
		})
	}
}

// settled waits for the Read that runs, and ends its limit.
func (u *upload) settled() {
	u.reading.Lock()
	defer u.reading.Unlock()
	u.limit(0)
}

// end notes how the body has ended.
func (u *upload) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case err == io.EOF:
		u.isOver = true
		if u.MayHaveTrailers() {
			forwardTrailers(&u.x.ctx.Request.Header, &u.x.req.Header)
		}
	case u.err == nil:
		u.err = err
	}
}

// failure returns the error of the client, nil if there was none.
func (u *upload) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.err
}

// Close implements io.Closer. It ends a Read that waits, and returns when none runs.
func (u *upload) Close() error {
	if !u.isClosed.Swap(true) && !u.hasEnded() {
		upgrade.StopBody(u.x.ctx)
	}
	u.settled()
	return nil
}

// hasEnded reports whether the body was read to its end, or has failed.
func (u *upload) hasEnded() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isOver || u.err != nil
}

// settle waits for the end of the upload before a response is sent over HTTP/1.1, where both
// use the same state of the connection. If the upstream has answered early with a failure, or
// does not take the rest for Timeout, the upload ends.
func (u *upload) settle(status int) {
	const pause = 5 * time.Millisecond
	for left := u.x.proxy.options.Timeout; status < 300 && left > 0 && !u.hasEnded() && !u.isClosed.Load() && !u.x.isEnded(); left -= pause {
		time.Sleep(pause)
	}
	_ = u.Close()
}

// takeBody makes the client's body that of the request, in memory if it is short.
func (x *exchange) takeBody() error {
	o, in := &x.proxy.options, &x.ctx.Request
	body := x.ctx.RequestBodyStream()
	length := in.Header.ContentLength()
	switch {
	case body == nil:
		if content := x.ctx.PostBody(); len(content) > 0 {
			x.req.SetBodyRaw(content)
		}
		return nil
	case o.MaxBody > 0 && int64(length) > o.MaxBody:
		return sluice.ErrBodyTooLarge
	}
	x.upload.body, x.upload.left, x.upload.due = body, o.MaxBody, int64(length)
	announceTrailers(&in.Header, &x.req.Header)
	if length >= 0 && length <= min(o.BufferBody, blockSize) {
		content := x.takeBlock()[:length]
		if _, err := io.ReadFull(&x.upload, content); err != nil {
			return x.upload.failure()
		}
		x.req.SetBodyRaw(content)
		return nil
	}
	x.isUploading = true
	x.req.SetBodyStream(&x.upload, length)
	return nil
}
