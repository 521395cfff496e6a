package sluice

import (
	"sync"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/transfer"
)

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
	s := &x.stream
	s.Request, s.Content, s.Source, s.Context = nil, nil, nil, nil
	s.Length, s.HasTrailer, s.IsHead = 0, false, false
	x.c, x.member, x.req, x.resp, x.content, x.late = nil, nil, nil, nil, nil, nil
	x.framing, x.source = message.Framing{}, transfer.Source{}
	x.form, x.unwanted = noFinalHead, 0
	x.trailers.Reset()
	http2CallPool.Put(x)
}
