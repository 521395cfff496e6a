//go:build linux && (amd64 || arm64)

package core

import (
	"net"
	"runtime"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"golang.org/x/sys/unix"
)

// A close that waits because of SO_LINGER does not hold the P: other connections
// are served meanwhile.
func TestLingeringClose(t *testing.T) {
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		if inputOf(c) == "close" {
			return append(out, make([]byte, 64<<10)...), engine.Close
		}
		return append(out, "answer"...), engine.Read
	}}
	for name, begin := range map[string]func(t *testing.T, d *driver, ln *net.TCPListener) net.Conn{
		"inherited": func(t *testing.T, _ *driver, ln *net.TCPListener) net.Conn { return slow(t, ln.Addr()) },
		"adopted": func(t *testing.T, d *driver, _ *net.TCPListener) net.Conn {
			other := listen(t)
			defer other.Close()
			c := slow(t, other.Addr())
			theirs, err := other.Accept()
			if err != nil {
				t.Fatal(err)
			}
			linger(t, theirs.(*net.TCPConn))
			if err := d.AdoptConn(theirs, engine.Parcel{}, a); err != nil {
				t.Fatal(err)
			}
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			ln := listen(t)
			if name == "inherited" {
				linger(t, ln)
			}
			d := serveOn(t, ln, a, engine.Options{Loops: 1})
			other := dial(t, ln)
			question(t, other)
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			c := begin(t, d, ln)
			if _, err := c.Write([]byte("close")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the connection is being closed", func() bool { return unsent(c) > 0 })
			question(t, other)
			if n := d.countOpen(); n != 2 {
				t.Errorf("%d connections are open: nothing was served while one was closed", n)
			}
		})
	}
}

// question asks for the answer of TestLingeringClose.
func question(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("ask")); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "answer")
}

// slow returns a client whose system takes little of what it is sent.
func slow(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 1) })
	}}
	c, err := dialer.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// linger has a socket's close wait for ten seconds.
func linger(t *testing.T, c syscall.Conn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		err := unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 10})
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// unsent is how many bytes c has received and not read.
func unsent(c net.Conn) (n int) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

// A listener that a duplicate's os.File.Fd has made blocking does not hold its
// loop in accept.
func TestBlockingListener(t *testing.T) {
	ln := listen(t)
	file, err := ln.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fd := file.Fd() // as os/exec calls it
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Fatalf("flags %#x, %v: the socket does not block", flags, err)
	}
	serveOn(t, ln, newEcho(), engine.Options{Loops: 1})
	for range 3 {
		c := dial(t, ln)
		ask(t, c, "one")
		ask(t, c, "two")
	}
}
