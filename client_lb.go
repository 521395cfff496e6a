package sluice

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// A BalancingClient is a client that an LBClient can use. *HostClient and
// *PipelineClient implement it; applications may implement others. LBClient
// calls it concurrently.
type BalancingClient interface {
	// DoDeadline sends req and reads the response into resp, until deadline. It
	// must not retain req and resp after it returns.
	DoDeadline(req *Request, resp *Response, deadline time.Time) error
	// PendingRequests returns the number of requests that the client is
	// processing.
	PendingRequests() int
}

// contextClient is a BalancingClient that supports contexts.
type contextClient interface {
	DoContext(ctx context.Context, req *Request, resp *Response) error
}

// An LBClient distributes requests over Clients. Each request goes to the
// client with the fewest pending requests. Clients with equally few take turns.
//
// After a failure, a client gets fewer requests for a second. After three
// failures in a row, it gets none for a second. Then one request probes it:
// success restores the client, and failure doubles that time, up to 30 seconds.
// If all clients have failed, they are used nevertheless. Requests that the
// caller cancels do not affect a client's health.
//
// The zero value with Clients is ready to use. An LBClient must not be copied,
// and its fields must not be changed while it is used. Its methods may be
// called concurrently. When a method returns, the LBClient retains no reference
// to its Request and Response, provided that Clients retain none.
type LBClient struct {
	noCopy noCopy

	// Clients are the initial clients. AddClient and RemoveClients do not change
	// this slice.
	Clients []BalancingClient

	// HealthCheck reports whether the outcome of a request shows a healthy
	// client. nil: the client is healthy if err is nil, whatever the status is.
	// HealthCheck must not retain req and resp. It is not called if the caller
	// cancelled the request, or if the request itself is invalid.
	HealthCheck func(req *Request, resp *Response, err error) bool

	// Timeout limits Do, and DoContext if the context has no deadline; 0 is
	// DefaultLBClientTimeout.
	Timeout time.Duration

	// HedgeAfter is the time after which a request without a response is also
	// sent to another client; 0 disables that. A failed request is sent to
	// another client at once. The first good response is returned. The other
	// requests are cancelled, and have ended when the call returns. A client
	// without a method DoContext(context.Context, *Request, *Response) error
	// cannot be cancelled and delays the return, up to the deadline.
	//
	// Only a request that may be repeated is hedged (it is idempotent by RFC 9110
	// section 9.2.2, or has an Idempotency-Key), and only if neither its body nor
	// the response's is a stream; none is if a HostClient of Clients has
	// StreamResponseBody. Clients receive copies of the request, without its user
	// values.
	HedgeAfter time.Duration

	// MaxHedges is the maximum number of additional attempts; 0 is 1.
	MaxHedges int

	once  sync.Once
	group balance.Group[BalancingClient]
}

// Do sends req and reads the response into resp, which may be nil, within
// Timeout. It returns ErrNoAvailableClients if there are no clients, and
// otherwise the error of the client that it used.
func (c *LBClient) Do(req *Request, resp *Response) error {
	return c.do(lbBounds{deadline: time.Now().Add(positiveOr(c.Timeout, DefaultLBClientTimeout))}, req, resp)
}

// DoTimeout is Do with timeout instead of Timeout.
func (c *LBClient) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return c.do(lbBounds{deadline: time.Now().Add(timeout)}, req, resp)
}

// DoDeadline is Do with a deadline instead of Timeout.
func (c *LBClient) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return c.do(lbBounds{deadline: deadline}, req, resp)
}

// DoContext is Do with a context. When ctx ends, a client with a method
// DoContext cancels the request; other clients only receive ctx's deadline. If
// ctx has no deadline, Timeout applies.
func (c *LBClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	bounds := lbBounds{ctx: ctx}
	if _, ok := ctx.Deadline(); !ok {
		bounds.deadline = time.Now().Add(positiveOr(c.Timeout, DefaultLBClientTimeout))
	}
	return c.do(bounds, req, resp)
}

// AddClient adds a client and returns the new number of clients.
func (c *LBClient) AddClient(cc BalancingClient) int {
	c.once.Do(c.prepare)
	return c.group.Add(cc)
}

// RemoveClients removes the clients for which rc returns true, and returns the
// number of the remaining clients. Requests in progress on removed clients
// continue. rc must not call methods of c.
func (c *LBClient) RemoveClients(rc func(BalancingClient) bool) int {
	c.once.Do(c.prepare)
	return c.group.Remove(rc)
}

// prepare adds the initial clients.
func (c *LBClient) prepare() { c.group.Add(c.Clients...) }

// lbBounds limits a request: by ctx if that is not nil, and by deadline if that
// is not zero.
type lbBounds struct {
	ctx      context.Context
	deadline time.Time
}

// err returns the error of a request whose time was over before it began.
func (b lbBounds) err() error {
	if err := clock.EndOf(b.ctx, PhaseWait); err != nil {
		return err
	}
	if !b.deadline.IsZero() && time.Until(b.deadline) <= 0 {
		return ErrTimeout
	}
	return nil
}

// streamsBodies reports whether client makes the bodies of its responses streams.
func streamsBodies(client BalancingClient) bool {
	host, ok := client.(*HostClient)
	return ok && host.StreamResponseBody
}

func (c *LBClient) do(bounds lbBounds, req *Request, resp *Response) error {
	c.once.Do(c.prepare)
	if err := bounds.err(); err != nil {
		return err // which says nothing about any client
	}
	if resp == nil {
		resp = AcquireResponse()
		defer ReleaseResponse(resp)
	}
	if c.HedgeAfter > 0 && req.streamed() == nil && !resp.StreamBody && req.Header.isRepeatable() && !c.group.Has(streamsBodies) {
		return c.doHedged(bounds, req, resp)
	}
	p, ok := c.group.Pick(nil)
	if !ok {
		return ErrNoAvailableClients
	}
	_, err := c.attempt(p, bounds, req, resp)
	return err
}

// attempt sends req with the client of p and records the outcome.
func (c *LBClient) attempt(p balance.Pick[BalancingClient], bounds lbBounds, req *Request, resp *Response) (isGood bool, err error) {
	judged := false
	defer func() {
		if !judged { // the client has panicked
			p.Report(balance.Unknown)
		}
	}()
	err = doBounded(p.Member.Client, bounds, req, resp)
	verdict := c.judge(bounds.ctx, req, resp, err)
	judged = true
	p.Report(verdict)
	return err == nil && verdict == balance.Good, err
}

// judge returns what the outcome of a request says about the client's health.
func (c *LBClient) judge(ctx context.Context, req *Request, resp *Response, err error) balance.Verdict {
	isGood := err == nil
	switch {
	case err != nil && ctx != nil && errors.Is(ctx.Err(), context.Canceled), err != nil && isOwnFault(req, err):
		return balance.Unknown
	case c.HealthCheck != nil:
		isGood = c.HealthCheck(req, resp, err)
	}
	if isGood {
		return balance.Good
	}
	return balance.Bad
}

// isOwnFault reports whether err is due to the request and not to the client.
func isOwnFault(req *Request, err error) bool {
	return req.uriFailure() != nil ||
		errors.Is(err, uri.ErrUserinfoControl) || errors.Is(err, uri.ErrUserinfoColon) ||
		errors.Is(err, errMissingHost) || errors.Is(err, errUnsupportedScheme) || errors.Is(err, errPlainHTTPS) ||
		errors.Is(err, ErrHostClientRedirectToDifferentScheme)
}

// doBounded sends a request with client.
func doBounded(client BalancingClient, bounds lbBounds, req *Request, resp *Response) error {
	ctx, deadline := bounds.ctx, bounds.deadline
	if ctx == nil {
		return client.DoDeadline(req, resp, deadline)
	}
	if client, ok := client.(contextClient); ok {
		if deadline.IsZero() {
			return client.DoContext(ctx, req, resp)
		}
		call := beginCall(req)
		defer call.end(req)
		call.Allow(time.Until(deadline))
		return client.DoContext(ctx, req, resp)
	}
	if at, ok := ctx.Deadline(); ok && (deadline.IsZero() || at.Before(deadline)) {
		deadline = at
	}
	return client.DoDeadline(req, resp, deadline)
}

// A hedge sends a request to several clients until one gives a good answer.
type hedge struct {
	c       *LBClient
	bounds  lbBounds // limits of each attempt
	req     *Request // the caller's; each attempt has a copy
	resp    *Response
	used    []*balance.Member[BalancingClient]
	running int
	results chan *hedgeAttempt
	best    *hedgeAttempt // the best ended attempt; its result goes to the caller
}

// hedgeAttempt is one client's copy of the request and its outcome.
type hedgeAttempt struct {
	req    Request
	outer  clientCall // has the bounds of the caller's
	resp   Response
	err    error
	isGood bool
}

// doHedged sends copies of req, the first one at once.
func (c *LBClient) doHedged(bounds lbBounds, req *Request, resp *Response) error {
	parent := bounds.ctx
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	bounds.ctx = ctx
	most := 1 + positiveOr(c.MaxHedges, 1)
	h := hedge{c: c, bounds: bounds, req: req, resp: resp, results: make(chan *hedgeAttempt, most)}
	if !h.start() {
		return ErrNoAvailableClients
	}
	timer := AcquireTimer(c.HedgeAfter)
	defer ReleaseTimer(timer)
	for h.running > 0 && (h.best == nil || !h.best.isGood) {
		select {
		case a := <-h.results:
			h.take(a)
			if a.isGood || ctx.Err() != nil {
				continue
			}
		case <-timer.C:
			timer.Reset(c.HedgeAfter)
		}
		if len(h.used) < most {
			h.start()
		}
	}
	cancel()
	for h.running > 0 {
		h.take(<-h.results)
	}
	return h.deliver()
}

// start sends the request to another client. It returns false if there is none.
func (h *hedge) start() bool {
	p, ok := h.c.group.Pick(h.used)
	if !ok {
		return false
	}
	h.used = append(h.used, p.Member)
	h.running++
	a := new(hedgeAttempt)
	h.req.CopyTo(&a.req)
	a.req.SetTimeout(h.req.GetTimeOut())
	if outer := h.req.call; outer != nil {
		a.outer.Restore(outer.Bounds)
		a.outer.trace = outer.trace
		a.req.call = &a.outer
	}
	a.resp.SkipBody, a.resp.DecodeBody = h.resp.SkipBody, h.resp.DecodeBody
	go func() {
		defer func() { h.results <- a }()
		a.isGood, a.err = h.c.attempt(p, h.bounds, &a.req, &a.resp)
		if a.err == nil && a.resp.streamed() != nil {
			a.err = a.bufferStream(h.bounds.deadline)
			a.isGood = a.isGood && a.err == nil
		}
	}()
	return true
}

// bufferStream reads a body that the client has made a stream without being asked: it
// would end with the hedge. deadline, if it is not zero, limits that.
func (a *hedgeAttempt) bufferStream(deadline time.Time) error {
	if s, ok := a.resp.streamed().(io.Closer); ok && !deadline.IsZero() {
		defer time.AfterFunc(time.Until(deadline), func() { _ = s.Close() }).Stop()
	}
	if _, err := a.resp.content(); err != nil {
		return err
	}
	content := a.resp.SwapBody(nil)
	a.resp.setStream(bytes.NewReader(content), len(content))
	return nil
}

// take keeps an attempt as the result if it is better than the present one. A
// good answer is better than any answer, and any answer is better than an
// error.
func (h *hedge) take(a *hedgeAttempt) {
	h.running--
	if h.best == nil || !h.best.isGood && (a.isGood || a.err == nil && h.best.err != nil) {
		h.best = a
	}
}

// deliver moves the result into the caller's Response.
func (h *hedge) deliver() error {
	skips, decodes := h.resp.SkipBody, h.resp.DecodeBody
	h.resp.Reset()
	h.resp.SkipBody, h.resp.DecodeBody = skips, decodes
	if h.best.err != nil {
		return h.best.err
	}
	h.resp.exchange(&h.best.resp)
	return nil
}
