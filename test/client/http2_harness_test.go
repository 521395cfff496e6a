package client_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// mirrorRequest answers with method, host, path, protocol and body.
var mirrorRequest = harness.HTTP2Handler{
	Sluice: func(ctx *sluice.RequestCtx) {
		fmt.Fprintf(ctx, "%s %s %s %s ", ctx.Method(), ctx.Host(), ctx.RequestURI(), ctx.Request.Header.Protocol())
		_, _ = ctx.Write(ctx.PostBody())
	},
	NetHTTP: func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.RequestURI, r.Proto, body)
	},
}

// innermostConn returns the socket of a connection.
func innermostConn(c net.Conn) net.Conn {
	if secure, ok := c.(*tls.Conn); ok {
		return secure.NetConn()
	}
	return c
}

// onEachHTTP2Server runs a test with each server that speaks HTTP/2; if the tests are to
// be short, with one of each make: with TLS, and without.
func onEachHTTP2Server(t *testing.T, h harness.HTTP2Handler, test func(t *testing.T, r *harness.HTTP2Rig)) {
	t.Helper()
	for _, kind := range harness.HTTP2Servers {
		if kind.IsHTTP2 && (!testing.Short() || kind.IsTLS == strings.HasPrefix(kind.Name, "sluice")) {
			t.Run(kind.Name, func(t *testing.T) { test(t, kind.Start(t, h)) })
		}
	}
}
