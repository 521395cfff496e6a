package server_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// overAll is every kind of connection: by each engine, with and without TLS, and
// in memory.
func overAll(t *testing.T) []harness.Network {
	secure := harness.OverTLSEach(t, append(harness.OverTCPByEach(), harness.WithCompactTLS()...))
	return append(append(harness.OverTCPByEach(), harness.InMemory()), secure...)
}

// A source is a file of which handlers open their own descriptors.
type source struct {
	t       *testing.T
	path    string
	content []byte
	opened  atomic.Pointer[os.File] // the last one
}

func newSource(t *testing.T, n int) *source {
	t.Helper()
	s := &source{t: t, path: filepath.Join(t.TempDir(), "source"), content: make([]byte, n)}
	for i := range s.content {
		s.content[i] = 'a' + byte((i+i>>8+i>>16)%26)
	}
	if err := os.WriteFile(s.path, s.content, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens the file, at an offset.
func (s *source) open(offset int64) *os.File {
	f, err := os.Open(s.path)
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		s.t.Error(err)
	}
	s.opened.Store(f)
	return f
}

// serve answers with the part of the file that the path names: "/OFFSET/SIZE".
func (s *source) serve(ctx *sluice.RequestCtx) {
	var offset, size int
	if _, err := fmt.Sscanf(string(ctx.Path()), "/%d/%d", &offset, &size); err != nil {
		s.t.Error(err)
	}
	ctx.SetBodyStream(s.open(int64(offset)), size)
}

// expectClosed waits until the last file that was opened is closed.
func (s *source) expectClosed() {
	s.t.Helper()
	harness.Eventually(s.t, "the file is closed", func() bool {
		_, err := s.opened.Load().Stat()
		return err != nil
	})
}

// TestFileAsBody: a user's *os.File is sent from where it stands, however it
// goes, between other answers.
func TestFileAsBody(t *testing.T) {
	s := newSource(t, 6_000_000)
	for _, n := range overAll(t) {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				if string(ctx.Path()) == "/" {
					ctx.WriteString("between")
					return
				}
				s.serve(ctx)
			}})
			p := r.Dial()
			sizes := []int{0, 1, 4000, 16 << 10, 16<<10 + 1, 100_000, 5_900_000}
			var script strings.Builder
			for i, size := range sizes {
				script.WriteString(harness.Get(fmt.Sprintf("/%d/%d", i*10_000, size)) + harness.Get("/"))
			}
			p.Send(script.String())
			for i, size := range sizes {
				a := p.Answer("GET")
				if a.ContentLength != int64(size) || a.Body != string(s.content[i*10_000:i*10_000+size]) {
					t.Errorf("%d bytes: announced %d, got %d", size, a.ContentLength, len(a.Body))
				}
				if a := p.Answer("GET"); a.Body != "between" {
					t.Errorf("behind %d bytes: %q", size, a.Body)
				}
			}
			s.expectClosed()
			p.Send(harness.Request("HEAD /5/2000000 HTTP/1.1"))
			if a := p.Answer("HEAD"); a.ContentLength != 2_000_000 || a.Body != "" {
				t.Errorf("HEAD: %d, %q", a.ContentLength, a.Body)
			}
			s.expectClosed()
			p.Send("GET /5/2000000 HTTP/1.0\r\n\r\n")
			if a := p.Answer("GET"); a.Body != string(s.content[5:2_000_005]) {
				t.Errorf("HTTP/1.0: %d bytes", len(a.Body))
			}
			p.ExpectEnd()
			s.expectClosed()
		})
	}
}

// TestFileAsBodyFails: a file that is shorter than announced ends the connection
// behind what there is; one that the handler has closed sends nothing.
func TestFileAsBodyFails(t *testing.T) {
	s := newSource(t, 100_000)
	for _, n := range overAll(t) {
		for _, test := range []struct{ offset, size int }{
			{99_000, 1001}, {90_000, 16 << 10}, {0, 100_001}, {1000, 1 << 30}, {100_000, 20_000}, {200_000, 5}, {200_000, 20_000},
		} {
			r := harness.Serve(t, n, &sluice.Server{Handler: s.serve})
			raw := r.Exchange(harness.Get(fmt.Sprintf("/%d/%d", test.offset, test.size)) + harness.Get("/0/1"))
			_, body, _ := strings.Cut(raw, "\r\n\r\n")
			if want := s.content[min(test.offset, len(s.content)):]; body != string(want) {
				t.Errorf("%s, %+v: got %d bytes, want %d", n.Name, test, len(body), len(want))
			}
			s.expectClosed()
			r.Stop()
		}
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			f := s.open(0)
			defer f.Close()
			ctx.SetBodyStream(f, 50_000)
		}})
		raw := r.Exchange(harness.Get("/"))
		if _, body, _ := strings.Cut(raw, "\r\n\r\n"); body != "" {
			t.Errorf("%s: a closed file sends %d bytes", n.Name, len(body))
		}
		r.Stop()
	}
}

// TestFileAsBodyOtherwise: what is not sent as a file is copied as ever.
func TestFileAsBodyOtherwise(t *testing.T) {
	s := newSource(t, 100_000)
	for _, n := range overAll(t) {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				f := s.open(10)
				switch string(ctx.Path()) {
				case "/unknown":
					ctx.SetBodyStream(f, -1)
				case "/trailer":
					_ = ctx.Response.Header.SetTrailer("X-Sum")
					ctx.SetBodyStream(f, 99_990)
				case "/flushed":
					_ = ctx.Flush()
					ctx.SetBodyStream(f, 99_990)
				case "/at-once":
					ctx.Response.ImmediateHeaderFlush = true
					ctx.SetBodyStream(f, 99_990)
				case "/204":
					ctx.SetStatusCode(204)
					ctx.SetBodyStream(f, 99_990)
				}
			}})
			p := r.Dial()
			for _, path := range []string{"/unknown", "/trailer", "/flushed", "/at-once"} {
				if a := p.Get(path); a.Body != string(s.content[10:]) {
					t.Errorf("%s: %d bytes", path, len(a.Body))
				}
				s.expectClosed()
			}
			if a := p.Get("/204"); a.Body != "" {
				t.Errorf("204 with %d bytes", len(a.Body))
			}
			s.expectClosed()
		})
	}
}

// TestFileToSlowClient: no worker of the event engine waits for clients that do
// not read their files.
func TestFileToSlowClient(t *testing.T) {
	if !harness.HasEpoll() {
		t.Skip("no event engine")
	}
	const clients, size = 8, 12_000_000
	s := newSource(t, size)
	epoll := harness.OverTCP().By(sluice.EngineEpoll)
	for _, n := range append(harness.OverTLSEach(t, append(harness.WithCompactTLS(), epoll)), epoll) {
		r := harness.Serve(t, n, &sluice.Server{Handler: s.serve})
		var peers []*harness.Peer
		for range clients {
			p := r.Dial()
			p.Send(harness.Get(fmt.Sprintf("/0/%d", size)))
			peers = append(peers, p)
		}
		harness.Eventually(t, "all wait, and nobody waits with them", func() bool {
			stats := r.Server.EngineStats()
			idle, workers := 0, 0
			for _, l := range stats.Loops {
				workers += l.Workers
				idle += l.IdleWorkers
			}
			return stats.Active == clients && idle == workers
		})
		if a := r.Dial().Get("/7/20000"); a.Body != string(s.content[7:20_007]) {
			t.Errorf("%s: another client got %d bytes", n.Name, len(a.Body))
		}
		for i, p := range peers[:2] {
			if a := p.Answer("GET"); a.Body != string(s.content) {
				t.Errorf("%s: client %d got %d bytes", n.Name, i, len(a.Body))
			}
		}
		for _, p := range peers { // the others never read theirs
			p.Close()
		}
		r.Stop()
	}
}

// TestFlushContentLength: a length that the handler has set is kept to.
func TestFlushContentLength(t *testing.T) {
	handler := func(ctx *sluice.RequestCtx) {
		args := ctx.QueryArgs()
		length, err := strconv.Atoi(string(args.Peek("length")))
		if err != nil {
			t.Error(err)
		}
		ctx.Response.Header.SetContentLength(length)
		if args.Has("trailer") {
			_ = ctx.Response.Header.SetTrailer("X-Sum")
		}
		for _, part := range bytes.Split(args.Peek("parts"), []byte(",")) {
			ctx.Write(part)
			if err := ctx.Flush(); err != nil {
				t.Error(err)
			}
		}
		ctx.Write(args.Peek("rest"))
		if stream := args.Peek("stream"); len(stream) > 0 {
			ctx.SetBodyStream(strings.NewReader(string(stream)), len(stream))
		}
	}
	const head = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\n"
	sized := func(n int, body string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, n, body) }
	last := harness.Closing("/?length=1&rest=z")
	const lastAnswer = head + "Content-Length: 1\r\nConnection: close\r\n\r\nz"
	for _, test := range []struct{ request, want string }{
		{harness.Get("/?length=6&parts=ab,cd&rest=ef") + last, sized(6, "abcdef") + lastAnswer},
		{harness.Get("/?length=4&parts=ab,cd") + last, sized(4, "abcd") + lastAnswer},
		{harness.Get("/?length=3&parts=ab,cd&rest=ef") + last, sized(3, "abc") + lastAnswer},
		{harness.Get("/?length=0&parts=ab") + last, "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Length: 0\r\n\r\n" + lastAnswer},
		{harness.Get("/?length=9&parts=ab,cd&rest=ef") + last, sized(9, "abcdef")},
		{harness.Get("/?length=9&parts=ab") + last, sized(9, "ab")},
		{harness.Get("/?length=6&parts=ab&stream=cdef") + last, sized(6, "abcdef") + lastAnswer},
		{harness.Get("/?length=5&parts=ab&stream=cdef") + last, sized(5, "abcde") + lastAnswer},
		{harness.Get("/?length=7&parts=ab&stream=cdef") + last, sized(7, "abcdef")},
		{harness.Get("/?length=-1&parts=ab") + last, head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n" + lastAnswer},
		{harness.Get("/?length=2&parts=ab&trailer") + last, head + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nab\r\n0\r\n\r\n" + lastAnswer},
		{harness.Request("HEAD /?length=6&parts=ab HTTP/1.1") + last, sized(6, "") + lastAnswer},
		{"GET /?length=2&parts=ab HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + last,
			head + "Content-Length: 2\r\nConnection: keep-alive\r\n\r\nab" + lastAnswer},
	} {
		for _, n := range append(harness.OverTCPByEach(), harness.InMemory()) {
			r := harness.Serve(t, n, &sluice.Server{Handler: handler})
			if got := r.Exchange(test.request); got != test.want {
				t.Errorf("%s: %q answered\n%q, want\n%q", n.Name, test.request, got, test.want)
			}
			r.Stop()
		}
	}
}
