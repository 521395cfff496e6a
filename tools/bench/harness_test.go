package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A scenario says what clients send.
type scenario struct {
	request  string
	bodySize int // of the request
	perConn  int // requests on a connection before the client closes it
	depth    int // requests sent at once (pipelining)

	// clients is the number of connections. 0: one per P, which answer the
	// server's Read at once. Otherwise as many goroutines that wait for the
	// answer before they send the next batch, as real clients do.
	clients int
}

// run serves b.N requests of the scenario with a server of the kind and checks
// that exactly b.N good responses came back. The harness itself allocates only
// before the clock starts.
func (s scenario) run(b *testing.B, kind string) {
	server, err := newServer(kind, s.bodySize)
	if err != nil {
		b.Fatal(err)
	}
	h := newHarness(s, b.N)
	served := make(chan error, 1)
	b.ReportAllocs()
	b.ResetTimer()
	go func() { served <- server.Serve(h) }()
	h.start()
	<-h.finished
	b.StopTimer()
	h.Close()
	if err := <-served; err != nil && err != io.EOF {
		b.Errorf("Serve: %v", err)
	}
	if h.err != nil {
		b.Fatal(h.err)
	}
	if n := h.responses.Load(); n != int64(b.N) {
		b.Fatalf("%d responses to %d requests", n, b.N)
	}
}

// A harness is an in-memory listener and the clients behind it.
type harness struct {
	scenario
	batch    []byte       // depth requests
	left     atomic.Int64 // requests that no connection has taken yet
	expected int64

	accepts chan *conn    // connections for Accept to take
	begin   chan struct{} // closed to let the clients go
	closing chan struct{} // closed by Close
	close   sync.Once

	responses atomic.Int64
	finished  chan struct{} // closed with the last response or the first error
	finish    sync.Once
	err       error // set before finished is closed
}

func newHarness(s scenario, requests int) *harness {
	h := &harness{
		scenario: s,
		batch:    bytes.Repeat([]byte(s.request), s.depth),
		expected: int64(requests),
		begin:    make(chan struct{}),
		closing:  make(chan struct{}),
		finished: make(chan struct{}),
	}
	h.left.Store(int64(requests))
	n := max(s.clients, runtime.GOMAXPROCS(0))
	if s.clients > 0 {
		n = min(n, (requests+s.perConn-1)/s.perConn) // more would find nothing to do
	}
	h.accepts = make(chan *conn, n)
	for range n {
		c := newConn(h)
		if s.clients == 0 {
			h.accepts <- c
			continue
		}
		go c.client()
	}
	return h
}

// start lets waiting clients go.
func (h *harness) start() { close(h.begin) }

// take returns how many requests the next connection sends.
func (h *harness) take() int {
	for {
		left := h.left.Load()
		n := min(left, int64(h.perConn))
		if n == 0 || h.left.CompareAndSwap(left, left-n) {
			return int(n)
		}
	}
}

// done counts the responses of a connection that has ended.
func (h *harness) done(responses int) {
	if h.responses.Add(int64(responses)) == h.expected {
		h.finish.Do(func() { close(h.finished) })
	}
}

func (h *harness) fail(err error) {
	h.finish.Do(func() {
		h.err = err
		close(h.finished)
	})
}

// Accept returns the next connection, or waits for Close when all requests are
// taken.
func (h *harness) Accept() (net.Conn, error) {
	for {
		select {
		case c := <-h.accepts:
			if h.clients > 0 {
				return c, nil // its client has taken its requests
			}
			if n := h.take(); n > 0 {
				c.open(n)
				return c, nil
			}
		case <-h.closing:
			return nil, io.EOF
		}
	}
}

// Close ends Accept. Both the benchmark and the server call it.
func (h *harness) Close() error {
	h.close.Do(func() { close(h.closing) })
	return nil
}

// Addr returns a fixed address.
func (h *harness) Addr() net.Addr { return address }

var address net.Addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}

// A conn is the server's end of a connection, used for one after the other.
type conn struct {
	h *harness

	// Input. Only Read and open touch these.
	unread  []byte // of the batch in hand
	left    int    // requests that Read has not handed out; not used with a waiting client
	ended   bool   // the client has closed its end
	request int    // requests that the server is due to answer

	// Output. Only Write and open touch these.
	counter  responseCounter
	answered int

	closed atomic.Bool

	// With a waiting client:
	sent     chan int      // sizes of batches; 0: the client closes
	answers  chan int      // responses in a Write
	shut     chan struct{} // the server closed
	deadline chan struct{} // holds a token while the read deadline is in the past
}

func newConn(h *harness) *conn {
	c := &conn{h: h}
	c.counter.first = make([]byte, 0, 512)
	if h.clients > 0 {
		c.sent = make(chan int, 1)
		c.answers = make(chan int, h.depth)
		c.shut = make(chan struct{}, 1)
		c.deadline = make(chan struct{}, 1)
	}
	return c
}

// open makes c a new connection on which n requests will be sent.
func (c *conn) open(n int) {
	c.unread, c.left, c.request, c.answered, c.ended = nil, n, n, 0, false
	c.closed.Store(false)
}

// client is a waiting client's life: connection after connection until all
// requests are taken.
func (c *conn) client() {
	<-c.h.begin
	for {
		n := c.h.take()
		if n == 0 {
			return
		}
		c.open(n)
		c.h.accepts <- c
		for n > 0 {
			k := min(n, c.h.depth)
			c.sent <- k
			if !c.wait(k) {
				return
			}
			n -= k
		}
		c.sent <- 0
		<-c.shut
	}
}

// wait waits for k responses. It returns false if the server closed instead.
func (c *conn) wait(k int) bool {
	for k > 0 {
		select {
		case n := <-c.answers:
			k -= n
		case <-c.shut:
			c.h.fail(fmt.Errorf("the server closed while %d responses were due", k))
			return false
		}
	}
	return true
}

// Read hands out the next batch, or what of it did not fit before.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.unread) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

// next makes the next batch the unread input.
func (c *conn) next() error {
	if c.ended {
		return io.EOF
	}
	k := min(c.left, c.h.depth)
	if c.sent != nil {
		select {
		case k = <-c.sent:
		case <-c.deadline:
			c.deadline <- struct{}{} // until SetReadDeadline takes it back
			return errDeadline
		}
	} else {
		c.left -= k
	}
	if k == 0 {
		c.ended = true
		return io.EOF
	}
	c.unread = c.h.batch[:k*len(c.h.scenario.request)]
	return nil
}

// Write counts and checks responses.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.counter.add(p)
	if err != nil {
		c.h.fail(err)
		return 0, err
	}
	c.answered += n
	if n > 0 && c.answers != nil {
		c.answers <- n
	}
	return len(p), nil
}

// Close gives the connection back for the next one.
func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if c.answered != c.request {
		c.h.fail(fmt.Errorf("the server closed after %d responses to %d requests", c.answered, c.request))
	}
	c.h.done(c.answered)
	if c.shut != nil {
		c.shut <- struct{}{}
	} else {
		c.h.accepts <- c
	}
	return nil
}

// SetReadDeadline knows two deadlines, past and none: net/http sets the first
// to end a Read that it runs in the background.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.deadline == nil {
		return nil // Read never waits
	}
	past := !t.IsZero() && !t.After(time.Now())
	select {
	case <-c.deadline:
	default:
	}
	if past {
		select {
		case c.deadline <- struct{}{}:
		default:
		}
	}
	return nil
}

// SetDeadline sets the read deadline: Write never waits.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetWriteDeadline does nothing: Write never waits.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr returns a fixed address.
func (c *conn) LocalAddr() net.Addr { return address }

// RemoteAddr returns a fixed address.
func (c *conn) RemoteAddr() net.Addr { return address }

var errDeadline net.Error = deadlineError{}

type deadlineError struct{}

func (deadlineError) Error() string   { return "i/o timeout" }
func (deadlineError) Timeout() bool   { return true }
func (deadlineError) Temporary() bool { return true }
