// Package websocket_test opens WebSockets over HTTP/2 (RFC 8441) with upgraders that know
// only HTTP/1.1.
package websocket_test

import (
	"bufio"
	"bytes"
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

// serveNetHTTP serves a handler of net/http, and returns the address.
func serveNetHTTP(t *testing.T, e sluice.Engine, h http.HandlerFunc) (addr string) {
	s := &sluice.Server{Handler: fasthttpadaptor.NewFastHTTPHandler(h), Engine: e}
	s.HTTP2.WebSocket = true
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
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
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, "interop", name))
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
