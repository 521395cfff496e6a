package fasthttpproxy

import (
	"context"
	"net"
	"time"

	"github.com/sluicehttp/sluice"
)

// DialerFunc makes a function a Dialer of golang.org/x/net/proxy.
type DialerFunc func(network, addr string) (net.Conn, error)

// Dial returns d(network, addr).
func (d DialerFunc) Dial(network, addr string) (net.Conn, error) { return d(network, addr) }

// FasthttpHTTPDialer returns a dial function that connects through proxy, for
// example "http://user:password@localhost:3128" or "localhost:3128", within
// sluice.DefaultDialTimeout. It connects to the proxy over IPv4. With an empty
// proxy it connects directly. If proxy is malformed, each call of the dial
// function returns the error.
func FasthttpHTTPDialer(proxy string) sluice.DialFunc {
	return through(proxy, "http", &Dialer{})
}

// FasthttpHTTPDialerTimeout is FasthttpHTTPDialer with another time-out. It
// bounds connecting to the proxy and the request for the tunnel together. 0
// selects sluice.DefaultDialTimeout.
func FasthttpHTTPDialerTimeout(proxy string, timeout time.Duration) sluice.DialFunc {
	return through(proxy, "http", &Dialer{Timeout: timeout})
}

// FasthttpHTTPDialerDualStack is FasthttpHTTPDialer, which connects to the proxy
// over IPv6 and IPv4.
func FasthttpHTTPDialerDualStack(proxy string) sluice.DialFunc {
	return through(proxy, "http", &Dialer{DialDualStack: true})
}

// FasthttpHTTPDialerDualStackTimeout is FasthttpHTTPDialerTimeout, which connects
// to the proxy over IPv6 and IPv4.
func FasthttpHTTPDialerDualStackTimeout(proxy string, timeout time.Duration) sluice.DialFunc {
	return through(proxy, "http", &Dialer{Timeout: timeout, DialDualStack: true})
}

// FasthttpSocksDialer is FasthttpHTTPDialer for a SOCKS5 proxy, for example
// "socks5://localhost:9050" or "localhost:9050".
func FasthttpSocksDialer(proxyAddr string) sluice.DialFunc {
	return through(proxyAddr, "socks5", &Dialer{})
}

// FasthttpSocksDialerDualStack is FasthttpSocksDialer, which connects to the
// proxy over IPv6 and IPv4.
func FasthttpSocksDialerDualStack(proxyAddr string) sluice.DialFunc {
	return through(proxyAddr, "socks5", &Dialer{DialDualStack: true})
}

// FasthttpProxyHTTPDialer returns a dial function that connects through the
// proxies of the environment, within sluice.DefaultDialTimeout. It reads the
// environment once; see Dialer.GetDialFunc. If a proxy there is malformed, each
// call of the dial function returns the error.
func FasthttpProxyHTTPDialer() sluice.DialFunc { return FasthttpProxyHTTPDialerTimeout(0) }

// FasthttpProxyHTTPDialerTimeout is FasthttpProxyHTTPDialer with another
// time-out. 0 selects sluice.DefaultDialTimeout.
func FasthttpProxyHTTPDialerTimeout(timeout time.Duration) sluice.DialFunc {
	dial, err := (&Dialer{Timeout: timeout}).GetDialFunc(true)
	if err != nil {
		return failing(err)
	}
	return dial
}

// through returns a dial function of d through the proxy text. scheme is the
// default scheme of the proxy.
func through(text, scheme string, d *Dialer) sluice.DialFunc {
	var p *proxy
	if text != "" {
		var err error
		if p, err = parseProxy(text, scheme); err != nil {
			return failing(err)
		}
	}
	return func(addr string) (net.Conn, error) { return d.through(context.Background(), p, addr) }
}

// failing returns a dial function that always fails with err.
func failing(err error) sluice.DialFunc {
	return func(string) (net.Conn, error) { return nil, err }
}
