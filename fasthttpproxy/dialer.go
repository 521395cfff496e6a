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
	"errors"
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
// It returns an error when a proxy's address is malformed. One with an unknown
// scheme, and HTTPProxy in a CGI program, are errors of the function, where the
// address needs that proxy. Its other errors are those of sluice.TCPDialer while
// connecting, to the proxy or without, and then *TunnelError.
func (d *Dialer) GetDialFunc(useEnv bool) (sluice.DialFunc, error) {
	return dialFunc(d.GetDialContextFunc(useEnv))
}

// GetDialFuncForTLS is GetDialFunc with HTTPSProxy for all addresses if isTLS,
// and else HTTPProxy. Where that proxy cannot be used and no NoProxy can except an
// address from it, the error comes at once.
func (d *Dialer) GetDialFuncForTLS(useEnv, isTLS bool) (sluice.DialFunc, error) {
	config, err := d.proxies(useEnv)
	if err != nil {
		return nil, err
	}
	choose := config.ProxyFunc()
	if config.NoProxy == "" {
		if _, err := chosenProxy(choose, "any.invalid:80", isTLS); err != nil {
			return nil, err
		}
	}
	return dialFunc(d.contextFunc(choose, func(string) bool { return isTLS }), nil)
}

// GetDialContextFunc is GetDialFunc for a function that gives up when its context
// ends, with a *sluice.PhaseError; the time-outs hold as well.
func (d *Dialer) GetDialContextFunc(useEnv bool) (func(ctx context.Context, addr string) (net.Conn, error), error) {
	config, err := d.proxies(useEnv)
	if err != nil {
		return nil, err
	}
	return d.contextFunc(config.ProxyFunc(), func(addr string) bool {
		_, port, err := net.SplitHostPort(addr)
		return err == nil && port == "443"
	}), nil
}

// dialFunc returns dial without its context.
func dialFunc(dial func(context.Context, string) (net.Conn, error), err error) (sluice.DialFunc, error) {
	if err != nil {
		return nil, err
	}
	return func(addr string) (net.Conn, error) { return dial(context.Background(), addr) }, nil
}

// proxies returns the Config that is used. Malformed proxies are an error: package
// httpproxy takes them for none, which would be no secret to those that the proxy
// is to hide us from. One with an unknown scheme is an error for those alone that
// need it.
func (d *Dialer) proxies(useEnv bool) (*httpproxy.Config, error) {
	config := &d.Config
	if useEnv {
		config = httpproxy.FromEnvironment()
	}
	for _, text := range []string{config.HTTPProxy, config.HTTPSProxy} {
		if _, err := parseProxy(text, "http"); text != "" && err != nil && !errors.Is(err, errProxyScheme) {
			return nil, err
		}
	}
	return config, nil
}

// chosenProxy returns the proxy for an address; nil: none.
func chosenProxy(choose func(*url.URL) (*url.URL, error), addr string, isTLS bool) (*proxy, error) {
	target := url.URL{Scheme: "http", Host: addr}
	if isTLS {
		target.Scheme = "https"
	}
	chosen, err := choose(&target)
	if err != nil || chosen == nil {
		return nil, err
	}
	return newProxy(chosen)
}

// contextFunc returns the dial function of a Config.
func (d *Dialer) contextFunc(choose func(*url.URL) (*url.URL, error), isTLS func(addr string) bool) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		p, err := chosenProxy(choose, addr, isTLS(addr))
		if err != nil {
			return nil, err
		}
		return d.through(ctx, p, addr)
	}
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
