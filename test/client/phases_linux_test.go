package client_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/test/harness"
)

// blockByBacklog has a listener that accepts nothing and has no room for another
// connection: connecting waits.
func blockByBacklog(t *testing.T) *blockade {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	fillBacklog(t, addr)
	begun, signal := signals()
	b := newBlockade(t, addr)
	b.client.Trace = dialTrace(signal)
	b.blocked = func() { harness.Receive(t, begun) }
	return b
}

// fillBacklog connects to addr until that does not succeed any more.
func fillBacklog(t *testing.T, addr string) {
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		var netErr net.Error
		if errors.As(err, &netErr) && netErr.Timeout() {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("the backlog does not fill")
}
