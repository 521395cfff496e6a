package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestPipelineStreamsAreRead(t *testing.T) { synctest.Test(t, streamsAreRead) }

func streamsAreRead(t *testing.T) {
	c, peer := newPipelinePeer(t)
	call := beginCall(t, c, "POST", "/", func(req *sluice.Request, resp *sluice.Response) {
		req.SetBodyStream(strings.NewReader("question"), -1)
		resp.StreamBody = true
	})
	conn := peer.accept()
	var got sluice.Request
	if err := got.Read(conn.br); err != nil || string(got.Body()) != "question" {
		t.Fatalf("the server got %q, %v", got.Body(), err)
	}
	conn.say(answerOK("answer"))
	if err := call.end(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(call.resp.BodyStream())
	if err != nil || string(answer) != "answer" {
		t.Errorf("the stream has %q, %v", answer, err)
	}
	failure := errors.New("broken")
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	req.SetRequestURI("http://x/")
	req.Header.SetMethod("POST")
	req.SetBodyStream(io.MultiReader(strings.NewReader("a"), failingReader{failure}), -1)
	if err := c.Do(req, nil); !errors.Is(err, failure) {
		t.Errorf("a broken stream gave %v", err)
	}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func TestPipelineKeepsOrder(t *testing.T) { synctest.Test(t, keepsOrder) }

func keepsOrder(t *testing.T) {
	noNewGoroutines(t)
	c, peer := newPipelinePeer(t)
	calls := make([]*pendingCall, 20)
	targets := make([]string, len(calls))
	var answers []string
	for i := range calls {
		targets[i] = fmt.Sprintf("/%d", i)
		calls[i] = beginCall(t, c, "GET", targets[i])
		answers = append(answers, answerOK(targets[i]))
	}
	if n := c.PendingRequests(); n != len(calls) {
		t.Errorf("%d pending requests", n)
	}
	conn := peer.accept()
	conn.expect(targets...) // before any is answered
	conn.say(answers...)
	for i, call := range calls {
		call.want(targets[i])
	}
	if n := c.PendingRequests(); n != 0 {
		t.Errorf("%d pending requests at the end", n)
	}
}

// Many callers with few objects: each must get its own answer.
func TestPipelineManyCallers(t *testing.T) {
	for _, conns := range []int{1, 4} {
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			noNewGoroutines(t)
			dial := inMemory(t, func(ctx *sluice.RequestCtx) {
				ctx.Write(ctx.Path())
				ctx.Write(ctx.PostBody())
			})
			var dials atomic.Int32
			c := &sluice.PipelineClient{Addr: "x:80", MaxConns: conns, Dial: func(addr string) (net.Conn, error) {
				dials.Add(1)
				return dial(addr)
			}}
			t.Cleanup(c.CloseIdleConnections)
			var group sync.WaitGroup
			callers := 1000
			if testing.Short() {
				callers = 300
			}
			for i := range callers {
				group.Go(func() { askOften(t, c, i, 20) })
			}
			group.Wait()
			if n := int(dials.Load()); n > conns {
				t.Errorf("%d connections, want at most %d", n, conns)
			}
		})
	}
}

func askOften(t *testing.T, c *sluice.PipelineClient, id, times int) {
	req, resp := sluice.AcquireRequest(), sluice.AcquireResponse()
	defer sluice.ReleaseRequest(req)
	defer sluice.ReleaseResponse(resp)
	for n := range times {
		target := fmt.Sprintf("/%d/%d", id, n)
		req.Reset()
		req.SetRequestURI("http://x" + target)
		want := target
		if n%3 == 0 {
			req.Header.SetMethod("POST")
			body := bytes.Repeat([]byte{'a' + byte(id%26)}, id*n%5000)
			req.SetBody(body)
			want += string(body)
		}
		if err := c.Do(req, resp); err != nil || string(resp.Body()) != want {
			t.Errorf("%s: %v, %d bytes, want %d", target, err, len(resp.Body()), len(want))
			return
		}
	}
}

func TestPipelineUsesAllConnections(t *testing.T) { synctest.Test(t, usesAllConnections) }

func usesAllConnections(t *testing.T) {
	c, peer := newPipelinePeer(t)
	c.MaxConns = 3
	var calls []*pendingCall
	for range 3 {
		calls = append(calls, beginCall(t, c, "GET", "/"))
	}
	for range 3 {
		conn := peer.accept()
		conn.expect("/")
		conn.say(answerOK("hi"))
	}
	for _, call := range calls {
		call.want("hi")
	}
}

// TestPipelineLeavesTheResponseClean: a Response that the answer is read into has
// nothing of a HEAD request's settings afterwards, and nothing of half an answer.
func TestPipelineLeavesTheResponseClean(t *testing.T) {
	c, peer := newPipelinePeer(t)
	resp := new(sluice.Response)
	do := func(method, answer string) error {
		done := make(chan error, 1)
		req := new(sluice.Request)
		req.Header.SetMethod(method)
		req.SetRequestURI("http://x/")
		go func() { done <- c.Do(req, resp) }()
		conn := peer.accept()
		conn.expect("/")
		conn.say(answer)
		_ = conn.Close()
		return <-done
	}
	if err := do("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"); err != nil || resp.SkipBody {
		t.Errorf("HEAD: %v, SkipBody %v", err, resp.SkipBody)
	}
	if err := do("GET", "HTTP/1.1 201 Created\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"); err != nil || string(resp.Body()) != "hi" {
		t.Errorf("GET: %v, %q", err, resp.Body())
	}
	for _, method := range []string{"POST", "HEAD"} {
		err := do(method, "HTTP/1.1 202 Accepted\r\nX: y\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nab")
		if err == nil || resp.StatusCode() != 200 || len(resp.Body()) > 0 || resp.SkipBody || resp.Header.Len() > 1 {
			t.Errorf("%s: %v, half an answer is left: %v", method, err, resp)
		}
	}
	if err := do("POST", "HTTP/1.1 202 Accepted\r\nX: y\r\nContent-Length: 5\r\n\r\nab"); err == nil || resp.StatusCode() != 200 || len(resp.Body()) > 0 {
		t.Errorf("POST: %v, half a body is left: %v", err, resp)
	}
}

// TestPipelinesKeepTheCallersSettings: the same for a PipelineClient.
func TestPipelinesKeepTheCallersSettings(t *testing.T) {
	p := harness.NewClientPeer(t, echoing)
	c := &sluice.PipelineClient{Addr: p.Addr()}
	defer c.CloseIdleConnections()
	for _, method := range []string{sluice.MethodGet, sluice.MethodPost, sluice.MethodHead} {
		for _, skips := range []bool{false, true} {
			req, resp := harness.NewCall(method, p.URL("/x"))
			req.Header.SetContentType("a/b")
			req.SetBodyString(strings.Repeat("x", 3))
			resp.SkipBody = skips
			if err := c.DoTimeout(req, resp, time.Minute); err != nil {
				t.Fatal(err)
			}
			want := method + " /x [a/b] xxx"
			if skips || method == sluice.MethodHead {
				want = ""
			}
			if got := string(resp.Body()); got != want || resp.SkipBody != skips {
				t.Errorf("%s, skip %v: %q, %v", method, skips, got, resp.SkipBody)
			}
			if resp.RemoteAddr() == nil || resp.RemoteAddr().String() != p.Addr() || resp.LocalAddr() == nil {
				t.Errorf("addresses %v, %v", resp.LocalAddr(), resp.RemoteAddr())
			}
		}
	}
	req, resp := harness.NewCall(sluice.MethodGet, p.URL("/x"))
	if err := c.DoDeadline(req, resp, time.Now().Add(-time.Second)); err != sluice.ErrTimeout {
		t.Error(err)
	}
}

// TestPipelineKeepsAConnectionInUse, even if a single call uses it.
func TestPipelineKeepsAConnectionInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := newPipelinePeer(t)
		call := &pendingCall{t: t, req: getRequest("/"), resp: new(sluice.Response), err: make(chan error, 1)}
		go func() { call.err <- c.Do(call.req, call.resp) }()
		conn := peer.accept()
		conn.expect("/")
		c.CloseIdleConnections()
		conn.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nup")
		call.want("up")
		synctest.Wait()
	})
}

// TestPipelineAddressesInTurn: all are tried, from the first on.
func TestPipelineAddressesInTurn(t *testing.T) {
	var dialed []string
	c := &sluice.PipelineClient{Addr: "a:1,b:2,c:3", Dial: func(addr string) (net.Conn, error) {
		dialed = append(dialed, addr)
		return nil, harness.ErrWire
	}}
	if err := c.Do(getRequest("/"), nil); !errors.Is(err, harness.ErrWire) || fmt.Sprint(dialed) != "[a:1 b:2 c:3]" {
		t.Errorf("%v, %v", dialed, err)
	}
}

func TestPipelineAnswers(t *testing.T) {
	for _, tc := range []struct {
		name, method, answer string
		set                  func(*sluice.Request, *sluice.Response)
		status               int
		body                 string
		err                  error
		retires              bool // the connection ends with it
	}{
		{name: "length", answer: answerOK("hi"), status: 200, body: "hi"},
		{name: "chunked with trailer", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nhi\r\n0\r\nX-T: v\r\n\r\n", status: 200, body: "hi"},
		{name: "HEAD", method: "HEAD", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", status: 200},
		{name: "HEAD without length", method: "HEAD", answer: "HTTP/1.1 200 OK\r\n\r\n", status: 200},
		{name: "204", answer: "HTTP/1.1 204 No Content\r\n\r\n", status: 204},
		{name: "304 with length", answer: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status: 304},
		{name: "interim", answer: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 3) + answerOK("hi"), status: 200, body: "hi"},
		{name: "too many interim", answer: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 200), err: textError("too many informational responses"), retires: true},
		{name: "long enough", answer: answerOK(strings.Repeat("x", 100)), status: 200, body: strings.Repeat("x", 100)},
		{name: "too long", answer: answerOK(strings.Repeat("x", 101)), err: sluice.ErrBodyTooLarge, retires: true},
		{name: "too long, chunked", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" + strings.Repeat("x", 101) + "\r\n0\r\n\r\n", err: sluice.ErrBodyTooLarge, retires: true},
		{name: "close", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", retires: true},
		{name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", status: 200, body: "hi", retires: true},
		{name: "host of its own", answer: answerOK("hi"), status: 200, body: "hi", set: func(req *sluice.Request, _ *sluice.Response) { req.UseHostHeader = true; req.Header.SetHost("other") }},
		{name: "late bytes", answer: answerOK("hi") + answerOK("late"), status: 200, body: "hi", retires: true},
		{name: "switching", answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", status: 101, retires: true},
		{name: "no head", answer: "nonsense\r\n\r\n", err: sluice.ErrReadingResponseHeaders, retires: true},
		{name: "skipped body", answer: answerOK("hi"), status: 200, set: func(_ *sluice.Request, resp *sluice.Response) { resp.SkipBody = true }},
		{name: "request asks for the end", answer: answerOK("hi"), status: 200, body: "hi", set: func(req *sluice.Request, _ *sluice.Response) { req.SetConnectionClose() }, retires: true},
		{name: "streams", method: "POST", answer: answerOK("hi"), status: 200, body: "hi", set: func(req *sluice.Request, resp *sluice.Response) {
			req.SetBodyStream(strings.NewReader("question"), -1)
			resp.StreamBody = true
		}},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			c, peer := newPipelinePeer(t)
			c.MaxResponseBodySize = 100
			set := tc.set
			if set == nil {
				set = func(*sluice.Request, *sluice.Response) {}
			}
			method := tc.method
			if method == "" {
				method = "GET"
			}
			call := beginCall(t, c, method, "/1", set)
			conn := peer.accept()
			conn.expect("/1")
			conn.say(tc.answer)
			if err := call.end(); !isError(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			body := call.resp.Body()
			if tc.err == nil && (call.resp.StatusCode() != tc.status || string(body) != tc.body) {
				t.Errorf("%d %q, want %d %q", call.resp.StatusCode(), body, tc.status, tc.body)
			}
			if tc.retires {
				conn.expectEnd()
			}
			call = beginCall(t, c, "GET", "/2")
			if tc.retires {
				conn = peer.accept()
			}
			conn.expect("/2")
			conn.say(answerOK("next"))
			call.want("next")
		})
	}
}

func TestPipelineRefusesToSendHTTPSInTheClear(t *testing.T) {
	c := &sluice.PipelineClient{Addr: "x:80", Dial: func(string) (net.Conn, error) { panic("dialed") }}
	req := sluice.AcquireRequest()
	defer sluice.ReleaseRequest(req)
	req.SetRequestURI("https://x/")
	if err := c.Do(req, nil); !isError(err, textError("sluice: a request with the scheme https must not be sent without TLS")) {
		t.Errorf("error %v", err)
	}
}

// TestPipelineClosesIdle: CloseIdleConnections closes connections that were used.
func TestPipelineClosesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := newPipelinePeer(t)
		c.MaxIdleConnDuration = time.Hour
		call := &pendingCall{t: t, req: getRequest("/"), resp: new(sluice.Response), err: make(chan error, 1)}
		go func() { call.err <- c.Do(call.req, call.resp) }()
		conn := peer.accept()
		conn.expect("/")
		conn.say(answerOK("up"))
		call.want("up")
		synctest.Wait()
		c.CloseIdleConnections()
		conn.expectEnd()
	})
}

// TestPipelineSendsWholeRequests: also those that do not leave in one piece.
func TestPipelineSendsWholeRequests(t *testing.T) {
	const large = 2049 // bytes; what is shorter leaves in one write with the head
	for want, set := range map[string]func(req *sluice.Request){
		"Content-Length: 4\r\n\r\nbody":         func(req *sluice.Request) { req.SetBodyString("body") },
		"\r\n\r\n" + strings.Repeat("x", large): func(req *sluice.Request) { req.SetBodyString(strings.Repeat("x", large)) },
		"\r\n\r\na=b":                           func(req *sluice.Request) { req.PostArgs().Set("a", "b") },
		"\r\n\r\n4\r\nbody\r\n0\r\nSum: 1\r\n\r\n": func(req *sluice.Request) {
			req.SetBodyString("body")
			req.Header.Set("Sum", "1")
			_ = req.Header.SetTrailer("Sum")
		},
		"\r\n\r\nstream": func(req *sluice.Request) { req.SetBodyStream(strings.NewReader("stream"), 6) },
	} {
		received := make(chan string, 1)
		peer := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			var raw []byte
			for in := make([]byte, 4096); !bytes.HasSuffix(raw, []byte(want)); {
				n, err := c.Br.Read(in)
				if err != nil {
					return
				}
				raw = append(raw, in[:n]...)
			}
			received <- string(raw)
			c.Send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			c.Gone()
		})
		c := &sluice.PipelineClient{Addr: peer.Addr()}
		req, resp := harness.NewCall("POST", peer.URL("/"))
		set(req)
		within(t, fmt.Sprintf("%.100q", want), func() {
			if err := c.Do(req, resp); err != nil || resp.StatusCode() != sluice.StatusOK {
				t.Errorf("%.100q: %v, status %d", want, err, resp.StatusCode())
			}
			if got := <-received; !strings.HasPrefix(got, "POST / HTTP/1.1\r\n") {
				t.Errorf("%.100q: received %.300q", want, got)
			}
		})
		c.CloseIdleConnections()
	}
}

// TestPipelineCannotEncode: nothing is dialed, and the response is as after Reset.
func TestPipelineCannotEncode(t *testing.T) {
	c := &sluice.PipelineClient{Addr: "h:80", Dial: func(string) (net.Conn, error) {
		t.Error("dialed")
		return nil, errStub
	}}
	req, resp := harness.NewCall("HEAD", "http://h:80/")
	req.SetBodyStream(iotest.ErrReader(errStub), -1)
	resp.SetBodyString("old")
	if err := c.Do(req, resp); err != errStub || resp.SkipBody || len(resp.Body()) != 0 {
		t.Errorf("%v, skips %v, %q", err, resp.SkipBody, resp.Body())
	}
}
