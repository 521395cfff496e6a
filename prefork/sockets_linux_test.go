package prefork

import (
	"bufio"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A port that the system chose stays reserved until the workers have it.
func TestChosenPortIsKept(t *testing.T) {
	s, err := (&Prefork{Network: "tcp4"}).newSockets("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.probe(); err != nil {
		t.Fatal(err)
	}
	addr := s.endpoints[0].address
	isTaken := func() bool {
		ln, err := net.Listen("tcp4", addr)
		if err == nil {
			ln.Close()
		}
		return errors.Is(err, syscall.EADDRINUSE)
	}
	if !isTaken() {
		t.Error("another can take the port after the probe")
	}
	for slot := range 2 {
		files, err := s.open(slot)
		if err != nil {
			t.Fatal(err)
		}
		defer files[0].Close()
	}
	if got := s.addresses(); len(got) != 1 || got[0].String() != addr {
		t.Errorf("slots listen on %v, and %s was found", got, addr)
	}
	s.close()
	if !isTaken() {
		t.Error("the slots' sockets are gone")
	}
	unused, err := (&Prefork{Network: "tcp4"}).newSockets("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := unused.probe(); err != nil {
		t.Fatal(err)
	}
	addr = unused.endpoints[0].address
	if unused.close(); isTaken() {
		t.Error("a socket that no slot has taken is left open")
	}
}

// A port that another process has is an error, and no socket stays open.
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := (&Prefork{Network: "tcp4", Listen: []string{taken.Addr().String()}}).newSockets("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.probe(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("probe: %v", err)
	}
	if files, err := s.open(0); !errors.Is(err, syscall.EADDRINUSE) || len(files) > 0 || len(s.addresses()) > 0 {
		t.Errorf("open: %d files, %v, %v", len(files), s.addresses(), err)
	}
	s.close()
}

// A unix socket never has a wider mode than configured, from the moment its path
// exists.
func TestUnixSocketIsMadeWithItsMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o620, 0o700} {
		path := filepath.Join(t.TempDir(), "socket")
		ln, err := listenUnix(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm()&^mode != 0 {
			t.Errorf("wanted %v, got %v, %v", mode, info.Mode(), err)
		}
		ln.Close()
		s := &sockets{endpoints: []endpoint{{"unix", path}}, unix: make([]*os.File, 1), kept: make([]net.Listener, 1), mode: mode}
		files, err := s.open(0)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("wanted %v, got %v, %v", mode, info.Mode(), err)
		}
		s.letGo()
		if _, err := s.open(1); err == nil {
			t.Error("a socket after the end")
		}
		files[0].Close()
		if _, err := net.Dial("unix", path); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the socket is still open: %v", err)
		}
		s.close()
		if !s.mu.TryLock() {
			t.Error("close leaves the sockets locked")
		}
	}
}

// While requests finish at the end, a unix socket refuses new connections as TCP
// does.
func TestUnixSocketRefusesDuringStop(t *testing.T) {
	dir := t.TempDir()
	path, gate := filepath.Join(dir, "socket"), filepath.Join(dir, "gate")
	f := start(t, setup{Workers: 2, Addr: unixPrefix + path, Listen: []string{"127.0.0.1:0"}, Grace: 2 * patience}, true)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	answered := make(chan error, 1)
	go func() {
		_, _, err := ask(c, r, "/gate?file="+gate)
		answered <- err
	}()
	until(t, "it is in hand", func() bool { return statusAt(t, "tcp", f.addr(1)).Total.InFlight >= 1 })
	f.signal(syscall.SIGTERM)
	until(t, "the socket refuses", func() bool {
		other, err := net.Dial("unix", path)
		if err == nil {
			other.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	open(t, gate)
	if err := <-answered; err != nil {
		t.Errorf("the request in hand: %v", err)
	}
	if status := f.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// A file that is not a listening socket is not duplicated, and a socket of another
// type does not count as stale.
func TestOtherSockets(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if f, err := duplicate(null); err == nil || f != nil {
		t.Errorf("a duplicate of %s: %v, %v", os.DevNull, f, err)
	}
	path := filepath.Join(t.TempDir(), "socket")
	packets, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	if ln, err := listenUnix(path, 0o600); !errors.Is(err, syscall.EPROTOTYPE) || ln != nil {
		t.Errorf("beside a socket for packets: %v, %v", ln, err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket for packets: %v", err)
	}
	missing := filepath.Join(path, "x")
	if ln, err := listenUnix(missing, 0); err == nil || ln != nil {
		t.Errorf("below a socket: %v, %v", ln, err)
	}
}
