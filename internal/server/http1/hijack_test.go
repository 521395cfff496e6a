package http1_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// long: a table of cases
func TestHijack(t *testing.T) {
	switching := "HTTP/1.1 101 Switching Protocols\r\nServer: sluice\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
	handlers := map[string]sluice.RequestHandler{
		"/upgrade": func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(101)
			ctx.Response.Header.Set("Connection", "Upgrade")
			ctx.Response.Header.Set("Upgrade", "echo")
			ctx.Hijack(harness.Echo)
		},
		"/body": func(ctx *sluice.RequestCtx) { ctx.Hijack(harness.Echo); ctx.WriteString("body") },
		"/silent": func(ctx *sluice.RequestCtx) {
			ctx.Hijack(harness.Echo)
			ctx.HijackSetNoResponse(true)
			ctx.WriteString("lost")
		},
		"/stream": func(ctx *sluice.RequestCtx) {
			ctx.Hijack(harness.Echo)
			ctx.SetBodyStream(strings.NewReader("stream"), 6)
		},
		"/flushed": func(ctx *sluice.RequestCtx) {
			ctx.Hijack(harness.Echo)
			ctx.SetStatusCode(101)
			_ = ctx.Flush()
		},
		"/trailer": func(ctx *sluice.RequestCtx) {
			ctx.Hijack(harness.Echo)
			_ = ctx.Response.Header.SetTrailer("A")
			ctx.Response.Header.Set("A", "1")
			ctx.WriteString("body")
		},
		"/large": func(ctx *sluice.RequestCtx) {
			ctx.Hijack(harness.Echo)
			ctx.SetBody(bytes.Repeat([]byte("x"), 100<<10))
		},
	}
	tests := []struct{ path, answer string }{
		{"/upgrade", switching},
		{"/body", harness.TextAnswer(200, "body")},
		{"/silent", ""},
		{"/trailer", "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\n" +
			"Transfer-Encoding: chunked\r\nTrailer: A\r\n\r\n4\r\nbody\r\n0\r\nA: 1\r\n\r\n"},
		{"/stream", harness.TextAnswer(200, "stream")},
		{"/flushed", "HTTP/1.1 101 Switching Protocols\r\nServer: sluice\r\n\r\n"},
		{"/large", harness.TextAnswer(200, strings.Repeat("x", 100<<10))},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, change := range []func(*sluice.Server){
			func(*sluice.Server) {},
			func(s *sluice.Server) {
				s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = harness.Briefly, time.Hour, harness.Briefly
			},
			func(s *sluice.Server) { s.StreamRequestBody = true },
		} {
			s := &sluice.Server{NoDefaultDate: true, Handler: func(ctx *sluice.RequestCtx) {
				if handlers[string(ctx.Path())](ctx); !ctx.Hijacked() {
					t.Error("Hijacked is false")
				}
			}}
			change(s)
			r := harness.Serve(t, n, s)
			var peers []*harness.Peer
			for _, test := range tests {
				p := r.Dial()
				p.Send(harness.Get(test.path))
				p.Expect(test.answer)
				peers = append(peers, p)
			}
			if s.ReadTimeout > 0 {
				time.Sleep(2 * harness.Briefly) // the server's time-outs are no longer in force
			}
			for _, p := range peers {
				p.Send("ping")
				p.Expect("<ping>")
				p.Send(".")
				p.ExpectEnd()
			}
			// What was sent behind the request belongs to the new protocol.
			p := r.Dial()
			p.Send(harness.Get("/upgrade") + "early")
			p.Expect(switching + "<early>")
			p.Send("late")
			p.Expect("<late>")
			p.Send(".")
			p.ExpectEnd()
			p = r.Dial()
			p.Send(harness.Post("/upgrade", "body") + "early")
			p.Expect(switching + "<early>")
		}
	})
}

// TestHijackOfTheLastRequest: where the connection ends with the answer, the
// answer says so and nothing is hijacked, unless there is to be no answer.
func TestHijackOfTheLastRequest(t *testing.T) {
	switching := func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(101) }
	rules := []struct {
		name, request string
		change        func(*sluice.Server)
		handler       func(*sluice.RequestCtx)
	}{
		{"request", harness.Closing("/"), nil, switching},
		{"request that lists", harness.Request("GET / HTTP/1.1", "Connection: upgrade, close"), nil, switching},
		{"HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", nil, switching},
		{"response", harness.Get("/"), nil, func(ctx *sluice.RequestCtx) { ctx.SetConnectionClose() }},
		{"flushed", harness.Get("/"), nil, func(ctx *sluice.RequestCtx) {
			ctx.SetConnectionClose()
			_ = ctx.Flush()
		}},
		{"body until the end", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", nil,
			func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("x"), -1) }},
		{"shutdown", harness.Get("/"), func(s *sluice.Server) { s.CloseOnShutdown = true; s.Control().CloseOnNextResponse() }, switching},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, rule := range rules {
			for _, isSilent := range []bool{false, true} {
				s := &sluice.Server{Engine: n.Engine, Handler: func(ctx *sluice.RequestCtx) {
					ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "hijacked") })
					ctx.HijackSetNoResponse(isSilent)
					if !isSilent {
						rule.handler(ctx)
					}
				}}
				if rule.change != nil {
					rule.change(s)
				}
				got := harness.Serve(t, n, s).Exchange(rule.request)
				saysClose, isHijacked := strings.Contains(got, "\r\nConnection: close\r\n"), strings.Contains(got, "hijacked")
				if isHijacked != isSilent || saysClose == isSilent {
					t.Errorf("%s, without response: %v: %q", rule.name, isSilent, got)
				}
			}
		}
	})
}

// TestHijackOutlivesLimits: what the server says about further requests is not
// about a connection that is hijacked. So is a closing of connections without
// CloseOnShutdown.
func TestHijackOutlivesLimits(t *testing.T) {
	for name, limit := range map[string]func(*sluice.Server){
		"next response":       func(s *sluice.Server) { s.Control().CloseOnNextResponse() },
		"keep-alive disabled": func(s *sluice.Server) { s.DisableKeepalive = true },
		"requests counted":    func(s *sluice.Server) { s.MaxRequestsPerConn = 1 },
		"life is over":        func(s *sluice.Server) { s.MaxKeepaliveDuration = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
				s := &sluice.Server{Engine: n.Engine, Handler: func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(101); ctx.Hijack(harness.Echo) }}
				limit(s)
				p := harness.Serve(t, n, s).Dial()
				p.Send(harness.Get("/"))
				p.Expect("HTTP/1.1 101 Switching Protocols\r\n")
				for line := ""; line != "\r\n"; {
					var err error
					if line, err = p.R.ReadString('\n'); err != nil || strings.Contains(line, "close") {
						t.Fatalf("%q, %v", line, err)
					}
				}
				p.Send("ping")
				p.Expect("<ping>")
			})
		})
	}
}

// TestHijackAfterFailure: nothing is hijacked when the answer could not be
// written.
func TestHijackAfterFailure(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, size := range []int{-1, 2} {
			r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				ctx.Hijack(func(c net.Conn) { _, _ = io.WriteString(c, "hijacked") })
				ctx.SetBodyStream(io.MultiReader(strings.NewReader("x"), iotest.ErrReader(io.ErrClosedPipe)), size)
			}})
			if got := r.Exchange(harness.Get("/")); strings.Contains(got, "hijacked") {
				t.Errorf("size %d: %q", size, got)
			}
		}
	})
}

// TestHijackAccounting: a hijacked connection takes up no place of the
// server's, but one of its address.
func TestHijackAccounting(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{MaxConnsPerIP: 2, Concurrency: 1, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/hijack" {
				ctx.Hijack(harness.Echo)
				ctx.HijackSetNoResponse(true)
			}
		}})
		p := r.Dial()
		p.Send(harness.Get("/hijack") + "x")
		p.Expect("<x>")
		if n, m := r.Server.GetOpenConnectionsCount(), r.Server.GetCurrentConcurrency(); n != 0 || m != 0 {
			t.Errorf("%d connections are open, %d are served", n, m)
		}
		other := r.Dial()
		if a := other.Get("/"); a.StatusCode != 200 {
			t.Errorf("another connection is answered %d", a.StatusCode)
		}
		if a := r.Dial().Answer("GET"); a.StatusCode != 503 {
			t.Errorf("over Concurrency: %d", a.StatusCode)
		}
		other.Send(harness.Get("/hijack") + "x")
		other.Expect("<x>")
		if n.Name != "memory" { // where connections have no IP address
			if a := r.Dial().Answer("GET"); a.StatusCode != 429 {
				t.Errorf("over MaxConnsPerIP: %d", a.StatusCode)
			}
		}
		p.Send(".")
		p.ExpectEnd()
		harness.Eventually(t, "its place is free", func() bool { return r.ConnectAndGet() == 200 })
		other.Send(".")
		other.ExpectEnd()
		harness.Eventually(t, "one connection counts", func() bool {
			last := r.Dial()
			defer last.Close()
			_, _ = io.WriteString(last.Conn, harness.Get("/")) // it may be refused until the one before has ended
			return last.Answer("GET").StatusCode == 200 && r.Server.GetOpenConnectionsCount() == 1 && r.Server.GetCurrentConcurrency() == 1
		})
	})
}

// TestKeepHijackedConns: the handler's connection outlives the handler.
func TestKeepHijackedConns(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		kept := make(chan net.Conn, 1)
		returned := make(chan struct{}, 1)
		r := harness.Serve(t, n, &sluice.Server{KeepHijackedConns: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) { kept <- c; returned <- struct{}{} })
		}})
		p := r.Dial()
		p.Send(harness.Get("/") + "early")
		c := harness.Receive(t, kept)
		harness.Receive(t, returned)
		if err := r.Server.Shutdown(); err != nil {
			t.Error(err)
		}
		buffer := make([]byte, 5)
		if _, err := io.ReadFull(c, buffer); err != nil || string(buffer) != "early" {
			t.Errorf("read %q, %v", buffer, err)
		}
		if _, err := io.WriteString(c, "late"); err != nil {
			t.Error(err)
		}
		p.Expect("late")
		c.Close()
		p.ExpectEnd()
	})
}

func TestHijackHandlerPanics(t *testing.T) {
	for _, keep := range []bool{false, true} {
		r := harness.Serve(t, harness.OverTCP(), &sluice.Server{KeepHijackedConns: keep, Handler: func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(net.Conn) { panic("hijacker went mad") })
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		p.Rest()
		if !strings.Contains(r.Log.String(), "hijacker went mad") {
			t.Errorf("keep=%v: logged %q", keep, r.Log)
		}
	}
}

// TestHijackWithUnreadBody: the hijacker never sees a part of the request.
func TestHijackWithUnreadBody(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.Hijack(harness.Echo)
			ctx.HijackSetNoResponse(true)
		}})
		for _, body := range []string{"", "body", strings.Repeat("body", 50000)} {
			p := r.Dial()
			p.Send(harness.Post("/", body) + "x")
			p.Expect("<x>")
			p.Close()
		}
		p := r.Dial()
		p.Send(harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "4\r\nbody\r\n0\r\nA: b\r\n\r\nx")
		p.Expect("<x>")
		// Too much to be discarded, malformed, or never coming.
		for _, script := range []string{
			harness.Post("/", strings.Repeat("body", 100000)),
			harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "4\r\nbodyX",
			harness.Request("POST / HTTP/1.1", "Content-Length: 10") + "body",
		} {
			p := r.Dial()
			go func() { _, _ = io.WriteString(p.Conn, script) }()
			if got := p.Rest(); strings.Contains(got, "<") {
				t.Errorf("the body was given to the hijacker: %.50q", got)
			}
		}
	})
}

// TestHijackAndShutdown: Shutdown does not wait for hijackers.
func TestHijackAndShutdown(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		hijacked, leave := make(chan struct{}), make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				close(hijacked)
				<-leave
				io.WriteString(c, "still here")
			})
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		harness.Receive(t, hijacked)
		if err := r.Server.Shutdown(); err != nil {
			t.Error(err)
		}
		close(leave)
		p.Expect("still here")
		p.ExpectEnd()
		harness.Eventually(t, "the connection is counted out", func() bool { return r.Server.GetOpenConnectionsCount() == 0 })
	})
}

// TestHijackFromServeConn: ServeConn returns when the answer is sent; the hijacker
// has the connection on a goroutine of its own.
func TestHijackFromServeConn(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		ln, dial := n.Listen(t)
		defer ln.Close()
		accepted := make(chan net.Conn, 1)
		go func() {
			c, err := ln.Accept()
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		served := make(chan error, 1)
		hasReturned := make(chan struct{})
		s := &sluice.Server{Name: "first", Handler: func(ctx *sluice.RequestCtx) {
			ctx.Hijack(func(c net.Conn) { <-hasReturned; harness.Echo(c) })
		}}
		server := harness.Receive(t, accepted)
		go func() { served <- s.ServeConn(server) }()
		p := harness.NewPeer(t, c)
		p.Send(harness.Get("/") + "early")
		if a := p.Answer("GET"); a.Header.Get("Server") != "first" {
			t.Errorf("%v", a.Header)
		}
		if err := harness.Receive(t, served); err != nil {
			t.Errorf("ServeConn: %v", err)
		}
		harness.Eventually(t, "it is not served any more", func() bool { return s.GetCurrentConcurrency() == 0 })
		close(hasReturned)
		p.Expect("<early>")
		p.Send("ping")
		p.Expect("<ping>")
		p.Send(".")
		p.ExpectEnd()
	})
}

// TestHijackAfterDone: a watch for the client's going takes nothing away from
// the hijacker.
func TestHijackAfterDone(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, goOn := make(chan struct{}), make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.Done()
			inHandler <- struct{}{}
			<-goOn
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(harness.Echo)
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		harness.Receive(t, inHandler)
		p.Send("early")
		goOn <- struct{}{}
		p.Expect("<early>")
		p.Send("late")
		p.Expect("<late>")
	})
}
