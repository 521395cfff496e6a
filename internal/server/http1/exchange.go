package http1

import (
	"cmp"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// copyLimit is the size up to which a body is copied after its head. A larger
// body is not copied: one system call writes head and body.
const copyLimit = 4 << 10

// smallFileSize is the size up to which a part of a file is read and appended
// to its head. The engine sends a larger part. Saving one system call is
// worth as much as copying that many bytes twice (BenchmarkSendFile of
// internal/engine/epoll).
const smallFileSize = 16 << 10

// An Exchange is one request and its response: the server.Exchange of HTTP/1.1. It has the
// state of the wire; what the request and the response mean is the Request's. The
// connection owns it while it has a request, and uses it for one request after another.
type Exchange struct {
	request        server.Request // stays when x is used for another connection
	requestHeader  *message.RequestHeader
	responseHeader *message.ResponseHeader
	start          int64 // Nanos at the first byte of the request

	conn *Conn
	cfg  *Config // of conn

	parser   h1.HeadParser
	opening  h1.Opening // of parser; stays when x is used for another connection
	chunks   h1.Chunked
	trailer  field.Table
	bodyLeft int64 // bytes of the body that were not yet received; -1: the rest of a chunked one
	kept     int   // bytes of a chunked body that the Request has
	drained  int64 // bytes of the body that were discarded
	failure  error // why the request is refused
	failedIn phase // when that was found

	out      []byte // responses collected and not yet written; owned by the engine
	earlier  int    // bytes at the start of out that were there before this Run: whole answers, which the Meter counts already
	vector   [2][]byte
	buffers  net.Buffers
	blocking atomic.Pointer[engine.BlockingConn] // of this Run; nil: arm was not called

	hasWaited bool // for input, in the middle of a request
	rests     uint8
	progress  progress
	marks
}

// A progress is how far an Exchange has come with its request.
type progress uint8

const (
	rested progress = iota // there is none; rest was called since the last one
	begun
	ended
)

// marks are facts about one request. They are cleared together.
type marks struct {
	input               inputState
	output              outputState
	sequel              sequel
	isHTTP10            bool
	isPieced            bool // the request did not arrive at once
	hasUsedConn         bool // RequestCtx.Conn was called
	writeTimeoutChanged bool
}

// An inputState is who has the request's body.
type inputState uint8

const (
	inputKept     inputState = iota // the Request, or there is none
	inputStreamed                   // the handler reads it, and may have left some
	inputCut                        // neither: takeBack was called before its end
)

// An outputState is what SendData appends to.
type outputState uint8

const (
	outputPlain   outputState = iota // the head, or content that is delimited by its length
	outputChunked                    // chunks
	outputFile                       // nothing: the engine sends a file after out
)

// A sequel is what follows the response.
type sequel uint8

const (
	sequelRequest sequel = iota // another request
	sequelHijack                // a hijack handler gets the connection
	sequelClose                 // the connection ends
)

var _ server.Exchange = (*Exchange)(nil)

// use makes r the Request of x.
func (x *Exchange) use(r server.Request) {
	x.request = r
	x.requestHeader, x.responseHeader = r.Headers()
}

// attach makes x serve requests on c.
func (x *Exchange) attach(c *Conn) {
	x.conn, x.cfg = c, c.cfg
	x.parser.Limits, x.parser.Opening = c.cfg.Limits, &x.opening
	x.trailer.KeepNames = true // the header, which gets the fields, knows how it spells names
}

// release returns x to the pool, after endRequest.
func (x *Exchange) release() {
	hasWaited := x.hasWaited
	if hasWaited {
		buf.LetGo(x.trailer.HeldBytes())
	}
	x.conn, x.hasWaited, x.progress = nil, false, rested
	x.shrink()
	x.request.Release(hasWaited)
	exchangePool.Put(x)
}

// After each request with a large head, and one in shrinkEvery of the others, memory that is
// not needed any more is looked for, which costs 2 % of a small request. So what a handler
// has needed for long fields is kept for a few more requests, or until release.
const (
	shrinkEvery = 16
	largeHead   = 4 << 10
)

// shrink releases the memory that one large trailer section needed.
func (x *Exchange) shrink() {
	const maxBytes, maxFields = 64 << 10, 256
	x.trailer.Shrink(maxBytes, maxFields)
}

// continueLine asks the client to send the body that it announced with "Expect:
// 100-continue".
const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

// SendInterim implements server.Exchange.
func (x *Exchange) SendInterim(h *message.ResponseHeader) bool {
	if h == nil {
		x.out = append(x.out, continueLine...)
	} else {
		x.out = h.AppendHead(x.out, message.Interim())
	}
	return x.Flush()
}

// SendHead implements server.Exchange. It decides how the content is delimited and
// whether the connection ends with the response.
func (x *Exchange) SendHead(f *message.ResponseForm, p []byte, isLast bool) bool {
	h := x.responseHeader
	head := f.Framing()
	isOld := x.isHTTP10 || h.IsHTTP10
	if isOld && head.Length == -1 { // the end of the connection ends the content (RFC 9112 section 6.3)
		head.Length = -2
		x.sequel = sequelClose
	}
	if x.sequel == sequelClose || !x.persists(f) {
		x.sequel = sequelClose
		head.CloseConnection = true
	} else {
		head.KeepAlive = isOld
	}
	if b := x.blocking.Load(); b != nil && f.Next != message.UseHijack {
		b.EndWrites() // they would be in the middle of the response
	}
	out := h.AppendHead(x.out, head)
	if f.IsShown {
		h.Show(head)
	}
	isChunked := head.Length == -1 && f.HasContent
	if !isChunked && len(p) <= copyLimit { // writeBody, with one store
		x.out = append(out, p...)
		return true
	}
	x.out = out
	if isChunked {
		x.output = outputChunked
	}
	return x.SendData(p, isLast)
}

// SendData implements server.Exchange.
func (x *Exchange) SendData(p []byte, isLast bool) bool {
	if x.output != outputChunked {
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
		x.out = x.responseHeader.AppendTrailers(x.out)
	}
	return true
}

// writeBody appends a small part of a body to the collected bytes. It writes a
// large one after them without copying it.
func (x *Exchange) writeBody(p []byte) bool {
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

// Flush implements server.Exchange.
func (x *Exchange) Flush() bool {
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
func (x *Exchange) wrote(err error) bool {
	if err == nil {
		return true
	}
	x.conn.host.Fail(err)
	if x.cfg.LogsAll {
		x.conn.host.Log(x.conn.conn, err)
	}
	return false
}

// SendFile implements server.Exchange. It appends a small part to the collected bytes.
// The engine owns any other part from now on and sends it after Run; nothing may
// be written in this Run after it.
func (x *Exchange) SendFile(part engine.File) error {
	if part.Size <= smallFileSize {
		return x.readFile(part)
	}
	server.Add(x.cfg.Meter.BytesWritten, part.Size) // after the bytes that Run returns
	x.output = outputFile
	x.conn.conn.SendFile(part)
	return nil
}

// readFile appends a part of a file to the collected bytes, and closes it. If the file is too short, the client receives the bytes that exist.
func (x *Exchange) readFile(part engine.File) error {
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

// Arm implements server.Exchange.
func (x *Exchange) Arm() {
	if x.blocking.Load() == nil {
		b, _ := x.conn.conn.Blocking().(*engine.BlockingConn)
		x.blocking.Store(b)
	}
}

// InterruptRead implements server.Exchange. The engine then closes the connection after
// the Run.
func (x *Exchange) InterruptRead() {
	if b := x.blocking.Load(); b != nil {
		_ = b.Close()
	}
	x.sequel = sequelClose
}

// InterruptWrite implements server.Exchange.
func (x *Exchange) InterruptWrite() {
	if b := x.blocking.Load(); b != nil {
		b.BreakWrite()
	}
}

// HasTarget implements server.Exchange.
func (x *Exchange) HasTarget() bool { return x.conn.conn.Target() != engine.Target{} }

// Peer returns what may send for the handler, nil: nothing, and RemoteAddr without memory for it,
// which is valid only if the connection can tell.
func (x *Exchange) Peer() (holder engine.Holder, client netip.AddrPort) {
	if c, ok := x.conn.conn.(interface {
		Peer() (engine.Holder, netip.AddrPort)
	}); ok {
		return c.Peer()
	}
	return nil, client
}

// OnPeerGone implements server.Exchange.
func (x *Exchange) OnPeerGone(f func()) { x.conn.conn.OnPeerGone(f) }

// SetReadDeadline implements server.Exchange.
func (x *Exchange) SetReadDeadline(now int64, timeout time.Duration) {
	x.conn.conn.SetReadDeadline(now, timeout)
}

// SetWriteTimeout implements server.Exchange.
func (x *Exchange) SetWriteTimeout(timeout time.Duration) {
	x.conn.conn.SetWriteTimeout(timeout)
	x.writeTimeoutChanged = true
}

// LocalAddr implements server.Exchange.
func (x *Exchange) LocalAddr() net.Addr { return x.conn.conn.LocalAddr() }

// RemoteAddr implements server.Exchange.
func (x *Exchange) RemoteAddr() net.Addr { return x.conn.conn.RemoteAddr() }

// NetConn implements server.Exchange.
func (x *Exchange) NetConn() net.Conn { return x.conn.netConnection() }

// UserConn implements server.Exchange.
func (x *Exchange) UserConn() net.Conn {
	x.Flush() // responses to earlier requests; if it fails, writes fail too
	x.hasUsedConn = true
	return x.conn.conn.Blocking()
}
