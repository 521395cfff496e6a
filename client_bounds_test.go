package sluice

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/balance"
)

// echoing answers each request with what it was.
func echoing(c *peerConn) {
	for r := c.request(); r != nil; r = c.request() {
		text := fmt.Sprintf("%s %s [%s] %s", r.Header.Method(), r.Header.RequestURI(), r.Header.ContentType(), r.Body())
		if string(r.Header.RequestURI()) == "/303" {
			c.send("HTTP/1.1 303 See Other\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		c.send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(text)))
		if !r.Header.IsHead() {
			c.send(text)
		}
	}
}

// TestWhatClientsSend: the verbs send what they say, with each kind of client.
func TestWhatClientsSend(t *testing.T) {
	p := newClientPeer(t, echoing)
	args := new(Args)
	args.Set("a", "b c")
	ctx := context.Background()
	for name, c := range map[string]interface {
		Get(dst []byte, url string) (int, []byte, error)
		GetTimeout(dst []byte, url string, timeout time.Duration) (int, []byte, error)
		GetDeadline(dst []byte, url string, deadline time.Time) (int, []byte, error)
		Post(dst []byte, url string, postArgs *Args) (int, []byte, error)
	}{"Client": new(Client), "HostClient": p.host()} {
		for want, send := range map[string]func() (int, []byte, error){
			"GET /g [] ": func() (int, []byte, error) { return c.Get([]byte("old"), p.url("/g")) },
			"GET /t [] ": func() (int, []byte, error) { return c.GetTimeout([]byte("old"), p.url("/t"), time.Minute) },
			"GET /d [] ": func() (int, []byte, error) { return c.GetDeadline(nil, p.url("/d"), time.Now().Add(time.Minute)) },
			"POST /p [application/x-www-form-urlencoded] a=b+c": func() (int, []byte, error) { return c.Post(nil, p.url("/p"), args) },
			"POST /n [application/x-www-form-urlencoded] ":      func() (int, []byte, error) { return c.Post(nil, p.url("/n"), nil) },
			"GET /there [] ": func() (int, []byte, error) { return c.Post(nil, p.url("/303"), args) },
		} {
			if status, got, err := send(); status != 200 || string(got) != want || err != nil {
				t.Errorf("%s: %d %q, %v, want %q", name, status, got, err, want)
			}
		}
		sent := len(p.requests())
		for _, deadline := range []time.Time{{}, time.Now().Add(-time.Hour), time.Now()} {
			if status, got, err := c.GetDeadline([]byte("kept"), p.url("/late"), deadline); status != 0 || string(got) != "kept" || err != ErrTimeout {
				t.Errorf("%s: %d %q, %v", name, status, got, err)
			}
		}
		if len(p.requests()) != sent {
			t.Errorf("%s: requests were sent after their deadline: %q", name, p.requests()[sent:])
		}
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errWire)
	if _, _, err := new(Client).GetContext(ended, nil, p.url("/")); !errors.Is(err, errWire) {
		t.Error(err)
	}
}

// TestClientsKeepTheCallersSettings: of the request and the response.
func TestClientsKeepTheCallersSettings(t *testing.T) {
	p := newClientPeer(t, echoing)
	for name, c := range map[string]interface {
		Do(req *Request, resp *Response) error
		DoRedirects(req *Request, resp *Response, maxRedirectsCount int) error
	}{"Client": new(Client), "HostClient": p.host(), "short-lived": &HostClient{Addr: p.addr(), MaxConnDuration: 1}} {
		for _, method := range []string{MethodGet, MethodHead, MethodPost} {
			for _, skips := range []bool{false, true} {
				for _, streams := range []bool{false, true} {
					req, resp := newCall(method, p.url("/x"))
					resp.SkipBody, resp.StreamBody = skips, streams
					if err := c.Do(req, resp); err != nil {
						t.Fatal(name, err)
					}
					want := ""
					if method != MethodHead && !skips {
						want = method + " /x [] "
					}
					if got := string(resp.Body()); got != want || resp.SkipBody != skips || resp.StreamBody != streams || req.ConnectionClose() {
						t.Errorf("%s, %s, skip %v, stream %v: %q; %v, %v, close %v", name, method, skips, streams, got, resp.SkipBody, resp.StreamBody, req.ConnectionClose())
					}
					if resp.RemoteAddr() == nil || resp.RemoteAddr().String() != p.addr() || resp.LocalAddr() == nil {
						t.Errorf("%s: addresses %v, %v", name, resp.LocalAddr(), resp.RemoteAddr())
					}
				}
			}
		}
		req, resp := newCall(MethodPost, p.url("/303"))
		req.PostArgs().Set("secret", "1")
		if err := c.DoRedirects(req, resp, 1); err != nil || string(resp.Body()) != "GET /there [] " || req.PostArgs().Len() != 0 {
			t.Errorf("%s: %q, %v, %s", name, resp.Body(), err, req.PostArgs())
		}
	}
}

// TestPipelinesKeepTheCallersSettings: the same for a PipelineClient.
func TestPipelinesKeepTheCallersSettings(t *testing.T) {
	p := newClientPeer(t, echoing)
	c := &PipelineClient{Addr: p.addr()}
	defer c.CloseIdleConnections()
	for _, method := range []string{MethodGet, MethodPost, MethodHead} {
		for _, skips := range []bool{false, true} {
			req, resp := newCall(method, p.url("/x"))
			req.Header.SetContentType("a/b")
			req.SetBodyString(strings.Repeat("x", 3))
			resp.SkipBody = skips
			if err := c.DoTimeout(req, resp, time.Minute); err != nil {
				t.Fatal(err)
			}
			want := method + " /x [a/b] xxx"
			if skips || method == MethodHead {
				want = ""
			}
			if got := string(resp.Body()); got != want || resp.SkipBody != skips {
				t.Errorf("%s, skip %v: %q, %v", method, skips, got, resp.SkipBody)
			}
			if resp.RemoteAddr() == nil || resp.RemoteAddr().String() != p.addr() || resp.LocalAddr() == nil {
				t.Errorf("addresses %v, %v", resp.LocalAddr(), resp.RemoteAddr())
			}
		}
	}
	req, resp := newCall(MethodGet, p.url("/x"))
	if err := c.DoDeadline(req, resp, time.Now().Add(-time.Second)); err != ErrTimeout {
		t.Error(err)
	}
}

// TestHedgedRequestsAreWhole: each attempt has the whole request, and the
// response keeps its setting.
func TestHedgedRequestsAreWhole(t *testing.T) {
	p := newClientPeer(t, echoing)
	for _, skips := range []bool{false, true} {
		c := &LBClient{Clients: []BalancingClient{&HostClient{Addr: "x:1", Dial: func(string) (net.Conn, error) { return nil, errWire }}, p.host()}, HedgeAfter: time.Nanosecond}
		req, resp := newCall(MethodPut, p.url("/x"))
		req.Header.SetContentType("a/b")
		req.SetBodyString("content")
		resp.SkipBody = skips
		want := map[bool]string{false: "PUT /x [a/b] content", true: ""}[skips]
		if err := c.DoTimeout(req, resp, time.Minute); err != nil || string(resp.Body()) != want || resp.SkipBody != skips {
			t.Errorf("skip %v: %q, %v, %v", skips, resp.Body(), err, resp.SkipBody)
		}
	}
}

// TestLBClientForgets: after a good answer, a client that was ejected is as any
// other.
func TestLBClientForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lb, clients := newLB(2)
		for range 2 {
			clients[1].fail(errSick)
			for range balance.EjectAfter {
				time.Sleep(balance.PenaltyTime)
				wantCalls(t, "each failure counts once", ask(lb, clients, 4), 3, 1)
			}
			clients[0].pending.Store(1000)
			time.Sleep(balance.EjectTime - time.Millisecond)
			wantCalls(t, "ejected", ask(lb, clients, 4), 4, 0)
			clients[1].fail(nil)
			time.Sleep(time.Millisecond)
			wantCalls(t, "probed", ask(lb, clients, 4), 0, 4)
			clients[0].pending.Store(0)
			wantCalls(t, "well", ask(lb, clients, 4), 2, 2)
		}
	})
}

// TestPipelineKeepsAConnectionInUse, even if a single call uses it.
func TestPipelineKeepsAConnectionInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := newPipelinePeer(t)
		call := &pendingCall{t: t, req: getRequest("/"), resp: new(Response), err: make(chan error, 1)}
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
	c := &PipelineClient{Addr: "a:1,b:2,c:3", Dial: func(addr string) (net.Conn, error) {
		dialed = append(dialed, addr)
		return nil, errWire
	}}
	if err := c.Do(getRequest("/"), nil); !errors.Is(err, errWire) || fmt.Sprint(dialed) != "[a:1 b:2 c:3]" {
		t.Errorf("%v, %v", dialed, err)
	}
}

// TestPipelineClosesIdle: CloseIdleConnections closes connections that were used, and one
// that was not.
func TestPipelineClosesIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := newPipelinePeer(t)
		c.MaxIdleConnDuration = time.Hour
		call := &pendingCall{t: t, req: getRequest("/"), resp: new(Response), err: make(chan error, 1)}
		go func() { call.err <- c.Do(call.req, call.resp) }()
		conn := peer.accept()
		conn.expect("/")
		conn.say(answerOK("up"))
		call.want("up")
		synctest.Wait()
		spare := &stubConn{}
		c.spare.Store(newClientConn(spare, "h:80"))
		c.CloseIdleConnections()
		conn.expectEnd()
		if c.spare.Load() != nil || fmt.Sprint(spare.told) != "[close]" {
			t.Errorf("the spare connection: %q", spare.told)
		}
	})
}

// TestPipelineSpare: a connection whose server has chosen HTTP/1.1 is used next, without
// its deadlines; if they stay, another one is dialed.
func TestPipelineSpare(t *testing.T) {
	for _, limitErr := range []error{nil, errStub} {
		dialed := &stubConn{}
		c := &PipelineClient{Addr: "h:80", Dial: func(string) (net.Conn, error) { return dialed, nil }}
		c.once.Do(c.prepare)
		spare := &stubConn{limitErr: limitErr}
		cc := newClientConn(spare, "h:80")
		cc.wire.NoteDeadline()
		c.spare.Store(cc)
		first, err := c.dial()
		if isSpare := first == net.Conn(spare); isSpare != (limitErr == nil) || err != nil {
			t.Errorf("%v: the spare one %v, %v", limitErr, isSpare, err)
		}
		if want := map[bool]string{true: "[both none]", false: "[both none close]"}[limitErr == nil]; fmt.Sprint(spare.told) != want {
			t.Errorf("%v: %q, want %s", limitErr, spare.told, want)
		}
		if second, err := c.dial(); second != net.Conn(dialed) || err != nil {
			t.Errorf("%v: then %v, %v", limitErr, second, err)
		}
	}
	if _, err := (&PipelineClient{Addr: " , "}).dial(); err != errNoAddr {
		t.Errorf("without an address: %v", err)
	}
}

// TestPipelineWorkForgets: a work in the pool has nothing of the last request but room.
func TestPipelineWorkForgets(t *testing.T) {
	var c PipelineClient
	for _, size := range []int{1, maxPooledBytes, maxPooledBytes + 1} {
		w := c.works.acquire(&c)
		w.into, w.Err, w.Out = &w.resp, errStub, make([]byte, size)
		w.resp.SetBodyString("body")
		c.works.release(w)
		if w.into != nil || w.Err != nil || len(w.Out) != 0 || (cap(w.Out) == size) != (size <= maxPooledBytes) || len(w.resp.Body()) != 0 {
			t.Errorf("%d bytes: %v, %v, %d of %d, %q", size, w.into, w.Err, len(w.Out), cap(w.Out), w.resp.Body())
		}
		w.into = new(Response)
		w.into.SetBodyString("the caller's")
		into := w.into
		if c.works.release(w); string(into.Body()) != "the caller's" {
			t.Errorf("the caller has %q", into.Body())
		}
	}
	var invalid InvalidHostError
	req, _ := newCall("GET", "http://a b/")
	if err := c.Do(req, nil); !errors.As(err, &invalid) {
		t.Errorf("an invalid host: %v", err)
	}
}

// Each field that PipelineClient has in common with HostClient reaches its own one.
func TestPipelineFieldsReachHost(t *testing.T) {
	c := new(PipelineClient)
	from := reflect.ValueOf(c).Elem()
	not := map[string]bool{"MaxConns": true, "MaxPendingRequests": true, "MaxBatchDelay": true, "WriteBufferSize": true, "Logger": true}
	for i := range from.NumField() {
		if field := from.Type().Field(i); field.IsExported() && !not[field.Name] {
			fill(t, from.Field(i))
		}
	}
	c.prepare()
	to := reflect.ValueOf(&c.host).Elem()
	for i := range from.NumField() {
		field := from.Type().Field(i)
		if !field.IsExported() || not[field.Name] {
			continue
		}
		got, want := to.FieldByName(field.Name), from.Field(i)
		if !got.IsValid() || want.Kind() == reflect.Func && got.Pointer() != want.Pointer() || want.Kind() != reflect.Func && !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s is %v, want %v", field.Name, got, want)
		}
	}
	if h := &c.host; h.MaxHTTP2Conns != 1 || h.http2.maxStreams != 1024 || h.MaxConnWaitTimeout != math.MaxInt64 {
		t.Errorf("%d connections of %d streams, waits %v", h.MaxHTTP2Conns, h.http2.maxStreams, h.MaxConnWaitTimeout)
	}
	c = &PipelineClient{MaxConns: 3, MaxPendingRequests: 5}
	if c.prepare(); c.host.MaxHTTP2Conns != 3 || c.host.http2.maxStreams != 5 {
		t.Errorf("%d connections of %d streams", c.host.MaxHTTP2Conns, c.host.http2.maxStreams)
	}
	cc := newClientConn(&stubConn{}, "h:80")
	if c.host.http2.passHTTP1(cc); c.spare.Load() != cc {
		t.Error("the connection that speaks HTTP/1.1 is lost")
	}
}

// TestPipelineEncode: where an answer is read to, and what the connection knows of a
// request.
func TestPipelineEncode(t *testing.T) {
	for _, tc := range []struct {
		method                            string
		set                               func(req *Request, resp *Response)
		isDirect, repeatable, isLast, isH bool
	}{
		{"GET", nil, true, true, false, false},
		{"POST", nil, true, false, false, false},
		{"HEAD", nil, true, true, false, true},
		{"CONNECT", nil, true, false, true, false},
		{"POST", func(req *Request, _ *Response) { req.SetConnectionClose() }, true, false, true, false},
		{"POST", func(req *Request, _ *Response) { req.call.Allow(time.Hour) }, false, false, false, false},
		{"POST", func(req *Request, _ *Response) { req.call.Context = t.Context() }, false, false, false, false},
		{"POST", func(req *Request, _ *Response) { req.call.Context = context.Background() }, true, false, false, false},
		{"POST", func(_ *Request, resp *Response) { resp.SkipBody = true }, false, false, false, false},
		{"POST", func(_ *Request, resp *Response) { resp.StreamBody = true }, false, false, false, false},
	} {
		c := &PipelineClient{Addr: "h:80"}
		c.once.Do(c.prepare)
		req, resp := newCall(tc.method, "http://h:80/")
		resp.SetBodyString("old")
		if tc.set != nil {
			tc.set(req, resp)
		}
		skips, streams := resp.SkipBody, resp.StreamBody
		w, err := c.encode(req, resp)
		if err != nil {
			t.Fatal(err)
		}
		if (w.into == resp) != tc.isDirect || !tc.isDirect && w.into != &w.resp || len(resp.Body()) != 0 {
			t.Errorf("%s %s: into the caller's %v, want %v; %q", tc.method, w.Out, w.into == resp, tc.isDirect, resp.Body())
		}
		if w.IsRepeatable != tc.repeatable || w.IsLast != tc.isLast || w.isHead != tc.isH || w.isTunnel != (tc.method == "CONNECT") {
			t.Errorf("%s: repeatable %v, last %v, HEAD %v, tunnel %v", tc.method, w.IsRepeatable, w.IsLast, w.isHead, w.isTunnel)
		}
		if !tc.isDirect && (resp.SkipBody != skips || resp.StreamBody != streams) {
			t.Errorf("%s: skips %v, streams %v", tc.method, resp.SkipBody, resp.StreamBody)
		}
	}
}

// TestPipelineEncodesWholeRequests: also those that do not leave in one piece.
func TestPipelineEncodesWholeRequests(t *testing.T) {
	for want, set := range map[string]func(req *Request){
		"Content-Length: 4\r\n\r\nbody":              func(req *Request) { req.SetBodyString("body") },
		"\r\n\r\n" + strings.Repeat("x", maxWhole+1): func(req *Request) { req.SetBodyString(strings.Repeat("x", maxWhole+1)) },
		"\r\n\r\na=b": func(req *Request) { req.PostArgs().Set("a", "b") },
		"\r\n\r\n4\r\nbody\r\n0\r\nSum: 1\r\n\r\n": func(req *Request) {
			req.SetBodyString("body")
			req.Header.Set("Sum", "1")
			_ = req.Header.SetTrailer("Sum")
		},
		"\r\n\r\nstream": func(req *Request) { req.SetBodyStream(strings.NewReader("stream"), 6) },
	} {
		c := &PipelineClient{Addr: "h:80"}
		c.once.Do(c.prepare)
		req, resp := newCall("POST", "http://h:80/")
		set(req)
		w, err := c.encode(req, resp)
		if err != nil || !strings.HasPrefix(string(w.Out), "POST / HTTP/1.1\r\n") || !strings.HasSuffix(string(w.Out), want) {
			t.Errorf("%v, %.300q, want %.100q", err, w.Out, want)
		}
	}
}

// TestPipelineCannotEncode: the response is as after Reset.
func TestPipelineCannotEncode(t *testing.T) {
	c := &PipelineClient{Addr: "h:80"}
	c.once.Do(c.prepare)
	req, resp := newCall("HEAD", "http://h:80/")
	req.SetBodyStream(iotest.ErrReader(errStub), -1)
	resp.SetBodyString("old")
	if w, err := c.encode(req, resp); w != nil || err != errStub || resp.SkipBody || len(resp.Body()) != 0 {
		t.Errorf("%v, skips %v, %q", err, resp.SkipBody, resp.Body())
	}
}

// TestPipelineHTTP2Answers: the response is as over HTTP/1.1, whatever the caller wants of
// its body.
func TestPipelineHTTP2Answers(t *testing.T) {
	r := http2Servers[2].start(t, mirrorRequest)
	c := &PipelineClient{Addr: r.addr, HTTP2: HTTP2Only}
	defer c.CloseIdleConnections()
	want := "POST " + r.addr + " / HTTP/2.0 body"
	for name, set := range map[string]func(resp *Response){
		"memory": func(*Response) {}, "stream": func(resp *Response) { resp.StreamBody = true },
		"skipped": func(resp *Response) { resp.SkipBody = true }, "skipped stream": func(resp *Response) { resp.SkipBody, resp.StreamBody = true, true },
	} {
		req, resp := newCall("POST", r.url("/"))
		req.SetBodyString("body")
		set(resp)
		skips, streams := resp.SkipBody, resp.StreamBody
		if err := c.Do(req, resp); err != nil || resp.StatusCode() != 200 || resp.SkipBody != skips || resp.StreamBody != streams || resp.IsBodyStream() != (streams && !skips) {
			t.Errorf("%s: %v, status %d, a stream %v", name, err, resp.StatusCode(), resp.IsBodyStream())
		}
		if body := string(resp.Body()); body != map[bool]string{false: want}[skips] {
			t.Errorf("%s: %q", name, body)
		}
	}
	req, _ := newCall("POST", r.url("/"))
	if err := c.Do(req, nil); err != nil {
		t.Errorf("without a response: %v", err)
	}
}
