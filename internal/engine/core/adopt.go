//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/compact"
	"github.com/sluicehttp/sluice/internal/engine/sock"
)

// Adopt implements engine.Adopter.
func (d *driver) Adopt(fd int, p engine.Parcel, a engine.Acceptor) error {
	var peer sock.Address
	at, err := originOf(fd, &peer, a)
	if len(p.TLS) > 0 && !compact.CanParse(p.TLS) {
		err = engine.ErrCompact
	}
	if err == nil {
		err = os.NewSyscallError("setnonblock", syscall.SetNonblock(fd, true))
	}
	if err == nil {
		p, err = p.For(a)
	}
	if err != nil {
		_ = syscall.Close(fd)
		return err
	}
	s, err := d.enterAdopting(at)
	if err != nil {
		clear(p.TLS)
		_ = syscall.Close(fd)
		return err
	}
	defer s.letGo()
	s.prepareConn(fd)
	s.arrive()
	if !d.start(fd, &peer, s, p) {
		s.depart()
		clear(p.TLS)
		_ = syscall.Close(fd)
		return engine.ErrShutdown
	}
	return nil
}

// AdoptConn implements engine.Engine. Connections that are not bare sockets go to
// the fallback engine.
func (d *driver) AdoptConn(nc net.Conn, p engine.Parcel, a engine.Acceptor) error {
	if fd := duplicateOf(nc); fd >= 0 {
		defer nc.Close() // removes it from Go's poller
		return d.Adopt(fd, p, a)
	}
	return d.fallback.AdoptConn(nc, p, a)
}

// duplicateOf returns another descriptor of a bare stream socket, or -1.
func duplicateOf(nc net.Conn) int {
	switch nc := nc.(type) {
	case *net.TCPConn:
	case *net.UnixConn:
		if addr := nc.LocalAddr(); addr == nil || addr.Network() != "unix" {
			return -1 // not a stream socket
		}
	default:
		return -1
	}
	control, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1
	}
	fd := -1
	_ = control.Control(func(old uintptr) { fd = sock.Duplicate(int(old)) })
	return fd
}

// adoptedOrigins is the maximum number of local addresses of adopted connections
// that get their own serving. More addresses mean that the sockets were dialled,
// each from another port. Such connections share a serving without an address.
const adoptedOrigins = 64

// enterAdopting returns the serving of the adopted connections of origin at. All
// connections of an origin share it.
func (d *driver) enterAdopting(at origin) (*serving, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.adopting[at] == nil && len(d.adopting) >= adoptedOrigins {
		at.port, at.name = 0, ""
	}
	if s := d.adopting[at]; s != nil && !d.life.Has(engine.StageShutDown) {
		s.holds.Add(1)
		return s, nil
	}
	s, err := d.enterLocked(&serving{driver: d, acceptor: at.acceptor, listener: at, network: at.network})
	if err != nil {
		return nil, err
	}
	if d.adopting == nil {
		d.adopting = make(map[origin]*serving)
	}
	d.adopting[at] = s
	return s, nil
}

// prepareConn sets the options that accepted connections inherit from their
// listener.
func (s *serving) prepareConn(fd int) {
	if s.network == "tcp" {
		_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		setProbes(fd, s.driver.options.KeepAlivePeriod)
	}
}

// setProbes sets the period of keep-alive probes. 0 changes nothing; a negative
// period turns them off.
func setProbes(fd int, period time.Duration) {
	set := func(level, option, value int) { _ = syscall.SetsockoptInt(fd, level, option, value) }
	if period > 0 {
		seconds := max(int(period/time.Second), 1)
		set(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, seconds)
		set(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, seconds)
	} else if period < 0 {
		set(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 0)
	}
}

// An origin describes where adopted connections were accepted: their acceptor, and
// the address of their listener, which is in another process.
type origin struct {
	net.Listener // nil
	acceptor     engine.Acceptor
	network      string
	port         uint16 // TCP
	name         string // unix
}

// originOf returns the origin of a connected socket, and its peer.
func originOf(fd int, peer *sock.Address, a engine.Acceptor) (origin, error) {
	var local sock.Address
	if errno := sock.PeerName(fd, peer); errno != 0 {
		return origin{}, os.NewSyscallError("getpeername", errno)
	}
	if errno := sock.LocalName(fd, &local); errno != 0 {
		return origin{}, os.NewSyscallError("getsockname", errno)
	}
	switch local.Family() {
	case syscall.AF_INET, syscall.AF_INET6:
		_, port, _ := local.IP()
		return origin{acceptor: a, network: "tcp", port: port}, nil
	case syscall.AF_UNIX:
		return origin{acceptor: a, network: "unix", name: local.UnixName()}, nil
	}
	return origin{}, os.NewSyscallError("getsockname", syscall.EAFNOSUPPORT)
}

// Addr implements net.Listener. For TCP, it is used after the connection's end,
// when its local address is no longer known.
func (o origin) Addr() net.Addr {
	if o.network == "unix" {
		return &net.UnixAddr{Name: o.name, Net: "unix"}
	}
	return &net.TCPAddr{IP: net.IPv6unspecified, Port: int(o.port)}
}
