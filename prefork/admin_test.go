package prefork

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
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
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n%s\r\n", method, path, fields)
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
	a, err := p.openAdmin()
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
		if info, err := os.Stat(path); strings.HasPrefix(addr, unixPrefix) && runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != adminMode) {
			t.Errorf("the socket: %v, %v", info, err)
		}
		p.Admin = a.addr().String()
		if a.addr().Network() == "unix" {
			p.Admin = addr
		}
		if second, err := p.openAdmin(); err == nil {
			second.close()
			t.Errorf("%s: two listen", addr)
		}
		end()
		again, err := p.openAdmin()
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
	a, err := p.openAdmin()
	if err != nil {
		t.Fatal(err)
	}
	a.close()
	if err := os.WriteFile(path, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, err := p.openAdmin(); err == nil {
		a.close()
		t.Error("a file was replaced")
	}
	if text, _ := os.ReadFile(path); string(text) != "dear" {
		t.Errorf("the file: %q", text)
	}
}

func TestNoAdmin(t *testing.T) {
	a, err := (&Prefork{}).openAdmin()
	if a != nil || err != nil || a.addr() != nil {
		t.Errorf("%v, %v", a, err)
	}
	a.serve()
	a.close()
}

// A panic of the handler ends only its request.
func TestAdminHandlerPanics(t *testing.T) {
	p := &Prefork{Admin: "127.0.0.1:0", Logger: newTestLogger(t), AdminHandler: func(ctx *sluice.RequestCtx) {
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
}
