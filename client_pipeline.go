package sluice

import (
	"bytes"
	"context"
	"crypto/tls"
	"sync"
	"time"
)

// A PipelineClient sends requests to one host without waiting for the answers to
// earlier ones: what is asked for at the same time shares a connection, and is
// written together. The answers come in the order of the requests, so that a
// slow one delays those behind it. It is for many small requests to a server
// that answers fast; use HostClient for others. The zero value with an Addr is
// ready to use. A PipelineClient must not be copied, and its fields must not be
// changed while it is used.
//
// Its methods may be called concurrently. When one returns, with or without an
// error, nothing uses its Request and Response any more: a request is put into
// the form in which it is sent before it is queued, and a response is read into
// one of the client's own. Request body streams are read into memory first, and
// response bodies are read to their ends before the call returns, also with
// Response.StreamBody, which makes a stream of what was read.
//
// When a connection fails, what was not sent on it is sent on another, and so is
// what was not answered if it is idempotent (RFC 9110 section 9.2.2) or has an
// Idempotency-Key, and the server has answered anything on the connection; at
// most DefaultMaxIdemponentCallAttempts times. Hooks of WithClientTrace are not
// called.
type PipelineClient struct {
	noCopy noCopy

	// Addr is the host's address, "host:port". A port that is missing follows
	// from IsTLS. As of HostClient, there may be several.
	Addr string

	// Name is the User-Agent of requests that have none; "" is "sluice".
	Name string

	// NoDefaultUserAgentHeader leaves User-Agent out of requests that have
	// none, if Name is "".
	NoDefaultUserAgentHeader bool

	// MaxConns bounds the connections; 0 is 1. A request goes to the connection
	// with the fewest pending ones. Another is made when all have some.
	MaxConns int

	// MaxPendingRequests bounds the requests that are queued for each
	// connection, and those that were sent on it and are not answered; 0 is
	// DefaultMaxPendingRequests. Answers to abandoned calls count
	// until they have come.
	MaxPendingRequests int

	// MaxBatchDelay is how long a request waits for others to be written with.
	// 0: it does not wait, and what is queued then is written together.
	MaxBatchDelay time.Duration

	// Dial opens connections; nil is Dial of this package, which knows TCP.
	// TLS is added to what it returns.
	Dial DialFunc

	// DialDualStack is without effect: hosts are dialed by IPv6 and IPv4 anyhow
	// (RFC 8305).
	DialDualStack bool

	// DisableHeaderNamesNormalizing leaves the names of fields as they are set
	// and as they come.
	DisableHeaderNamesNormalizing bool

	// DisablePathNormalizing sends paths as they are set, also with "//" and dot
	// segments.
	DisablePathNormalizing bool

	// IsTLS makes connections with TLS.
	IsTLS bool

	// TLSConfig is for IsTLS; nil is the default configuration. The server's
	// name is added where it is missing.
	TLSConfig *tls.Config

	// MaxIdleConnDuration is how long a connection is kept without use, and how
	// long one is that does not answer a request that nobody waits for any more;
	// 0 is DefaultMaxIdleConnDuration. It may be a quarter longer.
	MaxIdleConnDuration time.Duration

	// ReadBufferSize is the size of a connection's buffer for reading, in bytes,
	// and the bound of a response's head; 0: a buffer of 16 KiB, and heads of up
	// to 64 KiB.
	ReadBufferSize int

	// WriteBufferSize is how many bytes of requests are written at once; one
	// request may be more. 0 is 32 KiB.
	WriteBufferSize int

	// ReadTimeout bounds waiting for and reading a response, from when its
	// request is written or the response before it was read. The connection ends
	// with it, and all that was sent on it fails with ErrTimeout. 0: no bound.
	ReadTimeout time.Duration

	// WriteTimeout bounds writing what is written at once; see ReadTimeout. It
	// bounds dialing with TLS, as of HostClient. 0: no bound.
	WriteTimeout time.Duration

	// Logger is told why connections fail; nil: nobody is, as requests have the
	// errors that concern them.
	Logger Logger

	// MaxResponseBodySize bounds the bodies of responses, in bytes; a longer one
	// is ErrBodyTooLarge. It also bounds what Response.BodyUncompressed and the
	// like decode a body to. 0: no bound.
	MaxResponseBodySize int

	once  sync.Once
	host  HostClient // dials, and knows what requests lack
	works pipelineWorkPool
	lanes []pipelineLane
}

// prepare makes what follows from the fields.
func (c *PipelineClient) prepare() {
	h := &c.host
	h.Addr, h.IsTLS, h.TLSConfig, h.Dial = c.Addr, c.IsTLS, c.TLSConfig, c.Dial
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

// Do sends req and reads the response into resp, which may be nil. The
// request's own timeout (Request.SetTimeout) bounds it. Where it is sent only
// Addr says.
//
// Where the queue is full, a request with a bound, of time or by a context, waits
// for room. One without takes the place of the oldest that was not sent, which
// ends with ErrPipelineOverflow. ErrTimeout: there was no more time.
// ErrConnectionClosed, which is io.EOF too: the server closed the connection
// without an answer. *ErrDialWithUpstream: there is no connection. Other errors
// say what is wrong with the request or the response.
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
		return err // and w is the lane's
	}
	err = w.err
	w.deliver(resp)
	c.works.release(w)
	return err
}

// DoTimeout is Do with a bound. ErrTimeout is returned when timeout has passed;
// the request is then given up.
func (c *PipelineClient) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return doTimeout(c, req, resp, timeout)
}

// DoDeadline is Do with a bound. ErrTimeout is returned when deadline has come;
// the request is then given up. It is not sent if that was not begun, and its
// answer is dropped otherwise.
func (c *PipelineClient) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return doDeadline(c, req, resp, deadline)
}

// DoContext is Do that ends when ctx does, as by DoDeadline. The error is then a
// *PhaseError: PhaseWait and PhaseDial tell that nothing was sent.
func (c *PipelineClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	return doContext(ctx, c, req, resp)
}

// PendingRequests returns the number of requests that are queued or not
// answered, those included whose answers nobody waits for any more.
func (c *PipelineClient) PendingRequests() (n int) {
	c.once.Do(c.prepare)
	for i := range c.lanes {
		n += int(c.lanes[i].pending())
	}
	return n
}

// CloseIdleConnections closes the connections on which nothing is pending. The
// PipelineClient can be used further.
func (c *PipelineClient) CloseIdleConnections() {
	c.once.Do(c.prepare)
	for i := range c.lanes {
		c.lanes[i].closeIdle()
	}
}

// choose returns the lane for the next request: the one with the fewest.
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

// encode puts the request into the form in which it is sent, and makes resp
// empty.
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

// A pipelineWork is a request on its way. It belongs to the caller until it is
// submitted and when it is answered; in between to its lane.
type pipelineWork struct {
	next, prev *pipelineWork // in a list of the lane
	state      workState     // under the lane's lock
	done       chan struct{} // gets a token when the work is done and the caller waits
	out        []byte        // the request as it is sent
	err        error
	at         int64 // where on the connection it begins
	attempts   int   // connections that were tried

	isRepeatable bool
	isHead       bool
	isTunnel     bool // it is CONNECT
	closes       bool // nothing may be sent behind it

	// into is what the answer is read into: the caller's Response if he is sure to
	// wait for it, which with a thousand callers saves a tenth of the time; else
	// resp.
	into *Response
	resp Response
}

// workState says who has a pipelineWork.
type workState uint8

const (
	workQueued    workState = iota // the queue: nothing of it was sent
	workSent                       // the connection
	workAbandoned                  // the connection, and nobody waits for the answer
	workDone                       // the caller, who has a token in done
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

// workWriter appends to a work's request.
type workWriter pipelineWork

// Write implements io.Writer.
func (w *workWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// deliver moves the answer to resp, or nothing if there is an error. The work has
// been the caller's all the time, or is again.
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
		resp.SkipBody = false // that of a HEAD request
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

// exchange swaps what was read with other; the settings stay.
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
