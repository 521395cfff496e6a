package body

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sluicehttp/sluice/internal/message"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

var errBroken = errors.New("a malformed chunk")

func TestAppendChunks(t *testing.T) {
	for in, want := range map[string]struct {
		body, rest string
		err        error // errBroken stands for any
	}{
		"3\r\nabc\r\n0\r\n\r\nX":        {"abc", "\r\nX", nil},
		"0\r\n\r\n":                     {"", "\r\n", nil},
		"3;x=\"y\"\r\nabc\r\n0\r\n\r\n": {"abc", "\r\n", nil},
		"A\r\n0123456789\r\n00\r\n":     {"0123456789", "", nil},
		"":                              {"", "", io.ErrUnexpectedEOF},
		"3":                             {"", "", io.ErrUnexpectedEOF},
		"3\r\nab":                       {"ab", "", io.ErrUnexpectedEOF},
		"3\r\nabc":                      {"abc", "", io.ErrUnexpectedEOF},
		"3\r\nabc\r\n":                  {"abc", "", io.ErrUnexpectedEOF},
		"x\r\n":                         {"", "", errBroken},
		"-1\r\n":                        {"", "", errBroken},
		"3\nabc\r\n0\r\n":               {"", "", errBroken},
		"3\r\nabcd\r\n0\r\n":            {"abc", "", errBroken},
		"10000000000000000\r\n":         {"", "", errBroken},
		"1;" + strings.Repeat("x", 300) + "\r\na\r\n0\r\n\r\n": {"", "", errBroken},
	} {
		for _, size := range []int{16, 4096} {
			br := bufio.NewReaderSize(iotest.HalfReader(strings.NewReader(in)), size)
			got, err := Append([]byte("pre"), br, -1, 0)
			_, isBroken := err.(message.ErrBrokenChunk)
			if want.err == errBroken {
				if !isBroken {
					t.Errorf("%q: err = %v", in, err)
				}
				continue
			}
			rest, _ := io.ReadAll(br)
			if string(got) != "pre"+want.body || err != want.err || string(rest) != want.rest {
				t.Errorf("%q: %q, %v, rest %q", in, got, err, rest)
			}
		}
	}
}

func TestAppendChunksLimit(t *testing.T) {
	for in, ok := range map[string]bool{
		"5\r\n12345\r\n0\r\n":           true,
		"3\r\n123\r\n2\r\n45\r\n0\r\n":  true,
		"6\r\n123456\r\n0\r\n":          false,
		"3\r\n123\r\n3\r\n456\r\n0\r\n": false,
		"ffffffffffff\r\n1":             false,
	} {
		got, err := Append([]byte("pre"), bufio.NewReader(strings.NewReader(in)), -1, 5)
		if ok && (err != nil || string(got) != "pre12345") || !ok && err != ErrTooLarge || len(got) > 8 {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// TestLimitChunks: a chunk that would exceed the limit is not waited for, but
// what has arrived of it is returned.
func TestLimitChunks(t *testing.T) {
	for _, test := range []struct {
		in    string
		limit int
		want  string
		err   error
	}{
		{"5\r\n12345\r\n0\r\n\r\n", 5, "12345", nil},
		{"5\r\n12345\r\n0\r\n\r\n", 4, "", ErrTooLarge},
		{"3\r\n123\r\n2\r\n45\r\n0\r\n\r\n", 5, "12345", nil},
		{"3\r\n123\r\n3\r\n456\r\n0\r\n\r\n", 5, "123", ErrTooLarge},
		{"1\r\n1\r\n1\r\n2\r\n", 1, "1", ErrTooLarge},
		{"fffffffffffffff\r\n1", 0, "1", io.ErrUnexpectedEOF},
	} {
		for name, kind := range map[string]func(io.Reader) io.Reader{"bytes": iotest.OneByteReader, "whole": func(r io.Reader) io.Reader { return r }} {
			s := NewReader(bufio.NewReader(kind(strings.NewReader(test.in))), new(message.Header), -1, h1.DefaultLimits)
			s.LimitChunks(test.limit)
			got, err := io.ReadAll(s)
			if name == "whole" && test.err == ErrTooLarge {
				if !strings.HasPrefix(string(got), test.want) {
					t.Errorf("%q, limit %d, whole: %q, %v", test.in, test.limit, got, err)
				}
				continue // it has arrived
			}
			if string(got) != test.want || err != test.err {
				t.Errorf("%q, limit %d, %s: %q, %v", test.in, test.limit, name, got, err)
			}
		}
	}
}

func TestReader(t *testing.T) {
	for name, test := range map[string]struct {
		in       string
		length   int
		want     string
		err      error
		rest     string
		complete bool
	}{
		"sized":           {"12345rest", 5, "12345", nil, "rest", true},
		"sized, empty":    {"rest", 0, "", nil, "rest", true},
		"sized, cut off":  {"123", 5, "123", io.ErrUnexpectedEOF, "", false},
		"chunked":         {"3\r\n123\r\n2\r\n45\r\n0\r\n\r\nrest", -1, "12345", nil, "rest", true},
		"chunked, cut":    {"3\r\n12", -1, "12", io.ErrUnexpectedEOF, "", false},
		"between chunks":  {"3\r\n123\r\n", -1, "123", io.ErrUnexpectedEOF, "", false},
		"in the trailers": {"3\r\n123\r\n0\r\nX: y\r\n", -1, "123", io.ErrUnexpectedEOF, "", false},
		"until the end":   {"12345", -2, "12345", nil, "", false},
	} {
		for _, split := range []bool{false, true} {
			var in io.Reader = strings.NewReader(test.in)
			if split {
				in = iotest.OneByteReader(in)
			}
			br := bufio.NewReader(in)
			s := NewReader(br, new(message.Header), test.length, h1.DefaultLimits)
			var got []byte
			var err error
			for p := make([]byte, 2); err == nil; {
				var n int
				n, err = s.Read(p)
				got = append(got, p[:n]...)
			}
			if err == io.EOF {
				err = nil
			}
			if string(got) != test.want || err != test.err || s.IsComplete() != test.complete {
				t.Errorf("%s: %q, %v, complete %v", name, got, err, s.IsComplete())
			}
			if n, again := s.Read(make([]byte, 1)); n != 0 || again == nil {
				t.Errorf("%s: Read after the end: %d, %v", name, n, again)
			}
			if rest, _ := io.ReadAll(br); string(rest) != test.rest {
				t.Errorf("%s: rest %q", name, rest)
			}
		}
	}
}

// TestAppendSized: the length is read and no more, and one beyond the limit is not waited for.
func TestAppendSized(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for _, c := range []struct {
		in            string
		length, limit int
		want          string
		err           error
	}{
		{"12345rest", 5, 0, "12345", nil},
		{"12345rest", 5, 5, "12345", nil},
		{"12345rest", 5, 4, "", ErrTooLarge},
		{"rest", 0, 1, "", nil},
		{"rest", message.TooLong, 0, "", ErrTooLarge},
		{"123", 5, 0, "123", io.ErrUnexpectedEOF},
		{long + "rest", 3000, 0, long, nil},
		{"12345", -2, 0, "12345", nil},
		{"12345", -2, -1, "12345", nil},
		{"12345", -2, 4, "1234", ErrTooLarge},
	} {
		in := bufio.NewReaderSize(iotest.HalfReader(strings.NewReader(c.in)), 16)
		got, err := Append([]byte("pre"), in, c.length, c.limit)
		if string(got) != "pre"+c.want || err != c.err {
			t.Errorf("%.9q, length %d, limit %d: %q, %v", c.in, c.length, c.limit, got, err)
		}
		if rest, _ := io.ReadAll(in); c.err == nil && c.length >= 0 && string(rest) != "rest" {
			t.Errorf("%.9q, length %d: the rest is %q", c.in, c.length, rest)
		}
	}
	in := bufio.NewReader(iotest.ErrReader(errSource))
	for _, length := range []int{5, -1, -2} {
		if _, err := Append(nil, in, length, 0); err != errSource {
			t.Errorf("length %d of a reader that fails: %v", length, err)
		}
	}
}
