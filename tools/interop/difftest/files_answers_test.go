package difftest

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// fileAnswer is what both responses have in common.
type fileAnswer interface {
	IsBodyStream() bool
	BodyStream() io.Reader
	StatusCode() int
	Body() []byte
	String() string
}

// answered describes a response after a file handler: whether it is a stream, the
// length that is announced, and the body by size; then the fields that matter and
// how long what is written is after the head. Encoded bodies have other sizes.
func answered(r fileAnswer, length int, skips bool, field func(name string) []byte) string {
	size := fmt.Sprint(length)
	coding := string(field("Content-Encoding"))
	isEncoded := coding == "gzip" || coding == "br" || coding == "zstd"
	if strings.HasPrefix(string(field("Content-Type")), "text/html") || isEncoded {
		size = fmt.Sprint("known ", length > 0) // another page
	}
	out := fmt.Sprintf("%d stream %v %v, length %s, skips %v, %s %s", r.StatusCode(), r.IsBodyStream(), r.BodyStream() != nil, size, skips, coding, field("ETag"))
	head, body, _ := strings.Cut(r.String(), "\r\n\r\n")
	return fmt.Sprint(out, ", all ", len(body) == length, ", told ", strings.Contains(head, fmt.Sprintf("Content-Length: %d", length)))
}

// fileAnswerRows are requests to FS, with what a handler in front of it does and
// with ServeFile ("file", "fs"); want is what is answered by a row of
// docs/compatibility.md.
var fileAnswerRows = []struct{ row, by, method, path, fields, want string }{
	{"", "FS", "GET", "/letters.txt", "", ""},
	{"", "FS", "GET", "/huge.bin", "", ""},
	{"", "FS", "GET", "/empty.txt", "", ""},
	{"", "FS", "GET", "/folder/", "", ""},
	{"", "FS", "GET", "/letters.txt", "Range: bytes=1-2", ""},
	{"", "FS", "GET", "/huge.bin", "Range: bytes=1-2", ""},
	{"", "FS", "GET", "/long.txt", "Accept-Encoding: gzip", ""},
	{"", "FS", "HEAD", "/letters.txt", "", ""},
	{"", "FS", "HEAD", "/huge.bin", "", ""},
	{"", "FS", "HEAD", "/empty.txt", "", ""},
	{"", "FS", "HEAD", "/folder/", "", ""},
	{"", "FS", "HEAD", "/long.txt", "Accept-Encoding: gzip", ""},
	{"", "label", "GET", "/folder/", "Accept-Encoding: gzip", ""},
	{"F32", "label", "GET", "/folder/", "", "200 stream true true, length known true, skips false,  , all true, told true"},
	{"", "file", "GET", "/letters.txt?query", "", ""},
	{"", "file", "GET", "/letters.txt#fragment", "", ""},
	{"", "literal", "GET", "/letters.txt?query", "", ""},
	{"", "literal", "GET", "/question?.txt", "", ""},
	{"", "fs", "GET", "/letters.txt?query", "", ""},
	{"", "fs", "GET", "/question?.txt", "", ""},
	{"", "fs literal", "GET", "/question?.txt", "", ""},
	{"", "file", "GET", "/long.txt", "Accept-Encoding: gzip, zstd, br", ""},
	{"", "file", "GET", "/long.txt", "Accept-Encoding: gzip, zstd", ""},
	{"", "fs", "GET", "/long.txt", "Accept-Encoding: gzip, zstd, br", ""},
	{"", "fs", "GET", "/long.txt", "Accept-Encoding: gzip, zstd", ""},
	{"", "fs", "GET", "/long.txt", "Accept-Encoding: gzip", ""},
}

func TestFileAnswers(t *testing.T) {
	theirRoot, ourRoot := grow(t), grow(t)
	theirFS := (&fasthttp.FS{Root: theirRoot, Compress: true, AcceptByteRange: true, GenerateIndexPages: true}).NewRequestHandler()
	ourFS := (&sluice.FS{Root: ourRoot, Compress: true, AcceptByteRange: true, GenerateIndexPages: true}).NewRequestHandler()
	theirs := map[string]func(ctx *fasthttp.RequestCtx, path string){
		"FS":         func(ctx *fasthttp.RequestCtx, _ string) { theirFS(ctx) },
		"label":      func(ctx *fasthttp.RequestCtx, _ string) { ctx.Response.Header.SetContentEncoding("mine"); theirFS(ctx) },
		"file":       func(ctx *fasthttp.RequestCtx, path string) { fasthttp.ServeFile(ctx, theirRoot+path) },
		"literal":    func(ctx *fasthttp.RequestCtx, path string) { fasthttp.ServeFileLiteral(ctx, theirRoot+path) },
		"fs":         func(ctx *fasthttp.RequestCtx, path string) { fasthttp.ServeFS(ctx, os.DirFS(theirRoot), path) },
		"fs literal": func(ctx *fasthttp.RequestCtx, path string) { fasthttp.ServeFSLiteral(ctx, os.DirFS(theirRoot), path) },
	}
	ours := map[string]func(ctx *sluice.RequestCtx, path string){
		"FS":         func(ctx *sluice.RequestCtx, _ string) { ourFS(ctx) },
		"label":      func(ctx *sluice.RequestCtx, _ string) { ctx.Response.Header.SetContentEncoding("mine"); ourFS(ctx) },
		"file":       func(ctx *sluice.RequestCtx, path string) { sluice.ServeFile(ctx, ourRoot+path) },
		"literal":    func(ctx *sluice.RequestCtx, path string) { sluice.ServeFileLiteral(ctx, ourRoot+path) },
		"fs":         func(ctx *sluice.RequestCtx, path string) { sluice.ServeFS(ctx, os.DirFS(ourRoot), path) },
		"fs literal": func(ctx *sluice.RequestCtx, path string) { sluice.ServeFSLiteral(ctx, os.DirFS(ourRoot), path) },
	}
	for _, r := range fileAnswerRows {
		name, value, _ := strings.Cut(r.fields, ": ")
		var theirCtx fasthttp.RequestCtx
		theirCtx.Init(&fasthttp.Request{}, nil, silent{})
		theirCtx.Request.Header.SetMethod(r.method)
		theirCtx.Request.SetRequestURI(r.path)
		var ourCtx sluice.RequestCtx
		ourCtx.Init(&sluice.Request{}, nil, silent{})
		ourCtx.Request.Header.SetMethod(r.method)
		ourCtx.Request.SetRequestURI(r.path)
		if name != "" {
			theirCtx.Request.Header.Set(name, value)
			ourCtx.Request.Header.Set(name, value)
		}
		theirs[r.by](&theirCtx, r.path)
		ours[r.by](&ourCtx, r.path)
		their, our := &theirCtx.Response, &ourCtx.Response
		want := answered(their, their.Header.ContentLength(), their.SkipBody, their.Header.Peek)
		got := answered(our, our.Header.ContentLength(), our.SkipBody, our.Header.Peek)
		if r.row != "" {
			if want == r.want {
				t.Errorf("%v: no longer differs", r)
			}
			want = r.want
		}
		if got != want {
			t.Errorf("%v:\ngot  %s\nwant %s", r, got, want)
		}
	}
}

// TestFileTags compares what is answered to conditions on a file with the tag
// W/"65937d25-1a", of 26 bytes (5.5).
func TestFileTags(t *testing.T) {
	theirs := (&fasthttp.FS{Root: grow(t), GenerateETag: true, AcceptByteRange: true}).NewRequestHandler()
	ours := (&sluice.FS{Root: grow(t), GenerateETag: true, AcceptByteRange: true}).NewRequestHandler()
	inputs := lines(`|If-None-Match: W/"65937d25-1a"|If-None-Match: "65937d25-1a"|If-None-Match: x, W/"65937d25-1a"|If-None-Match: , *,|` +
		`If-None-Match: *|If-None-Match: "other"|If-Match: "other"|If-Match: W/"65937d25-1a"|If-Match: *|Range: bytes=0-0|Range: bytes=0-0,25-25`)
	compare(t, inputs, differences{"Range: bytes=0-0,25-25": "F6", `If-Match: "other"`: "F3", `If-Match: W/"65937d25-1a"`: "F3"},
		func(line string) string {
			var ctx fasthttp.RequestCtx
			ctx.Init(&fasthttp.Request{}, nil, silent{})
			ctx.Request.SetRequestURI("/letters.txt")
			name, value, _ := strings.Cut(line, ": ")
			ctx.Request.Header.Set(name, value)
			theirs(&ctx)
			return fmt.Sprintf("%d %s %d", ctx.Response.StatusCode(), ctx.Response.Header.Peek("ETag"), len(ctx.Response.Body()))
		},
		func(line string) string {
			var ctx sluice.RequestCtx
			ctx.Init(&sluice.Request{}, nil, silent{})
			ctx.Request.SetRequestURI("/letters.txt")
			name, value, _ := strings.Cut(line, ": ")
			ctx.Request.Header.Set(name, value)
			ours(&ctx)
			return fmt.Sprintf("%d %s %d", ctx.Response.StatusCode(), ctx.Response.Header.Peek("ETag"), len(ctx.Response.Body()))
		})
}
