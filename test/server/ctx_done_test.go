package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

var _ context.Context = (*sluice.RequestCtx)(nil)

// TestDoneWhenClientGoes: Done is closed while the handler runs.
func TestDoneWhenClientGoes(t *testing.T) {
	leave := map[string]func(*harness.Peer){
		"closes": func(p *harness.Peer) { p.Close() },
		"resets": func(p *harness.Peer) {
			if tcp, ok := p.Conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			p.Close()
		},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for name, leave := range leave {
			t.Run(name, func(t *testing.T) {
				inHandler := make(chan struct{})
				result := make(chan error, 1)
				r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					done := ctx.Done()
					if err := ctx.Err(); err != nil {
						t.Errorf("done before anything happened: %v", err)
					}
					inHandler <- struct{}{}
					harness.Receive(t, done)
					result <- ctx.Err()
				}})
				p := r.Dial()
				p.Send(harness.Get("/"))
				harness.Receive(t, inHandler)
				leave(p)
				if err := harness.Receive(t, result); err != context.Canceled {
					t.Errorf("Err is %v", err)
				}
			})
		}
	})
}

// TestDoneWithPipelinedInput: requests behind the one that is served neither
// close Done nor get lost.
func TestDoneWithPipelinedInput(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		goOn := make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			done := ctx.Done()
			<-goOn
			select {
			case <-done:
				t.Error("done although the client is there")
			default:
			}
			ctx.Write(ctx.Path())
		}})
		p := r.Dial()
		p.Send(harness.Get("/1"))
		goOnWhenSent := func(s string) { p.Send(s); goOn <- struct{}{} }
		goOnWhenSent(harness.Get("/2") + harness.Get("/3"))
		goOnWhenSent("GET /4 HTTP/1.1\r\n")
		goOnWhenSent("Host: h\r\n\r\n")
		goOn <- struct{}{}
		for i := range 4 {
			if a := p.Answer("GET"); a.Body != fmt.Sprintf("/%d", i+1) {
				t.Errorf("answer %d is %q", i, a.Body)
			}
		}
	})
}

func TestDoneWhenServerShutsDown(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		inHandler, result := make(chan struct{}), make(chan error, 2)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			done := ctx.Done()
			inHandler <- struct{}{}
			harness.Receive(t, done)
			result <- ctx.Err()
			ctx.WriteString("goodbye")
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		harness.Receive(t, inHandler)
		stopped := make(chan error, 1)
		go func() { stopped <- r.Server.Shutdown() }()
		if err := harness.Receive(t, result); err != context.Canceled {
			t.Errorf("Err is %v", err)
		}
		if a := p.Answer("GET"); a.Body != "goodbye" || !a.Close {
			t.Errorf("answered %q, close=%v", a.Body, a.Close)
		}
		if err := harness.Receive(t, stopped); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
}

// TestContextChildrenOutliveRequest: contexts made from ctx end with the
// request, and may be used after it.
func TestContextChildrenOutliveRequest(t *testing.T) {
	type key struct{}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		children := make(chan context.Context, 8)
		after := make(chan struct{}, 4)
		cancels := make(chan func(), 1)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetUserValue("user", "value of "+string(ctx.Path()))
			ctx.SetUserValue(key{}, 7)
			if string(ctx.Path()) != "/" {
				return
			}
			withCancel, cancel := context.WithCancel(ctx)
			withTimeout, cancelToo := context.WithTimeout(ctx, harness.Patience)
			cancels <- func() { cancel(); cancelToo() }
			context.AfterFunc(ctx, func() { after <- struct{}{} })
			for _, c := range []context.Context{withCancel, withTimeout, context.WithValue(withCancel, new(int), 2)} {
				if c.Err() != nil || c.Value("user") != "value of /" || c.Value(key{}) != 7 {
					t.Errorf("child has %v, %v", c.Err(), c.Value("user"))
				}
				children <- c
			}
			children <- ctx
		}})
		p := r.Dial()
		p.Get("/")
		harness.Receive(t, after)
		var wg sync.WaitGroup
		for range 4 {
			c := harness.Receive(t, children)
			wg.Go(func() {
				harness.Receive(t, c.Done())
				for range 100 {
					if c.Err() != context.Canceled || c.Value("user") != "value of /" || c.Value(key{}) != 7 {
						t.Errorf("after the request: %v, %v", c.Err(), c.Value("user"))
						return
					}
				}
			})
		}
		for range 20 {
			p.Get("/other")
		}
		wg.Wait()
		harness.Receive(t, cancels)()
	})
}

// TestEndOfRequestWithDone: what ends with a request ends, whether or not
// somebody watches for that.
func TestEndOfRequestWithDone(t *testing.T) {
	var closed atomic.Int32
	streams := make(chan io.Reader, 1)
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetUserValue("closer", harness.CloseCounter{Closed: &closed})
		if ctx.IsPost() {
			ctx.Done()
			streams <- ctx.RequestBodyStream()
		}
	}})
	p := r.Dial()
	p.Send(harness.Post("/", "hello"))
	p.Answer("POST")
	p.Get("/")
	if n := closed.Load(); n != 2 {
		t.Errorf("%d of 2 user values were closed", n)
	}
	if n, err := harness.Receive(t, streams).Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("the body of the ended request: %d, %v", n, err)
	}
	p.Get("/")
}

// TestContextOutsideServer: a ctx of a test is a context, too.
func TestContextOutsideServer(t *testing.T) {
	var ctx sluice.RequestCtx
	select {
	case <-ctx.Done():
		t.Error("done")
	default:
	}
	if deadline, ok := ctx.Deadline(); ctx.Err() != nil || ok || !deadline.IsZero() {
		t.Error("a fresh ctx has an error or a deadline")
	}
	child, cancel := context.WithCancel(&ctx)
	cancel()
	harness.Receive(t, child.Done())
	ctx.SetUserValue("k", "v")
	if child.Value("k") != "v" || ctx.Value("none") != nil {
		t.Error("values are not found")
	}
}

// TestDoneConcurrently: all callers get the same channel.
func TestDoneConcurrently(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		var wg sync.WaitGroup
		channels := make([]<-chan struct{}, 8)
		for i := range channels {
			wg.Go(func() { channels[i] = ctx.Done(); _ = ctx.Err() })
		}
		wg.Wait()
		for _, c := range channels {
			if c != channels[0] {
				t.Error("channels differ")
			}
		}
	}})
	p := r.Dial()
	for range 20 {
		p.Get("/")
	}
}
