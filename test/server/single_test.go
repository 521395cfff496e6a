package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// A cannedConn is a net.Conn whose peer has sent everything, and closed.
type cannedConn struct {
	net.Conn // nil: what is not below is not called
	in       strings.Reader
	written  int
}

func (c *cannedConn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *cannedConn) Close() error { return nil }

func (c *cannedConn) LocalAddr() net.Addr { return nil }

func (c *cannedConn) RemoteAddr() net.Addr { return nil }

func (c *cannedConn) Write(p []byte) (int, error) {
	c.written += len(p)
	return len(p), nil
}

// TestServeConnDoesNotAllocate: a connection that is served in memory costs
// nothing once memory is there, whatever it does.
func TestServeConnDoesNotAllocate(t *testing.T) {
	for name, server := range map[string]*sluice.Server{
		"zero":     {},
		"settings": {Name: "a name", Concurrency: 10, MaxRequestsPerConn: 100, MaxKeepaliveDuration: time.Hour},
		"nameless": {NoDefaultServerHeader: true},
	} {
		server.Handler, server.Logger = plainTextHandler, silence{}
		c := &cannedConn{}
		serve := func() {
			c.in.Reset(simpleGet + smallPost + simpleGet)
			if err := server.ServeConn(c); err != nil {
				t.Fatal(err)
			}
		}
		serve()
		if n := testing.AllocsPerRun(1000, serve); n != 0 && !invariants.Enabled {
			t.Errorf("%s: %v allocations", name, n)
		}
		if c.written < 3000 {
			t.Errorf("%s: %d bytes written", name, c.written)
		}
	}
}

// failingConn is a cannedConn that ends, or writes, with an error.
type failingConn struct {
	cannedConn
	end, write error
}

func (c *failingConn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err == io.EOF && c.end != nil {
		err = c.end
	}
	return n, err
}

func (c *failingConn) Write(p []byte) (int, error) {
	if c.write != nil {
		return 0, c.write
	}
	return c.cannedConn.Write(p)
}

// TestServeConnErrors: ServeConn returns, and ErrorHandler gets, errors that
// users know.
func TestServeConnErrors(t *testing.T) {
	cable := errors.New("cable was cut")
	large := strings.Repeat("x", 5000)
	const head = "POST / HTTP/1.1\r\nHost: h\r\n"
	for _, test := range []struct {
		in         string
		end, write error
		want       []error
		isHandled  bool
		reduces    bool // ReduceMemoryUsage
	}{
		{in: simpleGet},
		{in: simpleGet, end: os.ErrDeadlineExceeded},
		{in: "", end: os.ErrDeadlineExceeded, want: []error{os.ErrDeadlineExceeded}},
		{in: "", end: os.ErrDeadlineExceeded, reduces: true},
		{in: "", end: cable, want: []error{cable}},
		{in: "", end: cable, want: []error{cable}, reduces: true},
		{in: "GE", end: os.ErrDeadlineExceeded, want: []error{os.ErrDeadlineExceeded}, isHandled: true},
		{in: "GE", end: os.ErrDeadlineExceeded, want: []error{os.ErrDeadlineExceeded}, isHandled: true, reduces: true},
		{in: "GE", want: []error{io.ErrUnexpectedEOF}, isHandled: true},
		{in: head + "Content-Length: 5\r\n\r\nab", want: []error{io.ErrUnexpectedEOF}, isHandled: true},
		{in: head + "Content-Length: 5\r\n\r\nab", end: os.ErrDeadlineExceeded, want: []error{os.ErrDeadlineExceeded}, isHandled: true},
		{in: head + "Content-Length: 5\r\n\r\nab", end: cable, want: []error{cable}},
		{in: head + "Transfer-Encoding: chunked\r\n\r\n5\r\nab", want: []error{io.ErrUnexpectedEOF}, isHandled: true},
		{in: head + "Transfer-Encoding: chunked\r\n\r\nx\r\n", want: []error{sluice.ErrBrokenChunk{}}, isHandled: true},
		{in: head + "Transfer-Encoding: chunked\r\n\r\n0\r\nx\r\n\r\n", isHandled: true, want: []error{h1.ErrFieldLine}},
		{in: head + "X: " + large + "\r\n\r\n", want: []error{&sluice.ErrSmallBuffer{}, sluice.ErrSmallReadBuffer}, isHandled: true},
		{in: "GET /" + large + " HTTP/1.1\r\n\r\n", want: []error{&sluice.ErrSmallBuffer{}, sluice.ErrSmallReadBuffer}, isHandled: true},
		{in: head + "Content-Length: x\r\n\r\n", want: []error{sluice.ErrNonNumericChars}, isHandled: true},
		{in: head + "Content-Length: 100001\r\n\r\n", want: []error{sluice.ErrBodyTooLarge}, isHandled: true},
		{in: "G@T / HTTP/1.1\r\nHost: h\r\n\r\n", want: []error{sluice.ErrUnsupportedRequestMethod}, isHandled: true},
		{in: "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", want: []error{sluice.ErrExtraWhitespaceInRequestLine}, isHandled: true},
		{in: simpleGet, write: cable, want: []error{cable}},
		{in: "GET /large HTTP/1.1\r\nHost: h\r\n\r\n", write: os.ErrDeadlineExceeded, want: []error{os.ErrDeadlineExceeded}},
		{in: "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n", write: cable, want: []error{cable}},
		{in: "GET /flush HTTP/1.1\r\nHost: h\r\n\r\n", write: cable, want: []error{cable}},
	} {
		var handled error
		server := &sluice.Server{Logger: silence{}, ReadBufferSize: 4096, MaxRequestBodySize: 100000, Handler: answerInManyWays,
			ReduceMemoryUsage: test.reduces, ErrorHandler: func(_ *sluice.RequestCtx, err error) { handled = err }}
		c := &failingConn{end: test.end, write: test.write}
		c.in.Reset(test.in)
		err := server.ServeConn(c)
		if test.want == nil && err != nil || test.isHandled != (handled != nil) || test.isHandled && handled.Error() != err.Error() {
			t.Errorf("%.60q, %v, %v: %v, ErrorHandler got %v", test.in, test.end, test.write, err, handled)
		}
		for _, want := range test.want {
			if !isOrAs(err, want) {
				t.Errorf("%.60q, %v, %v: %v is not %T", test.in, test.end, test.write, err, want)
			}
		}
	}
}

// isOrAs reports whether err is want, or of its type where that is one of ours.
func isOrAs(err, want error) bool {
	switch want.(type) {
	case *sluice.ErrSmallBuffer:
		small := (*sluice.ErrSmallBuffer)(nil)
		return errors.As(err, &small)
	case sluice.ErrBrokenChunk:
		return errors.As(err, &sluice.ErrBrokenChunk{})
	}
	return errors.Is(err, want)
}

func answerInManyWays(ctx *sluice.RequestCtx) {
	switch string(ctx.Path()) {
	case "/large":
		ctx.SetBody(make([]byte, 100<<10))
	case "/stream":
		ctx.SetBodyStream(strings.NewReader("x"), -1)
	case "/flush":
		_ = ctx.Flush()
	}
}

// TestServeConnStreamErrors: a streamed body that breaks off is an error of the
// connection, too.
func TestServeConnStreamErrors(t *testing.T) {
	for _, framing := range []string{"Content-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n5\r\n"} {
		for end, want := range map[error]error{nil: io.ErrUnexpectedEOF, os.ErrDeadlineExceeded: os.ErrDeadlineExceeded} {
			server := &sluice.Server{Logger: silence{}, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				_, _ = io.Copy(io.Discard, ctx.RequestBodyStream())
			}}
			c := &failingConn{end: end}
			c.in.Reset("POST / HTTP/1.1\r\nHost: h\r\n" + framing + "ab")
			if err := server.ServeConn(c); !errors.Is(err, want) {
				t.Errorf("%q, %v: %v", framing, end, err)
			}
		}
	}
}

// TestServeConnWithoutDeadlines: without time-outs, nothing that a handler does
// has deadlines set, which this connection does not have.
func TestServeConnWithoutDeadlines(t *testing.T) {
	handlers := map[string]sluice.RequestHandler{
		"plain":  plainTextHandler,
		"done":   func(ctx *sluice.RequestCtx) { ctx.Done(); plainTextHandler(ctx) },
		"stream": func(ctx *sluice.RequestCtx) { ctx.SetBody(ctx.PostBody()) },
		"close":  func(ctx *sluice.RequestCtx) { _ = ctx.Conn().Close() },
		"read": func(ctx *sluice.RequestCtx) {
			_, _ = ctx.Conn().Read(make([]byte, 10))
			_, _ = io.WriteString(ctx.Conn(), "written")
		},
		"timeout": sluice.TimeoutHandler(plainTextHandler, time.Hour, ""),
		"hijack":  func(ctx *sluice.RequestCtx) { ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }) },
	}
	for name, handler := range handlers {
		for _, server := range []*sluice.Server{{}, {ReduceMemoryUsage: true}, {StreamRequestBody: true}} {
			log := &lineLog{}
			server.Handler, server.Logger, server.LogAllErrors = handler, log, true
			c := &cannedConn{}
			c.in.Reset(smallPost + simpleGet + smallPost)
			err := server.ServeConn(slowConn{c})
			if err != nil || len(log.lines) > 0 && !strings.Contains(log.lines[0], "Request.Body") {
				t.Errorf("%s: %v, logged %q", name, err, log.lines)
			}
			if err := server.Shutdown(); err != nil {
				t.Error(err)
			}
		}
	}
}

// slowConn returns one byte from each Read.
type slowConn struct{ *cannedConn }

func (c slowConn) Read(p []byte) (int, error) { return c.in.Read(p[:1]) }

// lineLog keeps what is logged.
type lineLog struct{ lines []string }

func (l *lineLog) Printf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// TestServeConnTakesTurns: what ServeConn keeps for its next call has nothing of
// another server.
func TestServeConnTakesTurns(t *testing.T) {
	var waiting []chan struct{}
	for _, name := range []string{"a long name", "short", "", "other", "a long name"} {
		hijacked := make(chan struct{})
		waiting = append(waiting, hijacked)
		client, server := net.Pipe()
		go func() {
			s := &sluice.Server{Name: name, NoDefaultServerHeader: true, KeepHijackedConns: name == "short", Handler: func(ctx *sluice.RequestCtx) {
				ctx.Hijack(func(net.Conn) { <-hijacked })
			}}
			if err := s.ServeConn(server); err != nil {
				t.Error(err)
			}
		}()
		_ = client.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(client, simpleGet); err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 200)
		n, err := client.Read(head)
		field := "Server: " + name + "\r\n"
		if err != nil || (name != "") != strings.Contains(string(head[:n]), field) || name == "" && strings.Contains(string(head[:n]), "Server") {
			t.Errorf("%q: %q, %v", name, head[:n], err)
		}
		defer client.Close()
		defer server.Close()
	}
	for _, hijacked := range waiting {
		close(hijacked)
	}
}
