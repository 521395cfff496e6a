package files_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// After the handler, each file and index page is a body stream of known length;
// for HEAD there is none, and what the response is written as is the head of GET.
func TestFSBodiesAreStreams(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"small.txt": alphabet, "large.txt": harness.Large, "empty.txt": "", "list/a.txt": "x", "page.html": strings.Repeat("<p>page", 100)})
	h := (&sluice.FS{
		Root: dir, GenerateIndexPages: true, AcceptByteRange: true, Compress: true, CompressRoot: t.TempDir(), PathRewrite: sluice.NewPathSlashesStripper(0),
	}).NewRequestHandler()
	for _, c := range []struct {
		path, field string
		status      int
	}{
		{"/small.txt", "", 200}, {"/large.txt", "", 200}, {"/empty.txt", "", 200}, {"/list/", "", 200}, {"/", "Accept-Encoding: gzip", 200},
		{"/page.html", "Accept-Encoding: gzip", 200}, {"/small.txt", "Range: bytes=1-3", 206}, {"/small.txt", "Range: bytes=0-0,200-200,400-400", 206},
		{"/large.txt", "Range: bytes=1-3", 206}, {"/large.txt", "Range: bytes=0-0,200-200,100000-100001", 206},
	} {
		name := c.path + " " + c.field
		ask := func(method string) *sluice.Response {
			if c.field == "" {
				return &harness.FileRequest(h, method, c.path).Response
			}
			return &harness.FileRequest(h, method, c.path, c.field).Response
		}
		resp := ask("GET")
		length := resp.Header.ContentLength()
		if resp.StatusCode() != c.status || !resp.IsBodyStream() || resp.BodyStream() == nil || length < 0 {
			t.Errorf("%s: %d, stream %v, length %d", name, resp.StatusCode(), resp.IsBodyStream(), length)
		}
		content, err := io.ReadAll(resp.BodyStream())
		if err != nil || len(content) != length {
			t.Errorf("%s: read %d of %d bytes, %v", name, len(content), length, err)
		}
		written := ask("GET").String()
		if head, body, _ := strings.Cut(written, "\r\n\r\n"); body != string(content) && c.status == 200 || len(body) != length ||
			!strings.Contains(head, fmt.Sprintf("\r\nContent-Length: %d\r\n", length)) {
			t.Errorf("%s: written as %.300q", name, written)
		}
		if got := ask("GET").Body(); len(got) != length {
			t.Errorf("%s: Body has %d of %d bytes", name, len(got), length)
		}
		if c.status != 200 {
			continue
		}
		of := ask("HEAD")
		if !of.SkipBody || of.IsBodyStream() || of.Header.ContentLength() != length || len(of.Body()) != 0 {
			t.Errorf("%s, HEAD: skips %v, length %d, want %d", name, of.SkipBody, of.Header.ContentLength(), length)
		}
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		if err := of.Write(w); err != nil || w.Flush() != nil {
			t.Errorf("%s, HEAD: %v", name, err)
		}
		head, body, _ := strings.Cut(of.String(), "\r\n\r\n")
		if body != "" || !strings.Contains(head+"\r\n", fmt.Sprintf("\r\nContent-Length: %d\r\n", length)) || !strings.HasPrefix(out.String(), "HTTP/1.1 200 OK\r\n") {
			t.Errorf("%s, HEAD: written as %q", name, of.String())
		}
	}
}

// Handlers around a file handler can read and replace its body, and what they
// kept of it is not another request's.
func TestFSBodyForMiddleware(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet, "large.txt": harness.Large})
	files := (&sluice.FS{Root: dir}).NewRequestHandler()
	h := func(ctx *sluice.RequestCtx) {
		files(ctx)
		ctx.SetBody(bytes.ToUpper(ctx.Response.Body()))
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		p := harness.Serve(t, n, &sluice.Server{Handler: h}).Dial()
		for path, want := range map[string]string{"/a.txt": alphabet, "/large.txt": harness.Large} {
			if got := p.Get(path); got.Body != strings.ToUpper(want) {
				t.Errorf("%s: %d bytes, want %d", path, len(got.Body), len(want))
			}
		}
	})
}

// A path given to ServeFile ends at its query or fragment; a name does not.
func TestServeFilePathsAreCut(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a b.txt": "file", "q?x": "question", "h#x": "hash"})
	library := os.DirFS(dir)
	for _, c := range []struct{ path, cut, literal string }{
		{"/a%20b.txt?x=1", "file", ""}, {"/a%20b.txt#x?", "file", ""}, {"/a b.txt?", "file", ""}, {"/q%3Fx?y", "question", ""},
		{"/h%23x", "hash", ""}, {"/q?x", "", "question"}, {"/h#x", "", "hash"},
	} {
		for name, serve := range map[string]func(ctx *sluice.RequestCtx, isName bool){
			"ServeFile": func(ctx *sluice.RequestCtx, isName bool) {
				if isName {
					sluice.ServeFileLiteral(ctx, dir+c.path)
				} else {
					sluice.ServeFile(ctx, dir+c.path)
				}
			},
			"ServeFS": func(ctx *sluice.RequestCtx, isName bool) {
				if isName {
					sluice.ServeFSLiteral(ctx, library, c.path)
				} else {
					sluice.ServeFS(ctx, library, c.path)
				}
			},
			"SendFile": func(ctx *sluice.RequestCtx, isName bool) {
				if isName {
					ctx.SendFileLiteral(dir + c.path)
				} else {
					ctx.SendFileBytes([]byte(dir + c.path))
				}
			},
			"ServeFileUncompressed": func(ctx *sluice.RequestCtx, isName bool) {
				if isName {
					sluice.ServeFileLiteral(ctx, dir+c.path)
				} else {
					sluice.ServeFileBytesUncompressed(ctx, []byte(dir+c.path))
				}
			},
		} {
			for isName, want := range map[bool]string{false: c.cut, true: c.literal} {
				ctx := harness.FileRequest(func(ctx *sluice.RequestCtx) { serve(ctx, isName) }, "GET", "/")
				found := ctx.Response.StatusCode() == 200
				if found != (want != "") || found && string(ctx.Response.Body()) != want {
					t.Errorf("%s of %s, literally: %v: %d %q, want %q", name, c.path, isName, ctx.Response.StatusCode(), ctx.Response.Body(), want)
				}
			}
		}
	}
}

// ServeFile and ServeFS encode with br, zstd and gzip, in that order.
func TestServeFileEncodings(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"page.html": strings.Repeat("<p>page", 1000)})
	for name, serve := range map[string]sluice.RequestHandler{
		"ServeFile": func(ctx *sluice.RequestCtx) { sluice.ServeFile(ctx, dir+"/page.html") },
		"SendFile":  func(ctx *sluice.RequestCtx) { ctx.SendFile(dir + "/page.html") },
		"ServeFS":   func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, os.DirFS(dir), "page.html") },
	} {
		for accept, want := range map[string]string{"gzip, zstd, br": "br", "gzip, zstd": "zstd", "gzip": "gzip", "deflate": ""} {
			ctx := harness.FileRequest(serve, "GET", "/", "Accept-Encoding: "+accept)
			if got := string(ctx.Response.Header.ContentEncoding()); got != want {
				t.Errorf("%s for %s: %q, want %q", name, accept, got, want)
			}
		}
	}
}

// An index page is labelled with its own encoding, whatever label was there.
func TestFSIndexPageIsLabelledTruly(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": "x"})
	for _, compress := range []bool{false, true} {
		files := (&sluice.FS{Root: dir, GenerateIndexPages: true, Compress: compress}).NewRequestHandler()
		h := func(ctx *sluice.RequestCtx) {
			ctx.Response.Header.SetContentEncoding("other")
			files(ctx)
		}
		for _, accept := range []string{"identity", "gzip"} {
			resp := &harness.FileRequest(h, "GET", "/", "Accept-Encoding: "+accept).Response
			want := ""
			if compress && accept == "gzip" {
				want = "gzip"
			}
			if got := string(resp.Header.ContentEncoding()); got != want {
				t.Errorf("compress %v, %s: labelled %q, want %q", compress, accept, got, want)
			}
			if page, err := resp.BodyUncompressed(); err != nil || !bytes.Contains(page, []byte("Index of")) {
				t.Errorf("compress %v, %s: %.40q, %v", compress, accept, page, err)
			}
		}
	}
}

// No file needs the request's body: nobody is asked for it.
func TestFSDoesNotAskForABody(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet, "large.txt": harness.Large})
	h := (&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler()
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: h, StreamRequestBody: true})
		for _, path := range []string{"/a.txt", "/large.txt"} {
			p := r.Dial()
			p.Send(harness.Request("POST "+path+" HTTP/1.1", "Content-Length: 4", "Expect: 100-continue"))
			if got := p.Answer("POST"); got.StatusCode != 200 {
				t.Errorf("%s: the first answer is %d", path, got.StatusCode)
			}
		}
	})
}

// TestShortFile: the log says that a file ended before the length that a handler
// gave it, however it is sent.
func TestShortFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	for _, size := range []int64{100, 1 << 20} {
		makeSparse(t, name, size)
		log := &harness.LogBook{}
		r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Logger: log, Handler: func(ctx *sluice.RequestCtx) {
			f, err := os.Open(name)
			if err != nil {
				t.Error(err)
			}
			ctx.SetBodyStream(f, int(size)+1)
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		if got := p.Rest(); !strings.Contains(got, fmt.Sprintf("Content-Length: %d\r\n", size+1)) {
			t.Errorf("of %d bytes: %.200q", size, got)
		}
		harness.Eventually(t, "the log says so", func() bool { return strings.Contains(log.String(), io.ErrUnexpectedEOF.Error()) })
	}
}
