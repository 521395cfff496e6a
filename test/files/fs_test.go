package files_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

const modifiedText = "Tue, 02 Jan 2024 03:04:05 GMT"

// alphabet is large enough to show where ranges are.
var alphabet = strings.Repeat("abcdefghijklmnopqrstuvwxyz", 40)

func TestFSPaths(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{
		"file.txt": "file", "sub/index.html": "<p>sub</p>", "empty/inner.txt": "inner", "sp ace.txt": "space",
		"pct%41.txt": "percent", "50%25/a.txt": "a", "second/default.htm": "second", "index.html/x": "a folder of that name",
		"ünï.txt": "unicode", "plus+.txt": "plus",
	})
	h := (&sluice.FS{Root: dir, IndexNames: []string{"index.html", "default.htm"}}).NewRequestHandler()
	for _, c := range []struct {
		path     string
		status   int
		body     string
		location string
	}{
		{"/file.txt", 200, "file", ""},
		{"/fil%65.txt", 200, "file", ""},
		{"/file.txt?query", 200, "file", ""},
		{"/file.txt/", 200, "file", ""},
		{"/file.txt//", 200, "file", ""},
		{"/file.txt/.", 200, "file", ""},
		{"/file.txt%2F", 200, "file", ""},
		{"/file.txt%2F.", 200, "file", ""},
		{"/sub/../file.txt/", 200, "file", ""},
		{"//file.txt", 200, "file", ""},
		{"/sp%20ace.txt", 200, "space", ""},
		{"/pct%2541.txt", 200, "percent", ""},
		{"/%c3%bcn%c3%af.txt", 200, "unicode", ""},
		{"/plus+.txt", 200, "plus", ""},
		{"/sub/", 200, "<p>sub</p>", ""},
		{"/second/", 200, "second", ""},
		{"/sub", 302, "", "/sub/"},
		{"/sub?a=b&c", 302, "", "/sub/?a=b&c"},
		{"/50%2525", 302, "", "/50%2525/"},
		{"/50%2525/a.txt", 200, "a", ""},
		{"/empty/", 403, "Directory index is forbidden", ""},
		{"/", 403, "Directory index is forbidden", ""}, // index.html is a folder
		{"/missing", 404, "Cannot open requested path", ""},
		{"/missing/", 404, "Cannot open requested path", ""},
		{"/file.txt/x", 404, "Cannot open requested path", ""},
		{"/%00", 400, "Bad Request", ""},
		{"/file.txt%00", 400, "Bad Request", ""},
		{"/" + strings.Repeat("x", 5000), 404, "Cannot open requested path", ""},
	} {
		ctx := harness.FileRequest(h, "GET", c.path)
		if status, body := ctx.Response.StatusCode(), string(ctx.Response.Body()); status != c.status || body != c.body {
			t.Errorf("%.60s: %d %q, want %d %q", c.path, status, body, c.status, c.body)
		}
		if location := string(ctx.Response.Header.Peek("Location")); location != c.location {
			t.Errorf("%.60s: Location %q, want %q", c.path, location, c.location)
		}
	}
}

// TestFSConditions: RFC 9110 section 13, for a file in memory and a large one.
func TestFSConditions(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"small.txt": alphabet, "large.txt": harness.Large})
	h := (&sluice.FS{Root: dir, GenerateETag: true, AcceptByteRange: true}).NewRequestHandler()
	for _, path := range []string{"/small.txt", "/large.txt"} {
		etag := string(harness.FileRequest(h, "GET", path).Response.Header.Peek("ETag"))
		if !strings.HasPrefix(etag, "W/\"") {
			t.Fatalf("%s: ETag %q", path, etag)
		}
		for _, c := range []struct {
			name   string
			method string
			fields []string
			status int
		}{
			{"tag matches", "GET", []string{"If-None-Match: " + etag}, 304},
			{"tag matches weakly", "HEAD", []string{"If-None-Match: \"x\", " + etag[2:]}, 304},
			{"tag in a second line", "GET", []string{"If-None-Match: \"x\"", "If-None-Match: " + etag}, 304},
			{"tag of another", "GET", []string{"If-None-Match: \"x\"", "If-Modified-Since: " + modifiedText}, 200},
			{"any tag", "GET", []string{"If-None-Match: *"}, 304},
			{"tag, other method", "POST", []string{"If-None-Match: " + etag}, 412},
			{"not modified", "GET", []string{"If-Modified-Since: " + modifiedText}, 304},
			{"modified", "GET", []string{"If-Modified-Since: Tue, 02 Jan 2024 03:04:04 GMT"}, 200},
			{"two dates", "GET", []string{"If-Modified-Since: " + modifiedText, "If-Modified-Since: " + modifiedText}, 200},
			{"no date", "GET", []string{"If-Modified-Since: yesterday"}, 200},
			{"must match, weak", "GET", []string{"If-Match: " + etag}, 412},
			{"must match, not weak", "GET", []string{"If-Match: " + etag[2:]}, 412},
			{"must match another", "GET", []string{"If-Match: \"x\""}, 412},
			{"must match, empty", "GET", []string{"If-Match: "}, 412},
			{"must match any", "GET", []string{"If-Match: *"}, 200},
			{"unmodified", "GET", []string{"If-Unmodified-Since: " + modifiedText}, 200},
			{"not unmodified", "GET", []string{"If-Unmodified-Since: Tue, 02 Jan 2024 03:04:04 GMT"}, 412},
			{"match beats unmodified", "GET", []string{"If-Match: *", "If-Unmodified-Since: Tue, 02 Jan 2024 03:04:04 GMT"}, 200},
			{"condition beats range", "GET", []string{"If-None-Match: " + etag, "Range: bytes=0-1"}, 304},
			{"range of another", "GET", []string{"If-Range: \"x\"", "Range: bytes=0-1"}, 200},
			{"range, weak", "GET", []string{"If-Range: " + etag, "Range: bytes=0-1"}, 200},
			{"range, not weak", "GET", []string{"If-Range: " + etag[2:], "Range: bytes=0-1"}, 200},
			{"range of that date", "GET", []string{"If-Range: " + modifiedText, "Range: bytes=0-1"}, 206},
			{"range of a later date", "GET", []string{"If-Range: Wed, 03 Jan 2024 03:04:05 GMT", "Range: bytes=0-1"}, 200},
		} {
			ctx := harness.FileRequest(h, c.method, path, c.fields...)
			if got := ctx.Response.StatusCode(); got != c.status {
				t.Errorf("%s, %s: %d, want %d", path, c.name, got, c.status)
			}
			if c.status != 304 {
				continue
			}
			header := &ctx.Response.Header
			if string(header.Peek("ETag")) != etag || string(header.Peek("Last-Modified")) != modifiedText || ctx.Response.IsBodyStream() {
				t.Errorf("%s, %s: not all of a 304: %s", path, c.name, header)
			}
		}
	}
}

// TestFSKeepsFieldsOfHandlers: what a handler around FS has set belongs to every
// answer that a cache may keep.
func TestFSKeepsFieldsOfHandlers(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": "a"})
	files := (&sluice.FS{Root: dir}).NewRequestHandler()
	h := func(ctx *sluice.RequestCtx) {
		ctx.Response.Header.Set("Cache-Control", "max-age=60")
		files(ctx)
	}
	for _, fields := range [][]string{nil, {"If-Modified-Since: " + modifiedText}} {
		if got := string(harness.FileRequest(h, "GET", "/a.txt", fields...).Response.Header.Peek("Cache-Control")); got != "max-age=60" {
			t.Errorf("%q: Cache-Control %q", fields, got)
		}
	}
}

func TestFSRanges(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"small.txt": alphabet, "large.txt": harness.Large, "empty.txt": ""})
	h := (&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler()
	for path, content := range map[string]string{"/small.txt": alphabet, "/large.txt": harness.Large} {
		size := strconv.Itoa(len(content))
		last := len(content) - 1
		for _, c := range []struct {
			method, value string
			status        int
			body, span    string
		}{
			{"GET", "bytes=0-4", 206, content[:5], "bytes 0-4/" + size},
			{"GET", "bytes=-5", 206, content[last-4:], "bytes " + strconv.Itoa(last-4) + "-" + strconv.Itoa(last) + "/" + size},
			{"GET", "bytes=5-", 206, content[5:], "bytes 5-" + strconv.Itoa(last) + "/" + size},
			{"GET", "bytes=" + size + "-", 416, "", "bytes */" + size},
			{"GET", "bytes=-0", 416, "", "bytes */" + size},
			{"GET", "items=0-4", 200, content, ""},
			{"GET", "bytes=4-0", 416, "", "bytes */" + size},
			{"GET", "bytes=x", 416, "", "bytes */" + size},
			{"GET", "bytes=0-4,x", 200, content, ""},
			{"HEAD", "bytes=0-4", 200, "", ""}, // section 14.2: GET only
			{"POST", "bytes=0-4", 200, content, ""},
		} {
			ctx := harness.FileRequest(h, c.method, path, "Range: "+c.value)
			header := &ctx.Response.Header
			if got := ctx.Response.StatusCode(); got != c.status {
				t.Errorf("%s %s of %s: %d, want %d", c.method, c.value, path, got, c.status)
			}
			if got := string(header.Peek("Content-Range")); got != c.span {
				t.Errorf("%s of %s: Content-Range %q, want %q", c.value, path, got, c.span)
			}
			if got := string(ctx.Response.Body()); c.status != 416 && c.method != "HEAD" && got != c.body {
				t.Errorf("%s of %s: %d bytes, want %d", c.value, path, len(got), len(c.body))
			}
			if got := string(header.Peek("Accept-Ranges")); c.status != 416 && got != "bytes" {
				t.Errorf("%s of %s: Accept-Ranges %q", c.value, path, got)
			}
		}
	}
	if got := harness.FileRequest(h, "GET", "/small.txt", "Range: bytes=0-1", "Range: bytes=0-1").Response.StatusCode(); got != 200 {
		t.Errorf("two Range fields: %d", got)
	}
	if got := harness.FileRequest(h, "GET", "/empty.txt", "Range: bytes=0-1").Response.StatusCode(); got != 416 {
		t.Errorf("range of an empty file: %d", got)
	}
	off := (&sluice.FS{Root: dir}).NewRequestHandler()
	if ctx := harness.FileRequest(off, "GET", "/small.txt", "Range: bytes=0-1"); ctx.Response.StatusCode() != 200 || len(ctx.Response.Header.Peek("Accept-Ranges")) > 0 {
		t.Error("ranges are served without AcceptByteRange")
	}
}

// TestFSServed runs whole requests over each network: the bytes on the wire are
// those of the file, also where the engine sends it by itself.
func TestFSServed(t *testing.T) {
	huge := bytes.Repeat([]byte("0123456789abcdef"), 256<<10)
	dir := harness.MakeFiles(t, map[string]string{"small.txt": alphabet, "huge.bin": string(huge), "empty.txt": ""})
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		h := (&sluice.FS{Root: dir, AcceptByteRange: true, CacheDuration: time.Hour}).NewRequestHandler()
		r := harness.Serve(t, n, &sluice.Server{Handler: h})
		p := r.Dial()
		p.Send(harness.Get("/huge.bin") + harness.Get("/small.txt") + harness.Request("HEAD /huge.bin HTTP/1.1") +
			harness.Request("GET /huge.bin HTTP/1.1", "Range: bytes=1000000-3999999") +
			harness.Request("GET /huge.bin HTTP/1.1", "Range: bytes=0-99,2000000-2000099") + harness.Get("/empty.txt") + harness.Get("/missing"))
		if got := p.Answer("GET"); got.StatusCode != 200 || got.Body != string(huge) {
			t.Errorf("whole file: %d, %d bytes", got.StatusCode, len(got.Body))
		}
		if got := p.Answer("GET"); got.StatusCode != 200 || got.Body != alphabet {
			t.Errorf("small file: %d, %d bytes", got.StatusCode, len(got.Body))
		}
		if got := p.Answer("HEAD"); got.StatusCode != 200 || got.Header.Get("Content-Length") != strconv.Itoa(len(huge)) {
			t.Errorf("HEAD: %d, Content-Length %s", got.StatusCode, got.Header.Get("Content-Length"))
		}
		if got := p.Answer("GET"); got.StatusCode != 206 || got.Body != string(huge[1_000_000:4_000_000]) {
			t.Errorf("range: %d, %d bytes", got.StatusCode, len(got.Body))
		}
		got := p.Answer("GET")
		if got.StatusCode != 206 || !strings.Contains(got.Body, string(huge[:100])+"\r\n--") || strings.Count(got.Body, "Content-Range") != 2 {
			t.Errorf("two ranges: %d, %.200q", got.StatusCode, got.Body)
		}
		if got := p.Answer("GET"); got.StatusCode != 200 || got.Body != "" {
			t.Errorf("empty file: %d, %q", got.StatusCode, got.Body)
		}
		if got := p.Answer("GET"); got.StatusCode != 404 {
			t.Errorf("behind all that: %d", got.StatusCode)
		}
	})
}

func TestFSRewrites(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": "a", "index.html": "index", "example.com/a.txt": "host"})
	for _, c := range []struct {
		name, path string
		rewrite    sluice.PathRewriteFunc
		status     int
		body       string
		location   string
	}{
		{"stripped", "/static/a.txt", sluice.NewPathSlashesStripper(1), 200, "a", ""},
		{"stripped to the root", "/static/", sluice.NewPathSlashesStripper(1), 200, "index", ""},
		{"stripped to nothing", "/static", sluice.NewPathSlashesStripper(1), 302, "", "/static/"},
		{"prefix", "/static/a.txt", sluice.NewPathPrefixStripper(7), 200, "a", ""},
		{"host", "/a.txt", sluice.NewVHostPathRewriter(0), 200, "host", ""},
		{"upwards", "/x", func(*sluice.RequestCtx) []byte { return []byte("/sub/../a.txt") }, 500, "Internal Server Error", ""},
		{"without slash", "/x", func(*sluice.RequestCtx) []byte { return []byte("a.txt") }, 200, "a", ""},
		{"untidy", "/x", func(*sluice.RequestCtx) []byte { return []byte("//.//a.txt") }, 200, "a", ""},
		{"not decoded", "/x", func(*sluice.RequestCtx) []byte { return []byte("/%61.txt") }, 404, "Cannot open requested path", ""},
	} {
		h := (&sluice.FS{Root: dir, IndexNames: []string{"index.html"}, PathRewrite: c.rewrite}).NewRequestHandler()
		ctx := harness.FileRequest(h, "GET", c.path)
		if status, body := ctx.Response.StatusCode(), string(ctx.Response.Body()); status != c.status || body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.name, status, body, c.status, c.body)
		}
		if got := string(ctx.Response.Header.Peek("Location")); got != c.location {
			t.Errorf("%s: Location %q, want %q", c.name, got, c.location)
		}
	}
}

// Without a Root the working directory is served, with AllowEmptyRoot the whole
// machine, and with FS what that has.
func TestFSRoots(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"file.txt": "file"})
	absolute := filepath.ToSlash(filepath.Join(dir, "file.txt"))
	for name, c := range map[string]struct {
		fs                           *sluice.FS
		atRoot, inWorking, atMachine int
	}{
		"none":                    {&sluice.FS{}, 404, 200, 404},
		"a root":                  {&sluice.FS{Root: dir}, 200, 404, 404},
		"empty":                   {&sluice.FS{AllowEmptyRoot: true}, 404, 404, 200},
		"empty, with a root":      {&sluice.FS{Root: dir, AllowEmptyRoot: true}, 200, 404, 404},
		"files":                   {&sluice.FS{FS: os.DirFS(dir)}, 200, 404, 404},
		"empty, with files":       {&sluice.FS{FS: os.DirFS(dir), AllowEmptyRoot: true}, 200, 404, 404},
		"empty, files and a root": {&sluice.FS{FS: os.DirFS(filepath.Dir(dir)), Root: filepath.Base(dir), AllowEmptyRoot: true}, 200, 404, 404},
	} {
		h := c.fs.NewRequestHandler()
		for path, want := range map[string]int{"/file.txt": c.atRoot, "/fs_test.go": c.inWorking, absolute: c.atMachine} {
			if got := harness.FileRequest(h, "GET", path).Response.StatusCode(); got != want {
				t.Errorf("%s: %s: %d, want %d", name, path, got, want)
			}
		}
	}
}

func TestFSPathNotFound(t *testing.T) {
	h := (&sluice.FS{Root: t.TempDir(), PathNotFound: func(ctx *sluice.RequestCtx) { ctx.WriteString("gone fishing") }}).NewRequestHandler()
	if ctx := harness.FileRequest(h, "GET", "/x"); ctx.Response.StatusCode() != 404 || string(ctx.Response.Body()) != "gone fishing" {
		t.Errorf("%d %q", ctx.Response.StatusCode(), ctx.Response.Body())
	}
}

// TestFSEncodes: the encoding is negotiated, kept on disk, and has validators of
// its own.
func TestFSEncodes(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet, "a.png": alphabet, "tiny.txt": "x"})
	copies := t.TempDir()
	h := (&sluice.FS{
		Root: dir, Compress: true, CompressBrotli: true, CompressZstd: true, CompressRoot: copies,
		GenerateETag: true, AcceptByteRange: true,
	}).NewRequestHandler()
	tags := map[string]bool{}
	for _, c := range []struct{ path, accept, encoding, vary string }{
		{"/a.txt", "", "", "Accept-Encoding"},
		{"/a.txt", "gzip", "gzip", "Accept-Encoding"},
		{"/a.txt", "gzip, br, zstd", "br", "Accept-Encoding"},
		{"/a.txt", "gzip, zstd", "zstd", "Accept-Encoding"},
		{"/a.txt", "br;q=0.5, gzip;q=0.9", "gzip", "Accept-Encoding"},
		{"/a.txt", "gzip;q=0", "", "Accept-Encoding"},
		{"/a.txt", "identity", "", "Accept-Encoding"},
		{"/tiny.txt", "gzip", "", "Accept-Encoding"},
		{"/a.png", "gzip", "", ""},
	} {
		ctx := harness.FileRequest(h, "GET", c.path, "Accept-Encoding: "+c.accept)
		header := &ctx.Response.Header
		if got := string(header.ContentEncoding()); got != c.encoding {
			t.Errorf("%s for %q: Content-Encoding %q, want %q", c.path, c.accept, got, c.encoding)
		}
		if got := string(header.Peek("Vary")); got != c.vary {
			t.Errorf("%s for %q: Vary %q, want %q", c.path, c.accept, got, c.vary)
		}
		body, err := ctx.Response.BodyUncompressed()
		want, _ := os.ReadFile(filepath.Join(dir, c.path))
		if err != nil || !bytes.Equal(body, want) {
			t.Errorf("%s for %q: %d bytes, %v", c.path, c.accept, len(body), err)
		}
		if c.path == "/a.txt" {
			tags[string(header.Peek("ETag"))] = true
		}
	}
	if len(tags) != 4 {
		t.Errorf("%d tags for 4 encodings: %v", len(tags), tags)
	}
	names, _ := fs.Glob(os.DirFS(copies), "*")
	if got, want := strings.Join(names, " "), "a.txt.fasthttp.br a.txt.fasthttp.gz a.txt.fasthttp.zst"; got != want {
		t.Errorf("copies: %s, want %s", got, want)
	}
	whole := harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: gzip").Response.Body()
	part := harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: gzip", "Range: bytes=1-3")
	if part.Response.StatusCode() != 206 || !bytes.Equal(part.Response.Body(), whole[1:4]) || string(part.Response.Header.ContentEncoding()) != "gzip" {
		t.Error("a range is not one of the encoded file")
	}
}

// Suffixes that are not given are the default ones.
func TestFSSuffixesOfSomeCodings(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	copies := t.TempDir()
	h := (&sluice.FS{
		Root: dir, Compress: true, CompressBrotli: true, CompressZstd: true, CompressRoot: copies,
		CompressedFileSuffixes: map[string]string{"br": ".mine"},
	}).NewRequestHandler()
	for _, coding := range []string{"gzip", "br", "zstd"} {
		if got := string(harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: "+coding).Response.Header.ContentEncoding()); got != coding {
			t.Errorf("Content-Encoding %q, want %q", got, coding)
		}
	}
	names, _ := fs.Glob(os.DirFS(copies), "*")
	if got, want := strings.Join(names, " "), "a.txt.fasthttp.gz a.txt.fasthttp.zst a.txt.mine"; got != want {
		t.Errorf("copies: %s, want %s", got, want)
	}
	copies = t.TempDir()
	h = (&sluice.FS{Root: dir, Compress: true, CompressBrotli: true, CompressRoot: copies, CompressedFileSuffix: ".mine"}).NewRequestHandler()
	harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: gzip")
	harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: br")
	names, _ = fs.Glob(os.DirFS(copies), "*")
	if got, want := strings.Join(names, " "), "a.txt.fasthttp.br a.txt.mine"; got != want {
		t.Errorf("CompressedFileSuffix: copies %s, want %s", got, want)
	}
}

// ServeFile writes no files.
func TestServeFileKeepsCopiesInMemory(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := func(ctx *sluice.RequestCtx) { sluice.ServeFile(ctx, filepath.Join(dir, "a.txt")) }
	if got := string(harness.FileRequest(h, "GET", "/", "Accept-Encoding: gzip").Response.Header.ContentEncoding()); got != "gzip" {
		t.Errorf("Content-Encoding %q", got)
	}
	if names, _ := fs.Glob(os.DirFS(dir), "*"); len(names) != 1 {
		t.Errorf("files: %v", names)
	}
}

func TestServeFSAndFiles(t *testing.T) {
	library := fstest.MapFS{"a.txt": {Data: []byte("a")}, "sub/b c.txt": {Data: []byte("b")}}
	dir := harness.MakeFiles(t, map[string]string{"a b.txt": "contents", "sub/x.txt": "x"})
	for _, c := range []struct {
		name  string
		serve func(ctx *sluice.RequestCtx)
		want  string
	}{
		{"ServeFS", func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, library, "a.txt") }, "a"},
		{"ServeFS with slash", func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, library, "/sub/b%20c.txt") }, "b"},
		{"ServeFS encoded", func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, library, "%61.txt") }, "a"},
		{"ServeFSLiteral", func(ctx *sluice.RequestCtx) { sluice.ServeFSLiteral(ctx, library, "sub/b c.txt") }, "b"},
		{"ServeFS upwards", func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, library, "../a.txt") }, "a"},
		{"ServeFS missing", func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, library, "x") }, "Cannot open requested path"},
		{"ServeFile", func(ctx *sluice.RequestCtx) { sluice.ServeFile(ctx, dir+"/a%20b.txt") }, "contents"},
		{"ServeFile as it is", func(ctx *sluice.RequestCtx) { sluice.ServeFile(ctx, dir+"/a b.txt") }, "contents"},
		{"ServeFileLiteral", func(ctx *sluice.RequestCtx) { sluice.ServeFileLiteral(ctx, dir+"/a b.txt") }, "contents"},
		{"ServeFileLiteral encoded", func(ctx *sluice.RequestCtx) { sluice.ServeFileLiteral(ctx, dir+"/a%20b.txt") }, "Cannot open requested path"},
		{"ServeFileBytes", func(ctx *sluice.RequestCtx) { sluice.ServeFileBytes(ctx, []byte(dir+"/a b.txt")) }, "contents"},
		{"uncompressed", func(ctx *sluice.RequestCtx) { sluice.ServeFileBytesUncompressed(ctx, []byte(dir+"/a b.txt")) }, "contents"},
	} {
		ctx := harness.FileRequest(c.serve, "GET", "/anything")
		if got := string(ctx.Response.Body()); got != c.want {
			t.Errorf("%s: %d %q, want %q", c.name, ctx.Response.StatusCode(), got, c.want)
		}
		isEncodable := ctx.Response.StatusCode() == 200 && c.name != "uncompressed"
		ctx = harness.FileRequest(c.serve, "GET", "/anything", "Accept-Encoding: gzip")
		if got := string(ctx.Response.Header.Peek("Vary")); (got == "Accept-Encoding") != isEncodable {
			t.Errorf("%s: Vary %q", c.name, got)
		}
	}
	// The links of a list are relative: they need the final slash.
	for name, serve := range map[string]sluice.RequestHandler{
		"ServeFile":             func(ctx *sluice.RequestCtx) { sluice.ServeFile(ctx, dir) },
		"SendFile":              func(ctx *sluice.RequestCtx) { ctx.SendFile(dir + "/") },
		"ServeFileUncompressed": func(ctx *sluice.RequestCtx) { sluice.ServeFileUncompressed(ctx, dir) },
		"ServeFS":               func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, os.DirFS(dir), "/") },
		"ServeFSLiteral":        func(ctx *sluice.RequestCtx) { sluice.ServeFSLiteral(ctx, os.DirFS(dir), ".") },
	} {
		ctx := harness.FileRequest(serve, "GET", "/x y?a=b")
		if status, location := ctx.Response.StatusCode(), ctx.Response.Header.Peek("Location"); status != 302 || string(location) != "/x%20y/?a=b" {
			t.Errorf("%s of a folder: %d, Location %q", name, status, location)
		}
		ctx = harness.FileRequest(serve, "GET", "/x/")
		if body := ctx.Response.Body(); ctx.Response.StatusCode() != 200 || !bytes.Contains(body, []byte(`href="./a%20b.txt"`)) {
			t.Errorf("%s: no list of a folder: %.200s", name, body)
		}
	}
}
