package sluice

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Do sends req and reads the response into resp, which may be nil. The URI
// determines the server; it must have a host and the scheme http or https. Do
// does not follow redirects. The request's own timeout (Request.SetTimeout)
// limits the call.
//
// Do returns ErrNoFreeConns if MaxConnsPerHost connections are in use,
// ErrTimeout if the time ran out, ErrConnectionClosed if the server closed the
// connection without a response, and *ErrDialWithUpstream if it could not
// connect. Other errors describe what is wrong with the request or the
// response.
func (c *Client) Do(req *Request, resp *Response) error {
	call := beginCall(req)
	defer call.end(req)
	return c.do(call, req, resp)
}

// do implements doer.
func (c *Client) do(call *clientCall, req *Request, resp *Response) error {
	hc, err := c.hostFor(req)
	if err != nil {
		return err
	}
	defer hc.pending.Add(-1)
	return hc.send(call, req, resp)
}

// DoTimeout is Do with a time limit. After timeout, it gives the request up and
// returns ErrTimeout.
func (c *Client) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return doTimeout(c, req, resp, timeout)
}

// DoDeadline is DoTimeout with the time until deadline.
func (c *Client) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return doTimeout(c, req, resp, time.Until(deadline))
}

// DoContext is Do with a context. When ctx ends, it gives the request up at
// once, in every phase, and returns a *PhaseError, which names the phase. A
// response body that is a stream depends on ctx until the stream is closed.
func (c *Client) DoContext(ctx context.Context, req *Request, resp *Response) error {
	return doContext(ctx, c, req, resp)
}

// hostFor returns the HostClient for a request and counts the request as
// pending, so that dropUnused does not remove the HostClient.
func (c *Client) hostFor(req *Request) (*HostClient, error) {
	uri := req.URI()
	if err := req.uriFailure(); err != nil {
		return nil, err
	}
	isTLS := uri.m.IsHTTPS()
	if !isTLS && string(uri.Scheme()) != schemeHTTP {
		return nil, errUnsupportedScheme
	}
	host := uri.Host()
	if len(host) == 0 {
		return nil, errMissingHost
	}
	c.mu.RLock()
	hc := c.hostsOfLocked(isTLS)[string(host)]
	if hc != nil {
		hc.pending.Add(1)
	}
	c.mu.RUnlock()
	if hc != nil {
		return hc, nil
	}
	return c.addHost(string(host), isTLS)
}

// hostsOfLocked returns the HostClients of a scheme. Two maps keyed by strings are
// twice as fast as one map keyed by both. Called with the lock.
func (c *Client) hostsOfLocked(isTLS bool) map[string]*HostClient {
	if isTLS {
		return c.tlsHosts
	}
	return c.hosts
}

// maxIdleHosts is the number of hosts from which unused ones are dropped.
const maxIdleHosts = 1024

// addHost creates the HostClient of a host and counts a pending request, as
// hostFor does.
func (c *Client) addHost(host string, isTLS bool) (*HostClient, error) {
	if host[0] == ':' { // a port alone (RFC 9110 section 4.2.1)
		return nil, errMissingHost
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if hc := c.hostsOfLocked(isTLS)[host]; hc != nil {
		hc.pending.Add(1)
		return hc, nil
	}
	hc := c.hostClient(host, isTLS)
	if c.ConfigureClient != nil {
		if err := c.ConfigureClient(hc); err != nil {
			return nil, err
		}
	}
	if c.hosts == nil {
		c.hosts, c.tlsHosts = make(map[string]*HostClient), make(map[string]*HostClient)
	}
	if len(c.hosts)+len(c.tlsHosts) >= maxIdleHosts {
		c.dropUnusedLocked()
	}
	hc.pending.Add(1)
	c.hostsOfLocked(isTLS)[host] = hc
	return hc, nil
}

// dropUnusedLocked forgets hosts without connections: host names may come from
// untrusted sources, without limit. Called with the lock.
func (c *Client) dropUnusedLocked() {
	now := clock.Nanos()
	if now-c.lastDrop < int64(time.Second) {
		return // scanning all of them for each new one would be quadratic
	}
	c.lastDrop = now
	isUnused := func(_ string, hc *HostClient) bool {
		return hc.pending.Load() == 0 && now-hc.lastUse.Load() > int64(time.Second) && hc.ConnsCount() == 0
	}
	maps.DeleteFunc(c.hosts, isUnused)
	maps.DeleteFunc(c.tlsHosts, isUnused)
}

// hostClient returns a HostClient with the fields of c.
func (c *Client) hostClient(host string, isTLS bool) *HostClient {
	return &HostClient{
		Addr:                          AddMissingPort(host, isTLS),
		IsTLS:                         isTLS,
		Name:                          c.Name,
		NoDefaultUserAgentHeader:      c.NoDefaultUserAgentHeader,
		DialContext:                   c.DialContext,
		Dial:                          c.Dial,
		DialTimeout:                   c.DialTimeout,
		DialDualStack:                 c.DialDualStack,
		TLSConfig:                     c.TLSConfig,
		MaxConns:                      c.MaxConnsPerHost,
		HTTP2:                         c.HTTP2,
		MaxHTTP2Conns:                 c.MaxHTTP2Conns,
		MaxIdleConnDuration:           c.MaxIdleConnDuration,
		MaxConnDuration:               c.MaxConnDuration,
		MaxIdemponentCallAttempts:     c.MaxIdemponentCallAttempts,
		ReadBufferSize:                c.ReadBufferSize,
		WriteBufferSize:               c.WriteBufferSize,
		ReadTimeout:                   c.ReadTimeout,
		WriteTimeout:                  c.WriteTimeout,
		ExpectContinueTimeout:         c.ExpectContinueTimeout,
		MaxResponseBodySize:           c.MaxResponseBodySize,
		DisableHeaderNamesNormalizing: c.DisableHeaderNamesNormalizing,
		DisablePathNormalizing:        c.DisablePathNormalizing,
		MaxConnWaitTimeout:            c.MaxConnWaitTimeout,
		RetryIf:                       c.RetryIf,
		RetryIfErr:                    c.RetryIfErr,
		RetryIfErrUpstream:            c.RetryIfErrUpstream,
		RetryStatus:                   c.RetryStatus,
		ConnPoolStrategy:              c.ConnPoolStrategy,
		StreamResponseBody:            c.StreamResponseBody,
		DecodeResponseBody:            c.DecodeResponseBody,
		Transport:                     c.Transport,
		Trace:                         c.Trace,
	}
}

// CloseIdleConnections closes the connections that are not in use. It does not
// affect the others, and the Client remains usable.
func (c *Client) CloseIdleConnections() {
	for _, hc := range c.hostClients() {
		hc.CloseIdleConnections()
	}
}

// hostClients returns all HostClients.
func (c *Client) hostClients() []*HostClient {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := slices.AppendSeq(make([]*HostClient, 0, len(c.hosts)+len(c.tlsHosts)), maps.Values(c.hosts))
	return slices.AppendSeq(all, maps.Values(c.tlsHosts))
}

// ConnsCount returns the number of connections to all hosts, including those
// that are being opened.
func (c *Client) ConnsCount() (n int) {
	for _, hc := range c.hostClients() {
		n += hc.ConnsCount()
	}
	return n
}

// IdleConnsCount returns the number of idle connections to all hosts.
func (c *Client) IdleConnsCount() (n int) {
	for _, hc := range c.hostClients() {
		n += hc.IdleConnsCount()
	}
	return n
}
