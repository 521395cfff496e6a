package message_test

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
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
			var r sluice.Request
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
		var r sluice.Request
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
		if err != sluice.ErrBodyTooLarge || len(r.Body()) != 0 {
			t.Errorf("%q: %q, %v", in, r.Body(), err)
		}
		if rest, _ := io.ReadAll(br); string(rest) != want {
			t.Errorf("%q: rest %q", in, rest)
		}
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
		{"abcdef", 3, 2, "", "abcdef", sluice.ErrBodyTooLarge},
		{"abcdef", 0, 2, "", "abcdef", nil},
		{"3\r\nabc\r\n0\r\n\r\n", -1, 0, "abc", "\r\n", nil},
		{"abcdef", -2, 0, "abcdef", "", nil},
		{"abcdef", -2, 6, "abcdef", "", nil},
		{"abcdef", -2, 5, "", "", sluice.ErrBodyTooLarge},
	} {
		br := bufio.NewReader(strings.NewReader(test.in))
		var r sluice.Request
		err := r.ReadBody(br, test.length, test.limit)
		rest, _ := io.ReadAll(br)
		if err != test.err || string(r.Body()) != test.body || string(rest) != test.rest {
			t.Errorf("%+v: %q, %v, rest %q", test, r.Body(), err, rest)
		}
	}
}

func TestReadingABodyReusesMemory(t *testing.T) {
	in := postHead + "Content-Length: 1000\r\n\r\n" + strings.Repeat("x", 1000)
	var r sluice.Request
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
	var r sluice.Request
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
			var r sluice.Request
			if err := r.Read(harness.Reader(method + " / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: h\r\n\r\n" + in)); err != nil {
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
