// Package fasthttpproxy has dial functions that connect through proxies: HTTP and
// HTTPS proxies with CONNECT (RFC 9110 section 9.3.6), and SOCKS5 proxies (RFC
// 1928).
//
// A proxy is given as a URL, scheme://user:password@host:port. The scheme is
// http, https (TLS to the proxy itself), socks5 or socks5h. The last two are the
// same: the proxy looks up hosts. The default scheme is http, and socks5 in the
// functions for SOCKS. The default port is 80, 443 or 1080. User and password
// are percent-encoded where necessary.
//
// Dial functions use a tunnel for every connection through a proxy, even for
// plain HTTP: the proxy receives only host and port.
package fasthttpproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/dial"
	"golang.org/x/net/http/httpproxy"
)

// Dialer makes dial functions that choose a proxy by address: see GetDialFunc.
// The zero value has no proxies. A Dialer must not be copied, and must not be
// changed after its first use. It is safe for concurrent use.
//
// The methods Dial, DialTimeout, DialDualStackTimeout, DialContext and
// DialNetwork connect without a proxy.
type Dialer struct {
	// TCPDialer connects to proxies, and to addresses that need no proxy.
	sluice.TCPDialer

	// Config has the proxies, and NoProxy for addresses that need none. Loopback
	// addresses and localhost never need one.
	httpproxy.Config

	// Timeout bounds a whole dial: connecting to the proxy, TLS to the proxy and
	// the request for the tunnel. 0 selects sluice.DefaultDialTimeout.
	Timeout time.Duration

	// ConnectTimeout bounds TLS to the proxy and the request for the tunnel. It
	// starts when the connection to the proxy is established, and replaces the
	// rest of Timeout. With 0, Timeout bounds these steps, too.
	ConnectTimeout time.Duration

	// DialDualStack makes dial functions of this Dialer connect to proxies, and to
	// addresses that need none, over IPv6 and IPv4; false is IPv4 only.
	DialDualStack bool

	// TLSConfig configures TLS to https proxies. nil selects the defaults. An
	// empty ServerName stands for the proxy's host.
	TLSConfig *tls.Config
}

// Dial connects to addr, "host:port", without a proxy, within Timeout. network is
// "tcp", "tcp4" or "tcp6"; the error of another one is net.UnknownNetworkError.
// With this method, Dialer implements Dialer of golang.org/x/net/proxy.
func (d *Dialer) Dial(network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.timeout(), sluice.ErrDialTimeout)
	defer cancel()
	return d.DialNetwork(ctx, network, addr)
}

// GetDialFunc returns a dial function that connects through the proxy for the
// address: HTTPSProxy for port 443, and HTTPProxy for other ports. It uses no
// proxy if NoProxy lists the address or the proxy is not set. With useEnv, the
// proxies are those of the environment instead of d's Config. GetDialFunc then
// reads HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or their lower-case names, once.
//
// GetDialFunc returns an error if the address of a proxy is malformed. An
// unknown scheme, and HTTPProxy in a CGI program, are errors of the dial function
// for addresses that need that proxy. The other errors of the dial function are
// those of sluice.TCPDialer while connecting to the proxy or the address, and
// *TunnelError after that.
func (d *Dialer) GetDialFunc(useEnv bool) (sluice.DialFunc, error) {
	return dialFunc(d.GetDialContextFunc(useEnv))
}

// GetDialFuncForTLS is GetDialFunc with HTTPSProxy for all addresses if isTLS,
// and with HTTPProxy for all addresses otherwise. If that proxy cannot be used
// and NoProxy is empty, GetDialFuncForTLS itself returns the error.
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

// GetDialContextFunc is GetDialFunc for a dial function with a context. If the
// context ends, the dial function fails with a *sluice.PhaseError. Timeout and
// ConnectTimeout apply, too.
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

// proxies returns the Config to use. A malformed proxy is an error: package
// httpproxy would treat it as no proxy, and connect directly to hosts that must
// not see this machine's address. An unknown scheme is an error only when an
// address needs that proxy.
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

// chosenProxy returns the proxy for an address, nil if it needs none.
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

// through connects to addr through p, or directly if p is nil.
func (d *Dialer) through(parent context.Context, p *proxy, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(parent, d.timeout(), sluice.ErrDialTimeout)
	defer cancel()
	if p == nil {
		return d.DialNetwork(ctx, dial.Network(d.DialDualStack), addr)
	}
	if err := checkTarget(addr); err != nil {
		return nil, err
	}
	conn, err := d.DialNetwork(ctx, dial.Network(d.DialDualStack), p.addr)
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
