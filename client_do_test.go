package sluice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// closing is a script that takes requests and closes without an answer until
// there were n, which it answers.
func closingUntil(n int) func(c *peerConn) {
	return func(c *peerConn) {
		for c.request() != nil && len(c.peer.requests()) > n {
			c.send(okAnswer)
		}
	}
}

func TestDoRepeats(t *testing.T) {
	yes := func(*Request) bool { return true }
	no := func(*Request) bool { return false }
	key := func(r *Request) { r.Header.Set("Idempotency-Key", "k") }
	for _, test := range []struct {
		name    string
		method  string
		set     func(c *HostClient)
		request func(r *Request)
		want    int // requests, none of which is answered
	}{
		{"GET", "GET", nil, nil, 5},
		{"HEAD", "HEAD", nil, nil, 5},
		{"PUT", "PUT", nil, nil, 5},
		{"DELETE", "DELETE", nil, nil, 5},
		{"OPTIONS", "OPTIONS", nil, nil, 5},
		{"TRACE", "TRACE", nil, nil, 5},
		{"QUERY", "QUERY", nil, nil, 5},
		{"POST", "POST", nil, nil, 1},
		{"PATCH", "PATCH", nil, nil, 1},
		{"unknown", "FROB", nil, nil, 1},
		{"lower case", "get", nil, nil, 1},
		{"POST with a key", "POST", nil, key, 5},
		{"one attempt", "GET", func(c *HostClient) { c.MaxIdemponentCallAttempts = 1 }, nil, 1},
		{"two attempts", "GET", func(c *HostClient) { c.MaxIdemponentCallAttempts = 2 }, nil, 2},
		{"RetryIf", "POST", func(c *HostClient) { c.RetryIf = yes }, nil, 5},
		{"RetryIf not", "GET", func(c *HostClient) { c.RetryIf = no }, nil, 1},
		{"a stream", "PUT", nil, func(r *Request) { r.SetBodyStream(strings.NewReader("body"), 4) }, 1},
		{"a stream with RetryIf", "PUT", func(c *HostClient) { c.RetryIf = yes }, func(r *Request) {
			r.SetBodyStream(strings.NewReader("body"), -1)
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newClientPeer(t, closingUntil(99))
			c := p.host()
			if test.set != nil {
				test.set(c)
			}
			req, resp := newCall(test.method, p.url("/"))
			if test.request != nil {
				test.request(req)
			}
			err := c.Do(req, resp)
			if !errors.Is(err, ErrConnectionClosed) || len(p.requests()) != test.want {
				t.Errorf("%v after %d requests, want %d", err, len(p.requests()), test.want)
			}
			checkPool(t, c, 0, 0)
		})
	}
}

// brokenAnswers are what is followed by the end of the connection, and no
// response.
var brokenAnswers = []string{
	"garbage\r\n\r\n", "H", "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
	"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 70<<10) + "\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", "HTTP/1.1 404 None\r\nContent-Length: 9\r\n\r\nx",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx",
}

// A broken answer is a failure as none is: another connection may do better.
func TestDoRepeatsAfterBrokenAnswers(t *testing.T) {
	for _, raw := range brokenAnswers {
		for _, test := range []struct {
			method  string
			size    int    // of the request's body
			retryIf string // "": none
			want    int    // requests
		}{
			{"GET", 0, "", 3}, {"PUT", uploadSize, "", 3}, {"POST", 1, "", 1}, {"POST", uploadSize, "", 1},
			{"POST", 1, "yes", 3}, {"GET", 0, "no", 1},
		} {
			p := newClientPeer(t, func(c *peerConn) { c.request(); c.send(raw) })
			c := p.host()
			c.MaxIdemponentCallAttempts = 3
			asked, wantAsked := 0, 0
			if test.retryIf != "" {
				c.RetryIf = func(*Request) bool { asked++; return test.retryIf == "yes" }
				wantAsked = min(test.want, 2)
			}
			req, resp := newCall(test.method, p.url("/"))
			req.SetBody(make([]byte, test.size))
			if err := c.Do(req, resp); err == nil || len(p.requests()) != test.want || asked != wantAsked || p.accepted() != test.want {
				t.Errorf("%.30q, %v: %v, %d requests on %d connections, asked %d times", raw, test, err, len(p.requests()), p.accepted(), asked)
			}
			checkPool(t, c, 0, 0)
		}
	}
}

// Get and Post return the body: reading it is a part of the attempt, whether it
// is a stream or not. A redirect leads on from any attempt.
func TestGetRepeatsAfterBrokenBodies(t *testing.T) {
	for _, raw := range brokenAnswers {
		p := newClientPeer(t, func(c *peerConn) {
			switch c.request(); {
			case len(c.peer.requests()) == 1:
				c.send("HTTP/1.1 302 Found\r\nLocation: /to\r\nContent-Length: 9\r\n\r\nredirects")
			case len(c.peer.requests()) < 4:
				c.send(raw)
			default:
				c.send(okAnswer)
			}
		})
		c := &Client{StreamResponseBody: true, RetryIf: func(*Request) bool { return true }}
		for name, fetch := range map[string]func() (int, []byte, error){
			"Get":         func() (int, []byte, error) { return c.Get(nil, p.url("/from")) },
			"GetTimeout":  func() (int, []byte, error) { return c.GetTimeout(nil, p.url("/from"), clientPatience) },
			"GetContext":  func() (int, []byte, error) { return c.GetContext(t.Context(), nil, p.url("/from")) },
			"Post":        func() (int, []byte, error) { return c.Post(nil, p.url("/from"), nil) },
			"PostContext": func() (int, []byte, error) { return c.PostContext(t.Context(), nil, p.url("/from"), nil) },
		} {
			p.mu.Lock()
			p.heads = nil
			p.mu.Unlock()
			if status, body, err := fetch(); err != nil || status != 200 || string(body) != "ok" || len(p.requests()) != 4 {
				t.Errorf("%s, %.30q: %d %q, %v, %d requests", name, raw, status, body, err, len(p.requests()))
			}
		}
		c.CloseIdleConnections()
	}
}

// A body that is too long is so on each connection.
func TestDoDoesNotRepeatForSize(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n123456789",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n",
	} {
		p := newClientPeer(t, func(c *peerConn) { c.request(); c.send(raw) })
		c := &Client{MaxResponseBodySize: 8, RetryIf: func(*Request) bool { t.Error("RetryIf was asked"); return true }}
		req, resp := newCall("GET", p.url("/"))
		if err := c.Do(req, resp); err != ErrBodyTooLarge || len(p.requests()) != 1 {
			t.Errorf("%q: %v after %d requests", raw, err, len(p.requests()))
		}
		c.StreamResponseBody = true
		if _, _, err := c.Get(nil, p.url("/")); err != ErrBodyTooLarge || len(p.requests()) != 2 {
			t.Errorf("%q, streamed: %v after %d requests", raw, err, len(p.requests()))
		}
	}
}

// A connection that is reset before an answer was closed, too.
func TestDoTellsOfResets(t *testing.T) {
	for _, size := range []int{1, uploadSize} {
		p := newClientPeer(t, func(c *peerConn) { c.request(); c.reset() })
		req, resp := newCall("POST", p.url("/"))
		req.SetBody(make([]byte, size))
		c := p.host()
		c.RetryIfErr = func(_ *Request, _ int, err error) (bool, bool) {
			if !errors.Is(err, io.EOF) {
				t.Errorf("asked about %v", err)
			}
			return false, false
		}
		if err := c.Do(req, resp); !errors.Is(err, ErrConnectionClosed) || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Time that has passed is not given again.
func TestDoDoesNotRepeatTimeouts(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) { c.gone() })
	c := p.host()
	var attempts atomic.Int32 // the peer may learn of them later
	c.Dial = func(addr string) (net.Conn, error) {
		attempts.Add(1)
		return net.Dial("tcp", addr)
	}
	c.ReadTimeout = 5 * time.Millisecond
	req, resp := newCall("GET", p.url("/"))
	if err := c.Do(req, resp); err != ErrTimeout || attempts.Load() != 1 {
		t.Errorf("%v after %d attempts", err, attempts.Load())
	}
	// RetryIf may have it otherwise, while the call has time.
	asked := 0
	c.RetryIf = func(*Request) bool { asked++; return asked < 3 }
	if err := c.Do(req, resp); err != ErrTimeout || attempts.Load() != 4 || asked != 3 {
		t.Errorf("with RetryIf: %v after %d attempts, asked %d times", err, attempts.Load(), asked)
	}
	asked = 0
	if err := c.DoTimeout(req, resp, time.Millisecond); err != ErrTimeout || asked != 0 {
		t.Errorf("without time: %v, asked %d times", err, asked)
	}
}

// Nothing was sent: any request goes to another connection. That must be a
// fresh one, as all that idle may be dead for the same reason.
func TestDoRepeatsWhatWasNotSent(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	dials := 0
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		if dials++; dials > 3 || err != nil {
			return nc, err
		}
		return &hookedConn{Conn: nc, onWrite: func(*hookedConn, []byte) (int, error, bool) { return 0, syscall.EPIPE, true }}, nil
	}
	held(t, c, 3)()
	req, resp := newCall("POST", p.url("/"))
	req.SetBodyString("body")
	if err := c.Do(req, resp); err != nil || dials != 4 {
		t.Errorf("%v, %d dials", err, dials)
	}
	if got := p.requests(); len(got) != 1 || got[0] != "POST / body" {
		t.Errorf("%q", got)
	}
	checkPool(t, c, 3, 3) // two that were not tried, and the new one
}

// A part of a POST was sent: it is not repeated.
func TestDoDoesNotRepeatWhatWasPartlySent(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	writes := 0
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(*hookedConn, []byte) (int, error, bool) { writes++; return 1, syscall.EPIPE, true }
	})
	req, resp := newCall("POST", p.url("/"))
	if err := c.Do(req, resp); !errors.Is(err, syscall.EPIPE) || writes != 1 {
		t.Errorf("%v, %d writes", err, writes)
	}
	checkPool(t, c, 0, 0)
}

func TestRetryIfErr(t *testing.T) {
	type asked struct {
		attempt  int
		upstream string
	}
	for _, kind := range []string{"RetryIfErr", "RetryIfErrUpstream"} {
		t.Run(kind, func(t *testing.T) {
			p := newClientPeer(t, closingUntil(2))
			c := p.host()
			var got []asked
			c.RetryIf = func(*Request) bool { t.Error("RetryIf was asked"); return false }
			c.RetryIfErr = func(_ *Request, n int, err error) (bool, bool) {
				got = append(got, asked{n, ""})
				return false, err != nil
			}
			want := []asked{{1, ""}, {2, ""}}
			if kind == "RetryIfErrUpstream" {
				c.RetryIfErr = func(*Request, int, error) (bool, bool) { t.Error("RetryIfErr was asked"); return false, false }
				c.RetryIfErrUpstream = func(_ *Request, n int, _ error, upstream string) (bool, bool) {
					got = append(got, asked{n, upstream})
					return false, true
				}
				want = []asked{{1, p.addr()}, {2, p.addr()}}
			}
			req, resp := newCall("POST", p.url("/"))
			if err := c.Do(req, resp); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, asked %v, want %v", err, got, want)
			}
		})
	}
}

// RetryIfErr decides about every failure: also one of dialing, and a body that
// is too large.
func TestRetryIfErrIsAskedAboutEveryFailure(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		host func(*HostClient)
		want error
	}{
		{func(c *HostClient) { c.Dial = func(string) (net.Conn, error) { return nil, refused } }, refused},
		{func(c *HostClient) { c.MaxResponseBodySize = 1 }, ErrBodyTooLarge},
	} {
		p := newClientPeer(t, func(c *peerConn) { closingUntil(0)(c) })
		h := p.host()
		c.host(h)
		var asked []error
		h.RetryIfErr = func(_ *Request, n int, err error) (bool, bool) {
			asked = append(asked, err)
			return false, n < 2
		}
		req, resp := newCall("POST", p.url("/"))
		if err := h.Do(req, resp); !errors.Is(err, c.want) || len(asked) != 2 || !errors.Is(asked[0], c.want) {
			t.Errorf("%v, asked %v, want %v", err, asked, c.want)
		}
	}
}

// The bound of attempts holds for RetryIfErr too, which is not asked in vain.
func TestRetryIfErrIsBounded(t *testing.T) {
	p := newClientPeer(t, closingUntil(99))
	c := p.host()
	var asked []int
	c.RetryIfErr = func(_ *Request, n int, _ error) (bool, bool) { asked = append(asked, n); return false, true }
	req, resp := newCall("POST", p.url("/"))
	err := c.Do(req, resp)
	if !errors.Is(err, ErrConnectionClosed) || fmt.Sprint(asked) != "[1 2 3 4]" || len(p.requests()) != 5 {
		t.Errorf("%v, asked %v, %d requests", err, asked, len(p.requests()))
	}
}

// The bounds of a call are those of all attempts together, and don't stay.
func TestDoBoundsNestAndEnd(t *testing.T) {
	var inner []time.Duration
	c := &HostClient{Addr: "h:80", Transport: roundTripFunc(func(_ *HostClient, req *Request, _ *Response) (bool, error) {
		inner = append(inner, req.call.Left(0))
		return false, nil
	})}
	req, resp := newCall("GET", "http://h/")
	near := func(i int, want time.Duration) {
		t.Helper()
		if got := inner[i]; got > want || got < want-time.Minute {
			t.Errorf("call %d had %v, want %v", i, got, want)
		}
	}
	req.SetTimeout(2 * time.Hour)
	calls := []func() error{
		func() error { return c.Do(req, resp) },
		func() error { return c.DoTimeout(req, resp, time.Hour) },
		func() error { return c.DoTimeout(req, resp, 3*time.Hour) },
		func() error { return c.DoDeadline(req, resp, time.Now().Add(time.Hour)) },
		func() error { return c.DoContext(t.Context(), req, resp) },
	}
	for i, want := range []time.Duration{2, 1, 2, 1, 2} {
		if err := calls[i](); err != nil {
			t.Fatal(err)
		}
		near(i, want*time.Hour)
		if req.call != (clientCall{}) {
			t.Errorf("call %d left %+v", i, req.call)
		}
	}
	if req.GetTimeOut() != 2*time.Hour {
		t.Errorf("the request's own time-out is %v", req.GetTimeOut())
	}
	for _, none := range []time.Duration{0, -1} {
		if err := c.DoTimeout(req, resp, none); err != ErrTimeout || len(inner) != 5 {
			t.Errorf("%v: %v", none, err)
		}
	}
}

// A context that has ended before costs nothing and is told as such.
func TestDoContextThatHasEnded(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	req, resp := newCall("POST", p.url("/"))
	var phase *PhaseError
	if err := c.DoContext(ctx, req, resp); !errors.As(err, &phase) || phase.Phase != PhaseWait || !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	if _, _, err := c.GetContext(ctx, nil, p.url("/")); !errors.Is(err, mine) || p.accepted() != 0 {
		t.Errorf("%v, %d connections", err, p.accepted())
	}
}

// A context that ends when the answer is there must not spoil a connection that
// goes back to the pool: the next request, without a context, succeeds.
func TestDoContextThatEndsWithTheAnswer(t *testing.T) {
	for _, streams := range []bool{false, true} {
		p := newClientPeer(t, answering(okAnswer))
		c := p.host()
		c.StreamResponseBody = streams
		req, resp := newCall("POST", p.url("/"))
		for i := range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			var canceled sync.WaitGroup
			canceled.Go(func() {
				for range i % 50 {
					_ = p.accepted()
				}
				cancel()
			})
			if err := c.DoContext(ctx, req, resp); err == nil {
				_ = resp.Body()
			}
			canceled.Wait()
			if err := c.Do(req, resp); err != nil || string(resp.Body()) != "ok" {
				t.Fatalf("request %d: %v, %q", i, err, resp.Body())
			}
		}
		checkPool(t, c, 1, 1)
	}
}

// Deadlines of one request are not those of the next.
func TestDoLeavesNoDeadlines(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	var isBounded, isLeft atomic.Bool
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(h *hookedConn, _ []byte) (int, error, bool) {
			if read, write := h.deadlines(); !isBounded.Load() && !(read.IsZero() && write.IsZero()) {
				isLeft.Store(true)
			}
			return 0, nil, false
		}
	})
	req, resp := newCall("POST", p.url("/"))
	for _, size := range []int{0, 2 * uploadSize, 0} {
		req.SetBody(make([]byte, size))
		isBounded.Store(true)
		if err := c.DoTimeout(req, resp, time.Hour); err != nil {
			t.Fatal(err)
		}
		isBounded.Store(false)
		if err := c.Do(req, resp); err != nil {
			t.Fatal(err)
		}
	}
	if isLeft.Load() || p.accepted() != 1 {
		t.Errorf("a deadline is left: %v; %d connections", isLeft.Load(), p.accepted())
	}
}

// Request and response can be used again, whatever came of them before.
func TestDoAgainAfterErrors(t *testing.T) {
	bad := newClientPeer(t, func(c *peerConn) {
		c.request()
		c.send("HTTP/1.1 404 No\r\nX-Old: 1\r\nContent-Length: 9\r\n\r\nold")
	})
	good := newClientPeer(t, answering(okAnswer))
	var c Client
	req, resp := newCall("GET", bad.url("/"))
	if err := c.Do(req, resp); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	req.SetRequestURI(good.url("/x"))
	if err := c.Do(req, resp); err != nil || resp.StatusCode() != 200 || len(resp.Header.Peek("X-Old")) > 0 || string(resp.Body()) != "ok" {
		t.Errorf("%v, %s", err, resp)
	}
	if err := c.Do(req, nil); err != nil {
		t.Error(err)
	}
	dst := []byte("dst")
	if status, body, err := c.Get(dst, bad.url("/")); err == nil || status != 0 || !bytes.Equal(body, dst) {
		t.Errorf("%d, %q, %v", status, body, err)
	}
}

func TestDoUserAgent(t *testing.T) {
	for _, test := range []struct {
		name, set string
		none      bool
		want      string
	}{
		{"", "", false, "sluice"}, {"me", "", false, "me"}, {"", "own", false, "own"}, {"me", "own", true, "own"},
		{"", "", true, ""}, {"me", "", true, "me"},
	} {
		var got string
		p := newClientPeer(t, func(c *peerConn) {
			got = string(c.request().Header.UserAgent())
			c.send(okAnswer)
		})
		c := &Client{Name: test.name, NoDefaultUserAgentHeader: test.none}
		req, resp := newCall("GET", p.url("/"))
		if test.set != "" {
			req.Header.SetUserAgent(test.set)
		}
		if err := c.Do(req, resp); err != nil || got != test.want {
			t.Errorf("%+v: %v, %q", test, err, got)
		}
	}
}

func TestDoPendingAndLastUse(t *testing.T) {
	end := make(chan bool)
	p := newClientPeer(t, func(c *peerConn) { c.request(); <-end })
	c := p.host()
	before := time.Now()
	done := make(chan error)
	go func() {
		req, resp := newCall("POST", p.url("/"))
		done <- c.Do(req, resp)
	}()
	eventually(t, "it is pending", func() bool { return c.PendingRequests() == 1 && len(p.requests()) == 1 })
	if at := c.LastUseTime(); at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("last used at %v", at)
	}
	close(end)
	if err := <-done; err == nil || c.PendingRequests() != 0 {
		t.Errorf("%v, %d pending", err, c.PendingRequests())
	}
}
