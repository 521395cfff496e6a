package sluice

import "sync"

// The pools of messages. What is taken from a pool is owned by the caller until
// it is given back.
var (
	requestPool  = sync.Pool{New: func() any { return new(Request) }}
	responsePool = sync.Pool{New: func() any { return new(Response) }}
)

// maxPooledFields is how many fields a pooled message may keep memory for.
const maxPooledFields = 256

// AcquireRequest returns an empty Request from a pool. Return it with
// ReleaseRequest when it is no longer used; not doing so is only slower.
func AcquireRequest() *Request { return requestPool.Get().(*Request) }

// ReleaseRequest resets r and returns it to the pool. Neither r nor anything
// obtained from it may be used afterwards.
func ReleaseRequest(r *Request) {
	r.recycle()
	requestPool.Put(r)
}

// recycle makes a request fit for a pool.
func (r *Request) recycle() {
	r.KeepBodyBuffer = false
	r.Reset()
	r.shrink()
}

// shrink drops what a request that goes to a pool must not hold: one of
// uncommon size would keep its memory for ever. The body is reset's business.
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

// AcquireResponse returns an empty Response from a pool. Return it with
// ReleaseResponse when it is no longer used; not doing so is only slower.
func AcquireResponse() *Response { return responsePool.Get().(*Response) }

// ReleaseResponse resets r and returns it to the pool. Neither r nor
// anything obtained from it may be used afterwards.
func ReleaseResponse(r *Response) {
	r.recycle()
	responsePool.Put(r)
}

// recycle makes a response fit for a pool.
func (r *Response) recycle() {
	r.KeepBodyBuffer = false
	r.Reset()
	r.Header.shrink(maxPooledBytes, maxPooledFields)
}
