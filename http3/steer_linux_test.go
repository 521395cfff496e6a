package http3

import (
	"context"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// join returns a socket with addr that joins the group of that port.
func join(t *testing.T, addr string) *net.UDPConn {
	t.Helper()
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}}
	c, err := config.ListenPacket(context.Background(), "udp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.UDPConn)
}

// groupOf returns n sockets of one port of loopback.
func groupOf(t *testing.T, n int) []*net.UDPConn {
	t.Helper()
	group := []*net.UDPConn{join(t, "127.0.0.1:0")}
	for len(group) < n {
		group = append(group, join(t, group[0].LocalAddr().String()))
	}
	return group
}

// receiver sends a packet from a new port, and returns the index of the socket that gets it.
func receiver(t *testing.T, group []*net.UDPConn, packet []byte) int {
	t.Helper()
	c, err := net.Dial("udp4", group[0].LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	got := -1
	if !nettest.Poll(10*time.Second, func() bool {
		got = slices.IndexFunc(group, func(socket *net.UDPConn) bool { return hasGot(t, socket, packet) })
		return got >= 0
	}) {
		t.Fatal("no socket gets the packet")
	}
	return got
}

// hasGot takes a packet out of a socket, and reports whether one was there.
func hasGot(t *testing.T, socket *net.UDPConn, want []byte) bool {
	t.Helper()
	raw, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2048)
	n := 0
	raw.Control(func(fd uintptr) { n, _, err = unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT) })
	if err == nil && string(buffer[:n]) != string(want) {
		t.Fatalf("a socket has % x", buffer[:min(n, 16)])
	}
	return err == nil
}

// The kernel does with the program what the VM does. The program can be replaced through
// any socket of the group.
func TestSteerInKernel(t *testing.T) {
	group := groupOf(t, 6)
	for i, g := range groups {
		if err := steer(group[i], testMark, g.ready, g.leaving); err != nil {
			t.Fatal(err)
		}
		routes := routesOf(t, g.ready, g.leaving)
		step := max(1, len(routes)/60)
		for j := 0; j < len(routes); j += step {
			if r := routes[j]; receiver(t, group, r.packet) != r.want {
				t.Errorf("ready %v, leaving %v: %s: want socket %d", g.ready, g.leaving, r.name, r.want)
			}
		}
		for _, r := range routes[len(routes)-4:] { // those that are cut
			if receiver(t, group, r.packet) != r.want {
				t.Errorf("ready %v, leaving %v: %s: want socket %d", g.ready, g.leaving, r.name, r.want)
			}
		}
	}
	if err := steer(group[0], testMark, nil, nil); err == nil {
		t.Error("a group without readers has a program")
	}
}

// A socket that joins a group has the next index, and the group keeps its program.
func TestSteerJoined(t *testing.T) {
	group := groupOf(t, 2)
	if err := steer(group[0], testMark, []int{0}, []int{2}); err != nil {
		t.Fatal(err)
	}
	group = append(group, join(t, group[0].LocalAddr().String()))
	for _, r := range routesOf(t, []int{0}, []int{2})[:6] {
		if got := receiver(t, group, r.packet); got != r.want {
			t.Errorf("%s: socket %d; want %d", r.name, got, r.want)
		}
	}
}

// The program for as many sockets as an id can name is one that the kernel takes.
func TestSteerManySockets(t *testing.T) {
	var ready, leaving []int
	for i := range maxSockets / 2 {
		ready, leaving = append(ready, i), append(leaving, i+maxSockets/2)
	}
	if err := steer(groupOf(t, 1)[0], testMark, ready, leaving); err != nil {
		t.Fatal(err)
	}
}
