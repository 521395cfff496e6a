package sluice

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A BalancingClient is a client that an LBClient can use. *HostClient and
// *PipelineClient are, and others may be; LBClient calls it, from several
// goroutines at once.
type BalancingClient interface {
	// DoDeadline sends req and reads the response into resp.
	DoDeadline(req *Request, resp *Response, deadline time.Time) error
	// PendingRequests returns how many requests the client is busy with.
	PendingRequests() int
}

// contextClient is a BalancingClient that knows contexts.
type contextClient interface {
	DoContext(ctx context.Context, req *Request, resp *Response) error
}

// An LBClient shares requests out to Clients: each goes to the one with the
// fewest pending requests, and in turn where several have as few.
//
// A client that fails gets less to do for a second. One that has failed three
// times in a row gets nothing for a second; then one request tries it, which
// brings it back or doubles that time, up to 30 seconds. If all have failed,
// they are used nevertheless. Requests that the caller cancels say nothing about
// a client.
//
// The zero value with Clients is ready to use. An LBClient must not be copied,
// and its fields must not be changed while it is used. Its methods may be called
// concurrently. When one returns, nothing uses its Request and Response any
// more, as far as that is true of Clients.
type LBClient struct {
	noCopy noCopy

	// Clients are what AddClient and RemoveClients begin with.
	Clients []BalancingClient

	// HealthCheck tells whether what came of a request speaks for the client's
	// health; nil: if err is nil, whatever the status is. It must not keep req
	// and resp. It is not asked when the caller cancelled the request.
	HealthCheck func(req *Request, resp *Response, err error) bool

	// Timeout bounds Do, and DoContext if the context has no deadline; 0 is
	// DefaultLBClientTimeout.
	Timeout time.Duration

	// HedgeAfter is when a request that has no answer yet is also sent to
	// another client; 0: never. So is one that failed, at once. The first good
	// answer counts, and the other requests are given up and have ended when the
	// call returns: clients without a DoContext(context.Context, *Request,
	// *Response) error delay that up to the deadline. Only requests that may be
	// repeated are (RFC 9110 section 9.2.2, or with an Idempotency-Key), and
	// whose bodies are no streams, of request or response. Clients get copies of
	// the request, without its user values.
	HedgeAfter time.Duration

	// MaxHedges is how often at most; 0 is 1.
	MaxHedges int

	once    sync.Once
	mu      sync.Mutex // of changes to members
	members atomic.Pointer[[]*lbMember]
	turns   atomic.Uint64 // requests
}

// Do sends req and reads the response into resp, which may be nil, within
// Timeout. ErrNoAvailableClients: there are no clients. Other errors are those
// of the client that was used.
func (c *LBClient) Do(req *Request, resp *Response) error {
	return c.do(lbBounds{deadline: time.Now().Add(c.timeout())}, req, resp)
}

// DoTimeout is Do with another bound than Timeout.
func (c *LBClient) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return c.do(lbBounds{deadline: time.Now().Add(timeout)}, req, resp)
}

// DoDeadline is Do with another bound than Timeout.
func (c *LBClient) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return c.do(lbBounds{deadline: deadline}, req, resp)
}

// DoContext is Do that ends when ctx does, with clients that have a DoContext;
// others know its deadline only. Without one, Timeout is the bound.
func (c *LBClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	bounds := lbBounds{ctx: ctx}
	if _, ok := ctx.Deadline(); !ok {
		bounds.deadline = time.Now().Add(c.timeout())
	}
	return c.do(bounds, req, resp)
}

func (c *LBClient) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return DefaultLBClientTimeout
}

// AddClient adds a client, and returns how many there are then.
func (c *LBClient) AddClient(cc BalancingClient) int {
	c.once.Do(c.prepare)
	c.mu.Lock()
	defer c.mu.Unlock()
	members := append(slices.Clone(*c.members.Load()), &lbMember{client: cc})
	c.members.Store(&members)
	return len(members)
}

// RemoveClients removes the clients for which rc returns true, and returns how
// many are left. Requests that they are busy with go on. rc must not call
// methods of c.
func (c *LBClient) RemoveClients(rc func(BalancingClient) bool) int {
	c.once.Do(c.prepare)
	c.mu.Lock()
	defer c.mu.Unlock()
	members := slices.Clone(*c.members.Load())
	members = slices.DeleteFunc(members, func(m *lbMember) bool { return rc(m.client) })
	c.members.Store(&members)
	return len(members)
}

// prepare takes Clients over.
func (c *LBClient) prepare() {
	members := make([]*lbMember, len(c.Clients))
	for i, client := range c.Clients {
		members[i] = &lbMember{client: client}
	}
	c.members.Store(&members)
}

// lbBounds says when a request ends: with ctx if that is not nil, and at
// deadline if that is not zero.
type lbBounds struct {
	ctx      context.Context
	deadline time.Time
}

func (c *LBClient) do(bounds lbBounds, req *Request, resp *Response) error {
	c.once.Do(c.prepare)
	if resp == nil {
		resp = AcquireResponse()
		defer ReleaseResponse(resp)
	}
	if c.HedgeAfter > 0 && req.stream == nil && !resp.StreamBody && isRepeatable(req) {
		return c.doHedged(bounds, req, resp)
	}
	m, ok := c.pick(nil)
	if !ok {
		return ErrNoAvailableClients
	}
	_, err := c.attempt(m, bounds, req, resp)
	return err
}

// attempt sends req with m, which was picked, and notes how m did.
func (c *LBClient) attempt(m lbPick, bounds lbBounds, req *Request, resp *Response) (isGood bool, err error) {
	judged := false
	defer func() {
		if !judged { // the client has panicked
			m.report(lbUnknown)
		}
	}()
	err = m.member.do(bounds, req, resp)
	verdict := c.judge(bounds.ctx, req, resp, err)
	judged = true
	m.report(verdict)
	return err == nil && verdict == lbGood, err
}

// judge tells what the outcome of a request says about the client.
func (c *LBClient) judge(ctx context.Context, req *Request, resp *Response, err error) lbVerdict {
	isGood := err == nil
	switch {
	case err != nil && ctx != nil && errors.Is(ctx.Err(), context.Canceled), isOwnFault(err):
		return lbUnknown
	case c.HealthCheck != nil:
		isGood = c.HealthCheck(req, resp, err)
	}
	if isGood {
		return lbGood
	}
	return lbBad
}

// isOwnFault tells whether err is about the request alone.
func isOwnFault(err error) bool {
	switch {
	case errors.Is(err, errMissingHost), errors.Is(err, errUnsupportedScheme), errors.Is(err, errPlainHTTPS),
		errors.Is(err, ErrHostClientRedirectToDifferentScheme):
		return true
	}
	return false
}

// do sends a request.
func (m *lbMember) do(bounds lbBounds, req *Request, resp *Response) error {
	ctx, deadline := bounds.ctx, bounds.deadline
	if ctx == nil {
		return m.client.DoDeadline(req, resp, deadline)
	}
	if client, ok := m.client.(contextClient); ok {
		if deadline.IsZero() {
			return client.DoContext(ctx, req, resp)
		}
		defer req.call.restore(req.call.allow(time.Until(deadline)))
		return client.DoContext(ctx, req, resp)
	}
	if at, ok := ctx.Deadline(); ok && (deadline.IsZero() || at.Before(deadline)) {
		deadline = at
	}
	return m.client.DoDeadline(req, resp, deadline)
}
