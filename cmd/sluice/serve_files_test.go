package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestServeFiles(t *testing.T) {
	onEachEngine(t, func(t *testing.T, engine ...string) {
		dir := tree(t, map[string]string{
			"hello.txt":      "hello, world",
			"site/index.htm": "the index",
			"list/a.txt":     "a",
		})
		p := start(t, append(engine, dir, "--index", "index.html,index.htm")...)
		for _, c := range []struct {
			path   string
			status int
			body   string
		}{
			{"/hello.txt", 200, "hello, world"},
			{"/hello%2Etxt?v=1", 200, "hello, world"},
			{"/site/", 200, "the index"},
			{"/site", 302, ""},
			{"/list/", 200, "a.txt"},
			{"/none", 404, "404"},
			{"/..%2f..%2fetc/passwd", 404, "404"},
		} {
			resp, body := p.ask(t, "GET", c.path)
			if resp.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%s: %d %q, want %d %q", c.path, resp.StatusCode, body, c.status, c.body)
			}
			if got := resp.Header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("%s: X-Content-Type-Options %q", c.path, got)
			}
			if got := resp.Header.Get("Server"); got != "sluice" {
				t.Errorf("%s: Server %q", c.path, got)
			}
		}
		resp, body := p.ask(t, "GET", "/hello.txt", "Range", "bytes=7-")
		if resp.StatusCode != 206 || body != "world" || resp.Header.Get("Content-Range") != "bytes 7-11/12" {
			t.Errorf("range: %d %q %v", resp.StatusCode, body, resp.Header)
		}
		resp, body = p.ask(t, "HEAD", "/hello.txt")
		if resp.StatusCode != 200 || body != "" || resp.ContentLength != 12 {
			t.Errorf("HEAD: %d %q %d", resp.StatusCode, body, resp.ContentLength)
		}
	})
}

// TestFlagsOfFiles: what flags change in the answer to one request.
func TestFlagsOfFiles(t *testing.T) {
	dir := tree(t, map[string]string{
		"page.html": "<p>page",
		"style.css": strings.Repeat("p { margin: 0 }\n", 100),
		"sub/x":     "x",
	})
	for _, c := range []struct {
		name, path, flags string
		fields            []string // of the request, names and values
		status            int
		field, value      string // of the answer
	}{
		{"no cache field", "/style.css", "", nil, 200, "Cache-Control", ""},
		{"cache control", "/style.css", "--cache-control=private,max-age=5", nil, 200, "Cache-Control", "private,max-age=5"},
		{"cache control of pages", "/page.html", "--cache-control=max-age=5", nil, 200, "Cache-Control", "max-age=5"},
		{"cache control of lists", "/sub/", "--cache-control=max-age=5", nil, 200, "Cache-Control", "no-cache"},
		{"cache control of errors", "/none", "--cache-control=max-age=5", nil, 404, "Cache-Control", ""},
		{"max age", "/style.css", "--max-age=2h", nil, 200, "Cache-Control", "max-age=7200"},
		{"max age of a part", "/style.css", "--max-age=2h", []string{"Range", "bytes=0-1"}, 206, "Cache-Control", "max-age=7200"},
		{"max age of pages", "/page.html", "--max-age=2h", nil, 200, "Cache-Control", "no-cache"},
		{"max age 0", "/style.css", "--max-age=0", nil, 200, "Cache-Control", "max-age=0"},
		{"no etag", "/style.css", "--etag=false", nil, 200, "Etag", ""},
		{"no listing", "/sub/", "--listing=false", nil, 403, "Etag", ""},
		{"gzip", "/style.css", "", []string{"Accept-Encoding", "gzip"}, 200, "Content-Encoding", "gzip"},
		{"br", "/style.css", "", []string{"Accept-Encoding", "gzip, br, zstd"}, 200, "Content-Encoding", "br"},
		{"zstd", "/style.css", "", []string{"Accept-Encoding", "gzip, zstd"}, 200, "Content-Encoding", "zstd"},
		{"not compressed", "/style.css", "--compress=false", []string{"Accept-Encoding", "gzip"}, 200, "Content-Encoding", ""},
		{"no cors", "/style.css", "", []string{"Origin", "http://a"}, 200, "Access-Control-Allow-Origin", ""},
		{"cors", "/style.css", "--cors", []string{"Origin", "http://a"}, 200, "Access-Control-Allow-Origin", "*"},
		{"cors of errors", "/none", "--cors", nil, 404, "Access-Control-Allow-Origin", "*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{dir}
			if c.flags != "" {
				args = append(args, c.flags)
			}
			p := start(t, args...)
			resp, _ := p.ask(t, "GET", c.path, c.fields...)
			if got := resp.Header.Get(c.field); resp.StatusCode != c.status || got != c.value {
				t.Errorf("%d, %s: %q; want %d and %q", resp.StatusCode, c.field, got, c.status, c.value)
			}
		})
	}
}

func TestMethods(t *testing.T) {
	p := start(t, tree(t, map[string]string{"a": "a"}), "--cors")
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE"} {
		resp, _ := p.ask(t, method, "/a")
		if resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: %d, Allow %q", method, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
	resp, body := p.ask(t, "OPTIONS", "/a", "Origin", "http://x", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "range")
	if resp.StatusCode != 204 || body != "" || resp.Header.Get("Access-Control-Allow-Headers") != "*" || resp.Header.Get("Access-Control-Allow-Methods") != "GET, HEAD" {
		t.Errorf("preflight: %d %v", resp.StatusCode, resp.Header)
	}
}

func TestDotfiles(t *testing.T) {
	dir := tree(t, map[string]string{
		".env":                      "secret",
		".git/config":               "secret",
		"a/.b/c":                    "secret",
		"a/.well-known/x":           "secret",
		".well-known/security.txt":  "contact",
		".well-known/.secret":       "secret",
		".well-knownish":            "secret",
		"a/file..txt":               "plain",
		"plain.txt":                 "plain",
		"a/.htpasswd":               "secret",
		"folder.d/still.plain":      "plain",
		".hidden-folder/index.html": "secret",
	})
	hides, shows := start(t, dir), start(t, dir, "--dotfiles")
	for path, isHidden := range map[string]bool{
		"/.env": true, "/%2eenv": true, "//.env": true, "/x/../.env": true, "/.git/": true, "/.git": true,
		"/.git/config": true, "/a/.b/c": true, "/a/.well-known/x": true, "/.well-known/.secret": true,
		"/.well-knownish": true, "/a/.htpasswd": true, "/.hidden-folder/": true,
		"/.well-known/security.txt": false, "/.well-known/": false, "/a/file..txt": false, "/plain.txt": false,
		"/folder.d/still.plain": false,
	} {
		resp, body := hides.ask(t, "GET", path)
		if (resp.StatusCode == 404) != isHidden || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
		if resp, _ := shows.ask(t, "GET", path); resp.StatusCode == 404 {
			t.Errorf("%s with --dotfiles: %d", path, resp.StatusCode)
		}
	}
	for path, want := range map[string][]string{"/": {".well-known", "plain.txt"}, "/a/": {"file..txt"}, "/.well-known/": {"security.txt"}} {
		_, page := hides.ask(t, "GET", path)
		for _, name := range want {
			if !strings.Contains(page, name) {
				t.Errorf("the list of %s lacks %s", path, name)
			}
		}
		for _, name := range []string{".env", ".git", ".b", ".htpasswd", ".secret", "ish"} {
			if strings.Contains(page, ">"+name) || strings.Contains(page, `"`+name) {
				t.Errorf("the list of %s has %s", path, name)
			}
		}
	}
	if _, page := shows.ask(t, "GET", "/"); !strings.Contains(page, ".env") {
		t.Error("with --dotfiles the list lacks .env")
	}
}

// TestChangesAreSeen: an edited file is served anew after --freshness.
func TestChangesAreSeen(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "before"})
	p := start(t, dir, "--freshness", "0")
	if _, body := p.ask(t, "GET", "/a.txt"); body != "before" {
		t.Fatal(body)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("after!"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, body := p.ask(t, "GET", "/a.txt"); body != "after!" {
		t.Errorf("got %q after the change", body)
	}
}

// TestSymlinkOut: a link that leads out of the folder is not followed.
func TestSymlinkOut(t *testing.T) {
	outside := tree(t, map[string]string{"secret": "secret"})
	dir := tree(t, map[string]string{"a": "a"})
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Skip(err)
	}
	p := start(t, dir)
	for _, path := range []string{"/out/secret", "/out/", "/out"} {
		if resp, body := p.ask(t, "GET", path); resp.StatusCode == 200 || strings.Contains(body, "secret") {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
	}
}

// TestCompressRoot: copies are kept where the flag says, and never in the
// folder that is served.
func TestCompressRoot(t *testing.T) {
	dir := tree(t, map[string]string{"a/style.css": strings.Repeat("p { margin: 0 }\n", 100)})
	copies := filepath.Join(t.TempDir(), "new", "copies")
	p := start(t, dir, "--compress-root", copies)
	if resp, _ := p.ask(t, "GET", "/a/style.css", "Accept-Encoding", "gzip"); resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not encoded")
	}
	eventually(t, "a copy", func() bool {
		found, _ := filepath.Glob(filepath.Join(copies, "a", "style.css.*"))
		return len(found) == 1
	})
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Error(err)
	}
	if found, _ := filepath.Glob(filepath.Join(copies, "a", "*")); len(found) != 1 {
		t.Errorf("after the end there is %q", found)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "a", "*")); len(found) != 1 {
		t.Errorf("in the folder there is %q", found)
	}
}

// TestWriteTimeout: a client that stops reading is cut off.
func TestWriteTimeout(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "large")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 256<<20); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "--write-timeout", "100ms", "--drain", "1m")
	resp, err := http.Get(p.url + "/large")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	// The process can only end when the download has: it waits for it for a
	// minute, which is longer than the test.
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Errorf("the download that nobody reads was not cut off: %v", err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 2000 {
		if condition() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("there is no %s", what)
}
