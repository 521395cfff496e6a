package sluice

import (
	"net"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/upgrade"
)

// takeover is what TakeOver has arranged.
type takeover struct {
	upgrade.Takeover
	host upgrade.Host
}

// TakeOver gives the connection to another protocol after the response, or after the
// beginning of its body, when the handler has returned. It is for packages of this module, such as websocket:
// other packages cannot make its argument; see Hijack. With HTTP/2 it gives the stream: that
// of an extended CONNECT (RFC 8441) after the response, and others to protocols that write
// the body. Otherwise it returns ErrNotSupportedHTTP2. It returns ErrServerClosed if the
// server does not serve, and ErrNilConnection outside a server.
func (ctx *RequestCtx) TakeOver(t upgrade.Takeover) error {
	if ctx.server == nil || ctx.exchange == nil {
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
	if isTunnel {
		ctx.hijackHandler = ctx.takeover.serveStream(ctx.server.currentEngine(), ctx.cfg.logger)
	}
	return nil
}

// serveStream returns the HijackHandler that serves the protocol on a stream of HTTP/2. The
// engine treats the stream as a connection, which has a goroutine.
func (t *takeover) serveStream(e engine.Engine, logger Logger) HijackHandler {
	return func(stream net.Conn) {
		if e == nil { // the server shuts down
			stream.Close()
			return
		}
		_ = e.ServeConn(stream, nil, &streamAcceptor{takeover: t, logger: logger}) // the protocol is told of the error
	}
}

// A streamAcceptor is the Acceptor of one stream. The limits of connections do not apply to
// it, but to the connection that carries it.
type streamAcceptor struct {
	*takeover
	logger Logger
}

var _ engine.Waker = (*streamAcceptor)(nil)

// Open implements engine.Acceptor. What the protocol sends first is written here, because
// this is the stream's own goroutine.
func (a *streamAcceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	p, out := a.Takeover.Open(a.host, c, nil)
	if p != nil && len(out) > 0 {
		_, _ = c.NetConn().Write(out) // after an error, the next Read fails too
	}
	return p, nil
}

// Wake implements engine.Waker.
func (a *streamAcceptor) Wake(c engine.Conn, m engine.Memo) engine.Protocol { return a.host.Wake(c, m) }

// Admit implements engine.Acceptor.
func (a *streamAcceptor) Admit(net.Conn) (ok bool, refusal []byte) { return true, nil }

// Release implements engine.Acceptor.
func (a *streamAcceptor) Release(net.Conn) {}

// AcceptError implements engine.Acceptor; streams are not accepted by it.
func (a *streamAcceptor) AcceptError(err error) { a.logger.Printf("stream: %v", err) }

// leavesHTTP tells whether the connection does not go on with HTTP after the response.
func (ctx *RequestCtx) leavesHTTP() bool { return ctx.hijackHandler != nil || ctx.takeover != nil }
