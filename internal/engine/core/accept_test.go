//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"golang.org/x/sys/unix"
)

// Without descriptors there are no connections, but there is no busy loop and no
// end either: they are accepted as soon as there are descriptors again.
func TestOutOfDescriptors(t *testing.T) {
	ln, a := listen(t), newEcho()
	serveOn(t, ln, a, engine.Options{})
	ask(t, dial(t, ln), "before")
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	// The client's socket is the last one that there is a number for.
	probe, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(probe.Fd())
	low := limit
	low.Cur = next + 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Skip("cannot lower the limit:", err)
	}
	restore := func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }
	defer restore()
	_ = probe.Close()
	c := dial(t, ln)
	if err := <-a.errors; !errors.Is(err, syscall.EMFILE) {
		t.Errorf("AcceptError(%v), want EMFILE", err)
	}
	restore()
	ask(t, c, "after")
}

// A duplicate of the listening socket can make it blocking: os/exec does that with the
// files that it passes on. The loop serves its connections nevertheless.
func TestListenerMadeBlocking(t *testing.T) {
	ln := listen(t)
	serveOn(t, ln, newEcho(), engine.Options{Loops: 1})
	first := dial(t, ln)
	ask(t, first, "before")
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.Fd()
	ask(t, dial(t, ln), "accepted")
	ask(t, first, "after")
	if flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Fatalf("flags %#x, %v: Fd does not make it blocking any more", flags, err)
	}
	ask(t, dial(t, ln), "accepted")
	ask(t, first, "after")
}

// An uncomparableListener cannot be compared with ==.
type uncomparableListener struct {
	net.Listener
	_ []int
}

func TestStopAcceptingUncomparable(t *testing.T) {
	inner := listen(t)
	ln := uncomparableListener{Listener: inner}
	d := serveOn(t, ln, newEcho(), engine.Options{})
	ask(t, dial(t, inner), "x")
	d.StopAccepting(ln) // its caller closes the listener, which ends this Serve
}

// A connection from a listener of another kind is taken over: its descriptor is
// ours, and Go's poller knows it no longer.
func TestTakeOver(t *testing.T) {
	inner, a := listen(t), newEcho()
	wrapped := &countingListener{Listener: inner}
	d := serveOn(t, wrapped, a, engine.Options{})
	c := dial(t, inner)
	ask(t, c, "hello")
	if n := d.countOpen(); n != 1 {
		t.Errorf("the engine has %d connections of its own, want 1", n)
	}
	eventually(t, "the listener's object is closed", func() bool {
		return errors.Is(wrapped.last.SetDeadline(time.Time{}), net.ErrClosed)
	})
	ask(t, c, "still there")
	want := c.LocalAddr().String()
	_ = c.Close()
	if got := (<-a.released).String(); got != want {
		t.Errorf("Release got %v, want %v", got, want)
	}
}

// countingListener keeps what it accepted last.
type countingListener struct {
	net.Listener
	last net.Conn
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.last = c
	}
	return c, err
}

func TestAdopt(t *testing.T) {
	ln, a := listen(t), newEcho()
	d := serveOn(t, ln, a, engine.Options{})
	other := listen(t)
	defer other.Close()
	for _, leftover := range []string{"", "left over"} {
		c := dial(t, other)
		theirs, err := other.Accept()
		if err != nil {
			t.Fatal(err)
		}
		file, err := theirs.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Dup(int(file.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
		_ = theirs.Close()
		if err := d.Adopt(fd, engine.Parcel{Leftover: []byte(leftover)}, a); err != nil {
			t.Fatal(err)
		}
		expect(t, c, leftover)
		ask(t, c, "and more")
		_ = c.Close()
	}
	eventually(t, "adopted connections end", func() bool { return d.countOpen() == 0 })
	if all := *d.servings.Load(); len(all) != 2 || all[1] != nil {
		t.Errorf("%d servings are left", len(all))
	}
	if err := d.Adopt(-1, engine.Parcel{}, a); err == nil {
		t.Error("adopted descriptor -1")
	}
}

func TestAdoptAfterShutdown(t *testing.T) {
	ln, a := listen(t), newEcho()
	d := serveOn(t, ln, a, engine.Options{})
	d.life.Reach(engine.StageShutDown)
	defer d.life.Store(uint32(engine.StageServing))
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	if err := d.Adopt(pair[0], engine.Parcel{}, a); !errors.Is(err, engine.ErrShutdown) {
		t.Errorf("Adopt: %v, want ErrShutdown", err)
	}
	if n, err := syscall.Read(pair[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the descriptor was not closed: %d, %v", n, err)
	}
}

// A connection that was accepted before Shutdown, and is to be started after it,
// does not count: Shutdown would wait for it.
func TestStartAfterShutdown(t *testing.T) {
	d := swept()
	d.emptied = make(chan struct{}, 1)
	d.life.Reach(engine.StageShutDown)
	if d.start(5, &sock.Address{}, nil, engine.Parcel{}) || d.countOpen() != 0 || d.table.find(5).chunk != nil {
		t.Errorf("it is started; %d connections", d.countOpen())
	}
}

// A hooked acceptor has hooks.
type hooked struct {
	*echoAcceptor
	hooks engine.Hooks
}

// Hooks implements engine.Hooker.
func (h *hooked) Hooks() engine.Hooks { return h.hooks }

// A connection that has arrived when Shutdown begins departs: an adopted one is
// closed, and the fallback engine gets one that was to be taken over.
func TestShutdownBetweenArrivalAndStart(t *testing.T) {
	var served atomic.Pointer[driver]
	var arrived, departed atomic.Int32
	ln, a := listen(t), &hooked{echoAcceptor: newEcho()}
	a.hooks.Arrived = func() {
		if arrived.Add(1) == 1 {
			served.Load().life.Reach(engine.StageShutDown)
		}
	}
	a.hooks.Departed = func() { departed.Add(1) }
	d := serveOn(t, struct{ net.Listener }{ln}, a, engine.Options{})
	served.Store(d)
	defer d.life.Store(uint32(engine.StageServing))
	c := dial(t, ln)
	ask(t, c, "x")
	_ = c.(*net.TCPConn).CloseWrite()
	if n, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("taken over: a descriptor is left open: %d, %v", n, err)
	}
	eventually(t, "it departs from both engines", func() bool { return departed.Load() == 2 && arrived.Load() == 2 })
	if n := d.countOpen(); n != 0 {
		t.Errorf("taken over: %d are open", n)
	}

	d.life.Store(uint32(engine.StageServing))
	arrived.Store(0)
	departed.Store(0)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	if err := d.Adopt(pair[0], engine.Parcel{}, a); err != engine.ErrShutdown {
		t.Errorf("Adopt: %v, want ErrShutdown", err)
	}
	if n, err := syscall.Read(pair[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the descriptor was not closed: %d, %v", n, err)
	}
	if departed.Load() != 1 || d.countOpen() != 0 {
		t.Errorf("adopted: %d departed, %d are open", departed.Load(), d.countOpen())
	}
}

// Connections have the options that package net gives its own, from the first
// one on, and the keep-alive probes that the engine is asked for.
func TestSocketOptions(t *testing.T) {
	ln, a := listen(t), newEcho()
	early := dial(t, ln) // accepted later than the options are set
	d := serveOn(t, ln, a, engine.Options{KeepAlivePeriod: 42 * time.Second})
	ask(t, early, "early")
	late := dial(t, ln)
	ask(t, late, "late")
	option := func(fd, level, name int) int {
		value, err := syscall.GetsockoptInt(fd, level, name)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	d.table.each(func(fd int, p place) {
		if option(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY) == 0 {
			t.Error("TCP_NODELAY is off")
		}
		if p.slot().remote().Port() != uint16(late.LocalAddr().(*net.TCPAddr).Port) {
			return
		}
		if option(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE) == 0 || option(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE) != 42 {
			t.Error("no keep-alive probes every 42 s")
		}
	})
}

// Without a period connections have the probes of the listening socket: none.
func TestNoProbes(t *testing.T) {
	config := net.ListenConfig{KeepAlive: -1}
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := serveOn(t, ln, newEcho(), engine.Options{})
	ask(t, dial(t, ln), "x")
	d.table.each(func(fd int, p place) {
		if value, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); err != nil || value != 0 {
			t.Errorf("SO_KEEPALIVE is %d, %v", value, err)
		}
	})
}

// A connection that was accepted before Shutdown gave up, and comes into the
// table after that, is closed like the others.
func TestLateConnectionIsKilled(t *testing.T) {
	d := swept()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[0])
	defer syscall.Close(pair[1])
	d.life.Reach(engine.StageKilling)
	d.loops[0].prepare(pair[0], &sock.Address{}, &serving{driver: d, users: make([]tally, 1)}, engine.Parcel{})
	if n, err := syscall.Read(pair[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("its peer does not see the end: %d, %v", n, err)
	}
	if !d.table.find(pair[0]).slot().has(flagKill) {
		t.Error("its worker is not told to end it")
	}
}
