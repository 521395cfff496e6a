package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice"
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
