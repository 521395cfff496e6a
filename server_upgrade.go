package sluice

import (
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
