package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// start serves a folder with some files until the test ends.
func start(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"site/large.txt":           strings.Repeat("all the same\n", 1000),
		"site/digits":              "0123456789",
		"site/immutable/app.42.js": "let x",
		"site/page/index.html":     "<p>a page",
		"secret":                   "secret",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &sluice.Server{Handler: newHandler(filepath.Join(dir, "site"), filepath.Join(dir, "copies"))}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		server.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// get asks for a target, with fields ("Name: value").
func get(t *testing.T, url string, fields ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestFiles(t *testing.T) {
	url := start(t)
	for _, test := range []struct {
		name, target, field string
		status              int
		contains            string
		wants               string // "Name: value"
	}{
		{"file", "/digits", "", 200, "0123456789", "Cache-Control: no-cache"},
		{"range", "/digits", "Range: bytes=2-4", 206, "234", "Content-Range: bytes 2-4/10"},
		{"no range", "/digits", "Range: bytes=20-", 416, "", "Cache-Control: "},
		{"brotli", "/large.txt", "Accept-Encoding: gzip, br", 200, "", "Content-Encoding: br"},
		{"gzip", "/large.txt", "Accept-Encoding: gzip", 200, "", "Content-Encoding: gzip"},
		{"identity", "/large.txt", "", 200, "all the same\n", "Content-Encoding: "},
		{"immutable", "/immutable/app.42.js", "", 200, "let x", "Cache-Control: public, max-age=31536000, immutable"},
		{"index", "/page/", "", 200, "<p>a page", "Content-Type: text/html; charset=utf-8"},
		{"index, redirected", "/page", "", 200, "<p>a page", ""},
		{"listing", "/", "", 200, "large.txt", "Content-Type: text/html; charset=utf-8"},
		{"missing", "/immutable/nothing", "", 404, "", "Cache-Control: "},
		{"outside", "/..%2fsecret", "", 404, "", ""},
		{"embedded index", "/app/", "", 200, "a part of the program", "Content-Type: text/html; charset=utf-8"},
		{"embedded file", "/app/style.css", "", 200, "system-ui", "Content-Type: text/css; charset=utf-8"},
		{"embedded, missing", "/app/nothing", "", 404, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var fields []string
			if test.field != "" {
				fields = append(fields, test.field)
			}
			resp, body := get(t, url+test.target, fields...)
			if resp.StatusCode != test.status || !strings.Contains(body, test.contains) {
				t.Errorf("%s, %q", resp.Status, body)
			}
			if name, value, _ := strings.Cut(test.wants, ": "); name != "" && resp.Header.Get(name) != value {
				t.Errorf("%s is %q, want %q", name, resp.Header.Get(name), value)
			}
		})
	}
}

// A client that has the file gets 304.
func TestNotModified(t *testing.T) {
	url := start(t)
	for _, target := range []string{"/digits", "/app/style.css"} {
		first, _ := get(t, url+target)
		etag := first.Header.Get("ETag")
		if etag == "" {
			t.Fatalf("%s: no ETag", target)
		}
		again, body := get(t, url+target, "If-None-Match: "+etag)
		if again.StatusCode != 304 || body != "" || again.Header.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %s, %q, %v", target, again.Status, body, again.Header)
		}
	}
}
