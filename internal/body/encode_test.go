package body

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/compress"
)

// TestEncoding: the source is read, or writes itself, and is closed once.
func TestEncoding(t *testing.T) {
	text := strings.Repeat("content ", 1000)
	for name, source := range map[string]io.Reader{
		"read": iotest.HalfReader(strings.NewReader(text)), "writes itself": strings.NewReader(text),
	} {
		c := &closable{Reader: source}
		stream := io.Reader(c)
		if name == "writes itself" {
			stream = source
		}
		e := NewEncoding(stream, compress.Gzip, 1, false)
		if e.SupportsBodyWriteTo() != (name == "writes itself") {
			t.Errorf("%s: WriteTo %v", name, e.SupportsBodyWriteTo())
		}
		var encoded bytes.Buffer
		if err := Copy(&encoded, e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		decoder, err := gzip.NewReader(&encoded)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := io.ReadAll(decoder); string(got) != text || err != nil {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		want := error(nil)
		if stream == c {
			want = errSource
		}
		if err := e.CloseWithError(nil); err != want || stream == c && c.closes != 1 {
			t.Errorf("%s: %v, closed %d times", name, err, c.closes)
		}
	}
}

// TestHolds: an encoder counts beside the bytes of its source, and only bytes in memory count.
func TestHolds(t *testing.T) {
	memory := strings.NewReader("12345")
	e := NewEncoding(memory, compress.Gzip, 1, false)
	for _, c := range []struct {
		stream io.Reader
		want   int
	}{{nil, 0}, {memory, 5}, {struct{ io.Reader }{memory}, 0}, {e, 1<<20 + 5}} {
		if got := Holds(c.stream); got != c.want {
			t.Errorf("%T: %d bytes, want %d", c.stream, got, c.want)
		}
	}
	if err := Close(e, nil); err != nil {
		t.Error(err)
	}
}

// TestExact: a stream has the bytes of its length, and a shorter one is an error, whether it is
// read or writes itself.
func TestExact(t *testing.T) {
	for _, c := range []struct {
		text string
		size int64
		want string
		err  error
	}{
		{"12345", 5, "12345", nil}, {"123456", 5, "12345", nil}, {"1234", 5, "1234", io.ErrUnexpectedEOF}, {"", 0, "", nil}, {"1", 0, "", nil}, {"", 1, "", io.ErrUnexpectedEOF},
	} {
		for name, source := range map[string]io.Reader{
			"read": iotest.OneByteReader(strings.NewReader(c.text)), "end with data": iotest.DataErrReader(strings.NewReader(c.text)), "writes itself": strings.NewReader(c.text),
		} {
			closing := &closable{Reader: source}
			stream := io.Reader(closing)
			if name == "writes itself" {
				stream = source
			}
			e := NewExact(stream, c.size)
			var got bytes.Buffer
			if err := Copy(&got, e); got.String() != c.want || err != c.err || e.SupportsBodyWriteTo() != (name == "writes itself") {
				t.Errorf("%q, %d bytes, %s: %q, %v", c.text, c.size, name, got.String(), err)
			}
			if err := Close(e, nil); stream == closing && (err != errSource || closing.closes != 1) {
				t.Errorf("%s: %v, closed %d times", name, err, closing.closes)
			}
		}
	}
	if n := Holds(NewEncoding(NewExact(strings.NewReader("12345"), 5), compress.Gzip, 1, false)); n != encoderMemory+5 {
		t.Errorf("holds %d bytes", n)
	}
}
