package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/sluicetest"
	"github.com/sluicehttp/sluice/test/harness"
)

// hedgeClient is a client whose answers come when the test lets them.
type hedgeClient struct {
	name    string
	begun   chan *sluice.Request // gets each request
	answers chan error           // what comes of them
	ended   atomic.Int32
	last    atomic.Pointer[sluice.Request]
}

func newHedgeClient(name string) *hedgeClient {
	return &hedgeClient{name: name, begun: make(chan *sluice.Request, 16), answers: make(chan error, 16)}
}

// DoDeadline implements BalancingClient.
func (c *hedgeClient) DoDeadline(*sluice.Request, *sluice.Response, time.Time) error {
	panic("has a DoContext")
}

// DoContext does.
func (c *hedgeClient) DoContext(ctx context.Context, req *sluice.Request, resp *sluice.Response) error {
	defer c.ended.Add(1)
	c.last.Store(req)
	c.begun <- req
	select {
	case err := <-c.answers:
		if err == nil {
			resp.SetBodyString(c.name + string(req.Header.Peek("X-Id")))
		}
		return err
	case <-ctx.Done():
		// It writes to what it was given until it returns.
		req.SetBodyString("loser")
		resp.SetBodyString("loser")
		return ctx.Err()
	}
}

// PendingRequests implements BalancingClient.
func (c *hedgeClient) PendingRequests() int { return 0 }

// hedged sends a request with three clients.
func hedged(after time.Duration, hedges int) (lb *sluice.LBClient, clients []*hedgeClient, do func(method string) (*sluice.Response, chan error)) {
	lb = &sluice.LBClient{HedgeAfter: after, MaxHedges: hedges, Timeout: pipelineBound}
	for i := range 3 {
		c := newHedgeClient(fmt.Sprint("client ", i))
		clients = append(clients, c)
		lb.Clients = append(lb.Clients, c)
	}
	return lb, clients, func(method string) (*sluice.Response, chan error) {
		req, resp := new(sluice.Request), new(sluice.Response)
		req.Header.SetMethod(method)
		req.SetRequestURI("http://x/")
		done := make(chan error, 1)
		go func() { done <- lb.Do(req, resp) }()
		return resp, done
	}
}

// next returns the client that gets a request now.
func next(t *testing.T, clients []*hedgeClient) *hedgeClient {
	t.Helper()
	var found *hedgeClient
	waitUntil(t, "a client gets the request", func() bool {
		for _, c := range clients {
			select {
			case <-c.begun:
				found = c
				return true
			default:
			}
		}
		return false
	})
	return found
}

func noMore(t *testing.T, clients []*hedgeClient) {
	t.Helper()
	for _, c := range clients {
		if len(c.begun) > 0 {
			t.Errorf("%s got a request, too", c.name)
		}
	}
}

func TestHedgeSlowClients(t *testing.T) {
	noNewGoroutines(t)
	_, clients, do := hedged(time.Millisecond, 2)
	resp, done := do("GET")
	a := next(t, clients)
	b := next(t, clients)
	c := next(t, clients)
	if a == b || b == c || a == c {
		t.Fatal("a client got the request twice")
	}
	b.answers <- nil
	if err := <-done; err != nil || string(resp.Body()) != b.name {
		t.Errorf("%v, %q; want the answer of %s", err, resp.Body(), b.name)
	}
	if a.ended.Load() != 1 || c.ended.Load() != 1 {
		t.Error("the others have not ended")
	}
	noMore(t, clients)
}

func TestHedgeFailures(t *testing.T) {
	noNewGoroutines(t)
	_, clients, do := hedged(time.Hour, 2)
	resp, done := do("GET")
	next(t, clients).answers <- errSick
	b := next(t, clients) // at once
	b.answers <- nil
	if err := <-done; err != nil || string(resp.Body()) != b.name {
		t.Errorf("%v, %q; want the answer of %s", err, resp.Body(), b.name)
	}
	_, done = do("GET")
	for i := range 3 {
		next(t, clients).answers <- fmt.Errorf("failure %d", i)
	}
	if err := <-done; err == nil || err.Error() != "failure 0" {
		t.Errorf("error %v, want that of the first", err)
	}
	noMore(t, clients)
}

// An answer that HealthCheck dislikes is better than none.
func TestHedgeBadAnswers(t *testing.T) {
	lb, clients, do := hedged(time.Hour, 1)
	lb.HealthCheck = func(_ *sluice.Request, _ *sluice.Response, err error) bool { return false }
	resp, done := do("GET")
	next(t, clients).answers <- errSick
	b := next(t, clients)
	b.answers <- nil
	if err := <-done; err != nil || string(resp.Body()) != b.name {
		t.Errorf("%v, %q; want the answer of %s", err, resp.Body(), b.name)
	}
	noMore(t, clients)
}

func TestHedgeOnlyWhatMayBeRepeated(t *testing.T) {
	for _, tc := range []struct {
		name  string
		set   func(*sluice.Request, *sluice.Response)
		hedge bool
	}{
		{"GET", func(*sluice.Request, *sluice.Response) {}, true},
		{"POST", func(req *sluice.Request, _ *sluice.Response) { req.Header.SetMethod("POST") }, false},
		{"POST with a key", func(req *sluice.Request, _ *sluice.Response) {
			req.Header.SetMethod("POST")
			req.Header.Set("Idempotency-Key", "1")
		}, true},
		{"body stream", func(req *sluice.Request, _ *sluice.Response) {
			req.Header.SetMethod("PUT")
			req.SetBodyStream(strings.NewReader("x"), 1)
		}, false},
		{"streamed response", func(_ *sluice.Request, resp *sluice.Response) { resp.StreamBody = true }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lb := &sluice.LBClient{HedgeAfter: time.Millisecond}
			fake := &firstIsSlow{second: make(chan struct{})}
			lb.AddClient(fake)
			req, resp := new(sluice.Request), new(sluice.Response)
			req.SetRequestURI("http://x/")
			tc.set(req, resp)
			fake.hedged = tc.hedge
			if err := lb.Do(req, resp); err != nil {
				t.Error(err)
			}
			want := int32(1)
			if tc.hedge {
				want = 2
			}
			if n := fake.calls.Load(); n != want {
				t.Errorf("it was sent %d times, want %d", n, want)
			}
		})
	}
}

// firstIsSlow answers the first request when the second comes, or late.
type firstIsSlow struct {
	calls  atomic.Int32
	second chan struct{}
	hedged bool
}

// DoDeadline implements BalancingClient.
func (f *firstIsSlow) DoDeadline(*sluice.Request, *sluice.Response, time.Time) error {
	switch {
	case f.calls.Add(1) == 2:
		close(f.second)
	case f.hedged:
		<-f.second
	default:
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// PendingRequests implements BalancingClient.
func (f *firstIsSlow) PendingRequests() int { return 0 }

func TestHedgeEndsWithContext(t *testing.T) {
	noNewGoroutines(t)
	lb, clients, _ := hedged(time.Millisecond, 1)
	lb.HealthCheck = func(_ *sluice.Request, _ *sluice.Response, err error) bool {
		t.Error("cancelling counts as a failure of the client")
		return err == nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	req := new(sluice.Request)
	req.SetRequestURI("http://x/")
	done := make(chan error, 1)
	go func() { done <- lb.DoContext(ctx, req, nil) }()
	next(t, clients)
	next(t, clients)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	noMore(t, clients)
}

// Real clients, whose losers are interrupted: the objects are used again at
// once.
func TestHedgeRealClients(t *testing.T) {
	noNewGoroutines(t)
	var turn atomic.Int32
	answer := func(ctx *sluice.RequestCtx) {
		if turn.Add(1)%3 == 0 {
			time.Sleep(3 * time.Millisecond)
		}
		ctx.Write(ctx.PostBody())
	}
	one, two := inMemory(t, answer), inMemory(t, answer)
	host, pipeline := &sluice.HostClient{Addr: "x:80", Dial: one}, &sluice.PipelineClient{Addr: "x:80", Dial: two}
	t.Cleanup(host.CloseIdleConnections)
	t.Cleanup(pipeline.CloseIdleConnections)
	lb := &sluice.LBClient{Clients: []sluice.BalancingClient{host, pipeline}, HedgeAfter: time.Millisecond, MaxHedges: 2, Timeout: pipelineBound}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			req, resp := new(sluice.Request), new(sluice.Response)
			for n := range 100 {
				want := fmt.Sprintf("%d of %d", n, i)
				req.Reset()
				req.SetRequestURI("http://x/")
				req.Header.SetMethod("PUT")
				req.SetBodyString(want)
				if err := lb.Do(req, resp); err != nil || string(resp.Body()) != want {
					t.Errorf("%v, got %q, want %q", err, resp.Body(), want)
				}
				req.SetBodyString("poison")
				resp.SetBodyString("poison")
			}
		})
	}
	group.Wait()
	waitUntil(t, "nothing is pending", func() bool { return pipeline.PendingRequests() == 0 && host.PendingRequests() == 0 })
}

// wrapped is a client that an LBClient does not know.
type wrapped struct{ *sluice.HostClient }

// TestHedgeStreams: a request is not hedged if its answer will be a stream, which would end with the hedge. If the LBClient
// cannot know that, the body is read before.
func TestHedgeStreams(t *testing.T) {
	body := strings.Repeat("0123456789", 50_000)
	answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	p := harness.NewClientPeer(t, answering(answer))
	host, other := p.Host(), p.Host()
	host.StreamResponseBody, other.StreamResponseBody = true, true
	for name, lb := range map[string]*sluice.LBClient{
		"HostClient": {Clients: []sluice.BalancingClient{host}, HedgeAfter: time.Hour},
		"wrapped":    {Clients: []sluice.BalancingClient{&wrapped{other}}, HedgeAfter: time.Hour},
	} {
		for range 3 {
			req, resp := harness.NewCall("GET", p.URL("/"))
			if err := lb.Do(req, resp); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.BodyStream()); err != nil || string(b) != body {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
		}
	}
	checkPool(t, host, 1, 1)
	checkPool(t, other, 1, 1)
}

// A client that the LBClient does not know sends without end: the deadline ends it.
func TestHedgeEndlessStream(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
		c.Gone()
	})
	host := p.Host()
	host.StreamResponseBody = true
	lb := &sluice.LBClient{Clients: []sluice.BalancingClient{&wrapped{host}}, HedgeAfter: time.Hour}
	req, resp := harness.NewCall("GET", p.URL("/"))
	within(t, "the call", func() {
		if err := lb.DoTimeout(req, resp, 50*time.Millisecond); err == nil || resp.IsBodyStream() {
			t.Errorf("%v, a stream: %v", err, resp.IsBodyStream())
		}
	})
	checkPool(t, host, 0, 0)
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

// TestLBHedgeDecodes: Response.DecodeBody holds for hedged requests, too.
func TestLBHedgeDecodes(t *testing.T) {
	s := sluicetest.NewServer(t, func(ctx *sluice.RequestCtx) {
		if len(ctx.Request.Header.Peek("Accept-Encoding")) > 0 {
			ctx.Response.Header.Set("Content-Encoding", "gzip")
			ctx.SetBody(sluice.AppendGzipBytes(nil, []byte("content")))
		}
	})
	c := &sluice.HostClient{Addr: strings.TrimPrefix(s.URL, "http://")}
	defer c.CloseIdleConnections()
	lb := &sluice.LBClient{Clients: []sluice.BalancingClient{c}, HedgeAfter: time.Minute}
	resp := &sluice.Response{DecodeBody: true}
	for range 2 {
		if err := lb.Do(sluicetest.NewRequest("GET", s.URL, ""), resp); err != nil || string(resp.Body()) != "content" || !resp.DecodeBody {
			t.Errorf("%q, %v, %v", resp.Body(), resp.DecodeBody, err)
		}
	}
}
