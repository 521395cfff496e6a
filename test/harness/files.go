package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

func Served(ctx *sluice.RequestCtx) string { return string(ctx.Response.Body()) }

// Modified is the time of the files that the tests of FS make.
var Modified = time.Date(2024, 1, 2, 3, 4, 5, 600_000_000, time.UTC)

// MakeFiles makes files, by their names with slashes, in a new folder.
func MakeFiles(t testing.TB, contents map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range contents {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, Modified, Modified); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// FileRequest sends a request for a path, with fields "Name: value", to h.
func FileRequest(h sluice.RequestHandler, method, path string, fields ...string) *sluice.RequestCtx {
	ctx := &sluice.RequestCtx{}
	ctx.Request.Header.SetMethod(method)
	ctx.Request.SetRequestURI(path)
	ctx.Request.Header.SetHost("example.com")
	for _, line := range fields {
		name, value, _ := strings.Cut(line, ": ")
		ctx.Request.Header.Add(name, value)
	}
	h(ctx)
	return ctx
}

// Large does not fit the memory cache.
var Large = strings.Repeat("0123456789abcdef", 8<<10)
