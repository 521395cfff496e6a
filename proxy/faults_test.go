package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
)

// TestFaults: what upstreams do wrong has a status, and a request that must not be repeated
// reaches one upstream only, once.
func TestFaults(t *testing.T) {
	const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
	body := "Content-Length: 2\r\n\r\nhi"
	for _, fault := range []struct {
		name   string
		first  func(t *testing.T) (url string, requests func() int)
		isDown bool // it has processed nothing, and nothing can have reached it
		status int  // if nobody else answers
		// isFinal: it has answered, or time is over.
		isFinal bool
	}{
		{name: "refuses connections", first: refusing, isDown: true, status: 502},
		{name: "resets before the head", first: scripted(""), status: 502},
		{name: "half a head", first: scripted("HTTP/1.1 200 OK\r\nContent-Le"), status: 502},
		{name: "no HTTP", first: scripted("hello\r\n\r\n"), status: 502},
		{name: "too long a head", first: scripted("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n"), status: 502},
		{name: "wrong length", first: scripted("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), status: 502},
		{name: "silent", first: silentUpstream, status: 504, isFinal: true},
		{name: "answers 503", first: scripted("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"), status: 503, isFinal: true},
	} {
		for _, request := range []struct {
			name, head string
			mayRepeat  bool
		}{
			{"GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
			{"PUT", "PUT / HTTP/1.1\r\nHost: a\r\n" + body, true},
			{"POST", "POST / HTTP/1.1\r\nHost: a\r\n" + body, false},
			{"POST with a key", "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: 1\r\n" + body, true},
			{"PATCH", "PATCH / HTTP/1.1\r\nHost: a\r\n" + body, false},
			{"PUT of a stream", "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", false},
		} {
			t.Run(fault.name+"/"+request.name, func(t *testing.T) {
				t.Parallel()
				url, requests := fault.first(t)
				second := &rawUpstream{answer: func(string) string { return good }}
				// The key of both is the same: the first one is tried first.
				p := newProxy(t, Options{To: []string{url, second.start(t)}, Timeout: 300 * time.Millisecond})
				conn := dialFront(t, front(t, p, sluice.EngineAuto))
				send(t, conn, request.head)
				goesOn := fault.isDown || request.mayRepeat && !fault.isFinal
				status := fault.status
				if goesOn {
					status = 200
				}
				answerTo(t, bufio.NewReader(conn), status)
				if n := second.requests(); goesOn && n != 1 || !goesOn && n != 0 {
					t.Errorf("the second upstream has got %d requests", n)
				}
				most := 1
				if request.mayRepeat && !fault.isFinal {
					most = 2 // with another connection
				}
				if n := requests(); n > most {
					t.Errorf("the first upstream has got %d requests", n)
				}
				if status := p.Status(); !fault.isFinal && status[0].Failed != 1 {
					t.Errorf("%+v", status)
				}
			})
		}
	}
}

// TestFaultsDuringUpload: an upstream that fails while the client pauses within its body has failed; the
// client has not.
func TestFaultsDuringUpload(t *testing.T) {
	faults := map[string]func(*testing.T) (url string){
		"aborts a stream": func(t *testing.T) string {
			return strings.Replace(upstreamOf(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "http", "h2c", 1)
		},
	}
	for name, text := range map[string]string{
		"closes": "", "half a head": "HTTP/1.1 200 OK\r\nContent-Le", "no HTTP": "hello\r\n\r\n", "wrong length": "HTTP/1.1 400 No\r\nContent-Length: x\r\n\r\n",
		"interim, and closes": "HTTP/1.1 102 Processing\r\n\r\n", "101": "HTTP/1.1 101 Switching Protocols\r\n\r\n",
	} {
		faults[name] = func(t *testing.T) string {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ln.Close() })
			go func() {
				if conn, err := ln.Accept(); err == nil {
					_, _ = http.ReadRequest(bufio.NewReader(conn))
					_, _ = io.WriteString(conn, text)
					conn.Close()
				}
			}()
			return "http://" + ln.Addr().String()
		}
	}
	for name, fault := range faults {
		for _, engine := range engines {
			t.Run(name+"/"+engine.String(), func(t *testing.T) {
				t.Parallel()
				url := fault(t)
				p := newProxy(t, Options{To: []string{url}})
				conn := dialFront(t, front(t, p, engine))
				send(t, conn, post(chunked, "2\r\nhi\r\n"))
				r := bufio.NewReader(conn)
				if strings.HasPrefix(name, "interim") {
					answerTo(t, r, 102)
				}
				answerTo(t, r, 502)
				if s := p.Status()[0]; s.Failed != 1 && name != "101" {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// refusing is an address on which no process listens.
func refusing(t *testing.T) (url string, requests func() int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return "http://" + ln.Addr().String(), func() int { return 0 }
}

// scripted answers each request with text, and closes.
func scripted(text string) func(t *testing.T) (url string, requests func() int) {
	return func(t *testing.T) (string, func() int) {
		u := answerAndClose(text)
		return u.start(t), u.requests
	}
}

// silentUpstream never answers.
func silentUpstream(t *testing.T) (url string, requests func() int) {
	end := make(chan struct{})
	u := &rawUpstream{}
	u.answer = func(string) string {
		<-end
		return ""
	}
	url = u.start(t)
	t.Cleanup(func() { close(end) })
	return url, u.requests
}

// TestFlapping: an upstream that fails every second time costs no request that may be
// repeated.
func TestFlapping(t *testing.T) {
	var count atomic.Int64
	flapping := &rawUpstream{answer: func(string) string {
		if count.Add(1)%2 == 0 {
			return ""
		}
		return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	}}
	good := &rawUpstream{answer: func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }}
	p := newProxy(t, Options{To: []string{flapping.start(t), good.start(t)}})
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	r := bufio.NewReader(conn)
	for range 200 {
		send(t, conn, get(""))
		bodyOf(t, answerTo(t, r, 200))
	}
	if f, g := flapping.requests(), good.requests(); f+g < 200 || g == 0 || f == 0 {
		t.Errorf("%d and %d requests", f, g)
	}
}

// TestStale: a POST on a connection that the upstream has just closed is not lost, and not
// sent twice.
func TestStale(t *testing.T) {
	u := answerAndClose("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // without Connection: close
	p := newProxy(t, Options{To: []string{u.start(t)}})
	conn := dialFront(t, front(t, p, sluice.EngineAuto))
	r := bufio.NewReader(conn)
	for n := range 20 {
		send(t, conn, post("Content-Length: 2\r\n", "hi"))
		resp := answerTo(t, r, 200)
		bodyOf(t, resp)
		u.awaitClosed(t, n+1)
		if got := u.requests(); got != n+1 {
			t.Fatalf("%d requests after %d", got, n+1)
		}
	}
}

// TestAllDown: there is an answer if no upstream can be reached, or all have too much to do.
func TestAllDown(t *testing.T) {
	one, _ := refusing(t)
	two, _ := refusing(t)
	addr := front(t, newProxy(t, Options{To: []string{one, two}}), sluice.EngineAuto)
	if got := exchangeAll(t, addr, get("")+last); got != "502 502" {
		t.Error(got)
	}
	busy, requests := silentUpstream(t)
	addr = front(t, newProxy(t, Options{To: []string{busy}, MaxConns: 1, MaxWait: time.Millisecond}), sluice.EngineAuto)
	first := dialFront(t, addr)
	send(t, first, get(""))
	for requests() == 0 {
		time.Sleep(time.Millisecond)
	}
	conn := dialFront(t, addr)
	send(t, conn, last)
	if wait := answerTo(t, bufio.NewReader(conn), 503).Header.Get("Retry-After"); wait != "1" {
		t.Errorf("Retry-After: %q", wait)
	}
}

// TestBusyIsNotIll: an upstream without a free connection is not ejected, and has not failed.
// Another one gets what it has no room for.
func TestBusyIsNotIll(t *testing.T) {
	busy, requests := silentUpstream(t)
	other := &rawUpstream{answer: func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }}
	p := newProxy(t, Options{
		To: []string{busy, other.start(t)}, MaxConns: 1, MaxWait: time.Millisecond,
		Balance: Sticky, StickyKey: "key",
	})
	addr := front(t, p, sluice.EngineAuto)
	request := strings.Replace(last, "\r\n", "\r\nCookie: sluice_upstream="+stickyID("key", busy)+"\r\n", 1)
	send(t, dialFront(t, addr), request)
	for requests() == 0 {
		time.Sleep(time.Millisecond)
	}
	for range 2 * balance.EjectAfter {
		if got := exchangeAll(t, addr, request); got != "200" {
			t.Fatal(got)
		}
	}
	if s := p.Status()[0]; !s.IsUp || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestTooLarge: a body beyond MaxBody is answered with 413, whether its length is known or
// not, and the upstream does not take the part for the whole.
func TestTooLarge(t *testing.T) {
	u := &rawUpstream{answer: func(string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" }}
	addr := front(t, newProxy(t, Options{To: []string{u.start(t)}, MaxBody: 4}), sluice.EngineAuto)
	for _, c := range []struct{ request, statuses string }{
		{post("Content-Length: 4\r\n", "four") + last, "200 200"},
		{post(chunked, "4\r\nfour\r\n0\r\n\r\n") + last, "200 200"},
		{post("Content-Length: 5\r\n", "five5"), "413"},
		{post(chunked, "5\r\nfive5\r\n0\r\n\r\n"), "413"},
	} {
		before := u.requests()
		conn := dialFront(t, addr)
		send(t, conn, c.request)
		r := bufio.NewReader(conn)
		for _, status := range strings.Fields(c.statuses) {
			if resp := answerTo(t, r, int(status[0]-'0')*100+int(status[1]-'0')*10+int(status[2]-'0')); resp.StatusCode < 300 {
				bodyOf(t, resp)
			}
		}
		if c.statuses == "413" && u.requests() != before {
			t.Errorf("%q: the upstream has got it", c.request)
		}
	}
}

// TestClientGone: the upstream notices that a client has disconnected, at each stage of a
// request, and the log has 499.
func TestClientGone(t *testing.T) {
	for _, request := range []string{
		get(""),
		post("Content-Length: 6\r\n", "one"),
		post("Content-Length: 60000\r\n", "one"),
		post(chunked, "3\r\none\r\n"),
	} {
		for _, engine := range engines {
			t.Run(fmt.Sprintf("%v/%.30q", engine, request), func(t *testing.T) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer ln.Close()
				p := newProxy(t, Options{To: []string{"http://" + ln.Addr().String()}})
				status := make(chan int, 1)
				s := &sluice.Server{Engine: engine, StreamRequestBody: true, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
					p.Handle(ctx)
					status <- ctx.Response.StatusCode()
				}}
				conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
				send(t, conn, request)
				if !strings.Contains(request, "Content-Length: 6\r\n") { // it is received before
					up, err := ln.Accept()
					if err != nil {
						t.Fatal(err)
					}
					defer up.Close()
					up.SetDeadline(time.Now().Add(longEnough))
					if _, err := io.ReadFull(up, make([]byte, 20)); err != nil {
						t.Fatal(err)
					}
					defer func() {
						if _, err := io.Copy(io.Discard, up); err != nil && strings.Contains(err.Error(), "timeout") {
							t.Error("the upstream's connection stays open")
						}
					}()
				}
				conn.Close()
				if got := wait(t, status, "the handler does not return"); got != StatusClientClosed {
					t.Errorf("status %d", got)
				}
			})
		}
	}
}
