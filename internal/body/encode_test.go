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
