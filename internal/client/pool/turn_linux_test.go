//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package pool

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// turnPair returns the two ends of a TCP connection, the first one with a Turn.
func turnPair(t *testing.T) (client *net.TCPConn, turn *Turn, server *net.TCPConn) {
	t.Helper()
	near, far := nettest.TCPPair(t)
	turn = new(Turn)
	turn.Init(near)
	if !turn.CanTake() {
		t.Fatal("a TCP connection cannot be used")
	}
	return near, turn, far
}

// arrived waits until the kernel has something for c.
func arrived(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTurn(t *testing.T) {
	_, turn, server := turnPair(t)
	in := make([]byte, 5)
	for _, answer := range []string{"one", "three"} { // the second one fills the buffer
		go func() {
			got := make([]byte, 3)
			if _, err := io.ReadFull(server, got); err != nil || string(got) != "ask" {
				t.Errorf("the server got %q, %v", got, err)
			}
			io.WriteString(server, answer)
		}()
		written, n, err := turn.Take([]byte("ask"), in)
		if written != 3 || string(in[:n]) != answer || err != nil {
			t.Fatalf("%d bytes written, %q, %v", written, in[:n], err)
		}
	}
	go io.CopyN(io.Discard, server, 3)
	go server.CloseWrite()
	// Whether the end has arrived before the request or after it.
	if written, n, err := turn.Take([]byte("ask"), in); n != 0 || err != nil && err != ErrNotQuiet || (err == nil) != (written == 3) {
		t.Errorf("at the end: %d bytes written, %d read, %v", written, n, err)
	}
}

// A connection that is closed, or has bytes that came unasked, gets no
// request.
func TestTurnLooksFirst(t *testing.T) {
	for name, spoil := range map[string]func(client, server *net.TCPConn){
		"bytes":     func(client, server *net.TCPConn) { io.WriteString(server, "x"); arrived(t, client) },
		"an end":    func(client, server *net.TCPConn) { server.CloseWrite(); arrived(t, client) },
		"a reset":   func(client, server *net.TCPConn) { server.SetLinger(0); server.Close(); arrived(t, client) },
		"closed":    func(client, _ *net.TCPConn) { client.Close() },
		"both ends": func(client, server *net.TCPConn) { server.Close(); client.Close() },
	} {
		client, turn, server := turnPair(t)
		spoil(client, server)
		if written, n, err := turn.Take([]byte("ask"), make([]byte, 9)); written != 0 || n != 0 || err != ErrNotQuiet {
			t.Errorf("%s: %d bytes written, %d read, %v", name, written, n, err)
		}
	}
}

// The caller writes what finds no room.
func TestTurnWithoutRoom(t *testing.T) {
	_, turn, _ := turnPair(t)
	request := []byte(strings.Repeat("x", 64<<20))
	written, n, err := turn.Take(request, make([]byte, 9))
	if written == 0 || written == len(request) || n != 0 || err != nil {
		t.Errorf("%d bytes written, %d read, %v", written, n, err)
	}
	if turn.out != nil || turn.in != nil {
		t.Error("the buffers are kept")
	}
}

func TestTurnEnds(t *testing.T) {
	client, turn, _ := turnPair(t)
	client.SetReadDeadline(time.Unix(1, 0))
	if written, _, err := turn.Take([]byte("ask"), make([]byte, 9)); written != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %d bytes written, %v", written, err)
	}

	client, turn, server := turnPair(t)
	go func() {
		io.ReadFull(server, make([]byte, 3))
		client.SetReadDeadline(time.Unix(1, 0))
	}()
	if written, _, err := turn.Take([]byte("ask"), make([]byte, 9)); written != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline while it waits: %d bytes written, %v", written, err)
	}

	_, turn, server = turnPair(t)
	go func() {
		io.ReadFull(server, make([]byte, 2)) // so that a byte stays unread, and closing resets
		server.SetLinger(0)
		server.Close()
	}()
	written, _, err := turn.Take([]byte("ask"), make([]byte, 9))
	var op *net.OpError
	if written != 3 || !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Op != "read" {
		t.Errorf("a reset: %d bytes written, %v", written, err)
	}
}

// A connection that wraps another one sees all that is written and read.
func TestTurnLeavesWrappers(t *testing.T) {
	client, _, _ := turnPair(t)
	var turn Turn
	turn.Init(struct{ net.Conn }{client})
	if turn.CanTake() {
		t.Error("a wrapper was passed over")
	}
}
