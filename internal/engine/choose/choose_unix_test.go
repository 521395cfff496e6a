//go:build unix

package choose

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
)

func TestNew(t *testing.T) {
	e, obstacle := New(engine.Options{}, false)
	if e.Name() != "perconn" || obstacle != nil {
		t.Errorf("without events: %s, %v", e.Name(), obstacle)
	}
	e, obstacle = New(engine.Options{}, true)
	if want := map[bool]string{true: "epoll", false: "perconn"}[obstacle == nil]; e.Name() != want {
		t.Errorf("with events: %s, %v", e.Name(), obstacle)
	}
	if err := e.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

type otherListener struct{ net.Listener }

func TestListener(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unix, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	for _, c := range []struct {
		ln         net.Listener
		want       string
		hasSockets bool
	}{
		{tcp, "TCP listener", true},
		{unix, "unix listener", true},
		{&engine.TLSListener{Listener: tcp, Config: &tls.Config{}}, "TCP listener with TLS", true},
		{&engine.TLSListener{Listener: otherListener{tcp}}, "choose.otherListener with TLS", false},
		{otherListener{tcp}, "choose.otherListener", false},
	} {
		if kind, hasSockets := Listener(c.ln); kind != c.want || hasSockets != c.hasSockets {
			t.Errorf("%T: %q, %v", c.ln, kind, hasSockets)
		}
	}
	if secure := (&engine.TLSListener{Listener: tcp}); IsMultipath(secure) != IsMultipath(tcp) {
		t.Error("TLS changes whether a listener is for multipath TCP")
	}
	LogMultipath(tcp, func(string, ...any) { t.Error("a test's listener is logged") })
}

// adopting is an Engine that notes what it adopts; bare takes descriptors, too.
type adopting struct {
	engine.Engine
	conn net.Conn
}

func (e *adopting) AdoptConn(c net.Conn, _ engine.Parcel, _ engine.Acceptor) error {
	e.conn = c
	return nil
}

type bare struct {
	adopting
	fd int
}

func (e *bare) Adopt(fd int, _ engine.Parcel, _ engine.Acceptor) error {
	e.fd = fd
	return nil
}

func TestAdoptSocket(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	peer := os.NewFile(uintptr(fds[1]), "peer")
	defer peer.Close()
	events := &bare{}
	if err := AdoptSocket(events, fds[0], engine.Parcel{}, nil); err != nil || events.fd != fds[0] || events.conn != nil {
		t.Errorf("an engine of descriptors has got %d, %v, %v", events.fd, events.conn, err)
	}
	conns := &adopting{}
	if err := AdoptSocket(conns, fds[0], engine.Parcel{}, nil); err != nil || conns.conn == nil {
		t.Fatalf("an engine of connections has got %v, %v", conns.conn, err)
	}
	_, _ = peer.WriteString("hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(conns.conn, got); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	_ = conns.conn.Close() // the only descriptor that is open
	if _, err := peer.Read(got); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
	for _, e := range []engine.Engine{conns, events} {
		if err := AdoptSocket(e, -1, engine.Parcel{}, nil); !errors.Is(err, syscall.EBADF) {
			t.Errorf("no descriptor: %v", err)
		}
	}
}
