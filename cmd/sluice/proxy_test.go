//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/proxy"
	"github.com/sluicehttp/sluice/shared"
	"github.com/sluicehttp/sluice/sse"
)

// named serves a name, the host and the path of each request.
func named(t *testing.T, name string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s%s for %s", name, r.Host, r.URL.Path, r.Header.Get("X-Forwarded-For"))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// startProxy runs "sluice proxy" on a free port.
func startProxy(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, limited(t, binary, append([]string{"proxy", "--listen", "127.0.0.1:0"}, args...)...))
}

// TestProxy: requests go to the servers of --to in turn, and the access log and the metrics
// have them.
func TestProxy(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access")
	p := startProxy(t, "--to", named(t, "a")+","+named(t, "b"), "--rewrite-host=false", "--access-log", log, "--admin", "127.0.0.1:0")
	_, admin, _ := strings.Cut(p.logLine(t, "status and metrics"), "metrics: ")
	first, body := p.ask(t, "GET", "/x")
	_, second := p.ask(t, "GET", "/x")
	host := strings.TrimPrefix(p.url, "http://")
	if want := fmt.Sprintf("a %s/x for 127.0.0.1 b %s/x for 127.0.0.1", host, host); body+" "+second != want && second+" "+body != want {
		t.Errorf("%q, %q", body, second)
	}
	if first.StatusCode != 200 || len(first.Header["Server"]) != 0 {
		t.Errorf("%v", first.Header)
	}
	resp, err := client().Get("http://" + admin + "/metrics")
	if _, text := answer(t, resp, err); strings.Count(text, "sluice_proxy_upstream_up{") != 2 || strings.Count(text, `"} 1`+"\n") < 4 {
		t.Errorf("%s", text)
	}
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "GET /x") != 2 {
		t.Errorf("%s, %v", text, err)
	}
}

// TestProxyReload: SIGHUP reads the routes again, without workers and with them, and what is
// wrong with the file leaves the old ones.
func TestProxyReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "routes.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, b := named(t, "a"), named(t, "b")
	one := fmt.Sprintf("[[route]]\npath = '/x'\nto = [%q]\nrewrite-host = true\n", a)
	two := fmt.Sprintf("[[route]]\npath = '/'\nto = [%q]\n", b)
	write(one)
	t.Run("alone", func(t *testing.T) {
		p := startProxy(t, "--config", file)
		if resp, body := p.ask(t, "GET", "/x/y"); resp.StatusCode != 200 || body != "a "+strings.TrimPrefix(a, "http://")+"/x/y for 127.0.0.1" {
			t.Errorf("%s: %q", resp.Status, body)
		}
		if resp, _ := p.ask(t, "GET", "/xy"); resp.StatusCode != 404 {
			t.Error(resp.Status)
		}
		write("route = 1")
		p.Process.Signal(syscall.SIGHUP)
		p.logLine(t, "the routes stay as they were")
		write(one + two)
		p.Process.Signal(syscall.SIGHUP)
		p.logLine(t, "routes read again")
		if _, body := p.ask(t, "GET", "/xy"); !strings.HasPrefix(body, "b ") {
			t.Errorf("%q", body)
		}
	})
	t.Run("prefork", func(t *testing.T) {
		write(one)
		p := startPreforkedCommand(t, limited(t, binary, "proxy", "--listen", "127.0.0.1:0", "--prefork", "2", "--config", file))
		if body, err := p.get("/x"); err != nil || !strings.HasPrefix(body, "a ") {
			t.Errorf("%q, %v", body, err)
		}
		write("[[route]]\nto = ['http://a']\npth = 'x'")
		p.Process.Signal(syscall.SIGHUP)
		eventually(t, "refusal", func() bool { return strings.Contains(p.text(), `there is no "route.pth"`) })
		write(two)
		p.Process.Signal(syscall.SIGHUP)
		eventually(t, "new routes", func() bool {
			body, err := p.get("/y")
			return err == nil && strings.HasPrefix(body, "b ")
		})
	})
}

// TestProxyMetrics: /metrics has the sums of all workers, and those of workers that have ended.
func TestProxyMetrics(t *testing.T) {
	a, b := named(t, "a"), "http://127.0.0.1:1"
	p := startPreforkedCommand(t, limited(t, binary, "proxy", "--listen", "127.0.0.1:0", "--prefork", "2", "--to", a+","+b, "--admin", "127.0.0.1:0"))
	admin := p.admin(t)
	value := func(name, upstream string) int {
		text, err := admin.get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text, fmt.Sprintf("\nsluice_proxy_upstream_%s{host=\"\",path=\"/\",upstream=%q} ", name, upstream))
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.Atoi(line)
		if err != nil {
			return -1
		}
		return n
	}
	sent := 0
	ask := func() {
		t.Helper()
		for range 10 {
			if body, err := p.get("/"); err != nil || body[:1] != "a" {
				t.Errorf("%q, %v", body, err)
			}
			sent++
		}
		eventually(t, "sums", func() bool { return value("requests_total", a) == sent && value("pending", a) == 0 })
	}
	ask()
	eventually(t, "both workers", func() bool { return value("up", a) == 2 })
	eventually(t, "failures", func() bool {
		return value("failures_total", b) > 0 && value("failures_total", b) == value("requests_total", b)
	})
	if value("failures_total", a) != 0 || value("hedges_total", a) != 0 {
		t.Error("a has failed")
	}
	stream, err := client().Get(admin.url + "/dashboard.events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	for events := sse.NewReader(stream.Body); ; { // the page has them, too
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf(`{"title":"Upstreams","columns":["route","upstream","up for processes","in progress","requests","failures","hedges"],"rows":[["/","%s","2","0","%d","0","0"],`, a, sent); strings.Contains(string(e.Data), want) {
			break
		}
	}
	p.Process.Signal(syscall.SIGHUP)
	eventually(t, "end of the rolling restart", func() bool { return strings.Contains(p.text(), "rolling restart is done") })
	ask()
	eventually(t, "both new workers", func() bool { return value("up", a) == 2 })
}

// TestPublishedUpstreams: however often the routes change, upstreams take a part of the segment, and
// those that have a place keep it.
func TestPublishedUpstreams(t *testing.T) {
	segment, err := shared.New(shared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer segment.Close()
	var all []upstreamFigures
	for n := range maxPublished + 10 {
		all = append(all, upstreamFigures{path: "/", name: strconv.Itoa(n)})
	}
	for range 2 {
		places, err := openUpstreams(segment, all)
		if err == nil || places[maxPublished-1].up == nil || places[maxPublished].up != nil {
			t.Fatalf("%v, %+v", err, places[maxPublished])
		}
	}
	if places, err := openUpstreams(segment, all[:maxPublished]); err != nil || places[0].hedges == nil {
		t.Error(err)
	}
}

// TestProxySticky: each worker understands the cookies of the others.
func TestProxySticky(t *testing.T) {
	to := named(t, "a") + "," + named(t, "b")
	p := startPreforkedCommand(t, limited(t, binary, "proxy", "--listen", "127.0.0.1:0", "--prefork", "2", "--balance", "sticky", "--to", to))
	var cookie *http.Cookie
	var name string
	for n := range 40 {
		req, err := http.NewRequest("GET", p.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Close = true // the next one may get another worker
		if cookie != nil {
			req.AddCookie(cookie)
		}
		resp, err := client().Do(req)
		_, body := answer(t, resp, err)
		cookies := resp.Cookies()
		if n == 0 && len(cookies) == 1 {
			cookie, name = cookies[0], body[:1]
		} else if len(cookies) > 0 || body[:1] != name {
			t.Fatalf("request %d: %q after %q, cookies %v", n, body, name, cookies)
		}
	}
}

// TestProxyFlags: what is wrong is found before anything listens.
func TestProxyFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "routes.toml")
	for _, c := range []struct {
		file, want string
		args       []string
	}{
		{want: "where do requests go?"},
		{want: "without a path", args: []string{"--to", "http://a/b"}},
		{want: "sluice: the upstream \"a:9000\" has no scheme: ", args: []string{"--to", "http://a,a:9000"}},
		{want: "none of least-loaded", args: []string{"--to", "http://a", "--balance", "random"}},
		{want: "none of replace", args: []string{"--to", "http://a", "--forwarded", "x"}},
		{want: "exclude each other", args: []string{"--to", "http://a", "--config", file}},
		{want: "no such file", args: []string{"--config", file + "x"}},
		{want: "--listen 80 is a port alone", args: []string{"--to", "http://a", "--listen", "80"}},
		{want: "unknown flag", args: []string{"--to", "http://a", "--spa"}},
		{want: "there is no [[route]]", file: "# empty"},
		{want: "there is no upstream", file: "[[route]]\n"},
		{want: `the route of host "b", path "/c": the upstream "x" has no scheme`, file: "[[route]]\nto=['http://a']\n[[route]]\nhost='b'\npath='/c'\nto=['x']"},
		{want: "expected", file: "[[route]\n"},
		{want: "is no time to wait", file: "[[route]]\nto=['http://a']\ntimeout='0s'"},
		{want: "HedgeAfter and Sticky exclude", file: "[[route]]\nto=['http://a', 'http://b']\nhedge-after='1s'\nbalance='sticky'"},
		{want: "below zero", file: "[[route]]\nto=['http://a']\nmax-conns=-1"},
		{want: "is no name without a port", file: "[[route]]\nto=['http://a']\nhost='a:80'"},
		{want: "does not begin with a slash", file: "[[route]]\nto=['http://a']\npath='x'"},
		{want: "the same host and path", file: "[[route]]\nto=['http://a']\n[[route]]\nto=['http://a']\npath='/'"},
	} {
		if c.file != "" {
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			c.args = []string{"--config", file}
		}
		out, err := limited(t, binary, append([]string{"proxy"}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q %q: %s, want %q", c.args, c.file, out, c.want)
		}
	}
}

// TestRoutes: the most specific host and then the longest path decide.
func TestRoutes(t *testing.T) {
	var routes []route
	for _, text := range []routeText{
		{Path: "/"}, {Path: "/api"}, {Path: "/api/v2/"}, {Host: "*.example.com"}, {Host: "*.b.example.com"}, {Host: "A.example.com", Path: "/x"},
	} {
		text.To = []string{"http://127.0.0.1:1"}
		r, err := text.route()
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r)
	}
	g, err := newGateway(routes)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	for _, c := range []struct{ host, path, want string }{
		{"h", "/", " /"}, {"h", "/apix", " /"}, {"h", "/api", " /api"}, {"h:80", "/api/v2", " /api"}, {"h", "/api/v2/x", " /api/v2/"},
		{"h", "/x/../api", " /api"}, {"h", "/%61pi", " /api"},
		{"c.example.com", "/api", ".example.com /"}, {"B.EXAMPLE.com.", "/", ".example.com /"}, {"c.b.example.com:8080", "/", ".b.example.com /"},
		{"a.example.com", "/x/y", "a.example.com /x"}, {"a.example.com", "/y", ".example.com /"}, {"example.com", "/", " /"}, {"[::1]:80", "/", " /"},
	} {
		var ctx sluice.RequestCtx
		ctx.Request.SetRequestURI(c.path)
		ctx.Request.Header.SetHost(c.host)
		p := g.find(&ctx)
		got := "none"
		for _, r := range g.routes {
			if r.proxy == p {
				got = r.host + " " + r.path
			}
		}
		if got != c.want {
			t.Errorf("%s%s: %q, want %q", c.host, c.path, got, c.want)
		}
	}
	for i, isForAll := range []bool{true, false, false, false} { // alone
		one, err := newGateway(routes[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		defer one.close()
		if p := one.find(new(sluice.RequestCtx)); (p != nil) != isForAll {
			t.Errorf("route %d gets a request for /: %v, want %v", i, p != nil, isForAll)
		}
	}
}

// TestRouteOptions: what the help shows is read.
func TestRouteOptions(t *testing.T) {
	_, text, _ := strings.Cut(proxyHelp, "decides.\n")
	text, _, _ = strings.Cut(text, "\nRequests without")
	file := filepath.Join(t.TempDir(), "routes.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	routes, err := readRoutes(file)
	if err != nil || len(routes) != 2 {
		t.Fatal(len(routes), err)
	}
	want := proxy.Options{
		To: []string{"h2c://10.0.0.9:9000"}, Balance: proxy.Hash, HealthPath: "/healthz", Timeout: 30 * time.Second, TunnelTimeout: 10 * time.Minute,
		MaxConns: 500, MaxBody: 1 << 20, Attempts: 2, HedgeAfter: 200 * time.Millisecond, Forwarded: proxy.ForwardedAppend, RewriteHost: true, Via: "edge", StickyKey: "a secret",
	}
	if got := routes[1].options; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\n%+v", got, want)
	}
}
