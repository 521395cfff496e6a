package difftest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// response and request are what the two libraries' types have in common;
// responseHead and requestHead are their headers.
type response interface {
	SetStatusCode(int)
	StatusCode() int
	SetConnectionClose()
	ConnectionClose() bool
	WriteGzip(*bufio.Writer) error
	message
}

type request interface {
	SetRequestURI(string)
	SetHost(string)
	Host() []byte
	RequestURI() []byte
	MayContinue() bool
	ContinueReadBody(*bufio.Reader, int, ...bool) error
	message
}

type message interface {
	SetBody([]byte)
	SetBodyString(string)
	SetBodyRaw([]byte)
	SetBodyStream(io.Reader, int)
	AppendBody([]byte)
	AppendBodyString(string)
	SwapBody([]byte) []byte
	ReleaseBody(int)
	ResetBody()
	Reset()
	Body() []byte
	BodyWriter() io.Writer
	BodyWriteTo(io.Writer) error
	IsBodyStream() bool
	CloseBodyStream() error
	BodyUncompressed() ([]byte, error)
	BodyGunzipWithLimit(int) ([]byte, error)
	ReadLimitBody(*bufio.Reader, int) error
	WriteTo(io.Writer) (int64, error)
	String() string
}

type head interface {
	Set(key, value string)
	Peek(key string) []byte
	SetContentLength(int)
	ContentLength() int
	SetContentType(string)
	SetTrailer(string) error
	ReadTrailer(*bufio.Reader) error
}

type requestHead interface {
	SetMethod(string)
	SetHost(string)
	SetProtocol(string)
	head
}

type responseHead interface {
	SetProtocol([]byte)
	SetNoDefaultContentType(bool)
	head
}

var dateLine = regexp.MustCompile(`Date: [^\r]*\r\n`)

// stream has nothing but Read.
func stream(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }

// broken fails behind s.
func broken(s string) io.Reader {
	return io.MultiReader(strings.NewReader(s), errReader{})
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// written describes what a message is on the wire, and what it is afterwards.
func written(m message, h head) string {
	var out bytes.Buffer
	n, err := m.WriteTo(&out)
	if err != nil {
		return "error"
	}
	if n != int64(out.Len()) {
		return fmt.Sprintf("wrote %d of %d", n, out.Len())
	}
	return fmt.Sprintf("%q stream=%v body=%q length=%d", dateLine.ReplaceAllString(out.String(), ""), m.IsBodyStream(), m.Body(), h.ContentLength())
}

func names[F any](cases map[string]F) []string {
	var all []string
	for name := range cases {
		all = append(all, name)
	}
	return all
}

// long: a table
func TestWriteResponse(t *testing.T) {
	long := strings.Repeat("abc", 200)
	cases := map[string]func(r response, h responseHead){
		"empty": func(response, responseHead) {},
		"body":  func(r response, h responseHead) { r.SetBodyString("body") },
		"raw":   func(r response, h responseHead) { r.SetBodyRaw([]byte("body")) },
		"append": func(r response, h responseHead) {
			r.AppendBody([]byte("a"))
			r.AppendBodyString("b")
			r.BodyWriter().Write([]byte("c"))
		},
		"raw, append":    func(r response, h responseHead) { r.SetBodyRaw([]byte("raw")); r.AppendBodyString("b") },
		"stream, append": func(r response, h responseHead) { r.SetBodyStream(stream("s"), 1); r.AppendBodyString("b") },
		"stream, body":   func(r response, h responseHead) { r.SetBodyStream(stream("s"), 1); r.SetBodyString("b") },
		"body, stream":   func(r response, h responseHead) { r.SetBodyString("b"); r.SetBodyStream(stream("s"), 1) },
		"length lies":    func(r response, h responseHead) { r.SetBodyString("body"); h.SetContentLength(9) },
		"TE set":         func(r response, h responseHead) { r.SetBodyString("body"); h.Set("Transfer-Encoding", "chunked") },
		"stream -1":      func(r response, h responseHead) { r.SetBodyStream(stream("hello"), -1) },
		"stream -2":      func(r response, h responseHead) { r.SetBodyStream(stream("hello"), -2) },
		"stream exact":   func(r response, h responseHead) { r.SetBodyStream(stream("hello"), 5) },
		"stream empty":   func(r response, h responseHead) { r.SetBodyStream(stream(""), 0) },
		"stream short":   func(r response, h responseHead) { r.SetBodyStream(stream("hello"), 7) },
		"stream long":    func(r response, h responseHead) { r.SetBodyStream(stream("hello"), 3) },
		"stream broken":  func(r response, h responseHead) { r.SetBodyStream(broken("hello"), -1) },
		"stream limited": func(r response, h responseHead) { r.SetBodyStream(io.LimitReader(stream("hello"), 3), -1) },
		"bytes.Reader":   func(r response, h responseHead) { r.SetBodyStream(bytes.NewReader([]byte("hello")), -1) },
		"Body of stream": func(r response, h responseHead) { r.SetBodyStream(stream("hello"), -1); r.Body() },
		"Body of broken": func(r response, h responseHead) { r.SetBodyStream(broken("hello"), -1); r.Body() },
		"HTTP/1.0":       func(r response, h responseHead) { h.SetProtocol([]byte("HTTP/1.0")); r.SetBodyString("body") },
		"HTTP/1.0 stream": func(r response, h responseHead) {
			h.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyStream(stream("body"), -1)
		},
		"100":        func(r response, h responseHead) { r.SetStatusCode(100); r.SetBodyString("body") },
		"204":        func(r response, h responseHead) { r.SetStatusCode(204); r.SetBodyString("body") },
		"204 stream": func(r response, h responseHead) { r.SetStatusCode(204); r.SetBodyStream(stream("body"), -1) },
		"205":        func(r response, h responseHead) { r.SetStatusCode(205); r.SetBodyString("body") },
		"304":        func(r response, h responseHead) { r.SetStatusCode(304); r.SetBodyString("body") },
		"42":         func(r response, h responseHead) { r.SetStatusCode(42); r.SetBodyString("body") },
		"close":      func(r response, h responseHead) { r.SetConnectionClose(); r.SetBodyString("body") },
		"trailers, stream": func(r response, h responseHead) {
			r.SetBodyStream(stream("b"), -1)
			h.SetTrailer("X-T")
			h.Set("X-T", "v")
		},
		"trailers, sized": func(r response, h responseHead) {
			r.SetBodyStream(stream("b"), 1)
			h.SetTrailer("X-T")
			h.Set("X-T", "v")
		},
		"trailers, 1.0": func(r response, h responseHead) {
			h.SetProtocol([]byte("HTTP/1.0"))
			r.SetBodyString("b")
			h.SetTrailer("X-T")
			h.Set("Server", "s")
		},
		"trailers, unset": func(r response, h responseHead) { r.SetBodyStream(stream("b"), -1); h.SetTrailer("X-T") },
		"trailers, body":  func(r response, h responseHead) { r.SetBodyString("b"); h.SetTrailer("X-T"); h.Set("X-T", "v") },
		"swapped":         func(r response, h responseHead) { r.SetBodyString("old"); r.SwapBody([]byte("new")) },
		"released":        func(r response, h responseHead) { r.SetBodyString(long); r.ReleaseBody(10) },
		"not released":    func(r response, h responseHead) { r.SetBodyString("b"); r.ReleaseBody(10_000) },
		"reset":           func(r response, h responseHead) { r.SetBodyString("b"); r.ResetBody() },
		"all reset":       func(r response, h responseHead) { r.SetStatusCode(404); r.SetBodyString("b"); r.Reset() },
	}
	known := differences{
		"raw, append":     "AppendBody keeps what SetBodyRaw set (D5)",
		"stream long":     "no more than the announced length is written (D3)",
		"stream limited":  "io.LimitReader promises no length (D4)",
		"HTTP/1.0 stream": "no chunks to HTTP/1.0 (D1)",
		"205":             "205 has no body (D2)",
		"42":              "no status outside of 100-999 on the wire (headers)",
		"trailers, sized": "a body with trailers is chunked (D6)",
		"trailers, 1.0":   "no chunks to HTTP/1.0 (D1)",
	}
	compare(t, names(cases), known,
		func(name string) string {
			var r fasthttp.Response
			cases[name](&r, &r.Header)
			return written(&r, &r.Header)
		},
		func(name string) string {
			var r sluice.Response
			cases[name](&r, &r.Header)
			return written(&r, &r.Header)
		})
}

// long: a table
func TestWriteRequest(t *testing.T) {
	to := func(method, uri string, more func(r request, h requestHead)) func(r request, h requestHead) {
		return func(r request, h requestHead) {
			h.SetMethod(method)
			r.SetRequestURI(uri)
			if more != nil {
				more(r, h)
			}
		}
	}
	body := func(r request, _ requestHead) { r.SetBodyString("body") }
	cases := map[string]func(r request, h requestHead){
		"empty":               func(request, requestHead) {},
		"GET":                 to("GET", "http://h/p?q", nil),
		"fragment":            to("GET", "http://h/p?q#f", nil),
		"no host":             to("GET", "/p", nil),
		"Host field":          to("GET", "/p?q", func(_ request, h requestHead) { h.SetHost("x") }),
		"Host field, #":       to("GET", "/p?q#f", func(_ request, h requestHead) { h.SetHost("x") }),
		"absolute, Host":      to("GET", "http://h/p", func(_ request, h requestHead) { h.SetHost("x") }),
		"absolute, used":      to("GET", "http://h/p", func(r request, h requestHead) { h.SetHost("x"); r.Host() }),
		"SetHost":             to("GET", "/p", func(r request, h requestHead) { r.SetHost("x") }),
		"Host, SetHost":       to("GET", "/p", func(r request, h requestHead) { h.SetHost("y"); r.SetHost("x") }),
		"user":                to("GET", "http://u:p@h/p", nil),
		"user, no password":   to("GET", "http://u@h/p", nil),
		"user, Authorization": to("GET", "http://u:p@h/p", func(_ request, h requestHead) { h.Set("Authorization", "x") }),
		"user, Host":          to("GET", "http://u:p@h/p", func(_ request, h requestHead) { h.SetHost("x") }),
		"GET body":            to("GET", "http://h/p", body),
		"HEAD body":           to("HEAD", "http://h/p", body),
		"POST body":           to("POST", "http://h/p", body),
		"POST":                to("POST", "http://h/p", nil),
		"PUT":                 to("PUT", "http://h/p", nil),
		"DELETE":              to("DELETE", "http://h/p", nil),
		"OPTIONS":             to("OPTIONS", "*", func(_ request, h requestHead) { h.SetHost("h") }),
		"CONNECT":             to("CONNECT", "h:443", nil),
		"GET, length":         to("GET", "http://h/p", func(_ request, h requestHead) { h.SetContentLength(7) }),
		"POST, length":        to("POST", "http://h/p", func(_ request, h requestHead) { h.SetContentLength(7) }),
		"stream":              to("POST", "http://h/p", func(r request, _ requestHead) { r.SetBodyStream(stream("abc"), -1) }),
		"GET stream":          to("GET", "http://h/p", func(r request, _ requestHead) { r.SetBodyStream(stream("abc"), -1) }),
		"stream sized":        to("POST", "http://h/p", func(r request, _ requestHead) { r.SetBodyStream(stream("abc"), 3) }),
		"stream short":        to("POST", "http://h/p", func(r request, _ requestHead) { r.SetBodyStream(stream("abc"), 4) }),
		"stream, 1.0":         to("POST", "http://h/p", func(r request, h requestHead) { h.SetProtocol("HTTP/1.0"); r.SetBodyStream(stream("abc"), -1) }),
		"expect":              to("POST", "http://h/p", func(r request, h requestHead) { h.Set("Expect", "100-continue"); r.SetBodyString("b") }),
		"trailers":            to("POST", "http://h/p", func(r request, h requestHead) { r.SetBodyString("b"); h.SetTrailer("X-T"); h.Set("X-T", "v") }),
		"trailers, stream": to("POST", "http://h/p", func(r request, h requestHead) {
			r.SetBodyStream(stream("b"), -1)
			h.SetTrailer("X-T")
			h.Set("X-T", "v")
		}),
		"trailers, 1.0": to("POST", "http://h/p", func(r request, h requestHead) {
			h.SetProtocol("HTTP/1.0")
			r.SetBodyString("b")
			h.SetTrailer("X-T")
		}),
		"trailers, no body": to("GET", "http://h/p", func(_ request, h requestHead) { h.SetTrailer("X-T") }),
		"bad port":          to("GET", "http://h:bad/p", nil),
		"type":              to("POST", "http://h/p", func(r request, h requestHead) { h.SetContentType("x/y"); r.SetBodyString("b") }),
	}
	known := differences{
		"Host field, #": "a fragment is never sent (D7)",
		"user, Host":    "user information is never sent in a target (D7)",
		"CONNECT":       "authority form (D8)",
		"GET, length":   "Content-Length is that of the body (D9)",
		"stream, 1.0":   "no chunks in HTTP/1.0 (D1)",
		"bad port":      "an invalid host is an error (messages.md)",
	}
	compare(t, names(cases), known,
		func(name string) string {
			var r fasthttp.Request
			cases[name](&r, &r.Header)
			return written(&r, &r.Header)
		},
		func(name string) string {
			var r sluice.Request
			cases[name](&r, &r.Header)
			return written(&r, &r.Header)
		})
}

// read describes a message that was read, and what it left.
func read(m message, h head, in string, limit int, describe func() string) string {
	br := bufio.NewReader(strings.NewReader(in))
	if err := m.ReadLimitBody(br, limit); err != nil {
		switch {
		case err == io.EOF:
			return "EOF"
		case errors.Is(err, io.ErrUnexpectedEOF):
			return "unexpected EOF"
		case errors.Is(err, sluice.ErrBodyTooLarge), errors.Is(err, fasthttp.ErrBodyTooLarge):
			return "too large"
		}
		return "error"
	}
	rest, _ := io.ReadAll(br)
	return fmt.Sprintf("body=%q rest=%q length=%d trailer=%q %s", m.Body(), rest, h.ContentLength(), h.Peek("X-T"), describe())
}

func TestReadRequest(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: h\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	inputs := []string{
		"", "GET / HTTP/1.1\r\nHost: h\r\n\r\nrest", "GET / HT",
		"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcd",
		head + "\r\nrest", head + "Content-Length: 0\r\n\r\nrest",
		head + "Content-Length: 3\r\n\r\nabcrest", head + "Content-Length: 5\r\n\r\n12345", head + "Content-Length: 6\r\n\r\n123456",
		head + "Content-Length: 3\r\n\r\nab", head + "Content-Length: 3\r\n\r\n",
		head + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
		chunked + "3\r\nabc\r\n0\r\n\r\nrest", chunked + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", chunked + "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
		chunked + "3;ext=1\r\nabc\r\n0\r\n\r\n", chunked + "3\r\nabc\r\n0\r\nX-T: v\r\n\r\nrest",
		chunked, chunked + "3\r\nab", chunked + "3\r\nabc\r\n", chunked + "3\r\nabc\r\n0\r\n",
		chunked + "x\r\nabc\r\n0\r\n\r\n", chunked + "-3\r\nabc\r\n0\r\n\r\n", chunked + "3\r\nabcd\r\n0\r\n\r\n", chunked + "ffffffffffffffffffff\r\n",
		chunked + "3 \r\nabc\r\n0\r\n\r\n", chunked + "3;\x01\r\nabc\r\n0\r\n\r\n",
		chunked + "3;" + strings.Repeat("x", 300) + "\r\nabc\r\n0\r\n\r\n",
	}
	known := differences{
		"GET / HT":                             "a head that is cut off is io.ErrUnexpectedEOF, not io.EOF wrapped (headers)",
		chunked:                                "cut off is io.ErrUnexpectedEOF (D10)",
		chunked + "3\r\nabc\r\n":               "cut off is io.ErrUnexpectedEOF (D10)",
		chunked + "3\r\nabc\r\n0\r\n":          "cut off is io.ErrUnexpectedEOF (D10)",
		chunked + "3 \r\nabc\r\n0\r\n\r\n":     "RFC 9112 section 7.1: nothing between size and line end (D11)",
		chunked + "3;\x01\r\nabc\r\n0\r\n\r\n": "control characters in chunk extensions (D11)",
		chunked + "3;" + strings.Repeat("x", 300) + "\r\nabc\r\n0\r\n\r\n": "chunk extensions are limited (D11)",
	}
	compare(t, inputs, known,
		func(in string) string {
			var r fasthttp.Request
			return read(&r, &r.Header, in, 5, func() string { return fmt.Sprint(r.MayContinue()) })
		},
		func(in string) string {
			var r sluice.Request
			return read(&r, &r.Header, in, 5, func() string { return fmt.Sprint(r.MayContinue()) })
		})
}

func TestReadResponse(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	const chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	const continues = "HTTP/1.1 100 Continue\r\n\r\n"
	inputs := []string{
		"", head + "Content-Length: 3\r\n\r\nabcrest", head + "Content-Length: 6\r\n\r\n123456", head + "Content-Length: 3\r\n\r\nab",
		head + "\r\nabc", head + "\r\n123456", "HTTP/1.0 200 OK\r\n\r\nabc",
		chunked + "3\r\nabc\r\n0\r\nX-T: v\r\n\r\nrest", chunked + "6\r\n123456\r\n0\r\n\r\n", chunked, chunked + "3\r\nabc\r\n", chunked + "3\r\na",
		"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nrest", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nrest",
		"HTTP/1.1 205 Reset Content\r\nContent-Length: 3\r\n\r\nabcrest",
		continues + head + "Content-Length: 3\r\n\r\nabcrest", "HTTP/1.1 101 Switching Protocols\r\n\r\nrest", continues,
		"\r\n" + head + "Content-Length: 3\r\n\r\nabcrest", "\r\n", "HTTP/1.1   200 OK\r\nContent-Length: 3\r\n\r\nabcrest",
		"HTTP/1.1  404\r\nContent-Length: 3\r\n\r\nabcrest", "HTTP/1.1\t200 OK\r\nContent-Length: 3\r\n\r\nabcrest",
		strings.Repeat("\r\n", 4) + head + "Content-Length: 0\r\n\r\n", strings.Repeat("\r\n", 5) + head + "Content-Length: 0\r\n\r\n",
		strings.Repeat(continues, 100) + head + "Content-Length: 0\r\n\r\n", strings.Repeat(continues, 101) + head + "Content-Length: 0\r\n\r\n",
	}
	known := differences{
		chunked:                  "cut off is io.ErrUnexpectedEOF (D10)",
		chunked + "3\r\nabc\r\n": "cut off is io.ErrUnexpectedEOF (D10)",
		continues:                "something was received: io.ErrUnexpectedEOF (D10)",
		strings.Repeat("\r\n", 5) + head + "Content-Length: 0\r\n\r\n": "four are skipped (H24)",
	}
	compare(t, inputs, known,
		func(in string) string {
			var r fasthttp.Response
			return read(&r, &r.Header, in, 5, func() string { return fmt.Sprint(r.StatusCode(), r.ConnectionClose()) })
		},
		func(in string) string {
			var r sluice.Response
			return read(&r, &r.Header, in, 5, func() string { return fmt.Sprint(r.StatusCode(), r.ConnectionClose()) })
		})
}

// A failure is one of a connection, after some bytes.
type failure struct {
	after string
	err   error
}

type timeoutError struct{ error }

func (timeoutError) Timeout() bool { return true }

// TestReadResponseEnds: what is said of a connection that ends within a response
// (3.7).
func TestReadResponseEnds(t *testing.T) {
	broken := errors.New("broken")
	cases := map[string]failure{
		"reset":            {"", broken},
		"end":              {"", io.EOF},
		"time-out":         {"", os.ErrDeadlineExceeded},
		"own time-out":     {"", timeoutError{broken}},
		"line end, end":    {"\r\n", io.EOF},
		"line end, reset":  {"\r\n", broken},
		"half a head, end": {"HTTP/1.1 200", io.EOF},
		"half, time-out":   {"HTTP/1.1 200", os.ErrDeadlineExceeded},
	}
	known := differences{
		"half a head, end": "io.ErrUnexpectedEOF (H25)",
	}
	describe := func(read func(br *bufio.Reader) error, timeout error) func(name string) string {
		return func(name string) string {
			c := cases[name]
			err := read(bufio.NewReader(io.MultiReader(strings.NewReader(c.after), iotest.ErrReader(c.err))))
			return fmt.Sprintf("end %v, cut off %v, time-out %v, deadline %v", errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
				err == timeout, errors.Is(err, os.ErrDeadlineExceeded))
		}
	}
	compare(t, names(cases), known,
		describe(func(br *bufio.Reader) error { return new(fasthttp.Response).Read(br) }, fasthttp.ErrTimeout),
		describe(func(br *bufio.Reader) error { return new(sluice.Response).Read(br) }, sluice.ErrTimeout))
}

func TestDecodeBodies(t *testing.T) {
	plain := strings.Repeat("plain text ", 50)
	gzipped := string(fasthttp.AppendGzipBytes(nil, []byte(plain)))
	inputs := map[string][2]string{ // Content-Encoding and body
		"none":          {"", plain},
		"gzip":          {"gzip", gzipped},
		"ours, gzip":    {"gzip", string(sluice.AppendGzipBytes(nil, []byte(plain)))},
		"deflate":       {"deflate", string(fasthttp.AppendDeflateBytes(nil, []byte(plain)))},
		"ours, deflate": {"deflate", string(sluice.AppendDeflateBytes(nil, []byte(plain)))},
		"br":            {"br", string(fasthttp.AppendBrotliBytes(nil, []byte(plain)))},
		"ours, br":      {"br", string(sluice.AppendBrotliBytes(nil, []byte(plain)))},
		"zstd":          {"zstd", string(fasthttp.AppendZstdBytes(nil, []byte(plain)))},
		"ours, zstd":    {"zstd", string(sluice.AppendZstdBytes(nil, []byte(plain)))},
		"br, junk":      {"br", string(fasthttp.AppendBrotliBytes(nil, []byte(plain))) + "junk"},
		"deflate, junk": {"deflate", string(fasthttp.AppendDeflateBytes(nil, []byte(plain))) + "junk"},
		"gzip, junk":    {"gzip", gzipped + "junk"},
		"gzip, cut":     {"gzip", gzipped[:len(gzipped)-5]},
		"two members":   {"gzip", gzipped + gzipped},
		"not gzip":      {"gzip", plain},
		"unknown":       {"compress", plain},
		"identity":      {"identity", plain},
		"GZIP":          {"GZIP", gzipped},
		"x-gzip":        {"x-gzip", gzipped},
		"empty gzip":    {"gzip", ""},
	}
	known := differences{
		"identity": "identity is no coding (D12)",
		"x-gzip":   "x-gzip is gzip (D12)",
	}
	decoded := func(m message, h head, name string) string {
		h.Set("Content-Encoding", inputs[name][0])
		m.SetBodyString(inputs[name][1])
		got, err := m.BodyUncompressed()
		limited, limitErr := m.BodyGunzipWithLimit(100)
		return result(string(got), err) + result(string(limited), limitErr)
	}
	compare(t, names(inputs), known,
		func(name string) string { var r fasthttp.Response; return decoded(&r, &r.Header, name) },
		func(name string) string { var r sluice.Response; return decoded(&r, &r.Header, name) })
}

func TestWriteGzip(t *testing.T) {
	long := strings.Repeat("abc", 200)
	typed := func(contentType string) func(r response, h responseHead) {
		return func(r response, h responseHead) { h.SetContentType(contentType); r.SetBodyString(long) }
	}
	cases := map[string]func(r response, h responseHead){
		"199":       func(r response, h responseHead) { r.SetBodyString(long[:199]) },
		"200":       func(r response, h responseHead) { r.SetBodyString(long[:200]) },
		"raw":       func(r response, h responseHead) { r.SetBodyRaw([]byte(long)) },
		"stream":    func(r response, h responseHead) { r.SetBodyStream(stream(long), -1) },
		"sized":     func(r response, h responseHead) { r.SetBodyStream(stream(long), len(long)) },
		"small":     func(r response, h responseHead) { r.SetBodyStream(stream("a"), 1) },
		"encoded":   func(r response, h responseHead) { h.Set("Content-Encoding", "br"); r.SetBodyString(long) },
		"Vary":      func(r response, h responseHead) { h.Set("Vary", "Origin"); r.SetBodyString(long) },
		"has Vary":  func(r response, h responseHead) { h.Set("Vary", "Origin, Accept-Encoding"); r.SetBodyString(long) },
		"Vary *":    func(r response, h responseHead) { h.Set("Vary", "*"); r.SetBodyString(long) },
		"partial":   func(r response, h responseHead) { r.SetStatusCode(206); r.SetBodyString(long) },
		"204":       func(r response, h responseHead) { r.SetStatusCode(204); r.SetBodyString(long) },
		"no type":   func(r response, h responseHead) { h.SetNoDefaultContentType(true); r.SetBodyString(long) },
		"text/html": typed("text/html"), "TEXT/HTML": typed("TEXT/HTML"), "application/x": typed("application/x"), "font/x": typed("font/x"),
		"image/svg+xml": typed("image/svg+xml"), "image/x-icon": typed("image/x-icon"), "image/png": typed("image/png"),
		"multipart/form-data": typed("multipart/form-data"), "audio/x": typed("audio/x"), "video/x": typed("video/x"), "x/y": typed("x/y"),
	}
	known := differences{
		"TEXT/HTML": "media types are case-insensitive (D13)",
		"Vary *":    "* includes everything (D13)",
		"partial":   "a part of a representation cannot be compressed (D13)",
		"204":       "nothing to compress, nothing to declare (D13)",
	}
	describe := func(r response, h responseHead) string {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		err := r.WriteGzip(w)
		w.Flush()
		var back fasthttp.Response
		if err == nil {
			err = back.Read(bufio.NewReader(&out))
		}
		plain, decodeErr := back.BodyUncompressed()
		return fmt.Sprintf("%v %q %q chunked=%v %q %v", err, back.Header.ContentEncoding(), h.Peek("Vary"), back.Header.ContentLength() == -1, plain, decodeErr)
	}
	compare(t, names(cases), known,
		func(name string) string {
			var r fasthttp.Response
			cases[name](&r, &r.Header)
			return describe(&r, &r.Header)
		},
		func(name string) string {
			var r sluice.Response
			cases[name](&r, &r.Header)
			return describe(&r, &r.Header)
		})
}

// values is what the two Requests have in common for user values.
type values interface {
	SetUserValue(key, value any)
	SetUserValueBytes(key []byte, value any)
	UserValue(key any) any
	UserValueBytes(key []byte) any
	RemoveUserValue(key any)
	RemoveUserValueBytes(key []byte)
	ResetUserValues()
}

func TestUserValues(t *testing.T) {
	cases := map[string]func(v values){
		"string":         func(v values) { v.SetUserValue("a", 1) },
		"bytes":          func(v values) { v.SetUserValueBytes([]byte("a"), 1) },
		"bytes as any":   func(v values) { v.SetUserValue([]byte("a"), 1) },
		"int":            func(v values) { v.SetUserValue(1, 1) },
		"overwrite":      func(v values) { v.SetUserValue("a", 1); v.SetUserValueBytes([]byte("a"), 2) },
		"nil":            func(v values) { v.SetUserValue("a", nil) },
		"nil over":       func(v values) { v.SetUserValue("a", 1); v.SetUserValue("a", nil) },
		"remove":         func(v values) { v.SetUserValue("a", 1); v.SetUserValue(1, 2); v.RemoveUserValue("a") },
		"remove bytes":   func(v values) { v.SetUserValue("a", 1); v.RemoveUserValueBytes([]byte("a")) },
		"remove missing": func(v values) { v.SetUserValue("a", 1); v.RemoveUserValue("b") },
		"reset":          func(v values) { v.SetUserValue("a", 1); v.ResetUserValues() },
	}
	describe := func(v values) string {
		return fmt.Sprint(v.UserValue("a"), v.UserValueBytes([]byte("a")), v.UserValue([]byte("a")), v.UserValue(1))
	}
	compare(t, names(cases), nil,
		func(name string) string { var r fasthttp.Request; cases[name](&r); return describe(&r) },
		func(name string) string { var r sluice.Request; cases[name](&r); return describe(&r) })
}
