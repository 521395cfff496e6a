package server_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestStreamedRequest: the handler runs before the body is there, and reads it
// while it comes.
func TestStreamedRequest(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		got := make(chan string, 1)
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			stream := ctx.RequestBodyStream()
			if stream == nil {
				ctx.WriteString("no stream")
				return
			}
			buffer := make([]byte, 100)
			for {
				n, err := stream.Read(buffer)
				if n > 0 {
					got <- string(buffer[:n])
				}
				if err != nil {
					fmt.Fprint(ctx, err)
					break
				}
			}
			if _, err := stream.Read(buffer); err != io.EOF {
				t.Errorf("behind the end there is %v", err)
			}
			for name := range ctx.Request.Header.Trailers() {
				fmt.Fprintf(ctx, " %s=%s", name, ctx.Request.Header.PeekBytes(name))
			}
		}})
		p := r.Dial()
		p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 10"))
		for _, piece := range []string{"he", "l", "lo", "worl", "d"} {
			p.Send(piece)
			if read := harness.Receive(t, got); read != piece {
				t.Errorf("read %q, want %q", read, piece)
			}
		}
		if a := p.Answer("POST"); a.Body != "EOF" {
			t.Errorf("sized: %q", a.Body)
		}
		p.Send(harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked", "Trailer: X-Sum"))
		for _, piece := range []string{"he", "l", "lo"} {
			p.Send(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece))
			if read := harness.Receive(t, got); read != piece {
				t.Errorf("read %q, want %q", read, piece)
			}
		}
		p.Send("0\r\nX-Sum: 7\r\nContent-Length: 9\r\n\r\n")
		if a := p.Answer("POST"); a.Body != "EOF X-Sum=7" {
			t.Errorf("chunked: %q", a.Body)
		}
		if a := p.Get("/"); a.Body != "no stream" {
			t.Errorf("without body: %q", a.Body)
		}
	})
}

// TestStreamedBodyIsCollected: a server warns once of handlers that read a
// streamed body by Body.
func TestStreamedBodyIsCollected(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/stream":
			_, _ = io.Copy(ctx, ctx.RequestBodyStream())
		case "/body":
			_, _ = ctx.Write(ctx.PostBody())
			_ = ctx.Request.Body()
		}
	}})
	for i, path := range []string{"/none", "/stream", "/body", "/body", "/stream"} {
		p := r.Dial()
		p.Send(harness.Post(path, "body"))
		p.Answer("POST")
		if n, want := strings.Count(r.Log.String(), "Request.Body"), min(i/2, 1); n != want {
			t.Errorf("after %s: %d warnings, want %d: %s", path, n, want, r.Log)
		}
	}
}

// TestStreamedRequestIsUnbounded: MaxRequestBodySize bounds what is collected,
// not what is streamed.
func TestStreamedRequestIsUnbounded(t *testing.T) {
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{StreamRequestBody: true, MaxRequestBodySize: 1000, Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/collect" {
			fmt.Fprintf(ctx, "%s", ctx.PostBody())
			return
		}
		n, err := io.Copy(io.Discard, ctx.RequestBodyStream())
		fmt.Fprint(ctx, n, err)
	}})
	statuses, bodies := statusesOf(t, r.Exchange(harness.Post("/", strings.Repeat("x", 3<<20))+harness.Post("/collect", strings.Repeat("x", 1001), "Connection: close")))
	if !slices.Equal(statuses, []int{200, 200}) || bodies[0] != "3145728 <nil>" || bodies[1] != sluice.ErrBodyTooLarge.Error() {
		t.Errorf("answers are %v %.100q", statuses, bodies)
	}
}

// TestUnreadStreamedBody: what a handler leaves is drained within bounds, and
// is never a request.
func TestUnreadStreamedBody(t *testing.T) {
	smuggled := harness.Request("GET /smuggled HTTP/1.1")
	pad := func(n int) string { return smuggled + strings.Repeat("x", n-len(smuggled)) }
	chunked := func(n int) string {
		return harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\nX: y\r\n\r\n", n, pad(n))
	}
	const limit = 256 << 10
	tests := []struct {
		name, request string
		persists      bool
	}{
		{"small", harness.Post("/", pad(100)), true},
		{"small, some read", harness.Post("/some", pad(100)), true},
		{"at the limit", harness.Post("/", pad(limit)), true},
		{"over the limit", harness.Post("/", pad(limit+1)), false},
		{"small chunked", chunked(100), true},
		{"small chunked, some read", strings.Replace(chunked(100), "POST /", "POST /some", 1), true},
		{"chunked over the limit", chunked(limit + 64<<10), false},
		{"all read", harness.Post("/all", pad(2*limit)), true},
		{"all read, chunked", strings.Replace(chunked(2*limit), "POST /", "POST /all", 1), true},
		{"malformed chunk", harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhelloXX" + smuggled, false},
		{"malformed chunk, read", harness.Request("POST /all HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhelloXX" + smuggled, false},
		{"malformed trailer, read", harness.Request("POST /all HTTP/1.1", "Transfer-Encoding: chunked") + "0\r\nX Y: 1\r\n\r\n" + smuggled, false},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/some":
				_, _ = io.ReadFull(ctx.RequestBodyStream(), make([]byte, 10))
			case "/all":
				_, _ = io.Copy(io.Discard, ctx.RequestBodyStream())
			}
			ctx.Write(ctx.Path())
		}})
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				_, bodies := statusesOf(t, r.Exchange(test.request+harness.Closing("/next")))
				want := []string{strings.Fields(test.request)[1]}
				if test.persists {
					want = append(want, "/next")
				}
				if !slices.Equal(bodies, want) {
					t.Errorf("answers are %q, want %q", bodies, want)
				}
			})
		}
	})
}

// TestSlowUnreadBody: a client that is slow to send what the handler has not read gets an
// orderly end, and no reset, which may cost it the response.
func TestSlowUnreadBody(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: answering("x")})
			p := r.Dial()
			p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 1000") + "some")
			p.Answer("POST")
			p.ExpectEnd()
			for range 3 {
				p.Send("more")
			}
		})
	}
}

// TestResponseThatReadsTheRequest: a response's stream, or what follows Flush, may
// read the request's body, of whatever size; then the connection goes on. What is
// unread when it is written decides.
func TestResponseThatReadsTheRequest(t *testing.T) {
	const size = 1 << 20
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			body := ctx.RequestBodyStream()
			switch string(ctx.Path()) {
			case "/echo":
				ctx.SetBodyStream(body, ctx.Request.Header.ContentLength())
			case "/most":
				ctx.SetBodyStream(body, size-1000)
			case "/some":
				ctx.SetBodyStream(body, 1000)
			case "/flush":
				_ = ctx.Flush()
				_, _ = io.Copy(ctx, body)
			case "/unread":
				ctx.SetBodyStream(strings.NewReader("x"), -1)
			}
		}})
		large := strings.Repeat("0123456789abcdef", size/16)
		chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, large)
		for _, test := range []struct {
			name, script string
			length       int
			isKept       bool
		}{
			{"sized", harness.Post("/echo", large), size, true},
			{"chunked", harness.Request("POST /echo HTTP/1.1", "Transfer-Encoding: chunked") + chunked, size, true},
			{"most", harness.Post("/most", large), size - 1000, true},
			{"some", harness.Post("/some", large), 1000, false},
			{"flushed", harness.Post("/flush", large), size, true},
			{"unread, little", harness.Post("/unread", large[:100<<10]), 1, true},
			{"unread, much", harness.Post("/unread", large), 1, false},
		} {
			p := r.Dial()
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				_, _ = io.WriteString(p.Conn, test.script+harness.Get("/next"))
			}()
			a := p.Answer("POST")
			if a.Close || len(a.Body) != test.length {
				t.Errorf("%s: close %v, %d bytes", test.name, a.Close, len(a.Body))
			}
			if test.isKept {
				p.Answer("GET")
			} else if rest := p.Rest(); rest != "" {
				t.Errorf("%s: %q", test.name, rest)
			}
			p.Close()
			<-sent
		}
	})
}

// TestUnreadStreamedBodyThatNeverComes: the connection is closed, after the
// answer.
func TestUnreadStreamedBodyThatNeverComes(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		p := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: answering("x")}).Dial()
		p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 100") + "abc")
		if a := p.Answer("POST"); a.Body != "x" {
			t.Errorf("answered %q", a.Body)
		}
		p.Rest()
	})
}

// TestTruncatedStream: a body that is cut off is no complete body.
func TestTruncatedStream(t *testing.T) {
	tests := map[string]string{
		"sized":   harness.Request("POST / HTTP/1.1", "Content-Length: 10") + "hello",
		"chunk":   harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "a\r\nhello",
		"chunks":  harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhello\r\n",
		"trailer": harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + "5\r\nhello\r\n0\r\nX:",
	}
	for name, script := range tests {
		result := make(chan error, 1)
		r := harness.Serve(t, harness.OverTCP(), &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			body, err := io.ReadAll(ctx.RequestBodyStream())
			if string(body) != "hello" {
				t.Errorf("%s: read %q", name, body)
			}
			result <- err
		}})
		p := r.Dial()
		p.Send(script)
		if err := p.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if err := harness.Receive(t, result); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: the stream ends with %v", name, err)
		}
		p.Rest()
	}
}

// TestStreamOutlivesRequest: who keeps the stream gets errors, not the next
// request.
func TestStreamOutlivesRequest(t *testing.T) {
	streams := make(chan io.Reader, 1)
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		if s := ctx.RequestBodyStream(); s != nil {
			streams <- s
		}
	}})
	p := r.Dial()
	p.Send(harness.Post("/", "hello"))
	p.Answer("POST")
	if n, err := harness.Receive(t, streams).Read(make([]byte, 10)); n != 0 || err == nil || err == io.EOF {
		t.Errorf("read %d, %v", n, err)
	}
	p.Get("/")
}

func TestMultipartForms(t *testing.T) {
	const boundary = "xxBOUNDARYxx"
	body := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nvalue\r\n" +
		"--" + boundary + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n\r\ncontent\r\n" +
		"--" + boundary + "--\r\n"
	form := func(path, body string) string {
		return harness.Post(path, body, "Content-Type: multipart/form-data; boundary="+boundary)
	}
	handler := func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/unread" {
			return
		}
		f, err := ctx.FormFile("f")
		if err != nil {
			fmt.Fprintf(ctx, "error %v", err)
			return
		}
		file, err := f.Open()
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		content, _ := io.ReadAll(file)
		_, missing := ctx.FormFile("other")
		fmt.Fprintf(ctx, "%s %s %s %v", ctx.FormValue("a"), f.Filename, content, missing == sluice.ErrMissingFile)
	}
	for _, isStreaming := range []bool{false, true} {
		harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: isStreaming, Handler: handler})
			const good = "value f.txt content true"
			// Preamble and epilogue belong to the body, too.
			smuggling := form("/", "preamble\r\n"+body+harness.Request("GET /smuggled HTTP/1.1"))
			_, bodies := statusesOf(t, r.Exchange(form("/", body)+smuggling+form("/unread", body)+form("/", body)+harness.Post("/", "x")+harness.Closing("/")))
			if len(bodies) != 6 || bodies[0] != good || bodies[1] != good || bodies[2] != "" || bodies[3] != good ||
				!strings.HasPrefix(bodies[4], "error ") || bodies[4] != bodies[5] {
				t.Errorf("stream=%v: %q", isStreaming, bodies)
			}
			_, bodies = statusesOf(t, r.Exchange(form("/", strings.TrimSuffix(body, "--\r\n"))+harness.Closing("/")))
			if len(bodies) == 0 || !strings.HasPrefix(bodies[0], "error ") || slices.Contains(bodies, "/smuggled") {
				t.Errorf("truncated, stream=%v: %q", isStreaming, bodies)
			}
		})
	}
}

// TestMultipartFilesAreRemoved: large parts lie in temporary files for as long
// as the request lasts.
func TestMultipartFilesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const boundary = "xxBOUNDARYxx"
	const size = 5 << 20 // 4 MiB are kept in memory
	body := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f.bin\"\r\n\r\n" +
		strings.Repeat("x", size) + "\r\n--" + boundary + "--\r\n"
	files := func() []string {
		names, _ := filepath.Glob(filepath.Join(os.TempDir(), "*"))
		return names
	}
	for _, path := range []string{"/", "/done"} {
		r := harness.Serve(t, harness.OverTCP(), &sluice.Server{MaxRequestBodySize: 64 << 20, StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/done" {
				ctx.Done()
			}
			f, err := ctx.FormFile("f")
			if err != nil {
				fmt.Fprint(ctx, err)
				return
			}
			fmt.Fprint(ctx, f.Size, " ", len(files()))
		}})
		p := r.Dial()
		p.Send(harness.Post(path, body, "Content-Type: multipart/form-data; boundary="+boundary))
		if a := p.Answer("POST"); a.Body != fmt.Sprint(size, " ", 1) {
			t.Errorf("answered %q", a.Body)
		}
		p.Send(harness.Closing("/"))
		p.Rest()
		if left := files(); len(left) != 0 {
			t.Errorf("%s: files are left: %q", path, left)
		}
		r.Stop()
	}
}

// long: a table of cases
func TestBodyStreams(t *testing.T) {
	failure := errors.New("disk on fire")
	tests := []struct {
		name   string
		stream func() io.Reader
		size   int
		want   string // the whole answer behind the head
		framed string // in the head
		keeps  bool
	}{
		{"known", func() io.Reader { return strings.NewReader("hello") }, 5, "hello", "Content-Length: 5", true},
		{"unknown", func() io.Reader { return strings.NewReader("hello") }, -1, "5\r\nhello\r\n0\r\n\r\n", "Transfer-Encoding: chunked", true},
		{"empty", func() io.Reader { return strings.NewReader("") }, 0, "", "Content-Length: 0", true},
		{"empty unknown", func() io.Reader { return strings.NewReader("") }, -1, "0\r\n\r\n", "Transfer-Encoding: chunked", true},
		{"long", func() io.Reader { return strings.NewReader("hello world") }, 5, "hello", "Content-Length: 5", true},
		{"slow", func() io.Reader { return iotest.OneByteReader(strings.NewReader("abc")) }, -1, "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n", "Transfer-Encoding: chunked", true},
		{"end with data", func() io.Reader { return iotest.DataErrReader(strings.NewReader("abc")) }, 3, "abc", "Content-Length: 3", true},
		{"short", func() io.Reader { return strings.NewReader("hell") }, 5, "hell", "Content-Length: 5", false},
		{"failing", func() io.Reader { return io.MultiReader(strings.NewReader("he"), iotest.ErrReader(failure)) }, 5, "he", "Content-Length: 5", false},
		{"failing unknown", func() io.Reader { return io.MultiReader(strings.NewReader("he"), iotest.ErrReader(failure)) }, -1, "2\r\nhe\r\n", "Transfer-Encoding: chunked", false},
		{"panicking", func() io.Reader { return io.MultiReader(strings.NewReader("he"), panicReader{}) }, -1, "2\r\nhe\r\n", "Transfer-Encoding: chunked", false},
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				var closed atomic.Int32
				r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					if string(ctx.Path()) == "/next" {
						return
					}
					ctx.SetBodyStream(harness.CloseCounter{Reader: test.stream(), Closed: &closed}, test.size)
					if !ctx.IsBodyStream() {
						t.Error("the body is no stream")
					}
				}})
				got := r.Exchange(harness.Get("/") + harness.Closing("/next"))
				head, rest, _ := strings.Cut(got, "\r\n\r\n")
				if !strings.Contains(head+"\r\n", "\r\n"+test.framed+"\r\n") {
					t.Errorf("head is %q, want %q in it", head, test.framed)
				}
				want := test.want
				if test.keeps {
					want += harness.TextAnswer(200, "", "Connection: close")
				}
				if rest != want {
					t.Errorf("behind the head there is %q, want %q", rest, want)
				}
				if n := closed.Load(); n != 1 {
					t.Errorf("the stream was closed %d times", n)
				}
				if logged := r.Log.String() != ""; logged == test.keeps {
					t.Errorf("logged %q", r.Log)
				}
			})
			t.Run(test.name+" for HEAD", func(t *testing.T) {
				var closed atomic.Int32
				r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
					ctx.SetBodyStream(harness.CloseCounter{Reader: test.stream(), Closed: &closed}, test.size)
				}})
				p := r.Dial()
				p.Send(harness.Request("HEAD / HTTP/1.1") + harness.Request("HEAD / HTTP/1.1", "Connection: close"))
				p.Answer("HEAD")
				p.Answer("HEAD")
				p.ExpectEnd()
				if n := closed.Load(); n != 2 {
					t.Errorf("the stream was closed %d times", n)
				}
			})
		}
	})
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("reader went mad") }

// countingWriterTo writes itself, piece by piece, for ever.
type countingWriterTo struct {
	io.Reader
	pieces *atomic.Int32
}

func (s countingWriterTo) WriteTo(w io.Writer) (n int64, err error) {
	for err == nil {
		s.pieces.Add(1)
		var m int
		m, err = io.WriteString(w, "0123456789")
		n += int64(m)
	}
	return n, err
}

// TestBodyStreamThatWritesItself: WriteTo replaces Read where the length is
// known, and ends at that length.
func TestBodyStreamThatWritesItself(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		var pieces atomic.Int32
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/endless":
				ctx.SetBodyStream(countingWriterTo{panicReader{}, &pieces}, 25)
			case "/text":
				ctx.SetBodyStream(strings.NewReader("hello"), 5)
			}
		}})
		want := harness.TextAnswer(200, "0123456789012345678901234") + harness.TextAnswer(200, "hello", "Connection: close")
		if got := r.Exchange(harness.Get("/endless") + harness.Closing("/text")); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := pieces.Load(); got != 3 {
			t.Errorf("%d pieces were written", got)
		}
	})
}

// TestWarnsOfReadingStreamedBody: a server logs once that handlers read streamed bodies whole.
func TestWarnsOfReadingStreamedBody(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
			fmt.Fprint(ctx, len(ctx.PostBody()))
		}})
		post := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
		r.Exchange(post + post + harness.Closing("/"))
		r.Exchange(post + harness.Closing("/"))
		if logged := r.Log.String(); strings.Count(logged, "\n") != 1 || !strings.Contains(logged, "use BodyStream") {
			t.Errorf("logged %q", logged)
		}
	})
}

// TestBodyStreamWhoseClosePanics costs its connection, not more.
func TestBodyStreamWhoseClosePanics(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(panickingCloser{strings.NewReader("hello")}, 5)
		}})
		if got := r.Exchange(harness.Get("/") + harness.Get("/")); !strings.HasSuffix(got, "\r\n\r\nhello") || strings.Count(got, "200 OK") != 1 {
			t.Errorf("%q", got)
		}
		if logged := r.Log.String(); !strings.Contains(logged, "close went mad") {
			t.Errorf("logged %q", logged)
		}
	})
}

type panickingCloser struct{ io.Reader }

func (panickingCloser) Close() error { panic("close went mad") }

// TestStreamToHTTP10 ends with the connection, for chunks are unknown there.
func TestStreamToHTTP10(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			size, _ := ctx.QueryArgs().GetUint("size")
			ctx.SetBodyStream(strings.NewReader("hello"), size)
		}})
		old := "GET /?size=x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
		want := "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nhello"
		if got := r.Exchange(old + harness.Get("/")); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		old = strings.Replace(old, "size=x", "size=5", 1)
		want = harness.TextAnswer(200, "hello", "Connection: keep-alive")
		if got := r.Exchange(old + harness.Closing("/?size=5")); !strings.HasPrefix(got, want) || len(got) <= len(want) {
			t.Errorf("%q, want %q and another one", got, want)
		}
	})
}

// A StreamWriter runs when the handler has returned.
func TestStreamWriterRunsAfterTheHandler(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		var order []string // of one goroutine: no lock
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				order = append(order, "writer")
				w.WriteString(strings.Join(order, " "))
			})
			time.Sleep(time.Millisecond) // time for a writer that would run at once
			order = append(order, "handler")
		}})
		if a := r.Dial().Get("/"); a.Body != "handler writer" {
			t.Errorf("order: %s", a.Body)
		}
	})
}

// TestStreamWriterFlushes: the client sees what is flushed while the stream is
// still being written.
func TestStreamWriterFlushes(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		for _, size := range []int{0, 64} {
			goOn := make(chan struct{})
			r := harness.Serve(t, n, &sluice.Server{WriteBufferSize: size, Handler: func(ctx *sluice.RequestCtx) {
				ctx.SetContentType("text/event-stream")
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
					for i := range 3 {
						fmt.Fprintf(w, "event %d\n", i)
						if err := w.Flush(); err != nil {
							t.Error(err)
						}
						<-goOn
					}
				})
			}})
			p := r.Dial()
			p.Send(harness.Get("/"))
			for {
				line, err := p.R.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				if line == "\r\n" {
					break
				}
			}
			for i := range 3 {
				p.Expect(fmt.Sprintf("8\r\nevent %d\n\r\n", i))
				goOn <- struct{}{}
			}
			p.Expect("0\r\n\r\n")
			p.Send(harness.Closing("/"))
			for range 3 {
				goOn <- struct{}{}
			}
			p.Rest()
		}
	})
}

// TestStreamWriterPanics: what was written stays incomplete for the client.
func TestStreamWriterPanics(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				w.WriteString("some")
				w.Flush()
				panic("writer went mad")
			})
		}})
		if got := r.Exchange(harness.Get("/") + harness.Get("/")); !strings.HasSuffix(got, "\r\n\r\n4\r\nsome\r\n") {
			t.Errorf("%q", got)
		}
		if !strings.Contains(r.Log.String(), "writer went mad") {
			t.Errorf("logged %q", r.Log)
		}
	})
}

// TestStreamWriterLearnsOfGoneClient: writing to nobody ends with an error.
func TestStreamWriterLearnsOfGoneClient(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		failed := make(chan error, 1)
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for {
					if _, err := w.Write(make([]byte, 8<<10)); err != nil {
						failed <- err
						return
					}
				}
			})
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		p.Expect("HTTP/1.1 200 OK\r\n")
		p.Close()
		if err := harness.Receive(t, failed); err == nil {
			t.Error("no error")
		}
	})
}

// TestStreamWriterAlwaysRuns: also when nobody wants the body, so that it can
// release what it holds.
func TestStreamWriterAlwaysRuns(t *testing.T) {
	ran := make(chan error, 1)
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			w.WriteString("x")
			ran <- w.Flush()
		})
	}})
	p := r.Dial()
	p.Send(harness.Request("HEAD / HTTP/1.1"))
	p.Answer("HEAD")
	if err := harness.Receive(t, ran); err == nil {
		t.Error("the writer was not told that nobody reads")
	}
}

func TestImmediateHeaderFlush(t *testing.T) {
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		goOn := make(chan struct{})
		r := harness.Serve(t, n, &sluice.Server{NoDefaultDate: true, Handler: func(ctx *sluice.RequestCtx) {
			ctx.Response.ImmediateHeaderFlush = true
			ctx.SetBodyStream(waitingReader{goOn, strings.NewReader("hello")}, 5)
		}})
		p := r.Dial()
		p.Send(harness.Get("/"))
		p.Expect(strings.TrimSuffix(harness.TextAnswer(200, "hello"), "hello"))
		close(goOn)
		p.Expect("hello")
	})
}

// waitingReader reads nothing before something happens.
type waitingReader struct {
	event <-chan struct{}
	io.Reader
}

func (r waitingReader) Read(p []byte) (int, error) {
	<-r.event
	return r.Reader.Read(p)
}

// writerTo is a stream that prefers WriteTo.
type writerTo struct {
	io.Reader
	supports bool
}

func (w writerTo) SupportsBodyWriteTo() bool { return w.supports }

func (w writerTo) WriteTo(dst io.Writer) (int64, error) {
	n, err := io.WriteString(dst, "from WriteTo")
	return int64(n), err
}

func TestBodyWriterTo(t *testing.T) {
	r := harness.Serve(t, harness.InMemory(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetBodyStream(writerTo{strings.NewReader("from Read"), string(ctx.Path()) == "/yes"}, -1)
	}})
	p := r.Dial()
	if a := p.Get("/yes"); a.Body != "from WriteTo" {
		t.Errorf("supported: %q", a.Body)
	}
	if a := p.Get("/no"); a.Body != "from Read" {
		t.Errorf("not supported: %q", a.Body)
	}
}

func TestSendFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := bytes.Repeat([]byte("0123456789"), 20000)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.OnEachNetwork(t, func(t *testing.T, n harness.Network) {
		r := harness.Serve(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if err := ctx.Response.SendFile(path); err != nil {
				t.Error(err)
			}
		}})
		p := r.Dial()
		a := p.Get("/")
		if a.Body != string(content) || a.ContentLength != int64(len(content)) || a.Header.Get("Last-Modified") == "" {
			t.Errorf("%d bytes, %v", len(a.Body), a.Header)
		}
		p.Send(harness.Request("HEAD / HTTP/1.1"))
		if a := p.Answer("HEAD"); a.ContentLength != int64(len(content)) {
			t.Errorf("HEAD: %v", a.Header)
		}
		p.Get("/")
	})
}

// TestStreamBackPressure: a client that does not read holds the stream up
// instead of filling the server's memory.
func TestStreamBackPressure(t *testing.T) {
	var produced atomic.Int64
	r := harness.Serve(t, harness.OverTCP(), &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for range 64 << 20 / 4096 {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
				produced.Add(4096)
			}
		})
	}})
	p := r.Dial()
	before := nettest.HeapInUse()
	p.Send(harness.Get("/"))
	p.Expect("HTTP/1.1 200 OK\r\n")
	if grown := nettest.HeapInUse() - before; grown > 8<<20 {
		t.Errorf("%d KiB are held for a client that does not read", grown>>10)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(p.R, 64<<20))
	if err != nil || n != 64<<20 {
		t.Errorf("read %d, %v; produced %d", n, err, produced.Load())
	}
}
