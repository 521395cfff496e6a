package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/accesslog"
)

// stamp is the time in a line.
var stamp = regexp.MustCompile(`\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\]`)

// lineOf returns the log line of a request, with its time as TIME.
func lineOf(t *testing.T, ctx *sluice.RequestCtx, answer sluice.RequestHandler) string {
	t.Helper()
	var f lineFormat
	var line string
	func() {
		defer func() { _ = recover() }()
		accesslog.Handler(answer, accesslog.Options{Write: func(ctx *sluice.RequestCtx, e accesslog.Entry) {
			line = string(f.append(nil, ctx, &e))
		}})(ctx)
	}()
	return stamped(t, line)
}

// stamped returns line with its time as TIME.
func stamped(t *testing.T, line string) string {
	t.Helper()
	if len(stamp.FindAllString(line, -1)) != 1 {
		t.Errorf("not one time in %q", line)
	}
	return stamp.ReplaceAllString(line, "TIME")
}

func TestAccessLogLine(t *testing.T) {
	v4, v6 := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 5}, &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 5}
	sized := func(size int) func(*sluice.RequestCtx) {
		return func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("x"), size) }
	}
	for _, c := range []struct {
		name    string
		addr    net.Addr
		head    string
		answer  func(ctx *sluice.RequestCtx)
		without string // the line without address and time
	}{
		{"plain", v4, "GET /a?b=c HTTP/1.1\r\nHost: h\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("12345") },
			`"GET /a?b=c HTTP/1.1" 200 5 "-" "-"`},
		{"fields", v6, "GET / HTTP/1.0\r\nReferer: http://x/\r\nUser-Agent: curl/8 (x)\r\n\r\n", (*sluice.RequestCtx).NotFound,
			`"GET / HTTP/1.0" 404 18 "http://x/" "curl/8 (x)"`},
		{"head", v4, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("12345") },
			`"HEAD / HTTP/1.1" 200 - "-" "-"`},
		{"not modified", v4, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", (*sluice.RequestCtx).NotModified,
			`"GET / HTTP/1.1" 304 - "-" "-"`},
		{"stream", v4, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", sized(2_000_000_000), `"GET / HTTP/1.1" 200 2000000000 "-" "-"`},
		{"unknown length", v4, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", sized(-1), `"GET / HTTP/1.1" 200 - "-" "-"`},
		{"panic", v4, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", func(ctx *sluice.RequestCtx) { ctx.SetBodyString("12345"); panic("on purpose") },
			`"GET / HTTP/1.1" 500 - "-" "-"`},
		{"quotes", v4, "GET /%22%0a HTTP/1.1\r\nHost: h\r\nUser-Agent: a\" 200 9 \"\\\r\n\r\n", sized(0),
			`"GET /%22%0a HTTP/1.1" 200 - "-" "a\" 200 9 \"\\"`},
		{"method", v4, "M'$#! / HTTP/1.1\r\nHost: h\r\n\r\n", sized(0), `"M'$#! / HTTP/1.1" 200 - "-" "-"`},
		{"controls", v4, "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: a\tb\r\nReferer: \xff\u00e9\r\n\r\n", sized(0),
			`"GET / HTTP/1.1" 200 - "\xff\xc3\xa9" "a\x09b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req sluice.Request
			if err := req.Read(bufio.NewReader(strings.NewReader(c.head))); err != nil {
				t.Fatal(err)
			}
			var ctx sluice.RequestCtx
			ctx.Init(&req, c.addr, nil)
			host := c.addr.(*net.TCPAddr).IP.String()
			if got, want := lineOf(t, &ctx, c.answer), host+" - - TIME "+c.without+"\n"; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// TestAccessLogFormats: lines of slog, of the requests that are chosen, with ids.
func TestAccessLogFormats(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	p := start(t, "--access-log", name, "--access-log-format", "json", "--access-log-every", "2", "--access-log-slow", "20ms", "--request-id")
	p.ask(t, "GET", "/plaintext", "X-Request-Id", "one")
	resp, _ := p.ask(t, "GET", "/plaintext") // its turn is over
	if id := resp.Header.Get("X-Request-Id"); len(id) != 32 {
		t.Errorf("id %q", id)
	}
	p.ask(t, "GET", "/sleep?ms=20", "X-Request-Id", "two")
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var record struct {
			Level, Path string
			ID          string `json:"request_id"`
			Status      int
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		got = append(got, fmt.Sprint(record))
	}
	if want := []string{"{INFO /plaintext one 200}", "{WARN /sleep two 200}"}; !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

// TestEscapes: whatever bytes a client sends, a line stays one.
func TestEscapes(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	escaped := appendEscaped(nil, all)
	for i, c := range escaped {
		if c < ' ' || c > '~' {
			t.Errorf("%#x is in it", c)
		}
		if c == '"' && escaped[i-1] != '\\' {
			t.Error("a quote is not escaped")
		}
	}
	for _, want := range []string{`\x00`, `\x0a`, `\x0d`, `\x1b`, `\x7f`, `\x9b`, `\xff`, `!\"#`, `[\\]`} {
		if !bytes.Contains(escaped, []byte(want)) {
			t.Errorf("no %s in %s", want, escaped)
		}
	}
}

func TestAccessLogDoesNotAllocate(t *testing.T) {
	var req sluice.Request
	req.SetRequestURI("/some/path?with=query")
	req.Header.SetUserAgent("Mozilla/5.0")
	var ctx sluice.RequestCtx
	ctx.Init(&req, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}, nil)
	ctx.SetBodyString("body")
	l := &accessLog{pending: make([]byte, 0, 1<<20), full: make(chan struct{}, 1)}
	if n := testing.AllocsPerRun(1000, func() { l.log(&ctx, accesslog.Entry{Status: 200, Bytes: 4}) }); n > 0 {
		t.Errorf("%v allocations for a line", n)
	}
}

func BenchmarkAccessLog(b *testing.B) {
	var req sluice.Request
	req.SetRequestURI("/some/path?with=query")
	req.Header.SetUserAgent("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36")
	var ctx sluice.RequestCtx
	ctx.Init(&req, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7)}, nil)
	l, err := openAccessLog(os.DevNull, log.Default())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	b.ReportAllocs()
	for b.Loop() {
		l.log(&ctx, accesslog.Entry{Status: 200, Bytes: 4})
	}
}

// logged runs requests against a server with an access log and returns its
// lines, which are of one client, without the address and the time.
func logged(t *testing.T, dir string, requests func(p *process)) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "access.log")
	p := start(t, dir, "--access-log", name)
	requests(p)
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Error(err)
	}
	return linesOf(t, name)
}

func linesOf(t *testing.T, name string) []string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(content)) {
		rest, ok := strings.CutPrefix(stamp.ReplaceAllString(line, "TIME"), "127.0.0.1 - - TIME ")
		if !ok || !strings.HasSuffix(rest, "\n") {
			t.Errorf("malformed line %q", line)
		}
		lines = append(lines, strings.TrimSuffix(rest, "\n"))
	}
	return lines
}

// TestAccessLogOfFiles: status and bytes of what goes out.
func TestAccessLogOfFiles(t *testing.T) {
	dir := tree(t, map[string]string{"small.txt": "0123456789", "large.bin": strings.Repeat("x", 1<<20), "page.html": strings.Repeat("<p>", 1000)})
	var encoded int
	lines := logged(t, dir, func(p *process) {
		p.ask(t, "GET", "/small.txt", "User-Agent", "test")
		p.ask(t, "HEAD", "/small.txt", "User-Agent", "test")
		p.ask(t, "GET", "/small.txt", "User-Agent", "test", "Range", "bytes=2-4")
		p.ask(t, "GET", "/small.txt", "User-Agent", "test", "Range", "bytes=20-")
		p.ask(t, "GET", "/small.txt", "User-Agent", "test", "If-Modified-Since", "Fri, 31 Dec 2199 23:59:59 GMT")
		p.ask(t, "GET", "/large.bin", "User-Agent", "test")
		p.ask(t, "GET", "/large.bin", "User-Agent", "test", "Range", "bytes=-1000")
		p.ask(t, "GET", "/none", "User-Agent", "test", "Referer", `"`)
		_, body := p.ask(t, "GET", "/page.html", "User-Agent", "test", "Accept-Encoding", "gzip")
		encoded = len(body)
		p.ask(t, "POST", "/small.txt", "User-Agent", "test")
	})
	want := []string{
		`"GET /small.txt HTTP/1.1" 200 10 "-" "test"`,
		`"HEAD /small.txt HTTP/1.1" 200 - "-" "test"`,
		`"GET /small.txt HTTP/1.1" 206 3 "-" "test"`,
		`"GET /small.txt HTTP/1.1" 416 21 "-" "test"`,
		`"GET /small.txt HTTP/1.1" 304 - "-" "test"`,
		`"GET /large.bin HTTP/1.1" 200 1048576 "-" "test"`,
		`"GET /large.bin HTTP/1.1" 206 1000 "-" "test"`,
		`"GET /none HTTP/1.1" 404 18 "\"" "test"`,
		fmt.Sprintf(`"GET /page.html HTTP/1.1" 200 %d "-" "test"`, encoded),
		`"POST /small.txt HTTP/1.1" 405 18 "-" "test"`,
	}
	if got := strings.Join(lines, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("logged\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if encoded == 0 || encoded >= 3000 {
		t.Errorf("the page came in %d bytes", encoded)
	}
}

// TestAccessLogOfRefusals: requests that the handler never sees are logged, and
// cannot forge lines.
func TestAccessLogOfRefusals(t *testing.T) {
	lines := logged(t, t.TempDir(), func(p *process) {
		for _, request := range []string{
			"GET /\x01\n127.0.0.1 HTTP/1.1\r\nHost: h\r\n\r\n",
			"POST /a HTTP/1.1\r\nHost: h\r\nUser-Agent: u\r\nContent-Length: 99999999999\r\n\r\n",
		} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, request); err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	})
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `"-" 400 `) || !strings.HasPrefix(lines[1], `"POST /a HTTP/1.1" 413 `) || !strings.HasSuffix(lines[1], `"u"`) {
		t.Errorf("logged\n%s", strings.Join(lines, "\n"))
	}
}

// TestAccessLogOnStdout: lines come out while the server runs.
func TestAccessLogOnStdout(t *testing.T) {
	cmd := limited(t, binary, "serve", "--addr", "127.0.0.1:0", "--access-log", "-")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startCommand(t, cmd)
	p.ask(t, "GET", "/plaintext", "User-Agent", "test")
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasSuffix(lines.Text(), `"GET /plaintext HTTP/1.1" 200 13 "-" "test"`) {
		t.Errorf("%q", lines.Text())
	}
	// Nobody reads any more: the server says so and goes on.
	stdout.Close()
	p.ask(t, "GET", "/json")
	p.logLine(t, "cannot write the access log")
	if resp, _ := p.ask(t, "GET", "/json"); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Error(err)
	}
}

// TestAccessLogReopens: SIGHUP writes to a new file.
func TestAccessLogReopens(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	p := start(t, "--access-log", name)
	p.ask(t, "GET", "/plaintext")
	if err := os.Rename(name, name+".1"); err != nil {
		t.Skip(err)
	}
	if err := p.Process.Signal(syscall.SIGHUP); err != nil {
		t.Skip(err)
	}
	p.logLine(t, "access log reopened")
	p.ask(t, "GET", "/json")
	if err := p.interrupt(t, os.Interrupt); err != nil {
		t.Error(err)
	}
	old, now := linesOf(t, name+".1"), linesOf(t, name)
	if len(old) != 1 || !strings.Contains(old[0], "/plaintext") || len(now) != 1 || !strings.Contains(now[0], "/json") {
		t.Errorf("before %q, after %q", old, now)
	}
}

// TestAccessLogKeepsUp: no line is lost where many requests come at once.
func TestAccessLogKeepsUp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	l, err := openAccessLog(name, log.Default())
	if err != nil {
		t.Fatal(err)
	}
	const writers, lines = 8, 5000
	done := make(chan struct{})
	for range writers {
		go func() {
			var req sluice.Request
			req.SetRequestURI("/" + strings.Repeat("x", 200))
			var ctx sluice.RequestCtx
			ctx.Init(&req, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, nil)
			for range lines {
				l.log(&ctx, accesslog.Entry{Status: 200, Bytes: 4})
			}
			done <- struct{}{}
		}()
	}
	for range writers {
		<-done
	}
	l.Close()
	l.Close()
	if got := len(linesOf(t, name)); got != writers*lines {
		t.Errorf("%d lines, want %d", got, writers*lines)
	}
}
