// Package fasthttpproxy has dial functions that connect through proxies: HTTP and
// HTTPS proxies by CONNECT (RFC 9110 section 9.3.6), and SOCKS5 (RFC 1928).
//
// A proxy is given as a URL, scheme://user:password@host:port. The scheme is
// http, https (TLS to the proxy itself), socks5 or socks5h, which are the same:
// the proxy looks up hosts. Without a scheme it is http, and socks5 in the
// functions about SOCKS; without a port it is 80, 443 or 1080. User and password
// are percent-encoded where they need to be.
//
// What a dial function connects to it tunnels to, plain HTTP as well: the proxy
// sees only host and port.
package fasthttpproxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http/httpproxy"
)

// Dialer makes dial functions that choose a proxy by address: see GetDialFunc.
// The zero value has no proxies. A Dialer must not be changed once it is used,
// nor copied; it is safe for concurrent use.
//
// Its own methods Dial, DialTimeout, DialDualStackTimeout and DialContext connect
// without a proxy.
type Dialer struct {
	// TCPDialer connects to proxies, and to what needs none.
	sluice.TCPDialer

	// Config has the proxies, and what needs none. Addresses of this machine
	// never need one.
	httpproxy.Config

	// Timeout is how long a dial may take: connecting to the proxy, TLS to it
	// and asking it for the tunnel. 0 is sluice.DefaultDialTimeout.
	Timeout time.Duration

	// ConnectTimeout is how long TLS to the proxy and asking it for the tunnel
	// may take, in place of what Timeout leaves of the time once the proxy is
	// connected to. 0 is no time of its own.
	ConnectTimeout time.Duration

	// DialDualStack has no effect: addresses of both IP versions are dialed.
	DialDualStack bool

	// TLSConfig is for TLS to https proxies. nil is the default; an empty
	// ServerName is the proxy's host.
	TLSConfig *tls.Config
}

// Dial connects to addr, "host:port", without a proxy, within Timeout. network is
// "tcp", "tcp4" or "tcp6". It makes Dialer a Dialer of golang.org/x/net/proxy.
func (d *Dialer) Dial(network, addr string) (net.Conn, error) {
	switch network {
	case "tcp":
		return d.DialTimeout(addr, d.timeout())
	case "tcp4", "tcp6":
		direct := net.Dialer{Timeout: d.timeout(), KeepAlive: d.KeepAlive}
		if d.LocalAddr != nil {
			direct.LocalAddr = d.LocalAddr
		}
		return direct.Dial(network, addr)
	}
	return nil, net.UnknownNetworkError(network)
}

// GetDialFunc returns a dial function that connects through the proxy for the
// address: HTTPSProxy for port 443, HTTPProxy for other ports, none where NoProxy
// says so or the proxy is not set. With useEnv the proxies are not those of d's
// Config but those of the environment, HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in
// capitals or not, as they are now.
//
// It returns an error when a proxy's address is malformed. The function's errors
// are those of sluice.TCPDialer while connecting, to the proxy or without, and
// then *TunnelError.
func (d *Dialer) GetDialFunc(useEnv bool) (sluice.DialFunc, error) {
	return dialFunc(d.GetDialContextFunc(useEnv))
}

// GetDialFuncForTLS is GetDialFunc with HTTPSProxy for all addresses if isTLS,
// and else HTTPProxy.
func (d *Dialer) GetDialFuncForTLS(useEnv, isTLS bool) (sluice.DialFunc, error) {
	return dialFunc(d.contextFunc(useEnv, func(string) bool { return isTLS }))
}

// GetDialContextFunc is GetDialFunc for a function that gives up when its context
// ends, with a *sluice.PhaseError; the time-outs hold as well.
func (d *Dialer) GetDialContextFunc(useEnv bool) (func(ctx context.Context, addr string) (net.Conn, error), error) {
	return d.contextFunc(useEnv, func(addr string) bool {
		_, port, err := net.SplitHostPort(addr)
		return err == nil && port == "443"
	})
}

// dialFunc returns dial without its context.
func dialFunc(dial func(context.Context, string) (net.Conn, error), err error) (sluice.DialFunc, error) {
	if err != nil {
		return nil, err
	}
	return func(addr string) (net.Conn, error) { return dial(context.Background(), addr) }, nil
}

// contextFunc returns the dial function of a Config.
func (d *Dialer) contextFunc(useEnv bool, isTLS func(addr string) bool) (func(context.Context, string) (net.Conn, error), error) {
	config := &d.Config
	if useEnv {
		config = httpproxy.FromEnvironment()
	}
	// httpproxy takes a malformed proxy for none, which would be no secret to
	// those that the proxy is to hide us from.
	for _, text := range []string{config.HTTPProxy, config.HTTPSProxy} {
		if _, err := parseProxy(text, "http"); text != "" && err != nil {
			return nil, err
		}
	}
	choose := config.ProxyFunc()
	return func(ctx context.Context, addr string) (net.Conn, error) {
		target := url.URL{Scheme: "http", Host: addr}
		if isTLS(addr) {
			target.Scheme = "https"
		}
		chosen, err := choose(&target)
		if err != nil {
			return nil, err
		}
		if chosen == nil {
			return d.through(ctx, nil, addr)
		}
		p, err := newProxy(chosen)
		if err != nil {
			return nil, err
		}
		return d.through(ctx, p, addr)
	}, nil
}

func (d *Dialer) timeout() time.Duration {
	if d.Timeout > 0 {
		return d.Timeout
	}
	return sluice.DefaultDialTimeout
}

// through connects to addr through p, directly if that is nil.
func (d *Dialer) through(parent context.Context, p *proxy, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(parent, d.timeout(), sluice.ErrDialTimeout)
	defer cancel()
	if p == nil {
		return d.DialContext(ctx, addr)
	}
	if err := checkTarget(addr); err != nil {
		return nil, err
	}
	conn, err := d.DialContext(ctx, p.addr)
	if err != nil {
		return nil, err
	}
	if d.ConnectTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(parent, d.ConnectTimeout, sluice.ErrDialTimeout)
		defer cancel()
	}
	return p.tunnel(ctx, conn, addr, d.TLSConfig)
}
