package server_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/test/harness"
)

// proxyHeader is a header of version 2 with all that a proxy says.
const proxyHeader = "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x5c\xc0\x00\x02\x01\xc6\x33\x64\x02\x04\xd2\x01\xbb" +
	"\x01\x00\x02h2" + "\x02\x00\x08host.tld" + "\x05\x00\x04\x00id\xff" + "\xea\x00\x03aws" +
	"\x20\x00\x30\x03\x00\x00\x00\x00" + "\x21\x00\x07TLSv1.3" + "\x22\x00\x02me" + "\x23\x00\x16TLS_AES_128_GCM_SHA256" + "\x24\x00\x00"

func anywhere() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// behind is n with connections that begin with a header.
func behind(n harness.Network, header string) harness.Network {
	listen := n.Listen
	n.Listen = func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
		ln, dial := listen(t)
		return ln, func() (net.Conn, error) {
			c, err := dial()
			if err == nil {
				_, err = io.WriteString(c, header)
			}
			return c, err
		}
	}
	return n
}

// tellProxy answers with what is known of the connection.
func tellProxy(ctx *sluice.RequestCtx) {
	info, ok := ctx.ProxyInfo()
	fmt.Fprintf(ctx, "%v %v %v %v %v", ctx.RemoteAddr(), ctx.LocalAddr(), ctx.RemoteIP(), ok, ctx.IsTLS())
	if !ok {
		return
	}
	fmt.Fprintf(ctx, " %d %q %q %q %q", info.Version, info.ServerName, info.ALPN, info.UniqueID, info.Value(0xea))
	if host, _, _ := net.SplitHostPort(info.Proxy.String()); host != "127.0.0.1" {
		fmt.Fprintf(ctx, " proxy %v", info.Proxy)
	}
	if info.TLS != nil {
		fmt.Fprintf(ctx, " %+v", *info.TLS)
	}
}

// A handler gets what the proxy has said, over each protocol and engine, and so does the next
// server of the connection.
func TestProxyProtocol(t *testing.T) {
	for _, plain := range harness.OverTCPByEach() {
		under := behind(plain, proxyHeader)
		secure := harness.OverTLS(t, under, "h2", "http/1.1")
		compact := secure
		compact.Name, compact.Compact = compact.Name+"/compact", true
		for _, n := range []harness.Network{under, secure, compact} {
			t.Run(n.Name, func(t *testing.T) {
				s := &sluice.Server{Handler: tellProxy, ProxyProtocol: sluice.ProxyProtocolRequire, ProxyTrusted: anywhere()}
				r := harness.Serve(t, n, s)
				want := fmt.Sprintf(`192.0.2.1:1234 198.51.100.2:443 192.0.2.1 true %v 2 "host.tld" "h2" "\x00id\xff" "aws"`, n.Scheme() == "https") +
					` {Version:TLSv1.3 Cipher:TLS_AES_128_GCM_SHA256 HasCertificate:true IsVerified:true CommonName:me}`
				resp, err := r.HTTP2Client().Get(n.Scheme() + "://host.tld/")
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if string(body) != want {
					t.Errorf("HTTP/2: %s\nwant %s", body, want)
				}
				if n.Secure == nil {
					p := r.Dial()
					for range 2 {
						if got := p.Get("/").Body; got != want {
							t.Errorf("HTTP/1.1: %s\nwant %s", got, want)
						}
					}
				}
			})
		}
	}
}

// A connection that is handed over keeps its addresses, also on a server that expects no
// headers; and one without a header is not asked for one.
func TestProxyProtocolHandOver(t *testing.T) {
	for _, engines := range enginePairs() {
		for _, header := range []string{proxyHeader, ""} {
			n := behind(harness.OverTCP(), header)
			from := &sluice.Server{Handler: tellProxy, Engine: engines[0], ProxyProtocol: sluice.ProxyProtocolAccept, ProxyTrusted: anywhere()}
			to := &sluice.Server{Handler: tellProxy, Engine: engines[1], ProxyProtocol: sluice.ProxyProtocolRequire, ProxyTrusted: anywhere()}
			last := &sluice.Server{Handler: tellProxy, Engine: engines[1]}
			r := harness.Serve(t, n, from)
			p := r.Dial()
			want := p.Get("/").Body
			if strings.HasPrefix(want, "192.0.2.1:1234 ") != (header != "") {
				t.Fatal(want)
			}
			for _, next := range [][2]*sluice.Server{{from, to}, {to, last}, {last, from}} {
				harness.Eventually(t, "it is handed over", func() bool {
					return next[0].Control().HandOver(-1, harness.AdoptBy(t, next[1])) == 1
				})
				if got := p.Get("/").Body; got != want {
					t.Errorf("%v: %s, want %s", engines, got, want)
				}
			}
			_ = p.Conn.Close()
			harness.Shutdown(to)
			harness.Shutdown(last)
		}
	}
}

// MaxConnsPerIP counts clients, not the proxy.
func TestProxyProtocolConnsPerIP(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			var client string
			listen := n.Listen
			n.Listen = func(t *testing.T) (net.Listener, func() (net.Conn, error)) {
				ln, dial := listen(t)
				return ln, func() (net.Conn, error) {
					c, err := dial()
					if err == nil {
						_, err = fmt.Fprintf(c, "PROXY TCP4 %s 198.51.100.2 1234 443\r\n", client)
					}
					return c, err
				}
			}
			r := harness.Serve(t, n, &sluice.Server{
				Handler: tellProxy, MaxConnsPerIP: 2, ProxyProtocol: sluice.ProxyProtocolRequire, ProxyTrusted: anywhere(),
			})
			for i, want := range []string{"200", "200", "429"} {
				for _, client = range []string{"192.0.2.1", "192.0.2.2"} {
					if got := r.Dial().Get("/").Status; !strings.HasPrefix(got, want) {
						t.Errorf("connection %d of %s: %s, want %s", i, client, got, want)
					}
				}
			}
		})
	}
}

// Peers that are not trusted are not believed. What the rule ends is counted, and logged if
// that is asked for.
func TestProxyProtocolUntrusted(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			others := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			for _, header := range []string{proxyHeader, "PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n"} {
				r := harness.Serve(t, behind(n, header), &sluice.Server{Handler: tellProxy, ProxyProtocol: sluice.ProxyProtocolAccept, ProxyTrusted: others})
				if got := r.Exchange(harness.Closing("/")); got == "" || strings.Contains(got, "192.0.2.1") {
					t.Errorf("%.5q: %q, want that it is malformed", header, got)
				}
			}
			r := harness.Serve(t, n, &sluice.Server{Handler: tellProxy, ProxyProtocol: sluice.ProxyProtocolAccept, ProxyTrusted: others})
			if got := r.Dial().Get("/").Body; !strings.HasPrefix(got, "127.0.0.1:") || !strings.HasSuffix(got, "false false") {
				t.Errorf("accept, without a header: %s", got)
			}
			for trusted, reason := range map[netip.Prefix]string{others[0]: "no trusted proxy", anywhere()[0]: "does not begin with a header"} {
				s := &sluice.Server{Handler: tellProxy, LogAllErrors: true, ProxyProtocol: sluice.ProxyProtocolRequire, ProxyTrusted: []netip.Prefix{trusted}}
				refused := new(atomic.Uint64)
				s.Control().Meter = &sluice.Meter{Refused: refused}
				r = harness.Serve(t, n, s)
				if got := r.Exchange(harness.Closing("/")); got != "" {
					t.Errorf("require: %s", got)
				}
				harness.Eventually(t, "it is counted", func() bool { return s.EngineStats().ProxyRefused == 1 && refused.Load() == 1 })
				harness.Eventually(t, "it is logged", func() bool { return strings.Contains(r.Log.String(), reason) })
			}
		})
	}
}

// ServeConn expects headers, too, and returns why there is none.
func TestProxyProtocolServeConn(t *testing.T) {
	s := &sluice.Server{Handler: tellProxy, ProxyProtocol: sluice.ProxyProtocolRequire, ProxyTrusted: anywhere()}
	for header, want := range map[string]string{proxyHeader: "192.0.2.1:1234 ", "": ""} {
		ln, dial := harness.OverTCP().Listen(t)
		served := make(chan error, 1)
		go func() {
			c, err := ln.Accept()
			if err == nil {
				err = s.ServeConn(c)
			}
			served <- err
		}()
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, header+harness.Closing("/"))
		answer, _ := io.ReadAll(c)
		if !strings.Contains(string(answer), want) || (len(answer) == 0) != (want == "") {
			t.Errorf("%.5q: answered %q, want %q", header, answer, want)
		}
		if err := <-served; (err == nil) != (want != "") {
			t.Errorf("%.5q: ServeConn: %v", header, err)
		}
		_ = c.Close()
		_ = ln.Close()
	}
}

// Unix sockets are trusted without networks; nothing else is.
func TestProxyProtocolWithoutNetworks(t *testing.T) {
	s := &sluice.Server{Handler: tellProxy, ProxyProtocol: sluice.ProxyProtocolRequire}
	r := harness.Serve(t, behind(overUnix(), proxyHeader), s)
	if got := r.Dial().Get("/").Body; !strings.HasPrefix(got, "192.0.2.1:1234 ") {
		t.Error(got)
	}
	for _, n := range []harness.Network{harness.OverTCP(), {Listen: func(*testing.T) (net.Listener, func() (net.Conn, error)) {
		return fasthttputil.NewInmemoryListener(), nil
	}}} {
		ln, _ := n.Listen(t)
		other := &sluice.Server{Handler: tellProxy, ProxyProtocol: sluice.ProxyProtocolAccept}
		if err := other.Serve(ln); err == nil || !strings.Contains(err.Error(), "ProxyTrusted is empty") {
			t.Errorf("Serve without networks: %v", err)
		}
		_ = ln.Close()
	}
}

// A hijacked connection has the client's address.
func TestProxyProtocolHijack(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			s := &sluice.Server{ProxyProtocol: sluice.ProxyProtocolRequire, ProxyTrusted: anywhere(), Handler: func(ctx *sluice.RequestCtx) {
				ctx.HijackSetNoResponse(true)
				ctx.Hijack(func(c net.Conn) { fmt.Fprintf(c, "%v %v", c.RemoteAddr(), c.LocalAddr()) })
			}}
			r := harness.Serve(t, behind(n, proxyHeader), s)
			if got := r.Exchange(harness.Request("GET / HTTP/1.1")); got != "192.0.2.1:1234 198.51.100.2:443" {
				t.Error(got)
			}
		})
	}
}

// A header that does not come in time ends the connection; ReadTimeout is its time.
func TestProxyProtocolTimeout(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			s := &sluice.Server{Handler: tellProxy, ReadTimeout: 50 * time.Millisecond, ProxyProtocol: sluice.ProxyProtocolAccept, ProxyTrusted: anywhere()}
			r := harness.Serve(t, behind(n, proxyHeader[:20]), s)
			if got, err := io.ReadAll(r.Dial().Conn); len(got) > 0 {
				t.Errorf("got %q, %v", got, err)
			}
			harness.Eventually(t, "it is counted", func() bool { return s.EngineStats().ProxyRefused == 1 })
		})
	}
}

func TestProxyProtocolNames(t *testing.T) {
	for _, p := range []sluice.ProxyProtocol{sluice.ProxyProtocolOff, sluice.ProxyProtocolAccept, sluice.ProxyProtocolRequire} {
		text, err := p.MarshalText()
		got := sluice.ProxyProtocol(9)
		if parseErr := got.UnmarshalText(text); got != p || err != nil || parseErr != nil || string(text) != p.String() {
			t.Errorf("%v: %v, %v, %v", p, got, err, parseErr)
		}
	}
	if _, err := sluice.ProxyProtocol(9).MarshalText(); err == nil {
		t.Error("MarshalText of a number without a name")
	}
	if _, err := sluice.ParseProxyProtocol("on"); err == nil || sluice.ProxyProtocol(9).String() != "ProxyProtocol(9)" {
		t.Errorf("ParseProxyProtocol: %v", err)
	}
}
