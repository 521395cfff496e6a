package proxy

import (
	"context"
	"errors"
	"sync"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
)

// A Proxy forwards requests. New makes one. Its methods may be called concurrently.
type Proxy struct {
	options Options
	group   balance.Group[*upstream]
	hedges  hedgeBudget
	stop    context.CancelFunc // ends the tests of health
	tests   sync.WaitGroup
}

// New returns a Proxy, or an error if an option is wrong. The caller ends it with Close.
func New(o Options) (*Proxy, error) {
	o.setDefaults()
	p := &Proxy{options: o}
	if len(o.To) == 0 {
		return nil, errors.New("sluice: proxy: there is no upstream: Options.To is empty")
	}
	seen, isPlain := map[string]bool{}, o.Request == nil
	for _, to := range o.To {
		u, err := newUpstream(to, &p.options)
		if err != nil {
			return nil, err
		}
		if seen[u.name] {
			return nil, errors.New("sluice: proxy: the upstream " + u.name + " is there twice")
		}
		seen[u.name], isPlain = true, isPlain && !u.isTLS
		p.group.Add(u)
	}
	for _, m := range p.group.Members() {
		m.Client.isPlain = isPlain
	}
	switch {
	case o.HealthPath != "" && o.HealthPath[0] != '/':
		return nil, errors.New("sluice: proxy: HealthPath must begin with a slash")
	case min(o.HealthInterval, o.HealthTimeout, o.DialTimeout, o.Timeout, o.MaxWait, o.HedgeAfter) < 0:
		return nil, errors.New("sluice: proxy: a time of the Options is below zero")
	}
	if o.HedgeAfter > 0 && o.Balance == Sticky {
		return nil, errors.New("sluice: proxy: HedgeAfter and Sticky exclude each other: a hedge goes to another upstream")
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	if o.HealthPath != "" {
		for _, m := range p.group.Members() {
			p.tests.Add(1)
			go p.watch(ctx, m)
		}
	}
	return p, nil
}

// Close ends the tests of health and closes the connections that are not in use. Requests
// in progress go on. The Proxy must not get others afterwards.
func (p *Proxy) Close() {
	p.stop()
	p.tests.Wait()
	for _, m := range p.group.Members() {
		m.Client.client.CloseIdleConnections()
	}
}

// Handle forwards a request, and answers with the upstream's response. It is a
// sluice.RequestHandler. Servers should have StreamRequestBody; otherwise they keep bodies of
// requests in memory before the request is sent.
//
// The client's disconnecting cancels the request to the upstream. A Shutdown of the server
// does not; it waits for the response.
//
// If there is no response, Handle answers with 502, with 503 if there are too many requests,
// or with 504 after a time-out. If the client has broken off its request, the status, for logs, is
// StatusClientClosed.
func (p *Proxy) Handle(ctx *sluice.RequestCtx) {
	x := acquireExchange(p, ctx)
	defer x.leave() // a hook may panic
	if err := x.run(); err != nil {
		x.fail(err)
	}
}

func (p *Proxy) logger(ctx *sluice.RequestCtx) sluice.Logger {
	if p.options.Logger != nil {
		return p.options.Logger
	}
	return ctx.Logger()
}
