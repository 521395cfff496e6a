package sluice

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
)

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
	for _, kind := range []connKind{forHTTP1, forTurn, forEither} {
		var phase *PhaseError
		if _, _, err := c.acquire(&clientCall{Bounds: clock.Bounds{Context: ended}, phase: PhaseRead}, kind); !errors.As(err, &phase) || phase.Phase != PhaseWait {
			t.Errorf("%d: %v", kind, err)
		}
	}
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
		"call":     func() { releaseCall(acquireCall()) },
		"stream":   func() { releaseHTTP2Call(acquireHTTP2Call()) },
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
	f.req.call = &clientCall{wants: wantsBytes}
	if releaseFetching(f); len(f.req.Body())+len(f.resp.Body()) != 0 || f.req.call != nil {
		t.Errorf("%q, %q, %+v", f.req.Body(), f.resp.Body(), f.req.call)
	}
}
