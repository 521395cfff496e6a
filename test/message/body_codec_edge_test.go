package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestCodecLevels: a level that a coding does not have is its default, and those
// that it has make a difference.
func TestCodecLevels(t *testing.T) {
	var plain []byte
	for i := range 150 { // shorter than what brotli has another encoder for
		plain = fmt.Appendf(plain, `{"id":%d,"name":"item %d","weight":%d},`, i*7919%10007, i*i%97, i%13)
	}
	for name, levels := range map[string]struct{ good, bad []int }{
		"gzip":    {[]int{-2, -1, 0, 1, 9}, []int{math.MinInt, -100, -3, 10, 100, math.MaxInt}},
		"deflate": {[]int{-2, -1, 0, 1, 9}, []int{math.MinInt, -100, -3, 10, 100, math.MaxInt}},
		"br":      {[]int{0, 1, 11}, []int{math.MinInt, -1, 12, math.MaxInt}},
		"zstd":    {[]int{1, 3, 4}, []int{math.MinInt, -1, 0, 5, math.MaxInt}},
	} {
		c := codecs()[name]
		standard := c.append(nil, plain)
		for _, level := range slices.Concat(levels.good, levels.bad) {
			encoded := c.appendLevel(nil, plain, level)
			if got, err := c.appendPlain(nil, encoded); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%s, level %d: %d bytes, %v", name, level, len(got), err)
			}
			if slices.Contains(levels.bad, level) && !bytes.Equal(encoded, standard) {
				t.Errorf("%s, level %d is not the default", name, level)
			}
			var out bytes.Buffer
			if n, err := c.writeLevel(&out, plain, level); err != nil || n != out.Len() || name != "zstd" && !bytes.Equal(out.Bytes(), encoded) {
				t.Errorf("%s, level %d: WriteLevel = %d, %v", name, level, n, err)
			}
		}
		fast, small := c.appendLevel(nil, plain, levels.good[0]), c.appendLevel(nil, plain, slices.Max(levels.good))
		if len(fast) == len(small) || len(fast) < len(small) && name != "zstd" { // zstd's are not in order with so short a text
			t.Errorf("%s: %d bytes with the first level, %d with the last", name, len(fast), len(small))
		}
	}
}

// zstd data whose checksum is wrong is an error, and nothing else.
func TestZstdChecksum(t *testing.T) {
	encoded := sluice.AppendZstdBytes(nil, []byte(strings.Repeat("sum ", 100)))
	encoded[len(encoded)-1] ^= 1
	if got, err := sluice.AppendUnzstdBytes([]byte("x"), encoded); err == nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestCodecEdges: input that is empty, cut off, or followed by something.
func TestCodecEdges(t *testing.T) {
	plain := []byte(strings.Repeat("edge ", 100))
	anyError := errors.New("any")
	const some = -1
	for _, name := range harness.CodecCodings {
		c := codecs()[name]
		encoded := c.append(nil, plain)
		twice := slices.Concat(encoded, encoded)
		type outcome struct {
			times int // how often plain is decoded; some: a part of it
			err   error
		}
		tests := map[string]struct {
			in   []byte
			want map[string]outcome // "" for the codings that are not named
		}{
			"plain nothing": {c.append(nil, nil), map[string]outcome{"": {0, nil}}},
			"nothing":       {nil, map[string]outcome{"": {0, io.ErrUnexpectedEOF}, "zstd": {0, nil}}},
			"a byte":        {encoded[:1], map[string]outcome{"": {0, io.ErrUnexpectedEOF}}},
			"a byte short":  {encoded[:len(encoded)-1], map[string]outcome{"": {1, io.ErrUnexpectedEOF}, "zstd": {0, io.ErrUnexpectedEOF}, "br": {some, io.ErrUnexpectedEOF}}},
			"a byte more":   {append(bytes.Clone(encoded), 'j'), map[string]outcome{"": {1, anyError}, "deflate": {1, nil}}},
			"a zero more":   {append(bytes.Clone(encoded), 0), map[string]outcome{"": {1, anyError}, "deflate": {1, nil}}},
			"twice":         {twice, map[string]outcome{"": {2, nil}, "deflate": {1, nil}, "br": {1, anyError}}},
			"twice, cut":    {twice[:len(twice)-1], map[string]outcome{"": {2, io.ErrUnexpectedEOF}, "deflate": {1, nil}, "br": {1, anyError}, "zstd": {1, io.ErrUnexpectedEOF}}},
		}
		for what, test := range tests {
			want, ok := test.want[name]
			if !ok {
				want = test.want[""]
			}
			check := func(how string, got []byte, err error) {
				t.Helper()
				rightError := errors.Is(err, want.err) || want.err == anyError && err != nil
				rightData := want.times == some && bytes.HasPrefix(plain, got)
				if want.times != some {
					rightData = bytes.Equal(got, bytes.Repeat(plain, want.times))
				}
				if !rightError || !rightData {
					t.Errorf("%s, %s, %s: %d bytes, %v", name, what, how, len(got), err)
				}
			}
			got, err := c.appendPlain(nil, test.in)
			check("Append", got, err)
			var out bytes.Buffer
			n, err := c.writePlain(&out, test.in)
			if check("Write", out.Bytes(), err); n != out.Len() {
				t.Errorf("%s, %s: Write = %d of %d", name, what, n, out.Len())
			}
			r := new(sluice.Response)
			r.SetBody(test.in)
			if got, err = c.body(r); err != nil && got == nil {
				got = bytes.Repeat(plain, max(want.times, 0)) // with an error there is no body
			}
			check("Body", got, err)
		}
	}
}

// TestBodyUncompressedTakesOneCoding: several are not supported, and of what was
// encoded twice one layer is taken off.
func TestBodyUncompressedTakesOneCoding(t *testing.T) {
	plain := []byte(strings.Repeat("layer ", 100))
	for _, name := range harness.CodecCodings {
		c := codecs()[name]
		once := c.append(nil, plain)
		var r sluice.Request
		r.SetBody(c.append(nil, once))
		for encoding, want := range map[string][]byte{
			name: once, strings.ToUpper(name): once, name + ",": once, ", ," + name: once,
			name + ", " + name: nil, name + "," + name: nil, name + ", identity": nil, "identity, " + name: nil,
			name + ",," + name: nil, "x" + name: nil, name + ";q=1": nil,
		} {
			r.Header.SetContentEncoding(encoding)
			got, err := r.BodyUncompressed()
			if isUnsupported := errors.Is(err, sluice.ErrContentEncodingUnsupported); !bytes.Equal(got, want) || isUnsupported != (want == nil) {
				t.Errorf("%s: %d bytes, %v", encoding, len(got), err)
			}
			got, err = r.BodyUncompressedWithLimit(len(once))
			if isUnsupported := errors.Is(err, sluice.ErrContentEncodingUnsupported); !bytes.Equal(got, want) || isUnsupported != (want == nil) {
				t.Errorf("%s with limit: %d bytes, %v", encoding, len(got), err)
			}
		}
	}
}

// bombWith returns what is decoded to 1 GiB of zeros and lacks its end. After a
// flush an encoder says the same about the same bytes, over and over.
func bombWith(t *testing.T, name string) []byte {
	t.Helper()
	coding, _ := compress.ByName([]byte(name))
	const step = 1 << 20
	var out bytes.Buffer
	z := compress.NewWriter(&out, coding, 4)
	defer z.Close()
	ends := [3]int{}
	for i := range ends {
		z.Write(make([]byte, step))
		if err := z.Flush(); err != nil {
			t.Fatal(err)
		}
		ends[i] = out.Len()
	}
	return append(out.Bytes()[:ends[2]:ends[2]], bytes.Repeat(out.Bytes()[ends[1]:ends[2]], 1<<30/step-3)...)
}

// TestBombsAreTooLarge: a request or a response, buffered or a stream, that is
// decoded to 1 GiB is an error, and costs memory in proportion to the limit.
func TestBombsAreTooLarge(t *testing.T) {
	if invariants.Enabled {
		t.Skip("much work in one goroutine")
	}
	const limit = 1 << 20
	for _, name := range harness.CodecCodings {
		bomb, c := bombWith(t, name), codecs()[name]
		messages := map[string]func() ([]byte, error){
			"response": func() ([]byte, error) {
				var r sluice.Response
				r.SetBodyRaw(bomb)
				return c.bodyLimit(&r, limit)
			},
			"response, by Content-Encoding": func() ([]byte, error) {
				var r sluice.Response
				r.SetBodyRaw(bomb)
				r.Header.SetContentEncoding(name)
				return r.BodyUncompressedWithLimit(limit)
			},
			"request": func() ([]byte, error) {
				var r sluice.Request
				r.SetBodyRaw(bomb)
				r.Header.SetContentEncoding(name)
				return r.BodyUncompressedWithLimit(limit)
			},
			"stream": func() ([]byte, error) {
				var r sluice.Request
				r.SetBodyStream(bytes.NewReader(bomb), -1)
				r.Header.SetContentEncoding(name)
				return r.BodyUncompressedWithLimit(limit)
			},
			"bomb in a bomb": func() ([]byte, error) {
				var r sluice.Request
				r.SetBody(c.append(nil, bomb))
				r.Header.SetContentEncoding(name)
				got, err := r.BodyUncompressedWithLimit(2 * len(bomb))
				if err == nil && bytes.Equal(got, bomb) {
					err = sluice.ErrBodyTooLarge // what is wanted: the outer layer and nothing more
					got = nil
				}
				return got, err
			},
		}
		for how, decode := range messages {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := decode()
			runtime.ReadMemStats(&after)
			if !errors.Is(err, sluice.ErrBodyTooLarge) || got != nil {
				t.Errorf("%s, %s: %d bytes, %v", name, how, len(got), err)
			}
			// The body itself, and the windows of the formats, come on top.
			if n := after.TotalAlloc - before.TotalAlloc; n > 16*limit+8*uint64(len(bomb)) {
				t.Errorf("%s, %s: %d bytes allocated", name, how, n)
			}
		}
	}
}

func TestLevelMinusOneIsFive(t *testing.T) {
	plain := []byte(harness.LongText)
	for _, name := range []string{"gzip", "deflate"} {
		c := codecs()[name]
		if got := c.appendLevel(nil, plain, -1); !bytes.Equal(got[2:], c.appendLevel(nil, plain, 5)[2:]) { // 2: zlib's head names the level
			t.Errorf("%s: it is not", name)
		}
	}
}
