package difftest

import (
	"fmt"
	"io"
	"net/http"
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
// with ServeFile ("file", "fs"); want is what is answered where a rule says that
// v1.77 does something else than v1.74, which is run.
var fileAnswerRows = []struct{ rule, by, method, path, fields, want string }{
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
	{"5.6", "label", "GET", "/folder/", "", "200 stream true true, length known true, skips false,  , all true, told true"},
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

// etagRows are conditions, on a file with the tag W/"65937d25-1a" of 26 bytes; v1.74
// has no such tags.
var etagRows = []struct{ rule, field, want string }{
	{"5.5", "", `200 W/"65937d25-1a" 26`},
	{"5.5", `If-None-Match: W/"65937d25-1a"`, `304 W/"65937d25-1a" 0`},
	{"5.5", `If-None-Match: "65937d25-1a"`, `304 W/"65937d25-1a" 0`},
	{"5.5", `If-None-Match: x, W/"65937d25-1a"`, `200 W/"65937d25-1a" 26`},
	{"5.5", `If-None-Match: , *,`, `304 W/"65937d25-1a" 0`},
	{"5.5", `If-Match: "other"`, `412  0`},
	{"5.7, F6", `Range: bytes=0-0,25-25`, `206 W/"65937d25-1a"`},
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
	for _, row := range fileAnswerRows {
		name, value, _ := strings.Cut(row.fields, ": ")
		var theirCtx fasthttp.RequestCtx
		theirCtx.Init(&fasthttp.Request{}, nil, silent{})
		theirCtx.Request.Header.SetMethod(row.method)
		theirCtx.Request.SetRequestURI(row.path)
		var ourCtx sluice.RequestCtx
		ourCtx.Init(&sluice.Request{}, nil, silent{})
		ourCtx.Request.Header.SetMethod(row.method)
		ourCtx.Request.SetRequestURI(row.path)
		if name != "" {
			theirCtx.Request.Header.Set(name, value)
			ourCtx.Request.Header.Set(name, value)
		}
		theirs[row.by](&theirCtx, row.path)
		ours[row.by](&ourCtx, row.path)
		their, our := &theirCtx.Response, &ourCtx.Response
		want := answered(their, their.Header.ContentLength(), their.SkipBody, their.Header.Peek)
		got := answered(our, our.Header.ContentLength(), our.SkipBody, our.Header.Peek)
		if differs := row.rule != "" && want == row.want; differs {
			t.Errorf("%s %v: v1.74 does so, too", row.rule, row)
		}
		if row.rule != "" {
			want = row.want
		}
		if got != want {
			t.Errorf("%s %v:\ngot  %s\nwant %s", row.rule, row, got, want)
		}
	}
}

func TestFileTags(t *testing.T) {
	h := (&sluice.FS{Root: grow(t), GenerateETag: true, AcceptByteRange: true}).NewRequestHandler()
	for _, row := range etagRows {
		var ctx sluice.RequestCtx
		ctx.Init(&sluice.Request{}, nil, silent{})
		ctx.Request.SetRequestURI("/letters.txt")
		if name, value, ok := strings.Cut(row.field, ": "); ok {
			ctx.Request.Header.Set(name, value)
		}
		h(&ctx)
		got := fmt.Sprint(ctx.Response.StatusCode(), " ", string(ctx.Response.Header.Peek("ETag")), " ", len(ctx.Response.Body()))
		if ctx.Response.StatusCode() == http.StatusPartialContent {
			got = got[:strings.LastIndexByte(got, ' ')] // the boundary is random
		}
		if got != row.want {
			t.Errorf("%s %s: got %s, want %s", row.rule, row.field, got, row.want)
		}
	}
}
