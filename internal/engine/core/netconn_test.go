//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// rawClient is a client's end that costs this process only a descriptor.
func rawClient(t testing.TB, addr net.Addr, i int) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	// See enginetest's loopback for the reason of the odd address.
	local := &syscall.SockaddrInet4{Addr: [4]byte{127, 79, byte(i >> 8), byte(i)}}
	remote := &syscall.SockaddrInet4{Port: addr.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, local); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, remote); err != nil {
		t.Fatal(err)
	}
	return fd
}

// rawAsk does one round trip.
func rawAsk(t testing.TB, fd int) {
	var p [8]byte
	if _, err := syscall.Write(fd, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	n, err := syscall.Read(fd, p[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(fd, p[:])
	}
	if got := p[:max(n, 0)]; err != nil || string(got) != "hello" {
		t.Fatalf("got %q and %v", got, err)
	}
}

func TestNetConnCloses(t *testing.T) {
	ln, a := listen(t), newEcho()
	d := serveOn(t, ln, a, engine.Options{})
	c := dial(t, ln)
	ask(t, c, "hello")
	var kept net.Conn
	d.Range(func(ec engine.Conn) bool {
		kept = ec.NetConn()
		return true
	})
	if got := kept.RemoteAddr().String(); got != c.LocalAddr().String() {
		t.Errorf("RemoteAddr %s, want %s", got, c.LocalAddr())
	}
	if got := kept.LocalAddr().String(); got != c.RemoteAddr().String() {
		t.Errorf("LocalAddr %s, want %s", got, c.RemoteAddr())
	}
	_, readErr := kept.Read(make([]byte, 1))
	_, writeErr := kept.Write([]byte("x"))
	for _, refused := range []struct {
		op  string
		err error
	}{
		{"read", readErr}, {"write", writeErr}, {"set", kept.SetDeadline(time.Now())},
		{"set", kept.SetReadDeadline(time.Now())}, {"set", kept.SetWriteDeadline(time.Now())},
	} {
		var op *net.OpError
		if !errors.As(refused.err, &op) || op.Op != refused.op || op.Net != "tcp" || op.Addr.String() != c.LocalAddr().String() || op.Err != errEngineReads {
			t.Errorf("%s: %v", refused.op, refused.err)
		}
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the peer read %d bytes and %v", n, err)
	}
	eventually(t, "it ends", func() bool { return d.countOpen() == 0 })
	var op *net.OpError
	if err := kept.Close(); !errors.As(err, &op) || op.Op != "close" || op.Net != "tcp" || op.Addr.String() != c.LocalAddr().String() || op.Err != net.ErrClosed {
		t.Errorf("closed twice: %v", err)
	}
	if got := kept.LocalAddr().String(); got != ln.Addr().String() {
		t.Errorf("then LocalAddr is %s, want the listener's", got)
	}
}
