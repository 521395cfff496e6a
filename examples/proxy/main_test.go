package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

const longEnough = 20 * time.Second

// onEachEngine runs test with a proxy in front of an upstream, on both engines.
func onEachEngine(t *testing.T, upstream http.HandlerFunc, test func(t *testing.T, p *proxy, conn *net.TCPConn)) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(engine.String(), func(t *testing.T) {
			// Another implementation, which does not compensate for our mistakes.
			to := &http.Server{Handler: upstream, ErrorLog: log.New(io.Discard, "", 0)}
			p, conn := start(t, serve(t, to.Serve, to.Close), engine)
			test(t, p, conn)
		})
	}
}

// serve serves until the test ends, and returns the address.
func serve(t *testing.T, serve func(net.Listener) error, stop func() error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(ln) }()
	t.Cleanup(func() {
		stop()
		<-served
	})
	return ln.Addr().String()
}

// start starts a proxy and connects to it.
func start(t *testing.T, upstream string, engine sluice.Engine) (*proxy, *net.TCPConn) {
	t.Helper()
	p, err := newProxy("http://"+upstream, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	server := p.server()
	server.Engine = engine
	addr := serve(t, server.Serve, server.Shutdown)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(longEnough))
	return p, conn.(*net.TCPConn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

func answerTo(t *testing.T, r *bufio.Reader, status int) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != status {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("answer %s: %s", resp.Status, body)
	}
	return resp
}

func wait[T any](t *testing.T, c <-chan T, failure string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(longEnough):
		t.Fatal(failure)
	}
	return v
}

// TestFields: which fields are forwarded and which are not, in both directions.
func TestFields(t *testing.T) {
	upstream := func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Connection", "X-Hop")
		h["X-Hop"], h["Keep-Alive"], h["Proxy-Authenticate"] = []string{"a"}, []string{"b"}, []string{"c"}
		h["Set-Cookie"] = []string{"a=1", "b=2"}
		h["Content-Type"], h["Server"] = nil, []string{"theirs"}
		w.WriteHeader(203)
		fmt.Fprintf(w, "%s %s %s\n", r.Method, r.RequestURI, r.Host)
		r.Header.Write(w)
	}
	onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		const request = "GET /a//b/../c%2f?q=%20 HTTP/1.1\r\nHost: example.com\r\nConnection: x-secret, keep-alive\r\nConnection: X-More\r\nX-Secret: a\r\nX-More: b\r\n" +
			"Keep-Alive: c\r\nTE: trailers\r\nProxy-Connection: d\r\nProxy-Authorization: e\r\nExpect: 100-continue\r\n" +
			"X-Stays: f\r\nX-Stays: g\r\nCookie: h=i\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\n\r\n"
		for _, p.trustsForwarded = range []bool{false, true} {
			send(t, conn, request)
			resp := answerTo(t, reader, 203)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{
				"X-Hop": "", "Keep-Alive": "", "Proxy-Authenticate": "", "Connection": "",
				"Set-Cookie": "a=1 b=2", "Content-Type": "", "Server": "theirs",
			} {
				if got := strings.Join(resp.Header[name], " "); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if len(resp.Header["Date"]) != 1 {
				t.Errorf("Date: %q", resp.Header["Date"])
			}
			forwarded := "Forwarded: for=127.0.0.1;host=\"example.com\";proto=http\r\n"
			wants := forwarded + "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: example.com\r\nX-Forwarded-Proto: http\r\n"
			if p.trustsForwarded {
				wants = forwarded + "X-Forwarded-For: 1.2.3.4, 127.0.0.1\r\nX-Forwarded-Host: example.com\r\nX-Forwarded-Proto: https\r\n"
			}
			wants = "GET /a//b/../c%2f?q=%20 example.com\nCookie: h=i\r\n" + wants + "X-Stays: f\r\nX-Stays: g\r\n"
			if string(body) != wants {
				t.Errorf("upstream got\n%s\nwant\n%s", body, wants)
			}
		}
	})
}

// TestKinds: requests and responses with and without bodies, in turn on one
// connection.
func TestKinds(t *testing.T) {
	upstream := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/304":
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(304)
		case "/204":
			w.WriteHeader(204)
		case "/trailer":
			w.Header().Set("Trailer", "X-Sum")
			w.Header().Set("X-Both", "head")
			io.WriteString(w, "body")
			w.(http.Flusher).Flush()
			w.Header()["X-Sum"] = []string{"7", "8"}
			w.Header().Set(http.TrailerPrefix+"X-Both", "trailer")
		default:
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body)
		}
	}
	onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		for _, c := range []struct {
			request string
			status  int
			body    string
			length  int64
		}{
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody", 200, "body", 4},
			{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 200, "body", 4},
			{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200, "", 0},
			{"GET /304 HTTP/1.1\r\nHost: a\r\n\r\n", 304, "", 0},
			{"GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", 204, "", 0},
			{"GET /trailer HTTP/1.1\r\nHost: a\r\n\r\n", 200, "body", -1},
			{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200, "", 0},
			{"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501, "this is no forward proxy", 24},
		} {
			send(t, conn, c.request)
			resp := answerTo(t, reader, c.status)
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != c.body || resp.ContentLength != c.length {
				t.Errorf("%q: %q, %v, length %d", c.request, body, err, resp.ContentLength)
			}
			if got := fmt.Sprint(resp.Header["X-Both"], resp.Trailer); c.length == -1 && got != "[head] map[X-Both:[trailer] X-Sum:[7 8]]" {
				t.Errorf("X-Both and trailer: %s", got)
			}
		}
		if n := p.upstream.ConnsCount(); n != 1 {
			t.Errorf("%d connections to upstream", n)
		}
	})
}

// TestEvents: each event arrives before the next one is sent.
func TestEvents(t *testing.T) {
	next := make(chan int)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for n := range 3 {
			if n != <-next {
				return
			}
			fmt.Fprintf(w, "data: %d\n\n", n)
			w.(http.Flusher).Flush()
		}
	}
	onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
		send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := answerTo(t, bufio.NewReader(conn), 200) // before the first event
		lines := bufio.NewScanner(resp.Body)
		for n := range 3 {
			next <- n
			if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", n) || !lines.Scan() {
				t.Fatalf("event %d: %q, %v", n, lines.Text(), lines.Err())
			}
		}
	})
}

// TestUpload: upstream gets the first piece before the second one is sent.
func TestUpload(t *testing.T) {
	pieces := make(chan string, 10)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 100); ; {
			n, err := r.Body.Read(block)
			if n > 0 {
				pieces <- string(block[:n])
			}
			if err != nil {
				fmt.Fprint(w, err)
				return
			}
		}
	}
	for _, framing := range []struct{ name, field, first, second string }{
		{"length", "Content-Length: 6", "one", "two"},
		{"chunked", "Transfer-Encoding: chunked", "3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n"},
	} {
		t.Run(framing.name, func(t *testing.T) {
			onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
				send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\n"+framing.field+"\r\n\r\n"+framing.first)
				if got := wait(t, pieces, "the first piece does not arrive"); got != "one" {
					t.Fatalf("got %q", got)
				}
				send(t, conn, framing.second)
				if got := wait(t, pieces, "the second piece does not arrive"); got != "two" {
					t.Fatalf("got %q", got)
				}
				resp := answerTo(t, bufio.NewReader(conn), 200)
				if body, err := io.ReadAll(resp.Body); string(body) != "EOF" || err != nil {
					t.Errorf("%q, %v", body, err)
				}
			})
		})
	}
}

// TestClientGone: upstream notices that a client has disconnected, at each stage of a
// request.
func TestClientGone(t *testing.T) {
	begun, cancelled := make(chan bool, 1), make(chan bool, 1)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			w.(http.Flusher).Flush()
		case "/upload":
			io.ReadFull(r.Body, make([]byte, 3))
			begun <- true
			_, err := io.Copy(io.Discard, r.Body)
			cancelled <- err != nil
			return
		}
		begun <- true
		<-r.Context().Done()
		cancelled <- true
	}
	for _, request := range []string{
		"GET /head HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /body HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none",
		"POST /upload HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
	} {
		t.Run(strings.Fields(request)[1], func(t *testing.T) {
			onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
				send(t, conn, request)
				wait(t, begun, "the request does not arrive")
				conn.Close()
				if !wait(t, cancelled, "upstream goes on") {
					t.Error("the half of an upload was taken for the whole")
				}
			})
		})
	}
}

// TestFailures: each failure of upstream has a status, and a part of a body never
// looks complete.
func TestFailures(t *testing.T) {
	upstream := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/half" {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		send(t, conn, "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
		body, _ := io.ReadAll(answerTo(t, reader, 502).Body)
		if string(body) != "Bad Gateway" {
			t.Errorf("body %q", body)
		}
		send(t, conn, "GET /half HTTP/1.1\r\nHost: a\r\n\r\n")
		if body, err := io.ReadAll(answerTo(t, reader, 200).Body); err == nil {
			t.Errorf("%q looks complete", body)
		}
	})
}

// TestDown: upstream refuses connections, or never answers.
func TestDown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		_, conn := start(t, "127.0.0.1:1", engine)
		send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answerTo(t, bufio.NewReader(conn), 502)

		p, conn := start(t, ln.Addr().String(), engine)
		p.upstream.ReadTimeout = 50 * time.Millisecond
		send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answerTo(t, bufio.NewReader(conn), 504)

		p, conn = start(t, ln.Addr().String(), engine)
		p.upstream.MaxConns, p.upstream.MaxConnWaitTimeout = 1, time.Millisecond
		if _, err := p.upstream.AcquireConn(time.Second, false); err != nil {
			t.Fatal(err)
		}
		send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		answerTo(t, bufio.NewReader(conn), 503)
	}
}

// TestSlowReader: if the client does not read, upstream can send only what the
// sockets buffer.
func TestSlowReader(t *testing.T) {
	const size = 512 << 20
	var sent atomic.Int64
	upstream := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for block := make([]byte, 64<<10); ; {
			n, err := w.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
		sent.Store(0)
		send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := answerTo(t, bufio.NewReader(conn), 200)
		// Wait until no more is sent for a while.
		before := int64(-1)
		for now := sent.Load(); now != before && now < size; now = sent.Load() {
			before = now
			time.Sleep(200 * time.Millisecond)
		}
		if n := sent.Load(); n > 64<<20 {
			t.Fatalf("%d MiB were sent, and nobody has read them", n>>20)
		}
		want := sent.Load() + 1
		if n, err := io.CopyN(io.Discard, resp.Body, want); err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

// TestTunnel: an upgrade becomes a tunnel, and a refusal is forwarded.
func TestTunnel(t *testing.T) {
	upstream := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "echo" || r.Header.Get("Connection") != "Upgrade" || r.URL.Path != "/yes" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello ")
		io.Copy(conn, rw)
	}
	onEachEngine(t, upstream, func(t *testing.T, p *proxy, conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		const fields = " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
		send(t, conn, "GET /no"+fields)
		if body, err := io.ReadAll(answerTo(t, reader, 403).Body); string(body) != "no\n" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
		send(t, conn, "GET /yes"+fields+"early ")
		resp := answerTo(t, reader, 101)
		if resp.Header.Get("Upgrade") != "echo" || resp.Header.Get("Connection") != "Upgrade" {
			t.Errorf("%v", resp.Header)
		}
		send(t, conn, "late")
		conn.CloseWrite()
		if all, err := io.ReadAll(reader); string(all) != "hello early late" && !strings.HasPrefix("hello early late", string(all)) || err != nil {
			t.Errorf("%q, %v", all, err)
		}
	})
}
