package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"net"
	"os"
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

// A worker that replaces one that died has the certificate that is in the files, and not the one
// that the master has read at the last restart; that one if the files are faulty.
func TestCertificateOfALaterWorker(t *testing.T) {
	dir := t.TempDir()
	cert, key := writePair(t, dir, "old.example")
	o := tlsOptions{certFiles: []string{cert}, keyFiles: []string{key}}
	var err error
	if o.pem, err = o.readPEM(); err != nil {
		t.Fatal(err)
	}
	writePair(t, dir, "new.example")
	for _, want := range []string{"new.example", "old.example"} {
		c, err := o.loadInWorker("")
		if err != nil {
			t.Fatal(err)
		}
		if got := (*c.current.Load())[0].Leaf.DNSNames[0]; got != want {
			t.Errorf("certificate for %s, want %s", got, want)
		}
		if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What failed is tried again, also if the files look as they did then, and said once.
func TestCertificateAfterAFailure(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	cert, key := writePair(t, dir, "old.example")
	c, err := (&tlsOptions{certFiles: []string{cert}, keyFiles: []string{key}}).load("")
	if err != nil {
		t.Fatal(err)
	}
	newCert, newKey := writePair(t, other, "new.example")
	sound, err := os.ReadFile(newCert)
	if err != nil {
		t.Fatal(err)
	}
	faulty := filepath.Join(other, "faulty.pem")
	if err := os.WriteFile(faulty, bytes.Repeat([]byte("x"), len(sound)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{faulty, newCert} {
		if err := os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	replace := func(file, by string) {
		if err := os.Rename(by, file); err != nil {
			t.Fatal(err)
		}
	}
	replace(key, newKey)
	replace(cert, faulty)
	lines, write := io.Pipe()
	defer time.AfterFunc(time.Minute, func() { write.Close() }).Stop()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go c.watch(ctx, time.Millisecond, log.New(write, "", 0))
	logged := bufio.NewScanner(lines)
	if logged.Scan(); !strings.Contains(logged.Text(), "stays as it was") {
		t.Errorf("logged %q", logged.Text())
	}
	replace(cert, newCert)
	if logged.Scan(); !strings.Contains(logged.Text(), "reloaded: for new.example") {
		t.Errorf("logged %q", logged.Text())
	}
}

// Plain HTTP leads to HTTPS, which says that it is to be used, with one process and with workers.
func TestHTTPSRedirect(t *testing.T) {
	cert, key := writePair(t, t.TempDir(), "localhost")
	for _, more := range [][]string{nil, {"--prefork", "2", "--addr", "127.0.0.1:18443"}} {
		if more != nil && runtime.GOOS != "linux" {
			continue
		}
		args := append([]string{"serve", "--addr", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key, "--hsts", "1h", "--https-redirect", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, more...)
		cmd := limited(t, binary, args...)
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

// Connections of plain HTTP are bounded, and end with the answer.
func TestRedirectIsBounded(t *testing.T) {
	var said bytes.Buffer
	o := serveOptions{readTimeout: time.Minute}
	o.tls.redirect = "127.0.0.1:0"
	stop, err := o.startRedirect(t.Context(), ":443", nil, log.New(&said, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	addr := strings.TrimPrefix(strings.Fields(said.String())[0], "http://")
	statuses := make(chan string, mostRedirected+2)
	send := func(text string) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, _ = io.WriteString(conn, text)
			answer, err := io.ReadAll(conn)
			line, _, _ := strings.Cut(string(answer), "\r\n")
			if err != nil {
				line = err.Error()
			}
			statuses <- line
		}()
	}
	send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := <-statuses; got != "HTTP/1.1 308 Permanent Redirect" {
		t.Error(got)
	}
	for range mostRedirected + 1 {
		send("GET / HTTP/1.1\r\n")
	}
	if got := <-statuses; got != "HTTP/1.1 503 Service Unavailable" {
		t.Error(got)
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

// TestDescribe: the description of a certificate has its hosts, or says that it has none.
func TestDescribe(t *testing.T) {
	end := time.Date(2999, 1, 2, 0, 0, 0, 0, time.UTC)
	certs := []tls.Certificate{
		{Leaf: &x509.Certificate{DNSNames: []string{"a.example"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 7)}, NotAfter: end}},
		{Leaf: &x509.Certificate{Subject: pkix.Name{CommonName: "b.example"}, NotAfter: end}},
		{},
	}
	if got, want := describe(certs), "for a.example, 192.0.2.7 until 2999-01-02; for no host until 2999-01-02; unknown"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
