package compress

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/sluicehttp/sluice/internal/invariants"
)

var names = map[Coding]string{Gzip: "gzip", Deflate: "deflate", Brotli: "br", Zstd: "zstd"}

func eachCoding(t *testing.T, f func(t *testing.T, c Coding)) {
	t.Helper()
	for c := range codings {
		t.Run(names[c], func(t *testing.T) { f(t, c) })
	}
}

func TestEveryLevelDecodesToItsInput(t *testing.T) {
	inputs := []string{"", "a", strings.Repeat("sluice ", 3000)}
	eachCoding(t, func(t *testing.T, c Coding) {
		for level := -4; level <= 14; level++ {
			for _, in := range inputs {
				encoded := Append([]byte("head"), []byte(in), c, level)
				if !bytes.HasPrefix(encoded, []byte("head")) {
					t.Fatalf("level %d overwrote dst", level)
				}
				got, err := AppendDecoded([]byte("pre"), encoded[4:], c, 0)
				if err != nil || string(got) != "pre"+in {
					t.Fatalf("level %d, %d bytes: got %d bytes, %v", level, len(in), len(got), err)
				}
			}
		}
	})
}

func TestWriteAndWriterAgreeWithAppend(t *testing.T) {
	in := []byte(strings.Repeat("0123456789", 2000))
	eachCoding(t, func(t *testing.T, c Coding) {
		var out bytes.Buffer
		n, err := Write(&out, in, c, 1)
		if err != nil || n != out.Len() {
			t.Fatalf("Write = %d, %v; wrote %d", n, err, out.Len())
		}
		var streamed bytes.Buffer
		z := NewWriter(&streamed, c, 1)
		for part := range bytes.SplitAfterSeq(in, []byte("9")) {
			if _, err := z.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		for _, encoded := range [][]byte{out.Bytes(), streamed.Bytes()} {
			var decoded bytes.Buffer
			n, err := WriteDecoded(&decoded, encoded, c, 0)
			if err != nil || n != len(in) || !bytes.Equal(decoded.Bytes(), in) {
				t.Fatalf("WriteDecoded = %d, %v", n, err)
			}
		}
	})
}

func TestFlushMakesDataReadable(t *testing.T) {
	eachCoding(t, func(t *testing.T, c Coding) {
		var out bytes.Buffer
		z := NewWriter(&out, c, 1)
		defer z.Close()
		io.WriteString(z, "first")
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		r := NewReader(bytes.NewReader(out.Bytes()), c, 0)
		defer r.Close()
		got := make([]byte, 5)
		if _, err := io.ReadFull(r, got); err != nil || string(got) != "first" {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

// TestLimitsAtTheEdges: limits to which one cannot be added.
func TestLimitsAtTheEdges(t *testing.T) {
	in := text(5000)
	eachCoding(t, func(t *testing.T, c Coding) {
		encoded := Append(nil, in, c, 1)
		for _, limit := range []int{math.MaxInt, math.MaxInt - 1, math.MaxInt32, 5000} {
			if got, err := AppendDecoded(nil, encoded, c, limit); err != nil || !bytes.Equal(got, in) {
				t.Errorf("limit %d: %d bytes, %v", limit, len(got), err)
			}
		}
	})
}

func TestLimit(t *testing.T) {
	in := bytes.Repeat([]byte{'a'}, 100_000)
	eachCoding(t, func(t *testing.T, c Coding) {
		encoded := Append(nil, in, c, 1)
		if got, err := AppendDecoded(nil, encoded, c, len(in)); err != nil || len(got) != len(in) {
			t.Errorf("at the limit: %d bytes, %v", len(got), err)
		}
		got, err := AppendDecoded(nil, encoded, c, len(in)-1)
		if !errors.Is(err, ErrTooLarge) || len(got) > len(in)-1 {
			t.Errorf("over the limit: %d bytes, %v", len(got), err)
		}
		var out bytes.Buffer
		if _, err := WriteDecoded(&out, encoded, c, 10); !errors.Is(err, ErrTooLarge) || out.Len() > 10 {
			t.Errorf("WriteDecoded wrote %d bytes, %v", out.Len(), err)
		}
	})
}

func TestTruncatedDataIsAnError(t *testing.T) {
	eachCoding(t, func(t *testing.T, c Coding) {
		encoded := Append(nil, []byte(strings.Repeat("truncated data ", 50)), c, 1)
		for n := range len(encoded) {
			if n == 0 && c == Zstd {
				continue // no frame is an empty zstd stream
			}
			if got, err := AppendDecoded(nil, encoded[:n], c, 0); err == nil {
				t.Fatalf("%d of %d bytes decoded to %q", n, len(encoded), got)
			}
		}
		// The decoders that failed are pooled and must work again.
		if _, err := AppendDecoded(nil, encoded, c, 0); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTrailingData(t *testing.T) {
	eachCoding(t, func(t *testing.T, c Coding) {
		encoded := Append(nil, []byte("data"), c, 1)
		for _, tail := range []string{"j", "junk", strings.Repeat("junk", 20_000)} {
			r := NewReader(io.MultiReader(bytes.NewReader(encoded), iotest.OneByteReader(strings.NewReader(tail))), c, 0)
			got, err := io.ReadAll(r)
			r.Close()
			if string(got) != "data" {
				t.Errorf("tail of %d: got %q", len(tail), got)
			}
			if (err == nil) != (c == Deflate) {
				t.Errorf("tail of %d: err = %v", len(tail), err)
			}
		}
	})
}

func TestGzipMembersAndZstdFramesAreJoined(t *testing.T) {
	for _, c := range []Coding{Gzip, Zstd} {
		encoded := Append(Append(nil, []byte("one"), c, 1), []byte("two"), c, 1)
		if got, err := AppendDecoded(nil, encoded, c, 0); err != nil || string(got) != "onetwo" {
			t.Errorf("%s: %q, %v", names[c], got, err)
		}
	}
}

func zstdWithWindow(t *testing.T, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	e, err := zstd.NewWriter(&out, zstd.WithWindowSize(size), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	e.Write([]byte("short"))
	e.Flush() // the size is unknown, so the frame declares the window
	e.Close()
	return out.Bytes()
}

func TestGzipNamesNoTime(t *testing.T) {
	z := NewWriter(new(bytes.Buffer), Gzip, 6)
	z.Close()
	for range 3 { // also when the encoder is reused
		if encoded := Append(nil, []byte("x"), Gzip, 6); !bytes.Equal(encoded[4:8], make([]byte, 4)) {
			t.Errorf("MTIME %x", encoded[4:8])
		}
	}
}

func TestZstdWindowIsBounded(t *testing.T) {
	for _, test := range []struct {
		window, limit int
		ok            bool
	}{
		{1 << 20, 1, false}, // too long for any window
		{2 << 20, 10, true},
		{4 << 20, 10, false},
		{4 << 20, 3 << 20, true},
		{8 << 20, 4 << 20, false},
		{8 << 20, 5 << 20, true},
		{8 << 20, 0, true},
		{16 << 20, 0, false},
		{64 << 20, 1 << 30, false},
	} {
		got, err := AppendDecoded(nil, zstdWithWindow(t, test.window), Zstd, test.limit)
		switch {
		case test.ok && (err != nil || string(got) != "short"):
			t.Errorf("window %d, limit %d: %q, %v", test.window, test.limit, got, err)
		case !test.ok && !errors.Is(err, ErrTooLarge):
			t.Errorf("window %d, limit %d: err = %v", test.window, test.limit, err)
		}
	}
}

func TestWriterErrorIsReturned(t *testing.T) {
	boom := errors.New("boom")
	eachCoding(t, func(t *testing.T, c Coding) {
		if _, err := Write(failing{boom}, make([]byte, 1<<16), c, 1); !errors.Is(err, boom) {
			t.Errorf("err = %v", err)
		}
		if _, err := WriteDecoded(failing{boom}, Append(nil, []byte("x"), c, 1), c, 0); !errors.Is(err, boom) {
			t.Errorf("decoding: err = %v", err)
		}
		r := NewReader(iotest.ErrReader(boom), c, 0)
		defer r.Close()
		if _, err := io.ReadAll(r); !errors.Is(err, boom) {
			t.Errorf("reading: err = %v", err)
		}
	})
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func FuzzDecode(f *testing.F) {
	for c := range codings {
		f.Add(byte(c), Append(nil, []byte("seed seed seed"), c, 1))
	}
	f.Fuzz(func(t *testing.T, coding byte, in []byte) {
		const limit = 1 << 16
		c := Coding(coding) % codings
		got, err := AppendDecoded(nil, in, c, limit)
		if len(got) > limit {
			t.Fatalf("%d bytes", len(got))
		}
		if err != nil {
			return
		}
		again, err := AppendDecoded(nil, Append(nil, got, c, 1), c, limit)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("round trip: %v", err)
		}
	})
}

func TestReuseAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	eachCoding(t, func(t *testing.T, c Coding) {
		for _, n := range []int{0, 1 << 10, 16 << 10} {
			in := text(n)
			encoded := Append(nil, in, c, 4)
			most := map[Coding]float64{Brotli: 4 + float64(n)/1000, Zstd: 4}[c]
			dst := make([]byte, 0, 64<<10)
			if n := testing.AllocsPerRun(100, func() { Append(dst, in, c, 4) }); n > 0 {
				t.Errorf("Append of %d: %v allocations", len(in), n)
			}
			if n := testing.AllocsPerRun(100, func() { Write(io.Discard, in, c, 4) }); n > 0 {
				t.Errorf("Write of %d: %v allocations", len(in), n)
			}
			// The decoder of brotli allocates for every block, that of zstd a little.
			if n := testing.AllocsPerRun(100, func() { AppendDecoded(dst, encoded, c, 0) }); n > most {
				t.Errorf("AppendDecoded of %d: %v allocations", len(in), n)
			}
			if n := testing.AllocsPerRun(100, func() { WriteDecoded(io.Discard, encoded, c, 0) }); n > most {
				t.Errorf("WriteDecoded of %d: %v allocations", len(in), n)
			}
		}
	})
}
