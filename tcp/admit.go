package tcp

import (
	"net"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// acceptor is the engine.Acceptor of one Serve or ServeConn.
type acceptor struct {
	server *Server
	cfg    *config
	engine engine.Engine // of the connections; nil: that of upgraded
	// upgraded is the server of HTTP that the connections come from; nil: they do not.
	upgraded upgrade.Server
	// isSingle marks the acceptor of a ServeConn; failure then says why the
	// connection ended.
	isSingle bool
	failure  error
}

var (
	_ engine.Acceptor = (*acceptor)(nil)
	_ engine.Waker    = (*acceptor)(nil)
	_ engine.Hooker   = (*acceptor)(nil)
)

// Admit counts a connection against the limits; see engine.Acceptor.
func (a *acceptor) Admit(c net.Conn) (ok bool, refusal []byte) {
	g := &a.server.gauges
	if open := g.admitted.Add(1); a.cfg.maxConns > 0 && open > a.cfg.maxConns {
		a.refuse()
		return false, nil
	}
	if !a.server.perIP.Add(c, a.cfg.perIP) {
		a.refuse()
		return false, nil
	}
	g.accepted.Add(1)
	return true, nil
}

// Hooks tells engines of the PROXY protocol; see engine.Hooker.
func (a *acceptor) Hooks() engine.Hooks {
	s := a.server
	if s.ProxyProtocol == sluice.ProxyProtocolOff {
		return engine.Hooks{}
	}
	return engine.Hooks{Proxy: &engine.ProxyRule{
		Requires: s.ProxyProtocol == sluice.ProxyProtocolRequire,
		Trusted:  s.ProxyTrusted,
		Refused: func(_ net.Addr, err error) {
			s.gauges.refused.Add(1)
			a.fail(err)
		},
	}}
}

func (a *acceptor) refuse() {
	a.server.gauges.admitted.Add(-1)
	a.server.gauges.refused.Add(1)
	a.fail(ErrRefused)
}

// fail keeps err for ServeConn.
func (a *acceptor) fail(err error) {
	if a.isSingle {
		a.failure = err
	}
}

// Release uncounts a connection that Admit has counted; see engine.Acceptor.
func (a *acceptor) Release(c net.Conn) {
	a.server.gauges.admitted.Add(-1)
	a.server.perIP.Remove(c, a.cfg.perIP)
}

// AcceptError logs a failed Accept that the engine retries; see engine.Acceptor.
func (a *acceptor) AcceptError(err error) {
	a.cfg.logger.Printf("cannot accept a connection, trying again: %v", err)
}

// Open makes the state of a new connection; see engine.Acceptor. Prompted calls
// OnOpen, because OnOpen may block and may write.
func (a *acceptor) Open(conn engine.Conn) (engine.Protocol, []byte) {
	s := a.newSession(conn)
	if a.cfg.idleTimeout > 0 {
		conn.SetReadDeadline(clock.Nanos(), a.cfg.idleTimeout)
	}
	if a.cfg.writeTimeout > 0 {
		conn.SetWriteTimeout(a.cfg.writeTimeout)
	}
	if a.cfg.onClose != nil { // OnClose may read the addresses after the connection's end
		s.local, s.remote = conn.LocalAddr(), conn.RemoteAddr()
	}
	if a.cfg.onOpen != nil {
		s.phase, s.isOpened = phaseOpening, false
		conn.Prompter().Prompt()
	}
	return s, nil
}
