package sluice

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sluicehttp/sluice/internal/body"
	"github.com/sluicehttp/sluice/internal/client/dial"
	http1client "github.com/sluicehttp/sluice/internal/client/http1"
	"github.com/sluicehttp/sluice/internal/client/pool"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// DefaultTransport sends requests over HTTP/1.1, or over HTTP/2 if the HostClient's
// field HTTP2 says so, on the connections of the HostClient.
var DefaultTransport RoundTripper = newTransport()

// newTransport returns the transport of root. It lets protocols of other modules send requests
// of a HostClient, too.
func newTransport() *transport {
	streams.RoundTrip = roundTripAttached
	return &transport{}
}

// transport is the RoundTripper of DefaultTransport.
type transport struct{}

// RoundTrip implements RoundTripper.
func (*transport) RoundTrip(c *HostClient, req *Request, resp *Response) (retry bool, err error) {
	call := req.call
	if call == nil { // no client sends the request
		call = beginCall(req)
		defer call.end(req)
	}
	retry, err = c.roundTrip(call, req, resp)
	return retry, call.explain(err)
}

// roundTrip is one attempt of DefaultTransport, except that its callers explain the error.
func (c *HostClient) roundTrip(call *clientCall, req *Request, resp *Response) (retry bool, err error) {
	call.progress = noConn
	skips, streamsBody := resp.SkipBody, resp.StreamBody
	method := req.Header.m.Method()
	isHead, isTunnel := string(method) == MethodHead, string(method) == MethodConnect
	c.prepareResponse(resp, isHead)
	c.prepareRequest(call, req)
	call.patience = 0
	if req.hasBody() { // mostly not
		call.patience = c.patienceFor(req)
	}
	isWhole := call.patience == 0 && req.isShort()
	var cc *clientConn
	defer func() {
		resp.SkipBody, resp.StreamBody = skips, streamsBody
		if cc != nil { // a hook of the trace panics, for example
			call.isHeld = true
			c.cut(cc)
		}
	}()
	kind := forEither
	switch {
	case !c.mayUseHTTP2() || (isTunnel || call.needsHTTP1) && c.HTTP2 == HTTP2Auto:
		kind = forHTTP1
		if isWhole && call.trace == nil && !isTunnel {
			kind = forTurn
		}
	case isTunnel:
		return false, ErrNotSupportedHTTP2
	}
	for {
		var m *http2Member
		m, cc, err = c.acquire(call, kind)
		switch {
		case err != nil:
			return !errors.Is(err, ErrNoFreeConns), err
		case cc != nil:
			x := &cc.exchange
			x.isHead, x.isTunnel, x.isWhole = isHead, isTunnel, isWhole
			outcome, err := x.run(c, call, req, resp)
			settled, isRefused := cc, !cc.isReused && isAlert(err)
			cc = nil
			switch {
			case err == nil && outcome == http1client.Reusable:
				c.release(settled)
				return false, nil
			case err != pool.ErrNotQuiet:
				c.settle(settled, outcome)
				// A response that is too long is too long on every connection.
				return err != nil && !isRefused && !errors.Is(err, ErrBodyTooLarge), err
			}
			settled.close()
			kind, call.progress, call.upstream = inPlace, noConn, ""
		default:
			isStale, retry, err := c.roundTripHTTP2(call, m, req, resp)
			if !isStale {
				return retry, err
			}
		}
	}
}

// roundTripHTTP2 sends a request as a stream of m, and gives its place back. isStale:
// nothing was sent, because m had ended unnoticed.
func (c *HostClient) roundTripHTTP2(call *clientCall, m *http2Member, req *Request, resp *Response) (isStale, retry bool, err error) {
	hadStream := req.streamed() != nil
	isReused := m.Conn.wasUsed.Swap(true)
	if req.ConnectionClose() { // it is the last one on m
		c.http2.Drain(c.http2Settings(), m)
	}
	var outcome streamOutcome
	for mayRepeat := !hadStream; ; mayRepeat = false {
		outcome, err = c.runHTTP2(call, m, req, resp)
		if err != nil || !mayRepeat || resp.StatusCode() != StatusMisdirectedRequest {
			break
		}
		// RFC 9110 section 15.5.20: any request may be sent again on another connection.
		if m = c.openSingle(call); m == nil {
			break
		}
		_ = resp.CloseBodyStream()
		c.prepareResponse(resp, false) // SkipBody says whether it is HEAD
	}
	if outcome == streamStale && isReused && call.err() == nil {
		return true, false, nil
	}
	isFinal := outcome == streamInvalid || errors.Is(err, ErrBodyTooLarge) || errors.Is(err, ErrNoHTTP2) || !isReused && isAlert(err)
	return false, !isFinal, err
}

// isAlert reports whether err is an alert of TLS. On a new connection, the server refuses the
// client's certificate with it: in TLS 1.3 the client's handshake has ended before.
func isAlert(err error) bool {
	var op *net.OpError
	return err != nil && errors.As(err, &op) && op.Op == "remote error"
}

// defaultPatience is the time that ExpectContinueTimeout is by default.
const defaultPatience = time.Second

// patienceFor returns how long the body of req waits for the status 100; 0: not at all.
func (c *HostClient) patienceFor(req *Request) time.Duration {
	if c.ExpectContinueTimeout < 0 || !req.hasBody() || !req.MayContinue() {
		return 0
	}
	return positiveOr(c.ExpectContinueTimeout, defaultPatience)
}

// roundTripAttached is streams.RoundTrip.
func roundTripAttached(p streams.Protocol, hostClient, request, response any) (retry bool, err error) {
	c, req, resp := hostClient.(*HostClient), request.(*Request), response.(*Response)
	call := req.call
	if call == nil { // no client sends the request
		call = beginCall(req)
		defer call.end(req)
	}
	skips, streamsBody := resp.SkipBody, resp.StreamBody
	defer func() { resp.SkipBody, resp.StreamBody = skips, streamsBody }()
	retry, err = c.roundTripOver(p, call, req, resp)
	return retry, call.explain(err)
}

// roundTripOver is one attempt over the protocol p, or by roundTrip.
func (c *HostClient) roundTripOver(p streams.Protocol, call *clientCall, req *Request, resp *Response) (retry bool, err error) {
	peers := c.peersOf(p)
	for {
		call.progress, call.phase = noConn, PhaseWait
		trace := call.trace
		if trace != nil && trace.GetConn != nil {
			trace.GetConn(c.firstAddr())
		}
		hadStream := req.streamed() != nil
		s, err := peers.Acquire(streams.Call{
			Bounds: &call.Bounds, Phase: &call.phase, Trace: trace.ofDial(),
			NeedsHTTP1: req.Header.IsConnect() || call.needsHTTP1, IsLast: req.ConnectionClose(),
		})
		switch {
		case err == streams.ErrElsewhere:
			retry, err := c.roundTrip(call, req, resp)
			c.passAltSvc(peers, resp, err)
			return retry, err
		case err == pool.ErrFull:
			return false, ErrNoFreeConns
		case err != nil:
			return true, err
		case trace != nil:
			trace.gotConn(s.NetConn(), s.IsReused(), s.Release)
		}
		mayRepeat := s.IsReused()
		call.patience = c.patienceFor(req)
		outcome, err := c.runAttached(call, s, req, resp)
		switch {
		case outcome == streamStale && mayRepeat && call.err() == nil:
		case err == nil && resp.StatusCode() == StatusMisdirectedRequest && !hadStream && peers.Misdirected():
			_ = resp.CloseBodyStream() // any request may be sent again (RFC 9110 section 15.5.20)
		default:
			c.passAltSvc(peers, resp, err)
			isFinal := outcome == streamInvalid || errors.Is(err, ErrBodyTooLarge) || !mayRepeat && isAlert(err)
			return !isFinal, err
		}
	}
}

// protocolOf returns the protocol of another module that t sends requests over, or nil.
func protocolOf(t RoundTripper) streams.Protocol {
	if t, ok := t.(streams.Transport); ok {
		p, _ := t.Value(streams.ProtocolKey{}).(streams.Protocol)
		return p
	}
	return nil
}

// askAttached asks for another protocol once over p. The error is streams.ErrElsewhere if p does not
// send the request.
func (c *HostClient) askAttached(call *clientCall, p streams.Protocol, protocol string, req *Request, resp *Response) (a tunnelAnswer) {
	call.progress, call.phase = noConn, PhaseWait
	s, err := c.peersOf(p).Acquire(streams.Call{
		Bounds: &call.Bounds, Phase: &call.phase, Trace: call.trace.ofDial(), NeedsHTTP1: call.needsHTTP1,
	})
	switch {
	case err == pool.ErrFull:
		return tunnelAnswer{outcome: streamInvalid, err: ErrNoFreeConns}
	case err != nil:
		return tunnelAnswer{outcome: streamInvalid, err: err}
	}
	a.isReused = s.IsReused()
	// Not of the pool: a response that refuses may be read for long.
	x := &attachedCall{stream: s}
	x.c, x.nc, x.call, x.req, x.resp, x.protocol = c, s.NetConn(), call, req, resp, []byte(protocol)
	x.carrier = x
	a.conn, a.outcome, a.err = x.openTunnel(s.Upstream())
	if a.err == streams.ErrElsewhere || errors.Is(a.err, streams.ErrNoConnect) {
		a.outcome = streamInvalid
	}
	return a
}

// peersOf returns the connections of p.
func (c *HostClient) peersOf(p streams.Protocol) streams.Peers {
	if peers, ok := c.peers.Load(p); ok {
		return peers.(streams.Peers)
	}
	s := c.prepared()
	peers, _ := c.peers.LoadOrStore(p, p.NewPeers(&streams.Host{
		Addrs: dial.Addrs(c.Addr, c.IsTLS, false), TLS: s.tls, Network: dial.Network(c.DialDualStack),
		HasDialer: c.DialContext != nil || c.DialTimeout != nil || c.Dial != nil,
		Limits:    c.headLimits(), MaxConns: positiveOr(c.MaxHTTP2Conns, defaultHTTP2Conns),
		MaxIdle: c.maxIdle(), MaxAge: c.MaxConnDuration, MaxWait: c.MaxConnWaitTimeout, WriteTimeout: c.WriteTimeout,
		OpenTCP: func(ctx context.Context) error { return c.prewarm(ctx, 1, true) },
	}))
	return peers.(streams.Peers)
}

// passAltSvc passes on what a response says of other places of its server.
func (c *HostClient) passAltSvc(peers streams.Peers, resp *Response, err error) {
	if !c.IsTLS || err != nil || len(resp.Header.Peek(HeaderAltSvc)) == 0 {
		return
	}
	peers.Announced(resp.Header.PeekAll(HeaderAltSvc), resp.Header.Peek(HeaderAge))
}

// attachedCall is a streamCall over a protocol of another module.
type attachedCall struct {
	streamCall
	stream streams.Stream
}

var _ carrier = (*attachedCall)(nil)

// runAttached sends a request on s, and gives s back.
func (c *HostClient) runAttached(call *clientCall, s streams.Stream, req *Request, resp *Response) (streamOutcome, error) {
	c.prepareResponse(resp, req.Header.IsHead())
	c.prepareRequest(call, req)
	call.progress, call.upstream, call.phase = hasConn, s.Upstream(), PhaseWrite
	x := acquireAttachedCall()
	x.c, x.stream, x.nc, x.call, x.req, x.resp = c, s, s.NetConn(), call, req, resp
	x.carrier = x
	return x.run()
}

func (x *attachedCall) version() uint8 { return 3 }

func (x *attachedCall) do() error {
	*x.stream.Params() = x.params
	return x.stream.Do()
}

func (x *attachedCall) failure(error) streams.Failure { return x.stream.Failure() }

func (x *attachedCall) explain(err error) error { return x.explainEnd(err) }

func (x *attachedCall) readStream(p []byte) (int, error) { return x.stream.Read(p) }

func (x *attachedCall) closeStream() error { return x.stream.Close() }

func (x *attachedCall) tunnel() net.Conn { return x.stream.Tunnel() }

func (x *attachedCall) giveBack() { x.stream.Release() }

func (x *attachedCall) end() {
	x.drop()
	x.giveBack()
	releaseAttachedCall(x)
}

// settle disposes of a connection after an exchange.
func (c *HostClient) settle(cc *clientConn, outcome http1client.Outcome) {
	switch outcome {
	case http1client.Reusable:
		c.release(cc)
	case http1client.MustClose:
		c.discard(cc)
	case http1client.MustCut:
		c.cut(cc)
	case http1client.Streamed: // until Ended
	}
}

// prepareRequest applies the client's settings to req, which call sends.
func (c *HostClient) prepareRequest(call *clientCall, req *Request) {
	if c.DisableHeaderNamesNormalizing {
		req.Header.DisableNormalizing()
	}
	if c.DisablePathNormalizing && !call.sendsReceived {
		req.URI().DisablePathNormalizing = true
	}
	if c.Name != "" || !c.NoDefaultUserAgentHeader {
		req.Header.setDefaultAgent(c.Name, !c.NoDefaultUserAgentHeader)
	}
}

// prepareResponse empties resp, and applies the client's settings to it. isHead: the
// request has the method HEAD.
func (c *HostClient) prepareResponse(resp *Response, isHead bool) {
	skips, streams, decodes, onInterim := resp.SkipBody, resp.StreamBody, resp.DecodeBody, resp.OnInterim
	resp.Reset()
	resp.OnInterim, resp.DecodeBody = onInterim, decodes
	resp.SkipBody, resp.StreamBody = skips || isHead, streams || c.StreamResponseBody
	if c.DisableHeaderNamesNormalizing {
		resp.Header.DisableNormalizing()
	}
}

// exchange is one request and its response on a connection. The request's call
// owns it, or the stream that is the response's body.
type exchange struct {
	http1client.Exchange
	c        *HostClient
	cc       *clientConn // of which it is a part
	req      *Request
	resp     *Response
	call     *clientCall
	isHead   bool
	isTunnel bool // the method is CONNECT
	isWhole  bool // the request is encoded into memory
	interims int  // of Interim
}

var _ http1client.Message = (*exchange)(nil)

// watchedBody is the body size from which the response may come before the end of the
// request.
const watchedBody = 64 << 10

// run sends the request and reads the response. It returns what happens to the
// connection.
func (x *exchange) run(c *HostClient, call *clientCall, req *Request, resp *Response) (outcome http1client.Outcome, err error) {
	cc := x.cc
	call.progress, call.upstream = hasConn, cc.addr
	if !cc.isReused && cc.wire.WasSpokenTo() {
		var one [1]byte // a byte is there, so reading does not wait
		n, err := cc.wire.Net.Read(one[:])
		if n > 0 {
			err = errSpokenFirst
		}
		return http1client.MustCut, err
	}
	x.c, x.req, x.resp, x.call, x.Bounds = c, req, resp, call, &call.Bounds
	x.WriteTimeout, x.ReadTimeout = c.WriteTimeout, c.ReadTimeout
	x.Conn.Tick = c.pool.Now()
	x.ReadBuffer = positiveOr(c.ReadBufferSize, defaultClientBuffer)
	if trace := call.trace; trace != nil {
		x.Wrote = trace.WroteRequest
	}
	x.IsLast = req.ConnectionClose() || c.MaxConnDuration > 0 && clock.Nanos()-cc.created > int64(c.MaxConnDuration)
	if head := req.Header.head(); x.IsLast && len(req.Header.Peek(HeaderConnection)) == 0 {
		// The server learns that the connection ends. It then closes first, and its
		// socket has the TIME_WAIT state (RFC 9293 section 3.6).
		head.ConnectionClose = true
		defer func() { head.ConnectionClose = false }()
	}
	call.phase = PhaseWrite
	if x.isWhole {
		x.Content, err = req.encodeWhole()
	} else {
		x.prepareParts()
	}
	switch {
	case err == nil:
		outcome, err = x.Run()
	case x.Wrote != nil:
		x.Wrote(err)
	}
	if cc.wire.HasWritten() {
		call.progress = hasSent
	}
	if outcome == http1client.Streamed {
		resp.setStream(x.Stream(), x.Length)
		x.req, x.resp, x.call = nil, nil, nil
		return outcome, nil
	}
	if x.IsSent() {
		call.phase = PhaseRead
	}
	x.clear() // from here on, another request may use the connection
	return outcome, err
}

// prepareParts prepares a request that Write writes.
func (x *exchange) prepareParts() {
	req := x.req
	x.WriteBuffer = positiveOr(x.c.WriteBufferSize, defaultClientBuffer)
	x.IsWatched = req.streamed() != nil || len(req.bodyBytes()) >= watchedBody
	x.Upload, _ = req.streamed().(io.Closer)
	if x.call.patience > 0 {
		x.IsWatched, x.Gate = true, x.call.trace.newGate()
	}
}

func (x *exchange) clear() {
	x.Clear()
	x.req, x.resp, x.call, x.interims = nil, nil, nil, 0
}

// Write implements http1client.Message.
func (x *exchange) Write(bw *bufio.Writer) error {
	if x.Gate == nil {
		return x.req.Write(bw)
	}
	return x.req.write(bw, func() error { return x.AwaitContinue(x.call.patience) })
}

// Heads implements http1client.Message.
func (x *exchange) Heads() (*field.Table, h1.Limits) {
	return &x.resp.Header.head().Table, x.c.headLimits()
}

// Unanswered implements http1client.Message.
func (x *exchange) Unanswered(err error) error {
	return startError(message.EndError(err, nil), endedAfter(x.interims))
}

// Interim implements http1client.Message.
func (x *exchange) Interim(br *bufio.Reader, last *h1.LastHead) bool {
	x.traceFirstByte(br)
	x.interims++
	if x.resp.Header.m.Read(br, x.c.headLimits(), last) != nil {
		return false
	}
	x.resp.passInterim()
	return x.interims < maxInformational
}

// traceFirstByte calls FirstByte of the trace, if there is something in br and nothing was before.
func (x *exchange) traceFirstByte(br *bufio.Reader) {
	if trace := x.call.trace; trace != nil && trace.FirstByte != nil && x.interims == 0 {
		if _, err := br.Peek(1); err == nil {
			trace.FirstByte()
		}
	}
}

// Receive implements http1client.Message.
func (x *exchange) Receive(br *bufio.Reader, last *h1.LastHead) error {
	x.traceFirstByte(br)
	limits := x.c.headLimits()
	resp := x.resp
	if err := resp.readFinalHead(br, limits, last, x.isTunnel, x.interims); err != nil {
		return err
	}
	if x.call.wants == wantsBytes && !x.call.drops(&resp.Header) || x.call.isProxied && has(br, resp.Header.ContentLength()) {
		resp.StreamBody = false
	}
	if err := resp.readContent(br, limits, x.c.MaxResponseBodySize, x.isTunnel); err != nil {
		return err
	}
	if x.isHead {
		resp.Header.settleHead()
	}
	if !x.call.isProxied {
		resp.ParseNetConn(x.Conn.Net)
	}
	x.IsLast = x.IsLast || x.isTunnel || resp.ConnectionClose() || resp.StatusCode() == StatusSwitchingProtocols || x.leavesBody()
	if resp.streamed() != nil {
		return x.passStream()
	}
	return nil
}

// has reports whether n bytes have arrived.
func has(br *bufio.Reader, n int) bool { return n >= 0 && n <= br.Buffered() }

// passStream passes the body, which is a stream, on to Run, unless it is empty.
func (x *exchange) passStream() error {
	resp, limit := x.resp, x.c.MaxResponseBodySize
	if resp.bodyLength() == 0 {
		resp.setStream(&body.Memory{}, 0) // which needs no connection
		return nil
	}
	reader, _ := resp.streamed().(*body.Reader) // readContent has made it
	x.Body, x.Length = reader, resp.bodyLength()
	resp.leaveStream()
	switch x.IsUnwanted = x.call.drops(&resp.Header); {
	case limit > 0 && x.Length > limit && x.call.wants == wantsNone && !isFollowed(&resp.Header):
		x.Body, x.IsLast = nil, true // it is not read
	case x.IsUnwanted || limit <= 0:
	case x.Length > limit:
		return ErrBodyTooLarge
	default:
		x.Limit = limit
		reader.LimitChunks(limit)
	}
	return nil
}

// leavesBody reports whether the response has a body that was not read.
func (x *exchange) leavesBody() bool {
	return x.resp.SkipBody && !x.isHead && !message.BodyForbidden(x.resp.StatusCode()) && x.resp.Header.ContentLength() != 0
}

// Ended implements http1client.Message.
func (x *exchange) Ended(outcome http1client.Outcome, err error) error {
	call := clientCall{Bounds: *x.Bounds, phase: PhaseRead}
	if err != io.EOF && err != body.ErrClosed {
		err = call.explain(err)
	}
	c, cc := x.c, x.cc
	x.clear()
	c.settle(cc, outcome)
	return err
}

// headLimits returns the limits of a response's head.
func (c *HostClient) headLimits() h1.Limits {
	if c.ReadBufferSize > 0 {
		return message.BufferLimits(c.ReadBufferSize)
	}
	return h1.DefaultLimits
}
