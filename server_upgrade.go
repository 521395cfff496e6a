package sluice

import (
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
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
	if !u.Engine.CloseRequested() {
		return upgrade.CloseNot
	}
	u.server.state.Lock()
	defer u.server.state.Unlock()
	if u.server.state.isShutDown {
		return upgrade.CloseNow
	}
	return upgrade.CloseSoon
}

// Count implements upgrade.Server.
func (u *upgradeServer) Count(read, written int) { u.cfg.meter.transferred(read, written) }

// Printf implements upgrade.Server.
func (u *upgradeServer) Printf(format string, args ...any) { u.cfg.logger.Printf(format, args...) }

// takeover is what takeOver has arranged.
type takeover struct {
	upgrade.Takeover
	host upgrade.Host
}

// taker is a RequestCtx as packages of this module see it that take over connections.
type taker RequestCtx

// TakeOver implements upgrade.Taker. With HTTP/2 it gives the stream: that of an extended
// CONNECT (RFC 8441) after the response, and others to protocols that write the body.
// Otherwise it returns ErrNotSupportedHTTP2. It returns ErrHeadSent after Flush,
// ErrTakenOver after TakeOver and Hijack, ErrServerClosed if the server does not serve, and
// ErrNilConnection outside a server and after TimeoutError.
func (t *taker) TakeOver(arranged upgrade.Takeover) error { return (*RequestCtx)(t).takeOver(arranged) }

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

// Decline implements server.Request.
func (r *servedRequest) Decline(status int) {
	r.hijackHandler, r.takeover = nil, nil
	if status != 0 && r.phase != phaseFlushed {
		(*RequestCtx)(r).Error(StatusMessage(status), status)
	}
}

// Hijacker implements server.Request. The handler is called.
func (r *servedRequest) Hijacker() func(net.Conn) {
	r.hijackDropped = nil
	return r.hijackHandler
}

// Open implements server.Request.
func (r *servedRequest) Open(c engine.Conn, out []byte) (engine.Protocol, []byte) {
	return r.takeover.Open(r.takeover.host, c, out)
}

func (ctx *RequestCtx) takeOver(t upgrade.Takeover) error {
	switch {
	case ctx.leavesHTTP():
		return ErrTakenOver
	case ctx.phase == phaseFlushed:
		return ErrHeadSent
	case ctx.timeoutResponse.Load() != nil:
		return ErrNilConnection
	case t.Family == nil:
		return nil
	case ctx.server == nil || ctx.exchange == nil:
		return ErrNilConnection
	}
	isTunnel := len(ctx.Request.Header.ConnectProtocol()) > 0
	if ctx.streamID != 0 && t.WritesBody == isTunnel {
		return ErrNotSupportedHTTP2
	}
	host := ctx.server.hostOf(t.Family, ctx.cfg)
	if host == nil {
		return ErrServerClosed
	}
	ctx.takeover = &takeover{Takeover: t, host: host}
	return nil
}

// leavesHTTP tells whether the connection does not go on with HTTP after the response.
func (ctx *RequestCtx) leavesHTTP() bool { return ctx.hijackHandler != nil || ctx.takeover != nil }

// isSilent tells whether a hijack handler writes the response.
func (ctx *RequestCtx) isSilent() bool { return ctx.hijackHandler != nil && ctx.hijackNoResponse }

// settleTakeover leaves the response to another protocol as that needs it: without a body.
// If the handler has replaced the response since takeOver, the client gets that one.
func (ctx *RequestCtx) settleTakeover() {
	t, resp := ctx.takeover, &ctx.Response
	if ctx.phase != phaseFlushed {
		status := resp.StatusCode()
		if !isTunnelStatus(status) || t.Status != 0 && (status != t.Status || t.Name != "" && string(resp.Header.Peek(t.Name)) != t.Value) {
			ctx.takeover = nil
			ctx.warn(misuseReplaced)
			return
		}
		switch {
		case t.WritesBody:
		case ctx.streamID == 0 && ctx.cfg.Closing.Load(): // the connection ends with this response
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

// mayBeginBody tells whether another protocol can write the body of the response.
func (ctx *RequestCtx) mayBeginBody() bool {
	return ctx.verb != verbHead && ctx.Response.StatusCode() == StatusOK && !ctx.requestStream.isUnread() && !ctx.server.closeRequested()
}

// BeginBody implements server.Request.
func (r *servedRequest) BeginBody() {
	ctx := (*RequestCtx)(r)
	if ctx.phase != phaseFlushed {
		ctx.Response.Header.forgetFraming()
		ctx.flushHead()
	}
}
