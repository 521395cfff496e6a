package body

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/message"
)

func TestNoChunkEndsTheContent(t *testing.T) {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if n, err := writeChunk(w, nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	writeChunk(w, []byte("x"))
	w.Flush()
	if got := out.String(); got != "1\r\nx\r\n" {
		t.Errorf("%q", got)
	}
}

// What is beyond the announced length is not sent. A copy that may end early is told.
func TestSizedBeyondTheLength(t *testing.T) {
	for _, c := range []struct {
		endsEarly bool
		n         int
		err       error
	}{{false, 4, nil}, {true, 0, errSizeReached}} {
		w := &Sized{EndsEarly: c.endsEarly}
		if n, err := w.Write([]byte("more")); n != c.n || err != c.err {
			t.Errorf("ends early %v: %d, %v, want %d, %v", c.endsEarly, n, err, c.n, c.err)
		}
	}
}

// withTrailer returns a head whose message has the trailer X: y.
func withTrailer() *message.Header {
	h := &message.Header{}
	if err := h.Announce([]byte("X")); err != nil {
		panic(err)
	}
	h.Put("X", []byte("y"), message.Sets)
	return h
}

// TestWriteStream: how each kind of stream is framed for each kind of length.
func TestWriteStream(t *testing.T) {
	read := func() io.Reader { return iotest.HalfReader(strings.NewReader("text")) }
	writes := func() io.Reader { s := &selfWriter{supports: true}; s.Reset("text"); return s }
	memory := func() io.Reader { return bytes.NewReader([]byte("text")) }
	for name, c := range map[string]struct {
		stream       func() io.Reader
		length, size int64
		want         string
		err          error
	}{
		"sized, read":                     {read, 4, -1, "text", nil},
		"sized, writes itself":            {writes, 4, -1, "text", nil},
		"sized, memory":                   {memory, 4, -1, "text", nil},
		"of no length":                    {read, 0, -1, "", nil},
		"longer than its length, read":    {read, 3, -1, "tex", nil},
		"longer than its length, written": {writes, 3, -1, "tex", nil},
		"shorter than its length":         {read, 5, -1, "text", io.ErrUnexpectedEOF},
		"shorter, written":                {writes, 5, -1, "text", io.ErrUnexpectedEOF},
		"chunked, read":                   {func() io.Reader { return struct{ io.Reader }{strings.NewReader("text")} }, -1, -1, "4\r\ntext\r\n0\r\nX: y\r\n\r\n", nil},
		"chunked, writes itself":          {writes, -1, -1, "4\r\ntext\r\n0\r\nX: y\r\n\r\n", nil},
		"chunked, memory":                 {memory, -1, -1, "4\r\ntext\r\n0\r\nX: y\r\n\r\n", nil},
		"chunked, of a size":              {memory, -1, 2, "2\r\nte\r\n0\r\nX: y\r\n\r\n", nil},
		"to the end, read":                {read, -2, -1, "text", nil},
		"to the end, writes itself":       {writes, -2, -1, "text", nil},
		"fails":                           {func() io.Reader { return io.MultiReader(strings.NewReader("te"), iotest.ErrReader(errSource)) }, 4, -1, "te", errSource},
	} {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		h := withTrailer()
		var x StreamWriter
		err := x.WriteStream(w, c.stream(), c.length, c.size, h)
		w.Flush()
		if out.String() != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v, want %q, %v", name, out.String(), err, c.want, c.err)
		}
		if x != (StreamWriter{}) {
			t.Errorf("%s: the StreamWriter keeps %v", name, x)
		}
	}
}

// Each part is flushed, unless the stream writes itself and has no length.
func TestWriteStreamFlushes(t *testing.T) {
	self := &selfWriter{supports: true}
	for name, c := range map[string]struct {
		stream  io.Reader
		length  int64
		flushed bool
	}{
		"read":                       {iotest.OneByteReader(strings.NewReader("te")), -2, true},
		"writes itself":              {self, -2, false},
		"writes itself, chunked":     {self, -1, false},
		"writes itself, of a length": {self, 2, true},
	} {
		self.Reset("te")
		var out bytes.Buffer
		err := new(StreamWriter).WriteStream(bufio.NewWriter(&out), c.stream, c.length, -1, new(message.Header))
		if (out.Len() > 0) != c.flushed || err != nil {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}

// brokenAfter fails once it got n bytes.
type brokenAfter struct{ left int }

func (b *brokenAfter) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	if b.left -= n; n < len(p) {
		return n, errSource
	}
	return n, nil
}

// A connection that breaks at any byte is an error, which no later byte hides.
func TestWriteStreamToABrokenConnection(t *testing.T) {
	const text = "4\r\ntext\r\n0\r\n\r\n"
	for at := range len(text) {
		for name, write := range map[string]func(w *bufio.Writer) error{
			"read": func(w *bufio.Writer) error {
				return new(StreamWriter).WriteStream(w, struct{ io.Reader }{strings.NewReader("text")}, -1, -1, new(message.Header))
			},
			"content": func(w *bufio.Writer) error { return WriteContent(w, []byte("text"), -1, new(message.Header)) },
		} {
			w := bufio.NewWriterSize(&brokenAfter{at}, 1)
			if err := errors.Join(write(w), w.Flush()); !errors.Is(err, errSource) {
				t.Errorf("%s, broken after %d bytes: %v", name, at, err)
			}
		}
	}
}

func TestWriteContent(t *testing.T) {
	for _, c := range []struct {
		content string
		length  int64
		want    string
	}{
		{"text", 4, "text"}, {"text", -2, "text"}, {"", 0, ""},
		{"text", -1, "4\r\ntext\r\n0\r\nX: y\r\n\r\n"}, {"", -1, "0\r\nX: y\r\n\r\n"},
	} {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		h := withTrailer()
		if err := WriteContent(w, []byte(c.content), c.length, h); err != nil {
			t.Error(err)
		}
		w.Flush()
		if out.String() != c.want {
			t.Errorf("%q, length %d: %q", c.content, c.length, out.String())
		}
	}
}
