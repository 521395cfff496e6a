package sluice

import "sync"

// http2ExchangePool holds exchanges without a request. A stream owns its exchange until
// http2Request.End.
var http2ExchangePool = sync.Pool{New: func() any { return newHTTP2Exchange() }}
