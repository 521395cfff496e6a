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
	engine.Leaver
	conn    engine.Conn
	cfg     *serverConfig
	handler ServeHandler
}

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
