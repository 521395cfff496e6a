package listen

import (
	"errors"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// onSocket runs f on the descriptor of ln.
func onSocket(t *testing.T, ln net.Listener, f func(fd int) error) {
	t.Helper()
	c, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := control(c, func(fd uintptr) error { return f(int(fd)) }); err != nil {
		t.Fatal(err)
	}
}

func socketOption(t *testing.T, ln net.Listener, level, option int) (value int) {
	t.Helper()
	onSocket(t, ln, func(fd int) (err error) {
		value, err = unix.GetsockoptInt(fd, level, option)
		return err
	})
	return value
}

func TestOptionsReachTheSocket(t *testing.T) {
	for _, c := range []struct {
		name          string
		level, option int
		o             Options
	}{
		{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, Options{ReusePort: true}},
		{"TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, Options{DeferAccept: true}},
		{"TCP_FASTOPEN", unix.IPPROTO_TCP, unix.TCP_FASTOPEN, Options{FastOpen: true}},
	} {
		if v := socketOption(t, listenLoopback(t, Options{}), c.level, c.option); v != 0 {
			t.Errorf("%s is %d on a plain listener", c.name, v)
		}
		if v := socketOption(t, listenLoopback(t, c.o), c.level, c.option); v == 0 {
			t.Errorf("%s is off although it was asked for", c.name)
		}
	}
}

func TestListenerIsPlainTCP(t *testing.T) {
	if p := socketOption(t, listenLoopback(t, Options{}), unix.SOL_SOCKET, unix.SO_PROTOCOL); p != unix.IPPROTO_TCP {
		t.Errorf("protocol %d, want TCP", p)
	}
}

// backlog returns the bound of the accept queue. TCP_INFO of a listening socket
// reports it in the field for selectively acknowledged segments.
func backlog(t *testing.T, ln net.Listener) (n uint32) {
	t.Helper()
	onSocket(t, ln, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = info.Sacked
		}
		return err
	})
	return n
}

func TestBacklog(t *testing.T) {
	maximum := backlog(t, listenLoopback(t, Options{}))
	if maximum < 100 {
		t.Skipf("somaxconn is only %d here", maximum)
	}
	for asked, want := range map[int]uint32{7: 7, -1: maximum, 1 << 20: maximum} {
		if got := backlog(t, listenLoopback(t, Options{Backlog: asked})); got != want {
			t.Errorf("backlog %d gave %d, want %d", asked, got, want)
		}
	}
}

func TestIncomingCPU(t *testing.T) {
	ln := listenLoopback(t, Options{}).(*net.TCPListener)
	if err := SetIncomingCPU(ln, 0); err != nil {
		t.Fatal(err)
	}
	if got := socketOption(t, ln, unix.SOL_SOCKET, unix.SO_INCOMING_CPU); got != 0 {
		t.Errorf("the socket prefers CPU %d", got)
	}
	_ = ln.Close()
	if err := SetIncomingCPU(ln, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener: %v", err)
	}
}

// TestKernelsWithoutOptions: only SO_REUSEPORT is asked for in vain.
func TestKernelsWithoutOptions(t *testing.T) {
	for _, err := range []error{unix.ENOPROTOOPT, unix.EOPNOTSUPP, nil} {
		if got := optional(err); got != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
	if got := optional(unix.EBADF); got != unix.EBADF {
		t.Errorf("another error: %v", got)
	}
	if err := reusePortError(unix.ENOPROTOOPT); !errors.Is(err, ErrReusePortUnsupported) {
		t.Error(err)
	}
	if err := reusePortError(unix.EBADF); errors.Is(err, ErrReusePortUnsupported) || !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
	const none = ^uintptr(0)
	for name, err := range map[string]error{
		"SO_REUSEPORT": setBeforeBind(none, Options{ReusePort: true}), "TCP_DEFER_ACCEPT": setBeforeBind(none, Options{DeferAccept: true}),
		"TCP_FASTOPEN": setBeforeBind(none, Options{FastOpen: true}), "backlog 3": setAfterListen(none, Options{Backlog: 3}), "SO_INCOMING_CPU": setIncomingCPU(none, 1),
	} {
		if !errors.Is(err, unix.EBADF) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
