package compress

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// chunks is a source whose every Read returns one chunk, and whose WriteTo writes each
// with one call. err follows the last one. With isLast it comes with the last one.
type chunks struct {
	parts    []string
	err      error
	isLast   bool
	asString bool // WriteTo calls WriteString
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.parts) == 0 {
		return 0, c.end()
	}
	n := copy(p, c.parts[0])
	if c.parts[0] = c.parts[0][n:]; c.parts[0] == "" {
		c.parts = c.parts[1:]
	}
	if c.isLast && len(c.parts) == 0 {
		return n, c.end()
	}
	return n, nil
}

func (c *chunks) end() error {
	if c.err != nil {
		return c.err
	}
	return io.EOF
}

func (c *chunks) WriteTo(w io.Writer) (written int64, err error) {
	for _, part := range c.parts {
		var n int
		if c.asString {
			n, err = io.WriteString(w, part)
		} else {
			n, err = w.Write([]byte(part))
		}
		if written += int64(n); err != nil {
			return written, err
		}
	}
	return written, c.err
}

// counted counts the writes that it receives, and fails after the first left ones, if
// err is set.
type counted struct {
	bytes.Buffer
	writes []int // how long the buffer is after each
	left   int
	err    error
}

func (c *counted) Write(p []byte) (int, error) {
	if c.err != nil && c.left == 0 {
		return 0, c.err
	}
	c.left--
	n, err := c.Buffer.Write(p)
	c.writes = append(c.writes, c.Buffer.Len())
	return n, err
}

// decoded returns what a stream of coding c contains, as far as it goes.
func decoded(t *testing.T, encoded []byte, c Coding) string {
	t.Helper()
	got, err := AppendDecoded(nil, encoded, c, 0)
	if err != nil {
		t.Errorf("%s: %d bytes do not decode: %v", c.Name(), len(encoded), err)
	}
	return string(got)
}

// sources are contents of a stream: none, short, and longer than what is encoded at once.
var sources = map[string][]string{
	"empty": nil,
	"one":   {"one"},
	"many":  {"first ", "second ", "third"},
	"long":  {string(text(3*streamPart + 5)), "end"},
}

// TestStreamRead: whatever is read at a time, the bytes decode to the source's, and io.EOF
// stays.
func TestStreamRead(t *testing.T) {
	eachCoding(t, func(t *testing.T, c Coding) {
		for name, parts := range sources {
			for _, flushes := range []bool{false, true} {
				for _, isLast := range []bool{false, true} {
					var s Stream
					source := &chunks{parts: append([]string(nil), parts...), isLast: isLast}
					s.Start(source, nil, c, 1, flushes)
					if s.Source() != io.Reader(source) || s.HasWriterTo() {
						t.Fatalf("%s: source %v, WriterTo: %v", name, s.Source(), s.HasWriterTo())
					}
					if n, err := s.Read(nil); n != 0 || err != nil || len(source.parts) != len(parts) {
						t.Errorf("%s: Read of nothing: %d, %v, %d parts left", name, n, err, len(source.parts))
					}
					encoded, err := io.ReadAll(iotest.HalfReader(&s))
					if err != nil || decoded(t, encoded, c) != strings.Join(parts, "") {
						t.Errorf("%s, flushes: %v, last: %v: %d bytes, %v", name, flushes, isLast, len(encoded), err)
					}
					if n, err := s.Read(make([]byte, 9)); n != 0 || err != io.EOF {
						t.Errorf("%s: at the end: %d, %v", name, n, err)
					}
					if s.in != nil || s.encoder != nil {
						t.Errorf("%s: the stream keeps its buffer or encoder", name)
					}
				}
			}
		}
	})
}

// TestStreamWriteTo: what the source's WriteTo writes is encoded, and counted as the writer
// has accepted it.
func TestStreamWriteTo(t *testing.T) {
	eachCoding(t, func(t *testing.T, c Coding) {
		for name, parts := range sources {
			for _, flushes := range []bool{false, true} {
				for _, asString := range []bool{false, true} {
					var s Stream
					var out counted
					source := &chunks{parts: parts, asString: asString}
					s.Start(nil, source, c, 1, flushes)
					if !s.HasWriterTo() {
						t.Fatalf("%s: no WriterTo", name)
					}
					n, err := s.WriteTo(&out)
					if err != nil || n != int64(out.Len()) || decoded(t, out.Bytes(), c) != strings.Join(parts, "") {
						t.Errorf("%s, flushes: %v, strings: %v: %d of %d bytes, %v", name, flushes, asString, n, out.Len(), err)
					}
					if n, err := s.WriteTo(&out); n != 0 || err != nil {
						t.Errorf("%s: after the end: %d, %v", name, n, err)
					}
				}
			}
		}
	})
}

// TestStreamWriteToReads: without a WriterTo, WriteTo reads the source.
func TestStreamWriteToReads(t *testing.T) {
	var s Stream
	var out bytes.Buffer
	s.Start(&chunks{parts: []string{"a", "b"}}, nil, Gzip, 1, false)
	if n, err := s.WriteTo(&out); err != nil || n != int64(out.Len()) || decoded(t, out.Bytes(), Gzip) != "ab" {
		t.Errorf("%d of %d bytes, %v", n, out.Len(), err)
	}
}

// prefix returns what the first bytes of a stream decode to: n bytes of it.
func prefix(encoded []byte, c Coding, n int) string {
	r := NewReader(bytes.NewReader(encoded), c, 0)
	defer r.Close()
	got := make([]byte, n)
	n, _ = io.ReadFull(r, got)
	return string(got[:n])
}

// TestStreamFlushes: with flushes, a receiver can decode each part when the source has
// given it; without them, nothing is there yet.
func TestStreamFlushes(t *testing.T) {
	const first, second = "first part", "second part"
	const level = 4 // levels 0 and 1 of brotli keep nothing back
	eachCoding(t, func(t *testing.T, c Coding) {
		for _, flushes := range []bool{false, true} {
			want, mostWrites := "", 2 // the beginning of a format may be written at once
			if flushes {
				want, mostWrites = first, 3
			}
			var s Stream
			var out counted
			s.Start(nil, &chunks{parts: []string{first, second}}, c, level, flushes)
			if _, err := s.WriteTo(&out); err != nil {
				t.Fatal(err)
			}
			if got := prefix(out.Bytes()[:out.writes[0]], c, len(first)); flushes && got != want {
				t.Errorf("WriteTo has written %q first, want %q", got, want)
			}
			if n := len(out.writes); n > mostWrites || flushes && n < mostWrites {
				t.Errorf("flushes: %v: %d writes", flushes, n)
			}

			failed := errors.New("the source has no more yet")
			var r Stream
			r.Start(&chunks{parts: []string{first}, err: failed}, nil, c, level, flushes)
			encoded, err := io.ReadAll(&r)
			if err != failed {
				t.Errorf("flushes: %v: %v", flushes, err)
			}
			if got := prefix(encoded, c, len(first)); got != want {
				t.Errorf("flushes: %v: read %q first, want %q", flushes, got, want)
			}
			if err := r.End(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestStreamSourceFails: the error of the source is returned, and stays.
func TestStreamSourceFails(t *testing.T) {
	boom := errors.New("boom")
	for _, isLast := range []bool{false, true} {
		for _, flushes := range []bool{false, true} {
			var s Stream
			s.Start(&chunks{parts: []string{"part"}, err: boom, isLast: isLast}, nil, Gzip, 1, flushes)
			for range 2 {
				if _, err := io.ReadAll(&s); err != boom {
					t.Errorf("last: %v, flushes: %v: Read: %v", isLast, flushes, err)
				}
			}
			if s.End(); s.in != nil || s.encoder != nil {
				t.Error("End keeps the buffer or the encoder")
			}
		}
	}
	var s Stream
	var out counted
	s.Start(nil, &chunks{parts: []string{"part"}, err: boom}, Gzip, 1, true)
	for range 2 {
		if _, err := s.WriteTo(&out); err != boom {
			t.Errorf("WriteTo: %v", err)
		}
	}
	if got := prefix(out.Bytes(), Gzip, 4); got != "part" {
		t.Errorf("WriteTo has written %q", got)
	}
	s.End()
}

// TestStreamWriterFails: the error of the writer is returned, with the number of bytes
// that it has accepted before, whether it fails in the middle or at the end.
func TestStreamWriterFails(t *testing.T) {
	boom := errors.New("boom")
	for _, left := range []int{0, 1, 2} {
		var s Stream
		out := counted{left: left, err: boom}
		s.Start(nil, &chunks{parts: []string{"a", "b"}}, Gzip, 1, true)
		if n, err := s.WriteTo(&out); err != boom || n != int64(out.Len()) || len(out.writes) != left {
			t.Errorf("after %d writes: %d of %d bytes in %d, %v", left, n, out.Len(), len(out.writes), err)
		}
		if n, err := s.WriteTo(&out); n != 0 || err != boom {
			t.Errorf("after %d writes, again: %d, %v", left, n, err)
		}
		s.End()
	}
}

// TestStreamEnd: End is for a stream that is not read to the end, and may be repeated.
func TestStreamEnd(t *testing.T) {
	var s Stream
	s.Start(&chunks{parts: []string{"a", "b"}}, nil, Gzip, 1, true)
	if n, err := s.Read(make([]byte, 5)); n != 5 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	for range 2 {
		if err := s.End(); err != nil || s.in != nil || s.encoder != nil {
			t.Errorf("%v, buffer %v, encoder %v", err, s.in, s.encoder)
		}
	}
}
