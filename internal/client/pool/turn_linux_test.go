//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package pool

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/sock"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// A readTurn is a Turn with a buffer.
type readTurn struct {
	Turn
	in []byte // for what arrives
	n  int    // bytes that have arrived
}

func (t *readTurn) arrived() (err error) {
	t.n, err = t.Read(t.in)
	return err
}

// take is Take, and returns what has arrived.
func (t *readTurn) take(out string, holder engine.Holder) (written int, got string, err error) {
	t.n = 0
	written, err = t.Take([]byte(out), holder)
	return written, string(t.in[:t.n]), err
}

// turnPair returns the two ends of a TCP connection, the first one with a Turn.
func turnPair(t *testing.T) (client *net.TCPConn, turn *readTurn, server *net.TCPConn) {
	t.Helper()
	near, far := nettest.TCPPair(t)
	turn = &readTurn{in: make([]byte, 5)}
	turn.Init(near, turn.arrived)
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
	for _, answer := range []string{"one", "three"} { // the second one fills the buffer
		go func() {
			got := make([]byte, 3)
			if _, err := io.ReadFull(server, got); err != nil || string(got) != "ask" {
				t.Errorf("the server got %q, %v", got, err)
			}
			io.WriteString(server, answer)
		}()
		written, got, err := turn.take("ask", nil)
		if written != 3 || got != answer || err != nil {
			t.Fatalf("%d bytes written, %q, %v", written, got, err)
		}
	}
	go io.CopyN(io.Discard, server, 3)
	go server.CloseWrite()
	// Whether the end has arrived before the request or after it.
	if written, got, err := turn.take("ask", nil); got != "" || err != io.EOF && err != ErrNotQuiet || (err == io.EOF) != (written == 3) {
		t.Errorf("at the end: %d bytes written, %q read, %v", written, got, err)
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
		if written, got, err := turn.take("ask", nil); written != 0 || got != "" || err != ErrNotQuiet {
			t.Errorf("%s: %d bytes written, %q read, %v", name, written, got, err)
		}
	}
}

// The caller writes what finds no room.
func TestTurnWithoutRoom(t *testing.T) {
	_, turn, _ := turnPair(t)
	request := strings.Repeat("x", 64<<20)
	written, got, err := turn.take(request, nil)
	if written == 0 || written == len(request) || got != "" || err != nil {
		t.Errorf("%d bytes written, %q read, %v", written, got, err)
	}
	if turn.out != nil {
		t.Error("the buffer is kept")
	}
}

func TestTurnEnds(t *testing.T) {
	client, turn, _ := turnPair(t)
	client.SetReadDeadline(time.Unix(1, 0))
	if written, _, err := turn.take("ask", nil); written != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %d bytes written, %v", written, err)
	}

	client, turn, server := turnPair(t)
	go func() {
		io.ReadFull(server, make([]byte, 3))
		client.SetReadDeadline(time.Unix(1, 0))
	}()
	if written, _, err := turn.take("ask", nil); written != 3 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline while it waits: %d bytes written, %v", written, err)
	}

	_, turn, server = turnPair(t)
	go func() {
		io.ReadFull(server, make([]byte, 2)) // so that a byte stays unread, and closing resets
		server.SetLinger(0)
		server.Close()
	}()
	written, _, err := turn.take("ask", nil)
	var op *net.OpError
	if written != 3 || !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Op != "read" {
		t.Errorf("a reset: %d bytes written, %v", written, err)
	}
}

// A connection that wraps another one sees all that is written and read.
func TestTurnLeavesWrappers(t *testing.T) {
	client, _, _ := turnPair(t)
	var turn Turn
	turn.Init(struct{ net.Conn }{client}, nil)
	if turn.CanTake() {
		t.Error("a wrapper was passed over")
	}
}

// TestTurnArrivals: arrived is called when something has arrived, and again if there was nothing.
func TestTurnArrivals(t *testing.T) {
	_, turn, server := turnPair(t)
	var calls []string
	turn.Turn.arrived = func() error {
		err := turn.arrived()
		if calls = append(calls, string(turn.in[:turn.n])); len(calls) > 1 {
			return err
		}
		err = turn.arrived()
		if err != ErrNothingArrived {
			t.Errorf("%d bytes, %v", turn.n, err)
		}
		go io.WriteString(server, "two")
		return err
	}
	go func() {
		io.ReadFull(server, make([]byte, 3))
		io.WriteString(server, "one")
	}()
	written, got, err := turn.take("ask", nil)
	if written != 3 || got != "two" || err != nil || !slices.Equal(calls, []string{"one", "two"}) {
		t.Errorf("%d bytes written, %q, %v, calls %q", written, got, err, calls)
	}
}

// A holderFunc is a Holder.
type holderFunc func(h *engine.Held, out []byte) bool

func (f holderFunc) Hold(h *engine.Held, out []byte) bool { return f(h, out) }

// endHeld returns what ends a Held after n bytes.
func endHeld(n int, state engine.HeldState, errno syscall.Errno) func(h *engine.Held, out []byte) {
	return func(h *engine.Held, out []byte) {
		if !h.Begin() {
			panic("it was recalled")
		}
		if n > 0 {
			sock.Send(h.FD, out[:n])
		}
		h.End(state, n, errno)
	}
}

// TestTurnWithHolder: what Take returns after what a Holder has done.
func TestTurnWithHolder(t *testing.T) {
	for name, c := range map[string]struct {
		end     func(h *engine.Held, out []byte) // nil: it does not take it
		before  func(client, server *net.TCPConn)
		written int
		answer  string
		err     error
	}{
		"not taken":     {nil, nil, 3, "yes", nil},
		"sent":          {endHeld(3, engine.HeldSent, 0), nil, 3, "yes", nil},
		"one byte":      {endHeld(1, engine.HeldCut, syscall.EAGAIN), nil, 1, "", nil},
		"nothing":       {endHeld(0, engine.HeldCut, 0), nil, 0, "", nil},
		"failed":        {endHeld(0, engine.HeldCut, syscall.EPIPE), nil, 0, "", syscall.EPIPE},
		"not quiet":     {endHeld(0, engine.HeldNotQuiet, 0), nil, 0, "", ErrNotQuiet},
		"unasked bytes": {func(*engine.Held, []byte) {}, func(_, server *net.TCPConn) { io.WriteString(server, "no") }, 0, "", ErrNotQuiet},
		"the end":       {func(*engine.Held, []byte) {}, func(_, server *net.TCPConn) { server.CloseWrite() }, 0, "", ErrNotQuiet},
		"too late":      {func(*engine.Held, []byte) {}, func(client, _ *net.TCPConn) { client.SetReadDeadline(time.Now().Add(time.Millisecond)) }, 0, "", os.ErrDeadlineExceeded},
	} {
		client, turn, server := turnPair(t)
		var held *engine.Held
		ended := make(chan struct{})
		holder := holderFunc(func(h *engine.Held, out []byte) bool {
			if c.end == nil {
				close(ended)
				return false
			}
			held, out = h, []byte(string(out))
			h.Wait()
			go func() {
				defer close(ended)
				if c.before != nil {
					c.before(client, server)
				}
				c.end(h, out)
			}()
			return true
		})
		if c.answer != "" {
			go func() {
				io.ReadFull(server, make([]byte, 3))
				io.WriteString(server, c.answer)
			}()
		}
		written, got, err := turn.take("ask", holder)
		<-ended
		if written != c.written || got != c.answer || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %d bytes written, %q, %v", name, written, got, err)
		}
		if c.before != nil && held.Begin() {
			t.Errorf("%s: it is sent afterwards", name)
		}
		if c.err == nil && c.answer == "" { // the rest is written otherwise, and the answer awaited
			io.WriteString(server, "late")
			if n, err := client.Read(turn.in); string(turn.in[:n]) != "late" || err != nil {
				t.Errorf("%s: %q, %v", name, turn.in[:n], err)
			}
		}
	}
}

// A connection must not be closed while a Holder has the request: that would be sent on the next
// connection that has the descriptor's number. Builds with the race detector, with which the tests of
// package proxy run, find who closes it.
func TestTurnIsNotClosedByOthers(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("only builds with the race detector check that")
	}
	client, turn, _ := turnPair(t)
	holder := holderFunc(func(h *engine.Held, out []byte) bool {
		h.Wait()
		go client.Close()
		return true
	})
	defer func() {
		if recover() == nil {
			t.Error("nothing has found it")
		}
	}()
	turn.take("ask", holder)
}
