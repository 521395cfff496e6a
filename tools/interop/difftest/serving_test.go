package difftest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// handled is what handlers of both libraries have in common.
type handled struct {
	ctx
	header   servedHead
	hijack   func(handler func(net.Conn))
	shutdown func()
}

type ctx interface {
	context.Context
	HijackSetNoResponse(bool)
	SetConnectionClose()
	SetBodyStream(io.Reader, int)
	SetStatusCode(int)
	SetBodyString(string)
	Error(string, int)
	TimeoutError(string)
	TimeoutErrorWithCode(string, int)
	RequestBodyStream() io.Reader
	Path() []byte
	SetUserValue(key, value any)
}

type servedHead interface {
	Server() []byte
	SetServer(string)
	Peek(string) []byte
	Len() int
	Add(string, string)
	Del(string)
	Reset()
	String() string
	VisitAll(func(key, value []byte))
}

// settings are those of a server.
type settings struct {
	closeOnShutdown, disableKeepalive bool
	maxRequests                       int
	streamBody                        bool
	name                              string
	expect                            func(servedHead) // of ExpectHandler
}

// A server is one of the libraries'.
type server interface {
	Serve(net.Listener) error
	ServeConn(net.Conn) error
	Shutdown() error
}

func newTheirs(s settings, handler func(handled)) server {
	server := &fasthttp.Server{NoDefaultServerHeader: true, Logger: silent{}, CloseOnShutdown: s.closeOnShutdown,
		DisableKeepalive: s.disableKeepalive, MaxRequestsPerConn: s.maxRequests, StreamRequestBody: s.streamBody, Name: s.name}
	if s.expect != nil {
		server.ExpectHandler = func(ctx *fasthttp.RequestCtx) int { s.expect(&ctx.Response.Header); return 100 }
	}
	server.Handler = func(ctx *fasthttp.RequestCtx) {
		handler(handled{ctx, &ctx.Response.Header, func(h func(net.Conn)) { ctx.Hijack(h) }, begin(ctx, server)})
	}
	return server
}

func newOurs(s settings, handler func(handled)) server {
	server := &sluice.Server{NoDefaultServerHeader: true, Logger: silent{}, CloseOnShutdown: s.closeOnShutdown,
		DisableKeepalive: s.disableKeepalive, MaxRequestsPerConn: s.maxRequests, StreamRequestBody: s.streamBody, Name: s.name}
	if s.expect != nil {
		server.ExpectHandler = func(ctx *sluice.RequestCtx) int { s.expect(&ctx.Response.Header); return 100 }
	}
	server.Handler = func(ctx *sluice.RequestCtx) {
		handler(handled{ctx, &ctx.Response.Header, func(h func(net.Conn)) { ctx.Hijack(h) }, begin(ctx, server)})
	}
	return server
}

// begin returns a function that begins the shutdown of a server.
func begin(ctx context.Context, s server) func() {
	return func() {
		go func() { _ = s.Shutdown() }()
		<-ctx.Done()
	}
}

// answersOf sends a request to a server and returns all that comes back, without
// Date fields.
func answersOf(t *testing.T, s server, request string) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	defer ln.Close()
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		return "error"
	}
	answers := strings.TrimPrefix(dateLine.ReplaceAllString(string(raw), ""), "HTTP/1.1 100 Continue\r\n\r\n") // S29
	return strings.ReplaceAll(answers, "fasthttp", "sluice")                                                   // S31
}

// patience bounds what a test waits for. It is only reached when a test fails.
const patience = 20 * time.Second

// A servingRow is a handler, a request, and what comes back where that is not
// what fasthttp sends.
type servingRow struct {
	settings settings
	request  string
	handler  func(h handled)
	want     string
}

// runServing compares what comes of rows.
func runServing(t *testing.T, rows map[string]servingRow) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			theirs := answersOf(t, newTheirs(row.settings, row.handler), row.request)
			ours := answersOf(t, newOurs(row.settings, row.handler), row.request)
			switch {
			case row.want == "" && ours != theirs:
				t.Errorf("\nfasthttp: %.400q\nsluice:   %.400q", theirs, ours)
			case row.want != "" && ours != row.want:
				t.Errorf("\nsluice: %.400q\nwant    %.400q", ours, row.want)
			case row.want != "" && theirs == row.want:
				t.Errorf("no longer differs: %.400q", ours)
			}
		})
	}
}

const (
	plainGet   = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	closingGet = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	oldGet     = "GET / HTTP/1.0\r\nHost: h\r\n\r\n"
	keptGet    = "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"
)

// TestHijack compares which requests are hijacked (1.6).
func TestHijack(t *testing.T) {
	hijack := func(more func(handled)) func(handled) {
		return func(h handled) {
			h.hijack(func(c net.Conn) { _, _ = io.WriteString(c, "<hijacked>") })
			more(h)
		}
	}
	answers := hijack(func(handled) {})
	switches := hijack(func(h handled) { h.SetStatusCode(101) })
	silent := hijack(func(h handled) { h.HijackSetNoResponse(true) })
	reads := func(h handled) {
		h.SetUserValue("key", "value")
		h.SetUserValue("closer", closerFunc(func() { h.SetUserValue("key", "closed") }))
		h.hijack(func(c net.Conn) { _, _ = fmt.Fprint(c, h.Value("key")) })
	}
	closes := hijack(func(h handled) { h.SetConnectionClose() })
	shuts := hijack(func(h handled) { h.shutdown() })
	streams := func(r func(string) io.Reader, size int) func(handled) {
		return hijack(func(h handled) { h.SetBodyStream(r("x"), size) })
	}
	runServing(t, map[string]servingRow{
		"request":                 {request: plainGet, handler: answers},
		"context":                 {request: plainGet, handler: reads},
		"last request":            {request: closingGet, handler: answers},
		"last request, 101":       {request: closingGet, handler: switches},
		"last request, silent":    {request: closingGet, handler: silent},
		"last request of several": {request: strings.Replace(closingGet, "close", "upgrade, close", 1), handler: switches},
		"1.0":                     {request: oldGet, handler: answers},
		"1.0, 101":                {request: oldGet, handler: switches},
		"1.0, silent":             {request: oldGet, handler: silent},
		"1.0, kept":               {request: keptGet, handler: answers},
		"last response":           {request: plainGet, handler: closes},
		"last response, silent":   {request: plainGet, handler: hijack(func(h handled) { h.SetConnectionClose(); h.HijackSetNoResponse(true) })},
		"no keep-alive":           {settings: settings{disableKeepalive: true}, request: plainGet, handler: answers},
		"no keep-alive, silent":   {settings: settings{disableKeepalive: true}, request: plainGet, handler: silent},
		"last of its number":      {settings: settings{maxRequests: 1}, request: plainGet, handler: answers},
		"shutdown":                {request: plainGet, handler: shuts},
		"shutdown closes":         {settings: settings{closeOnShutdown: true}, request: plainGet, handler: shuts},
		"shutdown closes, silent": {settings: settings{closeOnShutdown: true}, request: plainGet, handler: hijack(func(h handled) { h.shutdown(); h.HijackSetNoResponse(true) })},
		"stream":                  {request: plainGet, handler: streams(stream, 1)},
		"broken stream":           {request: plainGet, handler: streams(broken, -1)},
		"broken stream, S35": {request: plainGet, handler: streams(broken, 2),
			want: "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\nx"},
		"stream, 1.0, S34": {request: keptGet, handler: streams(stream, -1),
			want: "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nx"},
	})
}

// TestServerField compares what handlers see of the server's name (1.4).
func TestServerField(t *testing.T) {
	const expecting = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	rows := map[string]servingRow{}
	for name, change := range map[string]func(h handled){
		"as it comes": func(handled) {},
		"Del":         func(h handled) { h.header.Del("server") },
		"set":         func(h handled) { h.header.SetServer("x") },
		"empty":       func(h handled) { h.header.SetServer("") },
		"Add":         func(h handled) { h.header.Add("Server", "x") },
		"set and Del": func(h handled) { h.header.SetServer("x"); h.header.Del("Server") },
		"Reset":       func(h handled) { h.header.Reset() },
		"Error":       func(h handled) { h.Error("x", 200) },
	} {
		for _, serverName := range []string{"", "own"} {
			expected := ""
			rows[name+", named "+serverName] = servingRow{
				settings: settings{name: serverName, expect: func(h servedHead) {
					expected = string(h.Server())
					h.SetServer("of ExpectHandler")
				}},
				request: strings.Replace(expecting, "Content-Length: 0", "Expect: 100-continue\r\nContent-Length: 1", 1) + "x",
				handler: func(h handled) {
					change(h)
					h.SetBodyString(fmt.Sprintf("%q then %q %q %d %v", expected, h.header.Server(), h.header.Peek("Server"), h.header.Len(),
						strings.Contains(h.header.String(), "Server: ")))
				},
			}
		}
	}
	runServing(t, rows)
}

// TestTimeoutErrors compares which of several time-outs is answered (1.10).
func TestTimeoutErrors(t *testing.T) {
	runServing(t, map[string]servingRow{
		"two":                {request: closingGet, handler: func(h handled) { h.TimeoutErrorWithCode("first", 503); h.TimeoutError("second") }},
		"two, the other way": {request: closingGet, handler: func(h handled) { h.TimeoutError("first"); h.TimeoutErrorWithCode("second", 503) }},
		"before a response":  {request: closingGet, handler: func(h handled) { h.TimeoutError("first"); h.SetStatusCode(200); h.SetBodyString("x") }},
	})
}

// TestResponseThatReadsTheRequest compares what becomes of connections on which a
// response's stream reads the request's body (1.2).
func TestResponseThatReadsTheRequest(t *testing.T) {
	const size = 1 << 20
	echoes := func(length int) func(handled) {
		return func(h handled) {
			if string(h.Path()) == "/" {
				h.SetBodyStream(io.LimitReader(h.RequestBodyStream(), int64(length)), length)
			}
		}
	}
	request := fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)) +
		strings.Replace(closingGet, "/", "/next", 1)
	streams := settings{streamBody: true}
	runServing(t, map[string]servingRow{
		"all":  {settings: streams, request: request, handler: echoes(size)},
		"most": {settings: streams, request: request, handler: echoes(size - 1000)},
	})
}

// cannedConn is a connection whose peer has sent everything. Reading goes on
// with an error.
type cannedConn struct {
	net.Conn
	in         *strings.Reader
	end, write error
}

func (c *cannedConn) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	if err == io.EOF && c.end != nil {
		err = c.end
	}
	return n, err
}

func (c *cannedConn) Write(p []byte) (int, error) {
	if c.write != nil {
		return 0, c.write
	}
	return len(p), nil
}

func (c *cannedConn) Close() error         { return nil }
func (c *cannedConn) LocalAddr() net.Addr  { return &net.TCPAddr{} }
func (c *cannedConn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// TestServeConnErrors compares the errors of ServeConn (1.3), on a connection
// without deadlines (1.1).
func TestServeConnErrors(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: h\r\n"
	reset := errors.New("reset")
	known := []error{io.EOF, io.ErrUnexpectedEOF, os.ErrDeadlineExceeded, reset}
	describe := func(err error, isSmall bool) string {
		text := fmt.Sprint(err != nil, isSmall)
		for _, one := range known {
			text += fmt.Sprint(" ", errors.Is(err, one))
		}
		return text
	}
	const truncated = "H25"
	for _, row := range []struct {
		in, differs string
		end, write  error
	}{
		{in: ""},
		{in: "", end: os.ErrDeadlineExceeded},
		{in: "", end: reset},
		{in: plainGet},
		{in: plainGet, end: os.ErrDeadlineExceeded},
		{in: plainGet, write: reset},
		{in: "GE", differs: truncated},
		{in: "GE", end: os.ErrDeadlineExceeded},
		{in: "GE", end: reset},
		{in: plainGet + "GE", end: os.ErrDeadlineExceeded},
		{in: post + "Content-Length: 5\r\n\r\nab"},
		{in: post + "Content-Length: 5\r\n\r\nab", end: os.ErrDeadlineExceeded},
		{in: post + "Content-Length: 5\r\n\r\nab", end: reset},
		{in: post + "Transfer-Encoding: chunked\r\n\r\n5\r\nab"},
		{in: post + "X: " + strings.Repeat("x", 5000) + "\r\n\r\n"},
		{in: "GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\n\r\n"},
		{in: "nonsense\r\n\r\n"},
	} {
		conn := func() net.Conn { return &cannedConn{in: strings.NewReader(row.in), end: row.end, write: row.write} }
		theirs := &fasthttp.Server{Logger: silent{}, Handler: func(*fasthttp.RequestCtx) {}}
		ours := &sluice.Server{Logger: silent{}, ReadBufferSize: 4096, Handler: func(*sluice.RequestCtx) {}}
		theirErr, ourErr := theirs.ServeConn(conn()), ours.ServeConn(conn())
		var theirSmall *fasthttp.ErrSmallBuffer
		var ourSmall *sluice.ErrSmallBuffer
		want, got := describe(theirErr, errors.As(theirErr, &theirSmall)), describe(ourErr, errors.As(ourErr, &ourSmall))
		if (want != got) != (row.differs != "") {
			t.Errorf("%.60q, %v, %v %s:\nfasthttp: %s, %v\nsluice:   %s, %v", row.in, row.end, row.write, row.differs, want, theirErr, got, ourErr)
		}
	}
}

// TestStreamedBodies compares what is sent for HEAD, and after a request with a
// malformed body that the handler did not read.
func TestStreamedBodies(t *testing.T) {
	const head = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n" + closingGet
	rows := map[string]servingRow{}
	for _, size := range []int{-1, 3} {
		rows[fmt.Sprint("HEAD ", size)] = servingRow{request: head, handler: func(h handled) { h.SetBodyStream(stream("abc"), size) }}
	}
	for name, body := range map[string]string{
		"size": "zz\r\n", "second size": "1\r\nx\r\nzz\r\n", "long": strings.Repeat("1000\r\n"+strings.Repeat("x", 4096)+"\r\n", 20) + "zz\r\n",
	} {
		rows["malformed "+name] = servingRow{settings: settings{streamBody: true}, request: chunkedHead + body, handler: func(h handled) { h.SetBodyString("x") }}
	}
	runServing(t, rows)
}

// closerFunc is an io.Closer.
type closerFunc func()

func (f closerFunc) Close() error { f(); return nil }

// TestUserValuesSeeTheResponse compares what the Close of user values sees of the
// response (1.5).
func TestUserValuesSeeTheResponse(t *testing.T) {
	for _, request := range []string{plainGet, closingGet, oldGet, keptGet} {
		for name, act := range map[string]func(h handled){
			"body":   func(h handled) { h.SetBodyString("x") },
			"empty":  func(handled) {},
			"close":  func(h handled) { h.SetConnectionClose() },
			"stream": func(h handled) { h.SetBodyStream(stream("x"), -1) },
			"Del":    func(h handled) { h.header.Del("Server") },
		} {
			if request == keptGet && name == "stream" {
				continue // S34
			}
			seen := ""
			handler := func(h handled) {
				act(h)
				h.SetUserValue("k", closerFunc(func() {
					seen = dateLine.ReplaceAllString(h.header.String(), "")
					h.header.VisitAll(func(key, value []byte) { seen += fmt.Sprintf("%s=%s ", key, value) })
				}))
			}
			s := settings{name: "own"}
			_ = newTheirs(s, handler).ServeConn(&cannedConn{in: strings.NewReader(request)})
			theirs := seen
			seen = ""
			_ = newOurs(s, handler).ServeConn(&cannedConn{in: strings.NewReader(request)})
			if seen != theirs {
				t.Errorf("%q, %s:\nfasthttp: %q\nsluice:   %q", request, name, theirs, seen)
			}
		}
	}
}

// TestCompressHandlerSizes compares which bodies are encoded (1.8).
func TestCompressHandlerSizes(t *testing.T) {
	request := strings.Replace(closingGet, "\r\n\r\n", "\r\nAccept-Encoding: gzip\r\n\r\n", 1)
	isEncoded := func(s server) bool {
		return strings.Contains(answersOf(t, s, request), "\r\nContent-Encoding: gzip\r\n")
	}
	for _, size := range []int{1, 199, 200} {
		text := strings.Repeat("x", size)
		for name, act := range map[string]func(h handled){
			"body":           func(h handled) { h.SetBodyString(text) },
			"stream":         func(h handled) { h.SetBodyStream(stream(text), size) },
			"unknown stream": func(h handled) { h.SetBodyStream(stream(text), -1) },
		} {
			theirs := &fasthttp.Server{Logger: silent{}, Handler: fasthttp.CompressHandler(func(ctx *fasthttp.RequestCtx) { act(handled{ctx: ctx}) })}
			ours := &sluice.Server{Logger: silent{}, Handler: sluice.CompressHandler(func(ctx *sluice.RequestCtx) { act(handled{ctx: ctx}) })}
			if want, got := isEncoded(theirs), isEncoded(ours); got != want {
				t.Errorf("%s of %d bytes: fasthttp %v, sluice %v", name, size, want, got)
			}
		}
	}
}
