package compress

import (
	"bytes"
	"io"
	"strconv"
	"testing"

	"github.com/andybalholm/brotli"
)

// text returns n bytes like JSON, which are moderately compressible.
func text(n int) []byte {
	out := make([]byte, 0, n+100)
	for i := uint32(1); len(out) < n; i = i*1664525 + 1013904223 {
		out = append(append(out, `{"id":`...), strconv.Itoa(int(i>>8))...)
		out = append(append(out, `,"name":"record `...), strconv.Itoa(int(i%37))...)
		out = append(out, `","active":true},`...)
	}
	return out[:n]
}

func BenchmarkAppend(b *testing.B) {
	in := text(8 << 10)
	for c := range codings {
		b.Run(names[c], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			var dst []byte
			for b.Loop() {
				dst = Append(dst[:0], in, c, 1)
			}
		})
	}
}

// BenchmarkAppendParallel: with -cpu 1,2 the time per operation halves if goroutines
// do not wait for each other in the pools. The short message needs the pools most.
func BenchmarkAppendParallel(b *testing.B) {
	for c := range codings {
		for _, n := range []int{64, 8 << 10} {
			in := text(n)
			b.Run(names[c]+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(n))
				b.RunParallel(func(pb *testing.PB) {
					var dst []byte
					for pb.Next() {
						dst = Append(dst[:0], in, c, 1)
					}
				})
			})
		}
	}
}

// BenchmarkDecodeParallel is BenchmarkAppendParallel for decoders.
func BenchmarkDecodeParallel(b *testing.B) {
	in := text(8 << 10)
	for c := range codings {
		encoded := Append(nil, in, c, 1)
		b.Run(names[c], func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			b.RunParallel(func(pb *testing.PB) {
				var dst []byte
				for pb.Next() {
					var err error
					if dst, err = AppendDecoded(dst[:0], encoded, c, 1<<20); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkLongBrotli compares the encoder for long messages, through Append and
// directly, with the one for streams.
func BenchmarkLongBrotli(b *testing.B) {
	in := text(64 << 10)
	run := func(name string, encode func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				encode()
			}
		})
	}
	var dst []byte
	run("Append", func() { dst = Append(dst[:0], in, Brotli, 4) })
	var out bytes.Buffer
	direct := brotli.NewWriterV2(&out, 3)
	run("direct", func() {
		out.Reset()
		direct.Reset(&out)
		direct.Write(in)
		direct.Close()
	})
	run("stream", func() {
		z := NewWriter(io.Discard, Brotli, 4)
		z.Write(in)
		z.Close()
	})
}
