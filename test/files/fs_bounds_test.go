package files_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestIndexRows: the exact text of a page, at each edge of the sizes and times.
func TestIndexRows(t *testing.T) {
	at := func(year int) time.Time { return time.Date(year, 1, 2, 3, 4, 5, 0, time.UTC) }
	file := func(size, year int) *fstest.MapFile {
		return &fstest.MapFile{Data: make([]byte, size), ModTime: at(year)}
	}
	h := (&sluice.FS{FS: fstest.MapFS{
		"a/b/c":     &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: at(2024)},
		"a/b/f0":    file(0, 1),
		"a/b/f1023": file(1023, 9999), "a/b/f1024": file(1024, 10000),
		"a/b/f10188": file(10188, 2024), "a/b/f10189": file(10189, 2024),
		"a/b/f1048063": file(1048063, 2024), "a/b/f1048064": file(1048064, 2024),
		"one/c/x": file(1, 2024), "one/f": file(1, 2024),
	}, GenerateIndexPages: true}).NewRequestHandler()
	ctx := harness.FileRequest(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(sluice.StatusTeapot); h(ctx) }, "GET", "/a/b/")
	if ctx.Response.StatusCode() != sluice.StatusOK {
		t.Errorf("status %d", ctx.Response.StatusCode())
	}
	row := func(name, size string, year int) string {
		stamp, shown := "", ""
		if year <= 9999 {
			stamp, shown = fmt.Sprintf("%04d-01-02T03:04:05Z", year), fmt.Sprintf("%04d-01-02 03:04:05", year)
			shown = `<time datetime="` + stamp + `">` + shown + "</time>"
		}
		if size == "" {
			return `<tr><td><a class="folder" href="./` + name + `/"><bdi>` + name + `/</bdi></a></td><td class="size"></td><td>` + shown + "</td></tr>\n"
		}
		return `<tr><td><a href="./` + name + `"><bdi>` + name + `</bdi></a></td><td class="size" title="` + name[1:] + ` bytes">` + size + "</td><td>" + shown + "</td></tr>\n"
	}
	want := row("c", "", 2024) + row("f0", "0 B", 1) + row("f10188", "9.9 KiB", 2024) + row("f10189", "10 KiB", 2024) + row("f1023", "1023 B", 9999) +
		row("f1024", "1.0 KiB", 10000) + row("f1048063", "1023 KiB", 2024) + row("f1048064", "1.0 MiB", 2024)
	_, got, _ := strings.Cut(harness.Served(ctx), "../</a></td><td class=\"size\"></td><td></td></tr>\n")
	if rows, note, _ := strings.Cut(got, "</tbody>"); rows != want || !strings.Contains(note, "<p>1 folder, 7 files</p>") {
		t.Errorf("%s\nwant\n%s\n%s", rows, want, note)
	}
	if vary := ctx.Response.Header.Peek("Vary"); vary != nil {
		t.Errorf("Vary %q without codings", vary)
	}
	trail := `<h1>Index of <bdi><a href="../../">/</a><a href="../">a/</a>b/</bdi></h1>`
	if got := harness.Served(ctx); !strings.Contains(got, trail) || string(ctx.Response.Header.ContentType()) != "text/html; charset=utf-8" {
		t.Errorf("%s: %s", ctx.Response.Header.ContentType(), got)
	}
	for path, note := range map[string]string{"/one/": "1 folder, 1 file", "/one/c/": "1 file", "/": "2 folders", "/a/b/c/": "This folder is empty."} {
		if got := harness.Served(harness.FileRequest(h, "GET", path)); !strings.Contains(got, "<p>"+note+"</p>") {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestFSFirstFields: conditions and ranges count also as the first fields of a
// request.
func TestFSFirstFields(t *testing.T) {
	h := (&sluice.FS{Root: harness.MakeFiles(t, map[string]string{"f": "0123456789"}), AcceptByteRange: true}).NewRequestHandler()
	for field, want := range map[string]string{
		"Range: bytes=2-3": "206 23", "If-Modified-Since: " + modifiedText: "304 ", "If-Unmodified-Since: Mon, 01 Jan 2024 00:00:00 GMT": "412 ",
		"If-None-Match: *": "304 ", "If-Match: \"x\"": "412 ", "X-Y: z": "200 0123456789",
	} {
		ctx := &sluice.RequestCtx{}
		name, value, _ := strings.Cut(field, ": ")
		ctx.Request.Header.Set(name, value)
		ctx.Request.SetRequestURI("/f")
		ctx.Request.Header.SetHost("h")
		ctx.SetStatusCode(sluice.StatusTeapot) // which is not that of the file
		h(ctx)
		if got := fmt.Sprint(ctx.Response.StatusCode(), " ", harness.Served(ctx)); got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
		if ctx.Response.Header.Peek("Vary") != nil {
			t.Errorf("%s: Vary %q", field, ctx.Response.Header.Peek("Vary"))
		}
	}
}

// TestFSOfTheFuture: Last-Modified is never later than now (RFC 9110 section
// 8.8.2.1).
func TestFSOfTheFuture(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"f": "x"})
	later := time.Now().Add(24 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "f"), later, later); err != nil {
		t.Fatal(err)
	}
	h := (&sluice.FS{Root: dir}).NewRequestHandler()
	ctx := harness.FileRequest(h, "GET", "/f")
	at, err := sluice.ParseHTTPDate(ctx.Response.Header.Peek("Last-Modified"))
	if err != nil || at.After(time.Now()) || at.Before(later.Add(-25*time.Hour)) {
		t.Errorf("Last-Modified %v, %v", at, err)
	}
}

// TestFSRewrittenPaths: what each path of a rewriter leads to.
func TestFSRewrittenPaths(t *testing.T) {
	files := fstest.MapFS{"d/index.html": {Data: []byte("index")}, "f": {Data: []byte("file")}, "index.html": {Data: []byte("root")}}
	for path, want := range map[string]string{
		"/d/": "200 index", "/d/.": "200 index", "/d/./": "200 index", "d/.": "200 index", "/.": "200 root", ".": "200 root", "/": "200 root", "": "200 root",
		"/d": "200 index", "/./d": "200 index", "//d": "200 index", "/f": "200 file", "/./f": "200 file", "f": "200 file", "/f/.": "200 file",
		"/..": "500 Internal Server Error", "/d/..": "500 Internal Server Error", "\x00": "400 Bad Request", "/f\x00": "400 Bad Request", "/none": "404 Cannot open requested path",
	} {
		f := sluice.FS{FS: files, IndexNames: []string{"index.html"}, PathRewrite: func(*sluice.RequestCtx) []byte { return []byte(path) }}
		var log harness.LogBook
		ctx := harness.FileRequest(func(ctx *sluice.RequestCtx) {
			ctx.Init(&ctx.Request, nil, &log)
			f.NewRequestHandler()(ctx)
		}, "GET", "/?q")
		if got := fmt.Sprint(ctx.Response.StatusCode(), " ", harness.Served(ctx)); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
		if got := log.String(); (got != "") != strings.HasPrefix(want, "500") || got != "" && !strings.Contains(got, "returned by FS.PathRewrite") {
			t.Errorf("%q: logged %q", path, got)
		}
	}
	for target, want := range map[string]string{"/d?a": "/d/?a", "/d?": "/d/", "/d": "/d/"} {
		ctx := harness.FileRequest((&sluice.FS{FS: files}).NewRequestHandler(), "GET", target)
		if got := string(ctx.Response.Header.Peek("Location")); got != want || ctx.Response.StatusCode() != sluice.StatusFound {
			t.Errorf("%s: Location %q", target, got)
		}
	}
	for n, want := range map[int]string{-1: "/a/b", 0: "/a/b", 1: "/b", 2: "", 3: ""} {
		if got := string(sluice.NewPathSlashesStripper(n)(harness.FileRequest(func(*sluice.RequestCtx) {}, "GET", "/a/b"))); got != want {
			t.Errorf("%d slashes: %q", n, got)
		}
	}
	for n, want := range map[int]string{-1: "/a/b", 0: "/a/b", 1: "a/b", 4: "", 5: "/a/b"} {
		if got := string(sluice.NewPathPrefixStripper(n)(harness.FileRequest(func(*sluice.RequestCtx) {}, "GET", "/a/b"))); got != want {
			t.Errorf("%d bytes: %q", n, got)
		}
	}
}

// TestServeFSOffers: ServeFS and ServeFile decode and cut the path, list folders,
// send ranges and encode.
func TestServeFSOffers(t *testing.T) {
	text := strings.Repeat("compressible ", 100)
	dir := harness.MakeFiles(t, map[string]string{"a b.txt": text, "d/x": ""})
	for name, serve := range map[string]func(ctx *sluice.RequestCtx, path string){
		"ServeFS":   func(ctx *sluice.RequestCtx, path string) { sluice.ServeFS(ctx, os.DirFS(dir), path) },
		"ServeFile": func(ctx *sluice.RequestCtx, path string) { sluice.ServeFile(ctx, filepath.ToSlash(dir)+path) },
	} {
		get := func(path string, fields ...string) *sluice.RequestCtx {
			return harness.FileRequest(func(ctx *sluice.RequestCtx) { serve(ctx, path) }, "GET", "/", fields...)
		}
		for _, path := range []string{"/a b.txt", "/a%20b.txt", "/a b.txt?q", "/a%20b.txt#f"} {
			if got := harness.Served(get(path)); got != text {
				t.Errorf("%s %s: %.40q", name, path, got)
			}
		}
		for _, coding := range []string{"gzip", "br", "zstd"} {
			ctx := get("/a b.txt", "Accept-Encoding: "+coding)
			if got, err := ctx.Response.BodyUncompressed(); string(got) != text || err != nil || string(ctx.Response.Header.ContentEncoding()) != coding {
				t.Errorf("%s %s: %s, %.40q, %v", name, coding, ctx.Response.Header.ContentEncoding(), got, err)
			}
		}
		if ctx := get("/a b.txt", "Range: bytes=0-0"); ctx.Response.StatusCode() != 206 || harness.Served(ctx) != "c" {
			t.Errorf("%s: %d %.40q", name, ctx.Response.StatusCode(), harness.Served(ctx))
		}
		for _, path := range []string{"/d", "/d/", "/d?q"} {
			if got := harness.Served(get(path)); !strings.Contains(got, "<bdi>x</bdi>") {
				t.Errorf("%s %s: %.40q", name, path, got)
			}
		}
	}
	ctx := harness.FileRequest(func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, os.DirFS(dir), "?x") }, "GET", "/")
	if got := harness.Served(ctx); !strings.Contains(got, "a b.txt") {
		t.Errorf("%.40q", got)
	}
}

// A countedFS counts its open files. One name cannot be opened.
type countedFS struct {
	fs.FS
	open    *atomic.Int64
	refused string
}

type countedFile struct {
	fs.File
	open *atomic.Int64
}

func (f countedFile) Close() error { f.open.Add(-1); return f.File.Close() }

func (f countedFile) ReadAt(p []byte, at int64) (int, error) {
	return f.File.(interface {
		ReadAt([]byte, int64) (int, error)
	}).ReadAt(p, at)
}

func (f countedFile) Seek(offset int64, whence int) (int64, error) {
	return f.File.(interface {
		Seek(int64, int) (int64, error)
	}).Seek(offset, whence)
}

func (c countedFS) Open(name string) (fs.File, error) {
	if name == c.refused {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	f, err := c.FS.Open(name)
	if err == nil {
		c.open.Add(1)
		if info, _ := f.Stat(); !info.IsDir() {
			return countedFile{f, c.open}, nil
		}
		c.open.Add(-1)
	}
	return f, err
}

// TestFSClosesWhatItOpened, also if the answer is never written or its writing
// fails, and reports the failure.
func TestFSClosesWhatItOpened(t *testing.T) {
	files := countedFS{FS: fstest.MapFS{"large": {Data: []byte(harness.Large)}, "small": {Data: []byte("0123456789")}}, open: new(atomic.Int64)}
	h := (&sluice.FS{FS: files, AcceptByteRange: true, SkipCache: true}).NewRequestHandler()
	for _, path := range []string{"/large", "/small"} {
		for _, ranges := range []string{"X: y", "Range: bytes=1-2", "Range: bytes=1-2,5-6"} {
			if err := harness.FileRequest(h, "GET", path, ranges).Response.CloseBodyStream(); err != nil {
				t.Error(err)
			}
			if n := files.open.Load(); n != 0 {
				t.Errorf("%s, %s: %d files are open", path, ranges, n)
			}
			whole := harness.Served(harness.FileRequest(h, "GET", path, ranges))
			slowly := harness.FileRequest(h, "GET", path, ranges)
			got, err := io.ReadAll(iotest.OneByteReader(slowly.Response.BodyStream()))
			if err = errors.Join(err, slowly.Response.CloseBodyStream()); len(got) != len(whole) || err != nil {
				t.Errorf("%s, %s: %d bytes of %d, one by one: %v", path, ranges, len(got), len(whole), err)
			}
			for _, left := range []int{0, 1, len(whole) - 1, len(whole)} {
				ctx := harness.FileRequest(h, "GET", path, ranges)
				var out bytes.Buffer
				w := bufio.NewWriterSize(&shortWriter{&out, left}, 16)
				if err := errors.Join(ctx.Response.Write(w), w.Flush()); !errors.Is(err, errShort) {
					t.Errorf("%s, %s, cut at %d: %v", path, ranges, left, err)
				}
				if n := files.open.Load(); n != 0 {
					t.Errorf("%s, %s, cut at %d: %d files are open", path, ranges, left, n)
				}
			}
		}
	}
}

var errShort = errors.New("no room")

// shortWriter takes left bytes and then fails.
type shortWriter struct {
	out  *bytes.Buffer
	left int
}

func (w *shortWriter) Write(p []byte) (int, error) {
	if len(p) > w.left {
		return 0, errShort
	}
	w.left -= len(p)
	return w.out.Write(p)
}

// TestFSIndexFileIsRefused: an index file that must not be read is not replaced
// by a list of what is beside it.
func TestFSIndexFileIsRefused(t *testing.T) {
	files := countedFS{FS: fstest.MapFS{"d/index.html": {Data: []byte("secret")}, "d/other": {}}, open: new(atomic.Int64), refused: "d/index.html"}
	ctx := harness.FileRequest((&sluice.FS{FS: files, IndexNames: []string{"index.html"}, GenerateIndexPages: true}).NewRequestHandler(), "GET", "/d/")
	if got := harness.Served(ctx); ctx.Response.StatusCode() != sluice.StatusForbidden || got != "Forbidden" {
		t.Errorf("%d %q", ctx.Response.StatusCode(), got)
	}
}

// A stageFS fails at one stage: when a folder is read, or a file is opened again,
// which files without ReadAt need for each part.
type stageFS struct {
	fs.FS
	isBroken atomic.Bool
}

type stageFile struct {
	fs.File
	io.Seeker
}

func (s *stageFS) Open(name string) (fs.File, error) {
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	if info, _ := f.Stat(); info.IsDir() {
		return stageFile{File: f}, nil // without ReadDir
	}
	if s.isBroken.Load() {
		return nil, fs.ErrClosed
	}
	return stageFile{f, f.(io.Seeker)}, nil
}

// TestFSFailuresAreAnswered: with 500, logged, and without the fields of the file.
func TestFSFailuresAreAnswered(t *testing.T) {
	files := &stageFS{FS: fstest.MapFS{"d/f": {Data: []byte(harness.Large)}}}
	h := (&sluice.FS{FS: files, AcceptByteRange: true, GenerateIndexPages: true, CacheDuration: time.Hour}).NewRequestHandler()
	if ctx := harness.FileRequest(h, "GET", "/d/f", "Range: bytes=1-2,5-6"); ctx.Response.StatusCode() != 206 || !strings.Contains(harness.Served(ctx), harness.Large[5:7]) {
		t.Fatalf("%d %.100q", ctx.Response.StatusCode(), harness.Served(ctx))
	}
	files.isBroken.Store(true)
	for _, test := range []struct{ path, field, logged string }{
		{"/d/", "X: y", "cannot serve a file: "}, {"/d/f", "X: y", "cannot read a file: "},
		{"/d/f", "Range: bytes=1-2", "cannot read a file: "}, {"/d/f", "Range: bytes=1-2,5-6", "cannot read a file: "},
	} {
		var log harness.LogBook
		ctx := &sluice.RequestCtx{}
		ctx.Init(&sluice.Request{}, nil, &log)
		ctx.Request.SetRequestURI(test.path)
		name, value, _ := strings.Cut(test.field, ": ")
		ctx.Request.Header.Set(name, value)
		h(ctx)
		if got := fmt.Sprint(ctx.Response.StatusCode(), " ", harness.Served(ctx)); got != "500 Internal Server Error" || !strings.Contains(log.String(), test.logged) {
			t.Errorf("%s, %s: %s, logged %q", test.path, test.field, got, log.String())
		}
	}
}

// TestServeFileWithoutFolder: a relative path has no meaning when the working
// folder has gone.
func TestServeFileWithoutFolder(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the working folder cannot be removed")
	}
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	ctx := harness.FileRequest(func(ctx *sluice.RequestCtx) { sluice.ServeFile(ctx, "f") }, "GET", "/")
	if got := fmt.Sprint(ctx.Response.StatusCode(), " ", harness.Served(ctx)); got != "500 Internal Server Error" {
		t.Error(got)
	}
}

// TestFSReplacesBodies: what a handler has set before is closed and not sent.
func TestFSReplacesBodies(t *testing.T) {
	h := (&sluice.FS{Root: harness.MakeFiles(t, map[string]string{"small": "0123456789", "large": harness.Large, "folder/f": ""}), AcceptByteRange: true, GenerateIndexPages: true}).NewRequestHandler()
	for _, test := range []struct{ method, path, field string }{
		{"GET", "/small", "X: y"}, {"GET", "/large", "X: y"}, {"GET", "/small", "Range: bytes=1-2,5-6"}, {"GET", "/large", "Range: bytes=1-2,5-6"},
		{"HEAD", "/small", "X: y"}, {"HEAD", "/large", "X: y"}, {"GET", "/", "X: y"}, {"HEAD", "/", "X: y"}, {"GET", "/folder", "X: y"}, {"GET", "/none", "X: y"}, {"HEAD", "/small", "If-None-Match: *"},
		{"GET", "/small", "If-None-Match: *"}, {"GET", "/small", "If-Match: \"x\""}, {"GET", "/small", "Range: bytes=10-"},
	} {
		var closed atomic.Int32
		want := harness.FileRequest(h, test.method, test.path, test.field)
		got := harness.FileRequest(func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.Set("ETag", `"own"`)
			ctx.Response.SetBodyStream(harness.CloseCounter{Reader: strings.NewReader("old"), Closed: &closed}, 3)
			h(ctx)
		}, test.method, test.path, test.field)
		before, after := want.Response.Header.ContentLength(), got.Response.Header.ContentLength()
		if closed.Load() != 1 || before != after && got.Response.StatusCode()/100 != 3 {
			t.Errorf("%v: closed %d times, length %d, not %d", test, closed.Load(), after, before)
		}
		if tag := string(got.Response.Header.Peek("ETag")); got.Response.StatusCode() < 400 && tag != `"own"` {
			t.Errorf("%v: ETag %s", test, tag)
		}
		if a, b := harness.Served(want), harness.Served(got); len(a) != len(b) {
			t.Errorf("%v: %.100q, not %.100q", test, b, a)
		}
	}
}
