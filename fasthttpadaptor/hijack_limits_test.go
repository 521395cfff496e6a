package fasthttpadaptor_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
)

// A body that the handler has not read is discarded up to 256 KiB. The hijacked
// connection begins after it.
func TestHijackWithABody(t *testing.T) {
	for size, works := range map[int]bool{100: true, 200 << 10: true, 300 << 10: false} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c, rw, err := w.(http.Hijacker).Hijack()
				if (err == nil) != works {
					t.Errorf("Hijack: %v", err)
				}
				if err != nil {
					return
				}
				defer c.Close()
				if _, _, err := w.(http.Hijacker).Hijack(); err != http.ErrHijacked {
					t.Errorf("the second Hijack: %v", err)
				}
				if _, isTCP := c.(*net.TCPConn); isTCP {
					t.Error("it is a *net.TCPConn, the guide says it is none")
				}
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
				line, _ := rw.ReadString('\n')
				_, _ = rw.WriteString("<" + line)
				_ = rw.Flush()
			})
			addr := serve(t, &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), StreamRequestBody: true})
			c := dial(t, addr)
			go func() { // the response may arrive before all of it is sent
				_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
				_, _ = io.WriteString(c, "line\n")
			}()
			in := bufio.NewReader(c)
			status, _ := in.ReadString('\n')
			if strings.HasPrefix(status, "HTTP/1.1 101 ") != works {
				t.Fatalf("answer %q", status)
			}
			if !works {
				return
			}
			if rest, err := io.ReadAll(in); err != nil || string(rest) != "\r\n<line\n" {
				t.Errorf("then %q, %v", rest, err)
			}
		})
	}
}

// The peer sees a Close when the handler has returned, not before.
func TestCloseOfAHijackedConnectionInItsHandler(t *testing.T) {
	proceed := make(chan bool)
	h := hijacker(t, func(c net.Conn, _ *bufio.ReadWriter) {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-proceed
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		c := dial(t, addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		in := bufio.NewReader(c)
		if _, err := http.ReadResponse(in, nil); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := in.ReadByte(); !isTimeout(err) {
			t.Errorf("while the handler runs: %v", err)
		}
		proceed <- true
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("when it has returned: %v", err)
		}
	})
}

// Shutdown waits for the handler of a hijacked connection, not for what follows.
func TestShutdownAndAHijackedConnection(t *testing.T) {
	entered, proceed, end := make(chan bool), make(chan bool), make(chan bool)
	s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(hijacker(t, func(c net.Conn, rw *bufio.ReadWriter) {
		entered <- true
		<-proceed
		go func() {
			<-end
			echoLines(c, rw)
		}()
	}))}
	c := dial(t, serve(t, s))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	<-entered
	stopped := make(chan error, 1)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() { stopped <- s.ShutdownWithContext(ctx) }()
	select {
	case err := <-stopped:
		t.Errorf("Shutdown did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(proceed)
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	close(end)
	_, _ = io.WriteString(c, "line\n")
	in := bufio.NewReader(c)
	if _, err := http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); line != "<line\n" {
		t.Errorf("after Shutdown: %q, %v", line, err)
	}
}

// The request's deadlines do not apply to the hijacked connection.
func TestHijackEndsTheDeadlines(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.SetReadDeadline(time.Unix(1, 0)), rc.SetWriteDeadline(time.Unix(1, 0))); err != nil {
			t.Error(err)
		}
		c, rw, err := rc.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		echoLines(c, rw)
	})
	onEachEngine(t, h, func(t *testing.T, addr string) {
		c := dial(t, addr)
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nline\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "<line\n" {
			t.Errorf("got %q, %v", line, err)
		}
	})
}

// A panic ends a hijacked connection. It is logged, except ErrAbortHandler.
func TestLogOfAPanicOfAHijackedConnection(t *testing.T) {
	for value, want := range map[any]bool{"oh dear": true, http.ErrAbortHandler: false} {
		log := make(logged, 10)
		h := fasthttpadaptor.NewFastHTTPHandler(hijacker(t, func(net.Conn, *bufio.ReadWriter) { panic(value) }))
		c := dial(t, serve(t, &sluice.Server{Handler: h, Logger: log}))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		_, _ = io.Copy(io.Discard, c) // may be reset
		select {
		case line := <-log:
			if !want || !strings.Contains(line, fmt.Sprint(value)) {
				t.Errorf("panic with %v: %q", value, line)
			}
		default:
			if want {
				t.Errorf("panic with %v: nothing", value)
			}
		}
	}
}

// logged receives the lines of a sluice.Logger.
type logged chan string

func (l logged) Printf(format string, args ...any) { l <- fmt.Sprintf(format, args...) }

// A connection that is closed cannot be taken over.
func TestHijackOfAClosedConnection(t *testing.T) {
	h := fasthttpadaptor.NewFastHTTPHandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/write" {
			_, _ = io.WriteString(w, "cannot be sent")
		}
		if c, rw, err := http.NewResponseController(w).Hijack(); err == nil || c != nil || rw != nil {
			t.Errorf("Hijack: %v, %v, %v", c, rw, err)
		}
	})
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		addr := serve(t, &sluice.Server{Engine: e, Handler: func(ctx *sluice.RequestCtx) {
			_ = ctx.Conn().Close()
			h(ctx)
		}})
		for _, path := range []string{"/", "/write"} {
			c := dial(t, addr)
			_, _ = io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			_, _ = io.Copy(io.Discard, c) // may be reset
		}
	}
}

// Outside a server there is no connection.
func TestHijackOutsideAServer(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
	})
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, nil)
	fasthttpadaptor.NewFastHTTPHandler(h)(&ctx)
}
