package main

import (
	"slices"
	"testing"
)

func TestAcceptsHTML(t *testing.T) {
	for _, c := range []struct {
		accept          []string
		named, possible bool
	}{
		{nil, false, true},
		{[]string{""}, false, true},
		{[]string{"*/*"}, false, true},
		{[]string{"text/*"}, false, true},
		{[]string{"text/html"}, true, true},
		{[]string{"TEXT/HTML;level=1"}, true, true},
		{[]string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true, true},
		{[]string{"application/json"}, false, false},
		{[]string{"application/json, text/plain, */*"}, false, true},
		{[]string{"application/json", "text/html"}, true, true},
		{[]string{"text/html;q=0"}, false, false},
		{[]string{"text/html; Q=0.00, */*"}, false, false},
		{[]string{"*/*, text/html;q=0.000"}, false, false},
		{[]string{"text/html;q=0.001"}, true, true},
		{[]string{"*/*;q=0"}, false, false},
		{[]string{"text/*;q=0, */*"}, false, false},
		{[]string{"image/avif,image/webp,*/*;q=0.8"}, false, true},
		{[]string{"text/htmlx, xtext/html"}, false, false},
	} {
		var values [][]byte
		for _, value := range c.accept {
			values = append(values, []byte(value))
		}
		if named, possible := acceptsHTML(values); named != c.named || possible != c.possible {
			t.Errorf("%q: named %v, possible %v; want %v, %v", c.accept, named, possible, c.named, c.possible)
		}
	}
}

func TestHasExtension(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/users": false, "/users/": false, "/app.js": true, "/a.b/users": false,
		"/v1.2": true, "/name.": false, "/.env": false, "/.env.local": true, "/john.doe": true,
	} {
		if hasExtension([]byte(path)) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

const (
	appPage   = "<!DOCTYPE html><title>App</title>"
	navigates = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
)

func TestSinglePageApplication(t *testing.T) {
	dir := tree(t, map[string]string{
		"index.html":     appPage,
		"assets/app.js":  "let a = 1",
		"docs/intro.txt": "intro",
		".env":           "secret",
	})
	p := start(t, dir, "--spa")
	for _, c := range []struct {
		path, accept string
		status       int
		body, cache  string
	}{
		{"/", navigates, 200, appPage, "no-cache"},
		{"/index.html", "*/*", 200, appPage, "no-cache"},
		{"/users/17", navigates, 200, appPage, "no-cache"},
		{"/users/17", "*/*", 200, appPage, "no-cache"},
		{"/users/17/", "", 200, appPage, "no-cache"},
		{"/users/17", "application/json", 404, "404", ""},
		{"/users/john.doe", navigates, 200, appPage, "no-cache"},
		{"/users/john.doe", "*/*", 404, "404", ""},
		{"/assets/app.js", "*/*", 200, "let a = 1", ""},
		{"/assets/gone.js", "*/*", 404, "404", ""},
		{"/assets/", navigates, 200, appPage, "no-cache"},
		{"/.env", navigates, 404, "404", ""},
		{"/.hidden", "*/*", 404, "404", ""},
	} {
		resp, body := p.ask(t, "GET", c.path, "Accept", c.accept)
		if resp.StatusCode != c.status || len(body) < len(c.body) || body[:len(c.body)] != c.body || resp.Header.Get("Cache-Control") != c.cache {
			t.Errorf("%s for %q: %d %q, Cache-Control %q", c.path, c.accept, resp.StatusCode, body, resp.Header.Get("Cache-Control"))
		}
	}
	resp, body := p.ask(t, "HEAD", "/users", "Accept", navigates)
	if resp.StatusCode != 200 || body != "" || resp.ContentLength != int64(len(appPage)) || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("HEAD: %d, %d bytes of %s", resp.StatusCode, resp.ContentLength, resp.Header.Get("Content-Type"))
	}
	etag := resp.Header.Get("ETag")
	resp, _ = p.ask(t, "GET", "/elsewhere", "Accept", navigates, "If-None-Match", etag)
	if etag == "" || resp.StatusCode != 304 || resp.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("If-None-Match %s: %d, %v", etag, resp.StatusCode, resp.Header)
	}
	if vary := resp.Header.Values("Vary"); len(vary) == 0 || vary[len(vary)-1] != "Accept" {
		t.Errorf("Vary: %q", vary)
	}
	// A cache must not answer a browser with the 404 of a script.
	if resp, _ := p.ask(t, "GET", "/users/17", "Accept", "application/json"); !slices.Contains(resp.Header.Values("Vary"), "Accept") {
		t.Errorf("404: Vary %q", resp.Header.Values("Vary"))
	}
	if resp, _ := p.ask(t, "POST", "/users", "Accept", navigates); resp.StatusCode != 405 {
		t.Errorf("POST: %d", resp.StatusCode)
	}
}

func TestSinglePageApplicationLists(t *testing.T) {
	p := start(t, tree(t, map[string]string{"index.html": appPage, "assets/app.js": "1"}), "--spa", "--listing")
	if resp, body := p.ask(t, "GET", "/assets/", "Accept", navigates); resp.StatusCode != 200 || body == appPage {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
