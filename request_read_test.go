package sluice

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

const postHead = "POST /p?q HTTP/1.1\r\nHost: h\r\n"

func TestRequestRead(t *testing.T) {
	for name, test := range map[string]struct {
		in         string
		body, rest string
		err        error
	}{
		"no body":        {"GET / HTTP/1.1\r\nHost: h\r\n\r\nrest", "", "rest", nil},
		"POST, nothing":  {postHead + "\r\nrest", "", "rest", nil},
		"sized":          {postHead + "Content-Length: 3\r\n\r\nabcrest", "abc", "rest", nil},
		"GET with body":  {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nabc", "a", "bc", nil},
		"chunked":        {postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\nrest", "abc", "rest", nil},
		"trailers":       {postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: v\r\n\r\nrest", "a", "rest", nil},
		"nothing":        {"", "", "", io.EOF},
		"part of a head": {"GET / HT", "", "", io.ErrUnexpectedEOF},
		"no body bytes":  {postHead + "Content-Length: 3\r\n\r\n", "", "", io.ErrUnexpectedEOF},
		"cut off":        {postHead + "Content-Length: 3\r\n\r\nab", "", "", io.ErrUnexpectedEOF},
		"chunks cut":     {postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "", "", io.ErrUnexpectedEOF},
		"trailers cut":   {postHead + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-T: v\r\n", "", "", io.ErrUnexpectedEOF},
		"no trailers":    {postHead + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", "a", "", io.ErrUnexpectedEOF},
	} {
		for _, split := range []bool{false, true} {
			var in io.Reader = strings.NewReader(test.in)
			if split {
				in = iotest.OneByteReader(in)
			}
			br := bufio.NewReader(in)
			var r Request
			r.SetBodyString("old")
			r.PostArgs().Set("old", "args")
			err := r.Read(br)
			if !errors.Is(err, test.err) || test.err == nil && err != nil {
				t.Errorf("%s: err = %v, want %v", name, err, test.err)
			}
			if got := string(r.Body()); got != test.body {
				t.Errorf("%s: body %q", name, got)
			}
			if r.PostArgs().Len() != 0 {
				t.Errorf("%s: PostArgs are left", name)
			}
			if rest, _ := io.ReadAll(br); string(rest) != test.rest {
				t.Errorf("%s: rest %q", name, rest)
			}
		}
	}
}

func TestRequestReadLimitBody(t *testing.T) {
	for in, want := range map[string]string{
		"Content-Length: 5\r\n\r\n12345":                            "",
		"Content-Length: 6\r\n\r\n123456":                           "123456",
		"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n": "",
		"Transfer-Encoding: chunked\r\n\r\n6\r\n":                   "",
	} {
		var r Request
		br := bufio.NewReader(strings.NewReader(postHead + in))
		err := r.ReadLimitBody(br, 5)
		if isShort := strings.Contains(in, "12345") && !strings.Contains(in, "123456"); isShort {
			if err != nil || string(r.Body()) != "12345" {
				t.Errorf("%q: %q, %v", in, r.Body(), err)
			}
			continue
		}
		if string(r.Header.Method()) != "POST" || len(r.Header.Host()) == 0 {
			t.Errorf("%q: the header is gone: %s", in, r.Header.String())
		}
		if err != ErrBodyTooLarge || len(r.Body()) != 0 {
			t.Errorf("%q: %q, %v", in, r.Body(), err)
		}
		if rest, _ := io.ReadAll(br); string(rest) != want {
			t.Errorf("%q: rest %q", in, rest)
		}
	}
}

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

func TestRequestReadBody(t *testing.T) {
	for _, test := range []struct {
		in            string
		length, limit int
		body, rest    string
		err           error
	}{
		{"abcdef", 3, 0, "abc", "def", nil},
		{"abcdef", 3, 2, "", "abcdef", ErrBodyTooLarge},
		{"abcdef", 0, 2, "", "abcdef", nil},
		{"3\r\nabc\r\n0\r\n\r\n", -1, 0, "abc", "\r\n", nil},
		{"abcdef", -2, 0, "abcdef", "", nil},
		{"abcdef", -2, 6, "abcdef", "", nil},
		{"abcdef", -2, 5, "", "", ErrBodyTooLarge},
	} {
		br := bufio.NewReader(strings.NewReader(test.in))
		var r Request
		err := r.ReadBody(br, test.length, test.limit)
		rest, _ := io.ReadAll(br)
		if err != test.err || string(r.Body()) != test.body || string(rest) != test.rest {
			t.Errorf("%+v: %q, %v, rest %q", test, r.Body(), err, rest)
		}
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

func TestReadingABodyReusesMemory(t *testing.T) {
	in := postHead + "Content-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000)
	var r Request
	source := strings.NewReader(in)
	br := bufio.NewReader(source)
	n := testing.AllocsPerRun(100, func() {
		source.Reset(in)
		br.Reset(source)
		if err := r.Read(br); err != nil {
			t.Fatal(err)
		}
	})
	if n > 1 { // the parser of the head
		t.Errorf("%v allocations", n)
	}
}

// TestTrailersInPart: a loop over the names of trailer fields, announced or not,
// may end anywhere.
func TestTrailersInPart(t *testing.T) {
	var r Request
	const trailer = "X-C: c\r\nX-B: b\r\nX-D: d\r\nX-C: c\r\n\r\n"
	in := postHead + "Transfer-Encoding: chunked\r\nTrailer: X-A, X-B\r\n\r\n0\r\n" + trailer
	if err := r.Read(bufio.NewReader(strings.NewReader(in))); err != nil {
		t.Fatal(err)
	}
	all := []string{"X-A", "X-B", "X-C", "X-D"}
	for n := range len(all) {
		var got []string
		for name := range r.Header.Trailers() {
			if got = append(got, string(name)); len(got) == n+1 {
				break
			}
		}
		if !slices.Equal(got, all[:n+1]) {
			t.Errorf("the first %d: %q, want %q", n+1, got, all[:n+1])
		}
	}
}

// TestEmptyChunkedRequest: a chunked body that turns out to be empty is one of
// length 0.
func TestEmptyChunkedRequest(t *testing.T) {
	for in, want := range map[string]string{
		"0\r\n\r\n":           "Content-Length=0 Host=h",
		"0\r\nFoo: 1\r\n\r\n": "Host=h Trailer=Foo Transfer-Encoding=chunked",
		"1\r\na\r\n0\r\n\r\n": "Host=h Transfer-Encoding=chunked",
	} {
		for _, method := range []string{"GET", "POST"} {
			var r Request
			if err := r.Read(reader(method + " / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: h\r\n\r\n" + in)); err != nil {
				t.Fatal(err)
			}
			fields := strings.Fields(fieldsOf(r.Header.All()))
			slices.Sort(fields)
			if got := strings.Join(fields, " "); got != want {
				t.Errorf("%s %q: %s, want %s", method, in, got, want)
			}
		}
	}
}
