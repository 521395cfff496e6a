package sluice

import (
	"errors"
	"net"
	"net/netip"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// hostOf returns the Host of family on the Server's engine, and makes it if there is none.
// It returns nil if the Server does not serve, or has too many Hosts.
func (s *Server) hostOf(family upgrade.Family, cfg *serverConfig) upgrade.Host {
	e := s.currentEngine()
	if e == nil {
		return nil
	}
	return s.upgrades.Of(family, e, func(place uint64, isRegistered bool) upgrade.Server {
		cfg.retain()
		return &upgradeServer{upgrade.Place{Engine: e, Registered: isRegistered, Number: place, Marks: memoUpgraded, Shift: memoShift}, s, cfg}
	})
}

// unpackUpgraded is Unpack for a connection of a family.
func (a *acceptor) unpackUpgraded(conn engine.Conn, state upgrade.State) (engine.Protocol, []byte) {
	family := a.server.upgrades.Named(state.Name)
	if family == nil {
		a.cfg.logger.Printf("connection from %s closed: %q is not registered", conn.RemoteAddr(), state.Name)
	} else if host := a.server.hostOf(family, a.cfg); host != nil { // nil: the server shuts down
		if p := host.Unpack(conn, state.Own); p != nil {
			return p, nil
		}
	}
	return nil, []byte(state.Farewell)
}

// wakeUpgraded returns the Protocol that has left m.
func (s *Server) wakeUpgraded(conn engine.Conn, m engine.Memo) engine.Protocol {
	return s.upgrades.At(m.Served>>(memoShift+upgrade.MemoBits)).Wake(conn, m)
}

// upgradeServer is the Server for the connections of one Host.
type upgradeServer struct {
	upgrade.Place
	server *Server
	cfg    *serverConfig
}

// Closing implements upgrade.Server.
func (u *upgradeServer) Closing() upgrade.Closing {
	if !u.Engine.Life().Has(engine.StageClosing) {
		return upgrade.CloseNot
	}
	u.server.state.Lock()
	defer u.server.state.Unlock()
	if u.server.state.Engine != u.Engine { // Shutdown was called; the server may serve again
		return upgrade.CloseNow
	}
	return upgrade.CloseSoon
}

// Count implements upgrade.Server.
func (u *upgradeServer) Count(read, written int) { u.cfg.meter.transferred(read, written) }

// Printf implements upgrade.Server.
func (u *upgradeServer) Printf(format string, args ...any) { u.cfg.logger.Printf(format, args...) }

// Hijack makes handler take the connection over after the RequestHandler has
// returned and the response, if any, is written. The connection passed to
// handler first returns the bytes that the client sent after the request.
//
// handler is not called if the response could not be written. It is not called
// either if the request or the response closes the connection, unless
// HijackSetNoResponse(true) was called. Limits for further requests, such as
// DisableKeepalive, do not prevent the call; a Shutdown does with
// Server.CloseOnShutdown.
//
// handler may use ctx, without the connection, until it returns. Then Done is closed, and so are
// the user values that are io.Closers.
//
// The server forgets the connection, and Shutdown does not wait for it. If the
// handler did not read the request body, and it is too large to be discarded,
// the server closes the connection instead.
//
// From Hijack on, Done is not closed when the client ends its output: in another
// protocol, that may be half of the conversation only.
//
// Hijack has no effect, but for a line in the log, when the connection was given away already:
// by websocket.Endpoint.Upgrade and its like, or to a handler that writes the response. After
// Flush, the rest of the response comes first.
func (ctx *RequestCtx) Hijack(handler HijackHandler) {
	switch {
	case (ctx.takeover != nil || ctx.isSilent()) && handler != nil:
		ctx.warn(misuseHijack)
		return
	case ctx.exchange != nil && ctx.ProtoMajor() == 1:
		ctx.hijackWatched(handler)
		return
	}
	ctx.hijackHandler = handler
}

// hijackWatched is Hijack for HTTP/1.1, where the end of the client's output counts as its
// going away until then.
func (ctx *RequestCtx) hijackWatched(handler HijackHandler) {
	ctx.wire.Lock()
	defer ctx.wire.Unlock()
	ctx.hijackHandler = handler
	d := ctx.done.Load()
	switch {
	case d == nil || ctx.wire.isDetached.Load():
	case handler != nil:
		ctx.exchange.OnPeerGone(func() {})
	default:
		ctx.exchange.OnPeerGone(ctx.whenGone(d))
	}
}

// HijackSetNoResponse sets whether a hijacked connection is handed over without
// a response. If it is, the HijackHandler writes everything.
func (ctx *RequestCtx) HijackSetNoResponse(noResponse bool) { ctx.hijackNoResponse = noResponse }

// Hijacked reports whether Hijack was called.
func (ctx *RequestCtx) Hijacked() bool { return ctx.hijackHandler != nil }

// leaving is how the connection leaves HTTP after the response. The zero value is that it
// does not. The fields are touched in this file only.
type leaving struct {
	hijackHandler HijackHandler
	hijackDropped func()    // of OnHijackDropped
	takeover      *takeover // set by TakeOver
	peerGone      func()    // of OnPeerGone
}

// stay undoes Hijack and TakeOver.
func (l *leaving) stay() { l.hijackHandler, l.takeover, l.peerGone = nil, nil, nil }

// takeDropped returns what OnHijackDropped has set, once; nil: nothing.
func (l *leaving) takeDropped() func() {
	dropped := l.hijackDropped
	if dropped != nil {
		l.hijackDropped = nil
	}
	return dropped
}

// takeover is what TakeOver has arranged.
type takeover struct {
	upgrade.Takeover
	host upgrade.Host
}

// taker is a RequestCtx as packages of this module see it that take over connections.
type taker RequestCtx

// TakeOver implements upgrade.Taker. With HTTP/2 and HTTP/3 it gives the stream: that of an
// extended CONNECT (RFC 8441, RFC 9220) after the response, and others to protocols that write the body.
// Otherwise it returns ErrNotSupportedHTTP2. It returns ErrHeadSent after Flush,
// ErrTakenOver after TakeOver and Hijack, ErrServerClosed if the server does not serve, and
// ErrNilConnection outside a server and after TimeoutError.
func (t *taker) TakeOver(arranged upgrade.Takeover) error {
	ctx := (*RequestCtx)(t)
	switch {
	case ctx.leavesHTTP():
		return ErrTakenOver
	case ctx.isFlushed():
		return ErrHeadSent
	case ctx.LastTimeoutErrorResponse() != nil:
		return ErrNilConnection
	case arranged.NeedsTarget && !t.hasTarget(arranged.WritesBody):
		return errors.ErrUnsupported
	case arranged.Family == nil:
		return nil
	case ctx.server == nil || ctx.exchange == nil:
		return ErrNilConnection
	}
	isTunnel := len(ctx.Request.Header.ConnectProtocol()) > 0
	if ctx.ProtoMajor() > 1 && arranged.WritesBody == isTunnel {
		return ErrNotSupportedHTTP2
	}
	host := ctx.server.hostOf(arranged.Family, ctx.cfg)
	if host == nil {
		return ErrServerClosed
	}
	ctx.takeover = &takeover{Takeover: arranged, host: host}
	return nil
}

// hasTarget reports whether NeedsTarget is met. The request may have been given up meanwhile.
func (t *taker) hasTarget(writesBody bool) bool {
	t.wire.Lock()
	defer t.wire.Unlock()
	if t.exchange == nil || !t.exchange.HasTarget() {
		return false
	}
	return !writesBody || !t.server.closeRequested() && !t.requestStream.isUnread()
}

// OnHijackDropped implements upgrade.Taker.
func (t *taker) OnHijackDropped(f func()) {
	t.wire.Lock()
	isOver := t.exchange == nil
	if !isOver {
		t.hijackDropped = f
	}
	t.wire.Unlock()
	if isOver {
		f()
	}
}

// OnPeerGone implements upgrade.Taker.
func (t *taker) OnPeerGone(f func()) {
	ctx := (*RequestCtx)(t)
	ctx.wire.Lock()
	ctx.watchPeerLocked(f)
	ctx.wire.Unlock()
}

// watchPeerLocked is OnPeerGone with the wire locked. It reports whether the request goes on.
func (ctx *RequestCtx) watchPeerLocked(f func()) bool {
	if ctx.exchange == nil || ctx.wire.isDetached.Load() {
		return false
	}
	ctx.peerGone = f
	ctx.exchange.OnPeerGone(ctx.whenGone(ctx.done.Load()))
	return true
}

// Watch implements upgrade.Taker. It locks the wire once.
func (t *taker) Watch(gone func()) (holder engine.Holder, client netip.AddrPort) {
	ctx := (*RequestCtx)(t)
	ctx.wire.Lock()
	if ctx.watchPeerLocked(gone) {
		holder, client = ctx.peerLocked()
	}
	ctx.wire.Unlock()
	if !client.IsValid() {
		client = t.RemoteAddrPort()
	}
	return holder, client
}

// RemoteAddrPort implements upgrade.Taker.
func (t *taker) RemoteAddrPort() netip.AddrPort {
	ctx := (*RequestCtx)(t)
	ctx.wire.Lock()
	_, addr := ctx.peerLocked()
	ctx.wire.Unlock()
	if addr.IsValid() {
		return addr
	}
	if remote, ok := ctx.RemoteAddr().(interface{ AddrPort() netip.AddrPort }); ok { // of TCP and UDP
		return remote.AddrPort()
	}
	return netip.AddrPort{}
}

// peerLocked returns what may send for the handler, and what the connection says of the client, if
// it can without memory for it and SetRemoteAddr was not called. Otherwise client is not valid. The
// wire is locked.
func (ctx *RequestCtx) peerLocked() (holder engine.Holder, client netip.AddrPort) {
	if x, ok := ctx.exchange.(interface {
		Peer() (engine.Holder, netip.AddrPort)
	}); ok { // not HTTP/3
		holder, client = x.Peer()
	}
	if ctx.remoteAddr != nil {
		client = netip.AddrPort{}
	}
	return holder, client
}

// Kept implements upgrade.Taker.
func (t *taker) Kept() *any { return &t.kept }

// StopBody implements upgrade.Taker.
func (t *taker) StopBody() { t.requestStream.stop() }

// IsBodyForeign implements upgrade.Taker.
func (t *taker) IsBodyForeign() bool {
	ctx := (*RequestCtx)(t)
	return ctx.isSilent() || ctx.takeover != nil && ctx.takeover.WritesBody
}

// SendInterim implements upgrade.Taker.
func (t *taker) SendInterim(h *message.ResponseHeader) error {
	return (*RequestCtx)(t).sendInterim(h)
}

// RequestHead implements upgrade.Taker.
func (t *taker) RequestHead(h any) *message.RequestHeader { return &h.(*RequestHeader).m }

// ResponseHead implements upgrade.Taker.
func (t *taker) ResponseHead(h any) *message.ResponseHeader { return &h.(*ResponseHeader).m }

// whenGone returns what is called when the client disconnects: what OnPeerGone has set, and
// Cancel of d. Each may be nil.
func (l *leaving) whenGone(d *cancelState) func() {
	f := l.peerGone
	switch {
	case d == nil:
		return f
	case f == nil:
		return d.Cancel
	}
	return func() {
		f()
		d.Cancel()
	}
}

// nextUse returns what the connection is for after the response.
func (ctx *RequestCtx) nextUse() message.Use {
	switch {
	case ctx.takeover != nil && ctx.takeover.WritesBody:
		return message.UseNone
	case ctx.takeover != nil:
		return message.UseProtocol
	case ctx.hijackHandler != nil:
		return message.UseHijack
	case ctx.verb == verbConnect && ctx.Response.StatusCode()/100 == 2:
		return message.UseNone // the client expects a tunnel (RFC 9110 section 9.3.6)
	}
	return message.UseRequest
}

// leave returns how the connection leaves HTTP, or OutcomeResponse if it does not.
func (ctx *RequestCtx) leave() server.Outcome {
	if ctx.takeover != nil {
		ctx.settleTakeover()
	} else if ctx.isSilent() {
		ctx.dropBody()
	}
	switch {
	case ctx.hijackHandler != nil:
		ctx.cfg.retain()
		if ctx.hijackNoResponse && (!ctx.isFlushed() || ctx.form.Next == message.UseHijack) { // otherwise there is one
			return server.OutcomeSilent
		}
		return server.OutcomeHijack
	case ctx.takeover == nil:
		return server.OutcomeResponse
	case !ctx.takeover.WritesBody:
		return server.OutcomeTakeover
	case ctx.mayBeginBody():
		return server.OutcomeBody
	}
	return server.OutcomeResponse
}

// Decline implements server.Request.
func (r *servedRequest) Decline(status int) {
	if status == StatusNotImplemented && r.facts.Stream != 0 {
		r.cfg.logger.Printf("a request of HTTP/2 cannot be hijacked: %q", (*RequestCtx)(r).Path())
	}
	r.stay()
	if status != 0 && !(*RequestCtx)(r).isFlushed() {
		(*RequestCtx)(r).Error(StatusMessage(status), status)
	}
}

// Hijacker implements server.Request. The handler may use ctx, and what ends with the request
// ends after it. OnHijackDropped is for handlers that do not.
func (r *servedRequest) Hijacker() (handler func(net.Conn), drop func()) {
	ctx := (*RequestCtx)(r)
	own := ctx.hijackHandler
	if ctx.takeDropped() != nil {
		return own, func() {}
	}
	ctx.wire.Lock()
	ctx.phase = phaseHijacked
	ctx.wire.Unlock()
	return func(c net.Conn) {
		defer ctx.endHijack()
		own(c)
	}, ctx.endHijack
}

// endHijack ends the request of a hijack handler.
func (ctx *RequestCtx) endHijack() {
	ctx.wire.Lock()
	ctx.phase = phaseFlushed
	ctx.wire.Unlock()
	if d := ctx.done.Load(); d != nil {
		d.End()
	}
	ctx.letGo()
}

// Open implements server.Request.
func (r *servedRequest) Open(c engine.Conn, out []byte) (engine.Protocol, []byte) {
	r.hijackDropped = nil
	return r.takeover.Open(r.takeover.host, c, out)
}

// leavesHTTP reports whether the connection does not go on with HTTP after the response.
func (ctx *RequestCtx) leavesHTTP() bool { return ctx.hijackHandler != nil || ctx.takeover != nil }

// isTakenOver reports whether another protocol gets the connection after the response.
func (ctx *RequestCtx) isTakenOver() bool { return ctx.takeover != nil }

// isSilent reports whether a hijack handler writes the response.
func (ctx *RequestCtx) isSilent() bool { return ctx.hijackHandler != nil && ctx.hijackNoResponse }

// settleTakeover leaves the response to another protocol as that needs it: without a body.
// If the handler has replaced the response since TakeOver, the client gets that one.
func (ctx *RequestCtx) settleTakeover() {
	t, resp := ctx.takeover, &ctx.Response
	if !ctx.isFlushed() {
		status := resp.StatusCode()
		if !server.IsTunnelStatus(status) || t.Status != 0 && (status != t.Status || t.Name != "" && string(resp.Header.Peek(t.Name)) != t.Value) ||
			t.WritesBody && t.NeedsTarget && (resp.streamed() != nil || len(resp.bodyBytes()) > 0) {
			ctx.takeover = nil
			ctx.warn(misuseReplaced)
			return
		}
		switch {
		case t.WritesBody:
		case ctx.ProtoMajor() == 1 && ctx.cfg.Closing.Load(): // the connection ends with this response
			ctx.takeover = nil
			ctx.Error("the server shuts down", StatusServiceUnavailable)
			return
		default: // the connection ends, but with the other protocol
			resp.Header.ResetConnectionClose()
		}
	}
	ctx.dropBody()
}

// dropBody drops the body of a response that is not to have one.
func (ctx *RequestCtx) dropBody() {
	if resp := &ctx.Response; resp.streamed() != nil || len(resp.bodyBytes()) > 0 {
		resp.ResetBody()
		ctx.warn(misuseBody)
	}
}

// mayBeginBody reports whether another protocol can write the body of the response. It begins
// even after Shutdown, and ends in its own way: the client would take an empty body for a
// complete one.
func (ctx *RequestCtx) mayBeginBody() bool {
	return ctx.verb != verbHead && ctx.Response.StatusCode() == StatusOK && !ctx.requestStream.isUnread()
}

// BeginBody implements server.Request.
func (r *servedRequest) BeginBody() {
	ctx := (*RequestCtx)(r)
	if !ctx.isFlushed() {
		ctx.Response.Header.forgetFraming()
		ctx.flushHead()
	}
}
