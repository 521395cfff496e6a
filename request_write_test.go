package sluice

import (
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// post prepares a POST to http://h/p.
func post(r *Request) {
	r.Header.SetMethod("POST")
	r.SetRequestURI("http://h/p")
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
