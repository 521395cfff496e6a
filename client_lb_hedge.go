package sluice

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/client/balance"
)

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
	a.resp.SkipBody = h.resp.SkipBody
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
	skips := h.resp.SkipBody
	h.resp.Reset()
	h.resp.SkipBody = skips
	if h.best.err != nil {
		return h.best.err
	}
	h.resp.exchange(&h.best.resp)
	return nil
}
