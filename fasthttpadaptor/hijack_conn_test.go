package fasthttpadaptor

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A scriptedConn is a net.Conn whose Read and Write block until a deadline in the
// past is set.
type scriptedConn struct {
	net.Conn // nil: other calls are not made
	entered  chan struct{}
	moved    int // the result of an interrupted call

	mu          sync.Mutex
	interrupted chan struct{}
	readBy      []time.Time
	writeBy     []time.Time
	written     string
	isClosed    bool
}

var past = time.Unix(1, 0)

func newScriptedConn(moved int) *scriptedConn {
	return &scriptedConn{entered: make(chan struct{}, 1), moved: moved, interrupted: make(chan struct{})}
}

func (c *scriptedConn) wait() {
	c.entered <- struct{}{}
	<-c.interrupted
}

func (c *scriptedConn) Read(p []byte) (int, error) {
	c.wait()
	return copy(p, "abcdef"[:c.moved]), os.ErrDeadlineExceeded
}

func (c *scriptedConn) Write(p []byte) (int, error) {
	c.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(c.moved, len(p))
	c.written += string(p[:n])
	return n, os.ErrDeadlineExceeded
}

func (c *scriptedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readBy = append(c.readBy, t)
	return nil
}

func (c *scriptedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeBy = append(c.writeBy, t)
	return nil
}

func (c *scriptedConn) SetDeadline(t time.Time) error {
	if !t.After(past) {
		close(c.interrupted)
	}
	return nil
}

func (c *scriptedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isClosed = true
	return nil
}

func (c *scriptedConn) LocalAddr() net.Addr  { return &net.IPAddr{Zone: "local"} }
func (c *scriptedConn) RemoteAddr() net.Addr { return &net.IPAddr{Zone: "remote"} }

// steadyConn is a net.Conn whose calls return at once.
type steadyConn struct{ *scriptedConn }

func (c steadyConn) Read(p []byte) (int, error) { return copy(p, "later"), nil }

func (c steadyConn) Write(p []byte) (int, error) {
	c.written += string(p)
	return len(p), nil
}

func hijackedFrom(inner net.Conn) *hijackedConn {
	c := &hijackedConn{inner: inner, closed: make(chan struct{})}
	c.changed.L = &c.mu
	return c
}

// handOver ends the handler and gives c its second connection, until the test ends.
func handOver(t *testing.T, c *hijackedConn, next net.Conn) {
	c.pause()
	served := make(chan struct{})
	go func() {
		defer close(served)
		c.serve(next)
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-served
	})
}

// A read that the handler's end interrupts continues on the other connection, and
// loses nothing.
func TestReadOverTheHandlersEnd(t *testing.T) {
	for moved, want := range map[int]string{0: "later", 3: "abc"} {
		synctest.Test(t, func(t *testing.T) {
			before := newScriptedConn(moved)
			c := hijackedFrom(before)
			got := make(chan string, 1)
			go func() {
				p := make([]byte, 10)
				n, err := c.Read(p)
				if err != nil {
					t.Error(err)
				}
				got <- string(p[:n])
			}()
			<-before.entered
			handOver(t, c, steadyConn{newScriptedConn(0)})
			if text := <-got; text != want {
				t.Errorf("interrupted after %d bytes: read %q, want %q", moved, text, want)
			}
		})
	}
}

// A write that the handler's end interrupts sends each byte once.
func TestWriteOverTheHandlersEnd(t *testing.T) {
	for _, moved := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			before, after := newScriptedConn(moved), steadyConn{newScriptedConn(0)}
			c := hijackedFrom(before)
			written := make(chan int, 1)
			go func() {
				n, err := c.Write([]byte("abcdef"))
				if err != nil {
					t.Error(err)
				}
				written <- n
			}()
			<-before.entered
			handOver(t, c, after)
			if n := <-written; n != 6 || before.written+after.written != "abcdef" || len(before.written) != moved {
				t.Errorf("wrote %d: %q, then %q", n, before.written, after.written)
			}
		})
	}
}

// Unlike the handler's end, a deadline of the user ends a call.
func TestDeadlineEndsACall(t *testing.T) {
	before := newScriptedConn(0)
	c := hijackedFrom(before)
	close(before.interrupted)
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %d, %v", n, err)
	}
	<-before.entered
	if n, err := c.Write([]byte("a")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %d, %v", n, err)
	}
}

// Each deadline is set on the current connection and on the one that follows, and
// nowhere else.
func TestDeadlinesOverTheHandlersEnd(t *testing.T) {
	at := time.Unix(2e9, 0)
	for name, c := range map[string]struct {
		set         func(*hijackedConn) error
		read, write bool
	}{
		"read":  {func(c *hijackedConn) error { return c.SetReadDeadline(at) }, true, false},
		"write": {func(c *hijackedConn) error { return c.SetWriteDeadline(at) }, false, true},
		"both":  {func(c *hijackedConn) error { return c.SetDeadline(at) }, true, true},
		"none":  {func(*hijackedConn) error { return nil }, false, false},
	} {
		for _, isPaused := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				before, after := newScriptedConn(0), newScriptedConn(0)
				conn := hijackedFrom(before)
				if isPaused {
					conn.pause()
				}
				if err := c.set(conn); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				handOver(t, conn, after)
				synctest.Wait()
				check := func(what string, isSet bool, got []time.Time) {
					t.Helper()
					if isSet != (len(got) == 1 && got[0].Equal(at)) || !isSet && len(got) != 0 {
						t.Errorf("%s deadline, paused %v: %s got %v", name, isPaused, what, got)
					}
				}
				check("the first's reads", c.read && !isPaused, before.readBy)
				check("the first's writes", c.write && !isPaused, before.writeBy)
				check("the second's reads", c.read, after.readBy)
				check("the second's writes", c.write, after.writeBy)
			})
		}
	}
}

// failingConn cannot set deadlines.
type failingConn struct{ net.Conn }

func (failingConn) SetReadDeadline(time.Time) error  { return io.ErrNoProgress }
func (failingConn) SetWriteDeadline(time.Time) error { return io.ErrShortWrite }

func TestErrorsOfDeadlines(t *testing.T) {
	c := hijackedFrom(failingConn{})
	err := c.SetDeadline(past)
	if !errors.Is(err, io.ErrNoProgress) || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got %v", err)
	}
}

// After Close every call fails. The connection is closed at once or, between the two
// connections, when the second one arrives.
func TestClosedHijackedConn(t *testing.T) {
	for name, isPaused := range map[string]bool{"at once": false, "between": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { closeHijackedConn(t, isPaused) }) })
	}
}

func closeHijackedConn(t *testing.T, isPaused bool) {
	before, after := newScriptedConn(0), newScriptedConn(0)
	c := hijackedFrom(before)
	waiting := make(chan error, 1)
	if isPaused {
		c.pause()
		go func() {
			_, err := c.Read(nil)
			waiting <- err
		}()
		synctest.Wait()
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if isPaused {
		if err := <-waiting; err != net.ErrClosed {
			t.Errorf("a Read that waits: %v", err)
		}
	}
	_, readErr := c.Read(nil)
	_, writeErr := c.Write(nil)
	for what, err := range map[string]error{"Read": readErr, "Write": writeErr, "Close": c.Close(), "SetDeadline": c.SetDeadline(past)} {
		if err != net.ErrClosed {
			t.Errorf("%s: %v", what, err)
		}
	}
	if before.isClosed == isPaused || len(before.readBy) > 0 {
		t.Errorf("the first is closed: %v", before.isClosed)
	}
	if !isPaused {
		c.pause()
	}
	c.serve(after) // returns at once
	if !after.isClosed || len(after.readBy) > 0 {
		t.Errorf("the second is closed: %v", after.isClosed)
	}
	if !c.mu.TryLock() {
		t.Error("serve keeps the lock")
	}
}

// The handler's end does not disturb an unused connection, and does not wait.
func TestPauseOfAnIdleConn(t *testing.T) {
	before := newScriptedConn(0)
	c := hijackedFrom(before)
	c.pause()
	select {
	case <-before.interrupted:
		t.Error("interrupted")
	default:
	}
	if c.users != 0 || !c.isPaused {
		t.Errorf("%d users, paused %v", c.users, c.isPaused)
	}
}

func TestAddressesOfAHijackedConn(t *testing.T) {
	c := hijackedFrom(newScriptedConn(0))
	for range 2 {
		if got := c.LocalAddr().String() + c.RemoteAddr().String(); got != "%local%remote" {
			t.Errorf("got %s", got)
		}
	}
}
