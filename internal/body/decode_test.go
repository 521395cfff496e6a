package body

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/compress"
)

// encoded returns content in codings, the first of which is applied first.
func encoded(content []byte, codings ...compress.Coding) []byte {
	for _, c := range codings {
		content = compress.Append(nil, content, c, 1)
	}
	return content
}

// TestDecodings: sources that come in bytes, and ends of all kinds.
func TestDecodings(t *testing.T) {
	content := []byte(strings.Repeat("content ", 1000))
	errBroken := errors.New("broken")
	for _, codings := range [][]compress.Coding{{compress.Gzip}, {compress.Deflate}, {compress.Brotli}, {compress.Zstd}, {compress.Brotli, compress.Gzip}, {compress.Gzip, compress.Zstd, compress.Deflate}} {
		whole := encoded(content, codings...)
		bomb := encoded(make([]byte, len(content)+1), codings...)
		for name, c := range map[string]struct {
			source io.Reader
			want   error
		}{
			"whole":       {bytes.NewReader(whole), nil},
			"bytes":       {iotest.OneByteReader(bytes.NewReader(whole)), nil},
			"data at EOF": {iotest.DataErrReader(bytes.NewReader(whole)), nil},
			"empty":       {strings.NewReader(""), nil},
			"cut":         {bytes.NewReader(whole[:len(whole)-1]), io.ErrUnexpectedEOF},
			"first byte":  {bytes.NewReader(whole[:1]), io.ErrUnexpectedEOF},
			"broken":      {io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), iotest.ErrReader(errBroken)), errBroken},
			"at once":     {iotest.ErrReader(errBroken), errBroken},
			"bomb":        {bytes.NewReader(bomb), ErrTooLarge},
		} {
			d := NewDecoding(c.source, codings, len(content))
			got, err := io.ReadAll(d)
			if !errors.Is(err, c.want) || c.want == nil && name != "empty" && !bytes.Equal(got, content) {
				t.Errorf("%v, %s: %d bytes, %v", codings, name, len(got), err)
			}
			if _, again := d.Read(make([]byte, 1)); c.want != nil && again != err || c.want == nil && again != io.EOF {
				t.Errorf("%v, %s: then %v", codings, name, again)
			}
			_ = d.Close()
			if _, again := d.Read(make([]byte, 1)); again != ErrClosed {
				t.Errorf("%v, %s: after Close %v", codings, name, again)
			}
		}
	}
}

// TestDecodingMore: what follows the end of a coding is an error.
func TestDecodingMore(t *testing.T) {
	for _, c := range []compress.Coding{compress.Gzip, compress.Brotli, compress.Zstd, compress.Deflate} {
		source := append(encoded([]byte("content"), c), bytes.Repeat([]byte("more"), 4<<10)...)
		if got, err := io.ReadAll(NewDecoding(bytes.NewReader(source), []compress.Coding{c}, 0)); err == nil {
			t.Errorf("%v: %q", c, got)
		}
	}
}

// TestDecodingTellsTheSource: it is closed, with the reason, also by what fails.
func TestDecodingTellsTheSource(t *testing.T) {
	for _, isRead := range []bool{false, true} {
		s := &told{Reader: strings.NewReader("not gzip")}
		d := NewDecoding(s, []compress.Coding{compress.Gzip}, 0)
		if isRead {
			if _, err := d.Read(make([]byte, 1)); err == nil || s.err != err {
				t.Errorf("read %v, told %v", err, s.err)
			}
		}
		if err := d.CloseWithError(io.ErrNoProgress); err != io.ErrNoProgress || s.err != io.ErrNoProgress {
			t.Errorf("%v, told %v", err, s.err)
		}
	}
}

// told is a stream that learns why it is closed.
type told struct {
	io.Reader
	err error
}

func (s *told) CloseWithError(err error) error {
	s.err = err
	return nil
}

// FuzzDecoding decodes any bytes, which give no more than the limit.
func FuzzDecoding(f *testing.F) {
	for c := range compress.Coding(4) {
		f.Add(encoded([]byte("content"), c), uint8(c))
		f.Add(encoded([]byte("content"), c, 3-c), uint8(c)<<2|uint8(3-c))
	}
	f.Fuzz(func(t *testing.T, source []byte, codings uint8) {
		const limit = 1 << 10
		d := NewDecoding(bytes.NewReader(source), []compress.Coding{compress.Coding(codings >> 2 & 3), compress.Coding(codings & 3)}, limit)
		defer d.Close()
		if got, _ := io.ReadAll(d); len(got) > limit {
			t.Fatalf("%d bytes", len(got))
		}
	})
}
