package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

func TestResponseReadErrors(t *testing.T) {
	for in, want := range map[string]error{
		"":                             io.EOF,
		"HTTP/1.1 200 OK\r\n":          io.ErrUnexpectedEOF,
		"\r\n":                         io.EOF,
		"\r\n\r\n\r\n\r\n\r\n":         h1.ErrStatusLine,
		"HTTP/1.1  200OK\r\n\r\n":      ErrUnexpectedStatusCodeChar,
		"HTTP/1.1 099\r\n\r\n":         h1.ErrStatusLine,
		"HTTP/1.1\r\n\r\n":             ErrResponseFirstLineMissingSpace,
		"HTTP/1.1 200OK\r\n\r\n":       ErrUnexpectedStatusCodeChar,
		"HTTP/1.1 200x\r\n\r\n":        ErrUnexpectedStatusCodeChar,
		"HTTP/1.1 2x0 OK\r\n\r\n":      h1.ErrStatusLine,
		"HTTP/1.1 20 OK\r\n\r\n":       h1.ErrStatusLine,
		"XTTP/1.1 200 OK\r\n\r\n":      h1.ErrVersion,
		"HTTP/1.1 200 OK\r\nX\r\n\r\n": ErrReadingResponseHeaders,
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n": ErrDuplicateContentLength,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n":            ErrUnsupportedTransferEncoding,
	} {
		h := new(ResponseHeader)
		h.SetServer("old")
		h.SetStatusCode(404)
		if err := h.Read(reader(in)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", in, err, want)
		}
		if undated(h) != "HTTP/1.1 200 OK\r\n\r\n" {
			t.Errorf("%q: left %q", in, undated(h))
		}
	}
}

// FuzzResponseHeaderRoundTrip is the same for responses.
func FuzzResponseHeaderRoundTrip(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nServer: s\r\nx: a\r\n b\r\nSet-Cookie: a=b\r\nSet-Cookie:\r\nContent-Length: 3\r\nDate: d\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 404\r\nTrailer: x\r\nConnection: keep-alive, close\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 999 \r\nTransfer-Encoding: chunked\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var first, second ResponseHeader
		if first.Read(bufio.NewReaderSize(bytes.NewReader(in), 1<<16)) != nil || first.Len() > 190 {
			return
		}
		wire := undated(&first)
		checkWire(t, wire, false)
		if err := second.Read(reader(wire)); err != nil {
			t.Fatalf("%q was written as %q: %v", in, wire, err)
		}
		if got := undated(&second); got != wire {
			t.Fatalf("%q was written as %q and then as %q", in, wire, got)
		}
		if message.BodyForbidden(first.StatusCode()) && !strings.Contains(wire, "\r\nContent-Length:") {
			// A length that was received is kept, and must not be sent on
			// (RFC 9110 section 8.6).
			first.m.ContentLength, first.m.HasLength = second.m.ContentLength, false
		}
		if a, b := fieldsOf(first.All()), fieldsOf(second.All()); a != b {
			t.Fatalf("%q became %q", a, b)
		}
	})
}

// TestMoreFieldsFitLargerBuffers: one field for 64 bytes of the buffer, 200 at
// least.
func TestMoreFieldsFitLargerBuffers(t *testing.T) {
	for _, c := range []struct {
		size, fields int
		isTooMany    bool
	}{{4096, 200, false}, {4096, 201, true}, {64 << 10, 1024, false}, {64 << 10, 1025, true}} {
		fields := strings.Repeat("X: y\r\n", c.fields-1) + "Host: h\r\n\r\n"
		var q RequestHeader
		if err := q.Read(bufio.NewReaderSize(strings.NewReader("GET / HTTP/1.1\r\n"+fields), c.size)); errors.Is(err, h1.ErrTooManyFields) != c.isTooMany || !c.isTooMany && err != nil {
			t.Errorf("request, %d fields in %d bytes: %v", c.fields, c.size, err)
		}
		var r Response
		if err := r.Read(bufio.NewReaderSize(strings.NewReader("HTTP/1.1 204 No\r\n"+fields), c.size)); errors.Is(err, h1.ErrTooManyFields) != c.isTooMany || !c.isTooMany && err != nil {
			t.Errorf("response, %d fields in %d bytes: %v", c.fields, c.size, err)
		}
		if got := (&HostClient{ReadBufferSize: c.size}).headLimits().MaxFields; got < c.fields != c.isTooMany {
			t.Errorf("client with a buffer of %d bytes: %d fields", c.size, got)
		}
	}
}
