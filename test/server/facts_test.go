package server_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/sluicehttp/sluice/test/harness"
)

// factsOf writes what a request says about its connection and its origin.
func factsOf(ctx *sluice.RequestCtx) {
	facts := fmt.Sprintf("%s %v %s %s | %s", ctx.URI().Scheme(), ctx.IsTLS(), ctx.URI().Host(), ctx.Host(), ctx.RequestURI())
	ctx.Redirect("/next", sluice.StatusFound)
	location := string(ctx.Response.Header.Peek("Location"))
	ctx.Response.Reset()
	fmt.Fprintf(ctx, "%s | %s", facts, location)
}

// TestSchemeIsTheConnections: no request decides whether its connection is secure (RFC 9110
// section 7.4).
func TestSchemeIsTheConnections(t *testing.T) {
	check := func(t *testing.T, r *harness.Rig, scheme string) {
		for _, target := range []string{"/x", "http://b/x", "https://b/x", "HTTPS://b/x", "HTTP://b:80/x?u=https://c/"} {
			host := "b"
			if strings.Contains(target, ":80") {
				host = "b:80"
			}
			p := r.Dial()
			p.Send("GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nX-Forwarded-Proto: ftp\r\nForwarded: proto=ftp\r\n\r\n")
			want := fmt.Sprintf("%s %v %s %s | %s | %s://%s/next", scheme, scheme == "https", host, host, target, scheme, host)
			if got := p.Answer("GET"); got.StatusCode != 200 || got.Body != want {
				t.Errorf("%s: %d %q, want %q", target, got.StatusCode, got.Body, want)
			}
		}
	}
	t.Run("plain", func(t *testing.T) {
		harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
			check(t, harness.Serve(t, n, &sluice.Server{Handler: factsOf}), "http")
		})
	})
	t.Run("TLS", func(t *testing.T) {
		harness.OnEachSecureNetwork(t, func(t *testing.T, n harness.Network) {
			check(t, harness.Serve(t, n, &sluice.Server{Handler: factsOf}), "https")
		})
	})
}

// TestSchemeOfServeConn: also where the program brings the connection.
func TestSchemeOfServeConn(t *testing.T) {
	pipes := fasthttputil.NewPipeConns()
	done := make(chan error, 1)
	go func() { done <- sluice.ServeConn(pipes.Conn2(), factsOf) }()
	fmt.Fprint(pipes.Conn1(), "GET https://b/x HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")
	var answer bytes.Buffer
	_, _ = answer.ReadFrom(pipes.Conn1())
	if err := <-done; err != nil || !strings.Contains(answer.String(), "\r\n\r\nhttp false b b | https://b/x | http://b/next") {
		t.Errorf("%v, %q", err, answer.String())
	}
}

// TestSchemeOfMadeRequests: what a program has made or read keeps the scheme of its target.
func TestSchemeOfMadeRequests(t *testing.T) {
	var ctx sluice.RequestCtx
	var req sluice.Request
	req.SetRequestURI("https://b/x")
	ctx.Init(&req, nil, nil)
	if got := string(ctx.URI().Scheme()); got != "https" {
		t.Errorf("Init: %s", got)
	}
	handler := func(ctx *sluice.RequestCtx) {
		ctx.Request.SetRequestURI("https://b/x")
		fmt.Fprintf(ctx, "%s", ctx.URI().Scheme())
		ctx.Request.SetRequestURI("http://b/x")
		ctx.URI().SetScheme("https")
		fmt.Fprintf(ctx, " %s", ctx.URI().Scheme())
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: handler})
		if got := r.Dial().Get("http://a/"); got.Body != "https https" {
			t.Errorf("what a handler has set: %q", got.Body)
		}
	})
	ctx.Init2(tls.Server(nil, nil), nil, false)
	ctx.Request.SetRequestURI("/x")
	if got := string(ctx.URI().Scheme()); got != "https" || !ctx.IsTLS() {
		t.Errorf("Init2: %s", got)
	}
}
