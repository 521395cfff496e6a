package compress

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// TestLongBrotli: a long message of any kind decodes to itself, and is not much
// longer than from the encoder for streams.
func TestLongBrotli(t *testing.T) {
	if invariants.Enabled {
		t.Skip("seconds, and no goroutines")
	}
	noise := make([]byte, 300<<10)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for kind, all := range map[string][]byte{
		"text": text(300 << 10), "noise": noise, "zeros": make([]byte, 300<<10),
		"mixed": bytes.Join([][]byte{noise[:70_000], text(80_000), noise[:70_000], make([]byte, 90_000)}, nil),
	} {
		for _, size := range []int{minLongBrotli - 1, minLongBrotli, minLongBrotli + 1, 64 << 10, 300 << 10} {
			in := all[:size]
			for level := 0; level <= 5; level++ {
				encoded := Append(nil, in, Brotli, level)
				got, err := AppendDecoded(nil, encoded, Brotli, size)
				if err != nil || !bytes.Equal(got, in) {
					t.Fatalf("%s, %d bytes, level %d: %d bytes, %v", kind, size, level, len(got), err)
				}
				var streamed bytes.Buffer
				z := NewWriter(&streamed, Brotli, level)
				z.Write(in)
				z.Close()
				if most := streamed.Len() + streamed.Len()/20 + 64; len(encoded) > most {
					t.Errorf("%s, %d bytes, level %d: %d bytes, %d as a stream", kind, size, level, len(encoded), streamed.Len())
				}
			}
		}
	}
}

// TestLongBrotliAfterAnError: an encoder whose writer failed can be used again.
func TestLongBrotliAfterAnError(t *testing.T) {
	boom := errors.New("boom")
	in, noise := text(100<<10), make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	for range 4 {
		if _, err := Write(failing{boom}, noise, Brotli, 4); !errors.Is(err, boom) {
			t.Fatalf("err = %v", err)
		}
		var out bytes.Buffer
		n, err := Write(&out, in, Brotli, 4)
		if err != nil || n != out.Len() {
			t.Fatalf("Write = %d, %v; wrote %d", n, err, out.Len())
		}
		if got, err := AppendDecoded(nil, out.Bytes(), Brotli, 0); err != nil || !bytes.Equal(got, in) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
}

// brotliWithWindow encodes with a window of 1<<bits.
func brotliWithWindow(in []byte, bits, quality int) []byte {
	var out bytes.Buffer
	z := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: quality, LGWin: bits})
	z.Write(in)
	z.Close()
	return out.Bytes()
}

// TestBrotliWindowIsLowered: with a limit the window is lowered and the output is the
// same, even with the longest possible distances.
func TestBrotliWindowIsLowered(t *testing.T) {
	if invariants.Enabled {
		t.Skip("seconds, and no goroutines")
	}
	noise := make([]byte, 1<<19)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, bits := range []int{16, 17, 18, 19, 24} {
		for _, n := range []int{1000, 1<<18 - 17, 1<<18 - 16, 1 << 18, 1 << 19} {
			// The second half repeats the first.
			in := bytes.Repeat(noise[:(n+1)/2], 2)[:n]
			encoded := brotliWithWindow(in, bits, 2)
			for _, limit := range []int{n, 2 * n} {
				if got, err := AppendDecoded(nil, encoded, Brotli, limit); err != nil || !bytes.Equal(got, in) {
					t.Errorf("window %d, %d bytes, limit %d: %d bytes, %v", bits, n, limit, len(got), err)
				}
			}
			if got, err := AppendDecoded(nil, encoded, Brotli, n-1); n > 1 && (!errors.Is(err, ErrTooLarge) || !bytes.Equal(got, in[:n-1])) {
				t.Errorf("window %d, %d bytes, limit one less: %d bytes, %v", bits, n, len(got), err)
			}
			got, err := io.ReadAll(NewReader(iotest.OneByteReader(bytes.NewReader(encoded)), Brotli, n))
			if err != nil || !bytes.Equal(got, in) {
				t.Errorf("window %d, %d bytes, byte by byte: %d bytes, %v", bits, n, len(got), err)
			}
		}
	}
}

func TestBrotliWindowFor(t *testing.T) {
	for limit, want := range map[int]uint8{
		0: 24, 1: 18, 1<<18 - 17: 18, 1<<18 - 16: 19, 1 << 20: 21, 1<<22 - 17: 22, 1<<23 - 16: 24, math.MaxInt: 24,
	} {
		if got := brotliWindow(limit); got != want {
			t.Errorf("limit %d: %d, want %d", limit, got, want)
		}
	}
}

// TestBrotliWindowCostsNoMemory: 14 bytes declare a window and a block of 16 MiB.
func TestBrotliWindowCostsNoMemory(t *testing.T) {
	if invariants.Enabled {
		t.Skip("seconds, and no goroutines")
	}
	in := brotliWithWindow(make([]byte, 16<<20), 24, 9)
	if len(in) > 20 {
		t.Fatalf("%d bytes", len(in))
	}
	for range 4 {
		allocated := allocatedBy(func() {
			if _, err := AppendDecoded(nil, in, Brotli, 100); !errors.Is(err, ErrTooLarge) {
				t.Fatal(err)
			}
		})
		if allocated > 2<<20 {
			t.Errorf("%d bytes allocated for a limit of 100", allocated)
		}
	}
	// Without a limit the window is allocated, but not pooled.
	if got, err := AppendDecoded(nil, in, Brotli, 0); err != nil || len(got) != 16<<20 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if z := acquireReader(Brotli, 0); z.decoder.(*brotliDecoder).source.bits > maxPooledBrotli {
		t.Error("a decoder with a window of 16 MiB was pooled")
	}
}

// allocatedBy returns how many bytes f allocates in total.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzLongBrotli encodes messages for the encoder of long messages: in, repeated with
// changes.
func FuzzLongBrotli(f *testing.F) {
	f.Add([]byte("seed"), byte(4), uint64(1))
	f.Add(text(300), byte(1), uint64(7))
	f.Fuzz(func(t *testing.T, in []byte, level byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, seed))
		var long []byte
		for size := minLongBrotli + random.IntN(64<<10); len(long) < size; {
			long = append(long, in...)
			for range random.IntN(100) {
				long = append(long, byte(random.Uint32()))
			}
			if n := len(long); n > 10 {
				from := random.IntN(n)
				long = append(long, long[from:min(n, from+random.IntN(1000))]...)
			}
		}
		encoded := Append(nil, long, Brotli, int(level)%5)
		got, err := AppendDecoded(nil, encoded, Brotli, len(long))
		if err != nil || !bytes.Equal(got, long) {
			t.Fatalf("level %d: %d bytes of %d, %v", level, len(got), len(long), err)
		}
	})
}

func TestLongBrotliIsChosen(t *testing.T) {
	for _, test := range []struct {
		coding      Coding
		level, size int
		long        bool
	}{
		{Brotli, 4, minLongBrotli - 1, false}, {Brotli, 4, minLongBrotli, true}, {Brotli, 1, 1 << 20, true},
		{Brotli, -1, 1 << 20, true}, {Brotli, 0, 1 << 20, false}, {Brotli, 5, 1 << 20, false},
		{Gzip, 4, 1 << 20, false}, {Zstd, 4, 1 << 20, false}, {Deflate, 4, 1 << 20, false},
	} {
		slot := test.coding.slotFor(test.level, test.size)
		if isLong := slot != test.coding.slot(test.level); isLong != test.long || slot >= levels {
			t.Errorf("%s, level %d, %d bytes: slot %d", names[test.coding], test.level, test.size, slot)
		}
	}
}
