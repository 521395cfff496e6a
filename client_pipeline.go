package sluice

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	"github.com/sluicehttp/sluice/internal/client/pipeline"
	"github.com/sluicehttp/sluice/internal/clock"
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
// not called. A body does not wait for the status 100, also with "Expect: 100-continue": a
// request that waits would delay those that follow it.
//
// With HTTP2, requests are streams of HTTP/2 if the server speaks it: answers come in
// any order, body streams are sent while they are read, and requests are sent again as
// those of a HostClient are.
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
	// its answer has come. With HTTP/2, it limits the streams of a connection, and
	// further requests wait.
	MaxPendingRequests int

	// HTTP2 says when the client speaks HTTP/2; the zero value is HTTP2Off. A server
	// that has chosen HTTP/1.1 is not asked again.
	HTTP2 HTTP2Mode

	// MaxBatchDelay is how long a request waits for others, to be written
	// together. 0: it does not wait, and is written together with the requests
	// that are queued at that time.
	MaxBatchDelay time.Duration

	// Dial opens connections; nil dials TCP, see DialDualStack. With IsTLS, the
	// client adds TLS to the connection unless it is a *tls.Conn already.
	Dial DialFunc

	// DialDualStack dials IPv6 and IPv4 addresses; see Client.DialDualStack.
	DialDualStack bool

	// DisableHeaderNamesNormalizing keeps the case of field names; see Client.DisableHeaderNamesNormalizing.
	DisableHeaderNamesNormalizing bool

	// DisablePathNormalizing sends paths as they were set; see Client.DisablePathNormalizing.
	DisablePathNormalizing bool

	// IsTLS makes the connections use TLS.
	IsTLS bool

	// TLSConfig is the TLS configuration for IsTLS; see Client.TLSConfig.
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

	// MaxResponseBodySize limits response bodies, in bytes; see Client.MaxResponseBodySize.
	MaxResponseBodySize int

	once  sync.Once
	host  HostClient                 // dials, holds the settings that requests need, and speaks HTTP/2
	spare atomic.Pointer[clientConn] // a connection whose server has chosen HTTP/1.1
	works pipelineWorkPool
	lines *pipeline.Client
}

const (
	defaultPipelineRead  = 16 << 10
	defaultPipelineWrite = 32 << 10
)

// prepare initializes host and lines from the exported fields.
func (c *PipelineClient) prepare() {
	h := &c.host
	h.Addr, h.IsTLS, h.TLSConfig = c.Addr, c.IsTLS, c.TLSConfig
	h.Dial, h.DialDualStack = c.Dial, c.DialDualStack
	h.Name, h.NoDefaultUserAgentHeader = c.Name, c.NoDefaultUserAgentHeader
	h.DisableHeaderNamesNormalizing, h.DisablePathNormalizing = c.DisableHeaderNamesNormalizing, c.DisablePathNormalizing
	h.MaxIdleConnDuration, h.ReadBufferSize, h.WriteTimeout = c.MaxIdleConnDuration, c.ReadBufferSize, c.WriteTimeout
	c.prepareHTTP2()
	c.lines = pipeline.New(pipeline.Config{
		Conns:        positiveOr(c.MaxConns, 1),
		Pending:      positiveOr(c.MaxPendingRequests, DefaultMaxPendingRequests),
		Attempts:     DefaultMaxIdemponentCallAttempts,
		BatchDelay:   c.MaxBatchDelay,
		ReadBuffer:   positiveOr(c.ReadBufferSize, defaultPipelineRead),
		WriteBuffer:  positiveOr(c.WriteBufferSize, defaultPipelineWrite),
		ReadTimeout:  c.ReadTimeout,
		WriteTimeout: c.WriteTimeout,
		MaxIdle:      h.maxIdle(),
		IsTLS:        c.IsTLS,
		Dial:         c.dial,
		Log:          c.logError,
		IsTimeout:    clock.IsTimeout,
		IsRefusal:    isAlert,
		Explain:      explainPipeline,
	})
}

// dial connects to the next address that can be reached.
func (c *PipelineClient) dial() (net.Conn, error) {
	if cc := c.spare.Swap(nil); cc != nil {
		if cc.wire.IsQuiet(false) && cc.wire.ClearLimits() == nil {
			return cc.wire.Net, nil
		}
		cc.close()
	}
	_, cc, err := c.host.dial(new(clientCall), false)
	if err != nil {
		return nil, err
	}
	return cc.wire.Net, nil
}

func (c *PipelineClient) logError(err error) {
	if c.Logger != nil {
		c.Logger.Printf("sluice: PipelineClient for %q: %v", c.Addr, err)
	}
}

// explainPipeline returns the error of requests whose connection ended with err.
func explainPipeline(err error) error {
	switch {
	case clock.IsTimeout(err):
		return ErrTimeout
	case err == pipeline.ErrEnded:
		return errPipelineClosed
	}
	return err
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
	call := beginCall(req)
	defer call.end(req)
	return c.do(call, req, resp)
}

// do implements doer.
func (c *PipelineClient) do(call *clientCall, req *Request, resp *Response) error {
	c.once.Do(c.prepare)
	if req.GetTimeOut() > 0 {
		call.Allow(req.GetTimeOut())
	}
	if c.mayUseHTTP2(req) {
		if err := c.doHTTP2(call, req, resp); !errors.Is(err, errChoseHTTP1) {
			return err
		}
	}
	w, err := c.encode(call, req, resp)
	if err != nil {
		return err
	}
	if phase := c.lines.Do(&w.Work, call.Done(), call.Left(0)); phase != pipeline.Answered {
		call.phase = phase
		if err := call.err(); err != nil {
			return err
		}
		return ErrTimeout
	}
	err = w.Err
	w.deliver(resp)
	c.works.release(w)
	return err
}

// DoTimeout is DoDeadline with a time limit from now.
func (c *PipelineClient) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return doTimeout(c, req, resp, timeout)
}

// DoDeadline is Do with a deadline. At deadline, it gives the request up and
// returns ErrTimeout. If the request is still in the queue, it is not sent;
// otherwise its answer is dropped.
func (c *PipelineClient) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return doTimeout(c, req, resp, time.Until(deadline))
}

// DoContext is Do with a context. When ctx ends, it gives the request up as
// DoDeadline does and returns a *PhaseError. With PhaseWait or PhaseDial,
// nothing of the request was sent.
func (c *PipelineClient) DoContext(ctx context.Context, req *Request, resp *Response) error {
	return doContext(ctx, c, req, resp)
}

// PendingRequests returns the number of requests that are queued or not
// answered, including those whose calls were given up.
func (c *PipelineClient) PendingRequests() int {
	c.once.Do(c.prepare)
	return c.lines.Pending() + c.host.PendingRequests()
}

// CloseIdleConnections closes the connections without pending requests. The
// PipelineClient remains usable.
func (c *PipelineClient) CloseIdleConnections() {
	c.once.Do(c.prepare)
	c.lines.CloseIdle()
	c.host.CloseIdleConnections()
	if cc := c.spare.Swap(nil); cc != nil {
		cc.close()
	}
}

// encode writes the request into the memory of a work, and empties resp.
func (c *PipelineClient) encode(call *clientCall, req *Request, resp *Response) (*pipelineWork, error) {
	isHTTPS := req.URI().m.IsHTTPS()
	switch {
	case req.uriFailure() != nil:
		return nil, req.uriFailure()
	case isHTTPS && !c.IsTLS:
		return nil, errPlainHTTPS
	}
	w := c.works.acquire(c)
	w.into = &w.resp
	if resp != nil && !call.IsBound() && !resp.SkipBody && !resp.StreamBody {
		w.into = resp
	}
	c.host.prepareResponse(w.into, req.Header.IsHead())
	c.host.prepareRequest(call, req)
	w.IsRepeatable, w.isHead, w.isTunnel = req.Header.isRepeatable(), req.Header.IsHead(), req.Header.IsConnect()
	w.IsLast = req.ConnectionClose() || w.isTunnel
	if resp != nil && w.into != resp {
		skips, streams := resp.SkipBody, resp.StreamBody
		resp.Reset()
		resp.SkipBody, resp.StreamBody = skips, streams
	}
	if err := w.write(req); err != nil {
		w.Err = err
		w.deliver(resp)
		c.works.release(w)
		return nil, err
	}
	return w, nil
}

// A pipelineWork is a request in the client. The caller owns it until it is sent,
// and again after it is answered; in between, c.lines owns it.
type pipelineWork struct {
	pipeline.Work
	c        *PipelineClient
	isHead   bool
	isTunnel bool // the method is CONNECT

	// into is where the answer is read to. It is the caller's Response if the
	// call cannot be given up, which saves a tenth of the time with a thousand
	// callers. Otherwise it is resp.
	into *Response
	resp Response
}

// Read implements pipeline.Answer.
func (w *pipelineWork) Read(br *bufio.Reader, local, remote net.Addr) (isLast bool, err error) {
	resp := w.into
	if err := resp.readFrom(br, w.c.host.headLimits(), nil, w.c.MaxResponseBodySize, w.isTunnel); err != nil {
		resp.ResetBody() // another connection may read into it
		resp.Header.resetMessage()
		return true, err
	}
	resp.localAddr, resp.remoteAddr = local, remote
	if w.isHead {
		resp.Header.settleHead()
	}
	return resp.ConnectionClose() || resp.StatusCode() == StatusSwitchingProtocols, nil
}

// Release implements pipeline.Answer.
func (w *pipelineWork) Release() { w.c.works.release(w) }

// write appends the request to Out.
func (w *pipelineWork) write(req *Request) error {
	if req.streamed() != nil {
		if err := req.bufferStream(); err != nil {
			return err
		}
	}
	if req.isShort() {
		out, err := req.appendWhole(w.Out)
		w.Out = out
		return err
	}
	bw := http1client.AcquireWriter((*workWriter)(w), defaultClientBuffer)
	err := req.Write(bw)
	if err == nil {
		err = bw.Flush()
	}
	http1client.ReleaseWriter(bw)
	return err
}

// workWriter is an io.Writer that appends to a work's encoded request.
type workWriter pipelineWork

// Write implements io.Writer.
func (w *workWriter) Write(p []byte) (int, error) {
	w.Out = append(w.Out, p...)
	return len(p), nil
}

// deliver moves the answer to resp. If there is an error, resp stays empty. The
// caller owns w.
func (w *pipelineWork) deliver(resp *Response) {
	switch {
	case resp == nil:
		return
	case w.Err != nil:
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
	r.Header.exchange(&other.Header)
	r.messageBody.exchange(&other.messageBody)
	r.localAddr, r.remoteAddr = other.localAddr, other.remoteAddr
}

// prepareHTTP2 sets the fields of host that concern HTTP/2.
func (c *PipelineClient) prepareHTTP2() {
	h := &c.host
	h.HTTP2, h.MaxHTTP2Conns = c.HTTP2, positiveOr(c.MaxConns, 1)
	h.ReadTimeout, h.MaxResponseBodySize = c.ReadTimeout, c.MaxResponseBodySize
	h.MaxConnWaitTimeout = math.MaxInt64
	h.http2.maxStreams = positiveOr(c.MaxPendingRequests, DefaultMaxPendingRequests)
	h.http2.passHTTP1 = func(cc *clientConn) { c.spare.Store(cc) }
}

// mayUseHTTP2 reports whether a request may be a stream of HTTP/2.
func (c *PipelineClient) mayUseHTTP2(req *Request) bool {
	switch {
	case !c.host.mayUseHTTP2() || c.host.http2.isHTTP1.Load():
		return false
	}
	return c.HTTP2 == HTTP2Only || !req.Header.IsConnect()
}

// doHTTP2 sends a request as a stream. It returns errChoseHTTP1 if the server speaks
// HTTP/1.1.
func (c *PipelineClient) doHTTP2(call *clientCall, req *Request, resp *Response) error {
	if resp == nil {
		return c.host.do(call, req, nil)
	}
	streams := resp.StreamBody
	resp.StreamBody = false
	err := c.host.do(call, req, resp)
	resp.StreamBody = streams
	if err == nil && streams && !resp.SkipBody {
		content := resp.SwapBody(nil)
		resp.setStream(bytes.NewReader(content), len(content))
	}
	return err
}
