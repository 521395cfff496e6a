package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

const eventHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\nX-Own: 1\r\n\r\n"

// FuzzEventBody: cut anywhere, a chunked body becomes a chunked body with the same content, or
// both are refused.
func FuzzEventBody(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\nT: 1\r\n\r\n"), uint8(3), false)
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"), uint8(1), true)
	f.Add([]byte("3\r\nabcd"), uint8(200), false)
	f.Add([]byte("0"), uint8(1), false)
	f.Fuzz(func(t *testing.T, in []byte, step uint8, isRaw bool) {
		whole, whole2 := &eventBody{isRaw: isRaw}, &eventBody{isRaw: isRaw}
		all, isOver, err := whole.append(nil, in)
		if len(all) > len(in)+maxReframing {
			t.Fatalf("%d bytes become %d", len(in), len(all))
		}
		var cut []byte
		isOver2, err2 := false, error(nil)
		for rest := in; len(rest) > 0 && !isOver2 && err2 == nil; {
			n := min(int(step)%7+1, len(rest))
			cut, isOver2, err2 = whole2.append(cut, rest[:n])
			rest = rest[n:]
		}
		if (err == nil) != (err2 == nil) || isOver != isOver2 && err == nil {
			t.Fatalf("whole: over %v, %v; cut: over %v, %v", isOver, err, isOver2, err2)
		}
		if err != nil {
			return
		}
		if got, want := contentOf(t, all, isRaw, isOver), contentOf(t, cut, isRaw, isOver); got != want {
			t.Fatalf("whole: %q; cut: %q", got, want)
		}
		if isOver {
			if want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(in))); err == nil && contentOf(t, all, isRaw, true) != string(want) {
				t.Fatalf("%q, want %q", all, want)
			}
		}
	})
}

// contentOf decodes what the client gets.
func contentOf(t *testing.T, text []byte, isRaw, isOver bool) string {
	if isRaw {
		return string(text)
	}
	content, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(text)))
	if (err == nil) != isOver {
		t.Fatalf("over %v, but the client sees %v in %q", isOver, err, text)
	}
	return string(content)
}

// TestEventFraming: events arrive while the response continues, whatever the chunks are. The
// client sees its end, and an incomplete response does not look complete.
func TestEventFraming(t *testing.T) {
	for _, engine := range engines {
		for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
			t.Run(engine.String()+"/"+version, func(t *testing.T) {
				testEvents(t, engine, version)
			})
		}
	}
}

func testEvents(t *testing.T, engine sluice.Engine, version string) {
	goOn := make(chan string)
	to := listenTo(t, func(conn io.Writer, r *bufio.Reader) {
		for text := range goOn {
			if _, err := io.WriteString(conn, text); err != nil || text == "" {
				return
			}
		}
	})
	p := newProxy(t, Options{To: []string{to}})
	addr := front(t, p, engine)
	for _, isWhole := range []bool{true, false} {
		conn := dialFront(t, addr)
		send(t, conn, "GET /events "+version+"\r\nHost: a\r\n\r\n")
		goOn <- eventHead + "e\r\ndata: first" // in the middle of a chunk
		r := bufio.NewReader(conn)
		resp := answerTo(t, r, 200)
		if resp.Header.Get("X-Own") != "1" || resp.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("%v", resp.Header)
		}
		expect := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if n, err := io.ReadFull(resp.Body, got); string(got) != want {
				t.Fatalf("%q, %v, want %q", got[:n], err, want)
			}
		}
		expect("data: first")
		goOn <- "\n\n\n\r"
		expect("\n\n\n")
		goOn <- "\n3"
		goOn <- ";x=1\r\nabc\r\n1\r\nd\r\n"
		expect("abcd")
		if n := p.Status()[0].Pending; n != 1 {
			t.Errorf("%d pending", n)
		}
		if !isWhole {
			goOn <- ""
			if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err == nil && version == "HTTP/1.1" {
				t.Errorf("%q, %v after an incomplete response", rest, err)
			}
			break
		}
		goOn <- "1\r\ne\r\n0\r\nX-Sum: 1\r\n\r\n"
		expect("e")
		if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
			t.Errorf("%q, %v at the end", rest, err)
		}
		goOn <- ""
		awaitIdle(t, p)
	}
	awaitIdle(t, p)
	close(goOn)
}

// TestEventsOfClientsThatGo: the end of the client's connection ends the upstream's.
func TestEventsOfClientsThatGo(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			ended := make(chan bool, 1)
			to := listenTo(t, func(conn io.Writer, r *bufio.Reader) {
				_, _ = io.WriteString(conn, eventHead+"6\r\nhello\n\r\n")
				_, _ = io.Copy(io.Discard, r)
				ended <- true
			})
			p := newProxy(t, Options{To: []string{to}})
			conn := dialFront(t, front(t, p, engine))
			send(t, conn, get(""))
			resp := answerTo(t, bufio.NewReader(conn), 200)
			if _, err := io.ReadFull(resp.Body, make([]byte, 6)); err != nil {
				t.Fatal(err)
			}
			conn.Close()
			wait(t, ended, "the upstream's connection stays")
			awaitIdle(t, p)
		})
	}
}

// TestEventsToSlowClients: much more than fits into buffers arrives in order.
func TestEventsToSlowClients(t *testing.T) {
	var want strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&want, "data: %d\n\n", i)
	}
	to := listenTo(t, func(conn io.Writer, _ *bufio.Reader) {
		_, _ = io.WriteString(conn, eventHead)
		for text := want.String(); len(text) > 0; {
			n := min(len(text), 4000+len(text)%977)
			if _, err := fmt.Fprintf(conn, "%x\r\n%s\r\n", n, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		_, _ = io.WriteString(conn, "0\r\n\r\n")
	})
	p := newProxy(t, Options{To: []string{to}})
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	_ = conn.SetReadBuffer(64 << 10)
	send(t, conn, get(""))
	time.Sleep(20 * time.Millisecond)
	if got := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); got != want.String() {
		t.Errorf("%d bytes, want %d", len(got), want.Len())
	}
	awaitIdle(t, p)
}

// TestEventsTimeOut: a response that pauses for longer than Timeout ends, incomplete.
func TestEventsTimeOut(t *testing.T) {
	to := listenTo(t, func(conn io.Writer, r *bufio.Reader) {
		_, _ = io.WriteString(conn, eventHead+"6\r\nhello\n\r\n")
		_, _ = io.Copy(io.Discard, r)
	})
	p := newProxy(t, Options{To: []string{to}, Timeout: 100 * time.Millisecond})
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	send(t, conn, get(""))
	resp := answerTo(t, bufio.NewReader(conn), 200)
	if text, err := io.ReadAll(resp.Body); string(text) != "hello\n" || err == nil {
		t.Errorf("%q, %v", text, err)
	}
	awaitIdle(t, p)
}

// listenTo returns the URL of an upstream that reads the head of a request, and leaves the
// connection to serve.
func listenTo(t testing.TB, serve func(conn io.Writer, r *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { ln.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(longEnough))
				r := bufio.NewReaderSize(conn, 512)
				if _, err := http.ReadRequest(r); err == nil {
					serve(conn, r)
				}
			})
		}
	})
	return "http://" + ln.Addr().String()
}

// TestEventsWhileShuttingDown: a response whose head comes during Shutdown is complete, too.
func TestEventsWhileShuttingDown(t *testing.T) {
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			asked, goOn := make(chan bool), make(chan bool)
			to := listenTo(t, func(conn io.Writer, _ *bufio.Reader) {
				asked <- true
				<-goOn
				_, _ = io.WriteString(conn, eventHead+"6\r\nhello\n\r\n")
				_, _ = io.WriteString(conn, "4\r\nend\n\r\n0\r\n\r\n")
			})
			p := newProxy(t, Options{To: []string{to}})
			s := &sluice.Server{Logger: silent, Engine: engine}
			closing := make(chan struct{})
			s.Handler = func(ctx *sluice.RequestCtx) {
				go func() {
					<-ctx.Done()
					close(closing)
				}()
				p.Handle(ctx)
			}
			conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
			send(t, conn, get(""))
			wait(t, asked, "the upstream has got no request")
			ended := make(chan error, 1)
			go func() { ended <- s.Shutdown() }()
			wait(t, closing, "Shutdown does not begin")
			goOn <- true
			if got := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); got != "hello\nend\n" {
				t.Errorf("the body is %q", got)
			}
			if err := wait(t, ended, "Shutdown does not end"); err != nil {
				t.Error(err)
			}
			awaitIdle(t, p)
		})
	}
}

// TestEventsInMiddleware: fields that middleware sets are sent with the events, and a body that
// it sets takes their place.
func TestEventsInMiddleware(t *testing.T) {
	to := listenTo(t, func(conn io.Writer, r *bufio.Reader) {
		_, _ = io.WriteString(conn, eventHead+"6\r\nhello\n\r\n0\r\n\r\n")
		_, _ = io.Copy(io.Discard, r)
	})
	for want, change := range map[string]func(ctx *sluice.RequestCtx){
		"hello\n": func(ctx *sluice.RequestCtx) { ctx.SetContentType("text/event-stream") },
		"another": func(ctx *sluice.RequestCtx) { ctx.SetBodyString("another") },
	} {
		for _, engine := range engines {
			t.Run(want+"/"+engine.String(), func(t *testing.T) {
				p := newProxy(t, Options{To: []string{to}})
				s := &sluice.Server{Logger: silent, Engine: engine, Handler: func(ctx *sluice.RequestCtx) {
					p.Handle(ctx)
					change(ctx)
				}}
				conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
				send(t, conn, get(""))
				if got := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); got != want {
					t.Errorf("%q", got)
				}
				awaitIdle(t, p)
			})
		}
	}
}

// TestEventsAfterUnreadBody: events arrive even if the request's body was not read.
func TestEventsAfterUnreadBody(t *testing.T) {
	to := listenTo(t, func(conn io.Writer, r *bufio.Reader) {
		_, _ = io.WriteString(conn, eventHead+"6\r\nhello\n\r\n0\r\n\r\n")
		_, _ = io.Copy(io.Discard, r)
	})
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			p := newProxy(t, Options{To: []string{to}})
			s := &sluice.Server{Logger: silent, Engine: engine, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				ctx.Request.SetBodyString("another")
				p.Handle(ctx)
			}}
			conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
			send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nhello")
			if got := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); got != "hello\n" {
				t.Errorf("%q", got)
			}
			awaitIdle(t, p)
		})
	}
}
