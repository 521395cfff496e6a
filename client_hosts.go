package sluice

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// Do sends req and reads the response into resp, which may be nil. The URI says
// where to, and must have the scheme http or https and a host. Redirects are not
// followed. The request's own timeout (Request.SetTimeout) bounds it.
//
// ErrNoFreeConns: MaxConnsPerHost are in use. ErrTimeout: there was no more
// time. ErrConnectionClosed: the server closed the connection without an answer.
// *ErrDialWithUpstream: there is no connection. Other errors say what is wrong
// with the response.
func (c *Client) Do(req *Request, resp *Response) error {
	hc, err := c.hostFor(req)
	if err != nil {
		return err
	}
	defer hc.pending.Add(-1)
	return hc.do(req, resp)
}

// DoTimeout is Do with a bound. ErrTimeout is returned when timeout has passed;
// the request is then given up.
func (c *Client) DoTimeout(req *Request, resp *Response, timeout time.Duration) error {
	return doTimeout(c, req, resp, timeout)
}

// DoDeadline is Do with a bound. ErrTimeout is returned when deadline has come;
// the request is then given up.
func (c *Client) DoDeadline(req *Request, resp *Response, deadline time.Time) error {
	return doDeadline(c, req, resp, deadline)
}

// DoContext is Do that ends when ctx does: in whatever phase the request is, it
// is given up at once. The error is then a *PhaseError, which says in which. A
// response whose body is a stream depends on ctx until the stream is closed.
func (c *Client) DoContext(ctx context.Context, req *Request, resp *Response) error {
	return doContext(ctx, c, req, resp)
}

// hostFor returns the HostClient for a request, which is counted in its pending:
// so it is not dropped as unused.
func (c *Client) hostFor(req *Request) (*HostClient, error) {
	uri := req.URI()
	if req.uriError != nil {
		return nil, req.uriError
	}
	isTLS := uri.isHTTPS()
	if !isTLS && string(uri.Scheme()) != schemeHTTP {
		return nil, errUnsupportedScheme
	}
	host := uri.Host()
	if len(host) == 0 {
		return nil, errMissingHost
	}
	c.mu.RLock()
	hc := c.hostsOf(isTLS)[string(host)]
	if hc != nil {
		hc.pending.Add(1)
	}
	c.mu.RUnlock()
	if hc != nil {
		return hc, nil
	}
	return c.addHost(string(host), isTLS)
}

// hostsOf returns the HostClients of a scheme: a map by strings alone is twice as
// quick as one map for both. Called with the lock.
func (c *Client) hostsOf(isTLS bool) map[string]*HostClient {
	if isTLS {
		return c.tlsHosts
	}
	return c.hosts
}

// maxIdleHosts is from how many hosts on those are dropped that are not in use.
const maxIdleHosts = 1024

// addHost makes the HostClient of a host, for a request as hostFor says.
func (c *Client) addHost(host string, isTLS bool) (*HostClient, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hc := c.hostsOf(isTLS)[host]; hc != nil {
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
		c.dropUnused()
	}
	hc.pending.Add(1)
	c.hostsOf(isTLS)[host] = hc
	return hc, nil
}

// dropUnused forgets hosts that have no connections: names of hosts may come
// from anywhere. Called with the lock.
func (c *Client) dropUnused() {
	now := clock.Nanos()
	if now-c.lastDrop < int64(time.Second) {
		return // looking at all of them for each new one would be quadratic
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
		MaxIdleConnDuration:           c.MaxIdleConnDuration,
		MaxConnDuration:               c.MaxConnDuration,
		MaxIdemponentCallAttempts:     c.MaxIdemponentCallAttempts,
		ReadBufferSize:                c.ReadBufferSize,
		WriteBufferSize:               c.WriteBufferSize,
		ReadTimeout:                   c.ReadTimeout,
		WriteTimeout:                  c.WriteTimeout,
		MaxResponseBodySize:           c.MaxResponseBodySize,
		DisableHeaderNamesNormalizing: c.DisableHeaderNamesNormalizing,
		DisablePathNormalizing:        c.DisablePathNormalizing,
		MaxConnWaitTimeout:            c.MaxConnWaitTimeout,
		RetryIf:                       c.RetryIf,
		RetryIfErr:                    c.RetryIfErr,
		RetryIfErrUpstream:            c.RetryIfErrUpstream,
		ConnPoolStrategy:              c.ConnPoolStrategy,
		StreamResponseBody:            c.StreamResponseBody,
		Transport:                     c.Transport,
		Trace:                         c.Trace,
	}
}

// CloseIdleConnections closes the connections that are not in use. Others are
// not affected, and the Client can be used further.
func (c *Client) CloseIdleConnections() {
	for _, hc := range c.hostClients() {
		hc.CloseIdleConnections()
	}
}

// hostClients returns the HostClients there are.
func (c *Client) hostClients() []*HostClient {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := slices.AppendSeq(make([]*HostClient, 0, len(c.hosts)+len(c.tlsHosts)), maps.Values(c.hosts))
	return slices.AppendSeq(all, maps.Values(c.tlsHosts))
}

// ConnsCount returns the number of connections to all hosts, those that are
// being made included.
func (c *Client) ConnsCount() (n int) {
	for _, hc := range c.hostClients() {
		n += hc.ConnsCount()
	}
	return n
}

// IdleConnsCount returns the number of connections to all hosts that are not in
// use.
func (c *Client) IdleConnsCount() (n int) {
	for _, hc := range c.hostClients() {
		n += hc.IdleConnsCount()
	}
	return n
}
