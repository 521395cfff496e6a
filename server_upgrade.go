package sluice

import (
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
	host := family.NewHost(&upgradeServer{server: s, cfg: cfg, engine: e, place: uint64(len(all))})
	grown := append(all[:len(all):len(all)], upgradeHost{Host: host, family: family, engine: e})
	hosts.all.Store(&grown)
	return host
}

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
func (u *upgradeServer) Cast(targets []engine.Target, frame []byte, missed func(engine.Target)) {
	u.engine.Cast(targets, frame, missed)
}

// CloseRequested implements upgrade.Server.
func (u *upgradeServer) CloseRequested() bool { return u.engine.CloseRequested() }

// Count implements upgrade.Server.
func (u *upgradeServer) Count(read, written int) {
	if m := u.cfg.meter; m != nil {
		countIn(m.BytesRead, read)
		countIn(m.BytesWritten, written)
	}
}

// Printf implements upgrade.Server.
func (u *upgradeServer) Printf(format string, args ...any) { u.cfg.logger.Printf(format, args...) }
