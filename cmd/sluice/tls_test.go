package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// writePair writes a certificate for host and its key to two files.
func writePair(t *testing.T, dir, host string) (cert, key string) {
	t.Helper()
	certPEM, keyPEM, err := sluice.GenerateTestCertificate(host)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, content := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// certificateName returns for which name the server has a certificate.
func (p *process) certificateName(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return strings.Join(conn.ConnectionState().PeerCertificates[0].DNSNames, " ")
}

func TestCertificateFiles(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine ...string) {
		pair := t.TempDir()
		cert, key := writePair(t, pair, "first.example")
		p := start(t, append(engine, tree(t, map[string]string{"a": "content"}), "--tls-cert", cert, "--tls-key", key)...)
		if _, body := p.ask(t, "GET", "/a"); body != "content" || !strings.HasPrefix(p.url, "https://") {
			t.Fatalf("%s: %q", p.url, body)
		}
		if name := p.certificateName(t); name != "first.example" {
			t.Errorf("certificate for %q", name)
		}
		// What cannot be read changes nothing.
		if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Skip(err)
		}
		p.logLine(t, "the certificate stays as it was")
		if name := p.certificateName(t); name != "first.example" {
			t.Errorf("after a failed reload: certificate for %q", name)
		}
		writePair(t, pair, "second.example")
		if err := p.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if line := p.logLine(t, "certificate reloaded"); !strings.Contains(line, "for second.example until ") {
			t.Errorf("it says %s", line)
		}
		if name := p.certificateName(t); name != "second.example" {
			t.Errorf("after the reload: certificate for %q", name)
		}
		if err := p.interrupt(t, os.Interrupt); err != nil {
			t.Error(err)
		}
	})
}

// certificateNamer serves TLS, and returns what connects for a host, with the sessions that it
// has: it returns the name of the certificate, or "resumed".
func certificateNamer(t *testing.T, config *tls.Config) (name func(host string) string) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Write([]byte("x")) // with the tickets
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	sessions := tls.NewLRUClientSessionCache(8)
	return func(host string) string {
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true, ServerName: host, ClientSessionCache: sessions})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1))
		if conn.ConnectionState().DidResume {
			return "resumed"
		}
		return conn.ConnectionState().PeerCertificates[0].DNSNames[0]
	}
}

// Files that change are read again, those of several certificates too; what is wrong changes
// nothing. The client's server name chooses, and old sessions go on.
func TestCertificateWatch(t *testing.T) {
	var all [2][2]string
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for i, host := range []string{"one.example", "two.example"} {
		all[i][0], all[i][1] = writePair(t, dirs[i], host)
	}
	o := tlsOptions{certFiles: []string{all[0][0], all[1][0]}, keyFiles: []string{all[0][1], all[1][1]}}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	c, err := o.load("")
	if err != nil {
		t.Fatal(err)
	}
	lines, write := io.Pipe()
	logged := bufio.NewScanner(lines)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.watch(ctx, time.Millisecond, log.New(write, "", 0))

	name := certificateNamer(t, c.config())
	for host, want := range map[string]string{"two.example": "two.example", "one.example": "one.example", "other.example": "one.example"} {
		if got := name(host); got != want {
			t.Errorf("%s: certificate for %s", host, got)
		}
	}
	if err := os.WriteFile(all[1][0], []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if logged.Scan(); !strings.Contains(logged.Text(), "stays as it was") {
		t.Errorf("logged %q", logged.Text())
	}
	if got := name("two.example"); got != "resumed" {
		t.Errorf("after what cannot be read: %s", got)
	}
	writePair(t, dirs[1], "three.example") // the watcher waits with its line
	for logged.Scan() && !strings.Contains(logged.Text(), "reloaded: for one.example") {
		if !strings.Contains(logged.Text(), "stays as it was") { // between the two files
			t.Errorf("logged %q", logged.Text())
		}
	}
	if !strings.Contains(logged.Text(), "for three.example until ") {
		t.Errorf("logged %q", logged.Text())
	}
	if got := name("three.example"); got != "three.example" {
		t.Errorf("after the reload: %s", got)
	}
	if got := name("one.example"); got != "resumed" {
		t.Errorf("an old session after the reload: %s", got)
	}
	cancel()
	go io.Copy(io.Discard, lines)
}

// Plain HTTP leads to HTTPS, which says that it is to be used, with one process and with workers.
func TestHTTPSRedirect(t *testing.T) {
	cert, key := writePair(t, t.TempDir(), "localhost")
	for _, more := range [][]string{nil, {"--prefork", "2", "--addr", "127.0.0.1:18443"}} {
		if more != nil && runtime.GOOS != "linux" {
			continue
		}
		args := append([]string{"serve", "--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--hsts", "1h", "--https-redirect", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, more...)
		cmd := exec.Command(binary, args...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
		var plain, secure, admin string
		for logs := bufio.NewScanner(stderr); (plain == "" || secure == "" || admin == "") && logs.Scan(); {
			if _, at, ok := strings.Cut(logs.Text(), "status and metrics: "); ok {
				admin = at
			}
			if match := serving.FindStringSubmatch(logs.Text()); match != nil {
				secure = match[1]
			}
			if strings.Contains(logs.Text(), " leads to HTTPS") {
				plain = strings.Fields(logs.Text()[strings.Index(logs.Text(), "http://"):])[0]
			}
		}
		go io.Copy(io.Discard, stderr)
		resp, err := client().Get(plain + "/plaintext?a=b%20c")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		location := resp.Header.Get("Location")
		if resp.StatusCode != 308 || location != secure+"/plaintext?a=b%20c" {
			t.Fatalf("%q: %d, Location %q, want %s/...", more, resp.StatusCode, location, secure)
		}
		resp, err = client().Get(location)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		figures, err := client().Get("http://" + admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(figures.Body)
		figures.Body.Close()
		if !strings.Contains(string(text), `sluice_tls_certificate_expiry_seconds{name="localhost"} `) {
			t.Errorf("%q: no age of the certificate in %s", more, text)
		}
		if got := resp.Header.Get("Strict-Transport-Security"); resp.StatusCode != 200 || got != "max-age=3600" {
			t.Errorf("%q: %d, Strict-Transport-Security %q", more, resp.StatusCode, got)
		}
	}
}

// The Location of what leads to HTTPS.
func TestRedirectTo(t *testing.T) {
	for _, c := range [][3]string{
		{":443", "a.example", "https://a.example/x?y"}, {":https", "a.example:80", "https://a.example/x?y"},
		{"[::]:8443", "a.example:8080", "https://a.example:8443/x?y"}, {":8443", "[::1]", "https://[::1]:8443/x?y"},
		{":443", "[::1]:80", "https://[::1]/x?y"}, {":443", "127.0.0.1", "https://127.0.0.1/x?y"},
	} {
		var ctx sluice.RequestCtx
		ctx.Request.SetRequestURI("/x?y")
		ctx.Request.Header.SetHost(c[1])
		redirectTo(c[0])(&ctx)
		if got := string(ctx.Response.Header.Peek("Location")); got != c[2] {
			t.Errorf("%s for %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

// A request line may have the whole URL, or none (RFC 9112 section 3.2).
func TestRedirectOfOtherTargets(t *testing.T) {
	for target, want := range map[string]string{
		"http://other/a%20b?c=d": "https://other/a%20b?c=d", "http://other": "https://other/", "*": "https://host/",
	} {
		var ctx sluice.RequestCtx
		ctx.Init(&sluice.Request{}, nil, nil)
		ctx.Request.Header.SetHost("host")
		ctx.Request.Header.SetRequestURI(target)
		redirectTo("x:443")(&ctx)
		if got := string(ctx.Response.Header.Peek("Location")); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestTLSFlags(t *testing.T) {
	for _, o := range []tlsOptions{
		{certFiles: []string{"a", "b"}, keyFiles: []string{"c"}}, {keyFiles: []string{"c"}}, {hsts: 1}, {redirect: ":80"},
		{isSelfSigned: true, redirect: "80"}, {isSelfSigned: true, hsts: -1}, {certFiles: []string{"a"}, keyFiles: []string{"b"}, isSelfSigned: true},
	} {
		if err := o.check(); err == nil {
			t.Errorf("%+v is allowed", o)
		}
	}
}
