package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/tools/bench/internal/peers"
)

// The servers of the end-to-end cases.
const (
	serverRaw = "raw" // sends constant bytes for each end of a head
	serverOwn = "own" // that of the client's library, with its defaults
)

const (
	responseBody = peers.Body
	response     = "HTTP/1.1 200 OK\r\nServer: raw\r\nDate: Sat, 21 Nov 2026 12:00:00 GMT\r\n" +
		"Content-Type: text/plain\r\nContent-Length: 13\r\n\r\n" + responseBody
)

var headEnd = []byte("\r\n\r\n")

// A site is what the clients of a case connect to.
type site struct {
	dial func() (net.Conn, error)
	stop func() error
}

// open starts the server of a scenario for a client; all clients may use one
// that is not their own.
func (s scenario) open(client string) (site, error) {
	if s.server == "" {
		return site{
			dial: func() (net.Conn, error) { return newFastConn(), nil },
			stop: func() error { return nil },
		}, nil
	}
	ln, dial, err := s.listen()
	if err != nil {
		return site{}, err
	}
	if s.server == serverRaw {
		go serveRaw(ln)
		return site{dial, ln.Close}, nil
	}
	serve, shutdown, err := ownServer(client)
	if err != nil {
		return site{}, err
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	return site{dial, func() error {
		err := shutdown()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}}, nil
}

// ownServer returns a client's server, with the handler that it has in all
// comparisons. Idle connections stay open as long as the clients keep them.
func ownServer(client string) (serve func(net.Listener) error, shutdown func() error, err error) {
	switch client {
	case sluiceName:
		handler, err := peers.SluiceHandler(peers.Options{})
		s := &sluice.Server{IdleTimeout: idleTime, Handler: handler}
		return s.Serve, s.Shutdown, err
	case fasthttpName:
		handler, err := peers.FastHTTPHandler(peers.Options{})
		s := &fasthttp.Server{IdleTimeout: idleTime, Handler: handler}
		return s.Serve, s.Shutdown, err
	}
	handler, err := peers.NetHTTPHandler(peers.Options{})
	s := &http.Server{IdleTimeout: idleTime, Handler: handler}
	return s.Serve, s.Close, err
}

func (s scenario) listen() (net.Listener, func() (net.Conn, error), error) {
	if !s.isTCP {
		ln := fasthttputil.NewInmemoryListener()
		return ln, ln.Dial, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	addr := ln.Addr().String()
	return ln, func() (net.Conn, error) { return net.Dial("tcp", addr) }, nil
}

// serveRaw answers whatever comes on the listener's connections until it is
// closed.
func serveRaw(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go answerRaw(conn)
	}
}

// rawBatch is how many answers are written at once.
const rawBatch = 256

// answerRaw writes the response once for each head without a body, until the
// client closes the connection. Answers to heads that came at once are written
// at once.
func answerRaw(conn net.Conn) {
	defer conn.Close()
	answers := bytes.Repeat([]byte(response), rawBatch)
	buf := make([]byte, 16<<10)
	for kept := 0; ; {
		n, err := conn.Read(buf[kept:])
		if err != nil {
			return
		}
		in := buf[:kept+n]
		for heads := bytes.Count(in, headEnd); heads > 0; {
			batch := min(heads, rawBatch)
			if _, err := conn.Write(answers[:batch*len(response)]); err != nil {
				return
			}
			heads -= batch
		}
		if at := bytes.LastIndex(in, headEnd); at >= 0 {
			in = in[at+len(headEnd):]
		}
		if kept = copy(buf, in); kept == len(buf) {
			return // no head is that large
		}
	}
}

// fastConn is a connection whose requests are answered as they are written.
type fastConn struct {
	pending atomic.Int64 // responses that Read has not begun
	rest    string       // of a response; Read's
	asleep  atomic.Bool  // Read waits, or is about to
	wake    chan struct{}
	closed  atomic.Bool
}

func newFastConn() *fastConn { return &fastConn{wake: make(chan struct{}, 1)} }

// Write takes one request.
func (c *fastConn) Write(p []byte) (int, error) {
	if !bytes.HasSuffix(p, headEnd) {
		return 0, fmt.Errorf("not one request in one Write: %q", p)
	}
	c.pending.Add(1)
	c.rouse()
	return len(p), nil
}

func (c *fastConn) rouse() {
	if c.asleep.CompareAndSwap(true, false) {
		c.wake <- struct{}{}
	}
}

// Read waits for a request: net/http reads before it has written one.
func (c *fastConn) Read(p []byte) (int, error) {
	for c.rest == "" {
		switch {
		case c.closed.Load():
			return 0, net.ErrClosed
		case c.pending.Load() > 0:
			c.pending.Add(-1)
			c.rest = response
		default:
			c.sleep()
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// sleep waits for rouse, unless there is something to do by now.
func (c *fastConn) sleep() {
	c.asleep.Store(true)
	if (c.pending.Load() > 0 || c.closed.Load()) && c.asleep.CompareAndSwap(true, false) {
		return
	}
	<-c.wake
}

// Close ends a Read that waits.
func (c *fastConn) Close() error {
	c.closed.Store(true)
	c.rouse()
	return nil
}

// LocalAddr returns a fixed address.
func (*fastConn) LocalAddr() net.Addr { return fastAddr{} }

// RemoteAddr returns a fixed address.
func (*fastConn) RemoteAddr() net.Addr { return fastAddr{} }

// SetDeadline does nothing.
func (*fastConn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (*fastConn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (*fastConn) SetWriteDeadline(time.Time) error { return nil }

type fastAddr struct{}

func (fastAddr) Network() string { return "fast" }
func (fastAddr) String() string  { return "fast" }
