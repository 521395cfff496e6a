package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/test/harness"
)

// echoing answers each request with what it was.
func echoing(c *harness.PeerConn) {
	for r := c.Request(); r != nil; r = c.Request() {
		text := fmt.Sprintf("%s %s [%s] %s", r.Header.Method(), r.Header.RequestURI(), r.Header.ContentType(), r.Body())
		if string(r.Header.RequestURI()) == "/303" {
			c.Send("HTTP/1.1 303 See Other\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(text)))
		if !r.Header.IsHead() {
			c.Send(text)
		}
	}
}

// TestWhatClientsSend: the verbs send what they say, with each kind of client.
func TestWhatClientsSend(t *testing.T) {
	p := harness.NewClientPeer(t, echoing)
	args := new(sluice.Args)
	args.Set("a", "b c")
	ctx := context.Background()
	for name, c := range map[string]interface {
		Get(dst []byte, url string) (int, []byte, error)
		GetTimeout(dst []byte, url string, timeout time.Duration) (int, []byte, error)
		GetDeadline(dst []byte, url string, deadline time.Time) (int, []byte, error)
		Post(dst []byte, url string, postArgs *sluice.Args) (int, []byte, error)
	}{"Client": new(sluice.Client), "HostClient": p.Host()} {
		for want, send := range map[string]func() (int, []byte, error){
			"GET /g [] ": func() (int, []byte, error) { return c.Get([]byte("old"), p.URL("/g")) },
			"GET /t [] ": func() (int, []byte, error) { return c.GetTimeout([]byte("old"), p.URL("/t"), time.Minute) },
			"GET /d [] ": func() (int, []byte, error) { return c.GetDeadline(nil, p.URL("/d"), time.Now().Add(time.Minute)) },
			"POST /p [application/x-www-form-urlencoded] a=b+c": func() (int, []byte, error) { return c.Post(nil, p.URL("/p"), args) },
			"POST /n [application/x-www-form-urlencoded] ":      func() (int, []byte, error) { return c.Post(nil, p.URL("/n"), nil) },
			"GET /there [] ": func() (int, []byte, error) { return c.Post(nil, p.URL("/303"), args) },
		} {
			if status, got, err := send(); status != 200 || string(got) != want || err != nil {
				t.Errorf("%s: %d %q, %v, want %q", name, status, got, err, want)
			}
		}
		sent := len(p.Requests())
		for _, deadline := range []time.Time{{}, time.Now().Add(-time.Hour), time.Now()} {
			if status, got, err := c.GetDeadline([]byte("kept"), p.URL("/late"), deadline); status != 0 || string(got) != "kept" || err != sluice.ErrTimeout {
				t.Errorf("%s: %d %q, %v", name, status, got, err)
			}
		}
		if len(p.Requests()) != sent {
			t.Errorf("%s: requests were sent after their deadline: %q", name, p.Requests()[sent:])
		}
	}
	ended, cancel := context.WithCancelCause(ctx)
	cancel(harness.ErrWire)
	if _, _, err := new(sluice.Client).GetContext(ended, nil, p.URL("/")); !errors.Is(err, harness.ErrWire) {
		t.Error(err)
	}
}

// TestClientsKeepTheCallersSettings: of the request and the response.
func TestClientsKeepTheCallersSettings(t *testing.T) {
	p := harness.NewClientPeer(t, echoing)
	for name, c := range map[string]interface {
		Do(req *sluice.Request, resp *sluice.Response) error
		DoRedirects(req *sluice.Request, resp *sluice.Response, maxRedirectsCount int) error
	}{"Client": new(sluice.Client), "HostClient": p.Host(), "short-lived": &sluice.HostClient{Addr: p.Addr(), MaxConnDuration: 1}} {
		for _, method := range []string{sluice.MethodGet, sluice.MethodHead, sluice.MethodPost} {
			for _, skips := range []bool{false, true} {
				for _, streams := range []bool{false, true} {
					req, resp := harness.NewCall(method, p.URL("/x"))
					resp.SkipBody, resp.StreamBody = skips, streams
					if err := c.Do(req, resp); err != nil {
						t.Fatal(name, err)
					}
					want := ""
					if method != sluice.MethodHead && !skips {
						want = method + " /x [] "
					}
					if got := string(resp.Body()); got != want || resp.SkipBody != skips || resp.StreamBody != streams || req.ConnectionClose() {
						t.Errorf("%s, %s, skip %v, stream %v: %q; %v, %v, close %v", name, method, skips, streams, got, resp.SkipBody, resp.StreamBody, req.ConnectionClose())
					}
					if resp.RemoteAddr() == nil || resp.RemoteAddr().String() != p.Addr() || resp.LocalAddr() == nil {
						t.Errorf("%s: addresses %v, %v", name, resp.LocalAddr(), resp.RemoteAddr())
					}
				}
			}
		}
		req, resp := harness.NewCall(sluice.MethodPost, p.URL("/303"))
		req.PostArgs().Set("secret", "1")
		if err := c.DoRedirects(req, resp, 1); err != nil || string(resp.Body()) != "GET /there [] " || req.PostArgs().Len() != 0 {
			t.Errorf("%s: %q, %v, %s", name, resp.Body(), err, req.PostArgs())
		}
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

// TestHedgedRequestsAreWhole: each attempt has the whole request, and the
// response keeps its setting.
func TestHedgedRequestsAreWhole(t *testing.T) {
	p := harness.NewClientPeer(t, echoing)
	for _, skips := range []bool{false, true} {
		c := &sluice.LBClient{Clients: []sluice.BalancingClient{&sluice.HostClient{Addr: "x:1", Dial: func(string) (net.Conn, error) { return nil, harness.ErrWire }}, p.Host()}, HedgeAfter: time.Nanosecond}
		req, resp := harness.NewCall(sluice.MethodPut, p.URL("/x"))
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

// TestPipelineHTTP2Answers: the response is as over HTTP/1.1, whatever the caller wants of
// its body.
func TestPipelineHTTP2Answers(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, mirrorRequest)
	c := &sluice.PipelineClient{Addr: r.Addr, HTTP2: sluice.HTTP2Only}
	defer c.CloseIdleConnections()
	want := "POST " + r.Addr + " / HTTP/2.0 body"
	for name, set := range map[string]func(resp *sluice.Response){
		"memory": func(*sluice.Response) {}, "stream": func(resp *sluice.Response) { resp.StreamBody = true },
		"skipped": func(resp *sluice.Response) { resp.SkipBody = true }, "skipped stream": func(resp *sluice.Response) { resp.SkipBody, resp.StreamBody = true, true },
	} {
		req, resp := harness.NewCall("POST", r.URL("/"))
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
	req, _ := harness.NewCall("POST", r.URL("/"))
	if err := c.Do(req, nil); err != nil {
		t.Errorf("without a response: %v", err)
	}
}
