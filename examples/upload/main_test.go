package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

const patience = 30 * time.Second

// running is a running uploader.
type running struct {
	dir      string
	addr     string
	returned chan int // the status of each request, when its handler has returned
}

func (r *running) url(path string) string { return "http://" + r.addr + path }

// start serves on a free port until the test ends.
func start(t *testing.T, engine sluice.Engine, max int64, stall time.Duration) *running {
	t.Helper()
	dir := t.TempDir()
	store, err := openStore(dir, max)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	returned := make(chan int, 16)
	server := newServer(&uploader{store, stall})
	server.Engine = engine
	handle := server.Handler
	server.Handler = func(ctx *sluice.RequestCtx) {
		handle(ctx)
		returned <- ctx.Response.StatusCode()
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		server.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
		store.root.Close()
	})
	return &running{dir, ln.Addr().String(), returned}
}

func onEachEngine(t *testing.T, max int64, stall time.Duration, test func(t *testing.T, r *running)) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(engine.String(), func(t *testing.T) { test(t, start(t, engine, max, stall)) })
	}
}

// wantFiles compares the folder's files, including hidden ones, with a map of names
// to sizes.
func (r *running) wantFiles(t *testing.T, want map[string]int64) {
	t.Helper()
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		got[entry.Name()] = info.Size()
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("files %v, want %v", got, want)
	}
}

// noise is a body that is generated while it is read. It records the largest heap
// during that time.
type noise struct {
	random *rand.ChaCha8
	left   int
	sum    uint32
	heap   uint64
	looked int // bytes left at the last look at the heap
}

func newNoise(size int) *noise {
	return &noise{random: rand.NewChaCha8([32]byte{}), left: size, looked: size}
}

// Read implements io.Reader.
func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(len(p), n.left)]
	n.random.Read(p)
	n.sum = crc32.Update(n.sum, crc32.IEEETable, p)
	n.left -= len(p)
	if n.looked-n.left >= 4<<20 {
		n.looked = n.left
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		n.heap = max(n.heap, stats.HeapInuse)
	}
	return len(p), nil
}

// sumOf returns the checksum of a file.
func sumOf(t *testing.T, path string) uint32 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, file); err != nil {
		t.Fatal(err)
	}
	return sum.Sum32()
}

func send(t *testing.T, method, url, contentType string, body io.Reader) (status int, text string) {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// asForm returns r as the first file of a form that is generated while it is read.
func asForm(r io.Reader) (body io.Reader, contentType string) {
	out, in := io.Pipe()
	w := multipart.NewWriter(in)
	go func() {
		w.WriteField("comment", strings.Repeat("not a file ", 1000))
		file, err := w.CreateFormFile("file", "../large") // the folder is dropped
		if err == nil {
			_, err = io.Copy(file, r)
		}
		if file, err2 := w.CreateFormFile("file", "small"); err2 == nil {
			io.WriteString(file, "small")
		}
		w.Close()
		in.CloseWithError(err)
	}()
	return out, w.FormDataContentType()
}

func TestLargeUploadsInConstantMemory(t *testing.T) {
	const bound = 16 << 20
	size := 64 << 20
	if testing.Short() {
		size = 32 << 20
	}
	onEachEngine(t, int64(size), patience, func(t *testing.T, r *running) {
		for _, kind := range []string{"body", "form"} {
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			source := newNoise(size)
			var status int
			want := map[string]int64{"large": int64(size)}
			if kind == "body" {
				status, _ = send(t, "PUT", r.url("/files/large"), "", source)
			} else {
				form, contentType := asForm(source)
				status, _ = send(t, "POST", r.url("/files"), contentType, form)
				want["small"] = 5
			}
			if status/100 != 2 {
				t.Fatalf("%s: status %d", kind, status)
			}
			r.wantFiles(t, want)
			if got := sumOf(t, filepath.Join(r.dir, "large")); got != source.sum {
				t.Errorf("%s: checksum %x, want %x", kind, got, source.sum)
			}
			if source.heap == 0 || source.heap > before.HeapInuse+bound {
				t.Errorf("%s: %d KiB of heap in use, before %d KiB", kind, source.heap>>10, before.HeapInuse>>10)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	form, contentType := asForm(strings.NewReader(strings.Repeat("x", 1001)))
	body, err := io.ReadAll(form)
	if err != nil {
		t.Fatal(err)
	}
	full := strings.Repeat("x", 1000)
	for _, test := range []struct {
		name, method, path, contentType string
		body                            io.Reader
		status                          int
		files                           map[string]int64
	}{
		{"largest", "PUT", "/files/a", "", strings.NewReader(full), 201, map[string]int64{"a": 1000}},
		{"empty", "PUT", "/files/a", "", nil, 201, map[string]int64{"a": 0}},
		{"too large", "PUT", "/files/a", "", strings.NewReader(full + "x"), 413, nil},
		{"too large, chunked", "PUT", "/files/a", "", io.MultiReader(strings.NewReader(full + "x")), 413, nil},
		{"too large in a form", "POST", "/files", contentType, bytes.NewReader(body), 413, nil},
		{"half a form", "POST", "/files", contentType, bytes.NewReader(body[:len(body)/2]), 400, nil},
		{"no form", "POST", "/files", "text/plain", strings.NewReader("x"), 415, nil},
		{"hidden", "PUT", "/files/.profile", "", strings.NewReader("x"), 400, nil},
		{"a partial one's name", "PUT", "/files/" + partial + "x", "", strings.NewReader("x"), 400, nil},
		{"outside", "PUT", "/files/..%2f..%2fa", "", strings.NewReader("x"), 404, nil},
		{"outside, for Windows", "PUT", "/files/..%5ca", "", strings.NewReader("x"), 400, nil},
		{"no name", "PUT", "/files/", "", strings.NewReader("x"), 400, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, sluice.EngineAuto, 1000, patience)
			if status, text := send(t, test.method, r.url(test.path), test.contentType, test.body); status != test.status {
				t.Errorf("status %d, %q, want %d", status, text, test.status)
			}
			r.wantFiles(t, test.files)
		})
	}
}

// A client that sends Expect: 100-continue is refused before it sends the body.
func TestTooLargeIsToldBeforeTheBody(t *testing.T) {
	r := start(t, sluice.EngineAuto, 1000, patience)
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	io.WriteString(conn, "PUT /files/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n")
	if got, _ := io.ReadAll(conn); !strings.HasPrefix(string(got), "HTTP/1.1 413 ") {
		t.Errorf("got %q", got)
	}
}

// wantReturn waits for the handler.
func (r *running) wantReturn(t *testing.T, status int) {
	t.Helper()
	select {
	case got := <-r.returned:
		if got != status {
			t.Errorf("status %d, want %d", got, status)
		}
	case <-time.After(patience):
		t.Fatal("the handler does not return")
	}
}

// Aborted and stalled uploads leave no files.
func TestBrokenUploadsLeaveNothing(t *testing.T) {
	const head = "PUT /files/a HTTP/1.1\r\nHost: a\r\n"
	form := "--b\r\nContent-Disposition: form-data; name=f; filename=a\r\n\r\n" + strings.Repeat("x", 200_000)
	for name, test := range map[string]struct {
		request string
		stall   time.Duration
		status  int
	}{
		"length":  {head + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 300_000), patience, 400},
		"chunked": {head + "Transfer-Encoding: chunked\r\n\r\n" + "40000\r\n" + strings.Repeat("x", 0x40000) + "\r\n", patience, 400},
		"form": {"POST /files HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000000\r\n\r\n" + form,
			patience, 400},
		"stalled": {head + "Content-Length: 1000000\r\n\r\n" + strings.Repeat("x", 300_000), 50 * time.Millisecond, 408},
	} {
		t.Run(name, func(t *testing.T) {
			onEachEngine(t, 1<<30, test.stall, func(t *testing.T, r *running) {
				conn, err := net.Dial("tcp", r.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, test.request); err != nil {
					t.Fatal(err)
				}
				if test.status != 408 {
					// The client disconnects after a file was begun.
					for begin := time.Now(); ; runtime.Gosched() {
						if names, _ := filepath.Glob(filepath.Join(r.dir, partial+"*")); len(names) > 0 {
							break
						}
						if time.Since(begin) > patience {
							t.Fatal("nothing was begun")
						}
					}
					conn.(*net.TCPConn).CloseWrite()
				}
				r.wantReturn(t, test.status)
				r.wantFiles(t, nil)
			})
		})
	}
}

// An unfinished upload does not change the existing file.
func TestReplacedWhenComplete(t *testing.T) {
	onEachEngine(t, 1<<20, patience, func(t *testing.T, r *running) {
		send(t, "PUT", r.url("/files/a"), "", strings.NewReader("first"))
		r.wantReturn(t, 201)
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, "PUT /files/a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsecond")
		conn.Close()
		r.wantReturn(t, 400)
		r.wantFiles(t, map[string]int64{"a": 5})
		send(t, "PUT", r.url("/files/a"), "", strings.NewReader("the third"))
		r.wantFiles(t, map[string]int64{"a": 9})
	})
}

func TestWhatACrashLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{partial + "old", "kept"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store, err := openStore(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer store.root.Close()
	(&running{dir: dir}).wantFiles(t, map[string]int64{"kept": 1})
}
