package sluice

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
)

// RequestCtx is one request and its response, and the connection they travel
// on. It implements context.Context: Done is closed when the client goes away,
// when the request ends, and when the server shuts down.
//
// The server owns every RequestCtx that it hands to a handler and reuses it
// when the handler has returned; see RequestHandler. A zero RequestCtx, or one
// after Init, serves in tests of handlers.
type RequestCtx struct {
	noCopy noCopy

	// Request is what the client sent.
	Request Request
	// Response is what it will be answered, once the handler has returned.
	Response Response

	server *Server
	conn   *serverConn
	parser h1.HeadParser
	chunks h1.Chunked

	out     []byte // answers collected and not yet written; the engine's
	vector  [2][]byte
	buffers net.Buffers

	trailer       field.Table
	requestStream requestStream

	number      uint64 // of the request on its connection
	start       int64  // Nanos at the first byte of the request
	time        int64  // Nanos for Time; 0: not yet known
	bodyLeft    int64  // of a body with Content-Length: not yet received
	bodyHeld    int64  // received bytes of the body in memory
	maxBodySize int
	readTimeout time.Duration
	failure     error

	hijackHandler   HijackHandler
	timeoutResponse atomic.Pointer[Response] // of TimeoutError; nil: none
	done            atomic.Pointer[doneState]
	content         contentStream // the body stream for files in memory
	remoteAddr      net.Addr      // of SetRemoteAddr and Init
	ownLogger       Logger        // of Init
	netConn         net.Conn      // of Init2

	wire      ctxWire
	flushed   bodyFraming
	letsGo    bool // a handler that timed out will call letGo
	hasWaited bool // for input, with a part of a request
	requestMarks
}

// requestMarks are what has happened to a request. They are cleared together.
type requestMarks struct {
	hasFlushed          bool
	flushSendsBody      bool
	hasUsedConn         bool // Conn was called
	headIsComplete      bool
	isHead              bool
	trailerIsRead       bool
	hijackNoResponse    bool
	writeTimeoutChanged bool
	sendsFile           bool // the engine sends a file after what was collected
}

// acquireCtx takes a RequestCtx for a request on c.
func (s *Server) acquireCtx(c *serverConn) *RequestCtx {
	ctx, ok := ctxPool.Get().(*RequestCtx)
	if !ok {
		ctx = &RequestCtx{}
	}
	ctx.server = s
	ctx.conn = c
	ctx.parser.Limits = c.cfg.limits
	c.prepareMessages(ctx)
	return ctx
}

// releaseCtx gives ctx back, after reset.
func (s *Server) releaseCtx(ctx *RequestCtx) {
	ctx.server, ctx.conn = nil, nil
	if ctx.Request.Header.table.KeepNames {
		ctx.Request.Header.EnableNormalizing()
		ctx.Response.Header.EnableNormalizing()
	}
	if ctx.hasWaited {
		ctx.hasWaited = false
		buf.LetGo(ctx.heldBytes())
	}
	ctx.Request.shrink()
	ctx.Response.Header.shrink(maxPooledBytes, maxPooledFields)
	ctx.trailer.Shrink(maxPooledBytes, maxPooledFields)
	ctxPool.Put(ctx)
}

// heldBytes is about the memory that ctx has while it is attached to a
// connection.
func (ctx *RequestCtx) heldBytes() int {
	const own = 4 << 10
	return own + cap(ctx.Request.bytes) + cap(ctx.Response.bytes) +
		ctx.Request.Header.table.HeldBytes() + ctx.Response.Header.table.HeldBytes() + ctx.trailer.HeldBytes()
}

// reset makes ctx ready for the next request on the same connection.
func (ctx *RequestCtx) reset() {
	ctx.Request.resetForServer()
	ctx.Response.resetForServer()
	ctx.conn.prepareMessages(ctx)
	ctx.requestStream.reset()
	ctx.time, ctx.bodyLeft, ctx.bodyHeld = 0, 0, 0
	ctx.failure = nil
	ctx.hijackHandler = nil
	if ctx.timeoutResponse.Load() != nil {
		ctx.timeoutResponse.Store(nil)
	}
	ctx.remoteAddr = nil
	if ctx.wire.socket.Load() != nil {
		ctx.wire.socket.Store(nil)
	}
	ctx.requestMarks = requestMarks{}
}

// detach leaves ctx to goroutines that outlive its request, and that still know
// the connection by it. It returns what was collected for the connection, and
// whether a part of an answer was sent, after which no other answer can be sent.
func (ctx *RequestCtx) detach() (out []byte, isTorn bool) {
	isTorn = ctx.wire.sever()
	defer ctx.wire.Unlock()
	ctx.conn.netConnection() // for their questions after the connection's end
	ctx.conn.isShared = true
	ctx.conn.cfg.retain()
	if d := ctx.done.Load(); d != nil {
		d.end()
	}
	out, ctx.out = ctx.out, nil
	return out, isTorn || ctx.hasFlushed
}

// revoke ends the use of what RequestCtx.Conn has returned. It reports whether
// something was written to that.
func (c *serverConn) revoke() (hasWritten bool) {
	conn := c.conn.Blocking()
	_ = conn.Close() // the engine closes the connection, of which more may have been read than the request
	b, ok := conn.(*engine.BlockingConn)
	return ok && b.HasWritten()
}

// letGo ends what ends with a request, on a ctx that goes on as the context of
// others: they may still ask for its values, which therefore stay.
func (ctx *RequestCtx) letGo() {
	ctx.Request.ResetBody()
	ctx.Response.ResetBody()
	ctx.VisitUserValuesAll(func(_, value any) {
		if c, ok := value.(io.Closer); ok {
			_ = c.Close() // nobody is there to be told
		}
	})
}

// Init prepares ctx for a handler outside a server: req is copied, remoteAddr
// and logger may be nil.
func (ctx *RequestCtx) Init(req *Request, remoteAddr net.Addr, logger Logger) {
	ctx.initialize(remoteAddr, logger)
	if req != nil {
		req.CopyTo(&ctx.Request)
	}
}

// Init2 prepares ctx for a handler outside a server, with a connection that
// its methods report. reduceMemoryUsage is without effect.
func (ctx *RequestCtx) Init2(conn net.Conn, logger Logger, reduceMemoryUsage bool) {
	ctx.initialize(nil, logger)
	ctx.netConn = conn
}

func (ctx *RequestCtx) initialize(remoteAddr net.Addr, logger Logger) {
	ctx.Request.Reset()
	ctx.Response.Reset()
	ctx.ResetUserValues()
	ctx.remoteAddr = remoteAddr
	ctx.ownLogger = logger
	ctx.netConn = nil
	ctx.time = clock.Nanos()
	ctx.hijackHandler = nil
	ctx.timeoutResponse.Store(nil)
}

// apply takes over what HeaderReceived returned.
func (ctx *RequestCtx) apply(c *serverConn, r RequestConfig) {
	if r.MaxRequestBodySize > 0 {
		ctx.maxBodySize = r.MaxRequestBodySize
	}
	if r.ReadTimeout > 0 {
		ctx.readTimeout = r.ReadTimeout
	}
	if r.WriteTimeout > 0 {
		c.conn.SetWriteTimeout(r.WriteTimeout)
		ctx.writeTimeoutChanged = true
	}
}

// bodyRateGrace is how long a body may come slower than MinBodyRate.
const bodyRateGrace = 5 * time.Second

// bodyTimeout is how long, counted from the start of the request, the rest of
// the body may take. With a minimal rate every byte that arrives earns time.
func (ctx *RequestCtx) bodyTimeout(minRate int64) time.Duration {
	timeout := ctx.readTimeout
	if minRate > 0 {
		earned := bodyRateGrace + time.Duration(float64(ctx.bodyHeld)/float64(minRate)*float64(time.Second))
		if timeout == 0 || earned < timeout {
			timeout = earned
		}
	}
	return timeout
}

// announcesBody tells whether the head says that a body follows.
func (ctx *RequestCtx) announcesBody() bool {
	return ctx.parser.Has(h1.ChunkedBody) || ctx.parser.ContentLength > 0
}

// isHTTP10 tells whether the client speaks HTTP/1.0.
func (ctx *RequestCtx) isHTTP10() bool { return ctx.headIsComplete && ctx.parser.Minor == 0 }

// Hijack has handler take the connection over when the RequestHandler has
// returned and the response, if any, is written. The connection that handler
// gets returns first what the client sent behind the request.
//
// handler is not called where the request or the response close the connection,
// unless HijackSetNoResponse(true) was called, nor where the response could not
// be written. Limits for further requests, such as DisableKeepalive, do not
// count; a Shutdown does with Server.CloseOnShutdown.
//
// The server forgets the connection; Shutdown does not wait for it. A request
// body that the handler did not read, and that is too large to be discarded,
// closes the connection instead.
func (ctx *RequestCtx) Hijack(handler HijackHandler) { ctx.hijackHandler = handler }

// HijackSetNoResponse makes a hijacked connection go over without a response;
// the HijackHandler then writes everything.
func (ctx *RequestCtx) HijackSetNoResponse(noResponse bool) { ctx.hijackNoResponse = noResponse }

// Hijacked tells whether Hijack was called.
func (ctx *RequestCtx) Hijacked() bool { return ctx.hijackHandler != nil }
