package server_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestHijackHandlerUsesContext: a hijack handler reads the request that it comes from while the
// server serves others. User values are closed after it.
func TestHijackHandlerUsesContext(t *testing.T) {
	closed, entered, goOn := make(chan bool, 1), make(chan bool), make(chan bool)
	seen, ended := make(chan string, 1), make(chan (<-chan struct{}), 1)
	handler := func(ctx *sluice.RequestCtx) {
		if len(ctx.Request.Header.Peek("X-Hijack")) == 0 {
			ctx.SetUserValue("key", "another")
			return
		}
		ctx.SetUserValue("key", "value")
		ctx.SetUserValue("closer", harness.CloserFunc(func() { closed <- true }))
		ctx.Hijack(func(net.Conn) {
			entered <- true
			<-goOn
			select {
			case <-closed:
				t.Error("the user value is closed while the hijack handler runs")
			default:
			}
			seen <- fmt.Sprintf("%v %s %s %s %v %v", ctx.UserValue("key"), ctx.Path(), ctx.Request.Header.Peek("X-Hijack"), ctx.PostBody(), ctx.RemoteAddr() != nil, ctx.Err())
			ended <- ctx.Done()
		})
	}
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{Handler: handler})
			others := func() {
				harness.Receive(t, entered)
				p := r.Dial()
				for range 3 {
					p.Send(harness.Get("/other"))
					p.ExpectAny()
				}
				goOn <- true
			}
			t.Run("HTTP/1.1", func(t *testing.T) {
				p := r.Dial()
				p.Send(harness.Post("/mine", "body", "X-Hijack: 1"))
				others()
				checkReceived(t, seen, "value /mine 1 body true <nil>")
				harness.Receive(t, closed)
				harness.Receive(t, harness.Receive(t, ended))
			})
			t.Run("HTTP/2", func(t *testing.T) {
				var req sluice.Request
				var resp sluice.Response
				req.SetRequestURI("http://h/mine")
				req.Header.Set("X-Hijack", "1")
				client := &sluice.Client{HTTP2: sluice.HTTP2Only, Dial: func(string) (net.Conn, error) { return r.Connect() }}
				c, err := client.ConnectProtocol(context.Background(), "x", &req, &resp)
				if err != nil || c == nil {
					t.Fatal(c, err)
				}
				defer c.Close()
				others()
				checkReceived(t, seen, "value /mine 1  true <nil>")
				harness.Receive(t, closed)
				harness.Receive(t, harness.Receive(t, ended))
			})
		})
	}
}

// TestShutdownEndsHijackedContext: a hijack handler learns of Shutdown from ctx, also if it asked
// for Done before.
func TestShutdownEndsHijackedContext(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		for _, isEarly := range []bool{false, true} {
			t.Run(fmt.Sprint(n.Name, isEarly), func(t *testing.T) {
				entered, left := make(chan bool, 1), make(chan bool, 1)
				r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					if isEarly {
						ctx.Done()
					}
					ctx.Hijack(func(net.Conn) {
						if ctx.Err() == nil {
							entered <- true
						}
						<-ctx.Done()
						left <- true
					})
				}})
				p := r.Dial()
				p.Send(harness.Get("/"))
				harness.Receive(t, entered)
				harness.Shutdown(r.Server)
				harness.Receive(t, left)
			})
		}
	}
}

func checkReceived(t *testing.T, c <-chan string, want string) {
	t.Helper()
	if got := harness.Receive(t, c); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
