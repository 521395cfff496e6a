package sluice

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/message"
)

func TestResponseRead(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, test := range map[string]struct {
		in         string
		status     int
		body, rest string
		err        error
	}{
		"sized":         {ok + "Content-Length: 3\r\n\r\nabcrest", 200, "abc", "rest", nil},
		"chunked":       {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nrest", 200, "abc", "rest", nil},
		"until the end": {ok + "\r\nabc", 200, "abc", "", nil},
		"204":           {"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nrest", 204, "", "rest", nil},
		"304":           {"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\nrest", 304, "", "rest", nil},
		"205":           {"HTTP/1.1 205 Reset Content\r\nContent-Length: 3\r\n\r\nabcrest", 205, "abc", "rest", nil},
		"interim":       {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok + "Content-Length: 0\r\n\r\nrest", 200, "", "rest", nil},
		"101":           {"HTTP/1.1 101 Switching Protocols\r\n\r\nrest", 101, "", "rest", nil},
		"100 interim":   {strings.Repeat("HTTP/1.1 100 C\r\n\r\n", 100) + ok + "Content-Length: 0\r\n\r\n", 200, "", "", nil},
		"101 interim":   {strings.Repeat("HTTP/1.1 100 C\r\n\r\n", 101) + ok + "Content-Length: 0\r\n\r\n", 100, "", ok + "Content-Length: 0\r\n\r\n", errTooManyInformational},
		"nothing":       {"", 200, "", "", io.EOF},
		"only interim":  {"HTTP/1.1 100 Continue\r\n\r\n", 200, "", "", io.ErrUnexpectedEOF},
		"head cut":      {"HTTP/1.1 200", 200, "", "", io.ErrUnexpectedEOF},
		"body cut":      {ok + "Content-Length: 3\r\n\r\nab", 200, "ab", "", io.ErrUnexpectedEOF},
		"chunks cut":    {ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 200, "abc", "", io.ErrUnexpectedEOF},
		"no chunks":     {ok + "Transfer-Encoding: chunked\r\n\r\n", 200, "", "", io.ErrUnexpectedEOF},
	} {
		for _, split := range []bool{false, true} {
			var in io.Reader = strings.NewReader(test.in)
			if split {
				in = iotest.OneByteReader(in)
			}
			br := bufio.NewReader(in)
			var r Response
			r.SetBodyString("old")
			err := r.Read(br)
			if !errors.Is(err, test.err) || test.err == nil && err != nil {
				t.Errorf("%s: err = %v, want %v", name, err, test.err)
			}
			rest, _ := io.ReadAll(br)
			if r.StatusCode() != test.status || string(r.Body()) != test.body || string(rest) != test.rest {
				t.Errorf("%s: %d, body %q, rest %q", name, r.StatusCode(), r.Body(), rest)
			}
		}
	}
}

func TestResponseReadLimitBody(t *testing.T) {
	for _, framing := range []string{
		"Content-Length: %\r\n\r\n#",
		"Transfer-Encoding: chunked\r\n\r\n%\r\n#\r\n0\r\n\r\n",
		"\r\n#",
	} {
		for n, ok := range map[string]bool{"5": true, "6": false} {
			in := "HTTP/1.1 200 OK\r\n" + strings.NewReplacer("%", n, "#", "123456"[:n[0]-'0']).Replace(framing)
			var r Response
			err := r.ReadLimitBody(reader(in), 5)
			if ok && (err != nil || string(r.Body()) != "12345") || !ok && err != ErrBodyTooLarge || len(r.Body()) > 5 {
				t.Errorf("%q: %q, %v", in, r.Body(), err)
			}
		}
	}
}

func TestResponseUntilTheEndClosesTheConnection(t *testing.T) {
	var r Response
	if err := r.Read(reader("HTTP/1.1 200 OK\r\n\r\nabc")); err != nil {
		t.Fatal(err)
	}
	if r.Header.ContentLength() != 3 || !r.ConnectionClose() {
		t.Errorf("length %d, close %v", r.Header.ContentLength(), r.ConnectionClose())
	}
	// Also if there should be no body.
	br := reader("HTTP/1.1 204 No Content\r\n\r\nabc")
	if err := errors.Join(r.Header.Read(br), r.ReadBody(br, 0)); err != nil || string(r.Body()) != "abc" || !r.ConnectionClose() {
		t.Errorf("%q, close %v, %v", r.Body(), r.ConnectionClose(), err)
	}
}

func TestResponseReadSkipBody(t *testing.T) {
	for _, framing := range []string{"Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", ""} {
		br := reader("HTTP/1.1 200 OK\r\n" + framing + "\r\nrest")
		r := Response{SkipBody: true}
		err := r.Read(br)
		rest, _ := io.ReadAll(br)
		if err != nil || len(r.Body()) != 0 || string(rest) != "rest" || !r.SkipBody {
			t.Errorf("%q: %v, body %q, rest %q", framing, err, r.Body(), rest)
		}
	}
}

func TestResponseStreamBody(t *testing.T) {
	for _, test := range []struct {
		in, body, trailer string
		err               error
	}{
		{"Content-Length: 3\r\n\r\nabcrest", "abc", "", nil},
		{"Content-Length: 0\r\n\r\nrest", "", "", nil},
		{"Content-Length: 9\r\n\r\nabc", "abc", "", io.ErrUnexpectedEOF},
		{"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: v\r\n\r\nrest", "abc", "v", nil},
		{"\r\nabcrest", "abcrest", "", nil},
	} {
		r := Response{StreamBody: true}
		if err := r.ReadLimitBody(reader("HTTP/1.1 200 OK\r\n"+test.in), 1); err != nil || !r.IsBodyStream() {
			t.Fatalf("%q: %v, stream %v", test.in, err, r.IsBodyStream())
		}
		got, err := io.ReadAll(r.BodyStream())
		if string(got) != test.body || err != test.err || string(r.Header.Peek("X-T")) != test.trailer {
			t.Errorf("%q: %q, %v", test.in, got, err)
		}
		if err := r.CloseBodyStream(); err != nil || r.IsBodyStream() {
			t.Errorf("%q: close: %v", test.in, err)
		}
	}
	r := Response{StreamBody: true}
	if err := r.Read(reader("HTTP/1.1 204 No Content\r\n\r\nrest")); err != nil || r.IsBodyStream() {
		t.Errorf("204: %v, stream %v", err, r.IsBodyStream())
	}
}

func TestResponseReadBody(t *testing.T) {
	for length, want := range map[int]string{3: "3\r\n", 0: "", -1: "abc", -2: "3\r\nabc\r\n0\r\n\r\n"} {
		var r Response
		r.Header.SetContentLength(length)
		if err := r.ReadBody(reader("3\r\nabc\r\n0\r\n\r\n"), 0); err != nil || string(r.Body()) != want {
			t.Errorf("%d: %q, %v", length, r.Body(), err)
		}
	}
}

// FuzzResponseRead: as FuzzRequestRead.
func FuzzResponseRead(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n1;a=b\r\na\r\n0\r\nX-T: v\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 404 Not Found\r\nSet-Cookie: a=b\r\n\r\nuntil the end",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabc",
		"HTTP/1.1 205 Reset Content\r\nX-A: a\r\n b\r\nContent-Length: 1\r\n\r\nx",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 16
		var r Response
		err := r.ReadLimitBody(reader(string(in)), limit)
		if n := cap(r.buffered()); n > 2*len(in)+1024 {
			t.Fatalf("%d bytes of memory for %d of input", n, len(in))
		}
		if err != nil {
			return
		}
		content := string(r.Body())
		if message.BodyForbidden(r.StatusCode()) || r.StatusCode() == StatusResetContent {
			content = ""
		}
		first := r.String()
		var again Response
		br := reader(first)
		if err := again.Read(br); err != nil {
			t.Fatalf("%q was written as %q: %v", in, first, err)
		}
		if br.Buffered() != 0 {
			t.Fatalf("%q has bytes behind its end", first)
		}
		if string(again.Body()) != content {
			t.Fatalf("%q: body %q became %q", first, content, again.Body())
		}
		if a, b := dateLine.ReplaceAllString(first, ""), dateLine.ReplaceAllString(again.String(), ""); a != b {
			t.Fatalf("%q became %q", a, b)
		}
	})
}
