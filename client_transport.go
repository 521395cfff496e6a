package sluice

import (
	"bufio"
	"errors"
	"io"
	"time"

	"github.com/sluicehttp/sluice/internal/ascii"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/field"
	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/pool"
)

// DefaultTransport sends requests over HTTP/1.1, or over HTTP/2 if the HostClient's
// field HTTP2 says so, on the connections of the HostClient.
var DefaultTransport RoundTripper = &transport{}

// transport is the RoundTripper of DefaultTransport.
type transport struct{}

// RoundTrip implements RoundTripper.
func (*transport) RoundTrip(c *HostClient, req *Request, resp *Response) (retry bool, err error) {
	call := &req.call
	call.hasConn, call.hasSent = false, false
	skips, streams := resp.SkipBody, resp.StreamBody
	prepareForClient(c, req, resp)
	defer func() { resp.SkipBody, resp.StreamBody = skips, streams }()
	var cc *clientConn
	switch isTunnel := req.Header.IsConnect(); {
	case !c.mayUseHTTP2() || (isTunnel || call.needsHTTP1) && c.HTTP2 == HTTP2Auto:
		call.looksLater = call.trace == nil && !isTunnel && req.isShort()
		cc, err = c.acquire(call)
		call.looksLater = false
	case isTunnel:
		return false, ErrNotSupportedHTTP2
	default:
		var m *http2Member
		for m, cc, err = c.acquireEither(call); m != nil; m, cc, err = c.acquireEither(call) {
			if isStale, retry, err := c.roundTripHTTP2(m, req, resp); !isStale {
				return retry, err
			}
		}
	}
	if err != nil {
		return !errors.Is(err, ErrNoFreeConns), call.explain(err)
	}
	fate, err := c.exchangeOn(cc, req, resp)
	if err == pool.ErrNotQuiet { // a new connection takes its place, as in acquireAny
		cc.close()
		call.hasConn, call.upstream = false, ""
		if cc, err = c.connect(call); err != nil {
			return !errors.Is(err, ErrNoFreeConns), call.explain(err)
		}
		fate, err = c.exchangeOn(cc, req, resp)
	}
	switch {
	case err != nil:
		c.discard(cc)
		// A response that is too long is too long on every connection.
		return !errors.Is(err, ErrBodyTooLarge), call.explain(err)
	case fate == connFree:
		c.release(cc)
	case fate == connSpent:
		c.discard(cc)
	}
	return false, nil
}

// exchangeOn sends the request on cc and reads the response.
func (c *HostClient) exchangeOn(cc *clientConn, req *Request, resp *Response) (connFate, error) {
	call := &req.call
	call.hasConn, call.upstream = true, cc.addr
	if !cc.isReused && cc.wasSpokenTo() {
		var one [1]byte // a byte is there, so reading does not wait
		n, err := cc.c.Read(one[:])
		if n > 0 {
			err = errSpokenFirst
		}
		return connSpent, err
	}
	x := &cc.exchange
	*x = exchange{c: c, cc: cc, req: req, resp: resp, call: call, isHead: req.Header.IsHead(), isTunnel: req.Header.IsConnect()}
	x.closes = req.ConnectionClose() || c.MaxConnDuration > 0 && clock.Nanos()-cc.created > int64(c.MaxConnDuration)
	if x.closes && len(req.Header.Peek(HeaderConnection)) == 0 {
		// The server learns that the connection ends. It then closes first, and its
		// socket has the TIME_WAIT state (RFC 9293 section 3.6).
		req.SetConnectionClose()
		defer req.Header.ResetConnectionClose()
	}
	fate, err := x.run()
	call.hasSent = cc.written.Load() > 0
	*x = exchange{} // from here on, another request may use the connection
	return fate, err
}

// connFate says what happens to a connection after a response.
type connFate uint8

const (
	connSpent connFate = iota // it must be closed
	connFree                  // it can be reused
	connLent                  // the body stream owns it
)

// prepareForClient applies the client's settings to request and response, and
// empties the response.
func prepareForClient(c *HostClient, req *Request, resp *Response) {
	skips, streams := resp.SkipBody, resp.StreamBody
	resp.Reset()
	resp.SkipBody = skips || req.Header.IsHead()
	resp.StreamBody = streams || c.StreamResponseBody
	if c.DisableHeaderNamesNormalizing {
		req.Header.DisableNormalizing()
		resp.Header.DisableNormalizing()
	}
	if c.DisablePathNormalizing {
		req.URI().DisablePathNormalizing = true
	}
	if h := &req.Header; len(h.m.Table.Get(field.UserAgent)) == 0 { // from the head, not the trailer section
		switch {
		case c.Name != "":
			h.m.Table.Set(field.UserAgent, h.m.FitValue(ascii.Bytes(c.Name)))
		case !c.NoDefaultUserAgentHeader:
			h.m.Table.Set(field.UserAgent, textClientName) // needs no cleaning
		}
	}
}

// exchange is one request and its response on a connection. The request's call
// owns it.
type exchange struct {
	c        *HostClient
	cc       *clientConn
	req      *Request
	resp     *Response
	call     *clientCall
	br       *clientInput
	stop     func() bool // ends the guard of the context; nil: there is none
	isHead   bool
	isTunnel bool // the method is CONNECT
	closes   bool // the connection closes after this response
	isCut    bool // the request was not written completely
}

// run sends the request and reads the response. It returns what happens to the
// connection. After an error, the connection must be closed.
func (x *exchange) run() (connFate, error) {
	cc := x.cc
	cc.written.Store(0)
	cc.writeErr = nil
	if !cc.takesTurn || !x.limitsRead() {
		if err := cc.clearLimits(); err != nil {
			return connSpent, x.limitError(err)
		}
	}
	x.stop = cc.guard(x.call.Context)
	x.br = acquireClientInput(cc, sizeOr(x.c.ReadBufferSize, defaultClientBuffer))
	var err error
	switch {
	case cc.takesTurn:
		err = x.runTurn()
	case !x.req.isShort():
		err = x.runBuffered()
	default:
		if err = x.send(nil); err == nil {
			err = x.receive()
		}
	}
	switch {
	case err != nil || x.resp.stream == nil:
	case x.call.wants.drops(x.resp.StatusCode()):
		err = x.dropStream()
	default:
		if err = x.lendToStream(); err == nil {
			return connLent, nil
		}
	}
	isOver := x.stop != nil && !x.stop()
	hasMore := x.br.Buffered() > 0
	releaseClientInput(x.br)
	if err != nil || isOver || hasMore || !x.persists() {
		return connSpent, err
	}
	return connFree, nil
}

// limitsRead reports whether there is a limit for reading the response.
func (x *exchange) limitsRead() bool { return x.c.ReadTimeout > 0 || x.call.Deadline != 0 }

// limitError returns the error for a deadline that could not be set before the
// request was sent: an idle connection was closed by this process.
func (x *exchange) limitError(err error) error {
	if x.cc.takesTurn {
		return pool.ErrNotQuiet
	}
	return err
}

// runTurn sends a short request and reads the response, in one call of the
// connection as far as possible.
func (x *exchange) runTurn() (err error) {
	req, cc := x.req, x.cc
	if req.wire, err = req.appendWhole(req.wire[:0]); err != nil {
		return err
	}
	x.call.phase = PhaseRead // writing never waits
	if err := cc.setReadLimit(x.call, x.c.ReadTimeout); err != nil {
		return x.limitError(err)
	}
	cc.unsent = req.wire
	_, err = x.br.Peek(1)
	switch {
	case err == nil:
		return x.readResponse()
	case cc.writeErr != nil:
		return cc.writeErr
	}
	return startError(endError(err, nil), io.EOF)
}

// takeTurn writes cc.unsent, and reads the beginning of the response into p.
func (x *exchange) takeTurn(p []byte) (int, error) {
	cc := x.cc
	out := cc.unsent
	cc.unsent = nil
	written, n, err := cc.turn.Take(out, p)
	cc.written.Add(int64(written))
	switch {
	case err == nil && written < len(out): // the socket has no room for more
		return x.finishTurn(out[written:], p)
	case err == nil && n == 0:
		return 0, io.EOF
	case written < len(out):
		cc.writeErr = err
	}
	return n, err
}

// finishTurn is the rest of takeTurn if the socket has no room for all of the
// request.
func (x *exchange) finishTurn(rest, p []byte) (int, error) {
	cc := x.cc
	x.call.phase = PhaseWrite
	err := cc.c.SetWriteDeadline(time.Time{}) // one that an earlier request has left
	cc.interruptFor(x.call)
	if err == nil {
		err = cc.setWriteLimit(x.call, x.c.WriteTimeout)
	}
	if err == nil {
		_, err = cc.Write(rest)
	}
	if err != nil {
		cc.writeErr = err
		return 0, err
	}
	x.call.phase = PhaseRead
	if err := cc.setReadLimit(x.call, x.c.ReadTimeout); err != nil {
		return 0, err
	}
	return cc.c.Read(p)
}

// runBuffered sends a request through a pooled buffer and reads the response.
func (x *exchange) runBuffered() (err error) {
	bw := acquireClientWriter(x.cc, sizeOr(x.c.WriteBufferSize, defaultClientBuffer))
	if x.req.stream != nil || len(x.req.bodyBytes()) >= watchedBody {
		err = x.runWatching(bw)
	} else if err = x.send(bw); err == nil {
		err = x.receive()
	}
	releaseClientWriter(bw)
	return err
}

// persists reports whether the connection can be reused after this response.
func (x *exchange) persists() bool {
	resp := x.resp
	switch {
	case x.closes, x.isCut, x.isTunnel, resp.ConnectionClose(), resp.StatusCode() == StatusSwitchingProtocols:
		return false
	}
	return !x.leavesBody()
}

// leavesBody reports whether the response has a body that was not read.
func (x *exchange) leavesBody() bool {
	return x.resp.SkipBody && !x.isHead && !message.BodyForbidden(x.resp.StatusCode()) && x.resp.Header.ContentLength() != 0
}

// send writes the request. bw is nil for a short request.
func (x *exchange) send(bw *bufio.Writer) error {
	x.call.phase = PhaseWrite
	if err := x.cc.setWriteLimit(x.call, x.c.WriteTimeout); err != nil {
		return err
	}
	var err error
	if bw == nil {
		err = x.writeWhole()
	} else {
		err = x.write(bw)
	}
	x.wrote(err)
	return err
}

// wrote calls the trace after the request was written.
func (x *exchange) wrote(err error) {
	if trace := x.call.trace; trace != nil && trace.WroteRequest != nil {
		trace.WroteRequest(err)
	}
}

// writeWhole writes a short request with one Write and without a buffer other
// than the request's. Together with targets that are not escaped twice, this
// makes DoFastServer of the client benchmarks take 11 % less time.
func (x *exchange) writeWhole() (err error) {
	req := x.req
	if req.wire, err = req.appendWhole(req.wire[:0]); err != nil {
		return err
	}
	_, err = x.cc.Write(req.wire)
	return err
}

// write writes the request to bw and flushes it.
func (x *exchange) write(bw *bufio.Writer) error {
	if err := x.req.Write(bw); err != nil {
		return err
	}
	return bw.Flush()
}

// receive reads the response.
func (x *exchange) receive() error {
	x.call.phase = PhaseRead
	if err := x.cc.setReadLimit(x.call, x.c.ReadTimeout); err != nil {
		return err
	}
	// Wait here and not in the call that reads the head: after a switch of
	// goroutines, the processor mispredicts each return.
	if _, err := x.br.Peek(1); err != nil {
		return startError(endError(err, nil), io.EOF)
	}
	return x.readResponse()
}

// readResponse reads the response until the deadline that the caller has set.
func (x *exchange) readResponse() error {
	if trace := x.call.trace; trace != nil && trace.FirstByte != nil {
		if _, err := x.br.Peek(1); err == nil {
			trace.FirstByte()
		}
	}
	limits := x.c.headLimits()
	if err := x.resp.readFinalHead(&x.br.Reader, limits); err != nil {
		return err
	}
	if wants := x.call.wants; wants == wantsBytes && !wants.drops(x.resp.StatusCode()) {
		x.resp.StreamBody = false
	}
	if err := x.resp.readContent(&x.br.Reader, limits, x.c.MaxResponseBodySize, x.isTunnel); err != nil {
		return err
	}
	if x.isHead {
		x.resp.Header.m.SettleHead()
	}
	x.resp.ParseNetConn(x.cc.c)
	return nil
}

// headLimits returns the limits of a response's head.
func (c *HostClient) headLimits() h1.Limits {
	if c.ReadBufferSize > 0 {
		return bufferLimits(c.ReadBufferSize)
	}
	return h1.DefaultLimits
}

// textClientName is the default User-Agent.
var textClientName = []byte("sluice")
