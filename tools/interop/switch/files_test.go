package switching

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// modified is when the files were last changed.
const modified = "Tue, 02 Jan 2024 03:04:05 GMT"

// site makes a folder with files that are the same in every call: each program
// has its own, since copies are kept beside the files.
func site(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := make([]byte, 200<<10)
	source := rand.NewChaCha8([32]byte{})
	_, _ = source.Read(random)
	changed, err := time.Parse(time.RFC1123, modified)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"index.html":             []byte("<h1>Home</h1>\n"),
		"text/license.txt":       bytes.Repeat([]byte("You may do what you like with it.\n"), 300),
		"text/small.txt":         []byte("0123456789"),
		"text/with space.txt":    []byte("space\n"),
		"text/ümlaut.txt":        []byte("umlaut\n"),
		"text/empty.txt":         nil,
		"style/app.css":          bytes.Repeat([]byte("body { color: black }\n"), 100),
		"style/index.html":       []byte("<h1>Styles</h1>\n"),
		"data.bin":               random,
		"data.json":              []byte(`{"a":1}`),
		"a.svg":                  []byte("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
		"example.com/index.html": []byte("<h1>example.com</h1>\n"),
		"example.com/a.txt":      []byte("of example.com\n"),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// serveFiles runs the file server twice, with flags.
func serveFiles(t *testing.T, their, our string, flags ...string) (theirs, ours string) {
	t.Helper()
	return run(t, their, append(flags, "-root", site(t))...), run(t, our, append(flags, "-root", site(t))...)
}

// long: a table of requests
func fileRequests() []request {
	var all []request
	add := func(name, line string, fields ...string) {
		all = append(all, request{name: name, line: line, fields: strings.Join(fields, "\n")})
	}
	add("index", "GET /")
	add("index HEAD", "HEAD /")
	add("index by name", "GET /index.html")
	add("index below", "GET /style/")
	add("folder without slash", "GET /style")
	add("folder without slash, query", "GET /style?a=b")
	add("listing", "GET /text/")
	add("text", "GET /text/license.txt")
	add("text HEAD", "HEAD /text/license.txt")
	add("text by POST", "POST /text/license.txt", "Content-Length: 0")
	add("small", "GET /text/small.txt")
	add("empty", "GET /text/empty.txt")
	add("space", "GET /text/with%20space.txt")
	add("umlaut", "GET /text/%C3%BCmlaut.txt")
	add("slash behind a file", "GET /text/small.txt/")
	add("double slash", "GET //text//small.txt")
	add("dots", "GET /style/../text/./small.txt")
	add("dots out", "GET /../../../../etc/passwd")
	add("encoded dots out", "GET /%2e%2e/%2e%2e/etc/passwd")
	add("encoded slashes out", "GET /..%2f..%2fetc/passwd")
	add("NUL", "GET /text/small.txt%00.html")
	add("binary", "GET /data.bin")
	add("json", "GET /data.json")
	add("svg", "GET /a.svg")
	add("css", "GET /style/app.css")
	add("missing", "GET /nothing.txt")
	add("missing HEAD", "HEAD /nothing.txt")
	for _, codings := range []string{"gzip", "br", "gzip, deflate, br", "gzip, deflate, br, zstd", "identity", "gzip;q=0", "deflate"} {
		add("text "+codings, "GET /text/license.txt", "Accept-Encoding: "+codings)
	}
	add("text br again", "GET /text/license.txt", "Accept-Encoding: br")
	add("binary gzip", "GET /data.bin", "Accept-Encoding: gzip")
	add("not modified", "GET /text/small.txt", "If-Modified-Since: "+modified)
	add("modified", "GET /text/small.txt", "If-Modified-Since: Mon, 01 Jan 2024 03:04:05 GMT")
	add("not modified, bad date", "GET /text/small.txt", "If-Modified-Since: yesterday")
	add("precondition failed", "GET /text/small.txt", "If-Unmodified-Since: Mon, 01 Jan 2024 03:04:05 GMT")
	for _, r := range []string{"0-3", "5-", "-3", "0-0", "9-9", "0-99", "10-", "-0", "-99", "3-2", "a-b", "", "0-1,4-5", "0-1, 20-30", "30-40,50-60",
		"0-1,a-b", "0-1,5-2", "0-99999999999999999999"} {
		add("range "+r, "GET /text/small.txt", "Range: bytes="+r)
	}
	add("range of another unit", "GET /text/small.txt", "Range: lines=0-1")
	add("range of bytes in capitals", "GET /text/small.txt", "Range: BYTES=0-1")
	add("range twice", "GET /text/small.txt", "Range: bytes=0-1", "Range: bytes=3-4")
	add("range of an empty file", "GET /text/empty.txt", "Range: bytes=0-")
	add("suffix of an empty file", "GET /text/empty.txt", "Range: bytes=-1")
	add("range by POST", "POST /text/small.txt", "Content-Length: 0", "Range: bytes=0-1")
	add("range HEAD", "HEAD /text/small.txt", "Range: bytes=0-3")
	add("range of a large file", "GET /data.bin", "Range: bytes=100000-150000")
	add("range, encoded", "GET /text/license.txt", "Range: bytes=0-9", "Accept-Encoding: gzip")
	add("range, if it is the same", "GET /text/small.txt", "Range: bytes=0-3", "If-Range: "+modified)
	add("range, if it is another", "GET /text/small.txt", "Range: bytes=0-3", "If-Range: Mon, 01 Jan 2024 03:04:05 GMT")
	add("stripped", "GET /assets/style/app.css")
	add("stripped range", "GET /assets/data.bin", "Range: bytes=5-9")
	add("stripped folder", "GET /assets/style")
	add("stripped missing", "GET /assets/nothing")
	add("prefix", "GET /prefix/text/small.txt")
	add("prefix missing", "GET /prefix/nothing")
	add("embedded index", "GET /embedded/")
	add("embedded", "GET /embedded/app.js")
	add("embedded gzip", "GET /embedded/app.js", "Accept-Encoding: gzip")
	add("embedded range", "GET /embedded/app.js", "Range: bytes=0-6")
	add("embedded missing", "GET /embedded/nothing")
	add("classic", "GET /classic/text/small.txt")
	add("classic index", "GET /classic/")
	add("ServeFile", "GET /license")
	add("ServeFile br", "GET /license", "Accept-Encoding: br, gzip")
	add("ServeFile range", "GET /license", "Range: bytes=0-9")
	add("ServeFileUncompressed", "GET /license-plain", "Accept-Encoding: br, gzip")
	add("ServeFile missing", "GET /missing")
	add("SendFile", "GET /download")
	add("CompressHandler", "GET /hello", "Accept-Encoding: gzip")
	add("CompressHandler, identity", "GET /hello")
	return append(all, request{name: "expvar", line: "GET /stats", onlyKeys: true})
}

// always are the differences that need no flag.
func always() []difference {
	return []difference{
		{"F2: the redirect to a folder names the request's path, query and no host", "folder without slash|folder without slash, query|stripped folder", "Location"},
		{"F3: If-Unmodified-Since is honoured", "precondition failed", "status|body|Content-Length|Last-Modified"},
		{"F5: a 304 has the fields of the 200 that matter", "not modified", "Last-Modified"},
		{"F25: no Last-Modified where it is not known", "embedded index|embedded|embedded gzip|embedded range", "Last-Modified"},
		{"F21: another text", "NUL", "body|Content-Length"},
		{"F13: the answer depends on Accept-Encoding, whether it has come or not",
			"ServeFile|ServeFile range|embedded index|embedded|embedded gzip|embedded range|CompressHandler, identity", "Vary"},
		{"F30: the variables", "expvar", "body"},
	}
}

// withRanges are those that AcceptByteRange adds.
func withRanges() []difference {
	return []difference{
		{"F6: several ranges", "range 0-1,4-5", "status|body|Content-Type|Content-Length"},
		{"F6: several ranges", "range 0-1, 20-30", "status|body|Content-Range|Content-Length"},
		{"F6: several ranges, none of them within the file", "range 30-40,50-60", "status|body|Content-Range|Content-Length|Last-Modified|Accept-Ranges"},
		{"F7: BYTES are bytes", "range of bytes in capitals", "status|body|Content-Range|Content-Length"},
		{"F7: two Range fields are none", "range twice", "status|body|Content-Range|Content-Length"},
		{"F8: the last byte of an empty file is all of it", "suffix of an empty file", "status|body|Content-Range|Content-Length|Last-Modified|Accept-Ranges"},
		{"F9: a position too large for an int is past the end", "range 0-99999999999999999999",
			"status|body|Content-Range|Content-Length|Last-Modified|Accept-Ranges"},
		{"F10: Range is for GET", "range HEAD", "status|Content-Range|Content-Length"},
		{"F3: If-Unmodified-Since is honoured", "precondition failed", "Accept-Ranges"},
	}
}

// listed are those that GenerateIndexPages adds.
func listed() []difference {
	return []difference{{"F19: another page for folders", "listing", "body|Content-Length|Last-Modified"}}
}

// withEncodings are those that Compress adds.
func withEncodings() []difference {
	return []difference{
		{"F13: the answer depends on Accept-Encoding, whether it has come or not",
			"index|index HEAD|index by name|index below|text|text HEAD|text by POST|small|empty|space|umlaut|" +
				"slash behind a file|double slash|dots|json|svg|css|text identity|text gzip;q=0|text deflate|not modified|modified|" +
				"not modified, bad date|range 0-3|range 5-|range -3|range 0-0|range 9-9|range 0-99|range -99|" +
				"range 0-1,4-5|range 0-1, 20-30|range 0-1,a-b|range 0-1,5-2|range 0-99999999999999999999|" +
				"range of another unit|range of bytes in capitals|range twice|suffix of an empty file|range by POST|range HEAD|" +
				"range, if it is the same|range, if it is another", "Vary"},
		{"F11: ranges of an encoded file count its encoded bytes", "range, encoded", "Content-Encoding|Content-Range|body|Vary"},
	}
}

func TestFiles(t *testing.T) {
	their, our := build(t, "files")
	for _, test := range []struct {
		name  string
		flags []string
		known []difference
	}{
		{"plain", nil, slices.Concat(always(), listed())},
		{"ranges", []string{"-ranges"}, slices.Concat(always(), listed(), withRanges(),
			[]difference{{"F19: another page for folders", "listing", "Accept-Ranges"}})},
		{"encoded", []string{"-encode", "-ranges", "-listing=false"}, slices.Concat(always(), withRanges(), withEncodings())},
	} {
		t.Run(test.name, func(t *testing.T) {
			theirs, ours := serveFiles(t, their, our, test.flags...)
			compare(t, theirs, ours, fileRequests(), test.known...)
		})
	}
}

// Each host has a folder of its own.
func TestHosts(t *testing.T) {
	their, our := build(t, "files")
	theirs, ours := serveFiles(t, their, our, "-hosts")
	var requests []request
	for _, host := range []string{"example.com", "EXAMPLE.com", "example.com:80", "nobody.example", "..", "text"} {
		for _, target := range []string{"/", "/a.txt", "/small.txt"} {
			requests = append(requests, request{name: host + target, line: "GET " + target, fields: "Host: " + host})
		}
	}
	compare(t, theirs, ours, requests,
		difference{"F19: another page for folders", "text/", "body|Content-Length|Last-Modified"})
}
