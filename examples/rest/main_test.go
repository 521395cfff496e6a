package main

import (
	"os"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/prefork"
	"github.com/sluicehttp/sluice/prefork/dashboard"
	"github.com/sluicehttp/sluice/sluicetest"
)

// TestService: the life of a note with its file, and what is refused.
func TestService(t *testing.T) {
	sluicetest.CheckLeaks(t)
	folder, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	s := sluicetest.NewUnstartedServer(t, nil)
	s.Config = newServer(&notes{folder: folder}, "secret")
	metrics := prefork.NewSingle(s.Config)
	s.Start()
	const json = "Content-Type: application/json"
	for _, c := range []struct {
		method, path, token, body string
		status                    int
		want                      string // part of head or body
	}{
		{"GET", "/notes", "", "", 401, "Www-Authenticate: Bearer realm="},
		{"GET", "/notes", "wrong", "", 401, "invalid_token"},
		{"OPTIONS", "/notes/1", "", "", 204, "Access-Control-Allow-Origin: https://app.example.com"},
		{"OPTIONS", "/notes/1", "", "", 204, "Access-Control-Allow-Methods: PUT, DELETE"},
		{"GET", "/notes", "secret", "", 200, "\r\n\r\n[]"},
		{"POST", "/notes", "secret", `{"text":"a"}`, 201, `{"id":"1","text":"a"}`},
		{"POST", "/notes", "secret", `{"text":"b"}`, 201, json},
		{"POST", "/notes", "secret", `{}`, 422, "want a JSON object"},
		{"POST", "/notes", "secret", strings.Repeat("x", 2<<20), 413, ""},
		{"GET", "/notes", "secret", "", 200, `[{"id":"1","text":"a"},{"id":"2","text":"b"}]`},
		{"GET", "/notes/1", "secret", "", 200, "X-Content-Type-Options: nosniff"},
		{"GET", "/notes/3", "secret", "", 404, "no such note"},
		{"GET", "/notes/1/file", "secret", "", 404, "no file"},
		{"PUT", "/notes/1/file", "secret", "content", 204, ""},
		{"GET", "/notes/1/file", "secret", "", 200, "content"},
		{"PATCH", "/notes/1", "secret", "", 405, "Allow: DELETE, GET, HEAD, OPTIONS"},
		{"DELETE", "/notes/1", "secret", "", 204, "X-Request-Id: "},
		{"GET", "/notes/1/file", "secret", "", 404, "no such note"},
		{"GET", "/none", "", "", 404, ""},
		{"GET", "/healthz", "", "", 200, ""},
	} {
		req := sluicetest.NewRequest(c.method, s.URL+c.path, c.body)
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		if c.method == "OPTIONS" {
			req.Header.Set("Origin", "https://app.example.com")
			req.Header.Set("Access-Control-Request-Method", "GET")
		}
		resp := &sluice.Response{}
		if err := s.Client().Do(req, resp); err != nil {
			t.Fatal(c.method, c.path, err)
		}
		if got := resp.String(); resp.StatusCode() != c.status || !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s\nwant %d, %s", c.method, c.path, got, c.status, c.want)
		}
	}
	if resp := sluicetest.Record(t, dashboard.Handler(metrics), sluicetest.NewRequest("GET", "/status", "")); !strings.Contains(string(resp.Body()), "2xx 11 3xx 0 4xx 9") {
		t.Errorf("metrics: %s", resp)
	}
}
