package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// The first certificate comes by TLS-ALPN-01, on each engine and with compact TLS. Other hosts
// are refused, and the next process takes the certificates from the cache.
func TestACME(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine ...string) {
		for _, more := range [][]string{nil, {"--compact-tls", "--http2=false"}} {
			port, cache := freePort(t), filepath.Join(t.TempDir(), "new", "cache")
			a := startAuthority(t, port, freePort(t), time.Hour)
			p := a.serve(t, port, cache, append(engine, more...)...)
			first := a.handshake(t, port, "a.example")
			a.handshake(t, port, "B.EXAMPLE")
			checkACMEClients(t, a, port)
			if info, err := os.Stat(cache); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
				t.Errorf("the cache: %v, %v", info.Mode(), err)
			}
			if err := p.interrupt(t, os.Interrupt); err != nil {
				t.Error(err)
			}
			a.server.Close() // it is not needed any more
			p = a.serve(t, port, cache, append(engine, more...)...)
			if again := a.handshake(t, port, "a.example"); !again.Equal(first) {
				t.Errorf("%q: another certificate after a restart", more)
			}
			if got := a.orders.Load(); got != 2 {
				t.Errorf("%q: %d orders for two hosts", more, got)
			}
			if err := p.interrupt(t, os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	})
}

// checkACMEClients connects in other ways than for a host that there is.
func checkACMEClients(t *testing.T, a *authority, port string) {
	t.Helper()
	for _, host := range []string{"c.example", "x.a.example", "example"} {
		if _, err := dialFor(port, &tls.Config{ServerName: host, RootCAs: a.roots}); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("%s: %v", host, err)
		}
	}
	nameless, err := dialFor(port, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer nameless.Close()
	if got := nameless.ConnectionState().PeerCertificates[0].DNSNames; got[0] != "a.example" {
		t.Errorf("a client that names no host: certificate for %q", got)
	}
	// The connection of an authority serves nothing (RFC 8737 section 3).
	conn, err := dialFor(port, &tls.Config{ServerName: "a.example", NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
	if got, _ := io.ReadAll(conn); len(got) > 0 || conn.ConnectionState().NegotiatedProtocol != acme.ALPNProto {
		t.Errorf("on a connection of %q: %q", conn.ConnectionState().NegotiatedProtocol, got)
	}
}

// An authority that does not reach the TLS port asks by HTTP, and the log says why. Other requests
// are redirected there.
func TestACMEByHTTP(t *testing.T) {
	port, plain := freePort(t), freePort(t)
	a := startAuthority(t, freePort(t), plain, time.Hour)
	p := a.serve(t, port, t.TempDir(), "--https-redirect", "127.0.0.1:"+plain, "--hsts", "1h", "--admin", "127.0.0.1:0")
	_, admin, _ := strings.Cut(p.logLine(t, "status and metrics: "), "metrics: ")
	p.logLine(t, "refuses: tls-alpn-01 for ")
	p.logLine(t, " certificate for a.example until ")
	a.handshake(t, port, "a.example")
	a.handshake(t, port, "b.example")

	resp, err := client().Get("http://127.0.0.1:" + plain + "/x")
	if status, _ := answer(t, resp, err); status != 308 || resp.Header.Get("Location") != "https://127.0.0.1:"+port+"/x" {
		t.Errorf("%d to %s", status, resp.Header.Get("Location"))
	}
	resp, err = client().Get("http://127.0.0.1:" + plain + challengePath + "x")
	if status, _ := answer(t, resp, err); status != 403 { // it is none of the hosts
		t.Errorf("a challenge without an order: %d", status)
	}
	resp, err = client().Get("http://" + admin + "/metrics")
	_, text := answer(t, resp, err)
	for _, host := range []string{"a.example", "b.example"} {
		if !strings.Contains(text, `sluice_tls_certificate_expiry_seconds{name="`+host+`"} `) {
			t.Errorf("no age of the certificate for %s in %s", host, text)
		}
	}
	resp, err = client().Get("https://127.0.0.1:" + port + "/plaintext")
	if status, _ := answer(t, resp, err); status != 200 || resp.Header.Get("Strict-Transport-Security") != "max-age=3600" {
		t.Errorf("%d, Strict-Transport-Security %q", status, resp.Header.Get("Strict-Transport-Security"))
	}
}

// A certificate is renewed when a third of its time is left. While the authority is away, the
// last one is served on, and the log says what has failed.
func TestACMERenewal(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for certificates to end")
	}
	port := freePort(t)
	a := startAuthority(t, port, freePort(t), 9*time.Second)
	p := a.serve(t, port, t.TempDir())
	first := a.handshake(t, port, "a.example")
	for range 4 { // two each
		p.logLine(t, ".example until ")
	}
	second := a.handshake(t, port, "a.example")
	if second.Equal(first) {
		t.Fatal("it was not renewed")
	}
	a.server.Close()
	p.logLine(t, "cannot reach "+a.server.Listener.Addr().String())
	if last := a.handshake(t, port, "a.example"); !last.Equal(second) {
		t.Error("another certificate while the authority is away")
	}
}

func TestACMEFlags(t *testing.T) {
	t.Setenv("STATE_DIRECTORY", "")
	for says, o := range map[string]acmeOptions{
		"need --acme":              {email: "me@a.example"},
		"by DNS only":              {hosts: []string{"*.a.example"}},
		"is an address":            {hosts: []string{"192.0.2.1"}},
		"without a dot":            {hosts: []string{"localhost"}},
		`not "a.example:443"`:      {hosts: []string{"a.example:443"}},
		`not ""`:                   {hosts: []string{""}},
		`not "a b.example"`:        {hosts: []string{"a b.example"}},
		`not "..example"`:          {hosts: []string{"..example"}},
		"takes an address":         {hosts: []string{"a.example"}, email: "me"},
		`not "http://a.example/d"`: {hosts: []string{"a.example"}, directory: "http://a.example/d"},
		"100 hosts at most":        {hosts: strings.Split(strings.Repeat("x.example,", 101)+"y.example", ",")},
	} {
		for i := range o.hosts {
			if strings.Contains(says, "at most") {
				o.hosts[i] = strings.Repeat("x", i%50+1) + strings.Repeat("y", i/50) + ".example"
			}
		}
		if o.directory == "" {
			o.directory = acme.LetsEncryptURL
		}
		if err := o.complete(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", o, err, says)
		}
	}
	t.Setenv("STATE_DIRECTORY", "/state:/other")
	o := acmeOptions{hosts: []string{"A.example", "a.example.", "bücher.example"}, directory: acme.LetsEncryptURL}
	if err := o.complete(); err != nil || strings.Join(o.hosts, " ") != "a.example xn--bcher-kva.example" {
		t.Errorf("%q, %v", o.hosts, err)
	}
	if want := filepath.FromSlash("/state/acme/acme-v02.api.letsencrypt.org_directory"); !strings.HasSuffix(o.cache, want) {
		t.Errorf("the cache is %s, want %s", o.cache, want)
	}
}

// A certificate that cannot be kept is used; a key that cannot be kept is an error. What is not
// for the hosts, or too long, is not used.
func TestACMEWithoutCache(t *testing.T) {
	dir := t.TempDir()
	options := acmeOptions{hosts: []string{"kept.example"}, directory: acme.LetsEncryptURL, cache: filepath.Join(dir, "cache")}
	var logged bytes.Buffer
	o, err := newOrderer(options, log.New(&logged, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(options.cache); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(options.cache, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := options.openCache(); err == nil || !strings.Contains(err.Error(), "--acme-cache") {
		t.Errorf("a cache that is a file: %v", err)
	}
	if err := o.Put(t.Context(), "key", []byte("no certificate")); err == nil {
		t.Error("a key that was not kept is no error")
	}
	for _, c := range []struct {
		host string
		more int
	}{{"other.example", 0}, {"kept.example", issuedRoom}, {"kept.example", 0}} {
		cert, key, err := sluice.GenerateTestCertificate(c.host)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Put(t.Context(), c.host, append(append(cert, key...), make([]byte, c.more)...)); err != nil {
			t.Error(err)
		}
	}
	certificates, err := o.issued()
	if all := certificates.all(); err != nil || len(all) != 1 || all[0].Leaf.DNSNames[0] != "kept.example" {
		t.Errorf("%v, %v", all, err)
	}
	if got := logged.String(); strings.Count(got, "certificate for kept.example until ") != 1 || strings.Count(got, "cannot use a certificate for kept.example") != 1 || strings.Count(got, "cannot keep") != 4 {
		t.Errorf("logged %s", got)
	}
	if _, err := o.Get(t.Context(), "none"); err == nil || err == autocert.ErrCacheMiss {
		t.Errorf("a cache that is a file: %v", err)
	}
}

// What an authority says is logged once a minute, without control characters.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{200, `{"status":"valid"}`, ""},
		{200, "-----BEGIN CERTIFICATE-----", ""},
		{200, "", ""},
		{400, `{"type":"urn:ietf:params:acme:error:badNonce","detail":"old","status":400}`, ""},
		{429, `{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many","status":429}`, "too many"},
		{503, "<html>", "Service Unavailable"},
		{503, "{}", "Service Unavailable"},
		{200, `{"status":"invalid","identifier":{"type":"dns","value":"a.example"},"challenges":[{"type":"dns-01"},{"type":"http-01","error":{"detail":"404"}}]}`, "http-01 for a.example: 404"},
		{200, `{"status":"invalid","error":{"detail":"no"}}`, "no"},
		{200, `{"status":"invalid"}`, ""},
	} {
		if got := refusal(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.status, c.body, got, c.want)
		}
	}
	var logged bytes.Buffer
	r := &refusals{logger: log.New(&logged, "", 0)}
	for _, line := range []string{"a\r\nb", "a\r\nb", "c", "a\r\nb"} {
		r.log(line)
	}
	if got := logged.String(); got != "a  b\nc\na  b\n" {
		t.Errorf("logged %q", got)
	}
}
