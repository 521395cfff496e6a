package difftest

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/fasthttputil"
	"github.com/valyala/fasthttp"
	theirutil "github.com/valyala/fasthttp/fasthttputil"
)

// trailersOf describes what a script's calls returned, the head without what
// every response has, and the trailer section.
func trailersOf(script string, request, response common) string {
	h := request
	if script[0] == 'R' {
		h = response
	}
	var returned, fields []string
	for _, step := range strings.Split(script[2:], " | ") {
		returned = append(returned, call(h, step))
	}
	h.VisitAll(func(key, value []byte) {
		if string(key) != "Content-Type" {
			fields = append(fields, fmt.Sprintf("%s=%s", key, value))
		}
	})
	section := strings.ReplaceAll(strings.TrimRight(string(h.TrailerHeader()), "\r\n"), "\r\n", ", ")
	return strings.Join(returned, " ") + " # " + strings.Join(fields, " ") + " # " + section
}

// chunkedHead is the beginning of a script that reads a head and a trailer
// section: X came in the head, X-Both in both, X-Sent in the trailer section.
const (
	chunkedRequest  = `Q Read("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX: 1\r\nX-Both: head\r\nTrailer: X-Both\r\n\r\n") | ` + readTrailer
	chunkedResponse = `R Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: 1\r\nX-Both: head\r\nTrailer: X-Both\r\n\r\n") | ` + readTrailer
	readTrailer     = `ReadTrailer("X-Both: trailer\r\nX-Sent: 1\r\nX-Sent: 2\r\n\r\n")`
)

// trailerRows are scripts as those of TestHeaders, and what comes of them. Those
// with the number of a row of docs/compatibility.md differ from fasthttp.
var trailerRows = []struct{ row, script, want string }{
	{"", chunkedRequest + ` | Len() | PeekKeys() | PeekTrailerKeys() | Peek(X-Sent) | PeekAll(X-Sent) | PeekAll(X-Both) | Peek(X-Both)`,
		`<nil> <nil> 5 ["Host" "Trailer" "Transfer-Encoding" "X" "X-Both"] ["X-Both" "X-Sent"] "1" ["1" "2"] ["head" "trailer"] "head" # Host=h Trailer=X-Both, X-Sent Transfer-Encoding=chunked X=1 X-Both=head # X-Both: trailer, X-Sent: 1, X-Sent: 2`},
	{"", chunkedResponse + ` | Len() | PeekKeys() | PeekTrailerKeys() | Peek(X-Sent) | PeekAll(X-Sent) | PeekAll(X-Both) | Peek(X-Both)`,
		`<nil> <nil> 5 ["Content-Type" "Trailer" "Transfer-Encoding" "X" "X-Both"] ["X-Both" "X-Sent"] "1" ["1" "2"] ["head" "trailer"] "head" # Trailer=X-Both, X-Sent Transfer-Encoding=chunked X=1 X-Both=head # X-Both: trailer, X-Sent: 1, X-Sent: 2`},
	{"", chunkedRequest + ` | Del(X-Both) | Del(x-sent) | Peek(X-Both) | Peek(X-Sent)`,
		`<nil> <nil>   "" "" # Host=h Trailer=X-Both, X-Sent Transfer-Encoding=chunked X=1 # `},
	{"", `R SetTrailer(foo) | Set(foo, 1) | Set(bar, 2) | Len()`,
		`<nil>   3 # Trailer=Foo Bar=2 # Foo: 1`},
	{"", `Q SetTrailer("foo, user-agent, referer") | Set(foo, 1) | Add(foo, 2) | SetUserAgent(u) | SetReferer(r)`,
		`<nil>     # Trailer=Foo, User-Agent, Referer # Foo: 1, Foo: 2, User-Agent: u, Referer: r`},
	{"", `Q SetTrailer(user-agent) | Add(User-Agent, 1) | Add(User-Agent, 2) | UserAgent()`,
		`<nil>   "1" # Trailer=User-Agent # User-Agent: 1, User-Agent: 2`},
	{"", `R SetTrailer("server, date, foo, last-modified") | SetServer(s) | Set(Date, d) | Set(foo, "") | Set(last-modified, m)`,
		`<nil>     # Trailer=Server, Date, Foo, Last-Modified # Server: s, Date: d, Foo: , Last-Modified: m`},
	{"", `R SetTrailer(foo)`,
		`<nil> # Trailer=Foo # `},
	{"", `R SetTrailer(server) | SetServer("") | Server()`,
		`<nil>  "" # Trailer=Server # Server: `},
	{"", `Q SetUserAgent(h) | PeekAll(User-Agent) | SetTrailer(user-agent) | UserAgent() | PeekAll(User-Agent)`,
		` ["h"] <nil> "h" ["h"] # Trailer=User-Agent # User-Agent: h`},
	{"", `Q Read("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: head\r\nTrailer: user-agent\r\n\r\n") | SetUserAgent(trailer) | UserAgent() | Peek(User-Agent) | PeekAll(User-Agent)`,
		`<nil>  "head" "head" ["head" "trailer"] # Host=h User-Agent=head Trailer=User-Agent # User-Agent: trailer`},
	{"", `Q Read("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent:\r\nTrailer: user-agent\r\n\r\n") | SetUserAgent(trailer) | UserAgent() | Peek(User-Agent) | PeekAll(User-Agent)`,
		`<nil>  "" "" ["trailer"] # Host=h Trailer=User-Agent # User-Agent: trailer`},
	{"", `R Read("HTTP/1.1 200 OK\r\nServer: head\r\nContent-Length: 0\r\nTrailer: Server\r\n\r\n") | SetServer(trailer) | Server() | PeekAll(Server)`,
		`<nil>  "head" ["head" "trailer"] # Content-Length=0 Server=head Trailer=Server # Server: trailer`},
	{"", `R SetTrailer(server) | Add(Server, 1) | Add(Server, 2) | Server() | Peek(Server) | PeekAll(Server)`,
		`<nil>   "1" "1" ["1" "2"] # Trailer=Server # Server: 1, Server: 2`},
	{"", `Q AddTrailer(a) | Add(Trailer, "b, A") | Add(Trailer, b)`,
		`<nil>   # Trailer=A, B # `},
	{"", `Q Set(a, 1) | Add(a, 2) | SetTrailer(a) | Set(b, 3) | SetTrailer(b)`,
		`  <nil>  <nil> # Trailer=B A=1 A=2 # B: 3`},
	{"", `R SetTrailer("a, b") | Set(a, 1) | Set(b, 2) | Add(a, 3) | Set(Trailer, "b, c") | Set(c, 4)`,
		`<nil>      # Trailer=B, C A=1 A=3 # B: 2, C: 4`},
	{"", `R SetTrailer("a, b") | Set(a, 1) | Set(b, 2) | Add(a, 3) | Del(Trailer)`,
		`<nil>     # A=1 B=2 A=3 # `},
	{"", `Q SetTrailer(a) | Set(a, 1) | Add(Trailer, host) | Set(Trailer, content-length) | SetTrailer("host, te")`,
		`<nil>    error # A=1 # `},
	{"", `Q SetTrailer(a) | Set(a, 1) | SetTrailer("host, b, a")`,
		`<nil>  error # Trailer=A, B # A: 1`},
	{"H20", chunkedRequest + ` | Set(X-Both, set) | Add(X-Both, added) | SetTrailer(X-Both) | PeekAll(X-Both)`,
		`<nil> <nil>   <nil> ["set" "added"] # Host=h Trailer=X-Both Transfer-Encoding=chunked X=1 # X-Both: set, X-Sent: 1, X-Sent: 2, X-Both: added`},
	{"H20", chunkedResponse + ` | Set(X-Both, set) | Add(X-Both, added) | SetTrailer("X-Sent, X-Both") | PeekAll(X-Both)`,
		`<nil> <nil>   <nil> ["set" "added"] # Trailer=X-Sent, X-Both Transfer-Encoding=chunked X=1 # X-Both: set, X-Sent: 1, X-Sent: 2, X-Both: added`},
	{"", `R SetTrailer("") | Set(Foo, 1) | TrailerHeader()`,
		`<nil>  "\r\n" # Foo=1 # `},
	{"", `Q SetTrailer("foo, Content-Length, bar") | PeekTrailerKeys() | Peek(Trailer)`,
		`error ["Foo" "Bar"] "Foo, Bar" # Trailer=Foo, Bar # `},
	{"", `R Set(Trailer, "foo, bar") | Del(Trailer) | Peek(Trailer) | TrailerHeader()`,
		`  "" "\r\n" #  # `},
	{"", `R Set(Trailer, "foo, bar") | Set(Trailer, bar) | Peek(Trailer) | Reset() | PeekTrailerKeys()`,
		`  "Bar"  [] #  # `},
	// Connection fields, and requests without special fields.
	{"", `Q Set(Connection, "close, upgrade") | ConnectionUpgrade() | Header()`,
		` false "GET / HTTP/1.1\r\nConnection: close, upgrade\r\n\r\n" # Connection=close, upgrade # `},
	{"", `Q DisableSpecialHeader() | SetProtocol(HTTP/1.0) | SetConnectionClose() | Header()`,
		`false   "GET / HTTP/1.0\r\n\r\n" # Connection=close # `},
}

// TestTrailers compares what setters and getters of trailer fields do.
func TestTrailers(t *testing.T) {
	for _, r := range trailerRows {
		theirs := trailersOf(r.script, new(fasthttp.RequestHeader), new(fasthttp.ResponseHeader))
		ours := trailersOf(r.script, new(sluice.RequestHeader), new(sluice.ResponseHeader))
		if ours != r.want {
			t.Errorf("%s %s\ngot  %s\nwant %s", r.row, r.script, ours, r.want)
		}
		if differs := theirs != r.want; differs != (r.row != "") {
			t.Errorf("%s %s\nfasthttp: %s\nwant:     %s", r.row, r.script, theirs, r.want)
		}
	}
}

// TestTrailersOfSkippedBodies: with SkipBody, trailers leave the length alone.
func TestTrailersOfSkippedBodies(t *testing.T) {
	compare(t, []string{"buffered", "sized"}, nil,
		func(kind string) string {
			r := fasthttp.Response{SkipBody: true}
			return skipped(kind, &r, &r.Header)
		},
		func(kind string) string {
			r := sluice.Response{SkipBody: true}
			return skipped(kind, &r, &r.Header)
		})
}

func skipped(kind string, r response, h responseHead) string {
	h.SetTrailer("X-T")
	if kind == "sized" {
		r.SetBodyStream(stream("body"), 4)
	} else {
		r.SetBodyString("body")
	}
	return written(r, h)
}

// trailerContext is what both sides' RequestCtx have in common, with the heads
// beside it.
type trailerContext struct {
	io.Writer
	request, response common
	setBodyStream     func(r io.Reader, size int)
}

// answerWithTrailers writes what can be seen of a request, and answers as its
// X-Answer field says.
func answerWithTrailers(ctx trailerContext) {
	h := ctx.response
	peek := func(name string) string { return call(ctx.request, "Peek("+name+")") }
	switch answer := peek("X-Answer"); answer {
	case `"buffered"`, `"sized"`, `"unset"`:
		call(h, `SetTrailer("X-T, server")`)
		if answer != `"unset"` {
			call(h, "Set(X-T, 1)")
			call(h, "SetServer(me)")
		}
		if answer == `"sized"` {
			ctx.setBodyStream(strings.NewReader("body"), 4)
		} else {
			io.WriteString(ctx, "body")
		}
	default:
		ctx.request.VisitAll(func(key, value []byte) { fmt.Fprintf(ctx, "%s=%s ", key, value) })
		fmt.Fprintf(ctx, "# %s %s", peek("X-Sent"), peek("X-Both"))
	}
}

// trailerRequests are what is sent, and what comes back; fasthttp answers those
// with the number of a row of docs/compatibility.md in another way.
func trailerRequests() []struct{ row, request, want string } {
	const body = "Trailer: X-Both\r\n\r\n2\r\nab\r\n0\r\nX-Both: trailer\r\nX-Sent: 1\r\n\r\n"
	const echoed = "Host=h Trailer=X-Both, X-Sent Transfer-Encoding=chunked X-Both=head Connection=close # \"1\" \"head\""
	const head = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/plain; charset=utf-8\r\n"
	const trailer, end = "Trailer: X-T, Server\r\n", "Connection: close\r\n\r\n"
	const chunks = "4\r\nbody\r\n0\r\n"
	ask := func(method, version, answer string) string {
		return method + " / " + version + "\r\nHost: h\r\nX-Answer: " + answer + "\r\nConnection: close\r\n\r\n"
	}
	return []struct{ row, request, want string }{
		{"", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nX-Both: head\r\nConnection: close\r\n" + body,
			fmt.Sprintf("%sContent-Length: %d\r\n%s%s", head, len(echoed), end, echoed)},
		{"", ask("GET", "HTTP/1.1", "buffered"), head + "Transfer-Encoding: chunked\r\n" + trailer + end + chunks + "X-T: 1\r\nServer: me\r\n\r\n"},
		{"D6", ask("GET", "HTTP/1.1", "sized"), head + "Transfer-Encoding: chunked\r\n" + trailer + end + chunks + "X-T: 1\r\nServer: me\r\n\r\n"},
		{"", ask("GET", "HTTP/1.1", "unset"), head + "Transfer-Encoding: chunked\r\n" + trailer + end + chunks + "\r\n"},
		{"", ask("HEAD", "HTTP/1.1", "buffered"), head + "Content-Length: 4\r\n" + trailer + end},
		{"", ask("HEAD", "HTTP/1.1", "unset"), head + "Content-Length: 4\r\n" + trailer + end},
		{"", ask("GET", "HTTP/1.0", "buffered"), head + "Content-Length: 4\r\n" + trailer + end + "body"},
		{"", ask("GET", "HTTP/1.0", "unset"), head + "Content-Length: 4\r\n" + trailer + end + "body"},
	}
}

// TestTrailersOverConnections sends requests and compares the answers, in memory
// and over TCP, with each engine.
func TestTrailersOverConnections(t *testing.T) {
	listen := func() net.Listener {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}
	dialTCP := func(ln net.Listener) func() (net.Conn, error) {
		return func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }
	}
	theirMemory, ourMemory := theirutil.NewInmemoryListener(), fasthttputil.NewInmemoryListener()
	theirTCP, epoll, perConn := listen(), listen(), listen()
	serveTheirs(t, theirMemory, theirHandler)
	serveTheirs(t, theirTCP, theirHandler)
	for ln, engine := range map[net.Listener]sluice.Engine{ourMemory: sluice.EngineAuto, epoll: sluice.EngineAuto, perConn: sluice.EnginePerConn} {
		server := &sluice.Server{Handler: ourHandler, Name: "x", NoDefaultDate: true, Logger: silent{}, Engine: engine}
		go server.Serve(ln)
		t.Cleanup(func() { server.Shutdown() })
	}
	for _, r := range trailerRequests() {
		for name, dial := range map[string]func() (net.Conn, error){"memory": ourMemory.Dial, "TCP": dialTCP(epoll), "TCP, a goroutine each": dialTCP(perConn)} {
			if got := exchange(dial, r.request); got != r.want {
				t.Errorf("%s, %s %q\ngot  %q\nwant %q", r.row, name, r.request, got, r.want)
			}
		}
		for name, dial := range map[string]func() (net.Conn, error){"memory": theirMemory.Dial, "TCP": dialTCP(theirTCP)} {
			if got := exchange(dial, r.request); (got != r.want) != (r.row != "") {
				t.Errorf("%s, %s %q\nfasthttp: %q\nwant:     %q", r.row, name, r.request, got, r.want)
			}
		}
	}
}

func theirHandler(ctx *fasthttp.RequestCtx) {
	answerWithTrailers(trailerContext{ctx, &ctx.Request.Header, &ctx.Response.Header, ctx.SetBodyStream})
}

func ourHandler(ctx *sluice.RequestCtx) {
	answerWithTrailers(trailerContext{ctx, &ctx.Request.Header, &ctx.Response.Header, ctx.SetBodyStream})
}

// exchange sends a request and returns everything that comes back.
func exchange(dial func() (net.Conn, error), request string) string {
	conn, err := dial()
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second)) // only reached when a test fails
	if _, err := io.WriteString(conn, request); err != nil {
		return err.Error()
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(got)
}
