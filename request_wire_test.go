package sluice

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/wire/uri"
)

const postHead = "POST /p?q HTTP/1.1\r\nHost: h\r\n"

func TestContinueReadBody(t *testing.T) {
	for name, test := range map[string]struct {
		head string
		may  bool
	}{
		"expects":  {postHead + "Expect: 100-Continue\r\nContent-Length: 3\r\n\r\n", true},
		"doesn't":  {postHead + "Content-Length: 3\r\n\r\n", false},
		"HTTP/1.0": {"POST / HTTP/1.0\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n", false},
	} {
		br := bufio.NewReader(strings.NewReader(test.head + "abcrest"))
		var r Request
		for _, length := range []int{0, -2} { // which have no body
			for _, read := range []func() error{
				func() error { return r.ContinueReadBody(br, 0) }, func() error { return r.ContinueReadBodyStream(br, 0) },
			} {
				r.SetBodyString("old")
				r.Header.m.ContentLength = length
				if err := read(); err != nil || len(r.Body()) != 0 || r.IsBodyStream() {
					t.Errorf("length %d: %q, %v", length, r.Body(), err)
				}
			}
		}
		if err := r.Read(br); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.MayContinue() != test.may || len(r.Body()) == 0 != test.may {
			t.Errorf("%s: MayContinue %v, body %q", name, r.MayContinue(), r.Body())
		}
		if test.may {
			if err := r.ContinueReadBody(br, 10, true); err != nil {
				t.Error(err)
			}
		}
		if string(r.Body()) != "abc" {
			t.Errorf("%s: body %q", name, r.Body())
		}
	}
}

func TestContinueReadBodyStream(t *testing.T) {
	for framing, length := range map[string]int{
		"Content-Length: 3\r\n\r\nabcrest":                                      3,
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: v\r\n\r\nrest": -1,
	} {
		for limit, want := range map[int]string{-1: "abc", 0: "abc", 2: ErrBodyTooLarge.Error(), 3: "abc"} {
			br := bufio.NewReader(strings.NewReader(postHead + framing))
			var r Request
			if err := errors.Join(r.Header.Read(br), r.ContinueReadBodyStream(br, limit)); err != nil || string(r.Body()) != want {
				t.Errorf("limit %d: %q, %v", limit, r.Body(), err)
			}
		}
		br := bufio.NewReader(strings.NewReader(postHead + framing))
		var r Request
		if err := r.Header.Read(br); err != nil {
			t.Fatal(err)
		}
		if err := r.ContinueReadBodyStream(br, 0); err != nil || !r.IsBodyStream() {
			t.Fatalf("%v, stream %v", err, r.IsBodyStream())
		}
		if r.streamSize != length {
			t.Errorf("size %d", r.streamSize)
		}
		got, err := io.ReadAll(r.BodyStream())
		if string(got) != "abc" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if v := string(r.Header.Peek("X-T")); length == -1 && v != "v" {
			t.Errorf("trailer %q", v)
		}
		if rest, _ := io.ReadAll(br); string(rest) != "rest" {
			t.Errorf("rest %q", rest)
		}
	}
	br := bufio.NewReader(strings.NewReader(postHead + "Content-Length: 3\r\n\r\nabc"))
	var r Request
	if err := errors.Join(r.Header.Read(br), r.ContinueReadBodyStream(br, 2)); err != nil {
		t.Fatal(err)
	}
	if got := string(r.Body()); got != ErrBodyTooLarge.Error() {
		t.Errorf("collected %q over the limit", got)
	}
}

// FuzzRequestRead: no input makes reading panic or cost memory that it did not
// pay for, and what was read can be written and read again.
func FuzzRequestRead(f *testing.F) {
	for _, seed := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
		postHead + "Content-Length: 3\r\n\r\nabc",
		postHead + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1;a=b\r\na\r\n0\r\nX-T: v\r\n\r\n",
		postHead + "Content-Length: 99999999999\r\n\r\nabc",
		"GET http://h/p?q HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
		"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: h\r\nCookie: a=b; c=d\r\nCookie: e=f\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 16
		var r Request
		if err := r.ReadLimitBody(bufio.NewReader(strings.NewReader(string(in))), limit); err != nil || r.MayContinue() {
			return
		}
		if n := cap(r.buffered()); n > 2*len(in)+1024 {
			t.Fatalf("%d bytes of memory for %d of input", n, len(in))
		}
		if len(r.Header.Host()) == 0 {
			return // HTTP/1.0
		}
		first := r.String()
		var again Request
		br := bufio.NewReader(strings.NewReader(first))
		if err := again.Read(br); err != nil {
			t.Fatalf("%q was written as %q: %v", in, first, err)
		}
		if br.Buffered() != 0 {
			t.Fatalf("%q has bytes behind its end", first)
		}
		if again.MayContinue() {
			return
		}
		if second := again.String(); second != first {
			t.Fatalf("%q became %q", first, second)
		}
		if string(again.Body()) != string(r.Body()) {
			t.Fatalf("body %q became %q", r.Body(), again.Body())
		}
	})
}

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
			t.Errorf("%s: the stream is still set", name)
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

// TestCopiesAreSentFromTheirOwnMemory: what is sent of a request stays while its copy by assignment is sent.
func TestCopiesAreSentFromTheirOwnMemory(t *testing.T) {
	var req Request
	req.SetRequestURI("http://user:one@h/first")
	if _, err := req.encodeWhole(); err != nil {
		t.Fatal(err)
	}
	dup := assigned(&req)
	dup.SetRequestURI("http://user:two@h/other")
	first, err := req.encodeWhole()
	if err != nil {
		t.Fatal(err)
	}
	want := string(first)
	if other, err := dup.encodeWhole(); err != nil || string(other) == want || string(first) != want {
		t.Errorf("%q, %v; the original is %q, and was %q", other, err, first, want)
	}
}
