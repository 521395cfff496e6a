package prefork

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
)

// request sends a request to an admin, with the given fields.
func request(t *testing.T, network, addr, method, path, fields string) (status int, body string) {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n%s\r\n", method, path, fields)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(all)
}

// get sends a GET request to the admin.
func (a *admin) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	return request(t, a.addr().Network(), a.addr().String(), "GET", path, "")
}

// serveAdmin starts p's admin; end closes it.
func serveAdmin(t *testing.T, p *Prefork) (a *admin, end func()) {
	t.Helper()
	a, err := p.openAdmin(nil)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() { a.serve(); close(served) }()
	return a, func() { a.close(); <-served }
}

func TestAdmin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	for _, addr := range []string{"127.0.0.1:0", unixPrefix + path} {
		log := &lines{}
		p := &Prefork{Admin: addr, Logger: log}
		a, end := serveAdmin(t, p)
		if status, body := a.get(t, "/"); status != 200 || !strings.HasPrefix(body, "workers: ") {
			t.Errorf("%s: %d, %q", addr, status, body)
		}
		if info, err := os.Stat(path); strings.HasPrefix(addr, unixPrefix) && runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o600) {
			t.Errorf("the socket: %v, %v", info, err)
		}
		if s := a.server; s.ReadTimeout != 10*time.Second || s.WriteTimeout != 10*time.Second || s.IdleTimeout != time.Minute || s.Concurrency != 64 {
			t.Errorf("the bounds of the server: %+v", s)
		}
		p.Admin = a.addr().String()
		if a.addr().Network() == "unix" {
			p.Admin = addr
		}
		if second, err := p.openAdmin(nil); err == nil {
			second.close()
			t.Errorf("%s: two listen", addr)
		}
		end()
		again, err := p.openAdmin(nil)
		if err != nil {
			t.Fatalf("%s: after the end: %v", addr, err)
		}
		again.close() // never served
		again.serve() // closed already: nothing happens
		if p.logger().Flush(); len(log.all) > 0 {
			t.Errorf("%s: log %q", addr, log.all)
		}
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// A page whose name has become that of the loopback address learns nothing: it is another site for
// the browser only (DNS rebinding). Other addresses and sockets may have names.
func TestAdminHost(t *testing.T) {
	ask := func(a *admin, method, path, host string) int {
		c, err := net.Dial(a.addr().Network(), a.addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", method, path, host)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode
	}
	for addr, others := range map[string]int{"127.0.0.1:0": 403, ":0": 200, unixPrefix + filepath.Join(t.TempDir(), "admin"): 200} {
		a, end := serveAdmin(t, &Prefork{Admin: addr, Logger: quiet()})
		for host, want := range map[string]int{
			"localhost": 200, "LOCALHOST:9090": 200, "a.localhost": 200, "127.0.0.1": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "10.0.0.1": 200,
			"evil.example": others, "evil.example:9090": others, "localhost.evil.example": others, "127.0.0.1.evil.example": others, "evillocalhost": others,
		} {
			if got := ask(a, "GET", "/", host); got != want {
				t.Errorf("%s, Host %q: %d, want %d", addr, host, got, want)
			}
			if got := ask(a, "GET", "/healthz", host); got != 200 {
				t.Errorf("%s, Host %q: a probe gets %d", addr, host, got)
			}
		}
		end()
	}
	// A handler may look at the target as it was sent, and not at what it means.
	a, end := serveAdmin(t, &Prefork{Admin: "127.0.0.1:0", Logger: quiet(), AdminHandler: func(ctx *sluice.RequestCtx) {}})
	defer end()
	for target, want := range map[string]int{
		"GET /healthz": 200, "HEAD /readyz": 200, "GET /startupz?verbose": 200, "POST /healthz": 403,
		"GET /secret/..%2fhealthz": 403, "GET /secret/../healthz": 403, "GET //healthz": 403, "GET /./healthz": 403, "GET /%68ealthz": 403,
		"GET /healthz/": 403, "GET /healthz/../secret": 403, "GET /healthz;secret": 403, "GET /healthz%3fsecret": 403, "GET /healthz%00": 403,
		"GET http://evil.example/healthz": 403, "GET http://evil.example/secret": 403, "OPTIONS *": 403,
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := ask(a, method, path, "evil.example"); got != want {
			t.Errorf("%s: %d, want %d", target, got, want)
		}
	}
}

// A path that is not a socket is not replaced. A socket of a dead process is.
func TestAdminPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Skip(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	p := &Prefork{Admin: unixPrefix + path}
	a, err := p.openAdmin(nil)
	if err != nil {
		t.Fatal(err)
	}
	a.close()
	if err := os.WriteFile(path, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := p.openAdmin(nil); err == nil {
		a.close()
		t.Error("a file was replaced")
	}
	if text, _ := os.ReadFile(path); string(text) != "dear" {
		t.Errorf("the file: %q", text)
	}
}

func TestNoAdmin(t *testing.T) {
	a, err := (&Prefork{}).openAdmin(nil)
	if a != nil || err != nil || a.addr() != nil {
		t.Errorf("%v, %v", a, err)
	}
	a.serve()
	a.close()
}

// A panic of the handler ends only its request.
func TestAdminHandlerPanics(t *testing.T) {
	log := &lines{}
	p := &Prefork{Admin: "127.0.0.1:0", Logger: log, AdminHandler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/panic" {
			ctx.SetBodyString("half an answer")
			panic("on purpose")
		}
		ctx.SetBodyString("fine")
	}}
	a, end := serveAdmin(t, p)
	defer end()
	if status, body := a.get(t, "/panic"); status != 500 || strings.Contains(body, "half") {
		t.Errorf("%d, %q", status, body)
	}
	if status, body := a.get(t, "/"); status != 200 || body != "fine" {
		t.Errorf("%d, %q", status, body)
	}
	if p.logger().Flush(); len(log.all) != 1 || !strings.HasPrefix(log.all[0], "AdminHandler: panic: on purpose\ngoroutine ") {
		t.Errorf("log %q", log.all)
	}
}

// The end waits a second for requests in progress, and errors are logged.
func TestAdminErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, gate := &lines{}, make(chan struct{})
		ln := fasthttputil.NewInmemoryListener()
		a := &admin{ln: ln, log: log, server: &sluice.Server{
			Engine: sluice.EnginePerConn, Logger: quiet(), Handler: func(*sluice.RequestCtx) { <-gate },
		}}
		go a.serve()
		c, err := ln.Dial()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		synctest.Wait()
		began := time.Now()
		a.close()
		if took := time.Since(began); took != time.Second {
			t.Errorf("it ended after %v", took)
		}
		close(gate)
		bad := &admin{ln: badListener{ln}, log: log, server: &sluice.Server{Engine: sluice.EnginePerConn, Logger: quiet(), Handler: func(*sluice.RequestCtx) {}}}
		bad.serve()
		synctest.Wait()
		if want := []string{"admin: " + context.DeadlineExceeded.Error(), "admin: no more"}; !slices.Equal(log.all, want) {
			t.Errorf("log %q, want %q", log.all, want)
		}
	})
}

// A badListener accepts nothing.
type badListener struct{ net.Listener }

func (badListener) Accept() (net.Conn, error) { return nil, errors.New("no more") }

// How the handler of restarts answers, without a fleet.
func TestRestartHandler(t *testing.T) {
	for _, c := range []struct {
		method, origin, site string
		status               int
		allow, body          string
	}{
		{"GET", "", "", 405, "POST", "Method Not Allowed"},
		{"POST", "x", "", 403, "", "Forbidden"},
		{"POST", "", "same-origin", 403, "", "Forbidden"},
		{"POST", "", "none", 500, "", ErrNotMaster.Error() + "\n"},
		{"POST", "", "", 500, "", ErrNotMaster.Error() + "\n"},
	} {
		var ctx sluice.RequestCtx
		ctx.Request.Header.SetMethod(c.method)
		ctx.Request.Header.Set("Origin", c.origin)
		ctx.Request.Header.Set("Sec-Fetch-Site", c.site)
		RestartHandler(&Prefork{})(&ctx)
		if r := &ctx.Response; r.StatusCode() != c.status || string(r.Header.Peek("Allow")) != c.allow || string(r.Body()) != c.body {
			t.Errorf("%+v: %v", c, r)
		}
	}
}
