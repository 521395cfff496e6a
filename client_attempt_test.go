package sluice

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// TestRetryIfErrUpstream: it gets the address of the last dial, or of the connection, and
// "" if the attempt went to none. Trace.Retry tells each attempt that another one follows.
func TestRetryIfErrUpstream(t *testing.T) {
	p := newClientPeer(t, func(c *peerConn) { c.request() })
	var got, retried []string
	errOdd := errors.New("odd")
	c := &HostClient{
		Addr: "a:1,b:2", MaxIdemponentCallAttempts: 3,
		Dial: func(addr string) (net.Conn, error) {
			if addr == "a:1" {
				return nil, errStub
			}
			return net.Dial("tcp", p.addr())
		},
		RetryIfErrUpstream: func(_ *Request, attempt int, err error, upstream string) (bool, bool) {
			got = append(got, fmt.Sprint(attempt, upstream))
			return false, true
		},
		Trace: &ClientTrace{Retry: func(attempt int, err error) { retried = append(retried, fmt.Sprint(attempt, err)) }},
	}
	req, resp := newCall("GET", "http://h/")
	if err := c.Do(req, resp); err != ErrConnectionClosed {
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
	c.Transport = roundTripFunc(func(*HostClient, *Request, *Response) (bool, error) { return true, errOdd })
	if err := c.Do(req, resp); err != errOdd || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("%v, %q", err, got)
	}
}

// TestDialNothing: without an address, and with a dialer that returns nothing.
func TestDialNothing(t *testing.T) {
	var told []string
	c := &HostClient{Addr: " , ", Trace: &ClientTrace{GetConn: func(addr string) { told = append(told, "to "+addr) }}}
	req, resp := newCall("GET", "http://h/")
	if err := c.Do(req, resp); err != errNoAddr || !slices.Equal(told, []string{"to "}) {
		t.Errorf("%v, %q", err, told)
	}
	for _, isTLS := range []bool{false, true} {
		c = &HostClient{Addr: "h:1", IsTLS: isTLS, Dial: func(string) (net.Conn, error) { return nil, nil }}
		if isTLS {
			req.URI().SetScheme("https")
		}
		var dialed *ErrDialWithUpstream
		if err := c.Do(req, resp); !errors.Is(err, errNoConn) || !errors.As(err, &dialed) || dialed.Upstream != "h:1" {
			t.Errorf("TLS %v: %v", isTLS, err)
		}
		checkPool(t, c, 0, 0)
	}
}

// TestDialContextOfClients: a dialer gets the trace and the deadline of the request, and
// the next address in turn.
func TestDialContextOfClients(t *testing.T) {
	var seen *ClientTrace
	var hasDeadline bool
	var dialed []string
	c := &HostClient{Addr: "a,b", DialContext: func(ctx context.Context, addr string) (net.Conn, error) {
		seen = traceOf(ctx)
		_, hasDeadline = ctx.Deadline()
		dialed = append(dialed, addr)
		return &stubConn{}, nil
	}}
	req, resp := newCall("POST", "http://h/")
	for _, trace := range []*ClientTrace{nil, {}} {
		c.Trace = trace
		if err := c.Do(req, resp); err != ErrTimeout || seen != trace || hasDeadline {
			t.Errorf("%v, trace %p, want %p, deadline %v", err, seen, trace, hasDeadline)
		}
	}
	if err := c.DoTimeout(req, resp, time.Hour); err != ErrTimeout || !hasDeadline {
		t.Errorf("%v, deadline %v", err, hasDeadline)
	}
	if !slices.Equal(dialed, []string{"a", "b", "a"}) {
		t.Errorf("dialed %q", dialed)
	}
}

// TestTLSHandshakeAlone: a handshake without WriteTimeout is bounded, too. The connection
// is closed, and hooks are called once, whichever there are.
func TestTLSHandshakeAlone(t *testing.T) {
	for name, hooks := range map[string]string{"none": "", "start": "start", "done": "done", "both": "start done"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				trace := &ClientTrace{}
				if strings.Contains(hooks, "start") {
					trace.TLSStart = func() { told = append(told, "start") }
				}
				if strings.Contains(hooks, "done") {
					trace.TLSDone = func(_ tls.ConnectionState, err error) {
						told = append(told, "done")
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("TLSDone of %v", err)
						}
					}
				}
				mine, other := net.Pipe()
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					_, _ = io.Copy(io.Discard, other)
				}()
				c := &HostClient{Addr: "h:443", IsTLS: true, Trace: trace, Dial: func(string) (net.Conn, error) { return mine, nil }}
				req, resp := newCall("GET", "https://h/")
				began := time.Now()
				if err := c.Do(req, resp); err != ErrTLSHandshakeTimeout || time.Since(began) != 30*time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				<-gone
				other.Close()
				if got := strings.Join(told, " "); got != hooks {
					t.Errorf("told %q, want %q", got, hooks)
				}
				checkPool(t, c, 0, 0)
			})
		})
	}
}

// TestConnectionsWithoutDeadlines: a connection whose deadlines cannot be set is not used.
// The request is sent again on another one if nothing of it was sent.
func TestConnectionsWithoutDeadlines(t *testing.T) {
	big := make([]byte, uploadSize)
	for _, tc := range []struct {
		failing string // which deadline
		body    []byte
		dials   int
	}{
		{"write", nil, DefaultMaxIdemponentCallAttempts}, {"read", nil, 1},
		{"write", big, DefaultMaxIdemponentCallAttempts}, {"read", big, DefaultMaxIdemponentCallAttempts},
	} {
		var conns []*stubConn
		c := &HostClient{Addr: "h:80", Dial: func(string) (net.Conn, error) {
			conns = append(conns, &stubConn{limitErr: errStub, failing: tc.failing})
			return conns[len(conns)-1], nil
		}}
		req, resp := newCall("POST", "http://h/")
		req.SetBody(tc.body)
		if err := c.DoTimeout(req, resp, time.Hour); !errors.Is(err, errStub) || len(conns) != tc.dials {
			t.Errorf("%s, %d bytes: %v, %d dials, want %d", tc.failing, len(tc.body), err, len(conns), tc.dials)
		}
		for _, conn := range conns {
			if last := conn.told[len(conn.told)-1]; last != "close" {
				t.Errorf("%s: the last was %s", tc.failing, last)
			}
		}
		checkPool(t, c, 0, 0)
	}
}

// A connection whose old deadline cannot be cleared is not used again.
func TestDeadlineThatStays(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return stickyConn{nc}, err
	}
	for i := range 3 {
		req, resp := newCall("POST", p.url("/"))
		if err := c.DoTimeout(req, resp, time.Hour); err != nil || string(resp.Body()) != "ok" || p.accepted() != i+1 {
			t.Errorf("%v, %q, %d connections, want %d", err, resp.Body(), p.accepted(), i+1)
		}
		checkPool(t, c, 1, 1)
	}
}

// stickyConn cannot clear its deadlines.
type stickyConn struct{ net.Conn }

func (c stickyConn) SetDeadline(at time.Time) error {
	if at.IsZero() {
		return errStub
	}
	return c.Conn.SetDeadline(at)
}

// TestClientPoolSettings: what the fields of a HostClient make of the pools.
func TestClientPoolSettings(t *testing.T) {
	var c HostClient
	if s := c.poolSettings(); s.MaxConns != 512 || s.MaxIdle != 10*time.Second || s.IsLIFO {
		t.Errorf("%+v", s)
	}
	if s := c.http2Settings(); s.MaxConns != 4 || s.MaxIdle != 10*time.Second || s.MaxAge != 0 {
		t.Errorf("%+v", s)
	}
	c = HostClient{MaxConns: 1, MaxHTTP2Conns: 1, MaxIdleConnDuration: 1, MaxConnDuration: 2, ConnPoolStrategy: LIFO}
	if s := c.poolSettings(); s.MaxConns != 1 || s.MaxIdle != 1 || !s.IsLIFO {
		t.Errorf("%+v", s)
	}
	if s := c.http2Settings(); s.MaxConns != 1 || s.MaxIdle != 1 || s.MaxAge != 2 {
		t.Errorf("%+v", s)
	}
	c.MaxConns = -1
	if s := c.poolSettings(); s.MaxConns != 512 {
		t.Errorf("%+v", s)
	}
}

// TestAcquirePhase: a call that looks for a connection is in PhaseWait, also after an
// attempt that came further.
func TestAcquirePhase(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c := &HostClient{Addr: "h:80", HTTP2: HTTP2Only, Dial: func(string) (net.Conn, error) { panic("dialed") }}
	for name, acquire := range map[string]func(call *clientCall) error{
		"acquire":       func(call *clientCall) error { _, err := c.acquire(call); return err },
		"acquireEither": func(call *clientCall) error { _, _, err := c.acquireEither(call); return err },
	} {
		var phase *PhaseError
		if err := acquire(&clientCall{Bounds: clock.Bounds{Context: ended}, phase: PhaseRead}); !errors.As(err, &phase) || phase.Phase != PhaseWait {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGetOfAStream: what a Transport leaves as a stream is read; if it breaks off, what
// came is returned.
func TestGetOfAStream(t *testing.T) {
	for _, tc := range []struct {
		rest   error
		status int
	}{{nil, 202}, {errStub, 0}} {
		c := &HostClient{Addr: "h:80", Transport: roundTripFunc(func(_ *HostClient, _ *Request, resp *Response) (bool, error) {
			resp.SetStatusCode(202)
			var r io.Reader = strings.NewReader("half")
			if tc.rest != nil {
				r = io.MultiReader(r, iotest.ErrReader(tc.rest))
			}
			resp.SetBodyStream(r, -1)
			return false, nil
		})}
		if status, body, err := c.Get([]byte("old"), "http://h/"); status != tc.status || !errors.Is(err, tc.rest) || tc.rest == nil && string(body) != "half" {
			t.Errorf("%d, %q, %v", status, body, err)
		}
	}
}

// countdownConn fails to set a deadline for reading after a number of times.
type countdownConn struct {
	net.Conn
	left int
}

func (c *countdownConn) SetReadDeadline(at time.Time) error {
	if c.left--; c.left < 0 {
		return errStub
	}
	return c.Conn.SetReadDeadline(at)
}

// TestStreamsWithoutDeadlines: a streamed body whose deadlines cannot be set or cleared is
// not read.
func TestStreamsWithoutDeadlines(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	c := p.host()
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return stickyConn{nc}, err
	}
	req, resp := newCall("POST", p.url("/"))
	resp.StreamBody = true
	if err := c.DoTimeout(req, resp, time.Hour); !errors.Is(err, errStub) {
		t.Errorf("clearing: %v", err)
	}
	checkPool(t, c, 0, 0)
	c = p.host()
	c.ReadTimeout = time.Hour
	c.Dial = func(addr string) (net.Conn, error) {
		nc, err := net.Dial("tcp", addr)
		return &countdownConn{nc, 1}, err
	}
	if err := c.Do(req, resp); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := resp.BodyStream().Read(make([]byte, 1)); n != 0 || !errors.Is(err, errStub) {
			t.Errorf("setting: %d, %v", n, err)
		}
	}
	checkPool(t, c, 0, 0)
}

// TestSmallestLimits: a limit of 1 is one, for times and sizes.
func TestSmallestLimits(t *testing.T) {
	p := newClientPeer(t, answering(okAnswer))
	expectErr := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	c := p.host()
	if cc, err := c.AcquireConn(1, false); err == nil || cc != nil {
		t.Errorf("AcquireConn: %v", err)
	}
	req, resp := newCall("POST", p.url("/"))
	req.SetTimeout(1)
	expectErr("Request.SetTimeout", c.Do(req, resp), ErrTimeout)
	req.SetTimeout(0)
	c.MaxResponseBodySize = 1
	expectErr("MaxResponseBodySize", c.Do(req, resp), ErrBodyTooLarge)
	resp.StreamBody = true
	expectErr("MaxResponseBodySize of a stream", c.Do(req, resp), ErrBodyTooLarge)
	resp.StreamBody = false
	c.MaxResponseBodySize, c.ReadTimeout = 0, 1
	expectErr("ReadTimeout", c.Do(req, resp), ErrTimeout)
	c.ReadTimeout, c.WriteTimeout = 0, 1
	expectErr("WriteTimeout", c.Do(req, resp), ErrTimeout)
	c.WriteTimeout, c.MaxConnDuration = 0, 1
	expectErr("MaxConnDuration", c.Do(req, resp), nil)
	checkPool(t, c, 0, 0)
	c.IsTLS, c.WriteTimeout = true, 1
	req.URI().SetScheme("https")
	expectErr("WriteTimeout with TLS", c.Do(req, resp), ErrTLSHandshakeTimeout)
	if n := positiveOr(1, 5); n != 1 {
		t.Errorf("size %d", n)
	}
	var call clientCall
	if call.Limit(1) == 0 {
		t.Error("no limit")
	}
	call.Allow(time.Hour)
	if call.Left(1) != 1 {
		t.Error("more time than was asked for")
	}
}

// TestClientPools: what is returned to a pool is used again.
func TestClientPools(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector drops values of pools")
	}
	var c HostClient
	var pipeline PipelineClient
	stub := &stubConn{}
	for name, use := range map[string]func(){
		"reader":   func() { c.ReleaseReader(c.AcquireReader(stub)) },
		"writer":   func() { c.ReleaseWriter(c.AcquireWriter(stub)) },
		"fetching": func() { releaseFetching(acquireFetching()) },
		"call":     func() { releaseHTTP2Call(acquireHTTP2Call()) },
		"timer":    func() { ReleaseTimer(AcquireTimer(time.Hour)) },
		"work":     func() { pipeline.works.release(pipeline.works.acquire(&pipeline)) },
	} {
		if n := testing.AllocsPerRun(100, use); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	f := acquireFetching()
	f.req.SetBodyString("body")
	f.resp.SetBodyString("body")
	f.req.call.wants = wantsBytes
	if releaseFetching(f); len(f.req.Body())+len(f.resp.Body()) != 0 || f.req.call != (clientCall{}) {
		t.Errorf("%q, %q, %+v", f.req.Body(), f.resp.Body(), f.req.call)
	}
}
