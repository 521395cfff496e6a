package h1

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// decode passes in to a decoder in pieces of at most size bytes.
func decode(in []byte, size int) (data []byte, used int, done bool, err error) {
	var c Chunked
	for used < len(in) && !c.Done() {
		n, run, err := c.Next(in[used:min(used+size, len(in))])
		if err != nil {
			return data, used, false, err
		}
		if n == 0 {
			return data, used, false, errors.New("no progress")
		}
		data = append(data, run...)
		used += n
	}
	return data, used, c.Done(), nil
}

func TestChunkExtensionLimits(t *testing.T) {
	ext := func(n int) string { return ";" + strings.Repeat("a", n-1) }
	for _, c := range []struct {
		in   string
		want error
	}{
		{"1" + ext(maxChunkExtension) + "\r\nx\r\n0\r\n", nil},
		{"1" + ext(maxChunkExtension+1), ErrChunkExtensionTooLarge},
		{strings.Repeat("1"+ext(256)+"\r\nx\r\n", maxBodyExtensions/256) + "0\r\n", nil},
		{strings.Repeat("1"+ext(256)+"\r\nx\r\n", maxBodyExtensions/256) + "0;", ErrChunkExtensionTooLarge},
	} {
		for _, size := range []int{1, 7, len(c.in)} {
			_, used, done, err := decode([]byte(c.in), size)
			if !errors.Is(err, c.want) || done != (c.want == nil) || done && used != len(c.in) {
				t.Errorf("%.20q… in pieces of %d: used %d of %d, done=%v, %v, want %v", c.in, size, used, len(c.in), done, err, c.want)
			}
		}
	}
}

// Every byte that may not begin a chunk, or not follow its size.
func TestChunkLineBytes(t *testing.T) {
	for b := range 256 {
		_, isHex := hexValue(byte(b))
		if _, _, _, err := decode([]byte{byte(b)}, 1); isHex != (err == nil) {
			t.Errorf("%#x as a chunk line's first byte: %v", b, err)
		}
		follows := isHex || strings.IndexByte(";\r", byte(b)) >= 0
		if _, _, _, err := decode([]byte{'0', byte(b)}, 1); follows != (err == nil) {
			t.Errorf("%#x behind a size: %v", b, err)
		}
	}
}

func TestChunkExtensions(t *testing.T) {
	for ext, want := range map[string]error{
		";a": nil, "; \ta": nil, ";a;b": nil, ";a=b": nil, ";a = b": nil, ";a=\"\"": nil, ";a=\"b;=\\\"\\\\\t\x80 \";c": nil, ";a=\"b\" ;c": nil,
		"; some; parameters=stuff": nil,
		" ":                        ErrChunkSize, ";": ErrChunkExtension, ";;a": ErrChunkExtension, ";a;": ErrChunkExtension, ";=b": ErrChunkExtension,
		";a=": ErrChunkExtension, ";a ": ErrChunkExtension, ";a=b ": ErrChunkExtension, ";a b": ErrChunkExtension, ";a=b c": ErrChunkExtension,
		";a==b": ErrChunkExtension, ";a=b=c": ErrChunkExtension, ";a\"b\"": ErrChunkExtension, ";a=b\"c\"": ErrChunkExtension,
		";a=\"b": ErrChunkExtension, ";a=\"b\"c": ErrChunkExtension, ";a=\"b\\": ErrChunkExtension, ";a=\"\x00\"": ErrChunkExtension,
		";a=\"\\\x7f\"": ErrChunkExtension, ";a=\"b\"=c": ErrChunkExtension, ";\x80": ErrChunkExtension, ";a=/": ErrChunkExtension,
		";a=\"b\nc\"": ErrChunkExtension, ";a\nb": ErrChunkExtension, "  a": ErrChunkSize,
	} {
		for _, size := range []int{1, 100} {
			data, _, done, err := decode([]byte("1"+ext+"\r\nx\r\n0"+ext+"\r\n"), size)
			if !errors.Is(err, want) || done != (want == nil) || done && string(data) != "x" {
				t.Errorf("%q: %q, done=%v, %v, want %v", ext, data, done, err, want)
			}
		}
	}
}

func TestInData(t *testing.T) {
	var c Chunked
	if _, ok := c.InData(); ok {
		t.Error("in data before the first size")
	}
	if used, _, err := c.Next([]byte("a\r\n")); used != 3 || err != nil {
		t.Fatal(used, err)
	}
	if left, ok := c.InData(); left != 10 || !ok {
		t.Errorf("%d left, %v", left, ok)
	}
	used, data, err := c.Next([]byte("0123"))
	if used != 4 || string(data) != "0123" || err != nil {
		t.Fatal(used, data, err)
	}
	if left, ok := c.InData(); left != 6 || !ok {
		t.Errorf("%d left, %v", left, ok)
	}
}

func TestAppendChunk(t *testing.T) {
	for n, want := range map[int]string{1: "1\r\n", 10: "a\r\n", 255: "ff\r\n", 4096: "1000\r\n", math.MaxInt: strconv.FormatInt(math.MaxInt, 16) + "\r\n"} {
		if got := string(AppendChunkHead(nil, n)); got != want || len(got) > maxChunkHead {
			t.Errorf("AppendChunkHead(%d) = %q", n, got)
		}
	}
	if got := string(AppendChunk([]byte("+"), nil)); got != "+" {
		t.Errorf("a chunk of nothing is %q, which ends the body", got)
	}
	if got := string(AppendChunk([]byte("+"), []byte("hello"))); got != "+5\r\nhello\r\n" {
		t.Errorf("got %q", got)
	}
}

func TestDecodingAllocatesNothing(t *testing.T) {
	in := []byte("5;a=b\r\nhello\r\n0\r\n")
	if n := testing.AllocsPerRun(100, func() {
		var c Chunked
		for rest := in; !c.Done(); {
			used, _, err := c.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			rest = rest[used:]
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzChunked: data and end do not depend on the cuts, and an encoded body decodes to
// itself.
func FuzzChunked(f *testing.F) {
	for _, s := range []string{"5\r\nhello\r\n0\r\n\r\n", "1;a=\"b\\\"\"\r\nx\r\n00\r\n", "A \t;x\r\n0123456789\r\n0\r\n", "7fffffffffffffff\r\nx", "1\r\nxy"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		data, used, done, err := decode(in, len(in)+1)
		for _, size := range []int{1, int(size) + 1} {
			d, u, isDone, e := decode(in, size)
			// After an error, used may differ between cuts, but the data before it
			// may not.
			if !bytes.Equal(d, data) || isDone != done || e != err || err == nil && u != used {
				t.Fatalf("in pieces of %d: %q, used %d, done=%v, %v\nwhole: %q, used %d, done=%v, %v", size, d, u, isDone, e, data, used, done, err)
			}
		}
		if err == nil && !done && used != len(in) {
			t.Fatalf("used %d of %d", used, len(in))
		}
		checkRoundTrip(t, in, int(size)+1)
	})
}

func checkRoundTrip(t *testing.T, data []byte, size int) {
	t.Helper()
	var wire []byte
	for rest := data; len(rest) > 0; {
		n := min(size, len(rest))
		wire = AppendChunk(wire, rest[:n])
		rest = rest[n:]
	}
	wire = append(wire, LastChunk...)
	got, used, done, err := decode(append(wire, "\r\nmore"...), size)
	if err != nil || !done || used != len(wire) || !bytes.Equal(got, data) {
		t.Fatalf("%q came back as %q (used %d of %d, done=%v, %v)", data, got, used, len(wire), done, err)
	}
}

func BenchmarkChunked(b *testing.B) {
	for _, size := range []int{1, 16, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var in []byte
			for range 64 {
				in = AppendChunk(in, make([]byte, size))
			}
			in = append(in, LastChunk...)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				var c Chunked
				for rest := in; !c.Done(); {
					used, _, err := c.Next(rest)
					if err != nil {
						b.Fatal(err)
					}
					rest = rest[used:]
				}
			}
		})
	}
}
