package sluice_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// shutdown has s shut down in the background.
func shutdown(s *sluice.Server) <-chan error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown() }()
	return stopped
}

// refusesConnections waits until nobody accepts any more, which says that a
// Shutdown is under way.
func (r *rig) refusesConnections() {
	r.t.Helper()
	eventually(r.t, "the listener is closed", func() bool {
		c, err := r.connect()
		if err != nil {
			return true
		}
		c.Close()
		return false
	})
}

func TestShutdownIdle(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		r := serve(t, n, &sluice.Server{Handler: answering("x")})
		fresh, used := r.dial(), r.dial()
		used.get("/")
		eventually(t, "both are accepted", func() bool { return r.server.GetOpenConnectionsCount() == 2 })
		if err := receive(t, shutdown(r.server)); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if got := fresh.rest() + used.rest(); got != "" {
			t.Errorf("idle connections got %q", got)
		}
		if err := receive(t, r.served); err != nil {
			t.Errorf("Serve: %v", err)
		}
		r.served = nil
	})
}

// TestShutdownWaits for requests in hand, whatever state they are in.
func TestShutdownWaits(t *testing.T) {
	const (
		head = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
		body = "hello"
	)
	tests := []struct {
		name, before, interim, after string
	}{
		{"partial head", head, "", "\r\n" + body},
		{"partial body", head + "\r\nhel", "", "lo"},
		{"between head and body", head + "Expect: 100-continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", body},
		{"partial chunk", request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhel", "", "lo\r\n0\r\n\r\n"},
	}
	onEachNetwork(t, func(t *testing.T, n network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				active := make(chan struct{}, 4)
				r := serve(t, n, &sluice.Server{Handler: bodySize, ConnState: func(_ net.Conn, s sluice.ConnState) {
					if s == sluice.StateActive {
						active <- struct{}{}
					}
				}})
				p := r.dial()
				p.send(test.before)
				receive(t, active)
				p.expect(test.interim)
				stopped := shutdown(r.server)
				r.refusesConnections()
				select {
				case err := <-stopped:
					t.Fatalf("Shutdown did not wait: %v", err)
				case <-time.After(briefly / 4):
				}
				p.send(test.after)
				if a := p.answer("POST"); a.body != "5" || !a.Close {
					t.Errorf("answered %q, close=%v", a.body, a.Close)
				}
				p.expectEnd()
				if err := receive(t, stopped); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			})
		}
	})
}

func TestShutdownDuringHandler(t *testing.T) {
	t.Parallel() // it mostly waits
	onEachNetwork(t, func(t *testing.T, n network) {
		inHandler, leave := make(chan struct{}), make(chan struct{})
		r := serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			inHandler <- struct{}{}
			<-leave
			if string(ctx.Path()) == "/stream" {
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					w.WriteString("a")
					w.Flush()
					inHandler <- struct{}{}
					<-leave
					w.WriteString("b")
				})
			}
		}})
		plain, stream := r.dial(), r.dial()
		plain.send(get("/") + get("/never"))
		receive(t, inHandler)
		stream.send(get("/stream"))
		receive(t, inHandler)
		stopped := shutdown(r.server)
		r.refusesConnections()
		leave <- struct{}{}
		leave <- struct{}{}
		receive(t, inHandler) // the stream writer
		if a := plain.answer("GET"); !a.Close {
			t.Error("the answer does not say that it is the last one")
		}
		plain.rest()
		select {
		case err := <-stopped:
			t.Fatalf("Shutdown did not wait for the stream: %v", err)
		case <-time.After(briefly / 4):
		}
		leave <- struct{}{}
		if a := stream.answer("GET"); a.body != "ab" || !a.Close {
			t.Errorf("the stream is %q, close=%v", a.body, a.Close)
		}
		if err := receive(t, stopped); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TestShutdownWithContext gives up waiting, and closes what is left.
func TestShutdownWithContext(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		inHandler, leave := make(chan struct{}), make(chan struct{})
		r := serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			inHandler <- struct{}{}
			<-leave
		}})
		p, partial := r.dial(), r.dial()
		p.send(get("/"))
		receive(t, inHandler)
		partial.send("GET / HT")
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		go func() { stopped <- r.server.ShutdownWithContext(ctx) }()
		r.refusesConnections()
		cancel()
		if err := receive(t, stopped); err != context.Canceled {
			t.Errorf("Shutdown: %v", err)
		}
		if got := p.rest() + partial.rest(); got != "" {
			t.Errorf("killed connections got %q", got)
		}
		close(leave)
		// A further Shutdown finds nothing to do.
		if err := r.server.Shutdown(); err != nil {
			t.Errorf("second Shutdown: %v", err)
		}
	})
}

// TestServeAfterShutdown: the server begins anew.
func TestServeAfterShutdown(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if ctx.Err() != nil {
				t.Errorf("a new request is cancelled: %v", ctx.Err())
			}
			ctx.WriteString("x")
		}}
		if err := s.Shutdown(); err != nil {
			t.Errorf("Shutdown before serving: %v", err)
		}
		for range 3 {
			r := serve(t, n, s)
			p := r.dial()
			for range 2 {
				if a := p.get("/"); a.body != "x" || a.Close {
					t.Errorf("answered %q, close=%v", a.body, a.Close)
				}
			}
			r.stop()
		}
	})
}

// TestShutdownOfSeveralListeners ends all of them.
func TestShutdownOfSeveralListeners(t *testing.T) {
	s := &sluice.Server{Handler: answering("x")}
	one, two := serve(t, overTCP(), s), serve(t, inMemory(), s)
	one.dial().get("/")
	two.dial().get("/")
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	for _, r := range []*rig{one, two} {
		if err := receive(t, r.served); err != nil {
			t.Error(err)
		}
		r.served = nil
		if c, err := r.connect(); err == nil {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("a connection is served after Shutdown")
			}
			c.Close()
		}
	}
}

// TestShutdownConcurrently: all callers wait for the same end.
func TestShutdownConcurrently(t *testing.T) {
	inHandler, leave := make(chan struct{}), make(chan struct{})
	r := serve(t, overTCP(), &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }})
	p := r.dial()
	p.send(get("/"))
	receive(t, inHandler)
	first := shutdown(r.server)
	r.refusesConnections()
	second := shutdown(r.server)
	close(leave)
	for _, stopped := range []<-chan error{first, second} {
		if err := receive(t, stopped); err != nil {
			t.Error(err)
		}
	}
	p.rest()
}

// TestShutdownWaitsForAnother: while one Shutdown waits, others don't tell that
// the server has ended. Each has a context of its own.
func TestShutdownWaitsForAnother(t *testing.T) {
	for _, n := range append(overTCPByEach(), inMemory()) {
		t.Run(n.name, func(t *testing.T) {
			inHandler, leave := make(chan struct{}), make(chan struct{})
			r := serve(t, n, &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }})
			r.dial().send(get("/"))
			receive(t, inHandler)
			first := shutdown(r.server)
			receive(t, r.served)
			r.served = nil
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			for range 2 { // also when the connections were closed
				if err := r.server.ShutdownWithContext(ended); !errors.Is(err, context.Canceled) {
					t.Errorf("Shutdown returned %v while a handler runs", err)
				}
			}
			close(leave)
			if err := receive(t, first); err != nil {
				t.Error(err)
			}
			if err := r.server.ShutdownWithContext(ended); err != nil {
				t.Errorf("there is nothing to wait for any more: %v", err)
			}
		})
	}
}

// TestShutdownOfSeveralRuns: a Shutdown waits for what an earlier one has left
// running, and ends what the server has served since.
func TestShutdownOfSeveralRuns(t *testing.T) {
	inHandler, leave := make(chan struct{}), make(chan struct{})
	s := &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 {
		ln := fasthttputil.NewInmemoryListener()
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		c, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		newPeer(t, c).send(get("/"))
		receive(t, inHandler)
		if err := s.ShutdownWithContext(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown returned %v while a handler runs", err)
		}
		if err := receive(t, served); err != nil {
			t.Error(err)
		}
	}
	close(leave)
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
}

// TestCloseOnNextResponse moves clients away without an error.
func TestCloseOnNextResponse(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		r := serve(t, n, &sluice.Server{Handler: answering("x")})
		p := r.dial()
		if a := p.get("/"); a.Close {
			t.Error("closed before it was asked to")
		}
		r.server.Control().CloseOnNextResponse()
		if a := p.get("/"); a.body != "x" || !a.Close {
			t.Errorf("answered %q, close=%v", a.body, a.Close)
		}
		p.expectEnd()
		if a := r.dial().get("/"); !a.Close {
			t.Error("a new connection is kept")
		}
	})
}

// TestListenerFails: Serve returns what the listener failed with.
func TestListenerFails(t *testing.T) {
	for _, failure := range []error{
		errors.New("cable was cut"),
		errors.New("proxy protocol: upstream closed the stream before its header"),
	} {
		s := &sluice.Server{Handler: answering("x"), Logger: &logBook{}}
		if err := s.Serve(failingListener{failure}); err != failure {
			t.Errorf("Serve returned %v", err)
		}
	}
}

type failingListener struct{ err error }

func (l failingListener) Accept() (net.Conn, error) { return nil, l.err }
func (failingListener) Close() error                { return nil }
func (failingListener) Addr() net.Addr              { return &net.TCPAddr{} }

// TestListenerClosedByOwner ends Serve without an error; connections go on.
func TestListenerClosedByOwner(t *testing.T) {
	onEachNetwork(t, func(t *testing.T, n network) {
		r := serve(t, n, &sluice.Server{Handler: answering("x")})
		p := r.dial()
		p.get("/")
		r.ln.Close()
		if err := receive(t, r.served); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		r.served = nil
		if a := p.get("/"); a.body != "x" {
			t.Errorf("answered %q", a.body)
		}
		if err := r.server.Shutdown(); err != nil {
			t.Error(err)
		}
		p.expectEnd()
	})
}

// TestShutdownUnderLoad: every request that was accepted is answered.
func TestShutdownUnderLoad(t *testing.T) {
	r := serve(t, overTCP(), &sluice.Server{Handler: answering("x")})
	const clients = 8
	began, finished := make(chan struct{}, clients), make(chan string, clients)
	for range clients {
		c, err := r.connect()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer c.Close()
			p := newPeer(t, c)
			for i := 0; ; i++ {
				if i == 1 {
					began <- struct{}{}
				}
				if _, err := io.WriteString(c, get("/")); err != nil {
					finished <- ""
					return
				}
				line, err := p.r.ReadString('\n')
				if err != nil {
					if ne, ok := err.(net.Error); ok && ne.Timeout() || line != "" {
						finished <- "half an answer: " + line
						return
					}
					finished <- "" // closed between two requests
					return
				}
				for rest := ""; !strings.HasSuffix(rest, "\r\n\r\nx"); {
					b, err := p.r.ReadByte()
					if err != nil {
						finished <- "half an answer: " + line + rest
						return
					}
					rest += string(b)
				}
			}
		}()
	}
	for range clients {
		receive(t, began)
	}
	if err := r.server.Shutdown(); err != nil {
		t.Error(err)
	}
	for range clients {
		if problem := receive(t, finished); problem != "" {
			t.Error(problem)
		}
	}
}
