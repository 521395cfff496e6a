package body

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var errSource = errors.New("source")

// closable counts how often it is closed.
type closable struct {
	io.Reader
	closes int
}

func (c *closable) Close() error { c.closes++; return errSource }

type failingSeeker struct{ io.Reader }

func (failingSeeker) Seek(int64, int) (int64, error) { return 0, errSource }

// TestUpload: what was read is counted and can be sent again; a panic is an error.
func TestUpload(t *testing.T) {
	panicking := iotest.ErrReader(nil)
	for name, s := range map[string]*Upload{
		"sought": {Stream: strings.NewReader("body")}, "not": {Stream: io.MultiReader(strings.NewReader("body"))},
	} {
		if !s.Rewind() {
			t.Errorf("%s: what was not read cannot be sent", name)
		}
		if n, err := s.Read(make([]byte, 3)); n != 3 || err != nil || s.Count != 3 {
			t.Errorf("%s: %d, %v, %d", name, n, err, s.Count)
		}
		if s.Rewind() != (name == "sought") {
			t.Errorf("%s: rewind", name)
		}
	}
	s := &Upload{Stream: strings.NewReader("body")}
	_, _ = s.Read(make([]byte, 3))
	if b, err := io.ReadAll(s); !s.Rewind() || string(b) != "y" || err != nil || s.Count != 4 {
		t.Errorf("%q, %v, %d", b, err, s.Count)
	}
	if err := s.Close(); err != nil || s.Rewind() {
		t.Errorf("closed: %v", err)
	}
	failing := &Upload{Stream: failingSeeker{strings.NewReader("body")}}
	_, _ = failing.Read(make([]byte, 1))
	if failing.Rewind() {
		t.Error("it was not sought")
	}
	c := &closable{Reader: panicking}
	if err := (&Upload{Stream: c}).Close(); err != errSource || c.closes != 1 {
		t.Errorf("%v, closed %d times", err, c.closes)
	}
	s = &Upload{Panicked: func(v any) error { return fmt.Errorf("%w: %v", errSource, v) }}
	if _, err := s.Read(nil); !errors.Is(err, errSource) { // a nil stream panics
		t.Errorf("panic: %v", err)
	}
}
