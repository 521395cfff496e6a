package client_test

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

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// closing is a script that takes requests and closes without an answer until
// there were n, which it answers.
func closingUntil(n int) func(c *harness.PeerConn) {
	return func(c *harness.PeerConn) {
		for c.Request() != nil && len(c.Peer.Requests()) > n {
			c.Send(harness.OKAnswer)
		}
	}
}

func TestDoRepeats(t *testing.T) {
	yes := func(*sluice.Request) bool { return true }
	no := func(*sluice.Request) bool { return false }
	key := func(r *sluice.Request) { r.Header.Set("Idempotency-Key", "k") }
	for _, test := range []struct {
		name    string
		method  string
		set     func(c *sluice.HostClient)
		request func(r *sluice.Request)
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
		{"one attempt", "GET", func(c *sluice.HostClient) { c.MaxIdemponentCallAttempts = 1 }, nil, 1},
		{"two attempts", "GET", func(c *sluice.HostClient) { c.MaxIdemponentCallAttempts = 2 }, nil, 2},
		{"RetryIf", "POST", func(c *sluice.HostClient) { c.RetryIf = yes }, nil, 5},
		{"RetryIf not", "GET", func(c *sluice.HostClient) { c.RetryIf = no }, nil, 1},
		{"a stream", "PUT", nil, func(r *sluice.Request) { r.SetBodyStream(strings.NewReader("body"), 4) }, 1},
		{"a stream with RetryIf", "PUT", func(c *sluice.HostClient) { c.RetryIf = yes }, func(r *sluice.Request) {
			r.SetBodyStream(strings.NewReader("body"), -1)
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := harness.NewClientPeer(t, closingUntil(99))
			c := p.Host()
			if test.set != nil {
				test.set(c)
			}
			req, resp := harness.NewCall(test.method, p.URL("/"))
			if test.request != nil {
				test.request(req)
			}
			err := c.Do(req, resp)
			if !errors.Is(err, sluice.ErrConnectionClosed) || len(p.Requests()) != test.want {
				t.Errorf("%v after %d requests, want %d", err, len(p.Requests()), test.want)
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
			p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); c.Send(raw) })
			c := p.Host()
			c.MaxIdemponentCallAttempts = 3
			asked, wantAsked := 0, 0
			if test.retryIf != "" {
				c.RetryIf = func(*sluice.Request) bool { asked++; return test.retryIf == "yes" }
				wantAsked = min(test.want, 2)
			}
			req, resp := harness.NewCall(test.method, p.URL("/"))
			req.SetBody(make([]byte, test.size))
			if err := c.Do(req, resp); err == nil || len(p.Requests()) != test.want || asked != wantAsked || p.Accepted() != test.want {
				t.Errorf("%.30q, %v: %v, %d requests on %d connections, asked %d times", raw, test, err, len(p.Requests()), p.Accepted(), asked)
			}
			checkPool(t, c, 0, 0)
		}
	}
}

// Get and Post return the body: reading it is a part of the attempt, whether it
// is a stream or not. A redirect leads on from any attempt.
func TestGetRepeatsAfterBrokenBodies(t *testing.T) {
	for _, raw := range brokenAnswers {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			switch c.Request(); {
			case len(c.Peer.Requests()) == 1:
				c.Send("HTTP/1.1 302 Found\r\nLocation: /to\r\nContent-Length: 9\r\n\r\nredirects")
			case len(c.Peer.Requests()) < 4:
				c.Send(raw)
			default:
				c.Send(harness.OKAnswer)
			}
		})
		c := &sluice.Client{StreamResponseBody: true, RetryIf: func(*sluice.Request) bool { return true }}
		for name, fetch := range map[string]func() (int, []byte, error){
			"Get":         func() (int, []byte, error) { return c.Get(nil, p.URL("/from")) },
			"GetTimeout":  func() (int, []byte, error) { return c.GetTimeout(nil, p.URL("/from"), clientPatience) },
			"GetContext":  func() (int, []byte, error) { return c.GetContext(t.Context(), nil, p.URL("/from")) },
			"Post":        func() (int, []byte, error) { return c.Post(nil, p.URL("/from"), nil) },
			"PostContext": func() (int, []byte, error) { return c.PostContext(t.Context(), nil, p.URL("/from"), nil) },
		} {
			p.Mu.Lock()
			p.Heads = nil
			p.Mu.Unlock()
			if status, body, err := fetch(); err != nil || status != 200 || string(body) != "ok" || len(p.Requests()) != 4 {
				t.Errorf("%s, %.30q: %d %q, %v, %d requests", name, raw, status, body, err, len(p.Requests()))
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
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); c.Send(raw) })
		c := &sluice.Client{MaxResponseBodySize: 8, RetryIf: func(*sluice.Request) bool { t.Error("RetryIf was asked"); return true }}
		req, resp := harness.NewCall("GET", p.URL("/"))
		if err := c.Do(req, resp); err != sluice.ErrBodyTooLarge || len(p.Requests()) != 1 {
			t.Errorf("%q: %v after %d requests", raw, err, len(p.Requests()))
		}
		c.StreamResponseBody = true
		if _, _, err := c.Get(nil, p.URL("/")); err != sluice.ErrBodyTooLarge || len(p.Requests()) != 2 {
			t.Errorf("%q, streamed: %v after %d requests", raw, err, len(p.Requests()))
		}
	}
}

// A connection that is reset before an answer was closed, too.
func TestDoTellsOfResets(t *testing.T) {
	for _, size := range []int{1, uploadSize} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); c.Reset() })
		req, resp := harness.NewCall("POST", p.URL("/"))
		req.SetBody(make([]byte, size))
		c := p.Host()
		c.RetryIfErr = func(_ *sluice.Request, _ int, err error) (bool, bool) {
			if !errors.Is(err, io.EOF) {
				t.Errorf("asked about %v", err)
			}
			return false, false
		}
		if err := c.Do(req, resp); !errors.Is(err, sluice.ErrConnectionClosed) || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Time that has passed is not given again.
func TestDoDoesNotRepeatTimeouts(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Gone() })
	c := p.Host()
	var attempts atomic.Int32 // the peer may learn of them later
	c.Dial = func(addr string) (net.Conn, error) {
		attempts.Add(1)
		return net.Dial("tcp", addr)
	}
	c.ReadTimeout = 5 * time.Millisecond
	req, resp := harness.NewCall("GET", p.URL("/"))
	if err := c.Do(req, resp); err != sluice.ErrTimeout || attempts.Load() != 1 {
		t.Errorf("%v after %d attempts", err, attempts.Load())
	}
	// RetryIf may have it otherwise, while the call has time.
	asked := 0
	c.RetryIf = func(*sluice.Request) bool { asked++; return asked < 3 }
	if err := c.Do(req, resp); err != sluice.ErrTimeout || attempts.Load() != 4 || asked != 3 {
		t.Errorf("with RetryIf: %v after %d attempts, asked %d times", err, attempts.Load(), asked)
	}
	asked = 0
	if err := c.DoTimeout(req, resp, time.Millisecond); err != sluice.ErrTimeout || asked != 0 {
		t.Errorf("without time: %v, asked %d times", err, asked)
	}
}

// A part of a POST was sent: it is not repeated.
func TestDoDoesNotRepeatWhatWasPartlySent(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	writes := 0
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(*hookedConn, []byte) (int, error, bool) { writes++; return 1, syscall.EPIPE, true }
	})
	req, resp := harness.NewCall("POST", p.URL("/"))
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
			p := harness.NewClientPeer(t, closingUntil(2))
			c := p.Host()
			var got []asked
			c.RetryIf = func(*sluice.Request) bool { t.Error("RetryIf was asked"); return false }
			c.RetryIfErr = func(_ *sluice.Request, n int, err error) (bool, bool) {
				got = append(got, asked{n, ""})
				return false, err != nil
			}
			want := []asked{{1, ""}, {2, ""}}
			if kind == "RetryIfErrUpstream" {
				c.RetryIfErr = func(*sluice.Request, int, error) (bool, bool) { t.Error("RetryIfErr was asked"); return false, false }
				c.RetryIfErrUpstream = func(_ *sluice.Request, n int, _ error, upstream string) (bool, bool) {
					got = append(got, asked{n, upstream})
					return false, true
				}
				want = []asked{{1, p.Addr()}, {2, p.Addr()}}
			}
			req, resp := harness.NewCall("POST", p.URL("/"))
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
		host func(*sluice.HostClient)
		want error
	}{
		{func(c *sluice.HostClient) { c.Dial = func(string) (net.Conn, error) { return nil, refused } }, refused},
		{func(c *sluice.HostClient) { c.MaxResponseBodySize = 1 }, sluice.ErrBodyTooLarge},
	} {
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) { closingUntil(0)(c) })
		h := p.Host()
		c.host(h)
		var asked []error
		h.RetryIfErr = func(_ *sluice.Request, n int, err error) (bool, bool) {
			asked = append(asked, err)
			return false, n < 2
		}
		req, resp := harness.NewCall("POST", p.URL("/"))
		if err := h.Do(req, resp); !errors.Is(err, c.want) || len(asked) != 2 || !errors.Is(asked[0], c.want) {
			t.Errorf("%v, asked %v, want %v", err, asked, c.want)
		}
	}
}

// The bound of attempts holds for RetryIfErr too, which is not asked in vain.
func TestRetryIfErrIsBounded(t *testing.T) {
	p := harness.NewClientPeer(t, closingUntil(99))
	c := p.Host()
	var asked []int
	c.RetryIfErr = func(_ *sluice.Request, n int, _ error) (bool, bool) { asked = append(asked, n); return false, true }
	req, resp := harness.NewCall("POST", p.URL("/"))
	err := c.Do(req, resp)
	if !errors.Is(err, sluice.ErrConnectionClosed) || fmt.Sprint(asked) != "[1 2 3 4]" || len(p.Requests()) != 5 {
		t.Errorf("%v, asked %v, %d requests", err, asked, len(p.Requests()))
	}
}

// A context that has ended before costs nothing and is told as such.
func TestDoContextThatHasEnded(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	mine := errors.New("mine")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(mine)
	req, resp := harness.NewCall("POST", p.URL("/"))
	var phase *sluice.PhaseError
	if err := c.DoContext(ctx, req, resp); !errors.As(err, &phase) || phase.Phase != sluice.PhaseWait || !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	if _, _, err := c.GetContext(ctx, nil, p.URL("/")); !errors.Is(err, mine) || p.Accepted() != 0 {
		t.Errorf("%v, %d connections", err, p.Accepted())
	}
}

// A context that ends when the answer is there must not spoil a connection that
// goes back to the pool: the next request, without a context, succeeds.
func TestDoContextThatEndsWithTheAnswer(t *testing.T) {
	for _, streams := range []bool{false, true} {
		p := harness.NewClientPeer(t, answering(harness.OKAnswer))
		c := p.Host()
		c.StreamResponseBody = streams
		req, resp := harness.NewCall("POST", p.URL("/"))
		for i := range 500 {
			ctx, cancel := context.WithCancel(t.Context())
			var canceled sync.WaitGroup
			canceled.Go(func() {
				for range i % 50 {
					_ = p.Accepted()
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
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	var isBounded, isLeft atomic.Bool
	hooked(c, func(h *hookedConn) {
		h.onWrite = func(h *hookedConn, _ []byte) (int, error, bool) {
			if read, write := h.deadlines(); !isBounded.Load() && !(read.IsZero() && write.IsZero()) {
				isLeft.Store(true)
			}
			return 0, nil, false
		}
	})
	req, resp := harness.NewCall("POST", p.URL("/"))
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
	if isLeft.Load() || p.Accepted() != 1 {
		t.Errorf("a deadline is left: %v; %d connections", isLeft.Load(), p.Accepted())
	}
}

// Request and response can be used again, whatever came of them before.
func TestDoAgainAfterErrors(t *testing.T) {
	bad := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		c.Send("HTTP/1.1 404 No\r\nX-Old: 1\r\nContent-Length: 9\r\n\r\nold")
	})
	good := harness.NewClientPeer(t, answering(harness.OKAnswer))
	var c sluice.Client
	req, resp := harness.NewCall("GET", bad.URL("/"))
	if err := c.Do(req, resp); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	req.SetRequestURI(good.URL("/x"))
	if err := c.Do(req, resp); err != nil || resp.StatusCode() != 200 || len(resp.Header.Peek("X-Old")) > 0 || string(resp.Body()) != "ok" {
		t.Errorf("%v, %s", err, resp)
	}
	if err := c.Do(req, nil); err != nil {
		t.Error(err)
	}
	dst := []byte("dst")
	if status, body, err := c.Get(dst, bad.URL("/")); err == nil || status != 0 || !bytes.Equal(body, dst) {
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
		p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
			got = string(c.Request().Header.UserAgent())
			c.Send(harness.OKAnswer)
		})
		c := &sluice.Client{Name: test.name, NoDefaultUserAgentHeader: test.none}
		req, resp := harness.NewCall("GET", p.URL("/"))
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
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request(); <-end })
	c := p.Host()
	before := time.Now()
	done := make(chan error)
	go func() {
		req, resp := harness.NewCall("POST", p.URL("/"))
		done <- c.Do(req, resp)
	}()
	eventually(t, "it is pending", func() bool { return c.PendingRequests() == 1 && len(p.Requests()) == 1 })
	if at := c.LastUseTime(); at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("last used at %v", at)
	}
	close(end)
	if err := <-done; err == nil || c.PendingRequests() != 0 {
		t.Errorf("%v, %d pending", err, c.PendingRequests())
	}
}

// TestRetryIfErrUpstream: it gets the address of the last dial, or of the connection, and
// "" if the attempt went to none. ClientTrace.Retry tells each attempt that another one follows.
func TestRetryIfErrUpstream(t *testing.T) {
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) { c.Request() })
	var got, retried []string
	errOdd := errors.New("odd")
	c := &sluice.HostClient{
		Addr: "a:1,b:2", MaxIdemponentCallAttempts: 3,
		Dial: func(addr string) (net.Conn, error) {
			if addr == "a:1" {
				return nil, errStub
			}
			return net.Dial("tcp", p.Addr())
		},
		RetryIfErrUpstream: func(_ *sluice.Request, attempt int, err error, upstream string) (bool, bool) {
			got = append(got, fmt.Sprint(attempt, upstream))
			return false, true
		},
		Trace: &sluice.ClientTrace{Retry: func(attempt int, err error) { retried = append(retried, fmt.Sprint(attempt, err)) }},
	}
	req, resp := harness.NewCall("GET", "http://h/")
	if err := c.Do(req, resp); err != sluice.ErrConnectionClosed {
		t.Errorf("error %v", err)
	}
	if want := []string{"1b:2", "2b:2"}; !slices.Equal(got, want) {
		t.Errorf("upstreams %q, want %q", got, want)
	}
	if want := []string{"1 EOF", "2 EOF"}; !slices.Equal(retried, want) {
		t.Errorf("retries %q, want %q", retried, want)
	}
	// All fail: the last is told.
	got = nil
	c.Dial = func(string) (net.Conn, error) { return nil, errStub }
	if err := c.Do(req, resp); !errors.Is(err, errStub) || len(got) != 2 || !strings.HasSuffix(got[0], ":1") && !strings.HasSuffix(got[0], ":2") {
		t.Errorf("%v, %q", err, got)
	}
	// None is dialed, although an earlier call has dialed.
	got = nil
	c.Transport = roundTripFunc(func(*sluice.HostClient, *sluice.Request, *sluice.Response) (bool, error) { return true, errOdd })
	if err := c.Do(req, resp); err != errOdd || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("%v, %q", err, got)
	}
}

// What is wrong with the request itself is so on each connection: it costs none
// and is not repeated.
func TestBadRequestsCostNoConnections(t *testing.T) {
	for name, set := range map[string]func(r *sluice.Request){
		"no host":   func(r *sluice.Request) { r.SetRequestURI("/") },
		"malformed": func(r *sluice.Request) { r.SetRequestURI("http://a b/") },
		"bracket":   func(r *sluice.Request) { r.SetRequestURI("http://[::1/") },
	} {
		p := harness.NewClientPeer(t, answering(harness.OKAnswer))
		c := p.Host()
		if _, _, err := c.Get(nil, p.URL("/")); err != nil {
			t.Fatal(err)
		}
		req, resp := new(sluice.Request), new(sluice.Response)
		set(req)
		err := c.Do(req, resp)
		if err == nil || p.Accepted() > 1 || c.ConnsCount() > 1 {
			t.Errorf("%s: %v, %d connections", name, err, p.Accepted())
		}
	}
}

// A Client's request counts once.
func TestPendingRequestsCountOnce(t *testing.T) {
	var host *sluice.HostClient
	pending := make(chan int, 1)
	p := harness.NewClientPeer(t, func(c *harness.PeerConn) {
		c.Request()
		pending <- host.PendingRequests()
		c.Send(harness.OKAnswer)
	})
	c := &sluice.Client{ConfigureClient: func(hc *sluice.HostClient) error { host = hc; return nil }}
	if _, _, err := c.Get(nil, p.URL("/")); err != nil {
		t.Fatal(err)
	}
	if n := <-pending; n != 1 || host.PendingRequests() != 0 {
		t.Fatalf("%d requests, later %d; want 1, 0", n, host.PendingRequests())
	}
}

// Nothing was sent: any request goes to another connection. That must be a
// fresh one, as all that idle may be dead for the same reason.
func TestDoRepeatsWhatWasNotSent(t *testing.T) {
	p := harness.NewClientPeer(t, answering(harness.OKAnswer))
	c := p.Host()
	dials := 0
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		if dials++; dials > 3 || err != nil {
			return nc, err
		}
		return &hookedConn{Conn: nc, onWrite: func(*hookedConn, []byte) (int, error, bool) { return 0, syscall.EPIPE, true }}, nil
	}
	held(t, c, 3)()
	req, resp := harness.NewCall("POST", p.URL("/"))
	req.SetBodyString("body")
	if err := c.Do(req, resp); err != nil || dials != 4 {
		t.Errorf("%v, %d dials", err, dials)
	}
	if got := p.Requests(); len(got) != 1 || got[0] != "POST / body" {
		t.Errorf("%q", got)
	}
	checkPool(t, c, 3, 3) // two that were not tried, and the new one
}
