package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestFlush: the client sees what was flushed while the handler runs.
func TestFlush(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		goOn := make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{NoDefaultDate: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetContentType("a/b")
			ctx.SetStatusCode(201)
			for i := range 3 {
				fmt.Fprintf(ctx, "part %d", i)
				if err := ctx.Flush(); err != nil {
					t.Error(err)
				}
				<-goOn
				ctx.SetStatusCode(500) // too late
			}
			ctx.WriteString("rest")
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		p.Expect("HTTP/1.1 201 Created\r\nServer: sluice\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n")
		for i := range 3 {
			p.Expect(fmt.Sprintf("6\r\npart %d\r\n", i))
			goOn <- struct{}{}
		}
		p.Expect("4\r\nrest\r\n0\r\n\r\n")

		p.Send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
		p.Expect("HTTP/1.1 201 Created\r\nServer: sluice\r\nContent-Type: a/b\r\nConnection: close\r\n\r\n")
		for i := range 3 {
			p.Expect(fmt.Sprintf("part %d", i))
			goOn <- struct{}{}
		}
		p.Expect("rest")
		p.ExpectEnd()
	})
}

func TestFlushOnTheWire(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\n"
	handlers := map[string]sluice.RequestHandler{
		"/twice": func(ctx *sluice.RequestCtx) {
			_ = ctx.Flush()
			_ = ctx.Flush()
			ctx.WriteString("x")
		},
		"/stream": func(ctx *sluice.RequestCtx) {
			ctx.WriteString("x")
			_ = ctx.Flush()
			ctx.SetBodyStream(strings.NewReader("stream"), -1)
		},
		"/sized": func(ctx *sluice.RequestCtx) {
			ctx.WriteString("x")
			_ = ctx.Flush()
			ctx.SetBodyStream(strings.NewReader("stream"), 6)
		},
		"/before": func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(strings.NewReader("stream"), 6)
			if err := ctx.Flush(); err != nil {
				t.Error(err)
			}
		},
		"/trailer": func(ctx *sluice.RequestCtx) {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
			ctx.WriteString("x")
			_ = ctx.Flush()
			ctx.Response.Header.Set("X-Sum", "1")
		},
		"/204": func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(204)
			_ = ctx.Flush()
			ctx.WriteString("x")
		},
		"/304": func(ctx *sluice.RequestCtx) {
			ctx.WriteString("x")
			ctx.SetStatusCode(304)
			_ = ctx.Flush()
		},
	}
	tests := []struct{ request, want string }{
		{harness.Get("/twice"), head + "\r\n1\r\nx\r\n0\r\n\r\n"},
		{harness.Get("/stream"), head + "\r\n1\r\nx\r\n6\r\nstream\r\n0\r\n\r\n"},
		{harness.Get("/sized"), head + "\r\n1\r\nx\r\n6\r\nstream\r\n0\r\n\r\n"},
		{harness.Get("/before"), harness.TextAnswer(200, "stream")},
		{harness.Get("/trailer"), head + "Trailer: X-Sum\r\n\r\n1\r\nx\r\n0\r\nX-Sum: 1\r\n\r\n"},
		{harness.Get("/204"), "HTTP/1.1 204 No Content\r\nServer: sluice\r\n\r\n"},
		{harness.Get("/304"), "HTTP/1.1 304 Not Modified\r\nServer: sluice\r\n\r\n"},
		{harness.Request("HEAD /twice HTTP/1.1"), head + "\r\n"},
		{harness.Request("HEAD /stream HTTP/1.1"), head + "\r\n"},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Path())](ctx) }})
		for _, test := range tests {
			got := r.Exchange(test.request + harness.Closing("/before"))
			if want := test.want + harness.TextAnswer(200, "stream", "Connection: close"); got != want {
				t.Errorf("%q answered\n%q, want\n%q", test.request, got, want)
			}
		}
	})
}

// TestFlushToGoneClient ends with an error, so that handlers can stop.
func TestFlushToGoneClient(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		failed := make(chan error, 1)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			for {
				ctx.Write(make([]byte, 8<<10))
				if err := ctx.Flush(); err != nil {
					failed <- err
					return
				}
			}
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		p.Expect("HTTP/1.1 200 OK\r\n")
		p.Close()
		if err := harness.Receive(t, failed); !errors.Is(err, sluice.ErrConnectionClosed) {
			t.Errorf("Flush returned %v", err)
		}
	})
}

func TestEarlyHints(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{NoDefaultDate: true, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/links" {
				ctx.Response.Header.Add("Link", "</a.css>; rel=preload")
				ctx.Response.Header.Add("Link", "</b.js>; rel=preload\r\nX: y")
			}
			if err := ctx.EarlyHints(); err != nil {
				t.Error(err)
			}
			ctx.WriteString("x")
		}})
		const links = "Link: </a.css>; rel=preload\r\nLink: </b.js>; rel=preload  X: y\r\n"
		want := "HTTP/1.1 103 Early Hints\r\n" + links + "\r\n" +
			"HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 1\r\n" + links + "\r\nx" +
			harness.TextAnswer(200, "x", "Connection: close")
		if got := r.Exchange(harness.Get("/links") + harness.Closing("/")); got != want {
			t.Errorf("%q, want\n%q", got, want)
		}
		if got := r.Exchange("GET /links HTTP/1.0\r\n\r\n"); strings.Contains(got, " 103 ") {
			t.Errorf("HTTP/1.0: %q", got)
		}
	})
}

func TestFlushOutsideServer(t *testing.T) {
	var ctx sluice.RequestCtx
	if err := ctx.Flush(); err != sluice.ErrNilConnection {
		t.Errorf("Flush: %v", err)
	}
	if err := ctx.EarlyHints(); err != sluice.ErrNilConnection {
		t.Errorf("EarlyHints: %v", err)
	}
}

// TestEarlyHintsOfInit2: a connection that Init2 was given gets the hints.
func TestEarlyHintsOfInit2(t *testing.T) {
	for _, test := range []struct {
		protocol string
		links    []string
		want     string
	}{
		{"HTTP/1.1", nil, ""},
		{"HTTP/1.1", []string{"</a>", "</b>\r\nX: y"}, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>  X: y\r\n\r\n"},
		{"HTTP/1.0", []string{"</a>"}, ""},
	} {
		client, server := net.Pipe()
		var ctx sluice.RequestCtx
		ctx.Init2(server, nil, false)
		ctx.Request.Header.SetProtocol(test.protocol)
		for _, link := range test.links {
			ctx.Response.Header.Add("Link", link)
		}
		written := make(chan error, 1)
		go func() { written <- ctx.EarlyHints(); _ = server.Close() }()
		if got, err := io.ReadAll(client); err != nil || string(got) != test.want {
			t.Errorf("%s, %q: %q, %v, want %q", test.protocol, test.links, got, err, test.want)
		}
		if err := harness.Receive(t, written); err != nil {
			t.Error(err)
		}
		ctx.Response.Header.Set("Link", "</a>")
		ctx.Request.Header.SetProtocol("HTTP/1.1")
		if err := ctx.EarlyHints(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after Close: %v", err)
		}
	}
}
