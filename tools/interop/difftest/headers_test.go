package difftest

import (
	"bufio"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// The scripts of TestHeaders are calls on a request header ("Q ") or response
// header ("R "), separated by " | ". Arguments are words or quoted strings.
// docs/compatibility.md explains the differences by their numbers.

// common is what both sides' headers have in common and describeHeader shows.
type common interface {
	VisitAll(f func(key, value []byte))
	VisitAllCookie(f func(key, value []byte))
	VisitAllTrailer(f func(value []byte))
	Len() int
	String() string
	TrailerHeader() []byte
	PeekKeys() [][]byte
	ContentLength() int
	ConnectionClose() bool
	ConnectionUpgrade() bool
	ContentType() []byte
}

var presentDate = regexp.MustCompile(`Date: [A-Z][a-z]{2}, [^\r]* GMT`)

// describeHeader writes down all that can be seen of a header.
func describeHeader(h common) string {
	var b strings.Builder
	pair := func(key, value []byte) { fmt.Fprintf(&b, " %q=%q", key, value) }
	fmt.Fprintf(&b, "\n wire %q\n %d fields", presentDate.ReplaceAllString(h.String(), "Date: now"), h.Len())
	h.VisitAll(pair)
	b.WriteString("\n cookies")
	h.VisitAllCookie(pair)
	fmt.Fprintf(&b, "\n keys %q\n trailers", h.PeekKeys())
	h.VisitAllTrailer(func(value []byte) { fmt.Fprintf(&b, " %q", value) })
	fmt.Fprintf(&b, " as %q\n length %d, close %v, upgrade %v, type %q", h.TrailerHeader(),
		h.ContentLength(), h.ConnectionClose(), h.ConnectionUpgrade(), h.ContentType())
	if ordered, ok := h.(interface{ VisitAllInOrder(func(key, value []byte)) }); ok {
		b.WriteString("\n in order")
		ordered.VisitAllInOrder(pair)
	}
	return b.String()
}

// runScript makes the calls of a script and describes what they returned and
// what became of the header.
func runScript(script string, request, response common) string {
	h := request
	if script[0] == 'R' {
		h = response
	}
	var b strings.Builder
	for _, step := range strings.Split(script[2:], " | ") {
		fmt.Fprintf(&b, "%s ", call(h, step))
	}
	return presentDate.ReplaceAllString(b.String(), "Date: now") + describeHeader(h)
}

// call makes one call, for example Set(Host, a), and describes what it
// returned.
func call(h any, step string) string {
	name, list, _ := strings.Cut(strings.TrimSuffix(step, ")"), "(")
	method := reflect.ValueOf(h).MethodByName(name)
	var in []reflect.Value
	for i, word := range splitArguments(list) {
		in = append(in, argument(method.Type().In(i), word))
	}
	var words []string
	for _, out := range method.Call(in) {
		switch v := out.Interface().(type) {
		case []byte, [][]byte:
			words = append(words, fmt.Sprintf("%q", v))
		case error:
			words = append(words, "error")
		default:
			words = append(words, fmt.Sprint(v))
		}
	}
	return strings.Join(words, ",")
}

var argumentPattern = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[^ ,"][^,]*`)

func splitArguments(list string) []string { return argumentPattern.FindAllString(list, -1) }

// argument converts a word of a script to a parameter's type.
func argument(typ reflect.Type, word string) reflect.Value {
	if unquoted, err := strconv.Unquote(word); err == nil {
		word = unquoted
	}
	switch typ.Kind() {
	case reflect.String:
		return reflect.ValueOf(word)
	case reflect.Slice:
		return reflect.ValueOf([]byte(word))
	case reflect.Int:
		n, err := strconv.Atoi(word)
		if err != nil {
			panic(err)
		}
		return reflect.ValueOf(n)
	case reflect.Bool:
		return reflect.ValueOf(word == "true")
	}
	return reflect.ValueOf(bufio.NewReader(strings.NewReader(word)))
}

func TestHeaders(t *testing.T) {
	inputs := strings.Split(strings.TrimSpace(headerScripts), "\n")
	known := differences{}
	for _, line := range strings.Split(strings.TrimSpace(headerDifferences), "\n") {
		reason, script, _ := strings.Cut(line, " ")
		known[script] = reason
		inputs = append(inputs, script)
	}
	compare(t, inputs, known,
		func(s string) string { return runScript(s, new(fasthttp.RequestHeader), new(fasthttp.ResponseHeader)) },
		func(s string) string { return runScript(s, new(sluice.RequestHeader), new(sluice.ResponseHeader)) })
}

// headerScripts do the same on both sides.
const headerScripts = `
Q Set(content-type, "multipart/form-data; boundary =xy; boundary=z") | MultipartFormBoundary()
Q Set(content-type, "multipart/form-data; boundary= \"xy\" ; a=b") | MultipartFormBoundary()
Q Set(content-type, "multipart/form-data; a= \"q;boundary=n\"; boundary=\"x\" y") | MultipartFormBoundary()
Q Set(content-type, "multipart/form-data ; Boundary=xy") | MultipartFormBoundary()
Q Set(x, " a ") | Peek(x)
Q Set(connection, "close, x") | ConnectionClose()
Q Read("GET / HTTP/1.1\r\nHost: h\r\nConnection: Close, x\r\n\r\n") | Peek(Connection)
R SetContentLength(4) | SetStatusCode(204)
R Read("HTTP/1.1 204 No Content\r\n\r\n")
R Set(Set-Cookie, "a; b=c") | PeekCookie(a) | PeekCookie("")
R Set(Set-Cookie, "a; b=c") | Set(Set-Cookie, "z=1") | DelCookie("")
R Set(Set-Cookie, "a") | PeekCookie(a) | PeekCookie("")
R SetTrailer(foo) | Set(foo, a) | Add(foo, b) | TrailerHeader()
Q AddTrailer(foo) | Set(foo, bar) | Set(x, y)
Q ReadTrailer("Foo: 1\r\n\r\n") | Peek(Foo)
R AddTrailer(foo) | AddTrailer(foo)
Q AddTrailer(foo) | SetCookie(a, b) | Set(x, y) | SetConnectionClose() | SetHost(h)
Q Read("POST / HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: chunked\r\nTrailer: foo, bar\r\n\r\n") | Peek(foo) | Peek(transfer-encoding) | PeekKeys() | PeekTrailerKeys()
Q Read("POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\nConnection: close\r\ntrailer: foo\r\nExpect: 100-continue\r\n\r\nbody") | Set(host, other) | Set(x, y)
Q Set(trailer, "foo, host") | Peek(trailer) | Add(Trailer, "bar") | Peek(Trailer) | PeekAll(Trailer) | Del(trailer) | Peek(trailer)
Q SetTrailer("") | SetTrailer("a b") | SetTrailer("a\r\nb") | SetTrailer(",") | SetTrailer("a,,b")
Q SetTrailer("foo, bar,  content-length , x") | Set(foo, 1)
R Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: a, b\r\n\r\n") | ContentLength() | Peek(Trailer)
R SetTrailer(foo) | Set(foo, a) | Peek(foo) | TrailerHeader() | Del(foo) | TrailerHeader()
Q Set(accept-encoding, "gzip;q=0.5") | HasAcceptEncoding(gzip)
Q Set(accept-encoding, "gzip,br") | HasAcceptEncoding(br)
Q Set(Connection, upgrade) | SetConnectionClose() | ConnectionUpgrade()
R Read("HTTP/1.0 200 OK\r\nConnection: upgrade\r\n\r\n") | ConnectionUpgrade()
Q Read("GET / HTTP/1.0\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n") | ConnectionUpgrade() | Peek(Connection)
Q Read("GET / HTTP/1.0\r\n\r\n") | RawHeaders()
Q Add(Host, a) | Add(Host, b) | PeekAll(Host) | Add(Content-Type, a) | Add(Content-Type, b) | Add(User-Agent, a) | Add(User-Agent, b) | Add(Referer, a) | Add(Referer, b) | PeekAll(Referer)
Q Add(x-a, 1) | Add(X-A, 2) | Del(x-A)
Q DisableNormalizing() | DisableSpecialHeader() | SetNoDefaultContentType(true) | Reset() | EnableNormalizing() | EnableSpecialHeader() | SetContentLength(5)
Q DisableNormalizing() | Set(x-a, 1) | Add(X-A, 2) | PeekAll(x-a) | Del(X-A) | PeekAll(x-a)
Q Read(" / HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("")
Q Read("/ HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("G@T / HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("GET  / HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("GET  HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("GET /  HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("GET / HTTP/1.0\r\nhost: h\r\nConnection: keep-alive\r\n\r\n") | ConnectionClose()
Q Read("GET / HTTP/1.1\r\nHost : h\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nHost h\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nHost: h\r\n")
Q Read("GET / HTTP/1.1\r\nHost: h\r\nX-B: 1\r\n\r\n") | Set(x-b, 2) | Del(host) | RawHeaders() | Add(q, r)
Q Read("GET / HTTP/1.1\r\n\r\n")
Q Read("GET / HTTP/1.1\r\nhost: h\r\nContent-Length: 0\r\n\r\n") | ContentLength()
Q Read("GET / HTTP/1.1\r\nhost: h\r\nContent-Length: 10\r\n\r\n") | ContentLength()
Q Read("GET / HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: chunked\r\n\r\n") | ContentLength()
Q Read("GET / a HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("GET /\r\nHost: h\r\n\r\n")
Q Read("GET /a?b HTTP/1.1\r\nX-b: 1\r\nhost: h\r\nx-a: 2\r\nUser-Agent: ua\r\nX-B: 3\r\naccept-encoding: gzip, br\r\nConnection: keep-alive\r\nContent-Type: ct\r\ncookie: e=f\r\n\r\nbody") | RawHeaders() | Host() | Peek(Cookie) | Peek(x-b) | RequestURI() | Cookie(e)
Q Read("GET HTTP/1.1\r\nHost: h\r\n\r\n")
Q Read("POST / HTTP/1.1\r\nhost: h\r\n\r\n") | ContentLength()
Q Read("PUT / HTTP/1.0\r\nhost: h\r\n\r\n") | ContentLength() | ConnectionClose()
Q Read("\r\n")
Q Reset()
Q Set(Host, "") | Peek(Host) | PeekAll(Host) | PeekAll(Nope) | Peek(Nope) | PeekAll(Cookie) | PeekAll(Content-Type) | PeekAll(User-Agent)
Q Set(Trailer, foo) | Set(Trailer, bar) | AddTrailerBytes(q) | SetTrailer("")
Q Set(X, 1) | Set(X, 2) | Add(X, 3) | Peek(x) | PeekAll(x) | Set(x, 4) | PeekAll(X)
Q Set(a, 1) | Add(b, 2) | Add(a, 3) | PeekAll(a) | Set(b, 9) | Len() | PeekKeys()
Q Set(accept-encoding, "gzip, br") | HasAcceptEncoding(gzip) | HasAcceptEncoding(br) | HasAcceptEncoding(zip) | HasAcceptEncoding(deflate)
Q Set(connection, Upgrade) | Set(Upgrade, websocket)
Q Set(connection, close) | Del(connection) | ConnectionClose()
Q Set(connection, keep-alive) | Peek(Connection)
Q Set(connection, keep-alive) | ResetConnectionClose()
Q Set(content-length, 5) | Peek(content-length) | PeekAll(content-length) | Del(content-length) | Peek(content-length)
Q Set(content-length, abc) | Peek(content-length)
Q Set(cookie, "a=1; b=2; a=3") | Cookie(a) | SetCookie(a, 9) | Peek(Cookie) | DelCookie(a)
Q Set(cookie, "a=b") | Set(cookie, "c=d") | Add(cookie, "a=z") | Set(cookie, "") | SetCookie(e, f) | SetCookie(a, y) | Peek(Cookie) | DelCookie(c) | DelCookieBytes(a)
Q Set(foo-bar, 1) | DisableNormalizing() | Peek(foo-bar) | Peek(Foo-Bar) | Set(foo-bar, 2) | Peek(foo-bar) | EnableNormalizing() | Peek(foo-bar) | Set(foo-bar, 3)
Q Set(host, h) | Set(x-b, 1) | Set(X-A, 2) | Add(x-b, 3) | Set(user-agent, ua) | Set(content-type, ct) | Set(content-length, 5) | Set(cookie, "a=b; c=d") | Set(connection, close) | Set(transfer-encoding, chunked) | Set(referer, r) | Set(expect, 100-continue)
Q Set(transfer-encoding, chunked) | Peek(transfer-encoding)
Q Set(x, "a\r\nb") | Peek(x)
Q Set(x-a, 1) | Set(x-b, 2) | Del(x-b)
Q SetByteRange(1, 2) | SetByteRange(-5, 0) | Peek(range) | SetByteRange(5, -1) | Peek(range)
Q SetConnectionClose() | ResetConnectionClose() | Peek(connection)
Q SetContentLength(-1) | Peek(content-length) | Peek(transfer-encoding) | PeekAll(transfer-encoding)
Q SetContentType(a) | Del(content-type) | ContentType() | SetHost(h) | Del(host) | SetUserAgent(u) | Del(user-agent)
Q SetContentType(ct) | SetNoDefaultContentType(true) | ContentType()
Q SetCookie(a, 1) | SetCookie(b, 2) | SetCookie(c, 3) | DelCookie(c)
Q SetCookie(a, b) | Del(cookie) | Peek(cookie)
Q SetCookie(a, b) | DelAllCookies() | Peek(cookie)
Q SetCookie(k, "") | Cookie(k) | Cookie(z) | SetCookie("k", "v")
Q SetHost(h) | SetContentType(a) | Set(connection, close) | SetContentLength(5) | Len() | Header()
Q SetHost(hh) | SetMethod(POST) | SetRequestURI(/x) | SetContentType("") | SetNoDefaultContentType(true) | SetContentLength(5) | SetUserAgent("")
Q SetMethod("")
Q SetMethod(CONNECT) | SetRequestURI(a:443)
Q SetMethod(DELETE) | SetContentLength(4)
Q SetMethod(FOO)
Q SetMethod(GET) | SetContentLength(-1)
Q SetMethod(GET) | SetContentLength(4)
Q SetMethod(HEAD) | SetContentLength(4)
Q SetMethod(OPTIONS) | SetRequestURI(*)
Q SetMethod(POST) | Set(host, h) | Set(x-b, 1) | Set(X-A, 2) | Add(x-b, 3) | Set(user-agent, ua) | Set(content-type, ct) | Set(content-length, 5) | Set(cookie, "a=b; c=d") | Set(connection, close) | Set(referer, r)
Q SetMethod(POST) | SetContentLength(-1)
Q SetMethod(POST) | SetContentLength(0)
Q SetMethod(POST) | SetContentLength(3)
Q SetMethod(PUT)
Q SetMethod(post) | IsPost() | Method()
Q SetProtocol(HTTP/1.0) | Protocol() | IsHTTP11()
Q SetProtocol(HTTP/1.0) | SetConnectionClose()
Q SetReferer(x) | SetReferer("") | Referer() | SetContentEncoding(gzip) | ContentEncoding() | SetContentEncoding("") | ContentEncoding()
Q SetRequestURI("") | RequestURI() | Method()
Q SetRequestURI("http://a/b") | SetHost(h)
R Del(content-type) | ContentType() | SetContentType(abc) | Del(content-type)
R DelClientCookie(a) | DelClientCookie(b) | Set(Set-Cookie, "a=1; path=/x") | PeekCookie(a) | DelAllCookies()
R DisableNormalizing() | SetNoDefaultContentType(true) | Reset() | EnableNormalizing() | SetContentLength(5)
R Peek(Server) | Peek(Content-Type) | PeekAll(Content-Type) | Peek(Content-Length) | Peek(Date) | Protocol() | StatusCode() | StatusMessage()
R Read("")
R Read("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\n") | ConnectionClose() | Protocol() | ContentType()
R Read("HTTP/1.0 200 OK\r\n\r\n") | ConnectionClose() | Protocol() | ContentType()
R Read("HTTP/1.1 20 OK\r\n\r\n")
R Read("HTTP/1.1 200 Fine\r\nContent-Length: 3\r\n\r\n") | SetStatusCode(404) | StatusMessage() | SetStatusMessage("")
R Read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n") | ContentLength()
R Read("HTTP/1.1 200 OK\r\nServer: s\r\nx: 1\r\ncontent-type: ct\r\nset-cookie: a=b; path=/\r\nX: 2\r\nDate: d\r\nContent-Length: 4\r\nContent-Encoding: gzip\r\nSet-Cookie: c=d\r\n\r\nbody") | Peek(x) | Protocol() | StatusMessage() | Header() | Server() | ContentEncoding()
R Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n") | ContentLength()
R Read("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n") | ContentLength()
R Read("HTTP/1.1 200 OK\r\nX: a\r\n")
R Read("HTTP/1.1 2000 OK\r\n\r\n")
R Read("HTTP/1.1 200OK\r\n\r\n")
R Read("HTTP/1.1 2x0 OK\r\n\r\n")
R Read("HTTP/1.1 404 Nix da\r\n\r\n") | ConnectionClose() | Protocol() | ContentType() | StatusMessage()
R Read("HTTP/1.1 404 Not Found\r\n\r\n") | StatusMessage()
R Read("HTTP/1.1 404 \r\n\r\n") | StatusMessage()
R Read("HTTP/1.1 404\r\n\r\n") | StatusMessage()
R Read("HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n")
R Read("HTTP/1.1\r\n\r\n")
R Read("XTTP/1.1 200 OK\r\n\r\n")
R Reset()
R Set(Connection, "close") | Set(Connection, foo) | Peek(Connection) | ConnectionClose()
R Set(Connection, "foo, UPGRADE") | ConnectionUpgrade()
R Set(Connection, keep-alive) | Peek(Connection) | ConnectionClose()
R Set(Content-Encoding, gzip) | ContentEncoding() | Del(Content-Encoding) | ContentEncoding() | PeekAll(Content-Encoding)
R Set(Content-Length, "") | Peek(Content-Length)
R Set(Content-Length, 7) | Set(Content-Length, x) | Peek(Content-Length)
R Set(Server, "") | Peek(Server)
R Set(Server, a) | Set(server, b) | Add(SERVER, c)
Q Read("GET / HTTP/1.1\r\nHost: h\r\nContent-Type: a\r\nContent-Type: b\r\nUser-Agent: 1\r\nUser-Agent: 2\r\n\r\n")
R Read("HTTP/1.1 200 OK\r\nServer: 1\r\nServer: 2\r\nContent-Length: 3\r\n\r\n")
R Read("HTTP/1.1 200 OK\r\nContent-Encoding: 1\r\nContent-Type: a\r\nX: 1\r\nContent-Type: b\r\nContent-Length: 3\r\n\r\n") | PeekAll(Content-Type)
R Set(Set-Cookie, "=v") | PeekCookie("") | DelCookie("")
Q SetRequestURI("?a=b") | RequestURI()
Q SetRequestURI("?") | RequestURI()
R Set(Set-Cookie, "a=1") | DelClientCookie(a) | Del(Set-Cookie)
R Set(Set-Cookie, "a=b; path=/") | Set(Set-Cookie, "c=d") | PeekCookie(a) | Peek(Set-Cookie) | PeekAll(Set-Cookie)
R Set(Transfer-Encoding, chunked) | Peek(Transfer-Encoding)
R SetContentEncoding(gzip) | SetContentEncoding("")
R SetContentLength(-1) | Del(Transfer-Encoding) | ContentLength() | Set(x, y) | SetContentLength(5)
R SetContentLength(-1) | Peek(Content-Length) | Peek(Transfer-Encoding) | PeekAll(Transfer-Encoding)
R SetContentLength(-2) | Peek(Content-Length) | Peek(Transfer-Encoding) | Peek(Connection)
R SetContentLength(-2) | ResetConnectionClose() | ContentLength()
R SetContentLength(-2) | SetContentLength(4)
R SetContentLength(0) | Peek(Content-Length) | PeekAll(Content-Length)
R SetContentLength(5) | SetConnectionClose() | SetContentLength(-1) | SetContentLength(6)
R SetContentLength(7) | Peek(Content-Length)
R SetContentLength(9) | Del(Content-Length) | ContentLength()
R SetContentRange(1, 2, 3)
R SetContentType("") | SetContentLength(5) | ContentType() | Peek(content-type)
R SetNoDefaultContentType(true) | ContentType()
R SetNoDefaultContentType(true) | SetContentLength(5) | ContentType()
R Set(Date, x) | Add(Date, y) | Set(date, z) | SetCanonical(Date, x) | Peek(Date) | PeekAll(Date)
R Read("HTTP/1.1 200 OK\r\nDate: d\r\nContent-Length: 4\r\n\r\n") | Set(Date, x) | Peek(Date) | Del(Date) | Peek(Date)
R SetServer(abc) | Server() | Del(server) | Server() | Peek(Server)
R SetStatusCode(0)
R SetStatusCode(100)
R SetStatusCode(101) | Set(Connection, Upgrade)
R SetStatusCode(204)
R SetStatusCode(204) | SetContentLength(-1)
R SetStatusCode(204) | SetContentLength(4)
R SetStatusCode(204) | SetContentType(a)
R SetStatusCode(204) | SetContentType(foo)
R SetStatusCode(205) | SetContentLength(4)
R SetStatusCode(304)
R SetStatusCode(304) | SetContentLength(-1)
R SetStatusCode(304) | SetContentLength(-2)
R SetStatusCode(304) | SetContentLength(0)
R SetStatusCode(304) | SetContentLength(4)
R SetStatusCode(404) | StatusMessage() | SetStatusMessage(nope) | StatusMessage()
R SetStatusCode(599)
R SetStatusCode(999)
R SetStatusMessage(nope) | StatusMessage()
R Set(Content-Length, 5) | SetStatusCode(204)
R SetContentLength(5) | SetStatusCode(304)
R SetContentLength(5) | SetStatusCode(100)
R SetContentLength(-1) | SetStatusCode(204)
R SetContentLength(-1) | SetStatusCode(103)
R SetContentType(a) | SetStatusCode(304)
R Set(Content-Encoding, a) | Set(Content-Encoding, "") | PeekAll(Content-Encoding)
R SetContentLength(5) | Del(Content-Length) | PeekAll(Content-Length)
R Set(Set-Cookie, "a=b") | Del(Set-Cookie) | PeekAll(Set-Cookie)
R SetTrailer(foo) | Del(Trailer) | PeekAll(Trailer)
R Set(User-Agent, "") | PeekAll(User-Agent) | Set(Host, "") | PeekAll(Host)
R Set(Date, x) | Del(Date) | PeekAll(Date)
Q SetCookie(a, b) | DelAllCookies() | PeekAll(Cookie)
Q Set(Server, "") | PeekAll(Server) | Set(Date, "") | PeekAll(Date) | SetContentEncoding("") | PeekAll(Content-Encoding)
Q Read("GET / HTTP/1.1\r\nHost: h\r\nContent-Encoding:\r\nDate:\r\n\r\n") | PeekAll(Content-Encoding) | PeekAll(Date)
R Set(Connection, "x, y") | SetConnectionClose() | Peek(Connection)
R ReadTrailer("Foo: 2\r\n\r\n") | Add(foo, 3) | TrailerHeader()
`

// headerDifferences do not.
const headerDifferences = `
H1 Q Set("x y", a)
H1 Q Set("", v) | Set("a:b", v) | Set("a\r\nb", v)
H2 Q Set(x, "a\x00b") | Peek(x)
H2 R SetStatusMessage("a\x00b") | StatusMessage()
H4 Q SetMethod("G T")
H5 Q SetRequestURI("/a b")
H5 Q SetRequestURI("/a\r\nb") | RequestURI()
H5 Q SetRequestURI("/a#b")
H6 Q SetProtocol(XX) | Protocol() | IsHTTP11()
H6 R SetProtocol(XX) | Protocol() | IsHTTP11()
H6 R SetProtocol(HTTP/1.0) | Protocol() | IsHTTP11()
H6 R SetProtocol(HTTP/1.0) | SetContentLength(-1)
H6 Q Read("GET / HTTP/1.2\r\nHost: h\r\n\r\n") | Protocol() | IsHTTP11()
H7 R SetStatusCode(42)
H7 R SetStatusCode(-3)
H7 R SetStatusCode(1000)
H8 R Set(Connection, "Close") | Peek(Connection) | ConnectionClose()
H8 Q Set(connection, keep-alive) | SetConnectionClose() | Peek(connection) | ResetConnectionClose() | Peek(connection)
H8 Q Set(connection, keep-alive) | SetConnectionClose()
H9 Q SetContentLength(-1) | Set(Content-Length, 7) | Peek(Transfer-Encoding)
H9 R Set(Content-Length, 07) | Peek(Content-Length)
H9 R SetContentLength(-1) | Del(Transfer-Encoding)
H9 Q SetMethod(POST) | SetContentLength(-2) | ContentLength()
H9 R SetContentLength(-3) | ContentLength()
H10 R SetContentLength(-1) | SetStatusCode(304)
H10 R SetContentLength(0) | SetStatusCode(304)
H11 Q Set(x-a, 1) | Set(x-b, 2) | Set(x-c, 3) | Del(x-a)
H11 Q SetCookie(a, 1) | SetCookie(b, 2) | SetCookie(c, 3) | DelCookie(a)
H11 R Set(Set-Cookie, "a=b") | Set(Set-Cookie, "c=d") | Set(Set-Cookie, "e=f") | DelCookie(a)
H12 Q Set(cookie, "a=b;c=d ; e; f=\"q q\"") | Peek(cookie)
H12 Q Read("GET / HTTP/1.1\r\nX: 1\r\nhost: h\r\ncookie: a=b; c=d\r\nY: 2\r\ncookie: e=f\r\n\r\n") | Peek(Cookie)
H13 Q SetCookie("b;=c", "v\x00w")
H13 R DelClientCookie("a=b")
H13 Q SetCookie("c ", " d ")
H16 Q Set(Set-Cookie, "a=b") | Set(Set-Cookie, "a=c")
H16 R Add(Host, h) | Add(Host, q)
H18 R SetCanonical(foo, bar) | Peek(foo)
H18 Q DisableNormalizing() | Set(host, h) | Peek(host)
H19 Q DisableSpecialHeader() | SetHost(h) | SetUserAgent(u) | Host()
H19 Q DisableSpecialHeader() | Add(host, h) | Set(Transfer-Encoding, chunked) | Set(Content-Length, abc)
H19 Q Set(host, h) | DisableSpecialHeader() | Set(x, y) | Host()
H20 R ReadTrailer("Foo: 1\r\n\r\n") | SetTrailer("") | Peek(foo)
H20 R ReadTrailer("Foo: 1\r\n\r\n") | Set(Trailer, bar) | TrailerHeader()
H20 R ReadTrailer("Foo: 1\r\n\r\n") | Del(Trailer) | TrailerHeader()
H20 R Set(foo, 1) | ReadTrailer("Foo: 2\r\n\r\n") | Set(foo, 3) | TrailerHeader()
H20 R SetTrailer(Server) | SetServer("") | Set(Trailer, close)
H21 R AddTrailer(Expires)
H21 R ReadTrailer("Host: h\r\n\r\n")
H21 Q Read("GET / HTTP/1.1\r\nHost: h\r\nTrailer: content-length\r\n\r\n")
H23 Q SetMultipartFormBoundary("a/b c") | ContentType()
H24 R Read("HTTP/1.1 200 OK\r\nx: a\r\n  b\r\nContent-Length: 0\r\n\r\n") | Peek(x)
H24 Q Read("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n")
H24 Q Read("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n")
H28 R Read("HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n")
H28 R Set(a, b) | SetContentLength(-1)
H80 Q Add(Content-Encoding, gzip) | Add(Content-Encoding, br) | PeekAll(Content-Encoding)
H80 R Add(Content-Encoding, gzip) | Add(Content-Encoding, br)
H80 R Read("HTTP/1.1 200 OK\r\nContent-Encoding: 1\r\nContent-Encoding: 2\r\nContent-Length: 3\r\n\r\n")
H80 Q Read("POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: 1\r\nContent-Encoding: 2\r\nContent-Length: 3\r\n\r\n")
H80 Q Add(Connection, close) | Add(Connection, x) | ConnectionClose()
H80 R Add(Connection, x) | Add(Connection, y)
H30 R Set(Set-Cookie, "") | PeekAll(Set-Cookie)
H30 R Set(Cookie, "") | PeekAll(Cookie)
L38 R Read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n")
L38 R Read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n")
`
