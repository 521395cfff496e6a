package server_test

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
	"github.com/sluicehttp/sluice/test/harness"
)

func TestShutdownIdle(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: answering("x")})
		fresh, used := r.Dial(), r.Dial()
		used.Get("/")
		harness.Eventually(t, "both are accepted", func() bool { return r.Server.GetOpenConnectionsCount() == 2 })
		if err := harness.Receive(t, harness.Shutdown(r.Server)); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if got := fresh.Rest() + used.Rest(); got != "" {
			t.Errorf("idle connections got %q", got)
		}
		if err := harness.Receive(t, r.Served); err != nil {
			t.Errorf("Serve: %v", err)
		}
		r.Served = nil
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
		{"partial chunk", harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhel", "", "lo\r\n0\r\n\r\n"},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				active := make(chan struct{}, 4)
				r := harness.Serve(t, n, &sluice.Server{Handler: bodySize, ConnState: func(_ net.Conn, s sluice.ConnState) {
					if s == sluice.StateActive {
						active <- struct{}{}
					}
				}})
				p := r.Dial()
				p.Send(test.before)
				harness.Receive(t, active)
				p.Expect(test.interim)
				stopped := harness.Shutdown(r.Server)
				r.RefusesConnections()
				select {
				case err := <-stopped:
					t.Fatalf("Shutdown did not wait: %v", err)
				case <-time.After(harness.Briefly / 4):
				}
				p.Send(test.after)
				if a := p.Answer("POST"); a.Body != "5" || !a.Close {
					t.Errorf("answered %q, close=%v", a.Body, a.Close)
				}
				p.ExpectEnd()
				if err := harness.Receive(t, stopped); err != nil {
					t.Errorf("Shutdown: %v", err)
				}
			})
		}
	})
}

func TestShutdownDuringHandler(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, leave := make(chan struct{}), make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
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
		plain, stream := r.Dial(), r.Dial()
		plain.Send(harness.Get("/") + harness.Get("/never"))
		harness.Receive(t, inHandler)
		stream.Send(harness.Get("/stream"))
		harness.Receive(t, inHandler)
		stopped := harness.Shutdown(r.Server)
		r.RefusesConnections()
		leave <- struct{}{}
		leave <- struct{}{}
		harness.Receive(t, inHandler) // the stream writer
		if a := plain.Answer("GET"); !a.Close {
			t.Error("the answer does not say that it is the last one")
		}
		plain.Rest()
		select {
		case err := <-stopped:
			t.Fatalf("Shutdown did not wait for the stream: %v", err)
		case <-time.After(harness.Briefly / 4):
		}
		leave <- struct{}{}
		if a := stream.Answer("GET"); a.Body != "ab" || !a.Close {
			t.Errorf("the stream is %q, close=%v", a.Body, a.Close)
		}
		if err := harness.Receive(t, stopped); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TestShutdownWithContext gives up waiting, and closes what is left.
func TestShutdownWithContext(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, leave := make(chan struct{}), make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			inHandler <- struct{}{}
			<-leave
		}})
		p, partial := r.Dial(), r.Dial()
		p.Send(harness.Get("/"))
		harness.Receive(t, inHandler)
		partial.Send("GET / HT")
		ctx, cancel := context.WithCancel(context.Background())
		stopped := make(chan error, 1)
		go func() { stopped <- r.Server.ShutdownWithContext(ctx) }()
		r.RefusesConnections()
		cancel()
		if err := harness.Receive(t, stopped); err != context.Canceled {
			t.Errorf("Shutdown: %v", err)
		}
		if got := p.Rest() + partial.Rest(); got != "" {
			t.Errorf("killed connections got %q", got)
		}
		close(leave)
		// A further Shutdown finds nothing to do.
		if err := r.Server.Shutdown(); err != nil {
			t.Errorf("second Shutdown: %v", err)
		}
	})
}

// TestServeAfterShutdown: the server begins anew.
func TestServeAfterShutdown(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
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
			r := harness.Serve(t, n, s)
			p := r.Dial()
			for range 2 {
				if a := p.Get("/"); a.Body != "x" || a.Close {
					t.Errorf("answered %q, close=%v", a.Body, a.Close)
				}
			}
			r.Stop()
		}
	})
}

// TestShutdownOfSeveralListeners ends all of them.
func TestShutdownOfSeveralListeners(t *testing.T) {
	s := &sluice.Server{Handler: answering("x")}
	one, two := harness.Serve(t, harness.OverTCP(), s), harness.Serve(t, harness.InMemory(), s)
	one.Dial().Get("/")
	two.Dial().Get("/")
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	for _, r := range []*harness.Rig{one, two} {
		if err := harness.Receive(t, r.Served); err != nil {
			t.Error(err)
		}
		r.Served = nil
		if c, err := r.Connect(); err == nil {
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
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }})
	p := r.Dial()
	p.Send(harness.Get("/"))
	harness.Receive(t, inHandler)
	first := harness.Shutdown(r.Server)
	r.RefusesConnections()
	second := harness.Shutdown(r.Server)
	close(leave)
	for _, stopped := range []<-chan error{first, second} {
		if err := harness.Receive(t, stopped); err != nil {
			t.Error(err)
		}
	}
	p.Rest()
}

// TestShutdownWaitsForAnother: while one Shutdown waits, others don't tell that
// the server has ended. Each has a context of its own.
func TestShutdownWaitsForAnother(t *testing.T) {
	for _, n := range append(harness.OverTCPByEach(), harness.InMemory()) {
		t.Run(n.Name, func(t *testing.T) {
			inHandler, leave := make(chan struct{}), make(chan struct{})
			r := harness.Serve(t, n, &sluice.Server{Handler: func(*sluice.RequestCtx) { inHandler <- struct{}{}; <-leave }})
			r.Dial().Send(harness.Get("/"))
			harness.Receive(t, inHandler)
			first := harness.Shutdown(r.Server)
			harness.Receive(t, r.Served)
			r.Served = nil
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			for range 2 { // also when the connections were closed
				if err := r.Server.ShutdownWithContext(ended); !errors.Is(err, context.Canceled) {
					t.Errorf("Shutdown returned %v while a handler runs", err)
				}
			}
			close(leave)
			if err := harness.Receive(t, first); err != nil {
				t.Error(err)
			}
			if err := r.Server.ShutdownWithContext(ended); err != nil {
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
		harness.NewPeer(t, c).Send(harness.Get("/"))
		harness.Receive(t, inHandler)
		if err := s.ShutdownWithContext(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown returned %v while a handler runs", err)
		}
		if err := harness.Receive(t, served); err != nil {
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
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: answering("x")})
		p := r.Dial()
		if a := p.Get("/"); a.Close {
			t.Error("closed before it was asked to")
		}
		r.Server.Control().CloseOnNextResponse()
		if a := p.Get("/"); a.Body != "x" || !a.Close {
			t.Errorf("answered %q, close=%v", a.Body, a.Close)
		}
		p.ExpectEnd()
		if a := r.Dial().Get("/"); !a.Close {
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
		s := &sluice.Server{Handler: answering("x"), Logger: &harness.LogBook{}}
		if err := s.Serve(failingListener{failure}); err != failure {
			t.Errorf("Serve returned %v", err)
		}
	}
}

type failingListener struct{ err error }

func (l failingListener) Accept() (net.Conn, error) { return nil, l.err }

func (failingListener) Close() error { return nil }

func (failingListener) Addr() net.Addr { return &net.TCPAddr{} }

// TestListenerClosedByOwner ends Serve without an error; connections go on.
func TestListenerClosedByOwner(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: answering("x")})
		p := r.Dial()
		p.Get("/")
		r.Ln.Close()
		if err := harness.Receive(t, r.Served); err != nil {
			t.Errorf("Serve returned %v", err)
		}
		r.Served = nil
		if a := p.Get("/"); a.Body != "x" {
			t.Errorf("answered %q", a.Body)
		}
		if err := r.Server.Shutdown(); err != nil {
			t.Error(err)
		}
		p.ExpectEnd()
	})
}

// TestShutdownUnderLoad: every request that was accepted is answered.
func TestShutdownUnderLoad(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: answering("x")})
	const clients = 8
	began, finished := make(chan struct{}, clients), make(chan string, clients)
	for range clients {
		c, err := r.Connect()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer c.Close()
			p := harness.NewPeer(t, c)
			for i := 0; ; i++ {
				if i == 1 {
					began <- struct{}{}
				}
				if _, err := io.WriteString(c, harness.Get("/")); err != nil {
					finished <- ""
					return
				}
				line, err := p.R.ReadString('\n')
				if err != nil {
					if ne, ok := err.(net.Error); ok && ne.Timeout() || line != "" {
						finished <- "half an answer: " + line
						return
					}
					finished <- "" // closed between two requests
					return
				}
				for rest := ""; !strings.HasSuffix(rest, "\r\n\r\nx"); {
					b, err := p.R.ReadByte()
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
		harness.Receive(t, began)
	}
	if err := r.Server.Shutdown(); err != nil {
		t.Error(err)
	}
	for range clients {
		if problem := harness.Receive(t, finished); problem != "" {
			t.Error(problem)
		}
	}
}
