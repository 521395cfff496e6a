package compress

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// rawMessage compresses and decodes src, and returns the compressed form.
func rawMessage(t *testing.T, src, history []byte, bits uint8) []byte {
	t.Helper()
	packed := AppendMessage([]byte("before"), src, history, bits)
	if !bytes.HasPrefix(packed, []byte("before")) {
		t.Fatal("dst is lost")
	}
	packed = packed[len("before"):]
	window := history[max(0, len(history)-1<<bits):]
	out, err := InflateMessage(packed, window, len(src))
	if err != nil || !bytes.Equal(out.B, src) {
		t.Fatalf("%d bytes after %d with %d bits: %v", len(src), len(history), bits, err)
	}
	out.Release()
	return packed
}

func TestMessage(t *testing.T) {
	for _, n := range []int{0, 1, 100, 5000, 100_000} {
		for bits := uint8(8); bits <= MaxWindowBits; bits++ {
			src := text(n)
			rawMessage(t, src, nil, bits)
			rawMessage(t, src, src[:min(n, 1<<bits)], bits)
		}
	}
	src := text(1000)
	alone, after := rawMessage(t, src, nil, 12), rawMessage(t, src, src, 12)
	if len(after) > len(alone)/5 {
		t.Errorf("a repetition takes %d bytes, the first time %d", len(after), len(alone))
	}
}

// TestMessageWindow: no distance exceeds the agreed window.
func TestMessageWindow(t *testing.T) {
	block := make([]byte, 4000) // incompressible, and repeated at a distance of 4,000
	for i, x := 0, uint32(1); i < len(block); i++ {
		x = x*1664525 + 1013904223
		block[i] = byte(x >> 24)
	}
	src := bytes.Repeat(block, 3)
	if n := len(rawMessage(t, src, nil, 12)); n > 5000 {
		t.Errorf("a window of 4,096 bytes is not used: %d bytes", n)
	}
	for _, bits := range []uint8{8, 11} {
		if n := len(rawMessage(t, src, nil, bits)); n < 12000 {
			t.Errorf("a window of %d bits is exceeded: %d bytes", bits, n)
		}
	}
}

// TestMessageForms: what other senders may send (RFC 7692 section 7.2.3).
func TestMessageForms(t *testing.T) {
	for in, want := range map[string]string{
		"\xf2\x48\xcd\xc9\xc9\x07\x00":                         "Hello", // 7.2.3.1
		"\x00\x05\x00\xfa\xff\x48\x65\x6c\x6c\x6f\x00":         "Hello", // 7.2.3.3
		"\xf3\x48\xcd\xc9\xc9\x07\x00\x00":                     "Hello", // 7.2.3.4
		"\xf3\x48\xcd\xc9\xc9\x07\x00":                         "Hello", // without the byte after the block
		"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00": "Hello", // 7.2.3.5
		"\x00": "", // 7.2.3.6
		"":     "", // of senders that do not compress an empty message
		"\xf3\x48\xcd\xc9\xc9\x07\x00\xf3\x48\xcd\xc9\xc9\x07\x00\x00": "HelloHello",
	} {
		out, err := InflateMessage([]byte(in), nil, 0)
		if err != nil || string(out.B) != want {
			t.Errorf("%x: %v", in, err)
		}
	}
	out, err := InflateMessage([]byte("\xf2\x00\x11\x00\x00"), []byte("Hello"), 5) // 7.2.3.2
	if err != nil || string(out.B) != "Hello" {
		t.Error(err)
	}
	for _, in := range []string{"\xff\xff", "\x07", "\xf2\x48\xcd", "\xf2\x00\x11\x00\x00"} {
		if _, err := InflateMessage([]byte(in), nil, 0); !errors.Is(err, ErrMessage) {
			t.Errorf("%x: %v", in, err)
		}
	}
}

// endingMessage returns a message of 32 KiB with n final blocks at its end.
func endingMessage(n int) []byte {
	m := AppendMessage(nil, make([]byte, 32<<10), nil, MaxWindowBits)
	if n > 0 {
		m = append(m, flushed+strings.Repeat("\x03\x00", n)+"\x00"...)
	}
	return m
}

// TestMessageEnds: final blocks within a message are few.
func TestMessageEnds(t *testing.T) {
	for n, want := range map[int]error{0: nil, 1: nil, maxEnds: nil, maxEnds + 1: ErrMessage, 10_000: ErrMessage} {
		out, err := InflateMessage(endingMessage(n), nil, 64<<10)
		if err != want || err == nil && len(out.B) != 32<<10 {
			t.Errorf("%d final blocks: %v", n, err)
		}
	}
}

// BenchmarkMessageEnds says what final blocks cost.
func BenchmarkMessageEnds(b *testing.B) {
	for _, n := range []int{0, 1, maxEnds} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			message := endingMessage(n)
			for b.Loop() {
				out, err := InflateMessage(message, nil, 64<<10)
				if err != nil {
					b.Fatal(err)
				}
				out.Release()
			}
		})
	}
}

// TestMessageResumes: a distance may reach over a final block, into the message and into
// the history.
func TestMessageResumes(t *testing.T) {
	history, first, second := text(3000), []byte("between the two of them"), text(3000)
	var b bytes.Buffer
	z, err := flate.NewWriterDict(&b, 6, history)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write(first)
	_ = z.Close()
	whole := append(bytes.Clone(history), first...)
	z.ResetDict(&b, whole)
	_, _ = z.Write(second)
	_ = z.Close()
	out, err := InflateMessage(append(b.Bytes(), 0), history, 0)
	if err != nil || !bytes.Equal(out.B, append(bytes.Clone(first), second...)) {
		t.Error(err)
	}
}

// TestMessageLimit: at the limit a message is decoded, and a bomb stops there.
func TestMessageLimit(t *testing.T) {
	src := make([]byte, 100_000)
	packed := AppendMessage(nil, src, nil, 15)
	for limit, want := range map[int]error{0: nil, 100_000: nil, 100_001: nil, 99_999: ErrTooLarge, 1: ErrTooLarge} {
		if _, err := InflateMessage(packed, nil, limit); err != want {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	bomb := AppendMessage(nil, make([]byte, 64<<20), nil, 15)
	const limit = 1 << 20
	before := allocated()
	if _, err := InflateMessage(bomb, nil, limit); err != ErrTooLarge {
		t.Error(err)
	}
	// All buffers that it has grown through.
	if n := allocated() - before; n > 2*limit+100<<10 {
		t.Errorf("a bomb of 64 MiB allocates %d bytes", n)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestMessageAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector empties pools")
	}
	src, history := text(1000), text(4000)
	var packed []byte
	if n := testing.AllocsPerRun(100, func() {
		packed = AppendMessage(packed[:0], src, history, 12)
		out, err := InflateMessage(packed, history, 0)
		if err != nil {
			t.Fatal(err)
		}
		out.Release()
	}); n != 0 {
		t.Errorf("%v allocations for a message", n)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte("\xf2\x48\xcd\xc9\xc9\x07\x00"), []byte("Hello"), uint8(15))
	f.Add([]byte("\xf3\x48\xcd\xc9\xc9\x07\x00\x00"), text(300), uint8(8))
	f.Fuzz(func(t *testing.T, in, history []byte, bits uint8) {
		const limit = 1 << 16
		if out, err := InflateMessage(in, history, limit); err == nil && len(out.B) > limit {
			t.Fatal("beyond the limit")
		}
		rawMessage(t, in, history, 8+bits%8)
	})
}

// BenchmarkMessage compares levels of flate for messages: the compressed size, and the
// time to compress. "stateless" is flate.StatelessDeflate; "window" is what a window of less
// than 15 bits needs.
func BenchmarkMessage(b *testing.B) {
	for _, size := range []int{128, 1 << 10, 16 << 10} {
		src := text(size)
		for _, history := range []int{0, 4 << 10, 8 << 10} {
			dict := text(history + size)[size:]
			for _, level := range []string{"1", "2", "3", "4", "5", "6", "7", "stateless", "window"} {
				b.Run(fmt.Sprintf("%d/history=%d/%s", size, history, level), func(b *testing.B) {
					benchmarkLevel(b, level, src, dict)
				})
			}
		}
	}
}

func benchmarkLevel(b *testing.B, level string, src, dict []byte) {
	var out sink
	var z *flate.Writer
	switch level {
	case "stateless":
	case "window":
		z, _ = flate.NewWriterWindow(&out, 4096)
	default:
		z, _ = flate.NewWriter(&out, int(level[0]-'0'))
	}
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		out.b = out.b[:0]
		if z == nil {
			_ = flate.StatelessDeflate(&out, src, false, dict)
			continue
		}
		z.ResetDict(&out, dict)
		_, _ = z.Write(src)
		_ = z.Flush()
	}
	b.ReportMetric(float64(len(out.b)-len(flushed)), "compressed")
}

func BenchmarkInflateMessage(b *testing.B) {
	for _, size := range []int{128, 1 << 10, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			packed := AppendMessage(nil, text(size), nil, 15)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				out, _ := InflateMessage(packed, nil, 0)
				out.Release()
			}
		})
	}
}
