package h3

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	quichttp3 "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/http3"
	"github.com/sluicehttp/sluice/internal/test/selfsigned"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// reference has the tests run against another server, to tell mistakes of the tests from ours.
var reference = flag.Bool("reference", false, "test quic-go/http3's server in place of ours")

const (
	hello     = "Hello, World!"
	largeSize = 1 << 20
)

// large is what /large sends.
var large = func() []byte {
	b := make([]byte, largeSize)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}()

// sumOf is what /echo answers for a body.
func sumOf(body []byte) string { return fmt.Sprintf("%d %08x", len(body), crc32.ChecksumIEEE(body)) }

// asError is errors.As.
func asError[E error](err error, target *E) bool { return errors.As(err, target) }

// handleReference is handle of net/http, as far as the rules need it.
func handleReference(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/echo":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, sumOf(body))
	case "/large":
		_, _ = w.Write(large)
	case "/slow":
		<-r.Context().Done()
	default:
		fmt.Fprint(w, hello)
	}
}

// startReference starts quic-go/http3's server, and returns its address.
func startReference(t testing.TB) (addr string) {
	c := listenUDP(t)
	s := &quichttp3.Server{
		Handler: http.HandlerFunc(handleReference), TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate(t)}},
		QUICConfig: &quic.Config{MaxIdleTimeout: patience},
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(c) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
		_ = c.Close()
	})
	return c.LocalAddr().String()
}

// certificate returns a certificate for localhost.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	c, err := selfsigned.New("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listenUDP(t testing.TB) net.PacketConn {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A target is a server that is tested.
type target struct {
	addr     string
	canceled chan struct{} // gets something for each /slow that was given up
	ended    chan struct{} // gets something for each /endless whose client takes nothing
	reports  chan string   // of the page
	running  atomic.Int64  // handlers
	peak     atomic.Int64  // the most of them
	hub      *sse.Hub
	s        *sluice.Server
	h        *http3.Server
}

// newTarget starts a server. change may change it before.
func newTarget(t testing.TB, change func(g *target)) *target {
	t.Helper()
	hub, err := sse.New(sse.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &target{canceled: make(chan struct{}, 1000), ended: make(chan struct{}, 10), reports: make(chan string, 1), hub: hub}
	g.s = &sluice.Server{Handler: g.handle, StreamRequestBody: true, Logger: quiet{}}
	g.h = &http3.Server{Server: g.s, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}}
	if change != nil {
		change(g)
	}
	c := listenUDP(t)
	g.addr = c.LocalAddr().String()
	served := make(chan error, 1)
	go func() { served <- g.h.Serve(c) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.s.ShutdownWithContext(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return g
}

// quiet is a log that is not read.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// startTarget starts our server, or the other one with -reference, and returns its address.
func startTarget(t testing.TB) string {
	if *reference {
		return startReference(t)
	}
	return newTarget(t, nil).addr
}

// echoes is the WebSocket of /ws.
var echoes = &websocket.Endpoint{ReadLimit: 2 << 20, Origins: []string{"*"}, OnMessage: func(c *websocket.Conn, m websocket.Message) error {
	return c.Write(context.Background(), m.Kind, m.Data)
}}

// handle answers the clients.
func (g *target) handle(ctx *sluice.RequestCtx) {
	n := g.running.Add(1)
	defer g.running.Add(-1)
	for most := g.peak.Load(); n > most && !g.peak.CompareAndSwap(most, n); most = g.peak.Load() {
	}
	ctx.Response.Header.Set("X-Protocol", string(ctx.Request.Header.Protocol()))
	switch path := string(ctx.Path()); path {
	case "/hello", "/", "*", "/*":
		ctx.SetBodyString(hello)
	case "/echo":
		ctx.SetBodyString(sumOf(ctx.PostBody()))
	case "/early":
		ctx.SetBodyString("enough")
	case "/large":
		ctx.Response.SetBodyRaw(large)
	case "/204":
		ctx.SetStatusCode(204)
	case "/sleep":
		time.Sleep(time.Duration(ctx.QueryArgs().GetUintOrZero("ms")) * time.Millisecond)
	case "/fields":
		for name, value := range ctx.Request.Header.All() {
			fmt.Fprintf(ctx, "%s: %s\n", name, value)
		}
	case "/trailers":
		_ = ctx.PostBody()
		_ = ctx.Response.Header.AddTrailer("X-Sum")
		ctx.SetBodyString("with trailers")
		ctx.Response.Header.SetBytesV("X-Sum", ctx.Request.Header.Peek("X-Sum"))
	case "/hints":
		ctx.Response.Header.Add("Link", "</style.css>; rel=preload")
		_ = ctx.EarlyHints()
		ctx.SetBodyString("hinted")
	case "/connection":
		for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
			ctx.Response.Header.Set(name, "x")
		}
	case "/stream":
		for i := range 10 {
			fmt.Fprintf(ctx, "line %d\n", i)
			_ = ctx.Flush()
		}
	case "/slow":
		ctx.SetBodyString("begun")
		_ = ctx.Flush()
		select {
		case <-ctx.Done():
			g.canceled <- struct{}{}
		case <-time.After(patience):
		}
	case "/endless":
		for ctx.Err() == nil {
			_, _ = ctx.Write(large)
			if ctx.Flush() != nil {
				break
			}
		}
		g.ended <- struct{}{}
	case "/events":
		_ = g.hub.Serve(ctx, "all")
	case "/ws":
		_ = echoes.Upgrade(ctx, nil) // it has answered
	case "/page":
		ctx.SetContentType("text/html")
		ctx.SetBodyString(strings.Replace(page, "RESOURCES", fmt.Sprint(resources), 1))
	case "/report":
		g.reports <- string(ctx.PostBody())
	default:
		ctx.NotFound()
	}
}
