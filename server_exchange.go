package sluice

import (
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server/http1"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A serverExchange sends the response and reads the body of one request in the
// protocol of its connection. Each protocol of the server implements it. It is
// all that RequestCtx knows about the protocol.
//
// In the other direction, the protocol calls RequestCtx, in this order:
//
//	begin                         the first byte of a request has arrived
//	headComplete                  the head is in Request.Header
//	headerReceived, expectStatus  callbacks that decide about the body
//	expectBody, keepBody          the body arrives
//	runHandler, respond           or, for a request that is not served, refuse, respond
//	end                           the RequestCtx is ready for the next request
//
// The methods of an exchange are called during runHandler and respond. While a
// handler runs, ctxWire is locked, except for ReadBody and the two methods
// whose comments say so. A result of type bool is false when the client cannot
// be reached any more.
type serverExchange interface {
	// SendInterim sends an interim response at once: 100 (Continue), or 103 (Early
	// Hints) with links as its Link fields.
	SendInterim(status int, links [][]byte) bool
	// SendHead sends the head of RequestCtx.Response, with the content that f
	// describes, and p, the first part of the content. With isLast, the response
	// ends after p. It is called once for each request.
	SendHead(f *message.ResponseForm, p []byte, isLast bool) bool
	// SendData sends p as the next part of the content. With isLast, the response
	// ends after p, with the trailer fields of RequestCtx.Response. p belongs to
	// the caller, except for the last part, which does not change until
	// RequestCtx.end.
	SendData(p []byte, isLast bool) bool
	// SendFile sends part as the rest of the content. It owns part, and closes
	// part.Done, possibly after the handler's Run. After ErrConnectionClosed, the
	// client cannot be reached.
	SendFile(part engine.File) error
	// Flush sends what the methods above may have collected.
	Flush() bool

	// ReadBody waits for a part of the request's body. It returns io.EOF at the
	// verified end, possibly with the last bytes. Before it waits for the client,
	// it calls requestStream.mayWait.
	ReadBody(p []byte) (int, error)

	// Arm prepares for the next two methods. Every call that may wait for the
	// client comes after it.
	Arm()
	// InterruptRead makes a waiting ReadBody return, and every further one.
	// InterruptWrite makes a waiting Send or Flush return, and every further one:
	// the response is then torn. They are called on any goroutine, while another
	// one holds ctxWire.
	InterruptRead()
	InterruptWrite()

	// OnPeerGone arranges that f is called, on any goroutine, if the client goes
	// away while the handler runs.
	OnPeerGone(f func())
	// SetReadDeadline bounds waits for the request's body: now+timeout, in Nanos; 0 means
	// for ever. SetWriteTimeout bounds each blocked write of this response.
	SetReadDeadline(now int64, timeout time.Duration)
	SetWriteTimeout(timeout time.Duration)

	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// NetConn returns the connection for its addresses and TLS state. It is valid
	// even after the connection has ended.
	NetConn() net.Conn
	// UserConn returns the connection for RequestCtx.Conn.
	UserConn() net.Conn
}

// connFacts are the facts about a connection that its requests report. Served is the
// number of the request.
type connFacts = http1.Facts

// attach makes ctx, which has an exchange, serve requests of s.
func (ctx *RequestCtx) attach(s *Server, cfg *serverConfig) {
	ctx.server, ctx.cfg = s, cfg
	if cfg.keepNames {
		ctx.keepNames()
	}
}

// begin starts a request. start is when its first byte arrived, as of clock.Nanos.
func (ctx *RequestCtx) begin(f *connFacts, start int64) {
	ctx.facts, ctx.start = *f, start
	ctx.prepareResponse()
}

// headComplete prepares for what follows the head. An error refuses the
// request.
func (ctx *RequestCtx) headComplete(isHTTP10 bool) error {
	ctx.phase = phaseReceived
	ctx.isHTTP10 = isHTTP10
	ctx.Request.connection = connSchemeOf(ctx.facts.IsTLS)
	switch string(ctx.Request.Header.m.Method()) {
	case MethodHead:
		ctx.verb = verbHead
	case MethodConnect:
		ctx.verb = verbConnect
	}
	cfg := ctx.cfg
	ctx.maxBodySize, ctx.Request.limit = cfg.maxBodySize, cfg.maxBodySize
	ctx.readTimeout = cfg.ReadTimeout
	if cfg.getOnly && ctx.verb != verbHead && !ctx.IsGet() {
		return ErrGetOnly
	}
	return nil
}

// A handlerEnd is how a call of the handler has ended.
type handlerEnd uint8

const (
	handlerReturned handlerEnd = iota
	handlerPanicked            // the response is a 500
	handlerAborted             // no response may be sent, and what was sent must look incomplete
)

// runHandler calls the handler. The RequestCtx that it returns has the response.
// That is a fresh one if the handler has called TimeoutError: other goroutines
// may then still use ctx, without its exchange.
func (ctx *RequestCtx) runHandler() (*RequestCtx, handlerEnd) {
	if !ctx.cfg.lazyTime {
		ctx.time = ctx.start
	}
	if ctx.cfg.expectHandler != nil && ctx.cfg.name != nil {
		ctx.Response.Header.m.Table.DelID(field.Server) // ExpectHandler may have set it
	}
	ctx.Response.Header.m.ShowsServer = true
	end := ctx.callHandler()
	if ctx.timeoutResponse.Load() != nil { // other goroutines may use ctx, even after a panic
		fresh, isTorn := ctx.replaceTimedOut()
		if isTorn {
			end = handlerAborted
		}
		return fresh, end
	}
	if end == handlerReturned {
		switch {
		case ctx.takeover != nil:
			ctx.settleTakeover()
		case ctx.isSilent():
			ctx.dropBody()
		}
	}
	return ctx, end
}

// end ends the request and gives back what it holds. It returns the RequestCtx
// for the next request: ctx, or a fresh one if other goroutines may still use
// ctx.
func (ctx *RequestCtx) end() *RequestCtx {
	if ctx.cfg.maxBodyMemory > 0 && ctx.bodyHeld > 0 {
		ctx.server.gauges.bodyMemory.Add(-ctx.bodyHeld)
	}
	if ctx.done.Load() != nil || ctx.Response.strayWriters > 0 {
		fresh, _ := ctx.giveUp()
		ctx.requestStream.reset()
		ctx.letGo()
		return fresh
	}
	ctx.reset()
	return ctx
}

// giveUp leaves ctx to goroutines that outlive its request, and takes the
// exchange away from it. fresh is a RequestCtx for the same exchange. isTorn
// says that part of a response was sent, so that no other one can follow.
func (ctx *RequestCtx) giveUp() (fresh *RequestCtx, isTorn bool) {
	x := ctx.exchange
	isTorn = ctx.sever()
	defer ctx.wire.Unlock()
	ctx.netConn = x.NetConn() // ctx still reports its addresses after the connection's end
	ctx.exchange = nil
	if dropped := ctx.hijackDropped; dropped != nil {
		ctx.hijackDropped = nil
		go dropped() // it may wait for calls that need the lock
	}
	ctx.cfg.retain()
	if d := ctx.done.Load(); d != nil {
		d.End()
	}
	fresh = &RequestCtx{exchange: x, facts: ctx.facts, start: ctx.start}
	fresh.attach(ctx.server, ctx.cfg)
	return fresh, isTorn || ctx.phase == phaseFlushed
}
