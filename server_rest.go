package sluice

import (
	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
)

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
	_ = r.HeadComplete(false) // it has accepted the head before
	return r
}

// Drop implements server.Rested.
func (k *restedRequest) Drop() {
	if k.cfg.maxBodyMemory > 0 {
		k.server.gauges.bodyMemory.Add(-k.held)
	}
}
