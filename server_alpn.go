package sluice

import (
	"net"
	"runtime/debug"

	"github.com/sluicehttp/sluice/internal/engine"
)

// alpnConn is the engine.Protocol of a connection that negotiated another
// protocol than HTTP/1.1. It passes the connection to its ServeHandler before
// anything is read.
type alpnConn struct {
	conn    engine.Conn
	cfg     *serverConfig
	handler ServeHandler
}

// Capabilities implements engine.Protocol.
func (a *alpnConn) Capabilities() engine.Capabilities { return engine.CanStart }

// Start implements engine.Starter.
func (a *alpnConn) Start() engine.Next { return engine.Detach }

// Feed implements engine.Protocol; nothing is fed before Detached.
func (a *alpnConn) Feed([]byte) (int, engine.Next) { return 0, engine.Detach }

// Run implements engine.Protocol; there is nothing to run.
func (a *alpnConn) Run(out []byte) ([]byte, engine.Next) { return out, engine.Detach }

// Pause implements engine.Protocol.
func (a *alpnConn) Pause() bool { return false }

// HalfClosed implements engine.Protocol.
func (a *alpnConn) HalfClosed(out []byte) []byte { return out }

// TimedOut implements engine.Protocol.
func (a *alpnConn) TimedOut(out []byte) ([]byte, engine.Next) { return out, engine.Abort }

// Detached runs the ServeHandler.
func (a *alpnConn) Detached(conn net.Conn) {
	defer func() {
		if v := recover(); v != nil {
			a.cfg.logger.Printf("panic in protocol handler: %v\n%s", v, debug.Stack())
		}
		conn.Close()
	}()
	if err := a.handler(conn); err != nil {
		a.cfg.fail(err)
		a.cfg.logConnError(a.conn, err)
	}
}

// Closed implements engine.Protocol.
func (a *alpnConn) Closed(err error) {
	a.cfg.tellState(a.conn, StateClosed)
	if err != nil {
		a.cfg.logConnError(a.conn, err)
	}
}
