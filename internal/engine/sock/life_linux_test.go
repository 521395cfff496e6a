//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package sock

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// Closing is as usual only where SO_LINGER is off, and can be asked.
func TestLingers(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	for _, c := range []struct {
		set  syscall.Linger
		want bool
	}{{syscall.Linger{}, false}, {syscall.Linger{Onoff: 1}, true}, {syscall.Linger{Onoff: 1, Linger: 1}, true}, {syscall.Linger{Linger: 1}, false}} {
		if err := syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &c.set); err != nil {
			t.Fatal(err)
		}
		if got := Lingers(fd); got != c.want {
			t.Errorf("SO_LINGER %+v: it lingers: %v", c.set, got)
		}
	}
	if !Lingers(-1) {
		t.Error("it is known not to linger although it cannot be asked")
	}
	_ = syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{})
}

// addrPort returns an IP address as package netip has it.
func addrPort(a *Address) netip.AddrPort {
	ip, port, _ := a.IP()
	return netip.AddrPortFrom(netip.AddrFrom16(ip).Unmap(), port)
}

// expectPeek sends a byte to fd. Peek finds it, and leaves it there.
func expectPeek(t *testing.T, conn net.Conn, fd int) {
	t.Helper()
	p := make([]byte, 4)
	if n, errno := Peek(fd, p); n != 0 || errno != syscall.EAGAIN {
		t.Errorf("Peek returned %d, %v", n, errno)
	}
	_, _ = conn.Write([]byte("x"))
	for end := time.Now().Add(10 * time.Second); IsQuiet(fd) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	for _, f := range []func(int, []byte) (int, syscall.Errno){Peek, Recv} {
		if n, errno := f(fd, p); n != 1 || errno != 0 || p[0] != 'x' {
			t.Errorf("%q, %d, %v", p[:n], n, errno)
		}
	}
}

// TestAcceptedDescriptor: an accepted connection does not block, and knows both its ends.
func TestAcceptedDescriptor(t *testing.T) {
	listener, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(listener)
	if err := errors.Join(syscall.Bind(listener, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(listener, 1)); err != nil {
		t.Fatal(err)
	}
	var from, peer, mine Address
	if _, errno := Accept(listener, &from); errno != syscall.EAGAIN || Backlog(listener) != 0 {
		t.Fatalf("before a connection comes: %v, %d connections wait", errno, Backlog(listener))
	}
	if errno := LocalName(listener, &mine); errno != 0 {
		t.Fatal(errno)
	}
	conn, err := net.Dial("tcp", addrPort(&mine).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n := Backlog(listener); n != 1 {
		t.Errorf("%d connections wait, want 1", n)
	}
	fd, errno := Accept(listener, &from)
	if errno != 0 {
		t.Fatal(errno)
	}
	asked := errors.Join(asError(PeerName(fd, &peer)), asError(LocalName(fd, &mine)))
	if ours := conn.LocalAddr().String(); asked != nil || addrPort(&from).String() != ours || addrPort(&peer).String() != ours || addrPort(&mine).String() != conn.RemoteAddr().String() {
		t.Errorf("from %v, %v to %v; want from %s, %v", addrPort(&from), addrPort(&peer), addrPort(&mine), ours, asked)
	}
	if Backlog(fd) != -1 || Backlog(-1) != -1 {
		t.Error("what does not listen has a backlog")
	}
	if !IsQuiet(fd) {
		t.Error("it does not wait for input")
	}
	expectPeek(t, conn, fd)
	other := Duplicate(fd)
	if other < 0 || Duplicate(-1) != -1 {
		t.Fatal("descriptors are duplicated wrongly")
	}
	_ = syscall.SetNonblock(other, false) // that of the socket
	KeepNonblocking(fd)
	KeepNonblocking(fd)
	if _, errno := syscall.Read(fd, make([]byte, 1)); errno != syscall.EAGAIN {
		t.Errorf("it blocks, or not: %v", errno)
	}
	ClosePromptly(other)
	ClosePromptly(fd)
	if n, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("it is open: %d, %v", n, err)
	}
	if IsQuiet(-1) || LocalName(-1, &mine) != syscall.EBADF {
		t.Error("what is no descriptor waits for input")
	}
}

func asError(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// TestLookAt: as IsQuiet does, and each socket for itself.
func TestLookAt(t *testing.T) {
	quiet, _ := pair(t)
	spoken, other := pair(t)
	closed, closer := pair(t)
	_, _ = syscall.Write(other, []byte("x"))
	_ = syscall.Shutdown(closer, syscall.SHUT_WR)
	sockets := []Look{{FD: int32(quiet)}, {FD: int32(spoken)}, {FD: -1}, {FD: int32(closed)}, {FD: 1 << 30}, {FD: int32(quiet)}}
	for range 2 {
		LookAt(sockets)
		for i, want := range []bool{true, false, true, false, false, true} {
			if got := sockets[i].IsQuiet(); got != want || sockets[i].FD >= 0 && got != IsQuiet(int(sockets[i].FD)) {
				t.Errorf("%d: it is quiet: %v", i, got)
			}
		}
	}
	// More than the process may have: the sockets are asked one by one.
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = uint64(len(sockets)) - 1
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	LookAt(sockets)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, false, true, false, false, true} {
		if got := sockets[i].IsQuiet(); got != want {
			t.Errorf("one by one, %d: it is quiet: %v", i, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { LookAt(sockets) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkLookAt compares calls for single sockets with one for many.
func BenchmarkLookAt(b *testing.B) {
	const n = 16
	var sockets []Look
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	for range n {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err != nil {
			b.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { sockets = append(sockets, Look{FD: int32(fd)}) })
	}
	b.Run("one", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if !IsQuiet(int(sockets[i%n].FD)) {
				b.Fatal("not quiet")
			}
		}
	})
	b.Run("16", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if i%n == 0 {
				LookAt(sockets)
			}
			if !sockets[i%n].IsQuiet() {
				b.Fatal("not quiet")
			}
		}
	})
}
