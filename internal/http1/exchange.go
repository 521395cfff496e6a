package sluice

import (
	"cmp"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/message"
)

// copyLimit is the size up to which a body is copied after its head. A larger
// body is not copied: one system call writes head and body.
const copyLimit = 4 << 10

// smallFileSize is the size up to which a part of a file is read and appended
// to its head. A larger part is left to the engine. Saving one system call is
// worth as much as copying that many bytes twice (BenchmarkSendFile of
// internal/engine/epoll).
const smallFileSize = 16 << 10

// http1Exchange is one request and its response in HTTP/1.1. It has the state of
// the wire; what the request and the response mean is in ctx. The connection
// owns it while it has a request, and uses it for one request after another.
type http1Exchange struct {
	ctx  *RequestCtx // replaced when it is given up
	conn *http1Conn

	parser   h1.HeadParser
	opening  h1.Opening // of parser; stays when x is used for another connection
	chunks   h1.Chunked
	trailer  field.Table
	bodyLeft int64 // of a body with Content-Length: not yet received; -1: chunked
	drained  int64 // bytes of the body that were discarded
	failure  error // why the request is refused

	out      []byte // responses collected and not yet written; owned by the engine
	counted  int    // bytes at the start of out that the Meter already counts
	vector   [2][]byte
	buffers  net.Buffers
	blocking atomic.Pointer[engine.BlockingConn] // of this Run; nil: arm was not called

	hasWaited bool // for input, in the middle of a request
	http1Marks
}

// http1Marks are facts about one request. They are cleared together.
type http1Marks struct {
	trailerIsRead       bool // of a chunked request
	isPieced            bool // the request did not arrive at once
	isChunked           bool // content of the response is sent in chunks
	closes              bool // the connection ends with this response
	sendsFile           bool // the engine sends a file after out
	hasUsedConn         bool // RequestCtx.Conn was called
	writeTimeoutChanged bool
}

var _ serverExchange = (*http1Exchange)(nil)

// newHTTP1Exchange returns an exchange and its RequestCtx, which refer to each
// other.
func newHTTP1Exchange() *http1Exchange {
	x := &http1Exchange{ctx: new(RequestCtx)}
	x.ctx.exchange = x
	x.parser.Opening = &x.opening
	x.trailer.KeepNames = true // the header, which gets the fields, knows how it spells names
	return x
}

// acquireHTTP1Exchange takes an exchange for requests on c.
func acquireHTTP1Exchange(c *http1Conn) *http1Exchange {
	x := http1ExchangePool.Get().(*http1Exchange)
	x.conn = c
	x.parser.Limits = c.cfg.limits
	x.ctx.attach(c.server, c.cfg, c.facts)
	return x
}

// releaseHTTP1Exchange gives x back, after endRequest.
func releaseHTTP1Exchange(x *http1Exchange) {
	x.conn = nil
	if x.hasWaited {
		x.hasWaited = false
		buf.LetGo(x.ctx.heldBytes() + x.trailer.HeldBytes())
	}
	x.shrink()
	x.ctx.detach()
	http1ExchangePool.Put(x)
}

// mayRest prepares x, after endRequest, to stay with a connection that sleeps. It
// returns false if x must be released instead.
func (x *http1Exchange) mayRest() bool {
	if x.hasWaited || x.conn.cfg.single != nil { // whose configuration has the same address as the next one's
		return false
	}
	x.shrink()
	return true
}

// shrink releases the memory that one large request needed.
func (x *http1Exchange) shrink() {
	x.ctx.shrink()
	x.trailer.Shrink(maxPooledBytes, maxPooledFields)
}

// continueLine asks the client to send the body that it announced with "Expect:
// 100-continue".
const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

// SendInterim implements serverExchange.
func (x *http1Exchange) SendInterim(status int, links [][]byte) bool {
	if status == StatusContinue {
		x.out = append(x.out, continueLine...)
		return x.Flush()
	}
	x.out = append(x.out, "HTTP/1.1 103 Early Hints\r\n"...)
	for _, link := range links {
		x.out = h1.AppendField(x.out, []byte(HeaderLink), h1.AppendFieldValue(nil, link))
	}
	x.out = append(x.out, "\r\n"...)
	return x.Flush()
}

// SendHead implements serverExchange. It decides how the content is delimited and
// whether the connection ends with the response.
func (x *http1Exchange) SendHead(f *message.ResponseForm, p []byte, isLast bool) bool {
	ctx := x.ctx
	h := &ctx.Response.Header
	head := f.Framing()
	isOld := ctx.isHTTP10 || h.m.IsHTTP10
	if head.Length == -1 && isOld { // the end of the connection ends the content (RFC 9112 section 6.3)
		head.Length = -2
		x.closes = true
	}
	x.closes = x.closes || !x.persists(f)
	head.CloseConnection, head.KeepAlive = x.closes, isOld && !x.closes
	out := h.m.AppendHead(x.out, head)
	if f.IsShown {
		h.m.Show(head)
	}
	isChunked := head.Length == -1 && f.HasContent
	if !isChunked && len(p) <= copyLimit { // writeBody, with one store
		x.out = append(out, p...)
		return true
	}
	x.out, x.isChunked = out, isChunked
	return x.SendData(p, isLast)
}

// SendData implements serverExchange.
func (x *http1Exchange) SendData(p []byte, isLast bool) bool {
	if !x.isChunked {
		return x.writeBody(p)
	}
	if len(p) > 0 {
		x.out = h1.AppendChunkHead(x.out, len(p))
		if !x.writeBody(p) {
			return false
		}
		x.out = append(x.out, "\r\n"...)
	}
	if isLast {
		x.out = append(x.out, h1.LastChunk...)
		x.out = x.ctx.Response.Header.m.AppendTrailers(x.out)
	}
	return true
}

// writeBody appends a small part of a body to the collected bytes. It writes a
// large one after them without copying it.
func (x *http1Exchange) writeBody(p []byte) bool {
	if len(p) <= copyLimit {
		x.out = append(x.out, p...)
		return true
	}
	x.vector[0], x.vector[1] = x.out, p
	x.buffers = x.vector[:]
	n, err := x.conn.conn.WriteBuffers(&x.buffers)
	x.countWritten(int(n))
	x.vector[0], x.vector[1] = nil, nil
	x.out = x.out[:0]
	return x.wrote(err)
}

// Flush implements serverExchange.
func (x *http1Exchange) Flush() bool {
	if len(x.out) == 0 {
		return true
	}
	n, err := x.conn.conn.Write(x.out)
	x.countWritten(n)
	x.out = x.out[:0]
	return x.wrote(err)
}

// wrote reports whether a write succeeded. It stores and logs the error,
// because the engine does not receive it.
func (x *http1Exchange) wrote(err error) bool {
	if err == nil {
		return true
	}
	x.conn.cfg.fail(err)
	if x.conn.cfg.logsAllErrors {
		x.conn.logError(err)
	}
	return false
}

// SendFile implements serverExchange. It appends a small part to the collected bytes.
// The engine owns any other part from now on and sends it after Run; nothing may
// be written in this Run after it.
func (x *http1Exchange) SendFile(part engine.File) error {
	if part.Size <= smallFileSize {
		return x.readFile(part)
	}
	x.countFile(part.Size)
	x.sendsFile = true
	x.conn.conn.SendFile(part)
	return nil
}

// readFile appends a part of a file to the collected bytes, and closes it. If the file is too short, the client receives the bytes that exist.
func (x *http1Exchange) readFile(part engine.File) error {
	head := len(x.out)
	x.out = slices.Grow(x.out, int(part.Size))
	body := x.out[head : head+int(part.Size)]
	n, err := part.Source.ReadAt(body, part.Offset)
	x.out = x.out[:head+n]
	if n == len(body) {
		err = nil
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err = cmp.Or(err, part.Done.Close()); err != nil {
		x.Flush()
	}
	return err
}

// Arm implements serverExchange.
func (x *http1Exchange) Arm() {
	if x.blocking.Load() == nil {
		b, _ := x.conn.conn.Blocking().(*engine.BlockingConn)
		x.blocking.Store(b)
	}
}

// InterruptRead implements serverExchange. The engine then closes the connection after
// the Run.
func (x *http1Exchange) InterruptRead() {
	if b := x.blocking.Load(); b != nil {
		_ = b.Close()
	}
	x.closes = true
}

// InterruptWrite implements serverExchange.
func (x *http1Exchange) InterruptWrite() {
	if b := x.blocking.Load(); b != nil {
		b.BreakWrite()
	}
}

// OnPeerGone implements serverExchange.
func (x *http1Exchange) OnPeerGone(f func()) { x.conn.conn.OnPeerGone(f) }

// SetReadDeadline implements serverExchange.
func (x *http1Exchange) SetReadDeadline(now int64, timeout time.Duration) {
	x.conn.conn.SetReadDeadline(now, timeout)
}

// SetWriteTimeout implements serverExchange.
func (x *http1Exchange) SetWriteTimeout(timeout time.Duration) {
	x.conn.conn.SetWriteTimeout(timeout)
	x.writeTimeoutChanged = true
}

// LocalAddr implements serverExchange.
func (x *http1Exchange) LocalAddr() net.Addr { return x.conn.conn.LocalAddr() }

// RemoteAddr implements serverExchange.
func (x *http1Exchange) RemoteAddr() net.Addr { return x.conn.conn.RemoteAddr() }

// NetConn implements serverExchange.
func (x *http1Exchange) NetConn() net.Conn { return x.conn.netConnection() }

// UserConn implements serverExchange.
func (x *http1Exchange) UserConn() net.Conn {
	x.Flush() // responses to earlier requests; if it fails, writes fail too
	x.hasUsedConn = true
	return x.conn.conn.Blocking()
}
