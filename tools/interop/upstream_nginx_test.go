package interop_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/sluicehttp/sluice"
)

// requireNginxEnv names the variable that makes a missing nginx a failure.
const requireNginxEnv = "SLUICE_REQUIRE_NGINX"

// upstreamPatience bounds what a test waits for. It is only reached when a test
// fails.
const upstreamPatience = 20 * time.Second

// An nginx serves for one test.
type nginx struct {
	t          *testing.T
	dir        string
	binary     string
	cmd        *exec.Cmd
	ended      chan struct{} // closed when the process has ended
	trust      *tls.Config   // of clients
	Plain, TLS string        // addresses
	Proxied    string        // the address that /proxied/ leads to; "" if to none
	Generation int           // what /generation answers
	User       string        // a line of the configuration
}

// url is that of a path, without TLS.
func (n *nginx) url(path string) string { return "http://" + n.Plain + path }

// nginxConfig makes what the tests need of nginx.
const nginxConfig = `
{{.User}}
worker_processes 2;
pid nginx.pid;
error_log error.log warn;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path body; proxy_temp_path proxied; fastcgi_temp_path fast; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
	client_max_body_size 200m;
	keepalive_requests 100000; if_modified_since before;
	types { text/plain txt; text/html html; application/octet-stream bin; }
	server {
		listen {{.Plain}};
		listen {{.TLS}} ssl;
		ssl_certificate cert.pem;
		ssl_certificate_key key.pem;
		ssl_session_cache shared:SSL:1m;
		root www;
		location / { }
		location = /generation { return 200 "{{.Generation}}"; }
		location = /echo { return 200 "$request_method $http_x_echo"; }
		location = /status { stub_status; }
		location /targets/ { return 200 "$request_uri"; }
		location /few/ { alias www/; keepalive_requests 3; }
		location /brief/ { alias www/; keepalive_timeout 10ms; }
		location /once/ { alias www/; keepalive_timeout 0; }
		location /gzip/ { alias www/; gzip on; gzip_min_length 0; gzip_types text/plain; }
		location /ssi/ { alias www/; ssi on; ssi_types text/plain; add_trailer X-Trailer "behind"; }
		location /dav/ { alias dav/; dav_methods PUT DELETE; create_full_put_path on; }
		location /small/ { alias dav/; dav_methods PUT; client_max_body_size 1k; }
{{with .Proxied}}
		location /proxied/ { proxy_pass http://{{.}}/; proxy_buffering off; proxy_request_buffering off; proxy_http_version 1.1; }
{{end}}
	}
}
`

// startNginx starts an nginx with the files of www; it ends with the test.
func startNginx(t *testing.T, proxied string, www map[string]string) *nginx {
	t.Helper()
	n := &nginx{t: t, binary: findNginx(t), dir: t.TempDir(), Proxied: proxied}
	if os.Getuid() == 0 {
		n.User = "user root;" // others cannot read the folder
	}
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	n.trust = &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	n.write("cert.pem", string(cert))
	n.write("key.pem", string(key))
	for name, content := range www {
		n.write("www/"+name, content)
	}
	n.write("dav/empty", "")
	n.start()
	return n
}

// findNginx returns nginx's path, or skips the test.
func findNginx(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv(requireNginxEnv) != "" {
		t.Fatalf("there is no nginx, and %s is set", requireNginxEnv)
	}
	t.Skipf("there is no nginx; %s=1 makes that a failure", requireNginxEnv)
	return ""
}

// write writes a file.
func (n *nginx) write(name, content string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// configure writes the configuration.
func (n *nginx) configure() {
	n.t.Helper()
	var text bytes.Buffer
	if err := template.Must(template.New("nginx").Parse(nginxConfig)).Execute(&text, n); err != nil {
		n.t.Fatal(err)
	}
	n.write("nginx.conf", text.String())
}

// start runs nginx on free ports: on others if somebody takes those first.
func (n *nginx) start() {
	n.t.Helper()
	for range 5 {
		n.Plain, n.TLS = unusedAddr(n.t), unusedAddr(n.t)
		n.configure()
		if n.run() {
			return
		}
	}
	n.t.Fatalf("nginx does not serve: %s", n.log())
}

// run starts the process, and reports whether it serves.
func (n *nginx) run() (serves bool) {
	n.t.Helper()
	n.cmd = exec.Command(n.binary, "-p", n.dir, "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;")
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan struct{})
	n.ended = ended
	go func() {
		_ = n.cmd.Wait() // what it says is in the log
		close(ended)
	}()
	n.t.Cleanup(n.stop)
	for end := time.Now().Add(upstreamPatience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			return false
		default:
		}
		if accepts(n.Plain) && accepts(n.TLS) { // it opens one after the other
			return true
		}
	}
	return false
}

// accepts reports whether somebody listens on the address.
func accepts(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// stop ends nginx. It may be called again.
func (n *nginx) stop() {
	select {
	case <-n.ended:
		return
	default:
	}
	_ = n.cmd.Process.Signal(syscall.SIGTERM) // or it has just ended
	select {
	case <-n.ended:
	case <-time.After(upstreamPatience):
		n.t.Error("nginx does not end")
		_ = n.cmd.Process.Kill()
	}
	if text := n.log(); strings.Contains(text, "[emerg]") || strings.Contains(text, "[alert]") {
		n.t.Errorf("nginx says:\n%s", text)
	}
}

// reload has nginx begin anew, with new workers, and waits for them. The old
// ones end when their requests are answered.
func (n *nginx) reload() {
	n.t.Helper()
	n.Generation++
	n.configure()
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		n.t.Fatal(err)
	}
	var client sluice.Client
	for end := time.Now().Add(upstreamPatience); ; time.Sleep(5 * time.Millisecond) {
		_, body, err := client.Get(nil, n.url("/generation"))
		client.CloseIdleConnections() // it may be an old worker's
		if err == nil && string(body) == fmt.Sprint(n.Generation) {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("nginx is of generation %q (%v), not %d: %s", body, err, n.Generation, n.log())
		}
	}
}

// log returns what nginx complains about.
func (n *nginx) log() string {
	text, err := os.ReadFile(filepath.Join(n.dir, "error.log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// unusedAddr returns an address that nobody listens on.
func unusedAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// A reply is a response.
type reply struct {
	status int
	body   string
	header func(name string) string
}

// An inquiry is a request.
type inquiry struct {
	method string // "" is GET
	url    string
	body   string
	fields []string // names and values
	prep   func(req *sluice.Request)
}

// send sends q with c, and follows up to most redirects.
func (q inquiry) send(c *sluice.Client, most int) (*reply, error) {
	req, resp := sluice.AcquireRequest(), &sluice.Response{}
	defer sluice.ReleaseRequest(req)
	if q.method != "" {
		req.Header.SetMethod(q.method)
	}
	req.SetRequestURI(q.url)
	if q.body != "" {
		req.SetBodyString(q.body)
	}
	for i := 0; i < len(q.fields); i += 2 {
		req.Header.Add(q.fields[i], q.fields[i+1])
	}
	if q.prep != nil {
		q.prep(req)
	}
	req.SetTimeout(upstreamPatience)
	var err error
	if most > 0 {
		err = c.DoRedirects(req, resp, most)
	} else {
		err = c.Do(req, resp)
	}
	if err != nil {
		return nil, err
	}
	body := resp.Body()
	if len(body) > 0 { // HEAD tells of a compression, too
		body, err = resp.BodyUncompressed()
	}
	return &reply{
		status: resp.StatusCode(), body: string(body),
		header: func(name string) string { return string(resp.Header.Peek(name)) },
	}, err
}

// must sends q with c; the request must succeed with a status.
func (q inquiry) must(t *testing.T, c *sluice.Client, status int) *reply {
	t.Helper()
	r, err := q.send(c, 0)
	if err != nil {
		t.Fatalf("%s %s: %v", q.method, q.url, err)
	}
	if r.status != status {
		t.Fatalf("%s %s: status %d, want %d: %.200q", q.method, q.url, r.status, status, r.body)
	}
	return r
}

// counted makes c count the connections that it makes.
func counted(c *sluice.Client) (made func() int) {
	var n int
	ch := make(chan struct{}, 1) // a lock
	ch <- struct{}{}
	c.DialTimeout = func(addr string, timeout time.Duration) (net.Conn, error) {
		<-ch
		n++
		ch <- struct{}{}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return sluice.DialContext(ctx, addr)
	}
	return func() int {
		<-ch
		defer func() { ch <- struct{}{} }()
		return n
	}
}
