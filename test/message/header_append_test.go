package message_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// A raw header shows the Transfer-Encoding that was set, and is framed by what
// says how long the body is.
func TestRawTransferEncoding(t *testing.T) {
	for _, c := range []struct {
		coding, shown, head string
		length              int
	}{
		{"gzip", "gzip", "Content-Length: 0|", 0},
		{" ChUnKeD ", " ChUnKeD ", "Content-Length: 0|", 0},
		{"chunked", "chunked", "Transfer-Encoding: chunked|", -1},
	} {
		var h sluice.RequestHeader
		h.DisableSpecialHeader()
		h.Set("Content-Length", "0")
		h.Set("Transfer-Encoding", c.coding)
		if c.length >= 0 {
			h.Set("Content-Length", "0")
		}
		h.EnableSpecialHeader()
		if got := string(h.Peek("Transfer-Encoding")); got != c.shown || h.ContentLength() != c.length {
			t.Errorf("%q: shows %q, length %d", c.coding, got, h.ContentLength())
		}
		h.SetMethod(sluice.MethodPost)
		h.DisableSpecialHeader()
		want := "POST / HTTP/1.1\r\n" + strings.ReplaceAll(c.head, "|", "\r\n") + "\r\n"
		if got := h.String(); got != want {
			t.Errorf("%q: %q, want %q", c.coding, got, want)
		}
		h.SetContentLength(3)
		if got := h.Peek("Transfer-Encoding"); got != nil {
			t.Errorf("%q: a length of 3 leaves %q", c.coding, got)
		}
	}
}

func TestRequestTarget(t *testing.T) {
	for in, want := range map[string]string{
		"": "/", "/a?b": "/a?b", "*": "*", "http://h/p": "http://h/p", "/a b": "/a%20b", "/a\r\nb": "/a%0D%0Ab", "/%41": "/%41",
		"/\x80": "/%80", "/a#b c": "/a", "#f": "/", "/?q\x00": "/?q%00",
	} {
		var h sluice.RequestHeader
		h.SetRequestURI(in)
		if got := h.String(); got != "GET "+want+" HTTP/1.1\r\n\r\n" {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if in != "" && string(h.RequestURI()) != in {
			t.Errorf("%q: RequestURI is %q", in, h.RequestURI())
		}
	}
}

func TestWriters(t *testing.T) {
	var q sluice.RequestHeader
	q.SetHost("h")
	var b bytes.Buffer
	n, err := q.WriteTo(&b)
	if err != nil || int(n) != b.Len() || b.String() != q.String() || b.String() != string(q.AppendBytes(nil)) {
		t.Errorf("WriteTo: %d, %v, %q", n, err, b.String())
	}
	var r sluice.ResponseHeader
	b.Reset()
	if n, err := r.WriteTo(&b); err != nil || int(n) != b.Len() || !bytes.HasPrefix(r.Header(), []byte("HTTP/1.1 200 OK\r\nDate: ")) {
		t.Errorf("WriteTo: %d, %v, %q", n, err, b.String())
	}
	if got := r.AppendBytes([]byte("before ")); !bytes.HasPrefix(got, []byte("before HTTP/1.1 200 OK\r\nDate: ")) || len(got) != b.Len()+7 {
		t.Errorf("AppendBytes: %q", got)
	}
	q.SetBytesV("Via", []byte("1"))
	r.SetBytesV("Via", []byte("1"))
	for _, appendTo := range []func(dst []byte) []byte{q.AppendBytes, r.AppendBytes} {
		room := bytes.Repeat([]byte("x"), 1024)
		if out := appendTo(room[:0]); bytes.Trim(room[len(out):], "x") != nil {
			t.Errorf("AppendBytes: %q is after the result", room[len(out):])
		}
	}
}
