package sluice

import "sync"

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
	r.Header.m.Shrink(maxPooledBytes, maxPooledFields)
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
	r.Header.m.Shrink(maxPooledBytes, maxPooledFields)
}
