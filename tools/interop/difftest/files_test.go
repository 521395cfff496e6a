package difftest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/valyala/fasthttp"
	theirutil "github.com/valyala/fasthttp/fasthttputil"
)

// letters is the content of the files that ranges are asked of.
const letters = "abcdefghijklmnopqrstuvwxyz"

// changed is when every file of the tree last changed.
func changed() time.Time { return time.Date(2024, 1, 2, 3, 4, 5, 678_000_000, time.UTC) }

// prose is n bytes of text that gets smaller.
func prose(n int) string {
	return strings.Repeat("All work and no play makes Jack a dull boy.\n", n/44+1)[:n]
}

// noise is n bytes that don't get smaller.
func noise(n int) string {
	random := rand.New(rand.NewPCG(7, 7))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(random.Uint32())
	}
	return string(out)
}

// tree is what is served: names below the root to contents; those that end in
// a slash are folders.
func tree() map[string]string {
	return map[string]string{
		"letters.txt": letters, "letters.bin": letters, "empty.txt": "", "empty": "", "one": "x",
		"text": "just text", "binary": "\x00\x01\x02\xff", "markup": "<!DOCTYPE html><title>x</title>", "script": "#!/bin/sh\n",
		"unknown.xyzzy": "what?", "unknown.bytes": "\x00", "page.html": "<p>page", "style.css": "a{}", "code.js": "1", "data.json": "{}", "module.mjs": "1",
		"image.svg": "<svg/>", "image.png": "\x89PNG\r\n\x1a\n", "UPPER.HTML": "<p>", "app.wasm": "\x00asm", "x.pdf": "%PDF-", "x.html.bak": "<html>",
		"x.jpeg": "\xff\xd8", "x.gif": "GIF8", "x.webp": "RIFF", "x.avif": "x", "x.htm": "<p>", "folder.d/x": "in folder.d", "100%41/x": "percent",
		"with space.txt": "space", "percent%41.txt": "percent", "percentA.txt": "decoded", "ünï.txt": "unicode", "plus+sign.txt": "plus",
		"question?.txt": "question", "hash#.txt": "hash", "back\\slash.txt": "backslash", "a:b.txt": "colon", "a;b.txt": "semicolon",
		"...": "dots", ".hidden": "hidden", "x..txt": "inner dots", "x.": "end dot", "a&b.txt": "and", "-": "dash", "~": "tilde",
		"folder/a.txt": "in folder", "folder/sub/b.txt": "in sub", "bare/": "", ".secret/s.txt": "secret",
		"indexed/index.html": "<p>index", "other/default.htm": "<p>default", "both/default.htm": "<p>second", "both/index.html": "<p>first",
		"with space/index.html": "<p>space", "strange/index.html/x": "a folder",
		"long.txt": prose(10_000), "long.bin": noise(10_000), "long.html": prose(10_000), "long.svg": prose(10_000), "long.png": noise(10_000),
		"huge.txt": prose(300_000), "huge.bin": noise(300_000), "short.txt": prose(150), "h199.txt": prose(199), "h201.txt": prose(201),
	}
}

// grow makes the tree in a folder beside secrets, and returns the folder.
func grow(t *testing.T) string {
	t.Helper()
	// Types come from the system's tables otherwise, in Sluice only those that
	// it does not know.
	for extension, typ := range map[string]string{".txt": "text/plain; charset=utf-8", ".bin": "application/octet-stream", ".gz": "application/gzip"} {
		if err := mime.AddExtensionType(extension, typ); err != nil {
			t.Fatal(err)
		}
	}
	parent := t.TempDir()
	root := filepath.Join(parent, "root")
	for name, content := range tree() {
		plant(t, filepath.Join(root, name), content, strings.HasSuffix(name, "/"))
	}
	plant(t, filepath.Join(parent, "outside.txt"), "outside", false)
	plant(t, filepath.Join(parent, "outside/x.txt"), "outside", false)
	for name, target := range map[string]string{
		"link-in": "letters.txt", "link-out": "../outside.txt", "link-folder": "folder", "link-out-folder": "../outside",
		"link-broken": "nothing", "link-loop": "link-loop", "link-absolute": filepath.Join(root, "letters.txt"),
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skipf("this system makes no symbolic links: %v", err)
		}
	}
	return root
}

func plant(t *testing.T, path, content string, isFolder bool) {
	t.Helper()
	folder := filepath.Dir(path)
	if isFolder {
		folder = path
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if isFolder {
		return
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, changed(), changed()); err != nil {
		t.Fatal(err)
	}
}

// A site is the same file server of both libraries.
type site struct {
	theirs func(root string) fasthttp.RequestHandler
	ours   func(root string) sluice.RequestHandler

	ignored []string // fields that other tests look at
}

// without is s with fields that are not compared.
func (s site) without(fields ...string) site {
	s.ignored = fields
	return s
}

// options are fields of FS by name, the same in both libraries but for the
// path: a func(string) string, by the query argument p.
type options map[string]any

// with is o with one more field.
func (o options) with(name string, value any) options {
	out := options{name: value}
	for name, value := range o {
		out[name] = value
	}
	return out
}

// below is the site of an FS with these options.
func (o options) below() site {
	return site{
		theirs: func(root string) fasthttp.RequestHandler {
			fs := &fasthttp.FS{Root: root}
			o.fill(reflect.ValueOf(fs).Elem(), root)
			if rewrite, ok := o["PathRewrite"].(func(string) string); ok {
				fs.PathRewrite = func(ctx *fasthttp.RequestCtx) []byte { return []byte(rewrite(string(ctx.QueryArgs().Peek("p")))) }
			}
			return fs.NewRequestHandler()
		},
		ours: func(root string) sluice.RequestHandler {
			fs := &sluice.FS{Root: root}
			o.fill(reflect.ValueOf(fs).Elem(), root)
			if rewrite, ok := o["PathRewrite"].(func(string) string); ok {
				fs.PathRewrite = func(ctx *sluice.RequestCtx) []byte { return []byte(rewrite(string(ctx.QueryArgs().Peek("p")))) }
			}
			return fs.NewRequestHandler()
		},
	}
}

func (o options) fill(to reflect.Value, root string) {
	for name, value := range o {
		if name == "DirFS" {
			name, value = "FS", os.DirFS(root)
		}
		if name != "PathRewrite" {
			to.FieldByName(name).Set(reflect.ValueOf(value))
		}
	}
}

// compareFiles sends every request to both servers. A request is its line, of
// which "GET " and the version may be missing, and its fields, separated by
// " | ".
func compareFiles(t *testing.T, s site, requests []string, known differences) {
	t.Helper()
	theirRoot, ourRoot := grow(t), grow(t)
	theirs, ours := theirutil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
	serveTheirs(t, theirs, s.theirs(theirRoot))
	serveOurs(t, ours, s.ours(ourRoot))
	// Where there is a working directory, it is our root for both.
	named := strings.NewReplacer(theirRoot, "ROOT", ourRoot, "ROOT")
	compare(t, requests, known,
		func(request string) string { return named.Replace(ask(theirs.Dial, request, s.ignored)) },
		func(request string) string { return named.Replace(ask(ours.Dial, request, s.ignored)) })
}

func serveTheirs(t *testing.T, on net.Listener, handler fasthttp.RequestHandler) {
	server := &fasthttp.Server{Handler: handler, Name: "x", NoDefaultDate: true, Logger: silent{}}
	go server.Serve(on)
	t.Cleanup(func() { on.Close() }) // Shutdown would only take longer: no connection is left
}

func serveOurs(t *testing.T, on net.Listener, handler sluice.RequestHandler) {
	server := &sluice.Server{Handler: handler, Name: "x", NoDefaultDate: true, Logger: silent{}}
	go server.Serve(on)
	t.Cleanup(func() { server.Shutdown() })
}

// silent is a logger.
type silent struct{}

// Printf drops its arguments.
func (silent) Printf(string, ...any) {}

// ask sends a request and describes the answer.
func ask(dial func() (net.Conn, error), request string, ignored []string) string {
	if request == "" || request[0] == '/' {
		request = "GET " + request
	}
	line, fields, _ := strings.Cut(request, " | ")
	if fields != "" {
		fields = strings.ReplaceAll(fields, " | ", "\r\n") + "\r\n"
	}
	if !strings.Contains(fields, "Host:") {
		fields += "Host: h\r\n"
	}
	conn, err := dial()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second)) // only reached when a test fails
	fmt.Fprintf(conn, "%s HTTP/1.1\r\n%sConnection: close\r\n\r\n", line, fields)
	method, _, _ := strings.Cut(line, " ")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	for _, name := range ignored {
		response.Header.Del(name)
	}
	if _, host, _ := strings.Cut(fields, "Host: "); response.Header.Get("Location") != "" {
		// What a client makes of it: ours names no host.
		host, _, _ = strings.Cut(host, "\r\n")
		response.Request.URL = &url.URL{Scheme: "http", Host: host, Path: "/"}
		location, err := response.Location()
		if err != nil {
			return err.Error()
		}
		response.Header.Set("Location", location.String())
	}
	return describeFile(response, body)
}

// describeFile is the status, the fields and the body. Of encoded bodies it is
// the decoded one, as encoders differ, and of generated pages that they are some.
func describeFile(response *http.Response, body []byte) string {
	out := fmt.Sprint(response.StatusCode)
	encoding := response.Header.Get("Content-Encoding")
	typ, parameters, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if isIndexPage(typ, body) {
		return out + "; an index page"
	}
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "Last-Modified", "Location", "Content-Encoding", "Vary", "Etag", "Allow"} {
		value := strings.Join(response.Header.Values(name), " & ")
		switch {
		case value == "", name == "Content-Length" && (encoding != "" || value == fmt.Sprint(len(body))):
			continue // says nothing that the body does not
		case value == changed().Format(http.TimeFormat):
			value = "changed"
		}
		out += fmt.Sprintf("; %s: %s", name, value)
	}
	out += "; " + describeContent(body, encoding)
	if boundary := parameters["boundary"]; boundary != "" {
		out = strings.ReplaceAll(out, boundary, "BOUNDARY")
	}
	return out
}

func isIndexPage(typ string, body []byte) bool {
	return typ == "text/html" && (bytes.Contains(body, []byte(`<h1>Index of`)) || bytes.Contains(body, []byte(`.dir { font-weight`)))
}

func describeContent(body []byte, encoding string) string {
	switch {
	case len(body) == 0:
		return "-"
	case encoding == "gzip":
		if r, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(r)
		}
	case encoding == "br":
		body, _ = sluice.AppendUnbrotliBytes(nil, body)
	case encoding == "zstd":
		body, _ = sluice.AppendUnzstdBytes(nil, body)
	}
	if len(body) > 1000 {
		return fmt.Sprintf("%d bytes %08x", len(body), crc32.ChecksumIEEE(body))
	}
	return fmt.Sprintf("%q", body)
}

// added lists the files below root that grow did not make.
func added(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	had := tree()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if _, ok := had[name]; !ok && err == nil && entry.Type().IsRegular() {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
