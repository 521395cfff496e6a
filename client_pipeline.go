package sluice

import (
	"bytes"
	"context"
	"crypto/tls"
	"sync"
	"time"
)

// A PipelineClient sends requests to one host without waiting for the answers
// to earlier requests (RFC 9112 section 9.3.2). Concurrent requests share a
// connection and are written together. The answers come in the order of the
// requests, so a slow answer delays the answers after it. Use it for many small
// requests to a server that answers fast, and HostClient for all others. The
// zero value with an Addr is ready to use. A PipelineClient must not be copied,
// and its fields must not be changed while it is used.
//
// Its methods may be called concurrently. When a method returns, with or
// without an error, the caller owns its Request and Response again, and the
// client retains no reference to them. Request body streams are read into
// memory before the request is queued. Response bodies are read to their ends
// before the call returns. Response.StreamBody then returns a stream of the
// body in memory.
//
// When a connection fails, requests that were not sent on it are sent on
// another connection. Requests that were sent and not answered are sent again
// if they are idempotent (RFC 9110 section 9.2.2) or have an Idempotency-Key,
// and if the server has answered anything on the connection. A request is sent
// at most DefaultMaxIdemponentCallAttempts times. Hooks of WithClientTrace are
// not called.
type PipelineClient struct {
	noCopy noCopy

	// Addr is the host's address, "host:port", or several addresses separated by
	// commas; new connections go to them in turn. The default port is 443 with
	// IsTLS, otherwise 80. With Dial, the address is passed verbatim.
	Addr string

	// Name is the User-Agent of requests without one; "" is "sluice".
	Name string

	// NoDefaultUserAgentHeader omits the default User-Agent if Name is "".
	NoDefaultUserAgentHeader bool

	// MaxConns is the maximum number of connections; 0 is 1. A request goes to
	// the connection with the fewest pending requests. Another connection is
	// opened when all have pending requests.
	MaxConns int

	// MaxPendingRequests limits, for each connection, the requests in the queue,
	// and separately the requests that were sent and not answered; 0 is
	// DefaultMaxPendingRequests. A request whose call was given up counts until
	// its answer has come.
	MaxPendingRequests int

	// MaxBatchDelay is how long a request waits for others, to be written
	// together. 0: it does not wait, and is written together with the requests
	// that are queued at that time.
	MaxBatchDelay time.Duration

	// Dial opens connections; nil dials TCP, see DialDualStack. With IsTLS, the
	// client adds TLS to the connection unless it is a *tls.Conn already.
	Dial DialFunc

	// DialDualStack dials IPv6 and IPv4 addresses (RFC 8305). false dials IPv4
	// addresses only: a host without one fails with *net.AddrError. The field has
	// no effect on Dial.
	DialDualStack bool

	// DisableHeaderNamesNormalizing sends field names as they were set, and keeps
	// received field names unchanged.
	DisableHeaderNamesNormalizing bool

	// DisablePathNormalizing sends paths as they were set, including "//" and dot
	// segments.
	DisablePathNormalizing bool

	// IsTLS makes the connections use TLS.
	IsTLS bool

	// TLSConfig is the TLS configuration for IsTLS; nil is the default
	// configuration. If ServerName is empty, the client sets it to the host that
	// it dials.
	TLSConfig *tls.Config

	// MaxIdleConnDuration is how long an unused connection is kept. It is also
	// how long a connection is kept that gives no answer while the call of the
	// oldest unanswered request was given up. 0 is DefaultMaxIdleConnDuration.
	// The actual time may be up to 25 % longer.
	MaxIdleConnDuration time.Duration

	// ReadBufferSize is the size of a connection's read buffer in bytes, and the
	// limit of a response's head. 0 is a buffer of 16 KiB and a limit of 64 KiB.
	ReadBufferSize int

	// WriteBufferSize is the number of bytes after which no further request is
	// added to a write, so that only the last request of a write may exceed it. 0
	// is 32 KiB.
	WriteBufferSize int

	// ReadTimeout limits the time to wait for and read a response. It starts when
	// the request is written or when the previous response was read. When it
	// expires, the connection is closed, and all requests that were sent on it
	// fail with ErrTimeout. 0 is no limit.
	ReadTimeout time.Duration

	// WriteTimeout limits the time of one write, which may contain several
	// requests; see ReadTimeout. With TLS, it also limits, separately, the time
	// of dialing and handshake together. 0 is no limit. A TLS handshake never
	// takes longer than 30 s.
	WriteTimeout time.Duration

	// Logger logs why connections fail; nil logs nothing. Calls return their own
	// errors in any case.
	Logger Logger

	// MaxResponseBodySize limits response bodies in bytes; a longer body is
	// ErrBodyTooLarge. It also limits the decoded size that
	// Response.BodyUncompressed and similar methods return. 0 is no limit.
	MaxResponseBodySize int

	once  sync.Once
	host  HostClient // dials, and holds the settings that requests need
	works pipelineWorkPool
	lanes []pipelineLane
}

// prepare initializes host and lanes from the exported fields.
func (c *PipelineClient) prepare() {
	h := &c.host
	h.Addr, h.IsTLS, h.TLSConfig = c.Addr, c.IsTLS, c.TLSConfig
	h.Dial, h.DialDualStack = c.Dial, c.DialDualStack
	h.Name, h.NoDefaultUserAgentHeader = c.Name, c.NoDefaultUserAgentHeader
	h.DisableHeaderNamesNormalizing, h.DisablePathNormalizing = c.DisableHeaderNamesNormalizing, c.DisablePathNormalizing
	h.MaxIdleConnDuration, h.ReadBufferSize, h.WriteTimeout = c.MaxIdleConnDuration, c.ReadBufferSize, c.WriteTimeout
	c.lanes = make([]pipelineLane, sizeOr(c.MaxConns, 1))
	for i := range c.lanes {
		lane := &c.lanes[i]
		lane.c, lane.wake, lane.room = c, make(chan struct{}, 1), make(chan struct{}, 1)
		lane.limit = int64(sizeOr(c.MaxPendingRequests, DefaultMaxPendingRequests))
	}
}

// Do sends req and reads the response into resp, which may be nil. Addr alone
// determines where it is sent. The request's own timeout (Request.SetTimeout)
// limits the call.
//
// If the queue is full, a call with a time limit or a context waits for room. A
// call without either displaces the oldest request that was not sent, whose
// call returns ErrPipelineOverflow.
//
// Do returns ErrTimeout if the time ran out, ErrConnectionClosed, which is also
// io.EOF, if the server closed the connection without a response, and
// *ErrDialWithUpstream if it could not connect. Other errors describe what is
// wrong with the request or the response.
func (c *PipelineClient) Do(req *Request, resp *Response) error {
	c.once.Do(c.prepare)
	call := &req.call
	if req.timeout > 0 {
		defer call.restore(call.allow(req.timeout))
	}
	w, err := c.encode(req, resp)
	if err != nil {
		return err
	}
	lane := c.choose()
	if err := lane.submit(w, call); err != nil {
		w.err = err
	} else if err := lane.await(w, call); err != nil {
		return err // the lane owns w now
	}
	err = w.err
	w.deliver(resp)
	c.works.release(w)
	return err
}

// DoTimeout is Do with a time limit. After timeout, it gives the request up and
// returns ErrTimeout.
func (c *PipelineClient) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return doTimeout(c, req, resp, timeout)
}

// DoDeadline is Do with a deadline. At deadline, it gives the request up and
// returns ErrTimeout. If the request is still in the queue, it is not sent;
// otherwise its answer is dropped.
func (c *PipelineClient) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return doDeadline(c, req, resp, deadline)
}

// DoContext is Do with a context. When ctx ends, it gives the request up as
// DoDeadline does and returns a *PhaseError. With PhaseWait or PhaseDial,
// nothing of the request was sent.
func (c *PipelineClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	return doContext(ctx, c, req, resp)
}

// PendingRequests returns the number of requests that are queued or not
// answered, including those whose calls were given up.
func (c *PipelineClient) PendingRequests() (n int) {
	c.once.Do(c.prepare)
	for i := range c.lanes {
		n += int(c.lanes[i].pending())
	}
	return n
}

// CloseIdleConnections closes the connections without pending requests. The
// PipelineClient remains usable.
func (c *PipelineClient) CloseIdleConnections() {
	c.once.Do(c.prepare)
	for i := range c.lanes {
		c.lanes[i].closeIdle()
	}
}

// choose returns the lane for the next request: the one with the least load.
func (c *PipelineClient) choose() *pipelineLane {
	best := &c.lanes[0]
	if len(c.lanes) == 1 {
		return best
	}
	least := best.load()
	for i := 1; i < len(c.lanes) && least > 0; i++ {
		if load := c.lanes[i].load(); load < least {
			best, least = &c.lanes[i], load
		}
	}
	return best
}

// encode writes the request into the memory of a work, and empties resp.
func (c *PipelineClient) encode(req *Request, resp *Response) (*pipelineWork, error) {
	isHTTPS := req.URI().isHTTPS()
	switch {
	case req.uriError != nil:
		return nil, req.uriError
	case isHTTPS && !c.IsTLS:
		return nil, errPlainHTTPS
	}
	w := c.works.acquire()
	w.into = &w.resp
	if resp != nil && !req.call.isBound() && !resp.SkipBody && !resp.StreamBody {
		w.into = resp
	}
	prepareForClient(&c.host, req, w.into)
	w.isRepeatable, w.isHead, w.isTunnel = isRepeatable(req), req.Header.IsHead(), req.Header.IsConnect()
	w.closes = req.ConnectionClose() || w.isTunnel
	if resp != nil && w.into != resp {
		skips, streams := resp.SkipBody, resp.StreamBody
		resp.Reset()
		resp.SkipBody, resp.StreamBody = skips, streams
	}
	if w.err = w.write(req); w.err != nil {
		err := w.err
		w.deliver(resp)
		c.works.release(w)
		return nil, err
	}
	return w, nil
}

// A pipelineWork is a request in the client. The caller owns it until it is
// submitted, and again after it is answered; in between, its lane owns it.
type pipelineWork struct {
	next, prev *pipelineWork // neighbors in a list of the lane
	state      workState     // guarded by the lane's lock
	done       chan struct{} // gets a token when the work is done, if its call still waits
	out        []byte        // the encoded request
	err        error
	at         int64 // offset of its first byte on the connection
	attempts   int   // connections that failed it

	isRepeatable bool
	isHead       bool
	isTunnel     bool // the method is CONNECT
	closes       bool // no request may follow it on the connection

	// into is where the answer is read to. It is the caller's Response if the
	// call cannot be given up, which saves a tenth of the time with a thousand
	// callers. Otherwise it is resp.
	into *Response
	resp Response
}

// workState says which part of the client has a pipelineWork.
type workState uint8

const (
	workQueued    workState = iota // in the queue; nothing of it was sent
	workSent                       // sent on the connection
	workAbandoned                  // sent on the connection, and its call was given up
	workDone                       // the caller's, with a token in done
)

// write appends the request to out.
func (w *pipelineWork) write(req *Request) error {
	if req.stream != nil {
		if err := req.bufferStream(); err != nil {
			return err
		}
	}
	if req.isShort() {
		out, err := req.appendWhole(w.out)
		w.out = out
		return err
	}
	bw := acquireClientWriter((*workWriter)(w), defaultClientBuffer)
	err := req.Write(bw)
	if err == nil {
		err = bw.Flush()
	}
	releaseClientWriter(bw)
	return err
}

// workWriter is an io.Writer that appends to a work's encoded request.
type workWriter pipelineWork

// Write implements io.Writer.
func (w *workWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// deliver moves the answer to resp. If there is an error, resp stays empty. The
// caller owns w.
func (w *pipelineWork) deliver(resp *Response) {
	switch {
	case resp == nil:
		return
	case w.err != nil:
		if w.into == resp {
			resp.Reset()
		}
		return
	case w.into == resp:
		resp.SkipBody = false // a HEAD request had set it
		return
	}
	resp.exchange(&w.resp)
	switch {
	case resp.SkipBody:
		resp.ResetBody()
	case resp.StreamBody:
		content := resp.SwapBody(nil)
		resp.setStream(bytes.NewReader(content), len(content))
	}
}

// exchange swaps the received content with other; the settings stay.
func (r *Response) exchange(other *Response) {
	a, b := &r.Header, &other.Header
	a.header, b.header = b.header, a.header
	a.statusCode, b.statusCode = b.statusCode, a.statusCode
	a.reasonAt, b.reasonAt = b.reasonAt, a.reasonAt
	a.reason, b.reason = b.reason, a.reason
	a.closesByLength = b.closesByLength
	r.body, other.body = other.body, r.body
	r.localAddr, r.remoteAddr = other.localAddr, other.remoteAddr
}
