package proxy

import (
	"bufio"
	"io"
	"sync"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
)

// blockPool holds blocks. The exchange or the tunnel that has taken one owns it.
var blockPool = sync.Pool{New: func() any { return new([blockSize]byte) }}

// spliceSessions holds sessions without a connection. The engine owns a session from open, Unpack
// or Wake until Closed or Sleep.
var spliceSessions = sync.Pool{New: func() any {
	x := new(spliceSession)
	x.miss = func(int) { x.isMissed = true }
	return x
}}

func acquireSpliceSession(s *splice, at side, c engine.Conn) *spliceSession {
	x := spliceSessions.Get().(*spliceSession)
	x.owned.Acquired()
	x.splice, x.side, x.conn = s, at, c
	return x
}

// releaseSpliceSession gives x back after its last call.
func releaseSpliceSession(x *spliceSession) {
	x.owned.Released("splice session")
	x.splice, x.conn = nil, nil
	spliceSessions.Put(x)
}

// readerPool holds readers of blockSize, which most proxies use. A call of exchangeOn owns one.
var readerPool = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, blockSize) }}

func acquireReader(r io.Reader, size int) *bufio.Reader {
	if size != blockSize {
		return bufio.NewReaderSize(r, size)
	}
	reader := readerPool.Get().(*bufio.Reader)
	reader.Reset(r)
	return reader
}

// releaseReader gives reader back. What it holds is lost.
func releaseReader(reader *bufio.Reader) {
	if reader.Size() == blockSize {
		reader.Reset(nil)
		readerPool.Put(reader)
	}
}

// takeBlock returns x's block.
func (x *exchange) takeBlock() *[blockSize]byte {
	if x.block == nil {
		x.block = blockPool.Get().(*[blockSize]byte)
	}
	return x.block
}

// releaseBlock returns x's block, if it has one, to the pool.
func (x *exchange) releaseBlock() {
	if x.block != nil {
		blockPool.Put(x.block)
		x.block, x.head = nil, nil
	}
}

// acquireExchange returns the exchange that ctx keeps, or a new one; see exchange for who owns it.
func acquireExchange(p *Proxy, ctx *sluice.RequestCtx) *exchange {
	taker := upgrade.TakerOf(ctx)
	kept := taker.Kept()
	x, ok := (*kept).(*exchange)
	if !ok || x.ctx != ctx { // a copy by assignment leaves it to the other one
		x = newExchange()
		x.ctx, x.taker = ctx, taker
		x.received, x.sent = taker.RequestHead(&ctx.Request.Header), taker.RequestHead(&x.req.Header)
		x.answered = taker.ResponseHead(&ctx.Response.Header)
	}
	*kept, x.proxy = nil, p
	return x
}

// HeldBytes estimates the memory of x, which is kept. The root package calls it.
func (x *exchange) HeldBytes() int {
	const own = 4 << 10
	return own + x.sent.Table.HeldBytes() + x.taker.ResponseHead(&x.room.Header).Table.HeldBytes() + x.forwarded.HeldBytes() + cap(x.scratch)
}

// releaseExchange has ctx keep x, if nothing refers to it any more: a context that has
// ended is never used again, since those who wait for its end may still ask for the reason.
func releaseExchange(x *exchange) {
	if x.isSpent() {
		return
	}
	*x.taker.Kept() = x
	x.req.Reset()
	x.resp = &x.room
	x.resp.ResetBody() // the next use empties its head
	x.proxy, x.holder = nil, nil
	x.pick = balance.Pick[*upstream]{}
	x.tried = x.tried[:0] // it refers to upstreams until the next request
	x.key, x.cookie, x.head, x.isStreaming = 0, "", nil, false
	x.upload.body, x.upload.left, x.upload.err, x.upload.isOver = nil, 0, nil, false
}
