package http3

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	wire "github.com/sluicehttp/sluice/internal/wire/h3"
)

// A deafConn receives nothing until it may hear.
type deafConn struct {
	net.PacketConn
	mayHear chan struct{}
}

func (c deafConn) ReadFrom(p []byte) (int, net.Addr, error) {
	<-c.mayHear
	return c.PacketConn.ReadFrom(p)
}

// dialEarly opens a connection that hears when mayHear is closed. It is one of early data if
// sessions has a session.
func dialEarly(t *testing.T, addr string, sessions tls.ClientSessionCache, mayHear chan struct{}) *quic.Conn {
	t.Helper()
	own, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	config := clientTLS.Clone()
	config.ClientSessionCache = sessions
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	transport := &quic.Transport{Conn: deafConn{own, mayHear}}
	q, err := transport.DialEarly(ctx, to, config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		q.CloseWithError(0, "")
		own.Close()
		transport.Close()
	})
	return q
}

// ask sends a request as one piece, and returns its stream.
func ask(t *testing.T, q *quic.Conn, p []byte) *quic.Stream {
	t.Helper()
	s, err := q.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := s.Write(p); err != nil {
		t.Fatal(err)
	}
	s.Close()
	return s
}

// TestEarlyData: of the requests that come before the end of the handshake, those without harm
// are served, and the others wait for it.
func TestEarlyData(t *testing.T) {
	served := make(chan string, 9)
	s := &sluice.Server{MaxWorkers: 1, Handler: func(ctx *sluice.RequestCtx) {
		served <- fmt.Sprintf("%s %s %v%s", ctx.Method(), ctx.Path(), ctx.IsEarly(), ctx.Request.Header.Peek("Early-Data"))
	}}
	v, addr := serveHTTP3(t, s, Config{EarlyData: true})
	open := make(chan struct{})
	close(open)
	sessions := tls.NewLRUClientSessionCache(1)
	first := dialEarly(t, addr, sessions, open)
	<-first.HandshakeComplete()
	_, _ = io.ReadAll(ask(t, first, get("/first")))
	if got := <-served; got != "GET /first false" {
		t.Errorf("served %s", got)
	}

	mayHear := make(chan struct{})
	second := dialEarly(t, addr, sessions, mayHear)
	content := frame(wire.FrameData, []byte("x"))
	streams := []*quic.Stream{
		ask(t, second, head("POST", "/post")), ask(t, second, append(get("/content"), content...)),
		ask(t, second, head("DELETE", "/delete")), ask(t, second, get("/get")), ask(t, second, head("OPTIONS", "/options")),
	}
	early := map[string]bool{<-served: true, <-served: true}
	if !early["GET /get true1"] || !early["OPTIONS /options true1"] {
		t.Errorf("served early: %v", early)
	}
	if n := v.handshakes.Load(); n != 1 {
		t.Errorf("%d handshakes are in progress", n)
	}
	select {
	case got := <-served:
		t.Errorf("served early: %s", got)
	case <-time.After(50 * time.Millisecond):
	}
	close(mayHear)
	late := map[string]bool{<-served: true, <-served: true, <-served: true}
	if !late["POST /post false"] || !late["GET /content false"] || !late["DELETE /delete false"] {
		t.Errorf("served afterwards: %v", late)
	}
	for _, s := range streams {
		if answer, err := io.ReadAll(s); err != nil || len(answer) == 0 {
			t.Errorf("an answer of %d bytes, %v", len(answer), err)
		}
	}
	if state := second.ConnectionState(); !state.Used0RTT {
		t.Error("there was no early data")
	}
	if n := v.handshakes.Load(); n != 0 {
		t.Errorf("%d handshakes are in progress after them", n)
	}
}

// TestNoEarlyData: without EarlyData, clients get no means for it.
func TestNoEarlyData(t *testing.T) {
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { fmt.Fprint(ctx, ctx.IsEarly()) }}, Config{})
	open := make(chan struct{})
	close(open)
	sessions := tls.NewLRUClientSessionCache(1)
	for range 2 {
		q := dialEarly(t, addr, sessions, open)
		if answer, err := io.ReadAll(ask(t, q, get("/"))); err != nil || len(answer) == 0 {
			t.Errorf("an answer of %d bytes, %v", len(answer), err)
		}
		if q.ConnectionState().Used0RTT {
			t.Error("early data was accepted")
		}
	}
}
