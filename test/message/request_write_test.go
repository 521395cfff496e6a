package message_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// post prepares a POST to http://h/p.
func post(r *sluice.Request) {
	r.Header.SetMethod("POST")
	r.SetRequestURI("http://h/p")
}

// long: a table of cases
func TestRequestWrite(t *testing.T) {
	const octets = "Content-Type: application/octet-stream\r\n"
	for name, test := range map[string]struct {
		set  func(r *sluice.Request)
		want string
	}{
		"GET": {func(r *sluice.Request) { r.SetRequestURI("http://h/p?q#f") }, "GET /p?q HTTP/1.1\r\nHost: h\r\n\r\n"},
		"Host field": {func(r *sluice.Request) { r.SetRequestURI("/p"); r.Header.SetHost("x") },
			"GET /p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"absolute form with Host": {func(r *sluice.Request) { r.SetRequestURI("http://h/p#f"); r.Header.SetHost("x") },
			"GET http://h/p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"absolute form with user": {func(r *sluice.Request) { r.SetRequestURI("http://u:p@h/p?q"); r.Header.SetHost("x") },
			"GET http://h/p?q HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dTpw\r\n\r\n"},
		"URI used": {func(r *sluice.Request) { r.SetRequestURI("http://h/p"); r.Header.SetHost("x"); r.URI() },
			"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"URI used, RequestURI called": {func(r *sluice.Request) {
			r.SetRequestURI("http://h/p")
			r.Header.SetHost("x")
			r.URI()
			r.RequestURI()
		}, "GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"Host field only":  {func(r *sluice.Request) { r.Header.SetHost("x") }, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"Host field, root": {func(r *sluice.Request) { r.SetRequestURI("/"); r.Header.SetHost("x") }, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"Host field, @":    {func(r *sluice.Request) { r.SetRequestURI("/p?a@b"); r.Header.SetHost("x") }, "GET /p?a@b HTTP/1.1\r\nHost: x\r\n\r\n"},
		"URI without host": {func(r *sluice.Request) {
			var u sluice.URI
			u.SetPath("/p")
			r.SetURI(&u)
			r.Header.SetHost("x")
		}, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"UseHostHeader": {func(r *sluice.Request) {
			r.UseHostHeader = true
			r.SetRequestURI("http://h/p")
			r.Header.SetHost("x")
			r.URI()
		},
			"GET /p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"UseHostHeader without Host": {func(r *sluice.Request) { r.UseHostHeader = true; r.SetRequestURI("http://h/p") },
			"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"user": {func(r *sluice.Request) { r.SetRequestURI("http://u:p@h/") },
			"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic dTpw\r\n\r\n"},
		"user beside Authorization": {func(r *sluice.Request) { r.Header.Set("Authorization", "x"); r.SetRequestURI("http://u@h/") },
			"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n"},
		"user beside an empty Authorization": {func(r *sluice.Request) { r.Header.Set("Authorization", ""); r.SetRequestURI("http://u@h/") },
			"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: \r\n\r\n"},
		"user in the target, beside Authorization": {func(r *sluice.Request) {
			r.Header.Set("Authorization", "x")
			r.SetRequestURI("http://u@h/")
			r.Header.SetHost("h")
		},
			"GET http://h/ HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n"},
		"GET with body": {func(r *sluice.Request) { r.SetRequestURI("http://h/p"); r.SetBodyString("b") },
			"GET /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"GET that lies": {func(r *sluice.Request) { r.SetRequestURI("http://h/p"); r.Header.SetContentLength(7) },
			"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"POST":         {post, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		"POST a body":  {func(r *sluice.Request) { post(r); r.SetBodyString("b") }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"POST raw":     {func(r *sluice.Request) { post(r); r.SetBodyRaw([]byte("b")) }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"POST args":    {func(r *sluice.Request) { post(r); r.PostArgs().Set("a", "b") }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 3\r\n\r\na=b"},
		"body, args":   {func(r *sluice.Request) { post(r); r.PostArgs().Set("a", "b"); r.SetBodyString("b") }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"stream":       {func(r *sluice.Request) { post(r); r.SetBodyStream(harness.PlainReader("ab"), 2) }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 2\r\n\r\nab"},
		"long stream":  {func(r *sluice.Request) { post(r); r.SetBodyStream(harness.PlainReader("abc"), 2) }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 2\r\n\r\nab"},
		"chunked":      {func(r *sluice.Request) { post(r); r.SetBodyStream(harness.PlainReader("ab"), -1) }, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"of no length": {func(r *sluice.Request) { post(r); r.SetBodyStream(harness.PlainReader("ab"), -2) }, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"chunked, 1.0": {func(r *sluice.Request) {
			post(r)
			r.Header.SetProtocol("HTTP/1.0")
			r.SetBodyStream(harness.PlainReader("ab"), -1)
		}, "POST /p HTTP/1.0\r\nHost: h\r\n" + octets + "Content-Length: 2\r\n\r\nab"},
		"none, 1.0": {func(r *sluice.Request) {
			post(r)
			r.Header.SetProtocol("HTTP/1.0")
			r.SetBodyStream(harness.PlainReader("ab"), 0)
		}, "POST /p HTTP/1.0\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		"trailers": {func(r *sluice.Request) {
			post(r)
			r.SetBodyString("b")
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nb\r\n0\r\nX-T: v\r\n\r\n"},
		"trailers, args": {func(r *sluice.Request) { post(r); r.PostArgs().Set("a", "b"); r.Header.SetTrailer("X-T") },
			"POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\na=b\r\n0\r\n\r\n"},
		"trailers, type": {func(r *sluice.Request) {
			post(r)
			r.SetBodyString("b")
			r.Header.SetContentType("a/b")
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nb\r\n0\r\n\r\n"},
		"trailers, no default": {func(r *sluice.Request) {
			post(r)
			r.SetBodyString("b")
			r.Header.SetNoDefaultContentType(true)
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nb\r\n0\r\n\r\n"},
		"trailers, empty": {func(r *sluice.Request) { post(r); r.Header.SetTrailer("X-T"); r.Header.Set("X-T", "v") },
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n0\r\nX-T: v\r\n\r\n"},
		"trailers, sized": {func(r *sluice.Request) {
			post(r)
			r.SetBodyStream(harness.PlainReader("a"), 1)
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\na\r\n0\r\n\r\n"},
		"trailers, size 0": {func(r *sluice.Request) {
			post(r)
			r.SetBodyStream(harness.PlainReader("a"), 0)
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n0\r\n\r\n"},
		"trailers, stream": {func(r *sluice.Request) {
			post(r)
			r.SetBodyStream(harness.PlainReader("ab"), -1)
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"trailers, 1.0": {func(r *sluice.Request) {
			post(r)
			r.Header.SetProtocol("HTTP/1.0")
			r.SetBodyString("b")
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		},
			"POST /p HTTP/1.0\r\nHost: h\r\n" + octets + "Content-Length: 1\r\nTrailer: X-T\r\n\r\nb"},
		"trailers, no body": {func(r *sluice.Request) { r.SetRequestURI("http://h/p"); r.Header.SetTrailer("X-T") },
			"GET /p HTTP/1.1\r\nHost: h\r\nTrailer: X-T\r\n\r\n"},
		"CONNECT": {func(r *sluice.Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("h:443") },
			"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n"},
		"CONNECT, a URL": {func(r *sluice.Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("https://h/x?y") },
			"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n"},
		"CONNECT, another host": {func(r *sluice.Request) {
			r.Header.SetMethod("CONNECT")
			r.SetRequestURI("h:443")
			r.SetHost("x:443")
		}, "CONNECT h:443 HTTP/1.1\r\nHost: x:443\r\n\r\n"},
		"OPTIONS *": {func(r *sluice.Request) { r.Header.SetMethod("OPTIONS"); r.SetRequestURI("*"); r.Header.SetHost("h") },
			"OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		"line ends in the target": {func(r *sluice.Request) { r.SetRequestURI("/a\r\nX: y"); r.Header.SetHost("h") },
			"GET /a%0D%0AX:%20y HTTP/1.1\r\nHost: h\r\n\r\n"},
	} {
		var r sluice.Request
		test.set(&r)
		var out bytes.Buffer
		n, err := r.WriteTo(&out)
		if err != nil || out.String() != test.want || n != int64(out.Len()) {
			t.Errorf("%s: %d, %v\n got %q\nwant %q", name, n, err, out.String(), test.want)
		}
		if r.IsBodyStream() {
			t.Errorf("%s: the stream is left", name)
		}
	}
}

func TestMessageWriteErrorsOfTheWriter(t *testing.T) {
	boom := errors.New("boom")
	w := harness.WriterFunc(func([]byte) (int, error) { return 0, boom })
	for name, body := range map[string]func(r *sluice.Response){
		"buffered": func(r *sluice.Response) { r.SetBodyString(strings.Repeat("x", 10_000)) },
		"sized":    func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader(strings.Repeat("x", 10_000)), 10_000) },
		"chunked":  func(r *sluice.Response) { r.SetBodyStream(harness.PlainReader("x"), -1) },
		"at once":  func(r *sluice.Response) { r.ImmediateHeaderFlush = true; r.SetBodyStream(harness.PlainReader("x"), 1) },
		"trailers": func(r *sluice.Response) { r.Header.SetTrailer("X"); r.SetBodyString(strings.Repeat("x", 10_000)) },
	} {
		var r sluice.Response
		body(&r)
		if _, err := r.WriteTo(w); err != boom {
			t.Errorf("%s: err = %v", name, err)
		}
		if r.IsBodyStream() {
			t.Errorf("%s: the stream is left", name)
		}
	}
}
