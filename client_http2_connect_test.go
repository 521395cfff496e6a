package sluice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// echoTunnel accepts streams of "echo", with what it has seen of the request, and refuses
// others.
var echoTunnel = http2Handler{
	sluice: func(ctx *RequestCtx) {
		if protocol := ctx.Request.Header.ConnectProtocol(); string(protocol) != "echo" {
			ctx.Error("not "+string(protocol), StatusForbidden)
			return
		}
		ctx.Response.Header.Set("X-Seen", fmt.Sprintf("%s %s %s %s", ctx.Method(), ctx.RequestURI(), ctx.Host(), ctx.Request.Header.Peek("X-Sent")))
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, c) })
	},
	nethttp: func(http.ResponseWriter, *http.Request) {},
}

// connectTo asks a server for a stream.
func connectTo(ctx context.Context, c *Client, url, protocol string) (net.Conn, *Response, error) {
	req, resp := newCall("POST", url)
	req.Header.Set("X-Sent", "value")
	req.Header.Set("Connection", "Upgrade")
	req.SetBodyString("unsent")
	conn, err := c.ConnectProtocol(ctx, protocol, req, resp)
	return conn, resp, err
}

// TestConnectProtocol: with which servers and modes it works.
func TestConnectProtocol(t *testing.T) {
	for _, kind := range http2Servers {
		for mode, name := range []string{HTTP2Off: "off", HTTP2Auto: "auto", HTTP2Only: "only"} {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				noNewGoroutines(t)
				r := kind.start(t, echoTunnel)
				c := &Client{HTTP2: HTTP2Mode(mode), TLSConfig: r.client, MaxHTTP2Conns: 1}
				var want error
				switch {
				case HTTP2Mode(mode) == HTTP2Only && !kind.isHTTP2:
					want = ErrNoHTTP2
				case HTTP2Mode(mode) == HTTP2Off, HTTP2Mode(mode) == HTTP2Auto && !kind.isTLS, !kind.isHTTP2, kind.name[:6] != "sluice":
					want = ErrNoConnectProtocol
				}
				for range 2 {
					conn, resp, err := connectTo(t.Context(), c, r.url("/a?b"), "echo")
					if !errors.Is(err, want) {
						t.Fatalf("error %v, want %v", err, want)
					}
					if want == ErrNoConnectProtocol { // other requests are
						if err := c.Do(newCall("GET", r.url("/"))); err != nil {
							t.Error(err)
						}
					}
					if want == nil {
						if seen := "CONNECT /a?b " + r.addr + " value"; string(resp.Header.Peek("X-Seen")) != seen {
							t.Errorf("the server has seen %q, want %q", resp.Header.Peek("X-Seen"), seen)
						}
						checkEcho(t, conn, 100_000)
						checkPool(t, c.hostClients()[0], 1, 0)
						if err := conn.Close(); err != nil || conn.Close() == nil {
							t.Error(err)
						}
					}
				}
				c.CloseIdleConnections()
				eventually(t, "no connection is open", func() bool { return c.ConnsCount() == 0 })
			})
		}
	}
}

// checkEcho sends n bytes, and ends.
func checkEcho(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	sent := bytes.Repeat([]byte("0123456789"), n/10)
	go func() {
		_, err := conn.Write(sent)
		if err := errors.Join(err, conn.(interface{ CloseWrite() error }).CloseWrite()); err != nil {
			t.Error(err)
		}
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back: %v", len(got), n, err)
	}
}

// A hundred streams and requests share one connection. A place is free after Close.
func TestConnectProtocolShares(t *testing.T) {
	kind := http2Servers[0]
	r := kind.start(t, echoTunnel)
	c := &Client{HTTP2: HTTP2Auto, TLSConfig: r.client, MaxHTTP2Conns: 1, MaxConnWaitTimeout: time.Minute}
	defer c.CloseIdleConnections()
	var all sync.WaitGroup
	for range 300 { // the server admits 250
		all.Go(func() {
			conn, _, err := connectTo(t.Context(), c, r.url("/"), "echo")
			if err != nil {
				t.Error(err)
				return
			}
			checkEcho(t, conn, 5000)
			_ = conn.Close()
			req, resp := newCall("GET", r.url("/"))
			if err := c.Do(req, resp); err != nil || resp.StatusCode() != StatusForbidden {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkPool(t, c.hostClients()[0], 1, 1)
}

// A refusal has its body, and gives its place back.
func TestConnectProtocolRefused(t *testing.T) {
	r := http2Servers[2].start(t, echoTunnel)
	c := &Client{HTTP2: HTTP2Only}
	conn, resp, err := connectTo(t.Context(), c, r.url("/"), "other")
	if err != nil || conn != nil || resp.StatusCode() != StatusForbidden {
		t.Fatal(conn, err)
	}
	if body, err := io.ReadAll(resp.BodyStream()); string(body) != "not other" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	_ = resp.CloseBodyStream()
	c.CloseIdleConnections()
	checkPool(t, c.hostClients()[0], 0, 0)
}
