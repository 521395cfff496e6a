package sluice

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
)

// The pools of the small message types. The caller owns an object from the time
// that it is acquired until it is released.
var (
	argsPool   = sync.Pool{New: func() any { return new(Args) }}
	uriPool    = sync.Pool{New: func() any { return new(URI) }}
	cookiePool = sync.Pool{New: func() any { return new(Cookie) }}
)

// maxPooledBytes is how many bytes of memory an object may hold when it is
// returned to a pool. The memory of a single huge query must not be kept.
const maxPooledBytes = 64 << 10

// AcquireArgs returns an empty Args from a pool, to which ReleaseArgs may return it.
func AcquireArgs() *Args {
	a := argsPool.Get().(*Args)
	a.owned.Acquired()
	return a
}

// ReleaseArgs returns a to the pool. Do not use a, or a slice of it, afterwards.
func ReleaseArgs(a *Args) {
	a.owned.Released("Args")
	if a.heldBytes() > maxPooledBytes {
		return
	}
	a.Reset()
	argsPool.Put(a)
}

// AcquireURI returns a zero URI from a pool, to which ReleaseURI may return it.
func AcquireURI() *URI {
	u := uriPool.Get().(*URI)
	u.owned.Acquired()
	return u
}

// ReleaseURI returns u to the pool. Do not use u, or a slice of it, afterwards.
func ReleaseURI(u *URI) {
	u.owned.Released("URI")
	if u.heldBytes() > maxPooledBytes {
		return
	}
	u.Reset()
	uriPool.Put(u)
}

// AcquireCookie returns an empty Cookie from a pool, to which ReleaseCookie may return it.
func AcquireCookie() *Cookie {
	c := cookiePool.Get().(*Cookie)
	c.owned.Acquired()
	return c
}

// ReleaseCookie returns c to the pool. Do not use c, or a slice of it, afterwards.
func ReleaseCookie(c *Cookie) {
	c.owned.Released("Cookie")
	if c.heldBytes() > maxPooledBytes {
		return
	}
	c.Reset()
	cookiePool.Put(c)
}

// heldBytes is the memory that a keeps for its next use.
func (a *Args) heldBytes() int { return a.m.HeldBytes() }

// heldBytes is the memory that u keeps for its next use.
func (u *URI) heldBytes() int {
	return u.m.HeldBytes() + u.queryArgs.m.HeldBytes() + cap(u.requestURI) + cap(u.fullURI)
}

// heldBytes is the memory that c keeps for its next use.
func (c *Cookie) heldBytes() int { return c.m.HeldBytes() }

// singlePool is for ServeConn.
var singlePool = sync.Pool{New: func() any { return new(single) }}

// acquireSingle returns the state of one ServeConn of s.
func acquireSingle(s *Server) *single {
	one := singlePool.Get().(*single)
	s.resolve(&one.config, one.name)
	if one.config.name != nil {
		one.name = one.config.name
	}
	one.config.single, one.config.IsSingle, one.config.ShowsErrors = one, true, true
	one.acceptor = acceptor{server: s, cfg: &one.config, hooks: engine.Hooks{Proxy: one.config.proxy}}
	return one
}

// releaseSingle returns one to the pool, unless it may still be in use.
func releaseSingle(one *single) {
	if !one.isRetained {
		*one = single{name: one.name}
		singlePool.Put(one)
	}
}

// The pools of messages. The caller owns a message from the time that it is
// acquired until it is released.
var (
	requestPool  = sync.Pool{New: func() any { return new(Request) }}
	responsePool = sync.Pool{New: func() any { return new(Response) }}
)

// maxPooledFields is the number of fields for which a pooled message may keep
// memory.
const maxPooledFields = 256

// AcquireRequest returns an empty Request from a pool, to which ReleaseRequest may return it.
func AcquireRequest() *Request { return requestPool.Get().(*Request) }

// ReleaseRequest returns r to the pool. Do not use r, or a slice of it, afterwards.
func ReleaseRequest(r *Request) {
	r.recycle()
	requestPool.Put(r)
}

// recycle resets a request and releases excessive memory, for a pool.
func (r *Request) recycle() {
	r.KeepBodyBuffer = false
	r.Reset()
	r.shrink()
}

// shrink releases the memory that a request in a pool must not hold: a request
// of uncommon size would keep it indefinitely. Reset does the same for the body.
func (r *Request) shrink() {
	r.Header.shrink(maxPooledBytes, maxPooledFields)
	if cap(r.wire) > maxPooledBytes {
		r.wire = nil
	}
	if r.uri.heldBytes() > maxPooledBytes {
		r.uri = URI{}
	}
	if r.postArgs.heldBytes() > maxPooledBytes {
		r.postArgs = Args{}
	}
}

// AcquireResponse returns an empty Response from a pool, to which ReleaseResponse may return it.
func AcquireResponse() *Response { return responsePool.Get().(*Response) }

// ReleaseResponse returns r to the pool. Do not use r, or a slice of it, afterwards.
func ReleaseResponse(r *Response) {
	r.recycle()
	responsePool.Put(r)
}

// recycle resets a response and releases excessive memory, for a pool.
func (r *Response) recycle() {
	r.KeepBodyBuffer = false
	r.Reset()
	r.shrink()
}

// shrink releases the memory that a response in a pool must not hold.
func (r *Response) shrink() { r.Header.shrink(maxPooledBytes, maxPooledFields) }

// fetchingPool holds *fetching.
var fetchingPool = sync.Pool{New: func() any { return new(fetching) }}

func acquireFetching() *fetching { return fetchingPool.Get().(*fetching) }

func releaseFetching(f *fetching) {
	f.req.recycle()
	f.resp.recycle()
	fetchingPool.Put(f)
}

// http2CallPool holds *http2Call.
var http2CallPool = sync.Pool{New: func() any { return new(http2Call) }}

func acquireHTTP2Call() *http2Call { return http2CallPool.Get().(*http2Call) }

// releaseHTTP2Call forgets the request, and keeps the memory.
func releaseHTTP2Call(x *http2Call) {
	x.forget()
	x.stream.Params, x.member = streams.Params{}, nil
	http2CallPool.Put(x)
}

// attachedCallPool holds *attachedCall.
var attachedCallPool = sync.Pool{New: func() any { return new(attachedCall) }}

func acquireAttachedCall() *attachedCall { return attachedCallPool.Get().(*attachedCall) }

// releaseAttachedCall forgets the request, and keeps the memory.
func releaseAttachedCall(x *attachedCall) {
	x.forget()
	x.stream = nil
	attachedCallPool.Put(x)
}

// forget makes x ready for another request.
func (x *streamCall) forget() {
	x.params, x.carrier, x.nc = streams.Params{}, nil, nil
	x.c, x.req, x.resp, x.call, x.content, x.late = nil, nil, nil, nil, nil, nil
	x.framing, x.source, x.gate = message.Framing{}, body.Upload{}, nil
	x.form, x.unwanted = noFinalHead, 0
	x.trailers.Reset()
}

// pipelineWorkPool is a pool of requests for the queues of a PipelineClient. Each
// PipelineClient has its own pool: the requests have channels, which must not
// leave a bubble of testing/synctest.
type pipelineWorkPool struct{ pool sync.Pool } // of *pipelineWork

// acquire returns a work of c, which the caller owns.
func (p *pipelineWorkPool) acquire(c *PipelineClient) *pipelineWork {
	if w, ok := p.pool.Get().(*pipelineWork); ok {
		return w
	}
	w := &pipelineWork{c: c}
	w.Init(w)
	return w
}

// release returns w to the pool. w must not be in any list, and no goroutine may
// wait for it.
func (p *pipelineWorkPool) release(w *pipelineWork) {
	if w.into == &w.resp {
		w.resp.recycle()
	}
	w.into = nil
	out := w.Out[:0]
	if cap(out) > maxPooledBytes {
		out = nil
	}
	w.Out, w.Err = out, nil
	p.pool.Put(w)
}
