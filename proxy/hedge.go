package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
)

const (
	// hedgeEvery is of how many requests one may be hedged.
	hedgeEvery = 10
	// hedgesSaved bounds the unused hedges that are saved for a later burst.
	hedgesSaved = 10
)

// A hedgeBudget keeps hedges to a part of the requests, so that upstreams which have become slow
// get little more to do. The zero value has nothing.
type hedgeBudget struct{ saved atomic.Int64 } // in parts of a hedge: hedgeEvery are one

// earn counts a request that may be hedged.
func (b *hedgeBudget) earn() {
	for {
		saved := b.saved.Load()
		if saved >= hedgesSaved*hedgeEvery || b.saved.CompareAndSwap(saved, saved+1) {
			return
		}
	}
}

// spend reports whether a hedge may be sent, and counts it.
func (b *hedgeBudget) spend() bool {
	for {
		saved := b.saved.Load()
		if saved < hedgeEvery {
			return false
		}
		if b.saved.CompareAndSwap(saved, saved-hedgeEvery) {
			return true
		}
	}
}

// mayHedge reports whether the request may be sent to two upstreams concurrently. A request that
// changes something may not: the copy that arrives first could make the answer to the other one 404,
// 409 or, with If-Match, 412, and that answer might win.
func (x *exchange) mayHedge() bool {
	o := &x.proxy.options
	return o.HedgeAfter > 0 && len(o.To) > 1 && !x.req.IsBodyStream() && isSafe(&x.req.Header)
}

// A racer is one of the two attempts of a hedged request.
type racer int32

const (
	undecided racer = iota
	first           // the attempt that begins at once
	second          // the hedge
)

// A hedge is the second attempt of a request, which begins after Options.HedgeAfter on the
// goroutine of a timer. The exchange waits for its end before it continues.
type hedge struct {
	x      *exchange // the hedge uses it only as a context
	req    *sluice.Request
	resp   sluice.Response
	used   [1]*balance.Member[*upstream] // of the first attempt
	weigh  func(*upstream) uint64        // of Hash; nil: the least loaded one
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelFunc

	// winner is the first attempt with a good response. The other one is cancelled, and its
	// response dropped.
	winner      atomic.Int32
	cancelFirst context.CancelFunc

	ended chan struct{} // closed at the end
	// These are the hedge's until then.
	pick  balance.Pick[*upstream]
	isRun bool // pick counts as pending
	err   error
}

// sendHedged is sendOnce for a request that may be hedged. If the hedge has the response, it is
// the attempt of x afterwards.
func (x *exchange) sendHedged() error {
	x.proxy.hedges.earn()
	ctx, cancelFirst := context.WithCancel(x)
	h := &hedge{x: x, req: sluice.AcquireRequest(), used: [1]*balance.Member[*upstream]{x.pick.Member}, cancelFirst: cancelFirst, ended: make(chan struct{})}
	h.ctx, h.cancel = context.WithCancel(x)
	x.req.CopyTo(h.req)
	h.req.UseHostHeader = true
	if x.proxy.options.Balance == Hash {
		h.weigh = x.weighKey
	}
	isKept := false // the hedge's response is x's
	defer func() {
		if !isKept { // also if Response.OnInterim panics
			h.cancel()
			h.wait()
			h.drop()
		}
	}()
	h.timer = time.AfterFunc(x.proxy.options.HedgeAfter, h.run)
	x.resp.Header.Reset() // the client does not know that ctx is proxied
	err := x.sendOnce(ctx)
	isGood := err == nil && isGoodAnswer(x.resp)
	if isGood && h.winner.CompareAndSwap(int32(undecided), int32(first)) {
		x.cancel = cancelFirst
		return nil
	}
	hasRun := h.wait()
	if hasRun && h.err == nil && (err != nil || h.winner.Load() == int32(second)) {
		isKept = true
		_ = x.resp.CloseBodyStream()
		cancelFirst()
		x.endFirst(err, h.winner.Load() == int32(second))
		x.adopt(h)
		return nil
	}
	if hasRun { // do not try that upstream again
		x.tried = append(x.tried, h.pick.Member)
	}
	if err != nil {
		cancelFirst()
		return err
	}
	x.cancel = cancelFirst
	return nil
}

// isGoodAnswer reports whether a response ends the race. One that blames the server may still
// lose against another.
func isGoodAnswer(resp *sluice.Response) bool { return resp.StatusCode() < 500 }

// endFirst ends the first attempt, for which there is another response.
func (x *exchange) endFirst(err error, hasLost bool) {
	if err != nil && !hasLost && !errors.Is(err, sluice.ErrNoFreeConns) {
		x.pick.Member.Client.failed.Add(1)
		x.judge(balance.Bad)
	}
	x.end()
}

// adopt makes h the attempt of x.
func (x *exchange) adopt(h *hedge) {
	x.pick, x.isBusy, x.isJudge = h.pick, true, false
	x.tried = append(x.tried, h.pick.Member)
	x.resp, x.cancel = &h.resp, h.cancel
}

// run sends the hedge, if there is an upstream for it and the budget allows it.
func (h *hedge) run() {
	defer close(h.ended)
	p := h.x.proxy
	pick, _ := p.group.PickBy(h.used[:], h.weigh)
	if pick.Member == h.used[0] || !pick.Member.IsUp() || h.ctx.Err() != nil || !p.hedges.spend() {
		pick.Report(balance.Unknown)
		return
	}
	u := pick.Member.Client
	h.pick, h.isRun = pick, true
	u.sent.Add(1)
	u.hedged.Add(1)
	h.resp.StreamBody = true // its interim responses are dropped: the client gets those of the first attempt
	h.x.aim(h.req, u)
	h.err = u.client.DoContext(h.ctx, h.req, &h.resp)
	switch {
	case h.err == nil:
		pick.Report(balance.Good)
		if isGoodAnswer(&h.resp) && h.winner.CompareAndSwap(int32(undecided), int32(second)) {
			h.cancelFirst()
		}
	case h.ctx.Err() != nil, errors.Is(h.err, sluice.ErrNoFreeConns):
		pick.Report(balance.Unknown)
	default:
		u.failed.Add(1)
		pick.Report(balance.Bad)
	}
}

// wait waits for the end of the hedge, or prevents its beginning. It reports whether the hedge
// was sent.
func (h *hedge) wait() bool {
	if h.timer.Stop() {
		close(h.ended) // run will not
	}
	<-h.ended
	return h.isRun
}

// drop drops the response of a hedge that has ended.
func (h *hedge) drop() {
	if h.isRun {
		_ = h.resp.CloseBodyStream()
		h.pick.Member.Client.ended.Add(1)
	}
	sluice.ReleaseRequest(h.req)
}
