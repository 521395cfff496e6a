package client_test

import (
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// clientPatience bounds what tests of clients wait for. It is only reached when
// a test fails.
const clientPatience = 15 * time.Second

// uploadSize is the size of bodies during which clients look for the answer (watchedBody).
const uploadSize = 64 << 10

// answering is a script that answers each request with raw.
func answering(raw string) func(c *harness.PeerConn) {
	return func(c *harness.PeerConn) {
		for c.Request() != nil {
			c.Send(raw)
		}
	}
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(clientPatience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// within runs f and fails if that takes too long.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(clientPatience):
		buf := make([]byte, 1<<18)
		t.Fatalf("%s hangs:\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// checkPool fails if the pool does not come to have as many connections.
func checkPool(t testing.TB, c *sluice.HostClient, open, idle int) {
	t.Helper()
	eventually(t, "the pool's counts", func() bool { return c.ConnsCount() == open && c.IdleConnsCount() == idle })
}

// hookedConn is a connection of a client that tests look into.
type hookedConn struct {
	net.Conn
	mu            sync.Mutex
	readDeadline  time.Time
	writeDeadline time.Time
	afterRead     func(p []byte)
	onWrite       func(c *hookedConn, p []byte) (n int, err error, isDone bool)
	onDeadline    func()
}

func (c *hookedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.afterRead != nil {
		c.afterRead(p[:n])
	}
	return n, err
}

func (c *hookedConn) Write(p []byte) (int, error) {
	if c.onWrite != nil {
		if n, err, isDone := c.onWrite(c, p); isDone {
			return n, err
		}
	}
	return c.Conn.Write(p)
}

func (c *hookedConn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	c.readDeadline, c.writeDeadline = at, at
	c.mu.Unlock()
	return c.Conn.SetDeadline(at)
}

func (c *hookedConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	c.readDeadline = at
	c.mu.Unlock()
	err := c.Conn.SetReadDeadline(at)
	if c.onDeadline != nil {
		c.onDeadline()
	}
	return err
}

func (c *hookedConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	c.writeDeadline = at
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(at)
}

// deadlines returns those that are set.
func (c *hookedConn) deadlines() (read, write time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.readDeadline, c.writeDeadline
}

// hooked makes a client's connections hookedConns.
func hooked(c *sluice.HostClient, hook func(c *hookedConn)) {
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		h := &hookedConn{Conn: nc}
		if hook != nil {
			hook(h)
		}
		return h, nil
	}
}

// waiting returns how many calls wait in the queue of a pool of HTTP/1.1.
func waiting() int { return waitingIn("(*Pool[...])") }

// waitingForStreams returns how many calls wait in the queue of a pool of HTTP/2.
func waitingForStreams() int { return waitingIn("(*Shared[...])") }

func waitingIn(pool string) (n int) {
	stacks := make([]byte, 1<<20)
	for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		state, frames, _ := strings.Cut(one, "\n")
		if strings.Contains(state, "[select") && strings.HasPrefix(frames, "github.com/sluicehttp/sluice/internal/client/pool."+pool+".Wait(") {
			n++
		}
	}
	return n
}

// stackShows reports whether a goroutine is in all of the given functions or
// states.
func stackShows(parts ...string) bool {
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(g, part)
		}
		if all {
			return true
		}
	}
	return false
}

// What the times of internal/client/http1 are.
const (
	refusalTime  = time.Second
	refusalGrace = 100 * time.Millisecond
)

// A textError is an error that is not exported, by its text.
type textError string

func (e textError) Error() string { return string(e) }

// isError reports whether err is want, or contains it if that is a textError.
func isError(err, want error) bool {
	if text, ok := want.(textError); ok {
		return err != nil && strings.Contains(err.Error(), string(text))
	}
	return errors.Is(err, want)
}
