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

// RequestCtx holds one request, its response, and the connection that carries
// them. It implements context.Context: Done is closed when the client
// disconnects, when the request ends, and when the server shuts down.
//
// The server owns every RequestCtx that it passes to a handler, and reuses it
// after the handler has returned; see RequestHandler. To test a handler without
// a server, use a zero RequestCtx or one after Init.
type RequestCtx struct {
	noCopy noCopy

	// Request is the client's request.
	Request Request
	// Response is sent after the handler has returned.
	Response Response

	server *Server
	conn   *serverConn
	parser h1.HeadParser
	chunks h1.Chunked

	out     []byte // responses collected and not yet written; owned by the engine
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
	timeoutResponse atomic.Pointer[Response] // set by TimeoutError; nil: none
	done            atomic.Pointer[doneState]
	content         contentStream // the body stream for files in memory
	remoteAddr      net.Addr      // of SetRemoteAddr and Init
	ownLogger       Logger        // of Init
	netConn         net.Conn      // of Init2

	wire      ctxWire
	flushed   bodyFraming
	letsGo    bool // a handler that timed out calls letGo when it returns
	hasWaited bool // for input, in the middle of a request
	requestMarks
}

// requestMarks records what has happened to a request. The fields are cleared
// together.
type requestMarks struct {
	hasFlushed          bool
	flushSendsBody      bool
	hasUsedConn         bool // Conn was called
	headIsComplete      bool
	isHead              bool
	trailerIsRead       bool
	hijackNoResponse    bool
	writeTimeoutChanged bool
	sendsFile           bool // the engine sends a file after the collected bytes
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

// heldBytes estimates the memory that ctx holds while it is attached to a
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

// detach gives ctx up to goroutines that outlive its request and still reach
// the connection through it. It returns the bytes collected for the connection.
// isTorn says that part of a response was sent, so that no other one can
// follow.
func (ctx *RequestCtx) detach() (out []byte, isTorn bool) {
	isTorn = ctx.wire.sever()
	defer ctx.wire.Unlock()
	ctx.conn.netConnection() // ctx still reports its addresses after the connection's end
	ctx.conn.isShared = true
	ctx.conn.cfg.retain()
	if d := ctx.done.Load(); d != nil {
		d.end()
	}
	out, ctx.out = ctx.out, nil
	return out, isTorn || ctx.hasFlushed
}

// revoke invalidates the connection that RequestCtx.Conn has returned. It
// reports whether the handler has written to it.
func (c *serverConn) revoke() (hasWritten bool) {
	conn := c.conn.Blocking()
	_ = conn.Close() // then the engine closes the connection: the handler may have read past the request
	b, ok := conn.(*engine.BlockingConn)
	return ok && b.HasWritten()
}

// letGo releases what ends with a request, on a ctx that other goroutines still
// use as a context. The user values stay, because they may still be read.
func (ctx *RequestCtx) letGo() {
	ctx.Request.ResetBody()
	ctx.Response.ResetBody()
	ctx.VisitUserValuesAll(func(_, value any) {
		if c, ok := value.(io.Closer); ok {
			_ = c.Close() // there is no caller to return the error to
		}
	})
}

// Init prepares ctx for a handler outside a server. It copies req. remoteAddr
// and logger may be nil.
func (ctx *RequestCtx) Init(req *Request, remoteAddr net.Addr, logger Logger) {
	ctx.initialize(remoteAddr, logger)
	if req != nil {
		req.CopyTo(&ctx.Request)
	}
}

// Init2 prepares ctx for a handler outside a server. The methods of ctx report
// conn as the connection. reduceMemoryUsage has no effect.
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

// apply applies the limits that HeaderReceived returned.
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

// bodyRateGrace is how long a body may arrive more slowly than MinBodyRate.
const bodyRateGrace = 5 * time.Second

// bodyTimeout returns how long the rest of the body may take, counted from the
// start of the request. With a minimum rate, every byte that arrives extends
// it.
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

// Hijack makes handler take the connection over after the RequestHandler has
// returned and the response, if any, is written. The connection passed to
// handler first returns the bytes that the client sent after the request.
//
// handler is not called if the response could not be written. It is not called
// either if the request or the response closes the connection, unless
// HijackSetNoResponse(true) was called. Limits for further requests, such as
// DisableKeepalive, do not prevent the call; a Shutdown does with
// Server.CloseOnShutdown.
//
// The server forgets the connection, and Shutdown does not wait for it. If the
// handler did not read the request body, and it is too large to be discarded,
// the server closes the connection instead.
func (ctx *RequestCtx) Hijack(handler HijackHandler) { ctx.hijackHandler = handler }

// HijackSetNoResponse sets whether a hijacked connection is handed over without
// a response. If it is, the HijackHandler writes everything.
func (ctx *RequestCtx) HijackSetNoResponse(noResponse bool) { ctx.hijackNoResponse = noResponse }

// Hijacked tells whether Hijack was called.
func (ctx *RequestCtx) Hijacked() bool { return ctx.hijackHandler != nil }
