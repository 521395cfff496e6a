package systemd_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/process/systemd"
	"github.com/sluicehttp/sluice/internal/process/systemd/systemdtest"
)

func TestMain(m *testing.M) {
	if os.Getenv("SYSTEMD_TEST_SOCKETS") == "" {
		os.Exit(m.Run())
	}
	s, err := systemd.Take()
	fmt.Println(err, os.Getenv("LISTEN_FDS"))
	if err != nil {
		os.Exit(1)
	}
	for _, socket := range s.Sockets {
		fmt.Println(socket, socket.IsShareable())
	}
	fmt.Println(s.Close(true))
	os.Exit(0)
}

// Sockets are inherited, with their names and addresses.
func TestSockets(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	path := filepath.Join(t.TempDir(), "s")
	u, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	c := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
	c.Env = append(os.Environ(), "SYSTEMD_TEST_SOCKETS=1", "LISTEN_FDS=3", "LISTEN_FDNAMES=web:path:null")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, l := range []any{ln, u} {
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	c.ExtraFiles = append(c.ExtraFiles, null)
	out, err := c.CombinedOutput()
	sockets := []any{"web", ln.Addr(), "path", path, "null"}
	want := fmt.Sprintf("<nil> \n%q on %v false\n%q on %v false\n%q, which does not listen false\n", sockets...) +
		fmt.Sprintf("[%q on %v %q on %v %q, which does not listen] <nil>\n", sockets...)
	if err != nil || string(out) != want {
		t.Errorf("%v, %s, want %s", err, out, want)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the path of systemd's socket is removed")
	}
}

// LISTEN_FDS counts more descriptors than were passed: those of this process are left alone.
func TestSocketsThatWereNotPassed(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, n := range []int{2, 5, 12, 4096} {
		c := exec.Command("sh", "-c", `LISTEN_PID=$$ exec "$0"`, os.Args[0])
		c.Env = append(os.Environ(), "SYSTEMD_TEST_SOCKETS=1", fmt.Sprintf("LISTEN_FDS=%d", n))
		c.ExtraFiles = []*os.File{null}
		out, err := c.CombinedOutput()
		want := fmt.Sprintf("sluice: LISTEN_FDS=%d, and descriptor 4 was not passed to this process, or it is used already \n", n)
		if err == nil || string(out) != want {
			t.Errorf("%d: %v, %s", n, err, out)
		}
	}
}

// until waits for a condition.
func until(t *testing.T, isSo func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !isSo(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// Messages reach a socket with a path and an abstract one; sockets go with them and
// work at the other end. What was read is no longer in the environment.
func TestNotify(t *testing.T) {
	for _, name := range []string{"", fmt.Sprintf("sluice-test-%d", os.Getpid())} {
		m := systemdtest.New(t, name)
		t.Setenv("NOTIFY_SOCKET", m.Path)
		t.Setenv("FDSTORE", "9")
		t.Setenv("WATCHDOG_USEC", "5000000")
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
		s, err := systemd.Take()
		if err != nil || s.Watchdog != 5*time.Second || os.Getenv("NOTIFY_SOCKET")+os.Getenv("FDSTORE")+os.Getenv("WATCHDOG_USEC") != "" {
			t.Fatalf("%+v, %v", s, err)
		}
		if err := s.Notify("READY=1", systemd.Status("fine")); err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		for range 2 {
			if err := s.Store(ln.(*net.TCPListener)); err != nil {
				t.Fatal(err)
			}
		}
		until(t, func() bool { return len(m.Messages()) == 3 })
		if got := m.Messages(); got[0] != "READY=1\nSTATUS=fine" || got[1] != "FDSTORE=1\nFDNAME=sluice-listener" || m.Count("READY=1") != 1 {
			t.Errorf("%q", got)
		}
		if len(m.Store()) != 1 {
			t.Fatalf("%d sockets are stored", len(m.Store()))
		}
		if got := m.States(); !slices.Equal(got, []string{"READY=1"}) {
			t.Errorf("%q", got)
		}
		go func() {
			if c, err := ln.Accept(); err == nil { // it does not block the socket
				c.Close()
			}
		}()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("no end")
		}
		c.Close()
		testStale(t, m, s, ln)
	}
}

// testStale: an earlier process has stored two sockets, and one of them is not wanted any
// more.
func testStale(t *testing.T, m *systemdtest.Manager, s *systemd.Service, ln net.Listener) {
	t.Helper()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, l := range []net.Listener{ln, other} {
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		s.Sockets = append(s.Sockets, systemd.Socket{Name: systemd.Stored, Addr: l.Addr(), File: f})
	}
	claimed, err := s.Claim("tcp", ln.Addr().String())
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	if units, err := s.Close(true); len(units) > 0 || err != nil {
		t.Errorf("%v, %v", units, err)
	}
	claimed[0].File.Close()
	until(t, func() bool {
		return m.Count("FDSTORE=1") == 3 && m.Count("FDSTOREREMOVE=1") == 1 && len(m.Store()) == 1
	})
}

// A manager that is gone is an error, and none is none.
func TestNobodyListens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/no/such/socket")
	s, err := systemd.Take()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Notify("READY=1"); err == nil {
		t.Error("sent")
	}
	if s, err = systemd.Take(); err != nil || s.Notify("READY=1") != nil || s.Store(nil) != nil {
		t.Errorf("%+v, %v", s, err)
	}
	if units, err := s.Close(true); units != nil || err != nil {
		t.Errorf("%v, %v", units, err)
	}
	t.Setenv("WATCHDOG_USEC", "soon")
	if _, err := systemd.Take(); err == nil {
		t.Error("a watchdog that is no time")
	}
}
