package sluice

import "sync"

// http1ExchangePool holds exchanges without a request. A connection owns its exchange until
// http1.Request.Release.
var http1ExchangePool = sync.Pool{New: func() any { return newHTTP1Exchange() }}
