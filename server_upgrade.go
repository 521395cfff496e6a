package sluice

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/upgrade"
)

// upgradeHosts are the Hosts of the protocols that have followed HTTP/1.1 on connections
// of a Server. A Memo names one by its place. The zero value is empty.
type upgradeHosts struct {
	mu  sync.Mutex // held to add
	all atomic.Pointer[[]upgradeHost]

	named map[string]upgrade.Family // that may take over connections, by Name
}

type upgradeHost struct {
	upgrade.Host
	family upgrade.Family
	engine engine.Engine
}

// hostOf returns the Host of family on the Server's engine, and makes it if there is none.
// It returns nil if the Server does not serve, or has too many Hosts.
func (s *Server) hostOf(family upgrade.Family, cfg *serverConfig) upgrade.Host {
	e := s.currentEngine()
	if e == nil {
		return nil
	}
	hosts := &s.upgrades
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	var all []upgradeHost
	if p := hosts.all.Load(); p != nil {
		all = *p
	}
	for i := range all {
		if all[i].family == family && all[i].engine == e {
			return all[i].Host
		}
	}
	if len(all) == upgrade.MaxHosts {
		return nil
	}
	cfg.retain()
	host := family.NewHost(&upgradeServer{
		server: s, cfg: cfg, engine: e, place: uint64(len(all)),
		isRegistered: family.Name() != "" && hosts.named[family.Name()] == family,
	})
	grown := append(all[:len(all):len(all)], upgradeHost{Host: host, family: family, engine: e})
	hosts.all.Store(&grown)
	return host
}

// RegisterTakeover lets s take over connections of a family that another server hands
// over; see ServerControl.HandOver. Like TakeOver, it is for packages of this module:
// websocket.Endpoint.Register calls it. It must be called before s serves. The error says
// that the family has no name, or that another one has it.
func (s *Server) RegisterTakeover(family upgrade.Family) error {
	hosts := &s.upgrades
	hosts.mu.Lock()
	defer hosts.mu.Unlock()
	name := family.Name()
	if other := hosts.named[name]; name == "" || len(name) > upgrade.MaxName || other != nil && other != family {
		return fmt.Errorf("sluice: %q cannot be the name of a kind of connection: it is empty, too long, or taken", name)
	}
	if hosts.named == nil {
		hosts.named = map[string]upgrade.Family{}
	}
	hosts.named[name] = family
	return nil
}

// families returns the registered families.
func (s *Server) families() (all []upgrade.Family) {
	s.upgrades.mu.Lock()
	defer s.upgrades.mu.Unlock()
	for _, f := range s.upgrades.named {
		all = append(all, f)
	}
	return all
}

// unpackUpgraded is Unpack for a connection of a family.
func (a *acceptor) unpackUpgraded(conn engine.Conn, state upgrade.State) (engine.Protocol, []byte) {
	a.server.upgrades.mu.Lock()
	family := a.server.upgrades.named[state.Name]
	a.server.upgrades.mu.Unlock()
	if family == nil {
		a.cfg.logger.Printf("connection from %s closed: %q is not registered", conn.RemoteAddr(), state.Name)
	} else if host := a.server.hostOf(family, a.cfg); host != nil { // nil: the server shuts down
		if p := host.Unpack(conn, state.Own); p != nil {
			return p, nil
		}
	}
	return nil, []byte(state.Farewell)
}

// hasUpgrades tells whether connections have left HTTP/1.1 for another protocol.
func (s *Server) hasUpgrades() bool { return s.upgrades.all.Load() != nil }

// wakeUpgraded returns the Protocol that has left m.
func (s *Server) wakeUpgraded(conn engine.Conn, m engine.Memo) engine.Protocol {
	place := m.Served >> (memoShift + upgrade.MemoBits)
	return (*s.upgrades.all.Load())[place].Wake(conn, m)
}

// upgradeServer is the Server for the connections of one upgradeHost.
type upgradeServer struct {
	server *Server
	cfg    *serverConfig
	engine engine.Engine
	place  uint64

	isRegistered bool
}

var _ upgrade.Server = (*upgradeServer)(nil)

// Memo implements upgrade.Server.
func (u *upgradeServer) Memo(id, served uint64, opened int64) engine.Memo {
	const mask = 1<<upgrade.MemoBits - 1
	return engine.Memo{ID: id, Served: (u.place<<upgrade.MemoBits|served&mask)<<memoShift | memoUpgraded, Opened: opened}
}

// Served implements upgrade.Server.
func (u *upgradeServer) Served(m engine.Memo) uint64 {
	return m.Served >> memoShift & (1<<upgrade.MemoBits - 1)
}

// Prompt implements upgrade.Server.
func (u *upgradeServer) Prompt(t engine.Target) { u.engine.Prompt(t) }

// Cast implements upgrade.Server.
func (u *upgradeServer) Cast(targets []engine.Target, frame []byte, missed func(i int)) {
	u.engine.Cast(targets, frame, missed)
}

// Closing implements upgrade.Server.
func (u *upgradeServer) Closing() upgrade.Closing {
	if !u.engine.CloseRequested() {
		return upgrade.CloseNot
	}
	u.server.mu.Lock()
	defer u.server.mu.Unlock()
	if u.server.state.isShutDown {
		return upgrade.CloseNow
	}
	return upgrade.CloseSoon
}

// IsRegistered implements upgrade.Server.
func (u *upgradeServer) IsRegistered() bool { return u.isRegistered }

// Count implements upgrade.Server.
func (u *upgradeServer) Count(read, written int) {
	if m := u.cfg.meter; m != nil {
		countIn(m.BytesRead, read)
		countIn(m.BytesWritten, written)
	}
}

// Printf implements upgrade.Server.
func (u *upgradeServer) Printf(format string, args ...any) { u.cfg.logger.Printf(format, args...) }
