package tcp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ascii"
)

// ErrNotUpgrade is wrapped by the error of Server.Upgrade for a request that does not ask
// for the protocol.
var ErrNotUpgrade = errors.New("sluice: the request does not ask for the protocol")

// Upgrade switches a connection of HTTP to a protocol of s, when the handler has returned:
// with 101, or over HTTP/2 with the stream of an extended CONNECT (RFC 8441). protocol is the
// name in the Upgrade field (RFC 9110 section 7.8), or in :protocol. The connection then has
// the callbacks, MaxBuffer, MaxPending and time-outs of s; its limits and its Shutdown are
// those of the sluice.Server. It keeps the engine that it has.
//
// A request that does not ask for protocol is answered with 426, an extended CONNECT for another
// one with 501, one that cannot be switched with 501 or 503, and the error says why. As websocket.Endpoint.Upgrade, it leaves the response
// as it is, and returns an error, after Flush, Hijack, TimeoutError and another Upgrade.
func (s *Server) Upgrade(ctx *sluice.RequestCtx, protocol string) error {
	if s.Handler == nil {
		return errNoHandler
	}
	if err := upgrade.TakeOver(ctx, upgrade.Takeover{}); err != nil {
		return err
	}
	if !asksFor(ctx, protocol) {
		if len(ctx.Request.Header.ConnectProtocol()) > 0 { // RFC 9220 section 3
			ctx.Error("the protocol of this endpoint is "+protocol, sluice.StatusNotImplemented)
			return fmt.Errorf("%w %s", ErrNotUpgrade, protocol)
		}
		ctx.Error("this is an endpoint of "+protocol, sluice.StatusUpgradeRequired)
		ctx.Response.Header.Set(sluice.HeaderConnection, "Upgrade")
		ctx.Response.Header.Set(sluice.HeaderUpgrade, protocol)
		return fmt.Errorf("%w %s", ErrNotUpgrade, protocol)
	}
	takeover := upgrade.Takeover{Family: family{s}, Status: sluice.StatusOK, Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
		c.SetReadDeadline(0, 0) // those of HTTP end
		c.SetWriteTimeout(0)
		p, _ := h.(*host).acceptor.Open(c)
		return p, out
	}}
	if ctx.ProtoMajor() == 1 {
		takeover.Status, takeover.Name, takeover.Value = sluice.StatusSwitchingProtocols, sluice.HeaderUpgrade, protocol
	}
	err := upgrade.TakeOver(ctx, takeover)
	switch {
	case errors.Is(err, sluice.ErrServerClosed):
		ctx.Error("the server shuts down", sluice.StatusServiceUnavailable)
		return err
	case err != nil:
		ctx.Error("this request cannot be switched", sluice.StatusNotImplemented)
		return err
	}
	ctx.Response.ResetBody()
	ctx.SetStatusCode(takeover.Status)
	if ctx.ProtoMajor() > 1 {
		return nil
	}
	ctx.Response.Header.Set(sluice.HeaderConnection, "Upgrade")
	ctx.Response.Header.Set(sluice.HeaderUpgrade, protocol)
	return nil
}

// asksFor reports whether a request asks for protocol.
func asksFor(ctx *sluice.RequestCtx, protocol string) bool {
	r := &ctx.Request.Header
	if ctx.ProtoMajor() > 1 {
		return strings.EqualFold(string(r.ConnectProtocol()), protocol)
	}
	return r.IsHTTP11() && lists(r, sluice.HeaderConnection, "upgrade") && lists(r, sluice.HeaderUpgrade, protocol)
}

// lists reports whether a field of that name, in any spelling, has a member.
func lists(h *sluice.RequestHeader, field, member string) bool {
	for _, list := range upgrade.Values(h.All(), field) {
		if ascii.HasMember(list, member) {
			return true
		}
	}
	return false
}

// family is the upgrade.Family of a Server.
type family struct{ server *Server }

// NewHost implements upgrade.Family.
func (f family) NewHost(s upgrade.Server) upgrade.Host {
	return &host{acceptor: acceptor{server: f.server, cfg: f.server.config(), upgraded: s}}
}

// Name implements upgrade.Family: the connections do not move to other processes.
func (f family) Name() string { return "" }

// A host has the upgraded connections of a Server on one engine.
type host struct{ acceptor acceptor }

// Wake implements upgrade.Host.
func (h *host) Wake(c engine.Conn, m engine.Memo) engine.Protocol { return h.acceptor.Wake(c, m) }

// Unpack implements upgrade.Host; it is never called.
func (h *host) Unpack(engine.Conn, []byte) engine.Protocol { return nil }
