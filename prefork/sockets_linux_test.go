package prefork

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A port that the system chose stays reserved until the workers have it.
func TestChosenPortIsKept(t *testing.T) {
	s, err := (&Prefork{Network: "tcp4"}).newSockets("127.0.0.1:")
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
	var taken []*os.File
	for slot := range 2 {
		files, err := s.open(slot)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, files...)
	}
	if got := s.addresses(); len(got) != 1 || got[0].String() != addr {
		t.Errorf("slots listen on %v, and %s was found", got, addr)
	}
	s.close()
	if !isTaken() {
		t.Error("the slots' sockets are gone")
	}
	for _, f := range taken {
		f.Close()
	}
	if isTaken() {
		t.Error("a slot has more than its file")
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
	files, err := unused.open(0) // a new one
	if err != nil {
		t.Fatal(err)
	}
	files[0].Close()
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
	ln, err := net.Listen("tcp4", s.endpoints[0].address)
	if err != nil {
		t.Fatalf("the first socket stays open: %v", err)
	}
	ln.Close()
	s.close()
}

// A unix socket never has a wider mode than configured, from the moment its path
// exists.
func TestUnixSocketIsMadeWithItsMode(t *testing.T) {
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	for _, mode := range []fs.FileMode{0o600, 0o620, 0o700, 0} {
		want := mode
		if mode == 0 {
			want = 0o777 &^ fs.FileMode(umask)
		}
		path := filepath.Join(t.TempDir(), "socket")
		ln, err := listenUnix(path, mode)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm()&^want != 0 {
			t.Errorf("wanted %v, got %v, %v", mode, info.Mode(), err)
		}
		ln.Close()
		s := &sockets{endpoints: []endpoint{{"unix", path}}, unix: make([]*os.File, 1), kept: make([]net.Listener, 1), mode: mode}
		files, err := s.open(0)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != want {
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
		s.mu.Unlock()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.close() // again: the file at the path is another one
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
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

// A new master may listen at the path while the old one still waits for requests. The end of
// the old one leaves the new one's sockets.
func TestUnixSocketOfTheNextMaster(t *testing.T) {
	dir := t.TempDir()
	path, admin, gate := filepath.Join(dir, "socket"), filepath.Join(dir, "admin"), filepath.Join(dir, "gate")
	s := setup{Workers: 1, Addr: unixPrefix + path, Admin: unixPrefix + admin, Grace: 2 * patience}
	old := start(t, s, true)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	answered := make(chan error, 1)
	go func() {
		_, _, err := ask(c, bufio.NewReader(c), "/gate?file="+gate)
		answered <- err
	}()
	until(t, "it is in hand", func() bool { return statusAt(t, "unix", admin).Total.InFlight >= 1 })
	old.signal(syscall.SIGTERM)
	until(t, "the socket refuses", func() bool {
		other, err := net.Dial("unix", path)
		if err == nil {
			other.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
	os.Rename(admin, admin+".old") // the old master still serves it
	next := start(t, s, true)
	open(t, gate)
	if err := <-answered; err != nil {
		t.Errorf("the request in hand: %v", err)
	}
	if status := old.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	c2, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if body, _, err := ask(c2, bufio.NewReader(c2), "/"); err != nil || !strings.HasPrefix(body, itoa(next.pids()[0])+" ") {
		t.Errorf("%q, %v", body, err)
	}
	statusAt(t, "unix", admin)
	next.signal(syscall.SIGTERM)
	next.wait()
	for _, path := range []string{path, admin} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
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

// Which addresses have a socket for each slot.
func TestEndpoints(t *testing.T) {
	tcp, local := endpoint{"tcp", "a:1"}, endpoint{"unix", "/path"}
	for _, c := range []struct {
		p       *Prefork
		addr    string
		want    []endpoint
		perSlot bool
	}{
		{&Prefork{}, "a:1", []endpoint{{"tcp4", "a:1"}}, true},
		{&Prefork{Network: "tcp6"}, "a:1", []endpoint{{"tcp6", "a:1"}}, true},
		{&Prefork{Network: "tcp", SharedSockets: true}, "a:1", []endpoint{tcp}, false},
		{&Prefork{Network: "tcp", Listen: []string{"unix:/path"}}, "a:1", []endpoint{tcp, local}, true},
		{&Prefork{Network: "tcp", Listen: []string{"a:1"}}, "unix:/path", []endpoint{local, tcp}, true},
		{&Prefork{Network: "none"}, "unix:/path", []endpoint{local}, false},
		{&Prefork{Network: "none"}, "a:1", nil, false},
	} {
		c.p.Backlog, c.p.UnixMode = 7, 0o640
		s, err := c.p.newSockets(c.addr)
		if c.want == nil {
			if _, isUnknown := err.(net.UnknownNetworkError); !isUnknown || s != nil {
				t.Errorf("%q: %+v, %v", c.p.Network, s, err)
			}
			continue
		}
		if err != nil || !slices.Equal(s.endpoints, c.want) || s.perSlot != c.perSlot || len(s.unix) != len(c.want) || len(s.kept) != len(c.want) || s.mode != 0o640 {
			t.Errorf("%s, %q: %+v, %v", c.addr, c.p.Listen, s, err)
		}
		if o := s.options(); o.Backlog != 7 || o.ReusePort != c.perSlot {
			t.Errorf("%s: options %+v", c.addr, o)
		}
	}
}

// The probe leaves unix sockets alone, and finds taken ports that follow them.
func TestProbePassesOver(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	path := filepath.Join(t.TempDir(), "socket")
	for _, c := range []struct {
		shared bool
		want   error
	}{{false, syscall.EADDRINUSE}, {true, nil}} {
		s, err := (&Prefork{SharedSockets: c.shared, Listen: []string{taken.Addr().String()}}).newSockets(unixPrefix + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.probe(); !errors.Is(err, c.want) {
			t.Errorf("shared %v: %v", c.shared, err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the probe has made a socket")
		}
		s.close()
	}
}

// The look whether a process listens on a path leaves no connection open.
func TestLiveSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	live, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if ln, err := listenUnix(path, 0); !errors.Is(err, syscall.EADDRINUSE) || ln != nil {
		t.Errorf("%v, %v", ln, err)
	}
	c, err := live.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection: %v", err)
	}
}

// With IncomingCPU, the socket of a slot that is pinned to one CPU prefers the
// connections of that CPU; other sockets prefer none.
func TestIncomingCPU(t *testing.T) {
	pinned := func(slot int) []int { return []int{slot + 1} }
	for _, c := range []struct {
		name    string
		p       *Prefork
		address string
		want    []int // by slot
	}{
		{"pinned", &Prefork{IncomingCPU: true, Affinity: pinned}, "0.0.0.0:0", []int{1, 2}},
		{"not asked for", &Prefork{Affinity: pinned}, "0.0.0.0:0", []int{-1, -1}},
		{"not pinned", &Prefork{IncomingCPU: true}, "0.0.0.0:0", []int{-1, -1}},
		{"several CPUs", &Prefork{IncomingCPU: true, Affinity: func(int) []int { return []int{1, 2} }}, "0.0.0.0:0", []int{-1, -1}},
		{"loopback", &Prefork{IncomingCPU: true, Affinity: pinned}, "127.0.0.1:0", []int{-1, -1}},
		{"one socket", &Prefork{IncomingCPU: true, Affinity: pinned, SharedSockets: true}, "0.0.0.0:0", []int{-1}},
	} {
		c.p.Network = "tcp4"
		s, err := c.p.newSockets(c.address)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.probe(); err != nil {
			t.Fatal(err)
		}
		for slot, want := range c.want {
			files, err := s.open(slot)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := unix.GetsockoptInt(int(files[0].Fd()), unix.SOL_SOCKET, unix.SO_INCOMING_CPU); err != nil || got != want {
				t.Errorf("%s: the socket of slot %d prefers CPU %d, %v, want %d", c.name, slot, got, err, want)
			}
			files[0].Close()
		}
		s.close()
	}
}

// Of several processes that find the same stale socket only one replaces it, and is reached there.
func TestStaleSocketOfMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	for range 100 {
		stale, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		stale.SetUnlinkOnClose(false)
		stale.Close()
		const servers = 8
		made := make(chan *net.UnixListener, servers)
		for range servers {
			go func() {
				ln, err := listenUnix(path, 0)
				if err != nil && !errors.Is(err, syscall.EADDRINUSE) {
					t.Error(err)
				}
				made <- ln
			}()
		}
		count := 0
		for range servers {
			if ln := <-made; ln != nil {
				defer ln.Close()
				count++
			}
		}
		if count != 1 {
			t.Fatalf("%d servers listen", count)
		}
		os.Remove(path)
	}
}
