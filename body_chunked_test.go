package sluice

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestAppendChunks(t *testing.T) {
	for in, want := range map[string]struct {
		body, rest string
		err        error // ErrBrokenChunk stands for any
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
		"x\r\n":                         {"", "", ErrBrokenChunk{}},
		"-1\r\n":                        {"", "", ErrBrokenChunk{}},
		"3\nabc\r\n0\r\n":               {"", "", ErrBrokenChunk{}},
		"3\r\nabcd\r\n0\r\n":            {"abc", "", ErrBrokenChunk{}},
		"10000000000000000\r\n":         {"", "", ErrBrokenChunk{}},
		"1;" + strings.Repeat("x", 300) + "\r\na\r\n0\r\n\r\n": {"", "", ErrBrokenChunk{}},
	} {
		for _, size := range []int{16, 4096} {
			br := bufio.NewReaderSize(iotest.HalfReader(strings.NewReader(in)), size)
			got, err := appendChunks([]byte("pre"), br, 0)
			isBroken := errors.As(err, new(ErrBrokenChunk))
			if want.err == error(ErrBrokenChunk{}) {
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
		got, err := appendChunks([]byte("pre"), bufio.NewReader(strings.NewReader(in)), 5)
		if ok && (err != nil || string(got) != "pre12345") || !ok && err != ErrBodyTooLarge || len(got) > 8 {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

// TestChunkedReaderLimit: a chunk that would exceed the limit is not waited for, but
// what has arrived of it is returned.
func TestChunkedReaderLimit(t *testing.T) {
	for _, test := range []struct {
		in    string
		limit uint64
		want  string
		err   error
	}{
		{"5\r\n12345\r\n0\r\n\r\n", 5, "12345", nil},
		{"5\r\n12345\r\n0\r\n\r\n", 4, "", ErrBodyTooLarge},
		{"3\r\n123\r\n2\r\n45\r\n0\r\n\r\n", 5, "12345", nil},
		{"3\r\n123\r\n3\r\n456\r\n0\r\n\r\n", 5, "123", ErrBodyTooLarge},
		{"1\r\n1\r\n1\r\n2\r\n", 1, "1", ErrBodyTooLarge},
		{"fffffffffffffff\r\n1", 0, "1", io.ErrUnexpectedEOF},
	} {
		for name, kind := range map[string]func(io.Reader) io.Reader{"bytes": iotest.OneByteReader, "whole": func(r io.Reader) io.Reader { return r }} {
			s := newMessageStream(bufio.NewReader(kind(strings.NewReader(test.in))), new(ResponseHeader), -1)
			s.chunks.limit = test.limit
			got, err := io.ReadAll(s)
			if name == "whole" && test.err == ErrBodyTooLarge {
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
