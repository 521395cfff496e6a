package files_test

import (
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// wireFiles are what the tests on the wire are served.
var wireFiles = map[string]string{
	"small.txt": alphabet, "large.txt": harness.Large, "large.bin": harness.Large[1:], "empty.txt": "", "one.txt": "x",
	"sub/index.html": "<p>sub</p>", "list/a.txt": "a", "list/b&<.txt": "b", "page.html": strings.Repeat("<p>page</p>", 100),
	"sp ace.txt": "space", "pct%41.txt": "pct", "semi;v=1.txt": "semi", "q?.txt": "question", "h#.txt": "hash",
	"trail ": "space behind", "dot.": "dot behind", ".hidden": "hidden", "...": "three dots", "back\\slash": "backslash",
	"tab\t.txt": "tab", "\u00e9.txt": "NFC", "e\u0301.txt": "NFD", "UPPER.TXT": "upper", "a+b.txt": "plus", "colon:x": "colon",
	"~tilde": "tilde", "new\nline.txt": "newline",
}

// wireHandler serves the files below /p/ plainly, below /c/ encoded, and below
// /l/ with lists of folders.
func wireHandler(t *testing.T) sluice.RequestHandler {
	dir := harness.MakeFiles(t, wireFiles)
	strip := sluice.NewPathSlashesStripper(1)
	index := []string{"index.html"}
	plain := (&sluice.FS{Root: dir, IndexNames: index, AcceptByteRange: true, GenerateETag: true, PathRewrite: strip}).NewRequestHandler()
	encoded := (&sluice.FS{
		Root: dir, IndexNames: index, AcceptByteRange: true, GenerateETag: true, PathRewrite: strip,
		Compress: true, CompressRoot: t.TempDir(),
	}).NewRequestHandler()
	listed := (&sluice.FS{Root: dir, GenerateIndexPages: true, AcceptByteRange: true, PathRewrite: strip}).NewRequestHandler()
	return func(ctx *sluice.RequestCtx) {
		switch {
		case strings.HasPrefix(string(ctx.Path()), "/c/"):
			encoded(ctx)
		case strings.HasPrefix(string(ctx.Path()), "/l/"):
			listed(ctx)
		default:
			plain(ctx)
		}
	}
}

// A wireCase is a request and what its answer must be.
type wireCase struct {
	name   string
	start  string   // method and target
	fields []string // "Name: value"
	status int
	body   string   // "-": not looked at
	header []string // "Name: regular expression"; "Name: " must be absent
}

const absent = "^$"

func (c wireCase) check(t *testing.T, got harness.Answer) {
	t.Helper()
	if got.StatusCode != c.status {
		t.Errorf("%s: status %d, want %d", c.name, got.StatusCode, c.status)
		return
	}
	if c.body != "-" && got.Body != c.body {
		t.Errorf("%s: body %.80q, want %.80q", c.name, got.Body, c.body)
	}
	for _, line := range c.header {
		name, want, _ := strings.Cut(line, ": ")
		if value := strings.Join(got.Header.Values(name), "|"); !regexp.MustCompile(want).MatchString(value) {
			t.Errorf("%s: %s %q, want %s", c.name, name, value, want)
		}
	}
}

const (
	lengthOfAll = "Content-Length: ^1040$"
	earlier     = "Tue, 02 Jan 2024 03:04:04 GMT"
	later       = "Wed, 03 Jan 2024 03:04:05 GMT"
)

// staticCases are about names, methods and folders.
func staticCases() []wireCase {
	names := []wireCase{}
	for target, body := range map[string]string{
		"sp%20ace.txt": "space", "pct%2541.txt": "pct", "semi;v=1.txt": "semi", "semi%3Bv=1.txt": "semi", "q%3F.txt": "question",
		"h%23.txt": "hash", "trail%20": "space behind", "dot.": "dot behind", ".hidden": "hidden", "...": "three dots", "back%5Cslash": "backslash",
		"tab%09.txt": "tab", "%C3%A9.txt": "NFC", "é.txt": "NFC", "%c3%a9.txt": "NFC", "e%CC%81.txt": "NFD", "UPPER.TXT": "upper", "a+b.txt": "plus",
		"a%2Bb.txt": "plus", "colon:x": "colon", "%7Etilde": "tilde", "new%0Aline.txt": "newline", "one.txt?q=1": "x", "one.txt?": "x", "sub%2Findex.html": "<p>sub</p>",
		"./one.txt": "x", "sub/../one.txt": "x", "//one.txt": "x", "%6f%6E%65.txt": "x",
	} {
		names = append(names, wireCase{"name " + target, "GET /p/" + target, nil, 200, body, nil})
	}
	for target, status := range map[string]int{
		"upper.txt": 404, "trail": 404, "dot": 404, "one.txt.": 404, "one.txt%20": 404, "one.txt%00": 400, "%00": 400, "one.txt::$DATA": 404,
		"one.txt/x": 404, strings.Repeat("y", 300): 404, strings.Repeat("z/", 600): 404, "pct%41.txt": 404, "..%c0%af": 404, "%ff": 404,
	} {
		names = append(names, wireCase{"name " + target, "GET /p/" + target, nil, status, "-", []string{"ETag: " + absent}})
	}
	return append(names, []wireCase{
		{"length", "GET /p/small.txt", nil, 200, alphabet, []string{lengthOfAll, "Last-Modified: ^" + modifiedText + "$", "Content-Type: ^text/plain; charset=utf-8$", "ETag: ^W/\"65937d25-410\"$", "Accept-Ranges: ^bytes$", "Transfer-Encoding: " + absent}},
		{"empty", "GET /p/empty.txt", nil, 200, "", []string{"Content-Length: ^0$"}},
		{"HEAD", "HEAD /p/small.txt", nil, 200, "", []string{lengthOfAll}},
		{"HEAD large", "HEAD /p/large.txt", nil, 200, "", []string{"Content-Length: ^131072$"}},
		{"HEAD 404", "HEAD /p/none", nil, 404, "", nil},
		{"absolute form", "GET http://other/p/one.txt", nil, 200, "x", nil},
		{"OPTIONS *", "OPTIONS *", nil, 404, "-", nil},
		{"index", "GET /p/sub/", nil, 200, "<p>sub</p>", []string{"Content-Type: ^text/html"}},
		{"folder without slash", "GET /p/sub?x=1", nil, 302, "", []string{"Location: ^/p/sub/\\?x=1$"}},
		{"folder without slash, raw query", "GET /p/sub?x=\"é\"&y=50%", nil, 302, "", []string{"Location: ^/p/sub/\\?x=%22%C3%A9%22&y=50%25$"}},
		{"HEAD folder without slash", "HEAD /p/sub", nil, 302, "", []string{"Location: ^/p/sub/$"}},
		{"folder without slash and range", "GET /p/sub", []string{"Range: bytes=0-1"}, 302, "", []string{"Content-Range: " + absent}},
		{"no list", "GET /p/list/", nil, 403, "-", nil},
		{"list", "GET /l/list/", []string{"Range: bytes=0-1", "If-None-Match: \"x\""}, 200, "-", []string{"Content-Range: " + absent, "Content-Type: ^text/html; charset=utf-8$"}},
		{"redirect keeps the host out", "GET /%5C%5Cevil.example", nil, 302, "", []string{"Location: ^/%5C%5Cevil.example/$"}},
		{"redirect of two slashes", "GET //evil.example", nil, 302, "", []string{"Location: ^/evil.example/$"}},
		{"redirect and line ends", "GET /a%0d%0aX-Evil:%201", nil, 302, "", []string{"Location: ^/a%0D%0AX-Evil:%201/$", "X-Evil: " + absent}},
		{"encoded", "GET /c/page.html", []string{"Accept-Encoding: gzip"}, 200, "-", []string{"Content-Encoding: ^gzip$", "Vary: ^Accept-Encoding$"}},
		{"encoded, old name", "GET /c/page.html", []string{"Accept-Encoding: x-gzip"}, 200, "-", []string{"Vary: ^Accept-Encoding$"}},
		{"not encoded", "GET /c/page.html", nil, 200, wireFiles["page.html"], []string{"Content-Encoding: " + absent, "Vary: ^Accept-Encoding$"}},
		{"refused", "GET /c/page.html", []string{"Accept-Encoding: gzip;q=0, *;q=0.5"}, 200, wireFiles["page.html"], []string{"Content-Encoding: " + absent}},
		{"refused by star", "GET /c/page.html", []string{"Accept-Encoding: *;q=0"}, 200, wireFiles["page.html"], []string{"Content-Encoding: " + absent}},
		{"q with three digits", "GET /c/page.html", []string{"Accept-Encoding: gzip;q=0.001"}, 200, "-", []string{"Vary: ^Accept-Encoding$"}},
		{"identity refused", "GET /c/page.html", []string{"Accept-Encoding: identity;q=0, *"}, 200, "-", []string{"Content-Encoding: ^gzip$"}},
	}...)
}

// rangeCases: RFC 9110 section 14.
func rangeCases() []wireCase {
	part := func(value, body, span string) wireCase {
		return wireCase{"range " + value, "GET /p/small.txt", []string{"Range: " + value}, 206, body,
			[]string{"Content-Range: ^bytes " + span + "/1040$", "Content-Length: ^" + strconv.Itoa(len(body)) + "$", "ETag: ^W/\"", "Last-Modified: .", "Accept-Ranges: ^bytes$", "Content-Type: ^text/plain"}}
	}
	cases := []wireCase{
		part("bytes=0-0", "a", "0-0"), part("bytes=0-4", "abcde", "0-4"), part("BYTES=0-4", "abcde", "0-4"), part("bytes=1039-", "z", "1039-1039"), part("bytes=-1", "z", "1039-1039"),
		part("bytes=-1040", alphabet, "0-1039"), part("bytes=-1041", alphabet, "0-1039"), part("bytes=0-", alphabet, "0-1039"), part("bytes=0-1039", alphabet, "0-1039"),
		part("bytes=0-1040", alphabet, "0-1039"), part("bytes=0-99999999999999999999999", alphabet, "0-1039"), part("bytes=-99999999999999999999999", alphabet, "0-1039"),
		part("bytes=000-004", "abcde", "0-4"), part("bytes=0-4,", "abcde", "0-4"), part("bytes=,0-4", "abcde", "0-4"), part("bytes=0-4 , ,", "abcde", "0-4"), part("bytes=0-4,5000-", "abcde", "0-4"),
		part("bytes=0-4,-0", "abcde", "0-4"),
	}
	for _, value := range []string{
		"bytes", "bytes =0-4", "bytes:0-4", "items=0-4", "items=x", "=0-4", ", bytes=0-4", "\"bytes=0-4\"", "none",
		"bytes=,", "bytes=0-4,x", "bytes=x,0-4", "bytes= 0-4,6-7", "bytes=0-4,6-5", "bytes=6-5,0-4", "bytes=4-0,",
	} {
		cases = append(cases, wireCase{"ignored range " + value, "GET /p/small.txt", []string{"Range: " + value}, 200, alphabet, []string{lengthOfAll, "Content-Range: " + absent}})
	}
	for _, value := range []string{
		"bytes=1040-", "bytes=1040-1041", "bytes=-0", "bytes=99999999999999999999999-", "bytes=2000-,3000-", "bytes=2000-,", "bytes=4-0",
		"bytes=", "bytes=-", "bytes=a-b", "bytes=0", "bytes=--5", "bytes=+0-4", "bytes=0-+4", "bytes= 0-4", "bytes=0 -4", "bytes=0- 4",
		"bytes=0x0-0x4", "bytes=0-4-8", "bytes=0-4;x", "bytes=0-4 5-6", "bytes=1.0-4", "BYTES=x",
	} {
		cases = append(cases, wireCase{"refused range " + value, "GET /p/small.txt", []string{"Range: " + value}, 416, "Range Not Satisfiable",
			[]string{"Content-Range: ^bytes \\*/1040$", "Content-Length: ^21$"}})
	}
	return append(cases, []wireCase{
		{"two Range fields", "GET /p/small.txt", []string{"Range: bytes=0-1", "Range: bytes=2-3"}, 200, alphabet, []string{lengthOfAll}},
		{"range, HEAD", "HEAD /p/small.txt", []string{"Range: bytes=0-1"}, 200, "", []string{lengthOfAll, "Content-Range: " + absent}},
		{"malformed range, HEAD", "HEAD /p/small.txt", []string{"Range: bytes=x"}, 200, "", []string{lengthOfAll}},
		{"malformed range of an empty file", "GET /p/empty.txt", []string{"Range: bytes=x"}, 416, "-", []string{"Content-Range: ^bytes \\*/0$"}},
		{"unsatisfiable, HEAD", "HEAD /p/small.txt", []string{"Range: bytes=9999-"}, 200, "", []string{lengthOfAll}},
		{"range of nothing", "GET /p/none", []string{"Range: bytes=0-1"}, 404, "-", []string{"Content-Range: " + absent}},
		{"range of an empty file", "GET /p/empty.txt", []string{"Range: bytes=0-"}, 416, "-", []string{"Content-Range: ^bytes \\*/0$"}},
		{"suffix of an empty file", "GET /p/empty.txt", []string{"Range: bytes=-5"}, 200, "", []string{"Content-Length: ^0$"}},
		{"range of an index", "GET /p/sub/", []string{"Range: bytes=3-5"}, 206, "sub", []string{"Content-Range: ^bytes 3-5/10$"}},
		{"range of a large file", "GET /p/large.txt", []string{"Range: bytes=16-20016"}, 206, harness.Large[16:20017], []string{"Content-Range: ^bytes 16-20016/131072$"}},
		{"small range of a large file", "GET /p/large.txt", []string{"Range: bytes=-16"}, 206, harness.Large[len(harness.Large)-16:], nil},
		{"range of an encoded file", "GET /c/page.html", []string{"Accept-Encoding: gzip", "Range: bytes=0-1"}, 206, "\x1f\x8b", []string{"Content-Encoding: ^gzip$", "Vary: ^Accept-Encoding$", "ETag: ^W/\""}},
		{"range without AcceptByteRange", "GET /l/list/a.txt", []string{"Range: bytes=1-"}, 416, "-", nil},
	}...)
}

// conditionCases: RFC 9110 section 13. TAG is the file's, which is weak, STRONG
// that without W/.
func conditionCases() []wireCase {
	const notModified, failed = 304, 412
	cases := []wireCase{}
	add := func(status int, start string, fields ...string) {
		c := wireCase{fmt.Sprint(start, fields), start, fields, status, "-", nil}
		switch status {
		case notModified:
			c.body, c.header = "", []string{"ETag: ^W/\"", "Content-Type: " + absent, "Content-Range: " + absent, "Content-Encoding: " + absent}
		case failed:
			c.body, c.header = "", []string{"Content-Range: " + absent}
		}
		cases = append(cases, c)
	}
	for _, file := range []string{"/p/small.txt", "/p/large.txt"} {
		get, head := "GET "+file, "HEAD "+file
		for _, start := range []string{get, head} {
			for _, value := range []string{"TAG", "STRONG", "\"a\", TAG", "TAG,\"b\"", ",, TAG ,", "\"a,b\", TAG", "*", "\"a\",STRONG", ", *,"} {
				add(notModified, start, "If-None-Match: "+value)
			}
			for _, value := range []string{"\"a\"", "w/STRONG", "TAGx", "", "\"*\"", "W/ STRONG", "W/TAG", "x, TAG", "x, *", "\"a\" TAG", "\"a, TAG", "*, \"a\"", "TAG, x", "TAG, *"} {
				add(200, start, "If-None-Match: "+value)
			}
			for _, value := range []string{"*", ", *,"} {
				add(200, start, "If-Match: "+value)
			}
			for _, value := range []string{"TAG", "STRONG", "\"a\"", "", "garbage", "x, *", "\"a\", *"} {
				add(failed, start, "If-Match: "+value)
			}
			for _, date := range []string{modifiedText, later, "Tuesday, 02-Jan-24 03:04:05 GMT", "Tue Jan  2 03:04:05 2024", "Sat, 01 Jan 2050 00:00:00 GMT"} {
				add(notModified, start, "If-Modified-Since: "+date)
				add(200, start, "If-Unmodified-Since: "+date)
			}
			add(200, start, "If-Modified-Since: "+earlier)
			add(failed, start, "If-Unmodified-Since: "+earlier)
			for _, date := range []string{"", "0", "-1", "2024-01-02T03:04:05Z", modifiedText + ", " + modifiedText, "Tue, 32 Jan 2024 03:04:05 GMT", "Tue, 02 Jan 2024 03:04:05 CET"} {
				add(200, start, "If-Modified-Since: "+date)
				add(200, start, "If-Unmodified-Since: "+date)
			}
			add(200, start, "If-None-Match: \"a\"", "If-Modified-Since: "+later)
			add(notModified, start, "If-None-Match: TAG", "If-Modified-Since: "+earlier)
			add(failed, start, "If-Match: \"a\"", "If-None-Match: TAG")
			add(notModified, start, "If-Match: *", "If-None-Match: TAG")
			add(notModified, start, "If-Match: *", "If-Modified-Since: "+later)
			add(failed, start, "If-Unmodified-Since: "+earlier, "If-Modified-Since: "+later)
			add(notModified, start, "If-None-Match: TAG", "Range: bytes=0-1", "If-Range: TAG")
		}
		add(206, get, "Range: bytes=0-1", "If-Range: "+modifiedText)
		add(206, get, "Range: bytes=0-1", "If-Match: *")
		add(416, get, "Range: bytes=999999-", "If-Range: "+modifiedText)
		for _, value := range []string{"TAG", "STRONG", "\"a\"", "TAG, TAG", earlier, later, "*", "yesterday", ""} {
			add(200, get, "Range: bytes=0-1", "If-Range: "+value)
			add(200, get, "Range: bytes=999999-", "If-Range: "+value)
		}
		add(failed, get, "If-Match: \"a\"", "Range: bytes=999999-")
		add(200, get, "If-Range: \"a\"")
	}
	add(404, "GET /p/none", "If-None-Match: *")
	add(404, "GET /p/none", "If-Match: *")
	add(302, "GET /p/sub", "If-None-Match: *")
	return cases
}

// TestFSOnTheWire: each answer is what it must be, and so is what follows it on
// the connection.
func TestFSOnTheWire(t *testing.T) {
	h := wireHandler(t)
	tags := map[string]string{}
	for _, path := range []string{"/p/small.txt", "/p/large.txt"} {
		tags[path] = string(harness.FileRequest(h, "GET", path).Response.Header.Peek("ETag"))
	}
	cases := slices.Concat(staticCases(), rangeCases(), conditionCases())
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) { runWireCases(t, n, h, cases, tags) })
	t.Run("tls", func(t *testing.T) {
		harness.OnEachSecureNetwork(t, func(t *testing.T, n harness.Network) { runWireCases(t, n, h, rangeCases(), tags) })
	})
}

func runWireCases(t *testing.T, n harness.Network, h sluice.RequestHandler, cases []wireCase, tags map[string]string) {
	r := harness.Serve(t, n, &sluice.Server{Handler: h})
	p := r.Dial()
	const batch = 8
	for from := 0; from < len(cases); from += batch {
		some := cases[from:min(from+batch, len(cases))]
		var all strings.Builder
		for _, c := range some {
			fields := slices.Clone(c.fields)
			for i := range fields {
				tag := tags[strings.Fields(c.start)[1]]
				fields[i] = strings.ReplaceAll(strings.ReplaceAll(fields[i], "TAG", tag), "STRONG", strings.TrimPrefix(tag, "W/"))
			}
			all.WriteString(harness.Request(c.start+" HTTP/1.1", fields...) + harness.Get("/p/one.txt"))
		}
		p.Send(all.String())
		for _, c := range some {
			method, _, _ := strings.Cut(c.start, " ")
			c.check(t, p.Answer(method))
			if next := p.Answer("GET"); next.StatusCode != 200 || next.Body != "x" {
				t.Fatalf("%s: what follows is %d %q", c.name, next.StatusCode, next.Body)
			}
		}
	}
}

// TestFSHeadIsLikeGet: HEAD is answered with the fields of GET (RFC 9110 section
// 9.3.2).
func TestFSHeadIsLikeGet(t *testing.T) {
	h := wireHandler(t)
	wrapped := sluice.CompressHandler(h)
	for name, handler := range map[string]sluice.RequestHandler{"FS": h, "CompressHandler": wrapped} {
		r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: handler})
		p := r.Dial()
		for _, target := range []string{
			"/p/small.txt", "/p/large.txt", "/p/empty.txt", "/p/one.txt", "/p/sub/", "/p/sub", "/p/none", "/p/list/", "/p/%00",
			"/c/page.html", "/c/large.txt", "/c/one.txt", "/c/sub/", "/l/list/", "/l/",
		} {
			for _, fields := range [][]string{
				nil, {"Accept-Encoding: gzip"}, {"Accept-Encoding: identity;q=0"}, {"If-Modified-Since: " + modifiedText}, {"If-Match: \"x\""},
				{"If-None-Match: *", "Accept-Encoding: gzip"},
			} {
				p.Send(harness.Request("GET "+target+" HTTP/1.1", fields...) + harness.Request("HEAD "+target+" HTTP/1.1", fields...))
				whole, head := p.Answer("GET"), p.Answer("HEAD")
				for _, a := range []harness.Answer{whole, head} {
					a.Header.Del("Date")
				}
				if name == "CompressHandler" && whole.Header.Get("Content-Encoding") != "" {
					whole.Header.Del("Content-Length") // how long it would be is not known for HEAD
					head.Header.Del("Content-Length")
				}
				if status := whole.StatusCode; status == 302 || status == 412 {
					whole.Header.Del("Content-Length") // 0; HEAD does not say that nothing was written
				}
				isChunked := len(whole.TransferEncoding) > 0
				if whole.StatusCode != head.StatusCode || !isChunked && fmt.Sprint(whole.Header) != fmt.Sprint(head.Header) {
					t.Errorf("%s, %s with %q:\n%d %v, and for HEAD\n%d %v", name, target, fields, whole.StatusCode, whole.Header, head.StatusCode, head.Header)
				}
			}
		}
	}
}

// TestFSParts: multipart/byteranges is what MIME readers take, as long as
// announced, and every part is what it says.
func TestFSParts(t *testing.T) {
	h := wireHandler(t)
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: h})
		p := r.Dial()
		for target, content := range map[string]string{"/p/small.txt": alphabet, "/p/large.txt": harness.Large} {
			for _, value := range []string{"bytes=0-0,2-2", "bytes=-1,0-0", "bytes=500-600,0-9,100-", "bytes=5-5, ,7-7,9999999-", "bytes=0-99,50-149"} {
				p.Send(harness.Request("GET "+target+" HTTP/1.1", "Range: "+value) + harness.Get("/p/one.txt"))
				got := p.Answer("GET")
				if got.StatusCode != 206 || got.Header.Get("Content-Range") != "" || got.ContentLength != int64(len(got.Body)) {
					t.Fatalf("%s of %s: %d, Content-Range %q", value, target, got.StatusCode, got.Header.Get("Content-Range"))
				}
				if n := checkParts(t, got, content); n < 2 {
					t.Errorf("%s of %s: %d parts", value, target, n)
				}
				if next := p.Answer("GET"); next.Body != "x" {
					t.Fatalf("%s of %s: %q follows", value, target, next.Body)
				}
			}
		}
	})
}

func checkParts(t *testing.T, got harness.Answer, content string) (count int) {
	t.Helper()
	mediaType, parameters, err := mime.ParseMediaType(got.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/byteranges" {
		t.Fatalf("Content-Type %q, %v", got.Header.Get("Content-Type"), err)
	}
	reader := multipart.NewReader(strings.NewReader(got.Body), parameters["boundary"])
	for ; ; count++ {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			return count
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		var first, last, size int
		if _, err := fmt.Sscanf(part.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err != nil {
			t.Fatalf("%v: %v", part.Header, err)
		}
		if size != len(content) || content[first:last+1] != string(data) || part.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("part %v has %.40q", part.Header, data)
		}
	}
}

// TestFSOldClients: HTTP/1.0 with and without keep-alive.
func TestFSOldClients(t *testing.T) {
	h := wireHandler(t)
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: h})
		for _, target := range []string{"/p/small.txt", "/p/large.txt", "/p/empty.txt", "/l/list/", "/c/page.html", "/p/none"} {
			for _, fields := range [][]string{nil, {"Range: bytes=1-20000,30000-40000"}, {"Accept-Encoding: gzip"}} {
				p := r.Dial()
				keep := append([]string{"Connection: keep-alive"}, fields...)
				p.Send(harness.Request("GET "+target+" HTTP/1.0", keep...))
				kept := p.Answer("GET")
				p.Send(harness.Request("GET "+target+" HTTP/1.0", fields...))
				last := p.Answer("GET")
				p.ExpectEnd()
				if kept.StatusCode != last.StatusCode || len(kept.Body) != len(last.Body) || kept.ContentLength != int64(len(kept.Body)) ||
					len(last.TransferEncoding) > 0 || kept.Header.Get("Connection") != "keep-alive" {
					t.Errorf("%s %q: %v, then %v", target, fields, kept.Header, last.Header)
				}
			}
		}
	})
}

// TestFSOtherMethods: what is neither GET nor HEAD leaves the connection in sync.
func TestFSOtherMethods(t *testing.T) {
	h := wireHandler(t)
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: h})
		p := r.Dial()
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "FOO"} {
			p.Send(harness.Request(method+" /p/large.txt HTTP/1.1", "Content-Length: 3", "Range: bytes=0-1") + "abc" + harness.Get("/p/one.txt"))
			if got := p.Answer(method); got.StatusCode == 206 || got.ContentLength != int64(len(got.Body)) {
				t.Errorf("%s: %d, %d bytes", method, got.StatusCode, len(got.Body))
			}
			if next := p.Answer("GET"); next.Body != "x" {
				t.Fatalf("%s: %q follows", method, next.Body)
			}
		}
	})
}

// TestFSShrinks: the client of a file that gets shorter during the download can
// tell.
func TestFSShrinks(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, n := range harness.UnderTLS() {
			if secure {
				n = harness.OverTLS(t, n)
			} else if n.Compact {
				continue
			}
			t.Run(fmt.Sprint(n.Name, secure), func(t *testing.T) {
				const size = 32 << 20
				dir := t.TempDir()
				name := filepath.Join(dir, "f.bin")
				makeSparse(t, name, size)
				h := (&sluice.FS{Root: dir}).NewRequestHandler()
				r := harness.Serve(t, n, &sluice.Server{Handler: h})
				p := r.Dial()
				p.Send(harness.Get("/f.bin") + harness.Get("/f.bin"))
				resp, err := http.ReadResponse(p.R, nil)
				if err != nil || resp.ContentLength != size {
					t.Fatalf("%v, %v", resp, err)
				}
				if err := os.Truncate(name, 100_000); err != nil {
					t.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); err == nil {
					t.Errorf("%d bytes and no error", n)
				}
			})
		}
	}
}

// TestFSReplacedDuringDownload: a download is of one version where the new one
// takes the old one's name.
func TestFSReplacedDuringDownload(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		const size = 8 << 20
		dir := t.TempDir()
		name := filepath.Join(dir, "f.bin")
		makeSparse(t, name, size)
		r := harness.Serve(t, n, &sluice.Server{Handler: (&sluice.FS{Root: dir}).NewRequestHandler()})
		p := r.Dial()
		p.Send(harness.Get("/f.bin"))
		resp, err := http.ReadResponse(p.R, nil)
		if err != nil || resp.ContentLength != size {
			t.Fatalf("%v, %v", resp, err)
		}
		if err := os.WriteFile(name+".new", []byte(strings.Repeat("n", 300_000)), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || strings.Trim(string(body), "\x00") != "" {
			t.Errorf("%d bytes, not all of the old version, %v", len(body), err)
		}
		if got := p.Get("/f.bin"); got.Body != strings.Repeat("n", 300_000) {
			t.Errorf("then %d bytes", len(got.Body))
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if got := p.Get("/f.bin"); got.StatusCode != 404 {
			t.Errorf("removed: %d", got.StatusCode)
		}
	})
}

// TestFSStalledClients: clients that stop to read in the middle are cut by the
// write time-out, and leave nothing behind.
func TestFSStalledClients(t *testing.T) {
	for _, n := range append(harness.OverTCPByEach(), harness.OverTLSEach(t, append(harness.WithCompactTLS(), harness.OverTCP()))...) {
		t.Run(n.Name, func(t *testing.T) {
			dir := t.TempDir()
			makeSparse(t, filepath.Join(dir, "f.bin"), 64<<20)
			h := (&sluice.FS{Root: dir, AcceptByteRange: true, SkipCache: true}).NewRequestHandler()
			r := harness.Serve(t, n, &sluice.Server{Handler: h, WriteTimeout: 300 * time.Millisecond, Logger: &harness.LogBook{}})
			descriptors := countDescriptors()
			const clients = 60
			for i := range clients {
				p := r.Dial()
				var fields []string
				if i%2 == 1 {
					fields = []string{"Range: bytes=0-33554431,33554440-67108000"}
				}
				p.Send(harness.Request("GET /f.bin HTTP/1.1", fields...))
				if _, err := io.ReadFull(p.R, make([]byte, 1000)); err != nil {
					t.Fatal(err)
				}
			}
			harness.Eventually(t, "all are cut", func() bool { return r.Server.GetOpenConnectionsCount() == 0 })
			// Those of the clients are open still, and some of the server itself.
			harness.Eventually(t, "their files are closed", func() bool { return countDescriptors() <= descriptors+clients+clients/2 })
		})
	}
}

// TestFSAbuse: whatever handlers around FS and clients do, files are closed.
func TestFSAbuse(t *testing.T) {
	dir := t.TempDir()
	makeSparse(t, filepath.Join(dir, "f.txt"), 4<<20)
	files := (&sluice.FS{Root: dir, AcceptByteRange: true, SkipCache: true}).NewRequestHandler()
	after := func(f func(ctx *sluice.RequestCtx)) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) { files(ctx); f(ctx) }
	}
	hijack := func(ctx *sluice.RequestCtx) { ctx.Hijack(func(net.Conn) {}) }
	for name, h := range map[string]sluice.RequestHandler{
		"plain":    files,
		"panic":    after(func(*sluice.RequestCtx) { panic("on purpose") }),
		"abort":    after(func(*sluice.RequestCtx) { panic(sluice.ErrAbortHandler) }),
		"twice":    after(files),
		"flushed":  func(ctx *sluice.RequestCtx) { ctx.WriteString("x"); _ = ctx.Flush(); files(ctx) },
		"body":     after(func(ctx *sluice.RequestCtx) { ctx.SetBodyString("other") }),
		"reset":    after(func(ctx *sluice.RequestCtx) { ctx.Response.Reset() }),
		"skip":     after(func(ctx *sluice.RequestCtx) { ctx.Response.SkipBody = true }),
		"204":      after(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(204) }),
		"205":      after(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(205) }),
		"304":      after(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(304) }),
		"100":      after(func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(100) }),
		"hijack":   after(hijack),
		"quietly":  after(func(ctx *sluice.RequestCtx) { ctx.HijackSetNoResponse(true); hijack(ctx) }),
		"trailer":  after(func(ctx *sluice.RequestCtx) { _ = ctx.Response.Header.SetTrailer("X-T") }),
		"read":     after(func(ctx *sluice.RequestCtx) { ctx.Response.Body() }),
		"begun":    after(func(ctx *sluice.RequestCtx) { _, _ = io.CopyN(io.Discard, ctx.Response.BodyStream(), 10) }),
		"compress": sluice.CompressHandler(files),
		"timeout":  sluice.TimeoutHandler(files, harness.Patience, "late"),
	} {
		for _, n := range append(append(harness.OverTCPByEach(), harness.InMemory()), harness.OverTLSEach(t, append(harness.WithCompactTLS(), harness.OverTCP()))...) {
			t.Run(name+"/"+n.Name, func(t *testing.T) { abuse(t, n, h) })
		}
	}
}

func abuse(t *testing.T, n harness.Network, h sluice.RequestHandler) {
	r := harness.Serve(t, n, &sluice.Server{Handler: h, Logger: &harness.LogBook{}})
	areGone := func() bool { return r.Server.GetOpenConnectionsCount() == 0 }
	descriptors := 0
	for i := range 9 {
		p := r.Dial()
		method, fields := "GET", []string{}
		switch i % 4 {
		case 1:
			fields = []string{"Range: bytes=0-100000,200000-3000000"}
		case 2:
			fields = []string{"Accept-Encoding: gzip"}
		case 3:
			method = "HEAD"
		}
		p.Send(harness.Request(method+" /f.txt HTTP/1.1", fields...) + harness.Get("/f.txt"))
		_ = p.SetReadDeadline(time.Now().Add(5 * time.Millisecond)) // there may be less
		_, _ = io.CopyN(io.Discard, p.R, int64(i)*3000)
		p.Close()
		if i == 0 {
			harness.Eventually(t, "the first connection is gone", areGone)
			descriptors = countDescriptors()
		}
	}
	harness.Eventually(t, "the connections are gone", areGone)
	harness.Eventually(t, "their files are closed", func() bool { return countDescriptors() <= descriptors })
}

// countDescriptors is 0 where the system does not tell.
func countDescriptors() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

func makeSparse(t *testing.T, name string, size int64) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, harness.Modified); err != nil {
		t.Fatal(err)
	}
}

// TestCopiesAreInOnePlace: with CompressRoot, an encoded file beside the original is
// neither sent in its place nor removed.
func TestCopiesAreInOnePlace(t *testing.T) {
	dir := harness.MakeFiles(t, map[string]string{"a.txt": alphabet, "a.txt.fasthttp.gz": "another file"})
	beside := filepath.Join(dir, "a.txt.fasthttp.gz")
	original, err := os.Stat(filepath.Join(dir, "a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, modified := range map[string]time.Time{"equal": original.ModTime(), "older": original.ModTime().Add(-time.Hour)} {
		if err := os.Chtimes(beside, modified, modified); err != nil {
			t.Fatal(err)
		}
		h := (&sluice.FS{Root: dir, Compress: true, CompressRoot: t.TempDir()}).NewRequestHandler()
		response := &harness.FileRequest(h, "GET", "/a.txt", "Accept-Encoding: gzip").Response
		if body, err := response.BodyGunzip(); err != nil || string(body) != alphabet {
			t.Errorf("%s: %q, %v", name, body, err)
		}
		if text, err := os.ReadFile(beside); err != nil || string(text) != "another file" {
			t.Errorf("%s: the file is %q, %v", name, text, err)
		}
	}
}
