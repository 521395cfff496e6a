package sluice

import (
	"io"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

// RequestCtx holds one request, its response, and the connection that carries
// them. It implements context.Context: Done is closed when the client
// disconnects, when the request ends, and when the server shuts down.
//
// The server owns every RequestCtx that it passes to a handler, and reuses it
// after the handler has returned; see RequestHandler. To test a handler without
// a server, use a zero RequestCtx or one after Init.
type RequestCtx struct {
	noCopy noCopy

	// Request is the client's request.
	Request Request
	// Response is sent after the handler has returned.
	Response Response

	// The private fields stand in groups, each with the file that changes it while a handler
	// may run. server_exchange.go begins and ends requests.

	// The server and its exchange, and who may use that: this file.
	server   *Server         // nil: outside a server
	cfg      *serverConfig   // of server
	exchange server.Exchange // nil: outside a server, or after giveUp
	wire     ctxWire
	done     atomic.Pointer[cancelState]

	// What is reported: ctx_request.go.
	facts      server.Facts
	remoteAddr net.Addr // of SetRemoteAddr and Init
	ownLogger  Logger   // of Init
	netConn    net.Conn // of Init2 and giveUp
	start      int64    // Nanos at the first byte of the request
	time       int64    // Nanos for Time; 0: not yet known

	// The request's body: server_body.go.
	bodyHeld      int64 // received bytes of it in memory; cleared together with time
	maxBodySize   int
	readTimeout   time.Duration
	requestStream requestStream

	// The response: server_respond.go.
	form     message.ResponseForm // from setForm on; after Flush, its length is that of the rest
	content  body.Memory          // the body stream for files in memory
	sentHead uint32               // Sum of the head that Flush has sent

	// After TimeoutError: server_timeout.go.
	letsGo          bool                     // a handler that timed out calls letGo when it returns
	timeoutResponse atomic.Pointer[Response] // nil: none

	leaving     // server_upgrade.go
	kept    any // of upgrade.Taker
	requestMarks
}

// requestMarks is the state of a request. The fields are cleared together.
type requestMarks struct {
	phase            ctxPhase
	verb             ctxVerb
	isHTTP10         bool // the client knows no interim responses and no trailer fields
	hijackNoResponse bool
	loggedPanic      uint32 // of what LogPanic has logged, from panicSum; 0: nothing
}

// A ctxPhase is how far a request and its response have come. The zero value
// changes to phaseReceived in HeadComplete, this to phaseFlushed in Flush, and
// either to phaseHijacked in Hijacker, from which endHijack leads back.
// The end of the request, and giveUp for the fresh RequestCtx, set the zero
// value again.
type ctxPhase uint8

const (
	phaseReceiving ctxPhase = iota // the head is not complete
	phaseReceived                  // nothing of the final response was sent
	phaseFlushed                   // Flush has sent the head of the response
	phaseHijacked                  // the response is sent, and the HijackHandler has the RequestCtx
)

// A ctxVerb is a received method with rules for its response. The handler may
// change the method in Request.Header.
type ctxVerb uint8

const (
	verbOther    ctxVerb = iota
	verbHead             // the response has no content
	verbConnect          // a successful response begins a tunnel
	verbExtended         // so it does; the request has a path, and may show another method
)

// detach undoes attach, after End: ctx forgets its server.
func (ctx *RequestCtx) detach() {
	ctx.server, ctx.cfg = nil, nil
	if ctx.Request.Header.keepsNames() {
		ctx.Request.Header.EnableNormalizing()
		ctx.Response.Header.EnableNormalizing()
	}
}

// shrink releases, after End, the memory that one large request needed.
func (ctx *RequestCtx) shrink() {
	ctx.Request.shrink()
	ctx.Response.shrink()
	if ctx.keptBytes() > maxPooledBytes {
		ctx.kept = nil
	}
}

// heldBytes estimates the memory that ctx holds while it is attached to a
// connection.
func (ctx *RequestCtx) heldBytes() int {
	const own = 4 << 10
	return own + cap(ctx.Request.buffered()) + cap(ctx.Response.buffered()) +
		ctx.Request.Header.heldBytes() + ctx.Response.Header.heldBytes() + ctx.keptBytes()
}

// keptBytes is the memory of kept.
func (ctx *RequestCtx) keptBytes() int {
	if kept, ok := ctx.kept.(interface{ HeldBytes() int }); ok {
		return kept.HeldBytes()
	}
	return 0
}

// closeValue closes a user value at the end of the request. The answer, and what else
// ends with the request, must not be lost because Close panics.
func (ctx *RequestCtx) closeValue(c io.Closer) {
	defer func() {
		v := recover()
		switch {
		case v == nil:
		case ctx.cfg != nil && ctx.cfg.crashOnPanic:
			crash(v)
		default:
			ctx.Logger().Printf("panic in Close of a user value: %v\n%s", v, debug.Stack())
		}
	}()
	_ = c.Close() // there is no caller to return the error to
}

// Init prepares ctx for a handler outside a server. It copies req. remoteAddr
// and logger may be nil.
func (ctx *RequestCtx) Init(req *Request, remoteAddr net.Addr, logger Logger) {
	ctx.initialize(remoteAddr, logger)
	if req != nil {
		req.CopyTo(&ctx.Request)
	}
}

// Init2 prepares ctx for a handler outside a server. The methods of ctx report
// conn as the connection; with TLS, the scheme of URI is https. reduceMemoryUsage has no
// effect.
func (ctx *RequestCtx) Init2(conn net.Conn, logger Logger, reduceMemoryUsage bool) {
	ctx.initialize(nil, logger)
	ctx.netConn = conn
	if ctx.IsTLS() {
		ctx.Request.receivedOver(true)
	}
}

func (ctx *RequestCtx) initialize(remoteAddr net.Addr, logger Logger) {
	ctx.Request.Reset()
	ctx.Response.Reset()
	ctx.ResetUserValues()
	ctx.remoteAddr = remoteAddr
	ctx.ownLogger = logger
	ctx.netConn = nil
	ctx.time = clock.Nanos()
	ctx.stay()
	ctx.timeoutResponse.Store(nil)
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

// doneState returns the state of ctx, which it creates on the first call.
func (ctx *RequestCtx) doneState() *cancelState {
	if d := ctx.done.Load(); d != nil {
		return d
	}
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	if d := ctx.done.Load(); d != nil {
		return d
	}
	d := newCancelState()
	ctx.done.Store(d)
	switch {
	case ctx.server == nil:
	case ctx.phase == phaseHijacked:
		ctx.server.done.Add(d)
	case ctx.wire.isDetached.Load():
		d.Cancel()
	default:
		ctx.server.done.Add(d)
		if ctx.ProtoMajor() > 1 || !ctx.Hijacked() {
			ctx.exchange.OnPeerGone(ctx.whenGone(d))
		}
	}
	return d
}
