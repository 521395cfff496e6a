package sluice

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// An unreachableConn is a scriptedConn whose client cannot be reached any more.
type unreachableConn struct{ *scriptedConn }

var errUnreachable = errors.New("the conn of the test is broken")

func (unreachableConn) Write([]byte) (int, error)                { return 0, errUnreachable }
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
		c := &scriptedConn{}
		p, _ := one.acceptor.Open(unreachableConn{c})
		if last := c.feed(t, p, []byte(test.request)); last != test.last {
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
	c := &scriptedConn{}
	p, _ := newAcceptor(s, s.config()).Open(unreachableConn{c})
	if last := c.feed(t, p, []byte(simpleGet)); last != engine.Abort {
		t.Errorf("Run wants %v", last)
	}
	if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file is open: %v", err)
	}
	p.Closed(nil)
}
