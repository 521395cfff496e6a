package sluice

import (
	"bytes"
	"math"
)

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
func (c *PipelineClient) doHTTP2(req *Request, resp *Response) error {
	if resp == nil {
		return c.host.Do(req, nil)
	}
	streams := resp.StreamBody
	resp.StreamBody = false
	err := c.host.Do(req, resp)
	resp.StreamBody = streams
	if err == nil && streams && !resp.SkipBody {
		content := resp.SwapBody(nil)
		resp.setStream(bytes.NewReader(content), len(content))
	}
	return err
}
