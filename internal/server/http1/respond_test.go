package http1_test

import (
	"context"
	"io"
	stdlog "log"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// closerFunc is a user value that is told of the request's end.
type closerFunc func()

func (f closerFunc) Close() error {
	f()
	return nil
}

// failingEcho answers with the request's body, up to the error in it.
type failingEcho struct{ body io.Reader }

func (r *failingEcho) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// TestRequestEndsBeforeItsConnection: what belongs to a request ends with its
// answer, not when the engine has closed the connection, which may linger for a
// second: its context, its user values and the memory of its body.
func TestRequestEndsBeforeItsConnection(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: "
	for _, test := range []struct {
		name, in string
		streams  bool
		usesDone bool
		last     engine.Next
	}{
		{"the connection goes on", post + "3\r\n\r\nabc", false, false, engine.Read},
		{"the connection goes on, with a context", post + "3\r\n\r\nabc", false, true, engine.Read},
		{"the last request", post + "3\r\nConnection: close\r\n\r\nabc", false, false, engine.Close},
		{"the last request, with a context", post + "3\r\nConnection: close\r\n\r\nabc", false, true, engine.Close},
		{"unread and the last", post + "9999\r\nConnection: close\r\n\r\nabc", true, false, engine.CloseLinger},
		{"unread and the last, with a context", post + "9999\r\nConnection: close\r\n\r\nabc", true, true, engine.CloseLinger},
		{"too much is unread", post + "99999999\r\n\r\nabc", true, false, engine.CloseLinger},
		{"too much is unread, with a context", post + "99999999\r\n\r\nabc", true, true, engine.CloseLinger},
		{"the body is not asked for", post + "3\r\nExpect: 100-continue\r\n\r\n", true, false, engine.CloseLinger},
		{"a broken body, found late", "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nbroken\r\n", true, false, engine.CloseLinger},
		{"drained in vain", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nbroken\r\n", true, false, engine.CloseLinger},
		{"drained", post + "3\r\n\r\nabc", true, false, engine.Read},
		{"drained, with a context", post + "3\r\n\r\nabc", true, true, engine.Read},
	} {
		ended := false
		var ctx context.Context
		s := quietServer(func(c *sluice.RequestCtx) {
			c.SetUserValue("closer", closerFunc(func() { ended = true }))
			if string(c.Path()) == "/echo" {
				c.Response.SetBodyStream(&failingEcho{c.RequestBodyStream()}, -1)
			}
			if test.usesDone {
				ctx = c
				c.Done()
			}
		})
		s.StreamRequestBody, s.MaxBodyMemory, s.MaxRequestBodySize = test.streams, 3, 1<<30
		conn := &http1test.Conn{}
		p := conn.Open(acceptorOf(s))
		if last := conn.Feed(t, p, []byte(test.in)); last != test.last {
			t.Errorf("%s: next is %v, want %v", test.name, last, test.last)
		}
		if !strings.HasPrefix(string(conn.Sent), "HTTP/1.1 200 ") {
			t.Errorf("%s: the answer is %q", test.name, conn.Sent)
		}
		if !ended {
			t.Errorf("%s: the user values are not closed", test.name)
		}
		if ctx != nil && ctx.Err() == nil {
			t.Errorf("%s: the context goes on", test.name)
		}
		s.StreamRequestBody = false
		if got := converse(t, s, []byte(post+"3\r\n\r\nabc")); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
			t.Errorf("%s: bytes of bodies are counted: %q", test.name, got)
		}
		p.Closed(io.EOF)
	}
}

// TestQuietClose: the engine learns whether the client has said that it sends no more. After
// a body, and where another protocol could follow, that is not sure.
func TestQuietClose(t *testing.T) {
	const fields = " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
	for in, want := range map[string]engine.Next{
		"GET /" + fields + "\r\n":                                         engine.CloseQuiet,
		"HEAD /" + fields + "\r\n":                                        engine.CloseQuiet,
		"GET / HTTP/1.0\r\n\r\n":                                          engine.CloseQuiet,
		"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n":                engine.Read,
		"GET /close HTTP/1.1\r\nHost: h\r\n\r\n":                          engine.Close, // the client may have sent more requests
		"POST /" + fields + "Content-Length: 0\r\n\r\n":                   engine.Close,
		"POST /" + fields + "Content-Length: 1\r\n\r\nx":                  engine.Close,
		"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\n\r\n":  engine.Close,
		"GET /" + fields + "Connection: upgrade\r\nUpgrade: x\r\n\r\n":    engine.Close,
		"POST /" + fields + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n": engine.Close,
	} {
		c := &http1test.Conn{}
		p := c.Open(acceptorOf(quietServer(func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/close" {
				ctx.SetConnectionClose()
			}
		})))
		if next := c.Feed(t, p, []byte(in)); next != want {
			t.Errorf("%q: %v, want %v", in, next, want)
		}
		p.Closed(nil)
	}
}

// TestCorrectedStatusesKeepTheClose that a handler has asked for.
func TestCorrectedStatusesKeepTheClose(t *testing.T) {
	for _, closes := range []bool{false, true} {
		s := quietServer(func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(sluice.StatusProcessing)
			if closes {
				ctx.SetConnectionClose()
			}
		})
		sent, _ := (&http1test.Conn{}).Converse(t, acceptorOf(s), []byte(simpleGet))
		if !strings.HasPrefix(sent, "HTTP/1.1 500") || strings.Contains(sent, "Connection: close") != closes {
			t.Errorf("closes %v: %q", closes, sent)
		}
	}
}

// TestImpossibleStatuses: the log tells a status that no response has from one that only
// comes before another.
func TestImpossibleStatuses(t *testing.T) {
	for status, want := range map[int]string{-1: "the impossible status -1", 42: "the impossible status 42", 100: "the interim status 100", 103: "the interim status 103"} {
		var log strings.Builder
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(status) }, Logger: stdlog.New(&log, "", 0)}
		sent, _ := (&http1test.Conn{}).Converse(t, acceptorOf(s), []byte(simpleGet))
		if !strings.HasPrefix(sent, "HTTP/1.1 500") || !strings.Contains(log.String(), want) {
			t.Errorf("%d: %q, logged %q", status, sent, log.String())
		}
	}
}
