package sluice

import "github.com/sluicehttp/sluice/internal/upgrade"

// takeover is what TakeOver has arranged.
type takeover struct {
	upgrade.Takeover
	host upgrade.Host
}

// TakeOver gives the connection to another protocol after the response, which must be
// complete when the handler returns. It is for packages of this module, such as websocket:
// other packages cannot make its argument; see Hijack. It returns ErrNotSupportedHTTP2 with
// HTTP/2, ErrServerClosed if the server does not serve, and ErrNilConnection outside a
// server.
func (ctx *RequestCtx) TakeOver(t upgrade.Takeover) error {
	if ctx.server == nil || ctx.exchange == nil {
		return ErrNilConnection
	}
	if ctx.streamID != 0 {
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
