package server_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

func TestRequestCtxSendFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a b%zz.txt")
	modified := time.Date(2024, 1, 2, 3, 4, 5, 600, time.UTC)
	if err := os.WriteFile(file, []byte("contents"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, modified, modified); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) string { return modified.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		name, path, field, value string
		status                   int
		body                     string
	}{
		{"whole", file, "", "", 200, "contents"},
		{"missing", file + "x", "", "", 404, "Cannot open requested path"},
		{"outside", "/\x00", "", "", 400, "Bad Request"},
		{"modified since", file, sluice.HeaderIfModifiedSince, at(-time.Second), 200, "contents"},
		{"not modified since", file, sluice.HeaderIfModifiedSince, at(0), 304, ""},
		{"invalid date", file, sluice.HeaderIfModifiedSince, "yesterday", 200, "contents"},
		{"unmodified since", file, sluice.HeaderIfUnmodifiedSince, at(0), 200, "contents"},
		{"not unmodified since", file, sluice.HeaderIfUnmodifiedSince, at(-time.Second), 412, ""},
		{"range", file, sluice.HeaderRange, "bytes=0-1", 206, "co"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ctx sluice.RequestCtx
			if c.field != "" {
				ctx.Request.Header.Set(c.field, c.value)
			}
			ctx.SendFileBytes([]byte(c.path))
			if got := ctx.Response.StatusCode(); got != c.status {
				t.Fatalf("status %d, want %d", got, c.status)
			}
			if c.status == 200 {
				if got := string(ctx.Response.Header.Peek(sluice.HeaderLastModified)); got != at(0) {
					t.Errorf("Last-Modified %q, want %q", got, at(0))
				}
				if got := string(ctx.Response.Header.ContentType()); got != "text/plain; charset=utf-8" {
					t.Errorf("Content-Type %q", got)
				}
			}
			if got := string(ctx.Response.Body()); got != c.body {
				t.Errorf("body %q, want %q", got, c.body)
			}
		})
	}
}
