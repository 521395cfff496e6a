package sluice

import (
	"bufio"
	"errors"
	"io"
	"regexp"
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

var dateLine = regexp.MustCompile(`Date: [^\r]*\r\n`)

var errWire = errors.New("the wire is cut")
