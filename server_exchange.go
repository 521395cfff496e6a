package sluice

import (
	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/field"
)

// A servedRequest is a RequestCtx as the protocol of its connection sees it: a
// server.Request. While a handler runs, the methods of its exchange are called with ctxWire
// locked, except for ReadBody, InterruptRead and InterruptWrite.
type servedRequest RequestCtx

var _ server.Request = (*servedRequest)(nil)

// NewRequest implements server.Host.
func (a *acceptor) NewRequest(x server.Exchange, kept server.Request) server.Request {
	r, isKept := kept.(*servedRequest)
	if !isKept {
		r = &servedRequest{}
	}
	r.exchange = x
	(*RequestCtx)(r).attach(a.server, a.cfg)
	return r
}

// attach makes ctx, which has an exchange, serve requests of s.
func (ctx *RequestCtx) attach(s *Server, cfg *serverConfig) {
	ctx.server, ctx.cfg = s, cfg
	ctx.Response.Header.m.DefaultServer = cfg.name // Reset keeps it
	if cfg.keepNames {
		ctx.keepNames()
	}
}

// Headers implements server.Request.
func (r *servedRequest) Headers() (*message.RequestHeader, *message.ResponseHeader) {
	return &r.Request.Header.m, &r.Response.Header.m
}

// Begin implements server.Request.
func (r *servedRequest) Begin(f *server.Facts, start int64) {
	r.facts, r.start = *f, start
	// A handler may have replaced the Response of the request before.
	if h := &r.Response.Header.m; f.IsTLS || r.cfg.preparesResponses || !h.HasDefaults(r.cfg.name, nil) {
		(*RequestCtx)(r).prepareResponse()
	}
}

// HeadComplete implements server.Request.
func (r *servedRequest) HeadComplete(isHTTP10, isGet bool) error {
	ctx := (*RequestCtx)(r)
	ctx.phase = phaseReceived
	ctx.isHTTP10 = isHTTP10
	ctx.Request.receivedOver(ctx.facts.IsTLS)
	if !isGet {
		switch string(ctx.Request.Header.m.Method()) {
		case MethodHead:
			ctx.verb = verbHead
		case MethodConnect:
			ctx.verb = verbConnect
		}
	}
	cfg := ctx.cfg
	ctx.maxBodySize = cfg.maxBodySize
	ctx.Request.setLimit(cfg.maxBodySize)
	ctx.readTimeout = cfg.ReadTimeout
	if cfg.getOnly && ctx.verb != verbHead && !ctx.IsGet() {
		return ErrGetOnly
	}
	return nil
}

// ExtendedConnect implements server.Request.
func (r *servedRequest) ExtendedConnect() { r.verb = verbExtended }

// Serve implements server.Request. Other goroutines may still use ctx, without its exchange,
// if the handler has called TimeoutError.
func (r *servedRequest) Serve(start int64) (fresh server.Request, o server.Outcome) {
	ctx := (*RequestCtx)(r)
	ctx.start = start
	if !ctx.cfg.lazyTime {
		ctx.time = ctx.start
	}
	if ctx.cfg.expectHandler != nil && ctx.cfg.name != nil {
		ctx.Response.Header.m.Table.DelID(field.Server) // ExpectHandler may have set it
	}
	ctx.Response.Header.m.ShowsServer = true
	o = server.OutcomePanic // unless the handler returns
	defer func() {
		if o != server.OutcomePanic {
			return
		}
		if v := recover(); v != nil { // nil: the goroutine ends
			fresh, o = ctx.settle(ctx.handlerPanicked(v))
		}
	}()
	ctx.cfg.handler(ctx)
	o = server.OutcomeResponse
	if ctx.timeoutResponse.Load() != nil || ctx.leavesHTTP() {
		return ctx.settle(o)
	}
	return nil, o
}

// settle returns what Serve does, after a handler that has returned or panicked.
func (ctx *RequestCtx) settle(o server.Outcome) (fresh server.Request, _ server.Outcome) {
	if ctx.timeoutResponse.Load() != nil { // other goroutines may use ctx, even after a panic
		replaced, isTorn := ctx.replaceTimedOut()
		if isTorn {
			o = server.OutcomeAbort
		}
		return (*servedRequest)(replaced), o
	}
	if o == server.OutcomeResponse && ctx.leavesHTTP() {
		o = ctx.leave()
	}
	return nil, o
}

// EndReads implements server.Request.
func (r *servedRequest) EndReads() { r.requestStream.interrupt() }

// End implements server.Request.
func (r *servedRequest) End() (fresh server.Request) {
	ctx := (*RequestCtx)(r)
	if ctx.cfg.maxBodyMemory > 0 && ctx.bodyHeld > 0 {
		ctx.server.gauges.bodyMemory.Add(-ctx.bodyHeld)
	}
	if isHijacked := ctx.phase == phaseHijacked; isHijacked || ctx.done.Load() != nil || ctx.Response.strayWriters > 0 {
		replaced, _ := ctx.giveUp()
		ctx.requestStream.reset()
		if !isHijacked {
			ctx.letGo()
		}
		return (*servedRequest)(replaced)
	}
	if ctx.Request.hasUserValues() {
		ctx.Request.resetUserValues(ctx.closeValue)
	}
	ctx.Request.resetForServer()
	ctx.Response.resetForServer()
	if ctx.cfg.keepNames {
		ctx.keepNames()
	}
	ctx.requestStream.reset()
	ctx.time, ctx.bodyHeld = 0, 0
	if dropped := ctx.takeDropped(); dropped != nil {
		dropped()
	}
	ctx.stay()
	if ctx.timeoutResponse.Load() != nil {
		ctx.timeoutResponse.Store(nil)
	}
	ctx.remoteAddr = nil
	ctx.requestMarks = requestMarks{}
	return nil
}

// Shrink implements server.Request.
func (r *servedRequest) Shrink() { (*RequestCtx)(r).shrink() }

// Release implements server.Request.
func (r *servedRequest) Release(hasWaited bool) {
	ctx := (*RequestCtx)(r)
	if hasWaited {
		buf.LetGo(ctx.heldBytes())
	}
	ctx.shrink()
	ctx.detach()
}

// Holds implements server.Request.
func (r *servedRequest) Holds() (n int, isOwn bool) {
	ctx := (*RequestCtx)(r)
	stream := ctx.Response.streamed()
	return ctx.heldBytes() + body.Holds(stream), ctx.Response.rawBody() == nil && stream == nil
}

// IsSpent implements server.Request. The content is that of SetBodyRaw. The RequestCtx goes to
// no pool, because the content may refer to memory of it.
func (r *servedRequest) IsSpent() bool {
	const leastSpent = 16 << 10 // makes it worth a new RequestCtx
	req := &r.Request
	return len(r.Response.rawBody()) >= leastSpent && r.bodyHeld == 0 && !req.hasUserValues() && !req.hasForm() && !req.hasFormFiles() &&
		r.requestStream.exchange == nil && r.done.Load() == nil
}

// A restedRequest is what is kept of a RequestCtx, which is four times as large.
type restedRequest struct {
	server *Server
	cfg    *serverConfig
	facts  server.Facts
	header message.RequestHeader
	body   *bodyBuffer // what has arrived of it
	held   int64       // its length
	start  int64       // of the RequestCtx
}

// Rest implements server.Request. No pool gets the RequestCtx: parts of it are used further.
func (r *servedRequest) Rest() server.Rested {
	return &restedRequest{r.server, r.cfg, r.facts, r.Request.Header.m, r.Request.takeBuffer(), r.bodyHeld, r.start}
}

// Wake implements server.Rested.
func (k *restedRequest) Wake(x server.Exchange) server.Request {
	ctx := &RequestCtx{exchange: x}
	ctx.attach(k.server, k.cfg)
	r := (*servedRequest)(ctx)
	r.Begin(&k.facts, k.start)
	ctx.bodyHeld = k.held
	ctx.Request.Header.m = k.header
	ctx.Request.giveBuffer(k.body)
	ctx.Request.Header.m.Moved()
	_ = r.HeadComplete(false, false) // it has accepted the head before
	return r
}

// Drop implements server.Rested.
func (k *restedRequest) Drop() {
	if k.cfg.maxBodyMemory > 0 {
		k.server.gauges.bodyMemory.Add(-k.held)
	}
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
	if dropped := ctx.takeDropped(); dropped != nil {
		go dropped() // it may wait for calls that need the lock
	}
	ctx.cfg.retain()
	if d := ctx.done.Load(); d != nil && ctx.phase != phaseHijacked {
		d.End()
	}
	fresh = &RequestCtx{exchange: x, facts: ctx.facts, start: ctx.start}
	fresh.attach(ctx.server, ctx.cfg)
	return fresh, isTorn || ctx.isFlushed()
}
