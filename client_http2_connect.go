package sluice

import (
	"context"
	"errors"
	"net"

	http2client "github.com/sluicehttp/sluice/internal/client/http2"
)

// ConnectProtocol asks the server of req for another protocol, such as "websocket", on a
// stream of HTTP/2 (extended CONNECT, RFC 8441). Requests and other streams share the
// connection, which is one of the client's pool. The method, the body and the time-out of req
// have no effect. ctx bounds the call; it has no effect on what the call returns.
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
// Client.HTTP2 excludes HTTP/2. Otherwise it is one of DoContext.
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

// connectProtocol asks until the server has answered, or the error is final.
func (c *HostClient) connectProtocol(call *clientCall, protocol string, req *Request, resp *Response) (net.Conn, error) {
	if !c.mayUseHTTP2() {
		return nil, ErrNoConnectProtocol
	}
	if err := checkTarget(req, c.IsTLS); err != nil {
		return nil, err
	}
	for attempt := 1; ; {
		m, cc, err := c.acquire(call, forEither)
		switch {
		case err != nil:
			return nil, err
		case cc != nil:
			c.release(cc)
			return nil, ErrNoConnectProtocol
		}
		isReused := m.Conn.wasUsed.Swap(true)
		conn, outcome, err := c.openTunnel(call, m, protocol, req, resp)
		switch {
		case err == nil, call.err() != nil:
			return conn, err
		case errors.Is(err, http2client.ErrNoConnect), call.needsHTTP1 && c.HTTP2 == HTTP2Auto:
			return nil, ErrNoConnectProtocol
		case outcome == streamStale && isReused: // m had ended unnoticed, or is full
			continue
		case call.progress == hasSent, attempt == positiveOr(c.MaxIdemponentCallAttempts, DefaultMaxIdemponentCallAttempts):
			return nil, err
		}
		attempt++
	}
}

// openTunnel asks on a stream of m. It gives its place back, unless the result is a stream,
// or the response has one.
func (c *HostClient) openTunnel(call *clientCall, m *http2Member, protocol string, req *Request, resp *Response) (net.Conn, streamOutcome, error) {
	call.progress, call.upstream, call.phase = hasConn, m.Conn.addr, PhaseWrite
	c.prepareResponse(resp, req.Header.IsHead())
	c.prepareRequest(req)
	// Not of the pool: a tunnel may be used after its Close.
	x := &http2Call{member: m}
	x.c, x.nc, x.call, x.req, x.resp, x.protocol = c, m.Conn.nc, call, req, resp, []byte(protocol)
	x.carrier = x
	if err := req.prepareHead(); err != nil {
		c.releaseHTTP2(m)
		return nil, streamInvalid, err
	}
	s := &x.stream
	x.params.Context = call.Context
	s.Request, s.IsConnect, s.Context, s.ReadTimeout = x, true, call.Context, c.ReadTimeout
	err := m.Conn.conn.Do(s)
	tunnel := s.Tunnel()
	switch {
	case err != nil:
		outcome := x.fail(err)
		err = x.explain(err)
		c.releaseHTTP2(m)
		return nil, outcome, err
	case tunnel != nil:
		resp.ParseNetConn(m.Conn.nc)
		x.req, x.resp, x.call = nil, nil, nil
		return &clientTunnel{tunnel, x}, streamDone, nil
	case x.form == bodyStreamed:
		x.streamBody()
	default:
		x.finish()
		c.releaseHTTP2(m)
	}
	return nil, streamDone, nil
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
