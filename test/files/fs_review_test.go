package files_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestSwapBodyGivesCopyOfRaw: what SwapBody returns is the caller's, so it must
// not be the content that FS has in its cache for everybody else.
func TestSwapBodyGivesCopyOfRaw(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := (&sluice.FS{Root: dir, CacheDuration: time.Hour}).NewRequestHandler()
	body := harness.FileRequest(h, "GET", "/a.txt").Response.SwapBody(nil)
	for i := range body {
		body[i] = '!'
	}
	if got := string(harness.FileRequest(h, "GET", "/a.txt").Response.Body()); got != alphabet {
		t.Errorf("the cache has %.10q now", got)
	}
}

// TestFSFieldNamesInAnyCase: names of fields are case-insensitive (RFC 9110
// section 5.1), also where the server keeps their spelling. A precondition that
// is overlooked loses updates, an If-Range makes files of two versions.
func TestFSFieldNamesInAnyCase(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := (&sluice.FS{Root: dir, AcceptByteRange: true, GenerateETag: true, Compress: true, CompressRoot: t.TempDir()}).NewRequestHandler()
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{DisableHeaderNamesNormalizing: true, Handler: h})
	p := r.Dial()
	for _, c := range []struct {
		fields []string
		status int
	}{
		{[]string{"range: bytes=0-1"}, 206},
		{[]string{"range: bytes=0-1", "if-range: \"x\""}, 200},
		{[]string{"Range: bytes=0-1", "range: bytes=3-4"}, 200},
		{[]string{"if-none-match: *"}, 304},
		{[]string{"if-modified-since: " + modifiedText}, 304},
		{[]string{"IF-MATCH: \"x\""}, 412},
		{[]string{"if-unmodified-since: " + earlier}, 412},
		{[]string{"accept-encoding: gzip"}, 200},
	} {
		p.Send(harness.Request("GET /a.txt HTTP/1.1", c.fields...))
		got := p.Answer("GET")
		if got.StatusCode != c.status {
			t.Errorf("%q: %d, want %d", c.fields, got.StatusCode, c.status)
		}
		if strings.HasPrefix(c.fields[0], "accept-encoding") && got.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%q: not encoded", c.fields)
		}
	}
}

// TestServeFSKeepsNothing: the encoded file of a call was kept, by a timer, for
// ten seconds and more: 1,000 calls per second of a 100 KiB file held a gigabyte.
func TestServeFSKeepsNothing(t *testing.T) {
	var text strings.Builder
	for i := range 6000 {
		fmt.Fprintf(&text, "%x ", i*7919*7919*31)
	}
	library := fstest.MapFS{"a.txt": {Data: []byte(text.String()), ModTime: harness.Modified}}
	before := nettest.HeapInUse()
	total := 0
	for range 60 {
		h := func(ctx *sluice.RequestCtx) { sluice.ServeFSLiteral(ctx, library, "a.txt") }
		ctx := harness.FileRequest(h, "GET", "/", "Accept-Encoding: gzip")
		if string(ctx.Response.Header.ContentEncoding()) != "gzip" {
			t.Fatal("not encoded")
		}
		total += len(ctx.Response.Body())
	}
	if kept := nettest.HeapInUse() - before; kept > total/3 {
		t.Errorf("%d KiB are kept of %d KiB that were answered", kept>>10, total>>10)
	}
}

// countingFS counts what is read of its files, and hides that they can do more
// than fs.File.
type countingFS struct {
	fs.FS
	bytes, opens atomic.Int64
}

type countingFile struct {
	fs.File
	of *countingFS
}

func (c *countingFS) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.opens.Add(1)
	return &countingFile{f, c}, nil
}

func (f *countingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.of.bytes.Add(int64(n))
	return n, err
}

// TestFSManyRangesWithoutSeek: 64 ranges of one byte each had a file of an
// archive decompressed 64 times, before the head was written.
func TestFSManyRangesWithoutSeek(t *testing.T) {
	const size = 1 << 20
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "f.bin", Method: zip.Deflate, Modified: harness.Modified})
	if err == nil {
		_, err = f.Write(make([]byte, size))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	c := &countingFS{FS: z}
	h := (&sluice.FS{FS: c, AcceptByteRange: true}).NewRequestHandler()
	var value strings.Builder
	for i := range 64 {
		fmt.Fprintf(&value, "%d-%d,", size-1-(64-i)*200, size-1-(64-i)*200)
	}
	ctx := harness.FileRequest(h, "GET", "/f.bin", "Range: bytes="+value.String())
	if got := len(ctx.Response.Body()); ctx.Response.StatusCode() != 200 || got != size {
		t.Errorf("%d with %d bytes", ctx.Response.StatusCode(), got)
	}
	if got := c.bytes.Load(); got > 4*size {
		t.Errorf("%d: one request reads %d MiB of a file of 1 MiB, and opens it %d times", ctx.Response.StatusCode(), got>>20, c.opens.Load())
	}
	if ctx := harness.FileRequest(h, "GET", "/f.bin", "Range: bytes=-3"); ctx.Response.StatusCode() != 206 || string(ctx.Response.Body()) != "\x00\x00\x00" {
		t.Errorf("one range: %d", ctx.Response.StatusCode())
	}
}

// TestFSIfRangeDates: a date is a validator for ranges only where it is a strong
// one (RFC 9110 sections 8.8.2.2 and 13.1.5).
func TestFSIfRangeDates(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"old.txt": alphabet, "new.txt": alphabet, "old.png": alphabet})
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "new.txt"), now, now); err != nil {
		t.Fatal(err)
	}
	plain := (&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler()
	encoded := (&sluice.FS{Root: dir, AcceptByteRange: true, Compress: true, CompressRoot: t.TempDir()}).NewRequestHandler()
	for _, c := range []struct {
		name    string
		handler sluice.RequestHandler
		path    string
		date    string // "": that of the answer
		status  int
		coding  string // that the client takes
	}{
		{"old", plain, "/old.txt", "", 206, "gzip"},
		{"of the second that is not over", plain, "/new.txt", "", 200, "gzip"},
		{"the same for two encodings", encoded, "/old.txt", "", 200, "gzip"},
		{"the same for an encoding that the client does not take", encoded, "/old.txt", "", 206, ""},
		{"an encoding is refused", encoded, "/old.txt", "", 206, "gzip;q=0, identity"},
		{"another date", encoded, "/old.txt", "Mon, 02 Jan 2006 15:04:05 GMT", 200, ""},
		{"with one encoding", encoded, "/old.png", "", 206, "gzip"},
		{"empty", plain, "/old.txt", " ", 200, "gzip"},
	} {
		date := c.date
		if date == "" {
			date = string(harness.FileRequest(c.handler, "GET", c.path).Response.Header.Peek("Last-Modified"))
		}
		ctx := harness.FileRequest(c.handler, "GET", c.path, "Range: bytes=5-", "If-Range: "+strings.TrimSpace(date), "Accept-Encoding: "+c.coding)
		if got := ctx.Response.StatusCode(); got != c.status {
			t.Errorf("%s: %d, want %d", c.name, got, c.status)
		}
	}
	var first sluice.RequestCtx // the field comes before all others
	first.Request.Header.Set("If-Range", `"another"`)
	first.Request.Header.Set("Range", "bytes=5-")
	first.Request.SetRequestURI("/old.txt")
	plain(&first)
	if got := first.Response.StatusCode(); got != 200 {
		t.Errorf("If-Range comes first: %d, want 200", got)
	}
}

// TestFSIfRangeOfTheLastSeconds: a date is strong as soon as the second after it
// is over.
func TestFSIfRangeOfTheLastSeconds(t *testing.T) {
	dir := t.TempDir()
	h := (&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler()
	status := func(name string, age int64) int {
		for {
			now := clock.Coarse().Unix()
			modified := time.Unix(now-age, 0)
			path := filepath.Join(dir, fmt.Sprint(name, now))
			if err := os.WriteFile(path, []byte(alphabet), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, modified, modified); err != nil {
				t.Fatal(err)
			}
			date := modified.UTC().Format(http.TimeFormat)
			ctx := harness.FileRequest(h, "GET", "/"+filepath.Base(path), "Range: bytes=5-", "If-Range: "+date)
			if clock.Coarse().Unix() == now {
				return ctx.Response.StatusCode()
			}
		}
	}
	if got := status("early", 1); got != 200 {
		t.Errorf("the second after it is not over: %d", got)
	}
	if got := status("late", 2); got != 206 {
		t.Errorf("it is over: %d", got)
	}
}

// TestCompressHandlerAroundRanges: what is encoded on the fly has no ranges, and
// a 206 has the Vary of the 200 (RFC 9110 section 15.3.7).
func TestCompressHandlerAroundRanges(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := sluice.CompressHandler((&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler())
	whole := harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: gzip")
	if got := whole.Response.Header.Peek("Accept-Ranges"); string(whole.Response.Header.ContentEncoding()) != "gzip" || string(got) == "bytes" {
		t.Errorf("encoded with Accept-Ranges %q", got)
	}
	part := harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: gzip", "Range: bytes=5-")
	if got := string(part.Response.Header.Peek("Vary")); part.Response.StatusCode() != 206 || got != "Accept-Encoding" {
		t.Errorf("%d with Vary %q", part.Response.StatusCode(), got)
	}
}

// idleFile is a large file whose Read brings nothing, for ever.
type idleFile struct{ reads int }

func (*idleFile) Open(string) (fs.File, error) { return &idleFile{}, nil }

func (f *idleFile) Stat() (fs.FileInfo, error) { return f, nil }

func (*idleFile) Name() string { return "f.bin" }

func (*idleFile) Size() int64 { return 1 << 20 }

func (*idleFile) Mode() fs.FileMode { return 0o444 }

func (*idleFile) ModTime() time.Time { return harness.Modified }

func (*idleFile) IsDir() bool { return false }

func (*idleFile) Sys() any { return nil }

func (*idleFile) Close() error { return nil }

func (f *idleFile) Read([]byte) (int, error) {
	if f.reads++; f.reads > 10_000 {
		return 0, errors.New("read for ever")
	}
	return 0, nil
}

// TestFSIdleFiles: a reader that brings neither bytes nor an error does not
// occupy a processor for ever.
func TestFSIdleFiles(t *testing.T) {
	var log harness.LogBook
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Logger: &log, Handler: (&sluice.FS{FS: &idleFile{}}).NewRequestHandler()})
	p := r.Dial()
	p.Send(harness.Get("/f.bin"))
	p.Rest()
	if strings.Contains(log.String(), "for ever") {
		t.Errorf("it is read 10,000 times: %s", log.String())
	}
}

// TestFSCachesForEver: the sum of the time and the longest Duration overflowed,
// so that every request took the long way.
func TestFSCachesForEver(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := (&sluice.FS{Root: dir, CacheDuration: math.MaxInt64}).NewRequestHandler()
	ctx := harness.FileRequest(h, "GET", "/a.txt")
	n := testing.AllocsPerRun(100, func() {
		ctx.Response.Reset()
		h(ctx)
	})
	if n > 0 && !invariants.Enabled {
		t.Errorf("%v allocations", n)
	}
}

// TestFSOptionsOfServer: "*" names the server and no file (RFC 9110 section
// 9.3.7), neither one that is called so nor a folder to redirect to.
func TestFSOptionsOfServer(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"*": "star", "index.html": "index"})
	for _, rewrite := range []sluice.PathRewriteFunc{nil, sluice.NewPathSlashesStripper(1)} {
		h := (&sluice.FS{Root: dir, PathRewrite: rewrite, IndexNames: []string{"index.html"}}).NewRequestHandler()
		p := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: h}).Dial()
		p.Send(harness.Request("OPTIONS * HTTP/1.1"))
		if got := p.Answer("OPTIONS"); got.StatusCode != 404 {
			t.Errorf("%d %q, Location %q", got.StatusCode, got.Body, got.Header.Get("Location"))
		}
		if got := p.Get("/*"); rewrite == nil && got.Body != "star" {
			t.Errorf("GET of that file: %d", got.StatusCode)
		}
	}
}

// TestFSListsRewrittenFolders: a rewriter that adds the final slash has the folder listed, as
// those of routers do for the path of a group.
func TestFSListsRewrittenFolders(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": "a", "sub/b.txt": "b"})
	h := (&sluice.FS{Root: dir, GenerateIndexPages: true, PathRewrite: func(ctx *sluice.RequestCtx) []byte {
		return append(bytes.TrimPrefix(ctx.Path(), []byte("/static")), '/')
	}}).NewRequestHandler()
	for path, link := range map[string]string{"/static": "a.txt", "/static/": "a.txt", "/static/sub": "b.txt"} {
		ctx := harness.FileRequest(h, "GET", path)
		var page bytes.Buffer
		if err := ctx.Response.BodyWriteTo(&page); err != nil || ctx.Response.StatusCode() != 200 || !strings.Contains(page.String(), link) {
			t.Errorf("%s: %d, %v, %q", path, ctx.Response.StatusCode(), err, page.String())
		}
	}
}

// TestFSWritesPartsAtOnce: the parts of a small file went out in two writes, and
// packets, each.
func TestFSWritesPartsAtOnce(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := (&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler()
	ctx := harness.FileRequest(h, "GET", "/a.txt", "Range: bytes=0-0,200-200,400-400,600-600")
	if _, isWhole := ctx.Response.BodyStream().(io.WriterTo); ctx.Response.StatusCode() != 206 || !isWhole {
		t.Errorf("%d, at once: %v", ctx.Response.StatusCode(), isWhole)
	}
}

// TestFSListEvaluatesConditions: preconditions are for every answer that would
// be a 2xx (RFC 9110 section 13.2.1). A list has no validators without GenerateETag:
// If-Match with a tag fails, "*" is true.
func TestFSListEvaluatesConditions(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet})
	h := (&sluice.FS{Root: dir, GenerateIndexPages: true}).NewRequestHandler()
	for field, want := range map[string]int{
		"If-Match: \"x\"": 412, "If-Match: *": 200, "If-None-Match: *": 304, "If-None-Match: \"x\"": 200, "If-Modified-Since: " + later: 200,
	} {
		if got := harness.FileRequest(h, "GET", "/", field).Response.StatusCode(); got != want {
			t.Errorf("%s: %d, want %d", field, got, want)
		}
	}
	h = (&sluice.FS{Root: dir, GenerateIndexPages: true, GenerateETag: true, AcceptByteRange: true, Compress: true}).NewRequestHandler()
	for _, accepts := range []string{"gzip", "identity"} {
		list := harness.FileRequest(h, "GET", "/", "Accept-Encoding: "+accepts, "Range: bytes=0-1")
		etag := string(list.Response.Header.Peek("ETag"))
		if list.Response.StatusCode() != 200 || etag == "" || len(list.Response.Header.Peek("Accept-Ranges")) > 0 {
			t.Errorf("%s: %v", accepts, &list.Response.Header)
		}
		if got := harness.FileRequest(h, "GET", "/", "Accept-Encoding: "+accepts, "If-None-Match: "+etag).Response.StatusCode(); got != 304 {
			t.Errorf("%s: %d for the list's ETag", accepts, got)
		}
	}
}
