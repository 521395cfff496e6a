package difftest

import (
	"bytes"
	"net"
	"strings"

	"github.com/sluicehttp/sluice"
	"github.com/valyala/fasthttp"
)

// A served is a server of one of the libraries and the request that it gets. The
// calls of a script are made by the handler.
type served struct {
	requests string
	serve    func(conn net.Conn, handler func(ctx any))
}

// wire is what the server answers.
func (s *served) wire(handler func(ctx any)) string {
	conn := &keptConn{cannedConn: cannedConn{in: strings.NewReader(s.requests)}}
	s.serve(conn, handler)
	return strings.ReplaceAll(conn.out.String(), "Server: fasthttp\r\n", "Server: sluice\r\n") // S31
}

// keptConn is a cannedConn that keeps what was written.
type keptConn struct {
	cannedConn
	out bytes.Buffer
}

// Write implements net.Conn.
func (c *keptConn) Write(p []byte) (int, error) { return c.out.Write(p) }

// servedRequests are the first requests of a connection. Another one follows.
var servedRequests = []struct{ name, text string }{
	{"served GET", plainGet},
	{"served last GET", closingGet},
	{"served HEAD", strings.Replace(plainGet, "GET", "HEAD", 1)},
	{"served GET of HTTP/1.0", oldGet},
	{"served kept GET of HTTP/1.0", keptGet},
	{"served POST", "POST /p/q?a=1&b=2 HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nCookie: k=v\r\nContent-Length: 7\r\n\r\na=2&c=3"},
	{"served streamed POST", "POST /p HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\na=2&c=3"},
	{"served chunked PUT", "PUT http://other/p/ HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
}

// servedSubjects are what handlers do to a RequestCtx, and what clients get.
func servedSubjects() []subject {
	var all []subject
	for _, request := range servedRequests {
		all = append(all, subject{
			name: request.name,
			fresh: func() (theirs, ours any) {
				requests := request.text + strings.Replace(closingGet, "/", "/next", 1)
				isStreamed := strings.Contains(request.name, "streamed")
				theirServer := &fasthttp.Server{Logger: silent{}, StreamRequestBody: isStreamed}
				ourServer := &sluice.Server{Logger: silent{}, StreamRequestBody: isStreamed}
				return &served{requests, func(conn net.Conn, handler func(ctx any)) {
						theirServer.Handler = func(ctx *fasthttp.RequestCtx) {
							if string(ctx.Path()) != "/next" {
								handler(ctx)
							}
						}
						_ = theirServer.ServeConn(conn)
					}}, &served{requests, func(conn net.Conn, handler func(ctx any)) {
						ourServer.Handler = func(ctx *sluice.RequestCtx) {
							if string(ctx.Path()) != "/next" {
								handler(ctx)
							}
						}
						_ = ourServer.ServeConn(conn)
					}}
			},
			calls: servedCalls(),
			words: servedWords(),
		})
	}
	return all
}

func servedCalls() []string {
	var all []string
	for _, call := range headCalls() {
		if call != "CopyTo()" {
			all = append(all, "Response.Header."+call)
		}
	}
	return append(all,
		"SetStatusCode($status)", "Response.SetStatusCode($status)", "SetContentType($value)", "SetConnectionClose()", "Response.Header.SetStatusMessage($value)",
		"Response.Header.SetProtocol($version)", "Response.Header.SetServer($value)", "Response.Header.SetConnectionClose()",
		"Write($body)", "WriteString($body)", "SetBody($body)", "SetBodyString($body)", "Response.AppendBody($body)", "Response.SetBodyRaw($body)", "ResetBody()",
		"SetBodyStream($body, 4)", "SetBodyStream($body, -1)", "Response.SwapBody($body)", "Response.CloseBodyStream()", "Response.Reset()",
		"Error($body, $status)", "NotFound()", "NotModified()", "Success($value, $body)", "SuccessString($value, $body)", "Redirect($target, $status)", "RedirectBytes($target, $status)",
		"TimeoutError($body)", "TimeoutErrorWithCode($body, $status)", "Response.ImmediateHeaderFlush.=$bool", "HijackSetNoResponse($bool)",
		"Path()", "Host()", "RequestURI()", "Method()", "PostBody()", "FormValue($key)", "UserValue($key)", "SetUserValue($key, $body)", "IsGet()", "IsHead()", "IsPost()", "IsPut()",
		"Referer()", "UserAgent()", "IsBodyStream()", "ConnRequestNum()", "Hijacked()", "Response.Body()", "Response.StatusCode()", "Response.IsBodyStream()", "QueryArgs().Set($key, $body)",
		"QueryArgs().Peek($key)", "PostArgs().Peek($key)", "PostArgs().Set($key, $body)", "URI().SetPath($target)", "URI().SetHost($key)", "URI().String()", "Request.Header.SetMethod($method)", "Request.Header.Set($name, $value)",
		"Request.Header.Del($name)", "Request.Reset()", "Request.SetRequestURI($target)", "Request.Header.SetRequestURI($target)", "Request.SetBody($body)", "Request.Body()", "Request.ResetBody()",
		"Request.SetHost($key)", "Request.Header.Cookie($key)", "Request.Header.ConnectionClose()", "Request.SetConnectionClose()", "ResetUserValues()", "Request.Header.SetProtocol($version)")
}

func servedWords() map[string][]string {
	words := bodyWords()
	words["status"] = append(words["status"], "205", "302", "307", "0")
	words["target"] = append(words["target"], "next", "../up", `"?x=y"`, `"#z"`, "//o/x", "/%41b")
	return words
}
