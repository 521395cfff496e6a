package message_test

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

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/test/harness"
)

func TestRequestReadErrors(t *testing.T) {
	const host = " HTTP/1.1\r\nHost: h\r\n"
	for in, want := range map[string]error{
		"":                                 io.EOF,
		"\r\n":                             io.EOF,
		"GET ":                             io.ErrUnexpectedEOF,
		"GET /" + host:                     io.ErrUnexpectedEOF,
		" /" + host + "\r\n":               sluice.ErrMissingRequestMethod,
		"G@T /" + host + "\r\n":            sluice.ErrUnsupportedRequestMethod,
		"\r\nG@T /" + host + "\r\n":        sluice.ErrUnsupportedRequestMethod,
		"GET " + host + "\r\n":             sluice.ErrEmptyRequestURI,
		"GET \r\n\r\n":                     sluice.ErrEmptyRequestURI,
		"GET  /" + host + "\r\n":           sluice.ErrExtraWhitespaceInRequestLine,
		"GET / " + host + "\r\n":           sluice.ErrExtraWhitespaceInRequestLine,
		"GET /a#b" + host + "\r\n":         h1.ErrTarget,
		"GET /\r\n\r\n":                    h1.ErrVersion,
		"GET / HTTP/2.0\r\n\r\n":           h1.ErrMajorVersion,
		"GET / HTTP/1.1\r\n\r\n":           h1.ErrHostMissing,
		"GET /" + host + "Host: i\r\n\r\n": h1.ErrHostDuplicate,
		"GET /" + host + " folded\r\n\r\n": h1.ErrFolding,
		"GET /" + host + "a b: c\r\n\r\n":  h1.ErrFieldName,
		"GET /" + host + "a: \x00\r\n\r\n": h1.ErrControl,
		"GET /\n":                          h1.ErrBareLF,
		"GET /" + host + "Content-Length: x\r\n\r\n":                                                             sluice.ErrNonNumericChars,
		"GET /" + host + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n":                                        sluice.ErrDuplicateContentLength,
		"GET /" + host + "Transfer-Encoding: gzip\r\n\r\n":                                                       sluice.ErrUnsupportedTransferEncoding,
		"GET /" + host + "Transfer-Encoding: identity\r\n\r\n":                                                   sluice.ErrUnsupportedTransferEncoding,
		"GET /" + host + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n":                               h1.ErrLengthAndCoding,
		"GET /" + host + strings.Repeat("X: y\r\n", message.ReaderLimits(harness.Reader("")).MaxFields) + "\r\n": h1.ErrTooManyFields,
	} {
		h := new(sluice.RequestHeader)
		h.SetHost("old")
		err := h.Read(harness.Reader(in))
		if !errors.Is(err, want) {
			t.Errorf("%.60q: %v, want %v", in, err, want)
		}
		if want == io.EOF && err != io.EOF {
			t.Errorf("%q: %v is not io.EOF itself", in, err)
		}
		for _, other := range []error{sluice.ErrMissingRequestMethod, sluice.ErrUnsupportedRequestMethod, sluice.ErrEmptyRequestURI, sluice.ErrExtraWhitespaceInRequestLine} {
			if other != want && errors.Is(err, other) {
				t.Errorf("%.60q: %v is also %v", in, err, other)
			}
		}
		if h.String() != "GET / HTTP/1.1\r\n\r\n" {
			t.Errorf("%.60q: left %q", in, h.String())
		}
	}
}

func TestReadFailures(t *testing.T) {
	broken := errors.New("broken")
	var q sluice.RequestHeader
	var nothing sluice.ErrNothingRead
	err := q.Read(bufio.NewReader(iotest.ErrReader(broken)))
	if !errors.As(err, &nothing) || !errors.Is(err, broken) {
		t.Errorf("before the first byte: %v", err)
	}
	var answer sluice.ResponseHeader
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
		var small *sluice.ErrSmallBuffer
		err := q.Read(bufio.NewReaderSize(strings.NewReader(in), 64))
		if !errors.As(err, &small) || !errors.Is(err, sluice.ErrSmallReadBuffer) {
			t.Errorf("%.20q: %v", in, err)
		}
		var r sluice.ResponseHeader
		err = r.Read(bufio.NewReaderSize(strings.NewReader("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("a", 100)+"\r\n\r\n"), 64))
		if _, isSmall := err.(*sluice.ErrSmallBuffer); !isSmall {
			t.Errorf("response: %v", err)
		}
	}
}

// What a head announces counts wherever the field stands.
func TestReadAnnouncements(t *testing.T) {
	for _, fields := range []string{"Trailer: A, B\r\nHost: h\r\n", "Host: h\r\nTrailer: A, B\r\n", "Trailer: A\r\nHost: h\r\nTrailer: B\r\n"} {
		var q sluice.RequestHeader
		var r sluice.ResponseHeader
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

// Whatever ends a connection before a response is its end, but for a time-out.
func TestResponseReadEndsAtTheFirstByte(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		before string
		err    error
		is     error // of the result
		isNot  error
	}{
		{"", os.ErrDeadlineExceeded, sluice.ErrTimeout, io.EOF},
		{"\r\n", os.ErrDeadlineExceeded, sluice.ErrTimeout, io.EOF},
		{"", harness.Timeout{IsOne: true}, sluice.ErrTimeout, io.EOF},
		{"", &net.OpError{Op: "read", Err: harness.Timeout{IsOne: true}}, sluice.ErrTimeout, io.EOF},
		{"", harness.Timeout{IsOne: false}, io.EOF, sluice.ErrTimeout},
		{"", broken, io.EOF, sluice.ErrTimeout},
		{"", broken, broken, sluice.ErrTimeout},
		{"\r\n", broken, io.EOF, sluice.ErrTimeout},
		{"", io.EOF, io.EOF, sluice.ErrTimeout},
		{"\r\n\r\n", io.EOF, io.EOF, io.ErrUnexpectedEOF},
		{"H", os.ErrDeadlineExceeded, os.ErrDeadlineExceeded, io.EOF},
		{"H", broken, broken, io.EOF},
		{"H", io.EOF, io.ErrUnexpectedEOF, io.EOF},
	} {
		for name, read := range map[string]func(r *bufio.Reader) error{
			"ResponseHeader": func(r *bufio.Reader) error { return new(sluice.ResponseHeader).Read(r) },
			"Response":       func(r *bufio.Reader) error { return new(sluice.Response).Read(r) },
		} {
			err := read(failingAfter(c.before, c.err))
			if !errors.Is(err, c.is) || errors.Is(err, c.isNot) {
				t.Errorf("%s: %q and %v: %v", name, c.before, c.err, err)
			}
			if (c.is == sluice.ErrTimeout || c.err == io.EOF && c.is == io.EOF) && err != c.is {
				t.Errorf("%s: %q and %v: %v wraps %v", name, c.before, c.err, err, c.is)
			}
		}
	}
	// After an interim response, an end is one within the message.
	err := new(sluice.Response).Read(failingAfter("HTTP/1.1 100 Continue\r\n\r\n", broken))
	if !errors.Is(err, broken) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		t.Errorf("after an interim response: %v", err)
	}
}

func TestReadLeavesTheRest(t *testing.T) {
	const head = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
	r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(head + head + "body")))
	var h sluice.RequestHeader
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
		var first, second sluice.RequestHeader
		first.SetNoDefaultContentType(true) // which is not read but invented
		second.SetNoDefaultContentType(true)
		if first.Read(bufio.NewReaderSize(bytes.NewReader(in), 1<<16)) != nil || first.Len() > 190 {
			return
		}
		wire := first.String()
		checkWire(t, wire, true)
		if err := second.Read(harness.Reader(wire)); err != nil {
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

// TestLastOfRepeatedFieldsCounts: of fields that are single, which a peer sends
// several times all the same.
func TestLastOfRepeatedFieldsCounts(t *testing.T) {
	const fields = "Content-Type: a/a\r\nX: 1\r\ncontent-type: b/b\r\nUser-Agent: 1\r\nServer: 1\r\nUser-Agent: 2\r\nX: 2\r\n" +
		"Content-Encoding: 1\r\nServer: 2\r\nContent-Encoding: 2\r\nContent-Type: c/c\r\n\r\n"
	q := harness.ReadRequest(t, "GET / HTTP/1.1\r\nHost: h\r\n"+fields)
	if got, want := fieldsOf(q.All()), "Host=h Content-Type=c/c User-Agent=2 X=1 Server=1 X=2 Server=2 Content-Encoding=1, 2"; got != want {
		t.Errorf("request: %s, want %s", got, want)
	}
	if got, want := fieldsOf(q.AllInOrder()), "Host=h Content-Type=a/a X=1 Content-Type=b/b User-Agent=1 Server=1 User-Agent=2 X=2 Content-Encoding=1 Server=2 Content-Encoding=2 Content-Type=c/c"; got != want {
		t.Errorf("in order: %s, want %s", got, want)
	}
	r := harness.ReadResponse(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+fields)
	if got, want := fieldsOf(r.All()), "Content-Length=0 Content-Type=c/c Content-Encoding=1, 2 Server=2 X=1 User-Agent=1 User-Agent=2 X=2"; got != want {
		t.Errorf("response: %s, want %s", got, want)
	}
	if got := fmt.Sprintf("%s %s %s", r.Peek("server"), r.PeekAll("Content-Type"), r.ContentEncoding()); got != "2 [c/c] 1, 2" {
		t.Errorf("response: %s", got)
	}
	var raw sluice.RequestHeader
	raw.DisableSpecialHeader()
	if err := raw.Read(harness.Reader("GET / HTTP/1.1\r\nHost: h\r\n" + fields)); err != nil || raw.Len() != 12 {
		t.Errorf("without special fields: %v, %d fields", err, raw.Len())
	}
}

// TestVersionsOfResponses: the major version must be 1 (RFC 9110 section 2.5).
func TestVersionsOfResponses(t *testing.T) {
	for line, want := range map[string]error{
		"HTTP/1.0 200 OK": nil, "HTTP/1.1  200 OK": nil, "HTTP/1.2 200 OK": nil,
		"HTTP/0.9 200 OK": h1.ErrMajorVersion, "HTTP/2.0 200 OK": h1.ErrMajorVersion, "HTTP/2 200 OK": h1.ErrVersion,
	} {
		var h sluice.ResponseHeader
		if err := h.Read(harness.Reader(line + "\r\n\r\n")); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", line, err, want)
		}
	}
}
