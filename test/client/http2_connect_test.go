package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/test/harness"
)

// echoTunnel accepts streams of "echo", with what it has seen of the request, and refuses
// others.
var echoTunnel = harness.HTTP2Handler{
	Sluice: func(ctx *sluice.RequestCtx) {
		if protocol := ctx.Request.Header.ConnectProtocol(); string(protocol) != "echo" {
			ctx.Error("not "+string(protocol), sluice.StatusForbidden)
			return
		}
		ctx.Response.Header.Set("X-Seen", fmt.Sprintf("%s %s %s %s", ctx.Method(), ctx.RequestURI(), ctx.Host(), ctx.Request.Header.Peek("X-Sent")))
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, c) })
	},
	NetHTTP: func(http.ResponseWriter, *http.Request) {},
}

// connectTo asks a server for a stream.
func connectTo(ctx context.Context, c *sluice.Client, url, protocol string) (net.Conn, *sluice.Response, error) {
	req, resp := harness.NewCall("POST", url)
	req.Header.Set("X-Sent", "value")
	req.Header.Set("Connection", "Upgrade")
	req.SetBodyString("unsent")
	conn, err := c.ConnectProtocol(ctx, protocol, req, resp)
	return conn, resp, err
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

// ctx bounds the call, and not the stream: also while the server has not sent SETTINGS.
func TestConnectProtocolContext(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, echoTunnel)
	c := &sluice.Client{HTTP2: sluice.HTTP2Only}
	ctx, cancel := context.WithCancel(t.Context())
	conn, _, err := connectTo(ctx, c, r.URL("/"), "echo")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	checkEcho(t, conn, 10)
	_ = conn.Close()
	c.CloseIdleConnections()

	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		silent, err := ln.Accept()
		if err != nil {
			return
		}
		defer silent.Close()
		_, _ = io.ReadFull(silent, make([]byte, 24)) // the preface
		cancel()
		_, _ = io.Copy(io.Discard, silent)
	}()
	var phase *sluice.PhaseError
	if _, _, err := connectTo(ctx, c, "http://"+ln.Addr().String()+"/", "echo"); !errors.As(err, &phase) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	c.CloseIdleConnections()
}

// TestConnectProtocol: with which servers and modes it works.
func TestConnectProtocol(t *testing.T) {
	for _, kind := range harness.HTTP2Servers {
		for mode, name := range []string{sluice.HTTP2Off: "off", sluice.HTTP2Auto: "auto", sluice.HTTP2Only: "only"} {
			t.Run(kind.Name+"/"+name, func(t *testing.T) {
				noNewGoroutines(t)
				r := kind.Start(t, echoTunnel)
				var host *sluice.HostClient
				c := &sluice.Client{HTTP2: sluice.HTTP2Mode(mode), TLSConfig: r.Client, MaxHTTP2Conns: 1, ConfigureClient: func(hc *sluice.HostClient) error { host = hc; return nil }}
				var want error
				switch {
				case sluice.HTTP2Mode(mode) == sluice.HTTP2Only && !kind.IsHTTP2:
					want = sluice.ErrNoHTTP2
				case sluice.HTTP2Mode(mode) == sluice.HTTP2Off, sluice.HTTP2Mode(mode) == sluice.HTTP2Auto && !kind.IsTLS, !kind.IsHTTP2, kind.Name[:6] != "sluice":
					want = sluice.ErrNoConnectProtocol
				}
				for range 2 {
					conn, resp, err := connectTo(t.Context(), c, r.URL("/a?b"), "echo")
					if !errors.Is(err, want) {
						t.Fatalf("error %v, want %v", err, want)
					}
					if want == sluice.ErrNoConnectProtocol { // other requests are
						if err := c.Do(harness.NewCall("GET", r.URL("/"))); err != nil {
							t.Error(err)
						}
					}
					if want == nil {
						if seen := "CONNECT /a?b " + r.Addr + " value"; string(resp.Header.Peek("X-Seen")) != seen {
							t.Errorf("the server has seen %q, want %q", resp.Header.Peek("X-Seen"), seen)
						}
						checkEcho(t, conn, 100_000)
						checkPool(t, host, 1, 0)
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

// A hundred streams and requests share one connection. A place is free after Close.
func TestConnectProtocolShares(t *testing.T) {
	kind := harness.HTTP2Servers[0]
	r := kind.Start(t, echoTunnel)
	var host *sluice.HostClient
	c := &sluice.Client{HTTP2: sluice.HTTP2Auto, TLSConfig: r.Client, MaxHTTP2Conns: 1, MaxConnWaitTimeout: time.Minute, ConfigureClient: func(hc *sluice.HostClient) error { host = hc; return nil }}
	defer c.CloseIdleConnections()
	var all sync.WaitGroup
	for range 300 { // the server admits 250
		all.Go(func() {
			conn, _, err := connectTo(t.Context(), c, r.URL("/"), "echo")
			if err != nil {
				t.Error(err)
				return
			}
			checkEcho(t, conn, 5000)
			_ = conn.Close()
			req, resp := harness.NewCall("GET", r.URL("/"))
			if err := c.Do(req, resp); err != nil || resp.StatusCode() != sluice.StatusForbidden {
				t.Error(err)
			}
		})
	}
	all.Wait()
	checkPool(t, host, 1, 1)
}

// A refusal has its body, and gives its place back.
func TestConnectProtocolRefused(t *testing.T) {
	r := harness.HTTP2Servers[2].Start(t, echoTunnel)
	var host *sluice.HostClient
	c := &sluice.Client{HTTP2: sluice.HTTP2Only, ConfigureClient: func(hc *sluice.HostClient) error { host = hc; return nil }}
	conn, resp, err := connectTo(t.Context(), c, r.URL("/"), "other")
	if err != nil || conn != nil || resp.StatusCode() != sluice.StatusForbidden {
		t.Fatal(conn, err)
	}
	if body, err := io.ReadAll(resp.BodyStream()); string(body) != "not other" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	_ = resp.CloseBodyStream()
	c.CloseIdleConnections()
	checkPool(t, host, 0, 0)
}

// TestConnectProtocolFails: which failures are final, after how many attempts.
func TestConnectProtocolFails(t *testing.T) {
	admits := http2.Setting{ID: 8, Val: 1} // SETTINGS_ENABLE_CONNECT_PROTOCOL
	refuse := func(code http2.ErrCode) func(p *framePeer, stream uint32) {
		return func(p *framePeer, stream uint32) { _ = p.WriteRSTStream(stream, code) }
	}
	for _, tc := range []struct {
		name     string
		answer   func(p *framePeer, stream uint32)
		requests int64
		status   int // 0: an error
	}{
		{"refused each time", refuse(http2.ErrCodeRefusedStream), 3, 0},
		{"reset", refuse(http2.ErrCodeInternal), 1, 0},
		{"answered without a body", func(p *framePeer, stream uint32) { p.answer(stream, "403", "") }, 1, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var requests atomic.Int64
			peer := newFramePeer(t, func(p *framePeer) {
				for stream := p.head(); stream != 0; stream = p.head() {
					requests.Add(1)
					tc.answer(p, stream)
				}
			}, admits)
			var host *sluice.HostClient
			c := &sluice.Client{HTTP2: sluice.HTTP2Only, MaxIdemponentCallAttempts: 3, ConfigureClient: func(hc *sluice.HostClient) error { host = hc; return nil }}
			req, resp := harness.NewCall("GET", peer.URL("/"))
			ctx, cancel := context.WithCancel(t.Context())
			conn, err := c.ConnectProtocol(ctx, "p", req, resp)
			if conn != nil || (err == nil) != (tc.status != 0) || tc.status != 0 && resp.StatusCode() != tc.status {
				t.Errorf("%v, %v, status %d", conn, err, resp.StatusCode())
			}
			if requests.Load() != tc.requests || host.PendingRequests() != 0 || host.LastUseTime().Equal(clock.Time(0)) {
				t.Errorf("%d requests, want %d; %d pending, last used %v", requests.Load(), tc.requests, host.PendingRequests(), host.LastUseTime())
			}
			cancel() // the request does not keep it
			dialed := errors.New("dialed")
			other := &sluice.HostClient{Addr: "h:80", MaxIdemponentCallAttempts: 1, DialContext: func(ctx context.Context, _ string) (net.Conn, error) {
				return nil, errors.Join(dialed, ctx.Err())
			}}
			if err := other.Do(req, resp); !errors.Is(err, dialed) || errors.Is(err, context.Canceled) {
				t.Errorf("another client: %v", err)
			}
			checkPool(t, host, 1, 1)
			c.CloseIdleConnections()
		})
	}
	req, resp := harness.NewCall("GET", "ftp://h/")
	if conn, err := new(sluice.Client).ConnectProtocol(t.Context(), "p", req, resp); conn != nil || !isError(err, textError("sluice: the scheme of the request is neither http nor https")) {
		t.Errorf("ftp: %v, %v", conn, err)
	}
	c := &sluice.Client{HTTP2: sluice.HTTP2Auto, ConfigureClient: func(hc *sluice.HostClient) error { hc.IsTLS = true; return nil }}
	req, resp = harness.NewCall("GET", "http://h/")
	if conn, err := c.ConnectProtocol(t.Context(), "p", req, resp); conn != nil || err != sluice.ErrHostClientRedirectToDifferentScheme {
		t.Errorf("another scheme: %v, %v", conn, err)
	}
}
