package sluice

import (
	"context"
	"errors"
	"net"

	http2client "github.com/sluicehttp/sluice/internal/client/http2"
	"github.com/sluicehttp/sluice/internal/client/streams"
)

// ConnectProtocol asks the server of req for another protocol, such as "websocket", on a
// stream of HTTP/2 (extended CONNECT, RFC 8441) or, if Client.Transport is a Transport of module
// http3, on one of HTTP/3 (RFC 9220) where that sends requests over it. Requests and other
// streams share the connection, which is one of the client's pool. The method, the body and the
// time-out of req have no effect. ctx bounds the call; it has no effect on what the call returns.
//
// If the server accepts, with a 2xx status, the result is the stream, which counts as one
// request of the pool until it is closed. Its Close sends the end of the stream, and
// RST_STREAM if the server has not ended it, too; CloseWrite does only the first. While as
// much was written as the server admits, Write waits, and what was not read is at most the
// window of the stream: 1 MiB, or up to 4 MiB if it was read fast. If the server refuses,
// the result is nil without an error, and the body of resp is a stream, which must be read
// to its end or closed.
//
// The error is ErrNoConnectProtocol, with which nothing was sent, if the server does not
// speak HTTP/2 or has not said in its SETTINGS that it admits extended CONNECT, or if
// Client.HTTP2 excludes HTTP/2. Otherwise it is one of DoContext. A Transport that speaks HTTP/3
// only has its own error for that, http3.ErrNotHTTP3.
func (c *Client) ConnectProtocol(ctx context.Context, protocol string, req *Request, resp *Response) (net.Conn, error) {
	hc, err := c.hostFor(req)
	if err != nil {
		return nil, err
	}
	defer hc.pending.Add(-1)
	hc.lastUse.Store(hc.pool.Now())
	return hc.ConnectProtocol(ctx, protocol, req, resp)
}

// ConnectProtocol is Client.ConnectProtocol.
func (c *HostClient) ConnectProtocol(ctx context.Context, protocol string, req *Request, resp *Response) (net.Conn, error) {
	call := c.newCall(ctx)
	conn, err := c.connectProtocol(&call, protocol, req, resp)
	if err != nil {
		return nil, doError(call.explain(err))
	}
	return conn, nil
}

// connectProtocol asks over HTTP/3 if Transport speaks it, otherwise over HTTP/2.
func (c *HostClient) connectProtocol(call *clientCall, protocol string, req *Request, resp *Response) (net.Conn, error) {
	attached := protocolOf(c.Transport)
	if attached == nil && !c.mayUseHTTP2() {
		return nil, ErrNoConnectProtocol
	}
	if err := checkTarget(req, c.IsTLS); err != nil {
		return nil, err
	}
	if attached != nil {
		conn, err := c.askForTunnel(call, func() tunnelAnswer { return c.askAttached(call, attached, protocol, req, resp) })
		if err != streams.ErrElsewhere {
			return conn, err
		}
		if !c.mayUseHTTP2() {
			return nil, ErrNoConnectProtocol
		}
	}
	return c.askForTunnel(call, func() tunnelAnswer { return c.askHTTP2(call, protocol, req, resp) })
}

// A tunnelAnswer is the result of asking for another protocol.
type tunnelAnswer struct {
	conn     net.Conn      // nil: the response refuses, or err is not nil
	outcome  streamOutcome // streamInvalid: err is final
	isReused bool          // the connection had other requests
	err      error
}

// askForTunnel asks until the server has answered, or the error is final.
func (c *HostClient) askForTunnel(call *clientCall, ask func() tunnelAnswer) (net.Conn, error) {
	for attempt := 1; ; {
		a := ask()
		switch {
		case a.err == nil, a.outcome == streamInvalid, call.err() != nil:
			return a.conn, a.err
		case a.outcome == streamStale && a.isReused: // the connection had ended unnoticed, or is full
			continue
		case call.progress == hasSent, attempt == positiveOr(c.MaxIdemponentCallAttempts, DefaultMaxIdemponentCallAttempts):
			return nil, a.err
		}
		attempt++
	}
}

// askHTTP2 asks once over HTTP/2.
func (c *HostClient) askHTTP2(call *clientCall, protocol string, req *Request, resp *Response) (a tunnelAnswer) {
	m, cc, err := c.acquire(call, forEither)
	switch {
	case err != nil:
		return tunnelAnswer{outcome: streamInvalid, err: err}
	case cc != nil:
		c.release(cc)
		return tunnelAnswer{outcome: streamInvalid, err: ErrNoConnectProtocol}
	}
	a.isReused = m.Conn.wasUsed.Swap(true)
	// Not of the pool: a tunnel may be used after its Close.
	x := &http2Call{member: m}
	x.c, x.nc, x.call, x.req, x.resp, x.protocol = c, m.Conn.nc, call, req, resp, []byte(protocol)
	x.carrier = x
	a.conn, a.outcome, a.err = x.openTunnel(m.Conn.addr)
	if errors.Is(a.err, streams.ErrNoConnect) || a.err != nil && call.err() == nil && call.needsHTTP1 && c.HTTP2 == HTTP2Auto {
		return tunnelAnswer{outcome: streamInvalid, err: ErrNoConnectProtocol}
	}
	return a
}

// openTunnel asks on the carrier, whose connection is with addr. It gives its place back, unless
// the result is a stream, or the response has one.
func (x *streamCall) openTunnel(addr string) (net.Conn, streamOutcome, error) {
	x.call.progress, x.call.upstream, x.call.phase = hasConn, addr, PhaseWrite
	x.c.prepareResponse(x.resp, x.req.Header.IsHead())
	x.c.prepareRequest(x.call, x.req)
	if err := x.req.prepareHead(); err != nil {
		x.carrier.giveBack()
		return nil, streamInvalid, err
	}
	x.params.Request, x.params.IsConnect, x.params.Context, x.params.ReadTimeout = x, true, x.call.Context, x.c.ReadTimeout
	if err := x.carrier.do(); err != nil {
		outcome := x.fail(err)
		err = x.carrier.explain(err)
		x.carrier.giveBack()
		return nil, outcome, err
	}
	tunnel := x.carrier.tunnel()
	switch {
	case tunnel != nil:
		x.resp.ParseNetConn(x.nc)
		x.req, x.resp, x.call = nil, nil, nil
		return tunnel, streamDone, nil
	case x.form == bodyStreamed:
		x.streamBody()
	default:
		x.finish()
		x.carrier.giveBack()
	}
	return nil, streamDone, nil
}

func (x *http2Call) tunnel() net.Conn {
	t := x.stream.Tunnel()
	if t == nil {
		return nil
	}
	return &clientTunnel{t, x}
}

// A clientTunnel is the result of ConnectProtocol. It has a place for a stream until Close.
type clientTunnel struct {
	*http2client.Tunnel
	x *http2Call
}

// Close implements net.Conn.
func (t *clientTunnel) Close() error {
	err := t.Tunnel.Close()
	if err == nil {
		t.x.c.releaseHTTP2(t.x.member)
	}
	return err
}
