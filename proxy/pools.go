package proxy

import (
	"sync"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
)

// exchangePool holds exchanges; see exchange for who owns one.
var exchangePool = sync.Pool{New: func() any { return newExchange() }}

func acquireExchange(p *Proxy, ctx *sluice.RequestCtx) *exchange {
	x := exchangePool.Get().(*exchange)
	x.proxy, x.ctx = p, ctx
	return x
}

// releaseExchange returns x to the pool. Nothing refers to it any more.
func releaseExchange(x *exchange) {
	x.req.Reset()
	x.resp.Reset()
	x.proxy, x.ctx = nil, nil
	x.pick = balance.Pick[*upstream]{}
	clear(x.tried)
	x.tried = x.tried[:0]
	x.key, x.cookie, x.head, x.isStreaming = 0, "", nil, false
	x.upload.body, x.upload.left, x.upload.err, x.upload.isOver = nil, 0, nil, false
	if x.isEnd {
		x.isEnd, x.done = false, make(chan struct{})
	}
	if len(x.ends) == 0 { // else somebody still waits for the end
		exchangePool.Put(x)
	}
}
