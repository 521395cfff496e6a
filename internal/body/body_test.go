package body

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// TestAppendStream: what was in dst before does not count.
func TestAppendStream(t *testing.T) {
	for limit, want := range map[int]string{0: "pre12345", 1: "pre1", 4: "pre1234", 5: "pre12345", 8: "pre12345"} {
		got, err := AppendStream([]byte("pre"), struct{ io.Reader }{strings.NewReader("12345")}, limit)
		if string(got) != want || (err == ErrTooLarge) != (len(want) < 8) {
			t.Errorf("limit %d: %q, %v", limit, got, err)
		}
	}
}

func TestMakeRoomGrowsInProportion(t *testing.T) {
	for _, test := range []struct {
		have int
		left int64
		want int
	}{
		{0, 0, 512}, {0, 10, 10}, {512, 0, 1024}, {512, 100, 612}, {512, 1, 513}, {512, 600, 1024}, {1000, 1 << 40, 2000},
	} {
		b := makeRoom(make([]byte, test.have), test.left)
		if cap(b) != test.want || len(b) != test.have {
			t.Errorf("%d with %d left: capacity %d, want %d", test.have, test.left, cap(b), test.want)
		}
	}
}

// TestAppendStreamThatWritesItself: the limit holds for what it writes.
func TestAppendStreamThatWritesItself(t *testing.T) {
	for limit, want := range map[int]string{0: "pre12345", 4: "pre", 5: "pre12345", 8: "pre12345"} {
		for name, s := range map[string]io.Reader{"bytes": bytes.NewReader([]byte("12345")), "string": strings.NewReader("12345")} {
			got, err := AppendStream([]byte("pre"), s, limit)
			if string(got) != want || (err == ErrTooLarge) != (want == "pre") {
				t.Errorf("%s, limit %d: %q, %v", name, limit, got, err)
			}
		}
	}
}

// A selfWriter says whether its WriteTo may replace Read.
type selfWriter struct {
	strings.Reader
	supports bool
}

func (s *selfWriter) SupportsBodyWriteTo() bool { return s.supports }

func TestWriterTo(t *testing.T) {
	for name, c := range map[string]struct {
		s                   io.Reader
		inferred, otherwise bool
	}{
		"a stream that agrees":  {&selfWriter{supports: true}, true, true},
		"one that does not":     {&selfWriter{}, false, false},
		"a file":                {&os.File{}, false, false},
		"another WriterTo":      {strings.NewReader(""), true, false},
		"what can only be read": {iotest.ErrReader(nil), false, false},
		"no stream":             {nil, false, false},
	} {
		for mayInfer, want := range map[bool]bool{true: c.inferred, false: c.otherwise} {
			if to, ok := WriterTo(c.s, mayInfer); ok != want || (to != nil) != want {
				t.Errorf("%s, may infer %v: %v, %v", name, mayInfer, to, ok)
			}
		}
	}
}

// A toldStream is closed, and is told why.
type toldStream struct {
	closable
	told  []error
	fails error
}

func (s *toldStream) CloseWithError(err error) error {
	s.told = append(s.told, err)
	return s.fails
}

// TestClose: Close comes first, and the first error counts.
func TestClose(t *testing.T) {
	reason, failure := errors.New("reason"), errors.New("failure")
	told := &toldStream{fails: failure}
	for _, c := range []struct {
		s         io.Reader
		err, want error
	}{{nil, nil, nil}, {strings.NewReader(""), reason, reason}, {&closable{}, nil, errSource}, {&closable{}, reason, reason}, {told, nil, errSource}, {told, reason, reason}} {
		if got := Close(c.s, c.err); got != c.want {
			t.Errorf("%T closed because of %v: %v, want %v", c.s, c.err, got, c.want)
		}
	}
	if told.closes != 2 || len(told.told) != 2 || told.told[0] != nil || told.told[1] != reason {
		t.Errorf("closed %d times, told %v", told.closes, told.told)
	}
}

// TestCopy: a stream whose WriteTo may not replace Read is read.
func TestCopy(t *testing.T) {
	for _, supports := range []bool{true, false} {
		s := &selfWriter{supports: supports}
		s.Reset("text")
		var out bytes.Buffer
		if err := Copy(&out, s); err != nil || out.String() != "text" {
			t.Errorf("supports %v: %q, %v", supports, out.String(), err)
		}
	}
	if err := Copy(io.Discard, iotest.ErrReader(errSource)); err != errSource {
		t.Error(err)
	}
}

// TestLimitReader: at most the limit is returned, and more is an error.
func TestLimitReader(t *testing.T) {
	for limit, want := range map[int]error{0: ErrTooLarge, 4: ErrTooLarge, 5: nil, 6: nil} {
		for name, in := range map[string]io.Reader{"whole": strings.NewReader("12345"), "bytes": iotest.OneByteReader(strings.NewReader("12345"))} {
			got, err := io.ReadAll(LimitReader(in, limit))
			if string(got) != "12345"[:min(limit, 5)] || err != want {
				t.Errorf("%s, limit %d: %q, %v", name, limit, got, err)
			}
		}
	}
}

// A shortWriter takes two bytes.
type shortWriter struct{}

func (shortWriter) Write([]byte) (int, error) { return 2, io.ErrShortWrite }

// TestMemory: what was not written is still there, and the end is reported
// only to who asks for bytes.
func TestMemory(t *testing.T) {
	s := &Memory{Left: []byte("0123456789")}
	if n, err := s.Read(nil); n != 0 || err != nil || !s.SupportsBodyWriteTo() {
		t.Errorf("Read(nil): %d, %v", n, err)
	}
	p := make([]byte, 4)
	if n, err := s.Read(p); n != 4 || err != nil || string(p) != "0123" {
		t.Errorf("Read: %d, %v, %q", n, err, p)
	}
	if n, err := s.WriteTo(shortWriter{}); n != 2 || err != io.ErrShortWrite {
		t.Errorf("WriteTo: %d, %v", n, err)
	}
	var rest strings.Builder
	if n, err := s.WriteTo(&rest); n != 4 || err != nil || rest.String() != "6789" {
		t.Errorf("the rest: %d, %v, %q", n, err, rest.String())
	}
	if n, err := s.Read(p); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	s.Left = []byte("more")
	if err := s.Close(); err != nil || len(s.Left) > 0 {
		t.Errorf("Close: %q, %v", s.Left, err)
	}
}
