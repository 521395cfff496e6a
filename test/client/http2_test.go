package client_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestClientHTTP2Modes: what is spoken with which server, and with how many dials.
func TestClientHTTP2Modes(t *testing.T) {
	for _, kind := range harness.HTTP2Servers {
		for mode, name := range []string{sluice.HTTP2Off: "off", sluice.HTTP2Auto: "auto", sluice.HTTP2Only: "only"} {
			t.Run(kind.Name+"/"+name, func(t *testing.T) {
				noNewGoroutines(t)
				r := kind.Start(t, mirrorRequest)
				c := r.Host(sluice.HTTP2Mode(mode))
				want := "HTTP/1.1"
				switch c.HTTP2 {
				case sluice.HTTP2Auto:
					if kind.IsHTTP2 && kind.IsTLS {
						want = "HTTP/2.0"
					}
				case sluice.HTTP2Only:
					want = ""
					if kind.IsHTTP2 {
						want = "HTTP/2.0"
					}
				}
				for range 3 {
					req, resp := harness.NewCall("POST", r.URL("/a//b?q#f"))
					req.SetBodyString("body")
					err := c.Do(req, resp)
					if want == "" {
						if !errors.Is(err, sluice.ErrNoHTTP2) {
							t.Errorf("error %v, want ErrNoHTTP2", err)
						}
						continue
					}
					body := "POST " + r.Addr + " /a/b?q " + want + " body"
					if err != nil || string(resp.Body()) != body || string(resp.Header.Protocol()) != want {
						t.Fatalf("%v, %s %q, want %q", err, resp.Header.Protocol(), resp.Body(), body)
					}
				}
				if n := r.Dials.Load(); want != "" && n != 1 {
					t.Errorf("%d dials, want 1", n)
				}
				c.CloseIdleConnections()
				checkPool(t, c, 0, 0)
			})
		}
	}
}

// A streamed response that ends with its head has a stream without content, unless it
// cannot have content.
func TestClientHTTP2EmptyStreams(t *testing.T) {
	peer := newFramePeer(t, func(p *framePeer) {
		for stream, path := p.request(); stream != 0; stream, path = p.request() {
			p.answer(stream, path[1:], "")
		}
	})
	c := peer.Host()
	c.HTTP2, c.StreamResponseBody = sluice.HTTP2Only, true
	defer c.CloseIdleConnections()
	for _, test := range []struct {
		method, path string
		hasStream    bool
	}{{"GET", "/200", true}, {"GET", "/404", true}, {"GET", "/204", false}, {"GET", "/304", false}, {"HEAD", "/200", false}} {
		req, resp := harness.NewCall(test.method, peer.URL(test.path))
		if err := c.Do(req, resp); err != nil {
			t.Fatalf("%s %s: %v", test.method, test.path, err)
		}
		stream := resp.BodyStream()
		if (stream != nil) != test.hasStream {
			t.Errorf("%s %s: the stream is %v", test.method, test.path, stream)
		}
		if len(resp.Body()) > 0 {
			t.Errorf("%s %s: content %q", test.method, test.path, resp.Body())
		}
	}
}

// MaxResponseBodySize bounds a streamed response as a whole, not each read.
func TestClientHTTP2StreamLimit(t *testing.T) {
	peer := newFramePeer(t, func(p *framePeer) {
		for stream, _ := p.request(); stream != 0; stream, _ = p.request() {
			p.answer(stream, "200", "0123456789ab")
		}
	})
	for limit, want := range map[int]string{
		12: "0123456789ab <nil>", 11: "0123456789a " + sluice.ErrBodyTooLarge.Error(), 10: "0123456789 " + sluice.ErrBodyTooLarge.Error(), 5: "01234 " + sluice.ErrBodyTooLarge.Error(),
	} {
		c := peer.Host()
		c.HTTP2, c.StreamResponseBody, c.MaxResponseBodySize = sluice.HTTP2Only, true, limit
		req, resp := harness.NewCall("GET", peer.URL("/"))
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
		var body []byte
		var err error
		for part := make([]byte, 5); err == nil; {
			var n int
			n, err = resp.BodyStream().Read(part)
			body = append(body, part[:n]...)
		}
		if err == io.EOF {
			err = nil
		}
		if got := fmt.Sprintf("%s %v", body, err); got != want {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
		resp.Reset()
		c.CloseIdleConnections()
	}
}

// A hundred requests at once need one connection, and wait for one dial.
func TestClientHTTP2SharesOneConnection(t *testing.T) {
	onEachHTTP2Server(t, mirrorRequest, func(t *testing.T, r *harness.HTTP2Rig) {
		c := r.Host(sluice.HTTP2Only)
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				req, resp := harness.NewCall("GET", r.URL("/"))
				if err := c.Do(req, resp); err != nil || !strings.HasPrefix(string(resp.Body()), "GET ") {
					t.Errorf("%v, %q", err, resp.Body())
				}
			})
		}
		all.Wait()
		if n := r.Dials.Load(); n != 1 {
			t.Errorf("%d dials, want 1", n)
		}
		checkPool(t, c, 1, 1)
		c.CloseIdleConnections()
	})
}

// A server that has chosen HTTP/1.1 may choose HTTP/2 on the next connection, and the
// reverse.
func TestClientHTTP2ServerChanges(t *testing.T) {
	release := make(chan struct{})
	var arrived, gone atomic.Int64
	old := harness.HTTP2Servers[1].Start(t, blockingHandler(release, &arrived, &gone))
	next := harness.HTTP2Servers[0].Start(t, mirrorRequest)
	c := old.Host(sluice.HTTP2Auto)
	c.TLSConfig = &tls.Config{InsecureSkipVerify: true}
	target := atomic.Pointer[harness.HTTP2Rig]{}
	target.Store(old)
	c.Dial = func(string) (net.Conn, error) { return net.Dial("tcp", target.Load().Addr) }
	defer c.CloseIdleConnections()
	if err := c.Prewarm(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	checkPool(t, c, 2, 2)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := c.Do(harness.NewCall("GET", old.URL("/wait"))); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "two requests arrive", func() bool { return arrived.Load() == 2 })
	target.Store(next)
	for range 2 {
		req, resp := harness.NewCall("GET", old.URL("/"))
		if err := c.Do(req, resp); err != nil || string(resp.Header.Protocol()) != "HTTP/2.0" {
			t.Errorf("%v, %s", err, resp.Header.Protocol())
		}
	}
	checkPool(t, c, 3, 1)
	close(release)
	all.Wait()
	c.CloseIdleConnections()
	for range 10 { // wait for one dial, as if the server had always chosen HTTP/2
		all.Go(func() {
			if err := c.Do(harness.NewCall("GET", old.URL("/"))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkPool(t, c, 1, 1)
	c.CloseIdleConnections()
	target.Store(old)
	req, resp := harness.NewCall("GET", old.URL("/now"))
	if err := c.Do(req, resp); err != nil || string(resp.Header.Protocol()) != "HTTP/1.1" {
		t.Errorf("%v, %s", err, resp.Header.Protocol())
	}
}

func TestHTTP2ModeNames(t *testing.T) {
	if got := fmt.Sprint(sluice.HTTP2Off, sluice.HTTP2Auto, sluice.HTTP2Only, sluice.HTTP2Mode(3)); got != "off auto only HTTP2Mode(3)" {
		t.Error(got)
	}
}

// TestHTTP2SmallPieces: a response that comes in many small pieces is a response, over HTTP/2 as over HTTP/1.1.
func TestHTTP2SmallPieces(t *testing.T) {
	const rows = 10_000
	onEachHTTP2Server(t, harness.HTTP2Handler{
		Sluice: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for range rows {
					_, _ = w.WriteString("a row\n")
					_ = w.Flush()
				}
			})
		},
		NetHTTP: func(w http.ResponseWriter, _ *http.Request) {
			for range rows {
				_, _ = io.WriteString(w, "a row\n")
				_ = http.NewResponseController(w).Flush()
			}
		},
	}, func(t *testing.T, r *harness.HTTP2Rig) {
		c := r.Host(sluice.HTTP2Only)
		c.MaxIdemponentCallAttempts = 1
		defer c.CloseIdleConnections()
		req, resp := harness.NewCall("GET", r.URL("/"))
		if err := c.Do(req, resp); err != nil || len(resp.Body()) != rows*len("a row\n") {
			t.Errorf("%v, %d bytes", err, len(resp.Body()))
		}
	})
}
