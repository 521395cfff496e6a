package files_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// rewrittenTo answers with what the handler has at a path, as a router does that
// keeps a part of the path to itself.
func rewrittenTo(t *testing.T, fs *sluice.FS, p string) (status int, body string) {
	t.Helper()
	fs.PathRewrite = func(*sluice.RequestCtx) []byte { return []byte(p) }
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, &harness.LogBook{})
	ctx.Request.SetRequestURI("http://h/logo")
	fs.NewRequestHandler()(&ctx)
	return ctx.Response.StatusCode(), string(ctx.Response.Body())
}

// TestFSRootIsAFile: a route for one file has the file as Root. It is all there
// is, at the root's path, whatever lies beside it.
func TestFSRootIsAFile(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"logo.svg": "<svg/>", "secret": "s", "sub/index.html": "i", "elsewhere/far.txt": "far"})
	if err := os.Symlink(filepath.Join(dir, "elsewhere", "far.txt"), filepath.Join(dir, "sub", "link")); err != nil {
		t.Skip(err)
	}
	for _, test := range []struct {
		root, path string
		status     int
		body       string
	}{
		{"logo.svg", "/", 200, "<svg/>"},
		{"logo.svg", "", 200, "<svg/>"},
		{"logo.svg", "/logo.svg", 404, ""},
		{"logo.svg", "/logo.svg/", 404, ""},
		{"logo.svg", "/secret", 404, ""},
		{"logo.svg", "/sub/", 404, ""},
		{"logo.svg", "/../secret", 500, ""},
		{"sub/link", "/", 200, "far"},
		{"sub/link", "/far.txt", 404, ""},
		{"missing", "/", 404, ""},
	} {
		for _, skipCache := range []bool{false, true} {
			for _, unconfined := range []bool{false, true} {
				fs := &sluice.FS{
					Root: filepath.Join(dir, filepath.FromSlash(test.root)), IndexNames: []string{"index.html"},
					SkipCache: skipCache, AllowSymlinksOutsideRoot: unconfined, GenerateIndexPages: true,
				}
				status, body := rewrittenTo(t, fs, test.path)
				if status != test.status || status == 200 && body != test.body {
					t.Errorf("root %s, path %q, without cache %v, unconfined %v: %d %q, want %d %q",
						test.root, test.path, skipCache, unconfined, status, body, test.status, test.body)
				}
			}
		}
	}
}

// TestFSRootIsAFileOfFS: the same with other file systems.
func TestFSRootIsAFileOfFS(t *testing.T) {
	library := fstest.MapFS{"index.html": {Data: []byte("<p>")}, "css/a.css": {Data: []byte("css")}}
	for _, test := range []struct {
		root, path  string
		status      int
		contentType string
	}{
		{"index.html", "/", 200, "text/html; charset=utf-8"},
		{"index.html", "", 200, "text/html; charset=utf-8"},
		{"index.html", "/css/a.css", 404, ""},
		{"index.html", "/index.html", 404, ""},
		{"index.html", "/i", 404, ""},
		{"css/a.css", "/", 200, "text/css; charset=utf-8"},
		{"/css/a.css", "/", 200, "text/css; charset=utf-8"},
		{"css", "/a.css", 200, "text/css; charset=utf-8"},
		{"css", "/", 403, ""},
	} {
		fs := &sluice.FS{FS: library, Root: test.root}
		status, _ := rewrittenTo(t, fs, test.path)
		if status != test.status {
			t.Errorf("root %s, path %q: %d, want %d", test.root, test.path, status, test.status)
		}
		if got := contentTypeAt(fs); status == 200 && got != test.contentType {
			t.Errorf("root %s, path %q: type %q, want %q", test.root, test.path, got, test.contentType)
		}
	}
}

// contentTypeAt returns the type of what the handler has.
func contentTypeAt(fs *sluice.FS) string {
	var ctx sluice.RequestCtx
	ctx.Init(&sluice.Request{}, nil, &harness.LogBook{})
	ctx.Request.SetRequestURI("http://h/logo")
	fs.NewRequestHandler()(&ctx)
	return string(ctx.Response.Header.ContentType())
}

// TestFSRootIsAFileLater: what Root is, is looked at with the first request.
func TestFSRootIsAFileLater(t *testing.T) {
	root := filepath.Join(t.TempDir(), "late.txt")
	fs := &sluice.FS{Root: root, PathRewrite: func(*sluice.RequestCtx) []byte { return []byte("/") }}
	fs.NewRequestHandler()
	if err := os.WriteFile(root, []byte("late"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, body := rewrittenTo(t, fs, "/"); status != 200 || body != "late" {
		t.Errorf("%d %q", status, body)
	}
}
