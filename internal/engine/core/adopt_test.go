//go:build linux && (amd64 || arm64)

package core

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Adopted connections of one origin share what stands for their listener, which
// goes with the last one, and tells their address when they have ended.
func TestAdoptedOrigin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, address := range [][2]string{{"tcp", "127.0.0.1:0"}, {"tcp", "[::1]:0"}, {"unix", path}, {"unix", "@sluice-" + t.Name()}} {
		ln, err := net.Listen(address[0], address[1])
		if err != nil {
			t.Logf("cannot listen on %v: %v", address, err)
			continue
		}
		a := newEcho()
		d := serveOn(t, listen(t), a, engine.Options{})
		var peers []net.Conn
		var views []net.Addr
		for range 3 {
			peer, err := net.Dial(address[0], ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			end, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if err := d.AdoptConn(end, engine.Parcel{}, a); err != nil {
				t.Fatal(err)
			}
			ask(t, peer, "x")
			peers = append(peers, peer)
		}
		if n := origins(d); n != 1 {
			t.Errorf("%v: %d origins", address, n)
		}
		var kept *netConn
		d.Range(func(c engine.Conn) bool {
			kept = c.NetConn().(*netConn)
			views = append(views, kept.LocalAddr())
			return true
		})
		for _, view := range views {
			if view.Network() != ln.Addr().Network() || view.String() != ln.Addr().String() {
				t.Errorf("LocalAddr is %v, want %v", view, ln.Addr())
			}
		}
		for _, peer := range peers {
			_ = peer.Close()
		}
		eventually(t, "the origin is forgotten", func() bool {
			return origins(d) == 0
		})
		if got := kept.LocalAddr(); got.Network() != ln.Addr().Network() || address[0] == "unix" && got.String() != ln.Addr().String() {
			t.Errorf("LocalAddr after the end is %s %v", got.Network(), got)
		}
		_ = ln.Close()
	}
}

// Sockets that were dialled have a port each, and not a serving each.
func TestAdoptDialled(t *testing.T) {
	a := newEcho()
	d := serveOn(t, listen(t), a, engine.Options{})
	other := listen(t)
	defer other.Close()
	var peers []net.Conn
	for range 2 * adoptedOrigins {
		c := dial(t, other)
		peer, err := other.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := d.AdoptConn(c, engine.Parcel{}, a); err != nil {
			t.Fatal(err)
		}
		ask(t, peer, "x")
		peers = append(peers, peer)
	}
	if n := origins(d); n != adoptedOrigins+1 {
		t.Errorf("%d origins, want %d", n, adoptedOrigins+1)
	}
	for _, peer := range peers {
		_ = peer.Close()
	}
	eventually(t, "the origins are forgotten", func() bool {
		return origins(d) == 0
	})
}

// What cannot be served is closed, with an error.
func TestAdoptRefuses(t *testing.T) {
	a := newEcho()
	d := serveOn(t, listen(t), a, engine.Options{})
	socket := func(family, kind int) int {
		fd, err := syscall.Socket(family, kind|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	for name, c := range map[string]struct {
		fd   int
		call string
		want syscall.Errno
	}{
		"not connected":      {socket(syscall.AF_INET, syscall.SOCK_STREAM), "getpeername", syscall.ENOTCONN},
		"not of the network": {socket(syscall.AF_NETLINK, syscall.SOCK_RAW), "getsockname", syscall.EAFNOSUPPORT},
		"not open":           {1 << 20, "getpeername", syscall.EBADF},
	} {
		fd := c.fd
		var before, after syscall.Stat_t
		_ = syscall.Fstat(fd, &before)
		var failed *os.SyscallError
		if err := d.Adopt(fd, engine.Parcel{}, a); !errors.As(err, &failed) || failed.Syscall != c.call || failed.Err != c.want {
			t.Errorf("%s: %v", name, err)
		}
		// Another goroutine may have been given the number since.
		if err := syscall.Fstat(fd, &after); err != syscall.EBADF && (err != nil || after.Ino == before.Ino) {
			t.Errorf("%s: left open (%v)", name, err)
		}
	}
	if n := origins(d); n != 0 {
		t.Errorf("%d origins are left", n)
	}
	if n := d.countOpen(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// A connection that was given away probes its peer as it did before, and an
// adopted one as the engine's options say.
func TestHandOverKeepsProbes(t *testing.T) {
	probes := func(c net.Conn) (on int) {
		control, err := c.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = control.Control(func(fd uintptr) {
			on, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		})
		if err != nil {
			t.Fatal(err)
		}
		return on
	}
	for _, period := range []time.Duration{-1, time.Minute, -1} {
		ln, a := listen(t), newEcho()
		d := serveOn(t, ln, a, engine.Options{KeepAlivePeriod: period})
		c := dial(t, ln)
		for _, text := range []string{"accepted", "adopted"} {
			ask(t, c, text)
			var given net.Conn
			eventually(t, "given away", func() bool {
				return d.DetachIdle(-1, func(c net.Conn, _ engine.Parcel) { given = c }) == 1
			})
			if on := probes(given); (on != 0) != (period > 0) {
				t.Errorf("period %v, %s: SO_KEEPALIVE is %d", period, text, on)
			}
			if err := given.(*net.TCPConn).SetKeepAlive(period < 0); err != nil {
				t.Fatal(err)
			}
			if err := d.AdoptConn(given, engine.Parcel{}, a); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// origins returns how many addresses have a serving of adopted connections.
func origins(d *driver) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.adopting)
}

// A serving stays while a connection of any loop has it, and no longer.
func TestServingOfSeveralLoops(t *testing.T) {
	d := serveOn(t, listen(t), newEcho(), engine.Options{Loops: 3})
	s, err := d.enter(&serving{driver: d, acceptor: newEcho()})
	if err != nil {
		t.Fatal(err)
	}
	isThere := func() bool { return d.servingAt(s.index) == s }
	for _, l := range d.loops[:2] {
		s.users[l.index].count.Add(1)
	}
	s.leave(d.loops[0])
	s.users[0].count.Add(1)
	s.letGo()
	s.leave(d.loops[0])
	if !isThere() {
		t.Fatal("it is gone before its last connection")
	}
	s.leave(d.loops[1])
	if isThere() {
		t.Error("it was not dropped")
	}
}

// The keys of a connection that ends before it is opened are overwritten.
func TestParcelOfEndedConnection(t *testing.T) {
	ln := listen(t)
	d := serveOn(t, ln, newEcho(), engine.Options{})
	c := dial(t, ln)
	ask(t, c, "hello")
	keys := []byte("some keys")
	d.table.each(func(fd int, p place) {
		d.keepParcel(fd, generation(p.slot().word.Load()), engine.Parcel{TLS: keys})
	})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", func() bool { return d.countOpen() == 0 })
	if n := d.parcels.count.Load(); n != 0 || !bytes.Equal(keys, make([]byte, len(keys))) {
		t.Errorf("%d parcels, and %q", n, keys)
	}
}
