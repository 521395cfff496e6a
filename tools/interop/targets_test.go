package interop_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// servedTargets are what clients send although RFC 3986 does not allow it.
var servedTargets = []string{
	"/targets/?discount=50%", "/targets/?q=%zz&r=%4", "/targets/?q=café", "/targets/?\xff\x80", `/targets/?q="x"`, "/targets/?a=<b>",
	"/targets/?a=b|c^d`e{f}", `/targets/?a=\b`, "/targets/?a[]=1", "/targets/?a=?/", "/targets/café", "/targets/\xff", "/targets/é?é=%",
	"/targets/a|b^c`d{e}", "/targets/[a]", `/targets/"a"`, "/targets/<a>", `/targets/a\b`, "http://h/targets/é?q=50%",
}

// refusedTargets are targets that Sluice refuses, with the servers that do not.
var refusedTargets = map[string]map[string]bool{
	"/targets/50%":    {"fasthttp": true},
	"/targets/%2":     {"fasthttp": true},
	"/targets/%zz":    {"fasthttp": true},
	"/targets/é%x?%x": {"fasthttp": true},
	"/targets/a#b":    {"fasthttp": true, "net/http": true, "nginx": true},
	"/targets/?a#b":   {"fasthttp": true, "net/http": true, "nginx": true},
	"/targets/a\x00":  nil,
	"/targets/?\x7f":  nil,
	"/targets/?\x01":  nil,
	"/targets/?a\rb":  nil,
	"http://é/":       {"fasthttp": true, "net/http": true},
	"http://a\"b/":    {"fasthttp": true, "net/http": true},
	"http://a@h/":     {"fasthttp": true, "net/http": true},
}

// TestTargetsAsOthersServeThem: handlers of net/http, fasthttp, nginx and Sluice
// get the same targets, but for those that are listed.
func TestTargetsAsOthersServeThem(t *testing.T) {
	for name, start := range targetServers() {
		t.Run(name, func(t *testing.T) {
			addr := start(t)
			for _, target := range servedTargets {
				status, body, err := askTarget(addr, target)
				want := target
				if name == "nginx" && target[0] != '/' {
					want = target[len("http://h"):]
				}
				if err != nil || status != http.StatusOK || body != want {
					t.Errorf("%q: %d %q, %v", target, status, body, err)
				}
			}
			for target, served := range refusedTargets {
				status, body, err := askTarget(addr, target)
				if err != nil || (status == http.StatusOK) != served[name] {
					t.Errorf("%q: %d %.50q, %v", target, status, body, err)
				}
			}
		})
	}
}

// targetServers returns what starts servers that answer with the target.
func targetServers() map[string]func(t *testing.T) (addr string) {
	quiet := log.New(io.Discard, "", 0)
	servers := map[string]func(t *testing.T) string{
		"nginx": func(t *testing.T) string { return startNginx(t, "", nil).Plain },
		"net/http": func(t *testing.T) string {
			s := &http.Server{ErrorLog: quiet, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RequestURI) })}
			return serveTargets(t, s.Serve)
		},
		"fasthttp": func(t *testing.T) string {
			s := &fasthttp.Server{Logger: quiet, Handler: func(ctx *fasthttp.RequestCtx) { ctx.Write(ctx.RequestURI()) }}
			return serveTargets(t, s.Serve)
		},
	}
	for _, engine := range engines() {
		servers["sluice/"+engine] = func(t *testing.T) string {
			s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Write(ctx.RequestURI()) }}
			if err := s.Engine.UnmarshalText([]byte(engine)); err != nil {
				t.Fatal(err)
			}
			return serveTargets(t, s.Serve)
		}
	}
	return servers
}

// serveTargets serves until the test ends.
func serveTargets(t *testing.T, serve func(net.Listener) error) (addr string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go serve(ln) // returns when the listener is closed
	return ln.Addr().String()
}

// askTarget sends one GET request and returns the answer.
func askTarget(addr, target string) (status int, body string, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(upstreamPatience))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", target)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}
