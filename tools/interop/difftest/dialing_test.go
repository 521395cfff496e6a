package difftest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	sluiceproxy "github.com/sluicehttp/sluice/fasthttpproxy"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpproxy"
)

// TestDialNetworks: which dial functions and clients reach an address of IPv6, and
// that all of them reach one of IPv4.
func TestDialNetworks(t *testing.T) {
	addrs := map[string]string{}
	for name, addr := range map[string]string{"IPv4": "127.0.0.1:0", "IPv6": "[::1]:0"} {
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
		if err != nil {
			t.Skip(err)
		}
		defer ln.Close()
		addrs[name] = ln.Addr().String()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					conn.Read(make([]byte, 4096))
					conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				}()
			}
		}()
	}
	const wait = 5 * time.Second
	theirs, theirDual := &fasthttpproxy.Dialer{}, &fasthttpproxy.Dialer{DialDualStack: true}
	ours, ourDual := &sluiceproxy.Dialer{}, &sluiceproxy.Dialer{DialDualStack: true}
	rows := map[string][2]func(addr string) error{
		"Dial":                 {dialed(fasthttp.Dial), dialed(sluice.Dial)},
		"DialTimeout":          {within(fasthttp.DialTimeout, wait), within(sluice.DialTimeout, wait)},
		"DialDualStack":        {dialed(fasthttp.DialDualStack), dialed(sluice.DialDualStack)},
		"DialDualStackTimeout": {within(fasthttp.DialDualStackTimeout, wait), within(sluice.DialDualStackTimeout, wait)},
		"TCPDialer":            {dialed(new(fasthttp.TCPDialer).Dial), dialed(new(sluice.TCPDialer).Dial)},
		"TCPDialer, unresolved": {
			dialed((&fasthttp.TCPDialer{DisableDNSResolution: true}).Dial), dialed((&sluice.TCPDialer{DisableDNSResolution: true}).Dial),
		},
		"proxy.Dialer tcp":  {network(theirs.Dial, "tcp"), network(ours.Dial, "tcp")},
		"proxy.Dialer tcp4": {network(theirs.Dial, "tcp4"), network(ours.Dial, "tcp4")},
		"proxy.GetDialFunc": {made(theirs.GetDialFunc), made(ours.GetDialFunc)},
		"proxy, dual stack": {made(theirDual.GetDialFunc), made(ourDual.GetDialFunc)},
		"HTTP proxy": {
			func(addr string) error { return dialed(fasthttpproxy.FasthttpHTTPDialer(addr))("e.test:80") },
			func(addr string) error { return dialed(sluiceproxy.FasthttpHTTPDialer(addr))("e.test:80") },
		},
		"HTTP proxy, dual stack": {
			func(addr string) error { return dialed(fasthttpproxy.FasthttpHTTPDialerDualStack(addr))("e.test:80") },
			func(addr string) error { return dialed(sluiceproxy.FasthttpHTTPDialerDualStack(addr))("e.test:80") },
		},
		"Client":             {theirGet(&fasthttp.Client{}), ourGet(&sluice.Client{})},
		"Client, dual stack": {theirGet(&fasthttp.Client{DialDualStack: true}), ourGet(&sluice.Client{DialDualStack: true})},
	}
	for name, dial := range rows {
		for version, addr := range addrs {
			if their, our := dial[0](addr), dial[1](addr); (their == nil) != (our == nil) {
				t.Errorf("%s, %s: fasthttp %v, Sluice %v", name, version, their, our)
			}
		}
	}
}

// dialed returns a function that dials with dial, and closes the connection.
func dialed[F ~func(string) (net.Conn, error)](dial F) func(string) error {
	return func(addr string) error {
		conn, err := dial(addr)
		if conn != nil {
			conn.Close()
		}
		return err
	}
}

func within(dial func(string, time.Duration) (net.Conn, error), limit time.Duration) func(string) error {
	return dialed(func(addr string) (net.Conn, error) { return dial(addr, limit) })
}

func network(dial func(network, addr string) (net.Conn, error), name string) func(string) error {
	return dialed(func(addr string) (net.Conn, error) { return dial(name, addr) })
}

func made[F ~func(string) (net.Conn, error)](dialFunc func(useEnv bool) (F, error)) func(string) error {
	dial, err := dialFunc(false)
	if err != nil {
		return func(string) error { return err }
	}
	return dialed(dial)
}

func theirGet(c *fasthttp.Client) func(string) error {
	return func(addr string) error { _, _, err := c.Get(nil, "http://"+addr+"/"); return err }
}

func ourGet(c *sluice.Client) func(string) error {
	return func(addr string) error { _, _, err := c.Get(nil, "http://"+addr+"/"); return err }
}
