package message

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/uri"
)

// TestReadRequest: what follows the head stays in the reader, however the head arrives.
func TestReadRequest(t *testing.T) {
	const head = "\r\nPOST /p?q HTTP/1.1\r\nhost: h\r\nX-long: " + "a\r\ncontent-type: t\r\nContent-Length: 3\r\n\r\n"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(head + "abc"), "bytes": iotest.OneByteReader(strings.NewReader(head + "abc"))} {
		b := bufio.NewReader(r)
		var h RequestHeader
		h.Put("Earlier", []byte("x"), Sets)
		if err := h.Read(b, ReaderLimits(b)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := string(h.Method()) + " " + string(h.Target()); got != "POST /p?q" || h.ContentLength != 3 || !h.HasLength || h.ConnectionClose {
			t.Errorf("%s: %s, length %d", name, got, h.ContentLength)
		}
		if got, want := visited(h.Visit), "Host: h|Content-Length: 3|Content-Type: t|X-Long: a"; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if got, want := visited(func(yield func(key, value []byte) bool) bool { h.VisitReceived(yield); return true }), "Host: h|X-Long: a|Content-Type: t|Content-Length: 3"; got != want {
			t.Errorf("%s: received %s, want %s", name, got, want)
		}
		if rest, err := io.ReadAll(b); string(rest) != "abc" || err != nil {
			t.Errorf("%s: %q, %v remains", name, rest, err)
		}
	}
}

// TestReadRequestTwice: of a field that has one value, the last one received counts.
func TestReadRequestTwice(t *testing.T) {
	b := bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: a\r\nContent-Type: t\r\nX: 1\r\nX: 2\r\nUser-Agent: b\r\nContent-Type: u\r\n\r\n"))
	var h RequestHeader
	if err := h.Read(b, ReaderLimits(b)); err != nil {
		t.Fatal(err)
	}
	if got, want := visited(h.Visit), "Host: h|Content-Type: u|User-Agent: b|X: 1|X: 2"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReadRequestRefuses: the error matches an exported variable, and the violation that is more
// precise. The header is then empty.
func TestReadRequestRefuses(t *testing.T) {
	for _, test := range []struct {
		head string
		want []error
	}{
		{"", []error{io.EOF}},
		{"\r\n", []error{io.EOF}},
		{"GET / HT", []error{io.ErrUnexpectedEOF}},
		{"GET / HTTP/1.1\r\nHost: h\r\n", []error{io.ErrUnexpectedEOF}},
		{" / HTTP/1.1\r\nHost: h\r\n\r\n", []error{h1.ErrMethod, ErrMissingRequestMethod}},
		{"G(T / HTTP/1.1\r\nHost: h\r\n\r\n", []error{h1.ErrMethod, ErrUnsupportedRequestMethod}},
		{"GET  HTTP/1.1\r\nHost: h\r\n\r\n", []error{uri.ErrEmptyTarget}},
		{"GET \r\nHost: h\r\n\r\n", []error{uri.ErrEmptyTarget}},
		{"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", []error{ErrExtraWhitespaceInRequestLine}},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", []error{h1.ErrContentLengthConflict, ErrDuplicateContentLength}},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1x\r\n\r\n", []error{h1.ErrContentLength, ErrNonNumericChars}},
		{"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", []error{ErrUnsupportedTransferEncoding}},
		{"GET / HTTP/1.1\r\n\r\n", []error{h1.ErrHostMissing}},
		{"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 200) + "\r\n\r\n", []error{h1.ErrHeadTooLarge, ErrSmallReadBuffer}},
		{"GET /" + strings.Repeat("x", 200) + " HTTP/1.1\r\nHost: h\r\n\r\n", []error{ErrSmallReadBuffer}},
	} {
		var h RequestHeader
		h.Put("Earlier", []byte("x"), Sets)
		err := h.Read(bufio.NewReader(strings.NewReader(test.head)), BufferLimits(100))
		for _, want := range test.want {
			if !errors.Is(err, want) {
				t.Errorf("%.60q: %v, want %v", test.head, err, want)
			}
		}
		small := new(ErrSmallBuffer)
		if isSmall := errors.As(err, &small); isSmall != (test.want[len(test.want)-1] == ErrSmallReadBuffer) {
			t.Errorf("%.60q: *ErrSmallBuffer: %v", test.head, isSmall)
		}
		if got := string(h.AppendHead(nil, Framing{Length: -2})); got != "GET / HTTP/1.1\r\n\r\n" {
			t.Errorf("%.60q leaves %q", test.head, got)
		}
	}
}

func TestReadResponse(t *testing.T) {
	const head = "HTTP/1.0 404 Gone away\r\nServer: a\r\nserver: b\r\nContent-Encoding: br\r\nContent-Encoding: gzip\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n"
	b := bufio.NewReader(strings.NewReader(head + "x"))
	var h ResponseHeader
	if err := h.Read(b, ReaderLimits(b), nil); err != nil {
		t.Fatal(err)
	}
	if h.Status() != 404 || string(h.Reason()) != "Gone away" || h.ConnectionClose || string(h.Protocol()) != "HTTP/1.0" || h.IsHTTP11() {
		t.Errorf("%d %q, closes: %v, %s", h.Status(), h.Reason(), h.ConnectionClose, h.Protocol())
	}
	if got, want := visited(h.Visit), "Content-Length: 1|Content-Type: text/plain; charset=utf-8|Content-Encoding: br, gzip|Server: b|Connection: keep-alive"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if rest, _ := io.ReadAll(b); string(rest) != "x" {
		t.Errorf("%q remains", rest)
	}
}

// TestReadResponseRefuses is TestReadRequestRefuses for responses.
func TestReadResponseRefuses(t *testing.T) {
	for _, test := range []struct {
		head    string
		want    []error
		isOther bool // the error is not one of the head
	}{
		{"", []error{io.EOF}, true},
		{"HTTP/1.1 200", []error{io.ErrUnexpectedEOF}, true},
		{"HTTP/1.1\r\n\r\n", []error{h1.ErrStatusLine, ErrResponseFirstLineMissingSpace}, false},
		{"HTTP/1.1 200x OK\r\n\r\n", []error{h1.ErrStatusLine, ErrUnexpectedStatusCodeChar}, false},
		{"HTTP/1.1 2x0 OK\r\n\r\n", []error{h1.ErrStatusLine}, false},
		{"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", []error{h1.ErrContentLength, ErrNonNumericChars}, false},
		{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200) + "\r\n\r\n", []error{ErrSmallReadBuffer}, true},
	} {
		var h ResponseHeader
		err := h.Read(bufio.NewReader(strings.NewReader(test.head)), BufferLimits(100), nil)
		for _, want := range test.want {
			if !errors.Is(err, want) {
				t.Errorf("%.60q: %v, want %v", test.head, err, want)
			}
		}
		if errors.Is(err, ErrReadingResponseHeaders) == test.isOther {
			t.Errorf("%.60q: %v: is an error of the head: %v", test.head, err, !test.isOther)
		}
		if h.Len() != 1 || h.Status() != 200 { // the default Content-Type
			t.Errorf("%.60q leaves %d, %s", test.head, h.Status(), visited(h.Visit))
		}
	}
}

// TestEndError: a connection that ends between messages has ended as it may.
func TestEndError(t *testing.T) {
	failure := errors.New("failure")
	for _, test := range []struct {
		err  error
		raw  string
		want error
	}{
		{io.EOF, "", io.EOF},
		{io.EOF, "\r\n\n", io.EOF},
		{io.EOF, "\r\nG", io.ErrUnexpectedEOF},
		{failure, "", ErrNothingRead{failure}},
		{failure, "\r\n", ErrNothingRead{failure}},
		{failure, "G", failure},
	} {
		if got := EndError(test.err, []byte(test.raw)); got != test.want {
			t.Errorf("%v after %q: %v, want %v", test.err, test.raw, got, test.want)
		}
	}
	var h RequestHeader
	err := h.Read(bufio.NewReader(io.MultiReader(strings.NewReader("GET / "), iotest.ErrReader(failure))), BufferLimits(100))
	if !errors.Is(err, failure) || errors.As(err, new(ErrNothingRead)) {
		t.Errorf("a reader that fails within the head: %v", err)
	}
}

// TestBufferLimits: a head fills at most the buffer.
func TestBufferLimits(t *testing.T) {
	for size, fields := range map[int]int{16: h1.DefaultLimits.MaxFields, 64 * h1.DefaultLimits.MaxFields: h1.DefaultLimits.MaxFields, 64 << 10: 1024} {
		want := h1.Limits{MaxLine: size, MaxHead: size, MaxFields: fields}
		if got := BufferLimits(size); got != want {
			t.Errorf("%d: %+v, want %+v", size, got, want)
		}
		want.MaxFields = max(fields, size/8)
		if got := ReaderLimits(bufio.NewReaderSize(nil, size)); got != want {
			t.Errorf("a reader of %d: %+v, want %+v", size, got, want)
		}
	}
}

// TestReadTrailer: forbidden fields are dropped (RFC 9110 section 6.5.1).
func TestReadTrailer(t *testing.T) {
	b := bufio.NewReader(strings.NewReader("x-sum: 1\r\nContent-Length: 5\r\nETag: \"a\"\r\nHost: h\r\nX-Sum: 2\r\n\r\nrest"))
	var h RequestHeader
	if err := h.ReadTrailer(b, BufferLimits(1000)); err != nil {
		t.Fatal(err)
	}
	if got, want := string(h.TrailerSection()), "X-Sum: 1\r\nEtag: \"a\"\r\nX-Sum: 2\r\n\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := string(bytes.Join(h.PeekAll([]byte("X-Sum")), []byte("|"))); got != "1|2" {
		t.Errorf("the values of X-Sum are %q", got)
	}
	if rest, _ := io.ReadAll(b); string(rest) != "rest" || h.Host() != nil || h.HasLength {
		t.Errorf("%q remains, host %q", rest, h.Host())
	}
	for _, test := range []struct {
		section  string
		isBad    bool
		contains error
	}{
		{"", false, io.EOF},
		{"X: 1\r\n", false, io.ErrUnexpectedEOF},
		{"X1\r\n\r\n", true, h1.ErrFieldLine},
		{"X 1: x\r\n\r\n", true, h1.ErrFieldName},
		{"X: \x01\r\n\r\n", true, h1.ErrControl},
		{"X: a\rb\r\n\r\n", true, h1.ErrBareCR},
		{"X: " + strings.Repeat("x", 200) + "\r\n\r\n", true, ErrSmallReadBuffer},
	} {
		var h RequestHeader
		err := h.ReadTrailer(bufio.NewReader(strings.NewReader(test.section)), BufferLimits(100))
		if errors.Is(err, ErrBadTrailer) != test.isBad || !errors.Is(err, test.contains) || h.HasTrailers() {
			t.Errorf("%.40q: %v, want %v", test.section, err, test.contains)
		}
	}
}

// visited returns fields as text.
func visited(visit func(yield func(key, value []byte) bool) bool) string {
	var all []string
	visit(func(key, value []byte) bool {
		all = append(all, string(key)+": "+string(value))
		return true
	})
	return strings.Join(all, "|")
}

// TestHeadInPieces: what follows a head that arrives in pieces is not copied with it.
func TestHeadInPieces(t *testing.T) {
	const head, size = "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 60_000
	for _, first := range []int{1, 10} {
		r := bufio.NewReaderSize(io.MultiReader(strings.NewReader(head[:first]), strings.NewReader(head[first:]+strings.Repeat("x", size))), 2*size)
		var h RequestHeader
		if err := h.Read(r, BufferLimits(2*size)); err != nil {
			t.Fatal(err)
		}
		if n := cap(h.Table.Raw()); n > 4<<10 {
			t.Errorf("after %d bytes: %d bytes for the head", first, n)
		}
		if rest, err := io.Copy(io.Discard, r); rest != size || err != nil {
			t.Errorf("%d bytes remain, %v", rest, err)
		}
	}
}
