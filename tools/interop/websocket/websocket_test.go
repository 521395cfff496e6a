// Package websocket_test opens WebSockets over HTTP/2 (RFC 8441) with upgraders that know
// only HTTP/1.1.
package websocket_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	coder "github.com/coder/websocket"
	_ "github.com/fasthttp/websocket" // of testdata
	gorilla "github.com/gorilla/websocket"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttpadaptor"
	"github.com/sluicehttp/sluice/websocket"
)

// gorillaEcho echoes with gorilla/websocket.
func gorillaEcho(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/echo" {
		http.Error(w, "there is no WebSocket", http.StatusForbidden)
		return
	}
	upgrader := gorilla.Upgrader{Subprotocols: []string{"echo"}}
	c, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer c.Close()
	for {
		kind, message, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, message) != nil {
			return
		}
	}
}

// coderEcho echoes with coder/websocket.
func coderEcho(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/echo" {
		http.Error(w, "there is no WebSocket", http.StatusForbidden)
		return
	}
	c, err := coder.Accept(w, r, &coder.AcceptOptions{Subprotocols: []string{"echo"}})
	if err != nil {
		return // it has answered
	}
	defer c.CloseNow()
	c.SetReadLimit(2 << 20)
	for {
		kind, message, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, message) != nil {
			return
		}
	}
}

// ownEcho echoes with package websocket.
func ownEcho() sluice.RequestHandler {
	endpoint := &websocket.Endpoint{Protocols: []string{"echo"}, ReadLimit: 2 << 20, OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		return c.Write(context.Background(), m.Kind, m.Data)
	}}
	return func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) != "/echo" {
			ctx.Error("there is no WebSocket", sluice.StatusForbidden)
			return
		}
		_ = endpoint.Upgrade(ctx, nil) // it has answered
	}
}

// serveNetHTTP serves a handler of net/http, and returns the address.
func serveNetHTTP(t *testing.T, e sluice.Engine, h http.HandlerFunc) (addr string) {
	return serve(t, e, fasthttpadaptor.NewFastHTTPHandler(h))
}

// serve serves a handler, and returns the address.
func serve(t *testing.T, e sluice.Engine, h sluice.RequestHandler) (addr string) {
	s := &sluice.Server{Handler: h, Engine: e}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

// serveFastHTTP runs testdata/fasthttp with Sluice in the place of fasthttp, and returns
// the address.
func serveFastHTTP(t *testing.T) (addr string) {
	dir := t.TempDir()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, "tools", "interop", name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "go.mod" {
			text = fmt.Appendf(text, "\nreplace github.com/sluicehttp/sluice => %s\n\nreplace github.com/valyala/fasthttp => %s\n",
				root, filepath.Join(root, "contrib", "fasthttp"))
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "server")
	build := exec.Command("go", "build", "-modfile="+filepath.Join(dir, "go.mod"), "-o", program, "./testdata/fasthttp")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, out)
	}
	cmd := exec.Command(program)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server logged:\n%s", log.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// TestUpgraders opens 100 WebSockets on one connection of HTTP/2 to each upgrader, and
// has messages of 1 byte to 1 MiB echoed, whole and in fragments; then both sides close.
func TestUpgraders(t *testing.T) {
	servers := map[string]func(t *testing.T) string{"fasthttp/websocket": serveFastHTTP}
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		servers[fmt.Sprintf("gorilla/websocket/%v", e)] = func(t *testing.T) string { return serveNetHTTP(t, e, gorillaEcho) }
		servers[fmt.Sprintf("package websocket/%v", e)] = func(t *testing.T) string { return serve(t, e, ownEcho()) }
		servers[fmt.Sprintf("coder/websocket/%v", e)] = func(t *testing.T) string { return serveNetHTTP(t, e, coderEcho) }
	}
	for name, serve := range servers {
		t.Run(name, func(t *testing.T) {
			c := dialHTTP2(t, serve(t))
			if s := c.open("/other"); s.status != "403" {
				t.Errorf("a refusal has the status %s", s.status)
			}
			const count = 100
			var wait sync.WaitGroup
			for i := range count {
				s := c.open("/echo")
				if s.status != "200" || s.protocol != "echo" {
					t.Fatalf("status %s, protocol %q", s.status, s.protocol)
				}
				wait.Go(func() { s.converse(i == 0) })
			}
			wait.Wait()
		})
	}
}

// TestShutdownOverHTTP2: Shutdown sends 1001 over the stream, and waits for the answer.
func TestShutdownOverHTTP2(t *testing.T) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		ended := make(chan error, 1)
		endpoint := &websocket.Endpoint{OnClose: func(_ *websocket.Conn, err error) { ended <- err }}
		s := &sluice.Server{Engine: e, Handler: func(ctx *sluice.RequestCtx) { _ = endpoint.Upgrade(ctx, nil) }}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(ln) }()
		stream := dialHTTP2(t, ln.Addr().String()).open("/echo")
		if stream.status != "200" {
			t.Fatalf("status %s", stream.status)
		}
		down := make(chan error, 1)
		go func() { down <- s.Shutdown() }()
		opcode, message, err := stream.receive()
		if err != nil || opcode != 8 || !bytes.HasPrefix(message, []byte{1001 >> 8, 1001 & 255}) {
			t.Fatalf("%v: got %x %x, %v", e, opcode, message, err)
		}
		if err := stream.send(8, true, message[:2]); err != nil {
			t.Error(err)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
		if err := <-ended; websocket.CloseCode(err) != websocket.CodeGoingAway {
			t.Errorf("%v: OnClose got %v", e, err)
		}
	}
}
