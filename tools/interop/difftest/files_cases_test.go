package difftest

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/valyala/fasthttp"
	theirutil "github.com/valyala/fasthttp/fasthttputil"
)

// Dates around changed.
const (
	before = "Tue, 02 Jan 2024 03:04:04 GMT"
	then   = "Tue, 02 Jan 2024 03:04:05 GMT"
	after  = "Tue, 02 Jan 2024 03:04:06 GMT"
)

// each is every one of the suffixes behind a prefix.
func each(prefix string, suffixes ...string) []string {
	out := make([]string, len(suffixes))
	for i, suffix := range suffixes {
		out[i] = prefix + suffix
	}
	return out
}

func pathRequests() []string {
	return append(lines("/letters.txt|/letters.txt?a=b|/missing.txt|/missing/missing.txt|/|/folder|/folder/|/folder?a=b|/folder/sub|/bare|/bare/|"+
		"/indexed|/indexed/|/indexed?a=b|/indexed/index.html|/with%20space|/with%20space/|/strange|/strange/|/strange/index.html|/other/|/both/|"+
		"/letters.txt/|/letters.txt/x|/letters.txt//|/folder/a.txt/|/letters.txt/.|/letters.txt/..|/indexed//|/indexed/.|/folder/.|/folder/..|"+
		"/with%20space.txt|/with+space.txt|/percent%41.txt|/percent%2541.txt|/100%2541|/100%2541/|/%C3%BCn%C3%AF.txt|/plus+sign.txt|/plus%2Bsign.txt|/question%3F.txt|"+
		"/question?.txt|/hash%23.txt|/back%5Cslash.txt|/back\\slash.txt|/a:b.txt|/a%3Ab.txt|/a;b.txt|/a&b.txt|/-|/~|/...|/.../|/.hidden|/.secret/s.txt|/x..txt|/x.|"+
		"/letters.tx%74|/LETTERS.TXT|//letters.txt|/folder//a.txt|/./letters.txt|/folder/../letters.txt|/folder/./a.txt|/../letters.txt|/../outside.txt|/..|"+
		"/%2e%2e/outside.txt|/..%2foutside.txt|/%2e%2e%2foutside.txt|/folder%2fa.txt|/folder%2Fa.txt|/%252e%252e/outside.txt|/..%5coutside.txt|/folder%5Ca.txt|"+
		"/letters.txt%00|/letters%00.txt|/%00|/letters.txt%00.html|/%0a|/letters.txt%20|/%ff|/.|/./|/*|//indexed|/%2e/indexed|/indexed/../indexed|"+
		"/link-in|/link-out|/link-folder/|/link-folder|/link-folder/a.txt|/link-out-folder/x.txt|/link-out-folder/|/link-out-folder|/link-broken|/link-loop|/link-absolute"),
		"/indexed | Host: other:80", "/folder | Range: bytes=0-1", "/indexed | If-Modified-Since: "+then, "/"+strings.Repeat("x", 300), "/"+strings.Repeat("x/", 600))
}

func methodRequests() []string {
	return append(lines("HEAD /letters.txt|DELETE /letters.txt|OPTIONS /letters.txt|TRACE /letters.txt|QUERY /letters.txt|OPTIONS /missing.txt|"+
		"HEAD /missing.txt|HEAD /|HEAD /folder|HEAD /folder/|HEAD /indexed/|HEAD /empty.txt|HEAD /text|HEAD /huge.txt|HEAD /long.txt|OPTIONS /folder|OPTIONS /folder/"),
		"POST /letters.txt | Content-Length: 0", "PUT /letters.txt | Content-Length: 0", "PATCH /letters.txt | Content-Length: 0",
		"POST /missing.txt | Content-Length: 0", "POST /folder | Content-Length: 0", "POST /indexed/ | Content-Length: 0")
}

func typeRequests() []string {
	return each("/", "empty.txt", "empty", "one", "text", "binary", "markup", "script", "unknown.xyzzy", "unknown.bytes", "page.html", "style.css", "code.js",
		"data.json", "module.mjs", "image.svg", "image.png", "UPPER.HTML", "app.wasm", "x.pdf", "x.html.bak", "x.jpeg", "x.gif", "x.webp", "x.avif", "x.htm", "letters.bin", "huge.txt",
		"huge.bin", "long.txt", "folder.d/x", "x.", ".hidden", "...")
}

func conditionRequests() []string {
	var out []string
	for _, target := range []string{"/letters.txt", "HEAD /letters.txt", "POST /letters.txt | Content-Length: 0", "/huge.txt", "/indexed/", "/missing.txt", "/folder/"} {
		out = append(out, each(target+" | If-", "Modified-Since: "+then, "Modified-Since: "+before, "Modified-Since: "+after, "Modified-Since: x",
			"Modified-Since: Tuesday, 02-Jan-24 03:04:05 GMT", "Modified-Since: Tue, 02 Jan 2124 03:04:05 GMT", "Modified-Since:", "Modified-Since: "+then+"; length=26",
			"Unmodified-Since: "+then, "Unmodified-Since: "+before, "Unmodified-Since: "+after, "None-Match: *", `None-Match: "x"`, `None-Match: "x" | If-Modified-Since: `+then,
			"Match: *", `Match: "x"`)...)
	}
	return out
}

func rangeRequests() []string {
	out := each("/letters.txt | Range: bytes=", "0-1", "0-", "-5", "-", "5-2", "-0", "26-", "25-", "25-99", "-99", "0-0", "0-1,3-4", "0-1, 3-4", "0-1,", ",0-1", "0-1,99-",
		"99-,0-1", "0-9,5-15", "99-100,200-300", "a-b", "", "1", " 0-1", "0-1 ", "0 -1", "-a", "99999999999999999999-", "0-99999999999999999999", "-99999999999999999999",
		"0-0,2-2,4-4,6-6,8-8,10-10", "0-25", "--1", "+1-2", "1-2-3", "0-1 | If-Modified-Since: "+then, "0-1 | If-Modified-Since: "+before, "99- | If-Modified-Since: "+then,
		"0-1 | If-Range: "+then, "0-1 | If-Range: "+before, "0-1 | If-Range: "+after, `0-1 | If-Range: "x"`, "0-1 | If-Range: x", "0-1 | If-Range:", "0-1 | Range: bytes=3-4")
	out = append(out, each("/letters.txt | Range:", " items=0-1", " bytes 0-1", " Bytes=0-1", " bytes = 0-1", "", " x")...)
	for _, r := range []string{"bytes=0-1", "bytes=99-"} {
		out = append(out, "HEAD /letters.txt | Range: "+r, "POST /letters.txt | Content-Length: 0 | Range: "+r)
	}
	return append(out, "/empty.txt | Range: bytes=0-", "/empty.txt | Range: bytes=-1", "/empty.txt | Range: bytes=0-0", "/one | Range: bytes=0-0", "/missing.txt | Range: bytes=0-1",
		"/indexed/ | Range: bytes=0-1", "/folder/ | Range: bytes=0-1", "/indexed | Range: bytes=0-1", "/huge.txt | Range: bytes=299990-", "/huge.txt | Range: bytes=0-0,299999-",
		"/huge.txt | Range: bytes=1-299998", "/huge.txt | Range: bytes=-300001", "/letters.bin | Range: bytes=1-2", "/text | Range: bytes=1-2",
		"/letters.txt", "HEAD /letters.txt", "/empty.txt", "/missing.txt", "/indexed/")
}

func codingRequests() []string {
	out := each("/long.txt | Accept-Encoding:", " gzip", " br", " zstd", " deflate", " gzip, deflate, br, zstd", " zstd, br, gzip", " gzip;q=0", " gzip;q=0.5", " GZIP", " x-gzip", " *",
		" identity", " identity;q=0", " *;q=0", " gzip,identity;q=0", " gzip;q=0.1,br;q=0.9", "", " gzipx", " br;q=0,gzip", " deflate, gzip", " gzip | Accept-Encoding: br",
		" gzip | Range: bytes=0-1", " gzip | Range: bytes=99999-", " gzip | If-Modified-Since: "+then, " gzip | If-Modified-Since: "+before)
	for _, name := range []string{"huge.txt", "huge.bin", "long.bin", "long.html", "long.svg", "long.png", "short.txt", "h199.txt", "h201.txt", "one", "empty.txt", "letters.txt",
		"data.json", "indexed/", "indexed", "folder/", "missing", "link-in"} {
		out = append(out, "/"+name+" | Accept-Encoding: gzip")
	}
	return append(out, "/long.txt", "/long.bin", "HEAD /long.txt | Accept-Encoding: gzip", "POST /long.txt | Content-Length: 0 | Accept-Encoding: gzip",
		"/long.txt.fasthttp.br", "/long.txt.fasthttp.zst", "/long.txt.fasthttp.gz", "/long.txt.fasthttp.gz | Accept-Encoding: gzip")
}

func rewriteRequests() []string {
	return each("/x?p=", "/letters.txt", "letters.txt", "", "/", "/../outside.txt", "/folder/../letters.txt", "/./letters.txt", "//letters.txt", "/with%20space.txt", "/with%2520space.txt",
		"/percent%2541.txt", "/percent%41.txt", "/indexed", "/indexed/", "indexed", "/folder", "/folder/", "/letters.txt%00", "/..", "..", ".", "./letters.txt", "../outside.txt", "/folder/..",
		"/back%5Cslash.txt", "/missing", "/letters.txt?x", "/%3Fx", "/letters.txt/", "/indexed//", "/folder//a.txt", "/indexed/.", "/%E4")
}

// and adds inputs that differ for one more reason.
func (d differences) and(reason string, inputs ...string) differences {
	out := differences{}
	for input, reason := range d {
		out[input] = reason
	}
	for _, input := range inputs {
		out[input] = reason
	}
	return out
}

// Reasons that occur in several tests.
const (
	hasQuery = "a redirect keeps the query"
	isNUL    = "another text for a path with NUL"
	ownPath  = "the redirect is to the path that the client asked for; fasthttp's, to what that was rewritten to, leads elsewhere"
	modified = "a 304 has the Last-Modified that the 200 would have; RFC 9110 section 15.4.5"
	method   = "conditions and ranges are for GET and HEAD, ranges for GET only; RFC 9110 sections 13.2.1 and 14.2"
	hasOwn   = "If-Match, If-None-Match and If-Unmodified-Since count; RFC 9110 section 13.2.2"
	obsolete = "the obsolete date formats are read; RFC 9110 section 5.6.7"
	repeated = "two Range fields are ignored; RFC 9110 section 14.2"
	several  = "several ranges are answered with several parts; RFC 9110 section 14.6"
	ifRange  = "If-Range is honoured; RFC 9110 section 13.1.5"
	large    = "a position too large for an int is past the end; RFC 9110 section 14.1.2"
	accepts  = "Accept-Encoding is read as RFC 9110 section 12.5.3 says"
	tooSmall = "what is this small gains nothing by encoding"
	encoded  = "the file is encoded all the same, and ranges count its encoded bytes; RFC 9110 section 14.2"
	isCopy   = "encoders differ"
	varies   = "an answer that might have been encoded says so, else caches mix them up; RFC 9110 section 12.5.5"
)

func pathDifferences() differences {
	return differences{}.and(hasQuery, "/folder?a=b", "/indexed?a=b").
		and(isNUL, "/letters.txt%00", "/letters%00.txt", "/%00", "/letters.txt%00.html").
		and("fasthttp decodes the path once more for the redirect", "/100%2541")
}

func conditionDifferences() differences {
	out := differences{}
	for _, target := range []string{"/letters.txt", "HEAD /letters.txt", "/huge.txt", "/indexed/"} {
		out = out.and(modified, each(target+" | If-Modified-Since: ", then, after, "Tue, 02 Jan 2124 03:04:05 GMT")...).
			and(obsolete, target+" | If-Modified-Since: Tuesday, 02-Jan-24 03:04:05 GMT").
			and(hasOwn, each(target+" | If-", "Unmodified-Since: "+before, "None-Match: *", `None-Match: "x" | If-Modified-Since: `+then, `Match: "x"`)...)
	}
	const post = "POST /letters.txt | Content-Length: 0 | If-"
	return out.and(hasOwn, each(post, "Unmodified-Since: "+before, "None-Match: *", `Match: "x"`)...)
}

func rangeDifferences() differences {
	const letters = "/letters.txt | Range: bytes="
	return differences{}.
		and(repeated, letters+"0-1 | Range: bytes=3-4").
		and("range units are case-insensitive; RFC 9110 section 14.1", "/letters.txt | Range: Bytes=0-1").
		and(several, letters+"99-100,200-300").
		and("the last byte of an empty file is all of it; RFC 9110 section 14.1.2", "/empty.txt | Range: bytes=-1").
		and(several, each(letters, "0-1,3-4", "0-1, 3-4", "0-1,", ",0-1", "0-1,99-", "99-,0-1", "0-9,5-15", "0-0,2-2,4-4,6-6,8-8,10-10")...).
		and(several, "/huge.txt | Range: bytes=0-0,299999-").
		and(large, letters+"0-99999999999999999999", letters+"-99999999999999999999").
		and(ifRange, letters+"0-1 | If-Range:").
		and(modified, letters+"0-1 | If-Modified-Since: "+then, letters+"99- | If-Modified-Since: "+then).
		and(method, each("HEAD ", letters+"0-1", letters+"99-")...)
}

func codingDifferences() differences {
	const long = "/long.txt | Accept-Encoding: "
	return differences{}.
		and(accepts, long+"x-gzip").
		and(encoded, long+"gzip | Range: bytes=0-1", long+"gzip | Range: bytes=99999-").
		and(modified, long+"gzip | If-Modified-Since: "+then).
		and(tooSmall, each("/", "short.txt | Accept-Encoding: gzip", "h199.txt | Accept-Encoding: gzip", "h201.txt | Accept-Encoding: gzip")...).
		and(isCopy, "/long.txt.fasthttp.gz", "/long.txt.fasthttp.gz | Accept-Encoding: gzip")
}

func TestFiles(t *testing.T) {
	index := []string{"index.html", "default.htm"}
	base := options{"IndexNames": index}
	for name, c := range map[string]struct {
		site     site
		requests []string
		known    differences
	}{
		"paths":                  {options{}.below(), pathRequests(), pathDifferences()},
		"paths with index names": {base.below(), pathRequests(), pathDifferences()},
		"paths of an fs.FS":      {options{"DirFS": true, "Root": ""}.below(), pathRequests(), pathDifferences()},
		"methods":                {base.below(), methodRequests(), nil},
		"types":                  {options{}.below(), typeRequests(), differences{"/markup": "contents don't make a file HTML: what users upload must not run scripts"}},
		"conditions":             {base.below(), conditionRequests(), conditionDifferences()},
		"ranges":                 {base.with("AcceptByteRange", true).below(), rangeRequests(), rangeDifferences()},
		"ranges without cache":   {base.with("AcceptByteRange", true).with("SkipCache", true).below(), rangeRequests(), rangeDifferences()},
		"ranges off":             {options{}.below(), []string{"/letters.txt | Range: bytes=0-1", "/letters.txt | Range: x"}, nil},
		"gzip":                   {base.with("Compress", true).below().without("Vary"), codingRequests(), codingDifferences()},
		"gzip and ranges":        {base.with("Compress", true).with("AcceptByteRange", true).below().without("Vary"), codingRequests(), codingDifferences()},
		"br, zstd, gzip": {base.with("Compress", true).with("CompressBrotli", true).with("CompressZstd", true).below().without("Vary"), codingRequests(),
			codingDifferences().and(accepts, "/long.txt | Accept-Encoding: gzip | Accept-Encoding: br").and(isCopy, "/long.txt.fasthttp.br", "/long.txt.fasthttp.zst")},
		"br without Compress": {options{"CompressBrotli": true, "CompressZstd": true}.below(), codingRequests()[:5], nil},
		"Vary": {options{"Compress": true}.below(), append(each("/long.txt", "", " | Accept-Encoding: gzip", " | Accept-Encoding: br"), "/image.png | Accept-Encoding: gzip", "/one"),
			differences{}.and(varies, "/long.txt", "/long.txt | Accept-Encoding: br", "/one")},
		"rewritten": {base.with("PathRewrite", func(p string) string { return p }).below(), rewriteRequests(), differences{}.
			and(ownPath, each("/x?p=", "", ".", "/indexed", "indexed", "/folder", "/indexed/.")...).and(isNUL, "/x?p=/letters.txt%00")},
		"index pages": {options{"GenerateIndexPages": true, "AcceptByteRange": true}.below(), append(lines("/bare|/bare/|HEAD /bare/|/folder/|/folder/sub/|/indexed/|/bare/?a=b|/"),
			"POST /bare/ | Content-Length: 0", "/bare/ | If-Modified-Since: Tue, 02 Jan 2124 03:04:05 GMT", "/bare/ | Range: bytes=0-1", "/bare/ | Accept-Encoding: gzip"),
			differences{}.and("a generated page is no file: it has no Last-Modified, conditions and ranges",
				"HEAD /bare/", "/bare/ | If-Modified-Since: Tue, 02 Jan 2124 03:04:05 GMT", "/bare/ | Range: bytes=0-1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareFiles(t, c.site, c.requests, c.known)
		})
	}
}

func TestFSHandler(t *testing.T) {
	for n, c := range map[int]struct {
		requests []string
		known    differences
	}{
		-1: {lines("/letters.txt"), nil},
		0:  {append(lines("/letters.txt|/indexed|/indexed/|/bare/|/missing"), "/letters.txt | Range: bytes=0-1", "/long.txt | Accept-Encoding: gzip"), nil},
		1: {lines("/x/letters.txt|/x|/x/|/letters.txt|/x/indexed|/x/indexed/|/x/bare|/x/bare/|/x/y/letters.txt|//letters.txt|/x/missing|/x/../letters.txt|/x/folder?q"),
			differences{}.and(ownPath, lines("/x|/letters.txt|/x/indexed|/x/bare|//letters.txt|/x/../letters.txt|/x/folder?q")...)},
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			compareFiles(t, site{
				theirs: func(root string) fasthttp.RequestHandler { return fasthttp.FSHandler(root, n) },
				ours:   func(root string) sluice.RequestHandler { return sluice.FSHandler(root, n) },
			}, c.requests, c.known)
		})
	}
}

func TestPathNotFound(t *testing.T) {
	compareFiles(t, site{
		theirs: func(root string) fasthttp.RequestHandler {
			return (&fasthttp.FS{Root: root, PathNotFound: func(ctx *fasthttp.RequestCtx) {
				fmt.Fprintf(ctx, "own text, status %d", ctx.Response.StatusCode())
			}}).NewRequestHandler()
		},
		ours: func(root string) sluice.RequestHandler {
			return (&sluice.FS{Root: root, PathNotFound: func(ctx *sluice.RequestCtx) {
				fmt.Fprintf(ctx, "own text, status %d", ctx.Response.StatusCode())
			}}).NewRequestHandler()
		},
	}, lines("/missing|HEAD /missing|/folder|/folder/|/letters.txt/x|/letters.txt%00|/link-broken|/letters.txt"), differences{"/letters.txt%00": isNUL})
}

func serveRequests() []string {
	out := each("/a/b?p=", "ROOT/letters.txt", "ROOT/with%20space.txt", "ROOT/with%2520space.txt", "ROOT/percent%2541.txt", "ROOT/percent%41.txt", "ROOT/folder", "ROOT/folder/",
		"ROOT/indexed", "ROOT/missing", "ROOT/folder/../letters.txt", "ROOT//letters.txt", "ROOT/./letters.txt", "letters.txt", "missing/x", "./letters.txt", "../root/letters.txt",
		"folder/../letters.txt", "folder", "", ".", "..", "ROOT/letters.txt%00", "ROOT/long.txt", "ROOT/long.txt | Accept-Encoding: gzip", "ROOT/back%5Cslash.txt", "ROOT/link-out",
		"ROOT/question%3F.txt", "ROOT/question%253F.txt", "ROOT/hash%23.txt", "ROOT/letters.txt/", "ROOT/letters.txt%3Fa", "ROOT/plus%2Bsign.txt", "ROOT/plus%20sign.txt",
		"ROOT/letters.txt | Range: bytes=0-1", "ROOT/letters.txt | If-Modified-Since: "+then, "ROOT/letters.txt | If-Modified-Since: "+before, "ROOT/huge.bin")
	return append(out, "HEAD /?p=ROOT/letters.txt", "POST /?p=ROOT/letters.txt | Content-Length: 0")
}

// serveDifferences are those of the functions that serve one file; prefix is
// what the requests begin with.
func serveDifferences(prefix string) differences {
	const isFolder = "F23: the path of the request has no final slash; fasthttp redirects to the folder's place in the file system"
	return differences{}.
		and(isFolder, each(prefix, "ROOT/folder", "ROOT/folder/", "ROOT/indexed", "folder", "", ".", "..")...).
		and(isNUL+", which for fasthttp.ServeFile ends it", prefix+"ROOT/letters.txt%00").
		and(modified, prefix+"ROOT/letters.txt | If-Modified-Since: "+then)
}

func TestServeFile(t *testing.T) {
	const prefix = "/a/b?p="
	known := serveDifferences(prefix)
	for name, c := range map[string]struct {
		theirs func(ctx *fasthttp.RequestCtx, path string)
		ours   func(ctx *sluice.RequestCtx, path string)
		known  differences
	}{
		"ServeFile":             {fasthttp.ServeFile, sluice.ServeFile, known},
		"ServeFileLiteral":      {fasthttp.ServeFileLiteral, sluice.ServeFileLiteral, known},
		"ServeFileUncompressed": {fasthttp.ServeFileUncompressed, sluice.ServeFileUncompressed, known},
		"SendFile":              {(*fasthttp.RequestCtx).SendFile, (*sluice.RequestCtx).SendFile, known},
	} {
		t.Run(name, func(t *testing.T) {
			compareFiles(t, site{
				theirs: func(root string) fasthttp.RequestHandler {
					return func(ctx *fasthttp.RequestCtx) {
						c.theirs(ctx, strings.Replace(string(ctx.QueryArgs().Peek("p")), "ROOT", root, 1))
					}
				},
				ours: func(root string) sluice.RequestHandler {
					t.Chdir(root) // relative paths of both are there
					return func(ctx *sluice.RequestCtx) {
						c.ours(ctx, strings.Replace(string(ctx.QueryArgs().Peek("p")), "ROOT", root, 1))
					}
				},
			}.without("Vary"), serveRequests(), c.known)
		})
	}
}

func TestServeFS(t *testing.T) {
	files := fstest.MapFS{"zero.txt": {Data: []byte("zero")}}
	for _, name := range []string{"letters.txt", "folder/a.txt", "indexed/index.html", "long.txt", "with space.txt", "percent%41.txt"} {
		files[name] = &fstest.MapFile{Data: []byte(tree()[name]), ModTime: changed()}
	}
	const (
		isFolder = "F23: the path of the request has no final slash; fasthttp redirects to the folder's place in the file system"
		noTime   = "a file without a time has no Last-Modified"
	)
	requests := each("/a/b?p=", "letters.txt", "/letters.txt", "folder", "folder/", "folder/a.txt", "missing", "", ".", "/", "..", "../letters.txt", "with%20space.txt", "with%2520space.txt",
		"percent%2541.txt", "long.txt", "letters.txt | Range: bytes=0-1", "letters.txt | If-Modified-Since: "+then, "long.txt | Accept-Encoding: gzip", "folder/../letters.txt", "zero.txt")
	known := differences{}.and(isFolder, each("/a/b?p=", "folder", "folder/", "", ".", "/", "..")...).and(modified, "/a/b?p=letters.txt | If-Modified-Since: "+then).and(noTime, "/a/b?p=zero.txt")
	for name, s := range map[string]site{
		"ServeFS": {
			theirs: func(string) fasthttp.RequestHandler {
				return func(ctx *fasthttp.RequestCtx) { fasthttp.ServeFS(ctx, files, string(ctx.QueryArgs().Peek("p"))) }
			},
			ours: func(string) sluice.RequestHandler {
				return func(ctx *sluice.RequestCtx) { sluice.ServeFS(ctx, files, string(ctx.QueryArgs().Peek("p"))) }
			},
		},
		"ServeFSLiteral": {
			theirs: func(string) fasthttp.RequestHandler {
				return func(ctx *fasthttp.RequestCtx) { fasthttp.ServeFSLiteral(ctx, files, string(ctx.QueryArgs().Peek("p"))) }
			},
			ours: func(string) sluice.RequestHandler {
				return func(ctx *sluice.RequestCtx) { sluice.ServeFSLiteral(ctx, files, string(ctx.QueryArgs().Peek("p"))) }
			},
		},
	} {
		t.Run(name, func(t *testing.T) { compareFiles(t, s.without("Vary"), requests, known) })
	}
	t.Run("FS.FS", func(t *testing.T) {
		s := options{"FS": files, "Root": "", "Compress": true, "AcceptByteRange": true, "IndexNames": []string{"index.html"}}.below()
		compareFiles(t, s.without("Vary"), append(lines("/letters.txt|/folder|/folder/|/folder/a.txt|/missing|/|/../letters.txt|/zero.txt|/indexed/|/with%20space.txt|/long.txt"),
			"/letters.txt | Range: bytes=0-1", "/letters.txt | If-Modified-Since: "+then, "/long.txt | Accept-Encoding: gzip", "/zero.txt | If-Modified-Since: "+then),
			differences{}.and(modified, "/letters.txt | If-Modified-Since: "+then).and(noTime, "/zero.txt", "/zero.txt | If-Modified-Since: "+then))
	})
}

// TestFileCopies compares the names of the encoded copies that are made.
func TestFileCopies(t *testing.T) {
	variants := map[string]options{
		"gzip":           {},
		"all":            {"CompressBrotli": true, "CompressZstd": true},
		"gzip suffix":    {"CompressedFileSuffix": ".z", "CompressBrotli": true},
		"suffixes":       {"CompressedFileSuffixes": map[string]string{"gzip": ".G", "br": ".B", "zstd": ".Z"}, "CompressBrotli": true, "CompressZstd": true},
		"some suffixes":  {"CompressedFileSuffixes": map[string]string{"gzip": ".G"}, "CompressBrotli": true},
		"both, one gzip": {"CompressedFileSuffix": ".z", "CompressedFileSuffixes": map[string]string{"gzip": ".G", "br": ".B", "zstd": ".Z"}},
	}
	copies := func(t *testing.T, root string, dial func() (net.Conn, error)) string {
		for _, coding := range []string{"gzip", "br", "zstd"} {
			// None larger than a block of zstd: fasthttp's encoder has a data race there.
			for _, name := range []string{"long.txt", "long.svg", "long.png", "letters.txt", "link-in", "folder/"} {
				ask(dial, "/"+name+" | Accept-Encoding: "+coding, nil)
			}
		}
		return strings.Join(added(t, root), " ")
	}
	compare(t, slices.Sorted(maps.Keys(variants)), differences{
		"some suffixes": "those that are given count; fasthttp uses its own for all",
	},
		func(variant string) string {
			root, listener := grow(t), theirutil.NewInmemoryListener()
			serveTheirs(t, listener, variants[variant].with("Compress", true).below().theirs(root))
			return copies(t, root, listener.Dial)
		},
		func(variant string) string {
			root, listener := grow(t), fasthttputil.NewInmemoryListener()
			serveOurs(t, listener, variants[variant].with("Compress", true).below().ours(root))
			return copies(t, root, listener.Dial)
		})
}

// TestFilesChange changes files between requests: what is within the time that
// files are cached for, and without a cache.
func TestFilesChange(t *testing.T) {
	scripts := []string{
		"/n.txt; write n.txt one; /n.txt",
		"write n.txt one; /n.txt; replace n.txt other; /n.txt",
		"write n.txt one; /n.txt; write n.txt other; /n.txt; HEAD /n.txt",
		"write n.txt other; /n.txt; write n.txt one; /n.txt",
		"write n.txt one; /n.txt; remove n.txt; /n.txt",
		"write n.txt one; /n.txt; remove n.txt; mkdir n.txt; /n.txt",
		"mkdir d; /d/; write d/index.html one; /d/; remove d/index.html; /d/",
		"large n.txt a; /n.txt; large n.txt b; /n.txt",
		"large n.txt a; /n.txt; write n.txt one; /n.txt",
		"large n.txt a; /n.txt; remove n.txt; /n.txt",
	}
	cached := options{"IndexNames": []string{"index.html"}, "CacheDuration": time.Hour}
	for name, c := range map[string]struct {
		options
		known differences
	}{
		"cached": {cached, differences{}.
			and("a large file that changed or went is opened anew; fasthttp breaks off when it has got shorter, and sends it on when it is gone",
				"large n.txt a; /n.txt; write n.txt one; /n.txt", "large n.txt a; /n.txt; remove n.txt; /n.txt")},
		"not cached": {cached.with("SkipCache", true), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, scripts, c.known,
				func(script string) string {
					root, listener := t.TempDir(), theirutil.NewInmemoryListener()
					serveTheirs(t, listener, c.below().theirs(root))
					return play(t, root, listener.Dial, script)
				},
				func(script string) string {
					root, listener := t.TempDir(), fasthttputil.NewInmemoryListener()
					serveOurs(t, listener, c.below().ours(root))
					return play(t, root, listener.Dial, script)
				})
		})
	}
}

// play does the steps of a script below root and describes the answers.
func play(t *testing.T, root string, dial func() (net.Conn, error), script string) string {
	t.Helper()
	var out []string
	for _, step := range strings.Split(script, "; ") {
		words := append(strings.Split(step, " "), "", "")
		path := filepath.Join(root, words[1])
		var err error
		switch words[0] {
		case "write":
			err = os.WriteFile(path, []byte(words[2]), 0o644)
		case "large":
			err = os.WriteFile(path, []byte(strings.Repeat(words[2], 100_000)), 0o644)
		case "replace":
			err = errors.Join(os.Remove(path), os.WriteFile(path, []byte(words[2]), 0o644))
		case "remove":
			err = os.Remove(path)
		case "mkdir":
			err = os.Mkdir(path, 0o755)
		default:
			out = append(out, ask(dial, step, []string{"Last-Modified"}))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return strings.Join(out, " THEN ")
}

// TestPathRewriters calls the rewriters with "host number path".
func TestPathRewriters(t *testing.T) {
	var paths []string
	for _, n := range []string{"0", "1", "2", "3", "9"} {
		paths = append(paths, each("h "+n+" ", lines("/|/a|/a/|/a/b|/a/b/|/a/b/c.txt|//a|/ab%2Fc/d|*|/a/../b/c|/a%20b/c|/a//b|/a/.|/x?a/b")...)...)
	}
	hosts, vhostKnown := vhosts()
	for name, r := range map[string]struct {
		theirs func(n int) fasthttp.PathRewriteFunc
		ours   func(n int) sluice.PathRewriteFunc
		inputs []string
		known  differences
	}{
		"slashes": {fasthttp.NewPathSlashesStripper, sluice.NewPathSlashesStripper, append(paths, "h -1 /a/b"), nil},
		"prefix":  {fasthttp.NewPathPrefixStripper, sluice.NewPathPrefixStripper, paths, nil}, // fasthttp's panics for less than 0
		"vhost":   {fasthttp.NewVHostPathRewriter, sluice.NewVHostPathRewriter, append(paths, hosts...), vhostKnown},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, r.inputs, r.known,
				func(input string) string {
					host, n, target := splitInput(input)
					var ctx fasthttp.RequestCtx
					ctx.Request.Header.SetHost(host)
					ctx.Request.SetRequestURI(target)
					return string(r.theirs(n)(&ctx))
				},
				func(input string) string {
					host, n, target := splitInput(input)
					var ctx sluice.RequestCtx
					ctx.Request.Header.SetHost(host)
					ctx.Request.SetRequestURI(target)
					return string(r.ours(n)(&ctx))
				})
		})
	}
}

// vhosts are inputs for NewVHostPathRewriter, and those of which it makes
// something else.
func vhosts() (inputs []string, known differences) {
	behind := []string{" 0 /", " 0 /a/b", " 1 /a/b", " 2 /a/b", " 5 /a/b", " 0 /x/../../y"}
	for _, host := range lines("h|H.Example|h:80|H:8080||a/b|/|a/../../b|../x|[::1]|[::1]:80|ünï|h.|*|-|h:|:80|127.0.0.1") {
		inputs = append(inputs, each(host, behind...)...)
	}
	for _, host := range lines(`..|.|a\b|...`) {
		inputs = append(inputs, each(host, behind...)...)
	}
	for host, reason := range map[string]string{
		"a%2fb": "a host leads to no other folder", ".h": "a host that begins with a dot is none",
		"a%00": "no host", "h\x00": "SetHost drops it", "u@h": "no host; a server refuses it", "h?x": "no host; a server refuses it", "h#x": "no host; a server refuses it",
	} {
		inputs = append(inputs, each(host, behind...)...)
		known = known.and(reason, each(host, behind...)...)
	}
	return inputs, known
}

func splitInput(input string) (host string, n int, target string) {
	words := strings.Split(input, " ")
	n, _ = strconv.Atoi(words[1])
	return words[0], n, words[2]
}
