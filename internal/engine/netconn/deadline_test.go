package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// countingConn counts the calls of SetReadDeadline.
type countingConn struct {
	net.Conn
	set   atomic.Int32
	until time.Time
}

func (c *countingConn) SetReadDeadline(t time.Time) error {
	c.set.Add(1)
	c.until = t
	return c.Conn.SetReadDeadline(t)
}

func TestArmIsLazy(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	nc := &countingConn{Conn: server}
	c := &conn{driver: New(engine.Options{}).(*driver), nc: nc}
	start := clock.Nanos()
	step := func(what string, now int64, timeout time.Duration, wantCalls int32) {
		t.Helper()
		before := nc.set.Load()
		c.SetReadDeadline(start+now, timeout)
		c.armWait()
		if got := nc.set.Load() - before; got != wantCalls {
			t.Errorf("%s: the timer was set %d times, want %d", what, got, wantCalls)
		}
	}
	second := int64(time.Second)
	step("first", 0, 80*time.Second, 1)
	step("a little later", 5*second, 80*time.Second, 0)
	step("an eighth later", 10*second, 80*time.Second, 0)
	step("more than an eighth later", 11*second, 80*time.Second, 1)
	step("a shorter one", 11*second, 5*time.Second, 1)
	step("a much longer one", 12*second, 80*time.Second, 1)
	step("none", 13*second, 0, 0)
	step("the same one", 12*second, 80*time.Second, 0)
	if want := clock.Deadline(start + 92*second); !nc.until.Equal(want) {
		t.Errorf("the timer is set to %v, want %v", nc.until, want)
	}
}

// TestRequestsSetNoTimer: requests in quick succession share one timer.
func TestRequestsSetNoTimer(t *testing.T) {
	var nc *countingConn
	ln := nettest.NewListener()
	ln.Wrap = func(c net.Conn) net.Conn { nc = &countingConn{Conn: c}; return nc }
	serve(t, ln, &deadlineAcceptor{})
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const requests = 500
	for range requests {
		exchange(t, c, []byte("x"))
	}
	if n := nc.set.Load(); n > requests/10 {
		t.Errorf("%d requests set the timer %d times", requests, n)
	}
}

// A deadlineAcceptor sets a deadline of a minute for every request.
type deadlineAcceptor struct {
	lineProtocol
	conn engine.Conn
}

func (a *deadlineAcceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	return &deadlineAcceptor{conn: c}, nil
}

func (a *deadlineAcceptor) Run(out []byte) ([]byte, engine.Next) {
	a.conn.SetReadDeadline(clock.Nanos(), time.Minute)
	return append(out, 'x'), engine.Read
}

// stuckConn says that a deadline has passed, whatever the deadline is.
type stuckConn struct{ net.Conn }

func (stuckConn) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// emptyConn reads nothing, without an error.
type emptyConn struct{ net.Conn }

func (emptyConn) Read([]byte) (int, error) { return 0, nil }

// closedNotes is what Closed got.
type closedNotes struct {
	lineProtocol
	err chan error
}

func (n *closedNotes) Open(engine.Conn) (engine.Protocol, []byte) { return n, nil }
func (n *closedNotes) Closed(err error)                           { n.err <- err }

// TestBrokenConns: connections that break the contract of net.Conn are closed
// instead of being read in a tight loop.
func TestBrokenConns(t *testing.T) {
	for _, test := range []struct {
		name string
		wrap func(net.Conn) net.Conn
		want error
	}{
		{"stuck", func(c net.Conn) net.Conn { return stuckConn{c} }, nil}, // the protocol is told of a time-out
		{"empty", func(c net.Conn) net.Conn { return emptyConn{c} }, io.ErrNoProgress},
	} {
		client, server := net.Pipe()
		notes := &closedNotes{err: make(chan error, 1)}
		e := New(engine.Options{})
		err := e.ServeConn(test.wrap(server), nil, notes)
		if !errors.Is(err, test.want) || !errors.Is(<-notes.err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		_ = client.Close()
	}
}

// panicProtocol breaks the contract of Protocol.
type panicProtocol struct {
	closedNotes
}

func (p *panicProtocol) Open(engine.Conn) (engine.Protocol, []byte) { return p, nil }
func (p *panicProtocol) Run([]byte) ([]byte, engine.Next)           { panic("oh no") }

// TestPanic: a panic ends its connection and nothing else.
func TestPanic(t *testing.T) {
	for _, isWrapped := range []bool{false, true} {
		ln, dial := listenTCP(t)
		if isWrapped {
			ln = wrappingListener{ln}
		}
		p := &panicProtocol{closedNotes{err: make(chan error, 1)}}
		e := serve(t, ln, p)
		for range 20 {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write([]byte("x"))
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("got an answer")
			}
			var pe *engine.PanicError
			if err := <-p.err; !errors.As(err, &pe) || pe.Value != "oh no" {
				t.Errorf("wrapped %v: Closed(%v)", isWrapped, err)
			}
			_ = c.Close()
		}
		for e.Stats().Open > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// TestSparesDeadlines: no deadline is set on a connection unless the protocol has
// one, and connections that wait hold no buffer with ReduceMemory.
func TestSparesDeadlines(t *testing.T) {
	for _, reduces := range []bool{false, true} {
		var nc *countingConn
		ln := nettest.NewListener()
		ln.Wrap = func(c net.Conn) net.Conn { nc = &countingConn{Conn: c}; return nc }
		e := New(engine.Options{SparesDeadlines: true, ReduceMemory: reduces})
		served := make(chan error, 1)
		go func() { served <- e.Serve(ln, &lineAcceptor{}) }()
		c, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		for i := range 10 {
			exchange(t, c, []byte{'?'})
			want := 2
			if reduces {
				want = 0
			}
			eventually(t, "it waits", func() bool {
				loop := e.Loops()[0]
				return loop.IdleWorkers == 1 && loop.Buffers == want
			})
			if n := nc.set.Load(); n != 0 {
				t.Fatalf("round %d: %d deadlines were set", i, n)
			}
		}
		_ = c.Close()
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		_ = ln.Close()
		<-served
	}
}

// A lineAcceptor gives connections a lineProtocol.
type lineAcceptor struct{ lineProtocol }

func (a *lineAcceptor) Open(engine.Conn) (engine.Protocol, []byte) { return &lineProtocol{}, nil }

// A readSignal tells when each Read begins.
type readSignal struct {
	net.Conn
	begun chan struct{}
}

func (c *readSignal) Read(p []byte) (int, error) {
	c.begun <- struct{}{}
	return c.Conn.Read(p)
}

// A lateDeadline reads in Run. Another goroutine of the handler moves its deadline while
// it waits, and is the first to call Blocking.
type lateDeadline struct {
	lineProtocol
	conn  engine.Conn
	begun chan struct{}
	read  chan error
}

func (p *lateDeadline) Open(c engine.Conn) (engine.Protocol, []byte) {
	p.conn = c
	return p, nil
}

func (p *lateDeadline) Run(out []byte) ([]byte, engine.Next) {
	moved := make(chan error, 1)
	go func() {
		<-p.begun
		moved <- p.conn.Blocking().SetReadDeadline(past())
	}()
	_, err := p.conn.Read(make([]byte, 1))
	p.read <- errors.Join(err, <-moved)
	return out, engine.Close
}

// TestDeadlineOfAnotherGoroutine: a read of a Run notices a deadline that is set later.
func TestDeadlineOfAnotherGoroutine(t *testing.T) {
	client, server := net.Pipe()
	begun := make(chan struct{}, 1)
	p := &lateDeadline{begun: begun, read: make(chan error, 1)}
	e := New(engine.Options{SparesDeadlines: true}) // otherwise one that is set for buffers ends the read
	served := make(chan error, 1)
	go func() { served <- e.ServeConn(&readSignal{server, begun}, nil, p) }()
	<-begun // of the wait for input
	if _, err := client.Write([]byte{'?'}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.read:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the read does not notice its deadline")
	}
	_ = client.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
