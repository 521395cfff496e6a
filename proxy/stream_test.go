package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
)

// TestKinds: requests and responses with and without bodies, in turn on one connection.
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
		case "/large":
			w.Header().Set("Content-Length", "100000")
			io.WriteString(w, strings.Repeat("x", 100000))
		default:
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body)
		}
	}
	long := strings.Repeat("y", 70000)
	onEachEngine(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		for _, c := range []struct {
			request string
			status  int
			body    string
			length  int64
		}{
			{post("Content-Length: 4\r\n", "body"), 200, "body", 4},
			{post(chunked, "4\r\nbody\r\n0\r\n\r\n"), 200, "body", 4},
			{post("Content-Length: 0\r\n", ""), 200, "", 0},
			{post("Content-Length: 70000\r\n", long), 200, long, 70000},
			{"GET /304 HTTP/1.1\r\nHost: a\r\n\r\n", 304, "", 0},
			{"GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", 204, "", 0},
			{"GET /large HTTP/1.1\r\nHost: a\r\n\r\n", 200, strings.Repeat("x", 100000), 100000},
			{"GET /trailer HTTP/1.1\r\nHost: a\r\n\r\n", 200, "body", -1},
			{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 200, "", 0},
		} {
			send(t, conn, c.request)
			resp := answerTo(t, reader, c.status)
			if body := bodyOf(t, resp); body != c.body || resp.ContentLength != c.length {
				t.Errorf("%.40q: %d bytes, length %d", c.request, len(body), resp.ContentLength)
			}
			if c.length == -1 && (resp.Trailer.Get("X-Sum") != "7" || resp.Trailer.Get("X-Both") != "trailer" || resp.Header.Get("X-Both") != "head") {
				t.Errorf("trailer %v, head %v", resp.Trailer, resp.Header)
			}
		}
		send(t, conn, "HEAD /large HTTP/1.1\r\nHost: a\r\n\r\n")
		if resp, err := http.ReadResponse(reader, &http.Request{Method: "HEAD"}); err != nil || resp.ContentLength != 100000 {
			t.Errorf("%v, %v", resp, err)
		}
	})
}

// TestEvents: each event arrives before the next one is sent.
func TestEvents(t *testing.T) {
	next := make(chan int)
	upstream := func(w http.ResponseWriter, _ *http.Request) {
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
	onEachEngine(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		send(t, conn, get(""))
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

// TestFieldsOfMiddleware: what middleware sets after Handle arrives, also with a body whose end is
// not known yet.
func TestFieldsOfMiddleware(t *testing.T) {
	to := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.(http.Flusher).Flush()
		fmt.Fprint(w, "late")
	})
	for _, engine := range engines {
		p := newProxy(t, Options{To: []string{to}})
		s := &sluice.Server{Engine: engine, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
			p.Handle(ctx)
			if ctx.HeadSent() {
				t.Error("the head is sent")
			}
			ctx.Response.Header.Set("Strict-Transport-Security", "max-age=1")
			ctx.Response.Header.Del("Access-Control-Allow-Origin")
		}}
		conn := dialFront(t, serveUntilEnd(t, s.Serve, s.Shutdown))
		send(t, conn, get(""))
		resp := answerTo(t, bufio.NewReader(conn), 200)
		if body := bodyOf(t, resp); body != "late" || resp.Header.Get("Strict-Transport-Security") == "" || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q, %v", body, resp.Header)
		}
	}
}

// TestUpload: the upstream gets the first piece before the second one is sent, with its
// trailer fields, and 100 Continue comes when the body is wanted.
func TestUpload(t *testing.T) {
	pieces := make(chan string, 10)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		for block := make([]byte, 100); ; {
			n, err := r.Body.Read(block)
			if n > 0 {
				select {
				case pieces <- string(block[:n]):
				default: // the rest of a long body
				}
			}
			if err != nil {
				fmt.Fprint(w, err, r.Trailer.Get("X-Sum"))
				return
			}
		}
	}
	for _, framing := range []struct{ fields, first, second, answer string }{
		{"Content-Length: 20006\r\n", "one", "two" + strings.Repeat("x", 20000), "EOF"},
		{chunked, "3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n", "EOF"},
		{chunked + "Expect: 100-continue\r\n", "3\r\none\r\n", "3\r\ntwo\r\n0\r\n\r\n", "EOF"},
		{chunked + "Trailer: X-Sum\r\n", "3\r\none\r\n", "3\r\ntwo\r\n0\r\nX-Sum: 7\r\n\r\n", "EOF7"},
	} {
		t.Run(framing.fields, func(t *testing.T) {
			onEachProtocol(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
				r := bufio.NewReader(conn)
				send(t, conn, post(framing.fields, ""))
				if strings.Contains(framing.fields, "Expect") {
					answerTo(t, r, 100)
				}
				send(t, conn, framing.first)
				if got := wait(t, pieces, "the first piece does not arrive"); got != "one" {
					t.Fatalf("got %q", got)
				}
				send(t, conn, framing.second)
				if got := wait(t, pieces, "the second piece does not arrive"); !strings.HasPrefix(got, "two") {
					t.Fatalf("got %q", got)
				}
				if body := bodyOf(t, answerTo(t, r, 200)); body != framing.answer {
					t.Errorf("%q", body)
				}
				for len(pieces) > 0 {
					<-pieces
				}
			})
		})
	}
}

// TestTrailersOfRequests: trailer fields arrive as such, whether they are announced or not, and
// whatever client and upstream speak. Without them the request ends as others do.
func TestTrailersOfRequests(t *testing.T) {
	up := &sluice.Server{StreamRequestBody: true, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		body, err := io.ReadAll(ctx.RequestBodyStream())
		fmt.Fprintf(ctx, "%s %v %q", body, err, ctx.Request.Header.TrailerHeader())
	}}
	for _, to := range []string{"http://", "h2c://"} {
		to += serveUntilEnd(t, up.Serve, up.Shutdown)
		for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
			client := &sluice.HostClient{Addr: front(t, newProxy(t, Options{To: []string{to}}), sluice.EngineAuto), HTTP2: mode}
			defer client.CloseIdleConnections()
			for _, c := range []struct{ announced, later, want string }{
				{"", "", `"\r\n"`},
				{"X-Sum", "", `"X-Sum: 1\r\n\r\n"`},
				{"", "X-Late: 2\r\n\r\n", `"X-Late: 2\r\n\r\n"`},
				{"X-Sum", "X-Late: 2\r\nConnection: x\r\nX-Forwarded-For: y\r\n\r\n", `"X-Sum: 1\r\nX-Late: 2\r\n\r\n"`},
			} {
				for _, length := range []int{-1, 4, 40_000} {
					var req sluice.Request
					var resp sluice.Response
					req.SetRequestURI("http://a/")
					req.Header.SetMethod("POST")
					text := strings.Repeat("x", max(length, 4))
					if length == 4 && mode == sluice.HTTP2Only { // HTTP/1.1 would send it in chunks
						req.SetBodyString(text)
					} else {
						req.SetBodyStream(&withTrailers{Reader: iotest.DataErrReader(strings.NewReader(text)), h: &req.Header, section: c.later}, length)
					}
					if c.announced != "" {
						_ = req.Header.AddTrailer(c.announced)
						req.Header.Set(c.announced, "1")
					}
					want := text + " <nil> " + c.want
					switch {
					case length >= 0 && mode == sluice.HTTP2Off: // there is no such message
						continue
					case length == 40_000 && to[:4] == "http" && c.announced == "": // there is no place after a length
						want = strings.Replace(want, `X-Late: 2\r\n`, "", 1)
					case length == 4 && mode == sluice.HTTP2Only: // nothing is late
						want = strings.Replace(want, `X-Late: 2\r\n`, "", 1)
					}
					if err := client.DoTimeout(&req, &resp, longEnough); err != nil || string(resp.Body()) != want {
						t.Errorf("%s, %v, %+v, %d bytes: %.200q, %v", to, mode, c, length, resp.Body(), err)
					}
				}
			}
		}
	}
}

// withTrailers has trailer fields when it ends.
type withTrailers struct {
	io.Reader
	h       *sluice.RequestHeader
	section string
}

func (w *withTrailers) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err == io.EOF && w.section != "" {
		_ = w.h.ReadTrailer(bufio.NewReader(strings.NewReader(w.section)))
		w.section = ""
	}
	return n, err
}

// MayHaveTrailers is for the client of HTTP/2.
func (w *withTrailers) MayHaveTrailers() bool { return true }

// TestEarlyAnswer: the answer to a part of an upload arrives, and the rest is not taken for a
// request.
func TestEarlyAnswer(t *testing.T) {
	upstream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(403)
		io.WriteString(w, "no")
	}
	onEachEngine(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		send(t, conn, post("Content-Length: 1000000\r\n", strings.Repeat("x", 1000)))
		resp := answerTo(t, bufio.NewReader(conn), 403)
		if body := bodyOf(t, resp); body != "no" || !resp.Close {
			t.Errorf("%q, %v", body, resp.Header)
		}
	})
}

// TestEarlyHints: 103 arrives before the upstream goes on, and its fields are not those of the
// final response.
func TestEarlyHints(t *testing.T) {
	goOn := make(chan bool)
	upstream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(103)
		<-goOn
		w.Header().Set("Link", "</b.css>")
		w.WriteHeader(200)
	}
	onEachProtocol(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		hints := make(chan string, 1)
		req, _ := http.NewRequest("GET", "http://"+conn.RemoteAddr().String()+"/", nil)
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints <- fmt.Sprint(code, h["Link"])
				goOn <- true
				return nil
			},
		}))
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		if got := wait(t, hints, "no hints"); got != "103 [</a.css>; rel=preload]" {
			t.Error(got)
		}
		if links := resp.Header["Link"]; len(links) != 1 || links[0] != "</b.css>" {
			t.Errorf("%q", links)
		}
	})
}

// TestSlowReader: if the client does not read, the upstream can send only what the sockets
// buffer.
func TestSlowReader(t *testing.T) {
	const size = 512 << 20
	var sent atomic.Int64
	upstream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for block := make([]byte, 64<<10); ; {
			n, err := w.Write(block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	onEachEngine(t, Options{}, upstream, func(t *testing.T, _ *Proxy, conn *net.TCPConn) {
		sent.Store(0)
		send(t, conn, get(""))
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

// TestShutdown: a request in progress is answered after Shutdown was called.
func TestShutdown(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	to := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		begun <- true
		<-goOn
		io.WriteString(w, "late")
	})
	for _, engine := range engines {
		s := &sluice.Server{Engine: engine, Handler: newProxy(t, Options{To: []string{to}}).Handle, StreamRequestBody: true, Logger: silent}
		conn := dialFront(t, serveUntilEnd(t, s.Serve, func() error { return nil }))
		send(t, conn, get(""))
		<-begun
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown() }()
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
		goOn <- true
		if body := bodyOf(t, answerTo(t, bufio.NewReader(conn), 200)); body != "late" {
			t.Errorf("%q", body)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
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
	onEachEngine(t, Options{}, upstream, func(t *testing.T, p *Proxy, conn *net.TCPConn) {
		reader := bufio.NewReader(conn)
		const fields = " HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
		// What a request has set for its response does not hold for the next one.
		for range 2 {
			for _, request := range []string{"GET /no HTTP/1.1\r\nHost: a\r\n\r\n", "GET /no" + fields} {
				send(t, conn, request)
				if body := bodyOf(t, answerTo(t, reader, 403)); body != "no\n" {
					t.Errorf("%q", body)
				}
			}
			send(t, conn, "HEAD /no"+fields)
			if resp, err := http.ReadResponse(reader, &http.Request{Method: "HEAD"}); err != nil || resp.StatusCode != 403 {
				t.Fatal(resp, err)
			}
		}
		send(t, conn, "GET /yes"+fields+"early ")
		resp := answerTo(t, reader, 101)
		if resp.Header.Get("Upgrade") != "echo" || resp.Header.Get("Connection") != "Upgrade" {
			t.Errorf("%v", resp.Header)
		}
		send(t, conn, "late")
		want := "hello early late"
		got := make([]byte, len(want))
		if _, err := io.ReadFull(reader, got); string(got) != want || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if n := p.Status()[0].Pending; n != 1 {
			t.Errorf("%d pending", n)
		}
		conn.Close()
		awaitIdle(t, p)
	})
}

// TestUpgradeAnswered: a response that does not change the protocol is forwarded while it arrives, and
// a client that goes away ends it. A change to another protocol than the client's is not forwarded.
func TestUpgradeAnswered(t *testing.T) {
	const first = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst \r\n"
	ended := make(chan error, 1)
	upstream := func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		switch r.URL.Path {
		case "/parts":
			io.WriteString(conn, first)
			<-ended // the client has got the first one
			io.WriteString(conn, "4\r\nlast\r\n0\r\n\r\n")
		case "/cut":
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		case "/gone":
			io.WriteString(conn, first)
			_, err := rw.ReadByte()
			ended <- err
		default:
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"+r.URL.Query().Get("field")+"\r\n\r\n")
		}
	}
	onEachEngine(t, Options{}, upstream, func(t *testing.T, p *Proxy, conn *net.TCPConn) {
		addr := conn.RemoteAddr().String()
		ask := func(target string) (*net.TCPConn, *bufio.Reader) {
			conn := dialFront(t, addr)
			send(t, conn, "GET "+target+" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo, chat/2\r\n\r\n")
			return conn, bufio.NewReader(conn)
		}
		_, r := ask("/parts")
		resp, part := answerTo(t, r, 200), make([]byte, 6)
		if _, err := io.ReadFull(resp.Body, part); err != nil || string(part) != "first " {
			t.Fatalf("%q, %v", part, err)
		}
		ended <- nil
		if rest := bodyOf(t, resp); rest != "last" {
			t.Errorf("%q", rest)
		}
		_, r = ask("/cut")
		if body, err := io.ReadAll(answerTo(t, r, 200).Body); string(body) != "half" || err != io.ErrUnexpectedEOF {
			t.Errorf("%q, %v", body, err)
		}
		conn, r = ask("/gone")
		answerTo(t, r, 200)
		conn.Close()
		if err := wait(t, ended, "the upstream still has the request"); err == nil {
			t.Error("the upstream has got more than the request")
		}
		for field, status := range map[string]int{
			"Upgrade:+ECHO": 101, "Upgrade:+chat/2": 101, "Upgrade:+other": 502, "X:+y": 502, "Upgrade:": 502,
		} {
			conn, r := ask("/?field=" + field)
			answerTo(t, r, status)
			conn.Close()
		}
		awaitIdle(t, p)
	})
}

// TestConversation: with HTTP/2 to the upstream, each part of the response arrives before the
// next part of the request is sent, as gRPC needs it; a client that goes away ends both.
func TestConversation(t *testing.T) {
	over := make(chan error, 1)
	up := &sluice.Server{StreamRequestBody: true, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		body, block := ctx.RequestBodyStream(), make([]byte, 100)
		for {
			n, err := body.Read(block)
			if n > 0 {
				_, _ = ctx.Write(block[:n])
				_ = ctx.Flush()
			}
			if err != nil {
				over <- err
				return
			}
		}
	}}
	to := "h2c://" + serveUntilEnd(t, up.Serve, up.Shutdown)
	for _, engine := range engines {
		t.Run(engine.String(), func(t *testing.T) {
			client := &sluice.HostClient{Addr: front(t, newProxy(t, Options{To: []string{to}}), engine), HTTP2: sluice.HTTP2Only}
			defer client.CloseIdleConnections()
			for _, isWhole := range []bool{true, false} {
				r, w := io.Pipe()
				var req sluice.Request
				var resp sluice.Response
				resp.StreamBody = true
				req.SetRequestURI("http://a/")
				req.Header.SetMethod("POST")
				req.SetBodyStream(r, -1)
				go func() { _, _ = io.WriteString(w, "one") }()
				if err := client.DoTimeout(&req, &resp, longEnough); err != nil {
					t.Fatal(err)
				}
				for _, next := range []string{"two", "end"} {
					got := make([]byte, 3)
					if _, err := io.ReadFull(resp.BodyStream(), got); err != nil {
						t.Fatal(err)
					}
					_, _ = io.WriteString(w, next)
				}
				if isWhole {
					w.Close()
					if rest, err := io.ReadAll(resp.BodyStream()); string(rest) != "end" || err != nil {
						t.Errorf("%q, %v", rest, err)
					}
				} else {
					_ = resp.CloseBodyStream()
				}
				if err := wait(t, over, "the upstream goes on"); (err == io.EOF) != isWhole {
					t.Errorf("the whole body: %v, but %v", isWhole, err)
				}
			}
		})
	}
}

// TestEarlyAnswerHTTP2: over HTTP/1.1 the client gets the answer of an upstream of HTTP/2 when
// its body has ended, or at once if it is a failure.
func TestEarlyAnswerHTTP2(t *testing.T) {
	up := &sluice.Server{StreamRequestBody: true, Logger: silent, Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/no" {
			ctx.Error("no", 403)
			return
		}
		_ = ctx.Flush()
		n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
		fmt.Fprint(ctx, n, err)
	}}
	to := "h2c://" + serveUntilEnd(t, up.Serve, up.Shutdown)
	for _, engine := range engines {
		addr := front(t, newProxy(t, Options{To: []string{to}}), engine)
		conn := dialFront(t, addr)
		r := bufio.NewReader(conn)
		for range 20 {
			send(t, conn, post(chunked, "3\r\none\r\n"))
			send(t, conn, "3\r\ntwo\r\n0\r\nX-Sum: 1\r\n\r\n")
			if body := bodyOf(t, answerTo(t, r, 200)); body != "6 <nil>" {
				t.Errorf("%q", body)
			}
		}
		send(t, conn, strings.Replace(post(chunked, "3\r\none\r\n"), " / ", " /no ", 1))
		if body := bodyOf(t, answerTo(t, r, 403)); body != "no" {
			t.Errorf("%q", body)
		}
	}
}

// TestCancelledDownload: the client's end of a response is no fault, and nothing is logged.
func TestCancelledDownload(t *testing.T) {
	ended := make(chan struct{}, 1)
	to := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "first")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		ended <- struct{}{}
	})
	for _, scheme := range []string{"http", "h2c"} {
		for _, mode := range []sluice.HTTP2Mode{sluice.HTTP2Off, sluice.HTTP2Only} {
			for _, engine := range engines {
				var logged bytes.Buffer
				logger := log.New(&logged, "", 0)
				p := newProxy(t, Options{To: []string{strings.Replace(to, "http", scheme, 1)}, Logger: logger})
				s := &sluice.Server{Engine: engine, Handler: p.Handle, Logger: logger}
				client := &sluice.Client{HTTP2: mode, StreamResponseBody: true}
				req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
				req.SetRequestURI("http://" + serveUntilEnd(t, s.Serve, s.Shutdown))
				if err := client.Do(req, resp); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.BodyStream(), make([]byte, len("first"))); err != nil {
					t.Error(err)
				}
				_ = resp.CloseBodyStream()
				wait(t, ended, "the request to the upstream does not end")
				if err := s.Shutdown(); err != nil { // what the handler logs is there
					t.Error(err)
				}
				if logged.Len() > 0 && !strings.HasPrefix(logged.String(), "connections are served") {
					t.Errorf("%s, mode %d, %v: %s", scheme, mode, engine, &logged)
				}
				client.CloseIdleConnections()
			}
		}
	}
}
