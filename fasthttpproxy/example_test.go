package fasthttpproxy_test

import (
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpproxy"
)

// A client whose requests go through the proxies that HTTP_PROXY, HTTPS_PROXY and NO_PROXY
// name.
func ExampleFasthttpProxyHTTPDialer() {
	client := &sluice.Client{Dial: fasthttpproxy.FasthttpProxyHTTPDialer()}
	_ = client // client.Get(nil, "https://example.com/")
}

// A client whose requests go through one SOCKS5 proxy with a password.
func ExampleFasthttpSocksDialerDualStack() {
	client := &sluice.Client{Dial: fasthttpproxy.FasthttpSocksDialerDualStack("socks5://user:password@127.0.0.1:1080")}
	_ = client // client.Get(nil, "https://example.com/")
}

// A Dialer connects within the context of a request, and has limits of its own.
func ExampleDialer() {
	dialer := &fasthttpproxy.Dialer{Timeout: 2 * time.Second, DialDualStack: true}
	dial, err := dialer.GetDialContextFunc(true) // with the proxies of the environment
	if err != nil {
		panic(err)
	}
	client := &sluice.Client{DialContext: dial}
	_ = client // client.DoContext(ctx, req, resp)
}
