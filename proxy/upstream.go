package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/balance"
)

// An upstream is where requests are sent. It is a balance.Client.
type upstream struct {
	name    string // as in Options.To
	host    string // for Host, with RewriteHost
	addr    string // to dial
	network string
	isTLS   bool
	isPlain bool // no upstream has TLS, and no hook sees requests: all have the scheme http
	options *Options
	client  sluice.HostClient
	seed    uint64 // of name, for Hash
	id      string // for Sticky: the value of the cookie
	tls     *tls.Config
	sent    atomic.Uint64 // attempts
	ended   atomic.Uint64 // of them; the others are pending
	failed  atomic.Uint64 // of them
	tunnels atomic.Int64  // of those that are pending
	hedged  atomic.Uint64 // of them: the second one of a request that was slow
}

// PendingRequests implements balance.Client. A request counts until the end of its response.
func (u *upstream) PendingRequests() int {
	ended := u.ended.Load() // before sent, which is never less
	return int(u.sent.Load() - ended)
}

func newUpstream(to string, o *Options) (*upstream, error) {
	if !strings.Contains(to, "://") && !strings.HasPrefix(to, "unix:") {
		return nil, fmt.Errorf("sluice: proxy: the upstream %q has no scheme: it must be http, https, h2c or h2://HOST, or unix:PATH", to)
	}
	parsed, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("sluice: proxy: the upstream %q is not http, https, h2c or h2://HOST, or unix:PATH: %w", to, errors.Unwrap(err))
	}
	u := &upstream{name: to, host: parsed.Host, network: "tcp", options: o, seed: hashOf(to)}
	if o.Balance == Sticky {
		u.id = stickyID(o.StickyKey, to)
	}
	mode := sluice.HTTP2Off
	switch parsed.Scheme {
	case "http":
	case "https":
		u.isTLS = true
	case "h2c":
		mode = sluice.HTTP2Only
	case "h2":
		u.isTLS, mode = true, sluice.HTTP2Only
	case "unix":
		u.network, u.addr, u.host = "unix", parsed.Path, "localhost"
	default:
		return nil, fmt.Errorf("sluice: proxy: the upstream %q is not http, https, h2c or h2://HOST, or unix:PATH", to)
	}
	switch isUnix := u.network == "unix"; {
	case parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil || parsed.Opaque != "",
		isUnix != (parsed.Hostname() == ""), isUnix != (parsed.Path != "" && parsed.Path != "/"):
		return nil, fmt.Errorf("sluice: proxy: the upstream %q must be a scheme and a host, without a path, or unix:PATH", to)
	case !isUnix:
		u.addr = sluice.AddMissingPort(parsed.Host, u.isTLS)
		_, port, err := net.SplitHostPort(u.addr)
		if err != nil {
			return nil, fmt.Errorf("sluice: proxy: the upstream %q: %w", to, err)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("sluice: proxy: the upstream %q: the port is not from 1 to 65535", to)
		}
	}
	u.setClient(&u.client, mode)
	u.client.MaxConns, u.client.MaxConnWaitTimeout = o.MaxConns, o.MaxWait
	if u.isTLS {
		u.tls = &tls.Config{}
		if o.TLSConfig != nil {
			u.tls = o.TLSConfig.Clone()
		}
		if u.tls.ServerName == "" {
			u.tls.ServerName = parsed.Hostname()
		}
		u.tls.NextProtos = []string{"http/1.1"}
	}
	return u, nil
}

// setClient sets what all clients of u have in common.
func (u *upstream) setClient(c *sluice.HostClient, mode sluice.HTTP2Mode) {
	o := u.options
	c.Addr, c.IsTLS, c.TLSConfig, c.HTTP2 = u.addr, u.isTLS, o.TLSConfig, mode
	c.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return u.dial(ctx) }
	c.NoDefaultUserAgentHeader, c.DisablePathNormalizing = true, true
	c.ReadTimeout, c.ReadBufferSize = o.Timeout, o.MaxHead
	// The second one is for a connection that the upstream has closed when the request came.
	c.MaxIdemponentCallAttempts = 2
}

// aim makes u the target of a request.
func (x *exchange) aim(req *sluice.Request, u *upstream) {
	if x.namesUpstream {
		req.Header.SetHost(u.host)
	}
	if u.isPlain {
		return
	}
	scheme := "http"
	if u.isTLS {
		scheme = "https"
	}
	if uri := req.URI(); string(uri.Scheme()) != scheme {
		uri.SetScheme(scheme)
	}
}

// dial connects to u, without TLS. It is not an option: only the client of u may close its
// connections, because exchange.Holder sends on them.
func (u *upstream) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.options.DialTimeout)
	defer cancel()
	if u.network == "tcp" {
		return sluice.DialContext(ctx, u.addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, u.network, u.addr)
}

// connect returns a connection of HTTP/1.1 for one request.
func (u *upstream) connect(ctx context.Context) (net.Conn, error) {
	conn, err := u.dial(ctx)
	if err != nil || !u.isTLS {
		return conn, err
	}
	ctx, cancel := context.WithTimeout(ctx, u.options.DialTimeout)
	defer cancel()
	secure := tls.Client(conn, u.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// An UpstreamStatus is what a Proxy knows of an upstream.
type UpstreamStatus struct {
	// Name is that of Options.To.
	Name string `json:"name"`
	// IsUp reports whether it gets its part of the requests. If not, requests or tests have failed.
	IsUp bool `json:"is_up"`
	// Pending is the number of requests in progress, up to the end of the response, and of
	// tunnels.
	Pending int `json:"pending"`
	// Tunnels is how many of Pending are tunnels.
	Tunnels int `json:"tunnels"`
	// Sent counts the requests that were sent, or would have been if the upstream could be
	// reached, and Failed those without a response. Repetitions count. Hedged counts those of
	// Sent that were hedges: see Options.HedgeAfter.
	Sent   uint64 `json:"sent"`
	Failed uint64 `json:"failed"`
	Hedged uint64 `json:"hedged"`
}

// Status returns what the proxy knows of its upstreams, in the order of Options.To.
func (p *Proxy) Status() []UpstreamStatus {
	all := make([]UpstreamStatus, 0, len(p.options.To))
	for _, m := range p.group.Members() {
		all = append(all, statusOf(m))
	}
	return all
}

func statusOf(m *balance.Member[*upstream]) UpstreamStatus {
	u := m.Client
	return UpstreamStatus{
		Name: u.name, IsUp: m.IsUp(), Pending: u.PendingRequests(), Tunnels: int(u.tunnels.Load()),
		Sent: u.sent.Load(), Failed: u.failed.Load(), Hedged: u.hedged.Load(),
	}
}
