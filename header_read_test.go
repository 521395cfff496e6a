package sluice

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/h1"
	"github.com/sluicehttp/sluice/internal/message"
)

func TestRequestReadErrors(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: h\r\n"
	for in, want := range map[string]error{
		"":                                 io.EOF,
		"\r\n":                             io.EOF,
		"GET ":                             io.ErrUnexpectedEOF,
		"GET /" + host:                     io.ErrUnexpectedEOF,
		" /" + host + "\r\n":               ErrMissingRequestMethod,
		"G@T /" + host + "\r\n":            ErrUnsupportedRequestMethod,
		"\r\nG@T /" + host + "\r\n":        ErrUnsupportedRequestMethod,
		"GET " + host + "\r\n":             ErrEmptyRequestURI,
		"GET \r\n\r\n":                     ErrEmptyRequestURI,
		"GET  /" + host + "\r\n":           ErrExtraWhitespaceInRequestLine,
		"GET / " + host + "\r\n":           ErrExtraWhitespaceInRequestLine,
		"GET /a#b" + host + "\r\n":         h1.ErrTarget,
		"GET /\r\n\r\n":                    h1.ErrVersion,
		"GET / HTTP/2.0\r\n\r\n":           h1.ErrMajorVersion,
		"GET / HTTP/1.1\r\n\r\n":           h1.ErrHostMissing,
		"GET /" + host + "Host: i\r\n\r\n": h1.ErrHostDuplicate,
		"GET /" + host + " folded\r\n\r\n": h1.ErrFolding,
		"GET /" + host + "a b: c\r\n\r\n":  h1.ErrFieldName,
		"GET /" + host + "a: \x00\r\n\r\n": h1.ErrControl,
		"GET /\n":                          h1.ErrBareLF,
		"GET /" + host + "Content-Length: x\r\n\r\n":                                                            ErrNonNumericChars,
		"GET /" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n":                                       ErrDuplicateContentLength,
		"GET /" + host + "Transfer-Encoding: gzip\r\n\r\n":                                                      ErrUnsupportedTransferEncoding,
		"GET /" + host + "Transfer-Encoding: identity\r\n\r\n":                                                  ErrUnsupportedTransferEncoding,
		"GET /" + host + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n":                              h1.ErrLengthAndCoding,
		"GET /" + host + strings.Repeat("X: y\r\n", message.BufferLimits(reader("").Size()).MaxFields) + "\r\n": h1.ErrTooManyFields,
	} {
		h := new(RequestHeader)
		h.SetHost("old")
		err := h.Read(reader(in))
		if !errors.Is(err, want) {
			t.Errorf("%.60q: %v, want %v", in, err, want)
		}
		if want == io.EOF && err != io.EOF {
			t.Errorf("%q: %v is not io.EOF itself", in, err)
		}
		for _, other := range []error{ErrMissingRequestMethod, ErrUnsupportedRequestMethod, ErrEmptyRequestURI, ErrExtraWhitespaceInRequestLine} {
			if other != want && errors.Is(err, other) {
				t.Errorf("%.60q: %v is also %v", in, err, other)
			}
		}
		if h.String() != "GET / HTTP/1.1\r\n\r\n" {
			t.Errorf("%.60q: left %q", in, h.String())
		}
	}
}

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

func TestReadFailures(t *testing.T) {
	broken := errors.New("broken")
	var q RequestHeader
	var nothing ErrNothingRead
	err := q.Read(bufio.NewReader(iotest.ErrReader(broken)))
	if !errors.As(err, &nothing) || !errors.Is(err, broken) {
		t.Errorf("before the first byte: %v", err)
	}
	var answer ResponseHeader
	if err := answer.Read(bufio.NewReader(iotest.ErrReader(broken))); !errors.Is(err, io.EOF) || !errors.Is(err, broken) {
		t.Errorf("before the first byte of a response: %v", err)
	}
	err = q.Read(bufio.NewReader(io.MultiReader(strings.NewReader("GET"), iotest.ErrReader(broken))))
	if errors.As(err, &nothing) || !errors.Is(err, broken) {
		t.Errorf("behind the first byte: %v", err)
	}
	for _, in := range []string{
		"GET /" + strings.Repeat("a", 100) + " HTTP/1.1\r\nHost: h\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("a", 100) + "\r\n\r\n",
	} {
		var small *ErrSmallBuffer
		err := q.Read(bufio.NewReaderSize(strings.NewReader(in), 64))
		if !errors.As(err, &small) || !errors.Is(err, ErrSmallReadBuffer) {
			t.Errorf("%.20q: %v", in, err)
		}
		var r ResponseHeader
		err = r.Read(bufio.NewReaderSize(strings.NewReader("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 100)+"\r\n\r\n"), 64))
		if _, isSmall := err.(*ErrSmallBuffer); !isSmall {
			t.Errorf("response: %v", err)
		}
	}
}

// What a head announces counts wherever the field stands.
func TestReadAnnouncements(t *testing.T) {
	for _, fields := range []string{"Trailer: A, B\r\nHost: h\r\n", "Host: h\r\nTrailer: A, B\r\n", "Trailer: A\r\nHost: h\r\nTrailer: B\r\n"} {
		var q RequestHeader
		var r ResponseHeader
		errs := errors.Join(q.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\n"+fields+"\r\n"))),
			r.Read(bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\n"+fields+"\r\n"))))
		for _, keys := range [][][]byte{q.PeekTrailerKeys(), r.PeekTrailerKeys()} {
			if got := bytes.Join(keys, []byte(" ")); errs != nil || string(got) != "A B" {
				t.Errorf("%q: %q, %v", fields, got, errs)
			}
		}
	}
}

// failingAfter is a reader that fails with err after data.
func failingAfter(data string, err error) *bufio.Reader {
	return bufio.NewReader(io.MultiReader(strings.NewReader(data), iotest.ErrReader(err)))
}

// A timeout is what it says it is, and no net.Error.
type timeout struct{ isOne bool }

func (timeout) Error() string   { return "it took too long" }
func (t timeout) Timeout() bool { return t.isOne }

// Whatever ends a connection before a response is its end, but for a time-out.
func TestResponseReadEndsAtTheFirstByte(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		before string
		err    error
		is     error // of the result
		isNot  error
	}{
		{"", os.ErrDeadlineExceeded, ErrTimeout, io.EOF},
		{"\r\n", os.ErrDeadlineExceeded, ErrTimeout, io.EOF},
		{"", timeout{isOne: true}, ErrTimeout, io.EOF},
		{"", &net.OpError{Op: "read", Err: timeout{isOne: true}}, ErrTimeout, io.EOF},
		{"", timeout{isOne: false}, io.EOF, ErrTimeout},
		{"", broken, io.EOF, ErrTimeout},
		{"", broken, broken, ErrTimeout},
		{"\r\n", broken, io.EOF, ErrTimeout},
		{"", io.EOF, io.EOF, ErrTimeout},
		{"\r\n\r\n", io.EOF, io.EOF, io.ErrUnexpectedEOF},
		{"H", os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, io.EOF},
		{"H", broken, broken, io.EOF},
		{"H", io.EOF, io.ErrUnexpectedEOF, io.EOF},
	} {
		for name, read := range map[string]func(r *bufio.Reader) error{
			"ResponseHeader": func(r *bufio.Reader) error { return new(ResponseHeader).Read(r) },
			"Response":       func(r *bufio.Reader) error { return new(Response).Read(r) },
		} {
			err := read(failingAfter(c.before, c.err))
			if !errors.Is(err, c.is) || errors.Is(err, c.isNot) {
				t.Errorf("%s: %q and %v: %v", name, c.before, c.err, err)
			}
			if (c.is == ErrTimeout || c.err == io.EOF && c.is == io.EOF) && err != c.is {
				t.Errorf("%s: %q and %v: %v wraps %v", name, c.before, c.err, err, c.is)
			}
		}
	}
	// After an interim response, an end is one within the message.
	err := new(Response).Read(failingAfter("HTTP/1.1 100 Continue\r\n\r\n", broken))
	if !errors.Is(err, broken) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("after an interim response: %v", err)
	}
}

func TestReadLeavesTheRest(t *testing.T) {
	const head = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(head + head + "body")))
	var h RequestHeader
	for range 2 {
		if err := h.Read(r); err != nil || h.String() != head {
			t.Fatalf("%v, %q", err, h.String())
		}
	}
	if rest, _ := io.ReadAll(r); string(rest) != "body" {
		t.Errorf("left %q", rest)
	}
}

// FuzzRequestHeaderRoundTrip: what was read is written so that it is read the
// same.
func FuzzRequestHeaderRoundTrip(f *testing.F) {
	f.Add([]byte("GET /a?b HTTP/1.1\r\nHost: h\r\nCookie: a=b; c=d\r\nx-y:  z \r\nCookie: e\r\nConnection: close, x\r\n\r\n"))
	f.Add([]byte("POST http://a/b HTTP/1.0\r\nContent-Length: 3\r\nContent-Type: a\r\nContent-Type: b\r\nTrailer: a, host\r\n\r\n"))
	f.Add([]byte("POST * HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: Upgrade\r\nConnection: close\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var first, second RequestHeader
		first.SetNoDefaultContentType(true) // which is not read but invented
		second.SetNoDefaultContentType(true)
		if first.Read(bufio.NewReaderSize(bytes.NewReader(in), 1<<16)) != nil || first.Len() > 190 {
			return
		}
		wire := first.String()
		checkWire(t, wire, true)
		if err := second.Read(reader(wire)); err != nil {
			t.Fatalf("%q was written as %q: %v", in, wire, err)
		}
		if got := second.String(); got != wire {
			t.Fatalf("%q was written as %q and then as %q", in, wire, got)
		}
		if a, b := fieldsOf(first.All()), fieldsOf(second.All()); a != b {
			t.Fatalf("%q became %q", a, b)
		}
		for key, value := range first.All() {
			if len(first.PeekAll(string(key))) == 0 && len(value) > 0 || first.PeekBytes(key) == nil {
				t.Fatalf("%q is visited and not found", key)
			}
		}
	})
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

// TestLastOfRepeatedFieldsCounts: of fields that are single, which a peer sends
// several times all the same.
func TestLastOfRepeatedFieldsCounts(t *testing.T) {
	const fields = "Content-Type: a/a\r\nX: 1\r\ncontent-type: b/b\r\nUser-Agent: 1\r\nServer: 1\r\nUser-Agent: 2\r\nX: 2\r\n" +
		"Content-Encoding: 1\r\nServer: 2\r\nContent-Encoding: 2\r\nContent-Type: c/c\r\n\r\n"
	q := readRequest(t, "GET / HTTP/1.1\r\nHost: h\r\n"+fields)
	if got, want := fieldsOf(q.All()), "Host=h Content-Type=c/c User-Agent=2 X=1 Server=1 X=2 Server=2 Content-Encoding=1, 2"; got != want {
		t.Errorf("request: %s, want %s", got, want)
	}
	if got, want := fieldsOf(q.AllInOrder()), "Host=h Content-Type=a/a X=1 Content-Type=b/b User-Agent=1 Server=1 User-Agent=2 X=2 Content-Encoding=1 Server=2 Content-Encoding=2 Content-Type=c/c"; got != want {
		t.Errorf("in order: %s, want %s", got, want)
	}
	r := readResponse(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+fields)
	if got, want := fieldsOf(r.All()), "Content-Length=0 Content-Type=c/c Content-Encoding=1, 2 Server=2 X=1 User-Agent=1 User-Agent=2 X=2"; got != want {
		t.Errorf("response: %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%s %s %s", r.Peek("server"), r.PeekAll("Content-Type"), r.ContentEncoding()); got != "2 [c/c] 1, 2" {
		t.Errorf("response: %s", got)
	}
	var raw RequestHeader
	raw.DisableSpecialHeader()
	if err := raw.Read(reader("GET / HTTP/1.1\r\nHost: h\r\n" + fields)); err != nil || raw.Len() != 12 {
		t.Errorf("without special fields: %v, %d fields", err, raw.Len())
	}
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

// TestVersionsOfResponses: the major version must be 1 (RFC 9110 section 2.5).
func TestVersionsOfResponses(t *testing.T) {
	for line, want := range map[string]error{
		"HTTP/1.0 200 OK": nil, "HTTP/1.1  200 OK": nil, "HTTP/1.2 200 OK": nil,
		"HTTP/0.9 200 OK": h1.ErrMajorVersion, "HTTP/2.0 200 OK": h1.ErrMajorVersion, "HTTP/2 200 OK": h1.ErrVersion,
	} {
		var h ResponseHeader
		if err := h.Read(reader(line + "\r\n\r\n")); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", line, err, want)
		}
	}
}
