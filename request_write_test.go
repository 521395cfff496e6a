package sluice

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/uri"
)

// post prepares a POST to http://h/p.
func post(r *Request) {
	r.Header.SetMethod("POST")
	r.SetRequestURI("http://h/p")
}

// long: a table of cases
func TestRequestWrite(t *testing.T) {
	const octets = "Content-Type: application/octet-stream\r\n"
	for name, test := range map[string]struct {
		set  func(r *Request)
		want string
	}{
		"GET": {func(r *Request) { r.SetRequestURI("http://h/p?q#f") }, "GET /p?q HTTP/1.1\r\nHost: h\r\n\r\n"},
		"Host field": {func(r *Request) { r.SetRequestURI("/p"); r.Header.SetHost("x") },
			"GET /p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"absolute form with Host": {func(r *Request) { r.SetRequestURI("http://h/p#f"); r.Header.SetHost("x") },
			"GET http://h/p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"absolute form with user": {func(r *Request) { r.SetRequestURI("http://u:p@h/p?q"); r.Header.SetHost("x") },
			"GET http://h/p?q HTTP/1.1\r\nHost: x\r\nAuthorization: Basic dTpw\r\n\r\n"},
		"URI used": {func(r *Request) { r.SetRequestURI("http://h/p"); r.Header.SetHost("x"); r.URI() },
			"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"URI used, RequestURI called": {func(r *Request) {
			r.SetRequestURI("http://h/p")
			r.Header.SetHost("x")
			r.URI()
			r.RequestURI()
		}, "GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"Host field only":  {func(r *Request) { r.Header.SetHost("x") }, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"Host field, root": {func(r *Request) { r.SetRequestURI("/"); r.Header.SetHost("x") }, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		"Host field, @":    {func(r *Request) { r.SetRequestURI("/p?a@b"); r.Header.SetHost("x") }, "GET /p?a@b HTTP/1.1\r\nHost: x\r\n\r\n"},
		"URI without host": {func(r *Request) {
			var u URI
			u.SetPath("/p")
			r.SetURI(&u)
			r.Header.SetHost("x")
		}, "GET /p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"UseHostHeader": {func(r *Request) {
			r.UseHostHeader = true
			r.SetRequestURI("http://h/p")
			r.Header.SetHost("x")
			r.URI()
		},
			"GET /p HTTP/1.1\r\nHost: x\r\n\r\n"},
		"UseHostHeader without Host": {func(r *Request) { r.UseHostHeader = true; r.SetRequestURI("http://h/p") },
			"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"user": {func(r *Request) { r.SetRequestURI("http://u:p@h/") },
			"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic dTpw\r\n\r\n"},
		"user beside Authorization": {func(r *Request) { r.Header.Set("Authorization", "x"); r.SetRequestURI("http://u@h/") },
			"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n"},
		"user beside an empty Authorization": {func(r *Request) { r.Header.Set("Authorization", ""); r.SetRequestURI("http://u@h/") },
			"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: \r\n\r\n"},
		"user in the target, beside Authorization": {func(r *Request) {
			r.Header.Set("Authorization", "x")
			r.SetRequestURI("http://u@h/")
			r.Header.SetHost("h")
		},
			"GET http://h/ HTTP/1.1\r\nHost: h\r\nAuthorization: x\r\n\r\n"},
		"GET with body": {func(r *Request) { r.SetRequestURI("http://h/p"); r.SetBodyString("b") },
			"GET /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"GET that lies": {func(r *Request) { r.SetRequestURI("http://h/p"); r.Header.SetContentLength(7) },
			"GET /p HTTP/1.1\r\nHost: h\r\n\r\n"},
		"POST":         {post, "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		"POST a body":  {func(r *Request) { post(r); r.SetBodyString("b") }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"POST raw":     {func(r *Request) { post(r); r.SetBodyRaw([]byte("b")) }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"POST args":    {func(r *Request) { post(r); r.PostArgs().Set("a", "b") }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 3\r\n\r\na=b"},
		"body, args":   {func(r *Request) { post(r); r.PostArgs().Set("a", "b"); r.SetBodyString("b") }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 1\r\n\r\nb"},
		"stream":       {func(r *Request) { post(r); r.SetBodyStream(plainReader("ab"), 2) }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 2\r\n\r\nab"},
		"long stream":  {func(r *Request) { post(r); r.SetBodyStream(plainReader("abc"), 2) }, "POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Content-Length: 2\r\n\r\nab"},
		"chunked":      {func(r *Request) { post(r); r.SetBodyStream(plainReader("ab"), -1) }, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"of no length": {func(r *Request) { post(r); r.SetBodyStream(plainReader("ab"), -2) }, "POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"chunked, 1.0": {func(r *Request) { post(r); r.Header.SetProtocol("HTTP/1.0"); r.SetBodyStream(plainReader("ab"), -1) }, "POST /p HTTP/1.0\r\nHost: h\r\n" + octets + "Content-Length: 2\r\n\r\nab"},
		"none, 1.0":    {func(r *Request) { post(r); r.Header.SetProtocol("HTTP/1.0"); r.SetBodyStream(plainReader("ab"), 0) }, "POST /p HTTP/1.0\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		"trailers": {func(r *Request) { post(r); r.SetBodyString("b"); r.Header.SetTrailer("X-T"); r.Header.Set("X-T", "v") },
			"POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nb\r\n0\r\nX-T: v\r\n\r\n"},
		"trailers, args": {func(r *Request) { post(r); r.PostArgs().Set("a", "b"); r.Header.SetTrailer("X-T") },
			"POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\na=b\r\n0\r\n\r\n"},
		"trailers, type": {func(r *Request) {
			post(r)
			r.SetBodyString("b")
			r.Header.SetContentType("a/b")
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nb\r\n0\r\n\r\n"},
		"trailers, no default": {func(r *Request) {
			post(r)
			r.SetBodyString("b")
			r.Header.SetNoDefaultContentType(true)
			r.Header.SetTrailer("X-T")
		},
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\nb\r\n0\r\n\r\n"},
		"trailers, empty": {func(r *Request) { post(r); r.Header.SetTrailer("X-T"); r.Header.Set("X-T", "v") },
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n0\r\nX-T: v\r\n\r\n"},
		"trailers, sized": {func(r *Request) { post(r); r.SetBodyStream(plainReader("a"), 1); r.Header.SetTrailer("X-T") },
			"POST /p HTTP/1.1\r\nHost: h\r\n" + octets + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1\r\na\r\n0\r\n\r\n"},
		"trailers, size 0": {func(r *Request) { post(r); r.SetBodyStream(plainReader("a"), 0); r.Header.SetTrailer("X-T") },
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n0\r\n\r\n"},
		"trailers, stream": {func(r *Request) { post(r); r.SetBodyStream(plainReader("ab"), -1); r.Header.SetTrailer("X-T") },
			"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nab\r\n0\r\n\r\n"},
		"trailers, 1.0": {func(r *Request) {
			post(r)
			r.Header.SetProtocol("HTTP/1.0")
			r.SetBodyString("b")
			r.Header.SetTrailer("X-T")
			r.Header.Set("X-T", "v")
		},
			"POST /p HTTP/1.0\r\nHost: h\r\n" + octets + "Content-Length: 1\r\nTrailer: X-T\r\n\r\nb"},
		"trailers, no body": {func(r *Request) { r.SetRequestURI("http://h/p"); r.Header.SetTrailer("X-T") },
			"GET /p HTTP/1.1\r\nHost: h\r\nTrailer: X-T\r\n\r\n"},
		"CONNECT": {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("h:443") },
			"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n"},
		"CONNECT, another host": {func(r *Request) {
			r.Header.SetMethod("CONNECT")
			r.SetRequestURI("h:443")
			r.SetHost("x:443")
		}, "CONNECT h:443 HTTP/1.1\r\nHost: x:443\r\n\r\n"},
		"OPTIONS *": {func(r *Request) { r.Header.SetMethod("OPTIONS"); r.SetRequestURI("*"); r.Header.SetHost("h") },
			"OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
		"line ends in the target": {func(r *Request) { r.SetRequestURI("/a\r\nX: y"); r.Header.SetHost("h") },
			"GET /a%0D%0AX:%20y HTTP/1.1\r\nHost: h\r\n\r\n"},
	} {
		var r Request
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

func TestRequestWriteErrors(t *testing.T) {
	boom := errors.New("boom")
	for name, test := range map[string]struct {
		set  func(r *Request)
		want error // nil: any
	}{
		"no host":                  {func(*Request) {}, errMissingHost},
		"relative":                 {func(r *Request) { r.SetRequestURI("/p") }, errMissingHost},
		"malformed host":           {func(r *Request) { r.SetRequestURI("http://h:port/") }, nil},
		"malformed host, and Host": {func(r *Request) { r.SetRequestURI("http://u@h:port/"); r.Header.SetHost("h") }, nil},
		"malformed user":           {func(r *Request) { r.SetRequestURI("http://u%00@h/") }, uri.ErrUserinfoControl},
		"malformed user, and Host": {func(r *Request) { r.SetRequestURI("http://u%00@h/"); r.Header.SetHost("h") }, uri.ErrUserinfoControl},
		"CONNECT without a host":   {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI(":443") }, nil},
		"CONNECT to a path":        {func(r *Request) { r.Header.SetMethod("CONNECT"); r.SetRequestURI("/a:443") }, errMissingHost},
		"short stream":             {func(r *Request) { post(r); r.SetBodyStream(plainReader("a"), 2) }, io.ErrUnexpectedEOF},
		"broken stream": {func(r *Request) {
			post(r)
			r.SetBodyStream(readerFunc(func([]byte) (int, error) { return 0, boom }), -1)
		}, boom},
		"broken, 1.0": {func(r *Request) {
			post(r)
			r.Header.SetProtocol("HTTP/1.0")
			r.SetBodyStream(readerFunc(func([]byte) (int, error) { return 0, boom }), -1)
		}, boom},
	} {
		var r Request
		test.set(&r)
		_, err := r.WriteTo(io.Discard)
		if err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: err = %v", name, err)
		}
		if r.IsBodyStream() {
			t.Errorf("%s: the stream is left", name)
		}
	}
	var old Response
	old.Header.SetProtocol([]byte("HTTP/1.0"))
	old.SetBodyStream(iotest.ErrReader(boom), -1)
	if _, err := old.WriteTo(io.Discard); err != boom {
		t.Errorf("a response with HTTP/1.0: err = %v", err)
	}
	var r Request
	if got := r.String(); got != errMissingHost.Error() {
		t.Errorf("String: %q", got)
	}
}

func TestMessageWriteErrorsOfTheWriter(t *testing.T) {
	boom := errors.New("boom")
	w := writerFunc(func([]byte) (int, error) { return 0, boom })
	for name, body := range map[string]func(r *Response){
		"buffered": func(r *Response) { r.SetBodyString(strings.Repeat("x", 10_000)) },
		"sized":    func(r *Response) { r.SetBodyStream(plainReader(strings.Repeat("x", 10_000)), 10_000) },
		"chunked":  func(r *Response) { r.SetBodyStream(plainReader("x"), -1) },
		"at once":  func(r *Response) { r.ImmediateHeaderFlush = true; r.SetBodyStream(plainReader("x"), 1) },
		"trailers": func(r *Response) { r.Header.SetTrailer("X"); r.SetBodyString(strings.Repeat("x", 10_000)) },
	} {
		var r Response
		body(&r)
		if _, err := r.WriteTo(w); err != boom {
			t.Errorf("%s: err = %v", name, err)
		}
		if r.IsBodyStream() {
			t.Errorf("%s: the stream is left", name)
		}
	}
}

// TestIsShort: only what appendWhole sends as Write does is short.
func TestIsShort(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(r *Request)
		want bool
	}{
		"empty":     {func(*Request) {}, true},
		"2 KiB":     {func(r *Request) { r.SetBody(make([]byte, maxWhole)) }, true},
		"more":      {func(r *Request) { r.SetBodyRaw(make([]byte, maxWhole+1)) }, false},
		"a stream":  {func(r *Request) { r.SetBodyStream(plainReader("x"), 1) }, false},
		"arguments": {func(r *Request) { r.PostArgs() }, false},
		"trailers":  {func(r *Request) { r.Header.SetTrailer("X-T") }, false},
		"a form": {func(r *Request) {
			r.Header.SetMultipartFormBoundary("B")
			r.SetBodyString(formText)
			r.MultipartForm()
		}, false},
	} {
		var r Request
		post(&r)
		test.set(&r)
		if got := r.isShort(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if !test.want {
			continue
		}
		if got, err := r.appendWhole([]byte("before ")); err != nil || string(got) != "before "+r.String() {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
