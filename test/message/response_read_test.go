package message_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestResponseReadLimitBody(t *testing.T) {
	for _, framing := range []string{
		"Content-Length: %\r\n\r\n#",
		"Transfer-Encoding: chunked\r\n\r\n%\r\n#\r\n0\r\n\r\n",
		"\r\n#",
	} {
		for n, ok := range map[string]bool{"5": true, "6": false} {
			in := "HTTP/1.1 200 OK\r\n" + strings.NewReplacer("%", n, "#", "123456"[:n[0]-'0']).Replace(framing)
			var r sluice.Response
			err := r.ReadLimitBody(harness.Reader(in), 5)
			if ok && (err != nil || string(r.Body()) != "12345") || !ok && err != sluice.ErrBodyTooLarge || len(r.Body()) > 5 {
				t.Errorf("%q: %q, %v", in, r.Body(), err)
			}
		}
	}
}

func TestResponseUntilTheEndClosesTheConnection(t *testing.T) {
	var r sluice.Response
	if err := r.Read(harness.Reader("HTTP/1.1 200 OK\r\n\r\nabc")); err != nil {
		t.Fatal(err)
	}
	if r.Header.ContentLength() != 3 || !r.ConnectionClose() {
		t.Errorf("length %d, close %v", r.Header.ContentLength(), r.ConnectionClose())
	}
	// Also if there should be no body.
	br := harness.Reader("HTTP/1.1 204 No Content\r\n\r\nabc")
	if err := errors.Join(r.Header.Read(br), r.ReadBody(br, 0)); err != nil || string(r.Body()) != "abc" || !r.ConnectionClose() {
		t.Errorf("%q, close %v, %v", r.Body(), r.ConnectionClose(), err)
	}
}

func TestResponseReadSkipBody(t *testing.T) {
	for _, framing := range []string{"Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", ""} {
		br := harness.Reader("HTTP/1.1 200 OK\r\n" + framing + "\r\nrest")
		r := sluice.Response{SkipBody: true}
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
		r := sluice.Response{StreamBody: true}
		if err := r.ReadLimitBody(harness.Reader("HTTP/1.1 200 OK\r\n"+test.in), 1); err != nil || !r.IsBodyStream() {
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
	r := sluice.Response{StreamBody: true}
	if err := r.Read(harness.Reader("HTTP/1.1 204 No Content\r\n\r\nrest")); err != nil || r.IsBodyStream() {
		t.Errorf("204: %v, stream %v", err, r.IsBodyStream())
	}
}

func TestResponseReadBody(t *testing.T) {
	for length, want := range map[int]string{3: "3\r\n", 0: "", -1: "abc", -2: "3\r\nabc\r\n0\r\n\r\n"} {
		var r sluice.Response
		r.Header.SetContentLength(length)
		if err := r.ReadBody(harness.Reader("3\r\nabc\r\n0\r\n\r\n"), 0); err != nil || string(r.Body()) != want {
			t.Errorf("%d: %q, %v", length, r.Body(), err)
		}
	}
}
