package sluice

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
)

// quietServer has no Date in its answers and no words for its log.
func quietServer(handler RequestHandler) *Server {
	return &Server{Handler: handler, NoDefaultDate: true, Logger: silence{}}
}

type silence struct{}

func (silence) Printf(string, ...any) {}

const simpleGet = "GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n"

// TestDoneStatesAreForgotten when their requests end: a server that runs for
// long does not collect them.
func TestDoneStatesAreForgotten(t *testing.T) {
	s := quietServer(func(ctx *RequestCtx) {
		ctx.Done()
		if n := ctx.server.done.Len(); n != 1 {
			t.Errorf("%d states during a request", n)
		}
	})
	(&http1test.Conn{}).Converse(t, newAcceptor(s, s.config()), []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 3)))
	if n := s.done.Len(); n != 0 {
		t.Errorf("%d states remain", n)
	}
}

// TestReleasedCtxIsSmall: what one large request needed does not stay in the
// pool.
func TestReleasedCtxIsSmall(t *testing.T) {
	large := make([]byte, 1<<20)
	for i := range large {
		large[i] = 'a'
	}
	ctx := &RequestCtx{}
	ctx.Request.PostArgs().SetBytesV("k", large)
	ctx.Request.URI().QueryArgs().SetBytesV("k", large)
	ctx.Request.Header.SetBytesV("X", large)
	ctx.Response.Header.SetBytesV("X", large)
	ctx.cfg = (&Server{}).config()
	ctx.Request.resetForServer()
	ctx.Response.resetForServer()
	(*servedRequest)(ctx).Release(false)
	for name, held := range map[string]int{
		"post args":       ctx.Request.postArgs.heldBytes(),
		"uri":             ctx.Request.uri.heldBytes(),
		"request header":  cap(ctx.Request.Header.m.Table.Raw()),
		"response header": cap(ctx.Response.Header.m.Table.Raw()),
	} {
		if held > maxPooledBytes {
			t.Errorf("%s: %d bytes", name, held)
		}
	}
}

// TestDoneAtShutdown: Done is closed from the beginning if the server shuts down.
func TestDoneAtShutdown(t *testing.T) {
	s := quietServer(func(ctx *RequestCtx) {
		<-ctx.Done()
		fmt.Fprint(ctx, ctx.Err())
	})
	s.done.Close()
	if sent, _ := (&http1test.Conn{}).Converse(t, newAcceptor(s, s.config()), []byte(simpleGet)); !strings.HasPrefix(sent, "HTTP/1.1 200") || !strings.HasSuffix(sent, "\r\n\r\ncontext canceled") {
		t.Errorf("%q", sent)
	}
	if n := s.done.Len(); n != 0 || !s.done.IsClosed() {
		t.Errorf("%d states are kept", n)
	}
}

// TestDeadlinesInHandlers: what the connection gets for the deadlines that handlers set.
func TestDeadlinesInHandlers(t *testing.T) {
	const hour = time.Hour
	for _, test := range []struct {
		in          time.Duration // from now; 0: the zero time
		least, most time.Duration // of reads
		write       time.Duration // at least
	}{
		{0, 0, 0, 0}, {-hour, 1, 1, minWriteTimeout}, {hour, hour - time.Minute, hour, hour - time.Minute},
	} {
		c := &http1test.Conn{}
		s := quietServer(func(ctx *RequestCtx) {
			var at time.Time
			if test.in != 0 {
				at = time.Now().Add(test.in)
			}
			if err := errors.Join(ctx.SetReadDeadline(at), ctx.SetWriteDeadline(at)); err != nil {
				t.Error(err)
			}
			if c.ReadTimeout < test.least || c.ReadTimeout > test.most || ctx.readTimeout != c.ReadTimeout {
				t.Errorf("%v: reads have %v", test.in, c.ReadTimeout)
			}
			if c.WriteTimeout < test.write || c.WriteTimeout > max(test.most, test.write) {
				t.Errorf("%v: writes have %v", test.in, c.WriteTimeout)
			}
		})
		s.ReadTimeout, s.WriteTimeout = 2*hour, 3*hour
		if sent, _ := c.Converse(t, newAcceptor(s, s.config()), []byte(simpleGet)); !strings.HasPrefix(sent, "HTTP/1.1 200") {
			t.Errorf("%q", sent)
		}
		if c.WriteTimeout != 3*hour {
			t.Errorf("%v: the next response has %v", test.in, c.WriteTimeout)
		}
	}
	if minWriteTimeout != 10*time.Millisecond {
		t.Error("the documentation of SetWriteDeadline says 10 ms")
	}
}

// TestErrorsOfRequests: the statuses and types of errors.
func TestErrorsOfRequests(t *testing.T) {
	for err, want := range map[error]int{
		ErrBodyTooLarge: 413, ErrGetOnly: 405, server.ErrTimeout: 408, errBodyMemory: 503, errCallbackPanicked: 500, errors.New("x"): 400,
	} {
		if got := failureStatus(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	var timeout net.Error
	if !errors.As(server.ErrTimeout, &timeout) || !timeout.Timeout() || !timeout.Temporary() {
		t.Error("server.ErrTimeout")
	}
}

// An unreachableConn is a http1test.Conn whose client cannot be reached any more.
type unreachableConn struct{ *http1test.Conn }

var errUnreachable = errors.New("the conn of the test is broken")

func (unreachableConn) Write([]byte) (int, error) { return 0, errUnreachable }

func (unreachableConn) WriteBuffers(*net.Buffers) (int64, error) { return 0, errUnreachable }

// TestUnreachableClient: a response that cannot be written ends the connection at once, closes what
// was to be sent, and the user learns of it.
//
// long: a table
func TestUnreachableClient(t *testing.T) {
	const waiting = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
	const sized, chunked = waiting + "Content-Length: 3\r\n\r\n", waiting + "Transfer-Encoding: chunked\r\n\r\n"
	read := func(ctx *RequestCtx) error {
		_, err := ctx.RequestBodyStream().Read(make([]byte, 1))
		return err
	}
	large := strings.Repeat("x", 4<<10+1) // more than is copied after a head
	var stream *toldStream
	send := func(ctx *RequestCtx, size int) {
		stream = &toldStream{Reader: strings.NewReader("x")}
		ctx.SetBodyStream(stream, size)
	}
	for _, test := range []struct {
		name, request string
		handler       func(ctx *RequestCtx) error
		want          error // of the handler
		last          engine.Next
	}{
		{"a small response", simpleGet, func(*RequestCtx) error { return nil }, nil, engine.Read}, // the engine writes it
		{"a large response", simpleGet, func(ctx *RequestCtx) error { ctx.SetBodyString(large); return nil }, nil, engine.Abort},
		{"a stream", simpleGet, func(ctx *RequestCtx) error { send(ctx, -1); return nil }, nil, engine.Abort},
		{"a head before a stream", simpleGet, func(ctx *RequestCtx) error {
			send(ctx, 0)
			ctx.Response.ImmediateHeaderFlush = true
			return nil
		}, nil, engine.Abort},
		{"a write deadline", simpleGet, func(ctx *RequestCtx) error { return ctx.SetWriteDeadline(time.Now().Add(time.Hour)) }, nil, engine.Abort},
		{"Flush", simpleGet, (*RequestCtx).Flush, ErrConnectionClosed, engine.Read},
		{"Flush with a body", simpleGet, func(ctx *RequestCtx) error {
			ctx.SetBodyString("x")
			return ctx.Flush()
		}, ErrConnectionClosed, engine.Read},
		{"EarlyHints", simpleGet, func(ctx *RequestCtx) error {
			ctx.Response.Header.Set(HeaderLink, "</a>")
			return ctx.EarlyHints()
		}, ErrConnectionClosed, engine.Read},
		{"asking for a body", sized, read, ErrConnectionClosed, engine.CloseLinger},
		{"asking for chunks", chunked, read, ErrConnectionClosed, engine.CloseLinger},
		{"asking for a body that is echoed", sized, func(ctx *RequestCtx) error {
			ctx.SetBodyStream(struct{ io.Reader }{ctx.RequestBodyStream()}, -1)
			return nil
		}, nil, engine.Abort},
		{"a refusal", "GET / HTTP/1.1\r\n\r\n", nil, nil, engine.Abort},
	} {
		stream = nil
		hasRun := false
		logger := &recordingLogger{}
		s := &Server{StreamRequestBody: true, LogAllErrors: true, Logger: logger, Handler: func(ctx *RequestCtx) {
			hasRun = true
			if err := test.handler(ctx); err != test.want {
				t.Errorf("%s: the handler gets %v, want %v", test.name, err, test.want)
			}
		}, ErrorHandler: func(ctx *RequestCtx, _ error) { ctx.SetBodyString(large) }}
		one := acquireSingle(s)
		c := &http1test.Conn{}
		p, _ := one.acceptor.Open(unreachableConn{c})
		if last := c.Feed(t, p, []byte(test.request)); last != test.last {
			t.Errorf("%s: Run wants %v, want %v", test.name, last, test.last)
		}
		if stream != nil && (stream.closed != 1 || len(stream.told) != 1 || stream.told[0] != ErrConnectionClosed) {
			t.Errorf("%s: the stream is closed %d times, with %v", test.name, stream.closed, stream.told)
		}
		isWritten := test.name != "a small response"
		if hasRun != (test.handler != nil) || test.handler != nil && isWritten != errors.Is(one.failure, errUnreachable) || isWritten != (logger.count() > 0) {
			t.Errorf("%s: run %v, ServeConn would return %v, %d lines in the log", test.name, hasRun, one.failure, logger.count())
		}
		p.Closed(nil)
	}
}

// TestUnreachableAndFiles: a file is closed although its response cannot be sent.
func TestUnreachableAndFiles(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString("content")
	_, _ = f.Seek(0, io.SeekStart)
	s := quietServer(func(ctx *RequestCtx) {
		ctx.SetBodyStream(f, 7)
		ctx.Response.ImmediateHeaderFlush = true
	})
	c := &http1test.Conn{}
	p, _ := newAcceptor(s, s.config()).Open(unreachableConn{c})
	if last := c.Feed(t, p, []byte(simpleGet)); last != engine.Abort {
		t.Errorf("Run wants %v", last)
	}
	if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is open: %v", err)
	}
	p.Closed(nil)
}

// TestHijackRetainsTheConfig: what ServeConn has made is not used for the next
// ServeConn while a hijack handler may still need it, whichever way the connection
// was hijacked.
func TestHijackRetainsTheConfig(t *testing.T) {
	for name, hijack := range map[string]func(ctx *RequestCtx){
		"after the response": func(*RequestCtx) {},
		"without a response": func(ctx *RequestCtx) { ctx.HijackSetNoResponse(true) },
		"after Flush":        func(ctx *RequestCtx) { _ = ctx.Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			var used *single
			hijacked, leave := make(chan bool), make(chan bool)
			s := &Server{Logger: silence{}, Handler: func(ctx *RequestCtx) {
				used = ctx.cfg.single
				ctx.Hijack(func(net.Conn) { hijacked <- true; <-leave })
				hijack(ctx)
			}}
			client, server := net.Pipe()
			defer client.Close()
			go func() {
				for p := make([]byte, 1024); ; {
					if _, err := client.Read(p); err != nil {
						return
					}
				}
			}()
			go func() { _, _ = client.Write([]byte(simpleGet)) }()
			if err := s.ServeConn(server); err != nil {
				t.Error(err)
			}
			<-hijacked
			if !used.isRetained {
				t.Error("its memory may be used again")
			}
			close(leave)
		})
	}
}

// ForgetMisuse makes s log the next misuse of each kind. Tests outside of the package use it.
func ForgetMisuse(s *Server) {
	for i := range s.gauges.hasWarned {
		s.gauges.hasWarned[i].Store(false)
	}
}
