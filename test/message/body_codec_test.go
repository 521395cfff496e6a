package message_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
)

// codecFuncs are the functions of one coding.
type codecFuncs struct {
	append      func(dst, src []byte) []byte
	appendLevel func(dst, src []byte, level int) []byte
	write       func(w io.Writer, p []byte) (int, error)
	writeLevel  func(w io.Writer, p []byte, level int) (int, error)
	appendPlain func(dst, src []byte) ([]byte, error)
	writePlain  func(w io.Writer, p []byte) (int, error)
	body        func(r *sluice.Response) ([]byte, error)
	bodyLimit   func(r *sluice.Response, limit int) ([]byte, error)
}

func codecs() map[string]codecFuncs {
	return map[string]codecFuncs{
		"gzip": {sluice.AppendGzipBytes, sluice.AppendGzipBytesLevel, sluice.WriteGzip, sluice.WriteGzipLevel, sluice.AppendGunzipBytes, sluice.WriteGunzip,
			func(r *sluice.Response) ([]byte, error) { return r.BodyGunzip() },
			func(r *sluice.Response, n int) ([]byte, error) { return r.BodyGunzipWithLimit(n) }},
		"deflate": {sluice.AppendDeflateBytes, sluice.AppendDeflateBytesLevel, sluice.WriteDeflate, sluice.WriteDeflateLevel, sluice.AppendInflateBytes, sluice.WriteInflate,
			func(r *sluice.Response) ([]byte, error) { return r.BodyInflate() },
			func(r *sluice.Response, n int) ([]byte, error) { return r.BodyInflateWithLimit(n) }},
		"br": {sluice.AppendBrotliBytes, sluice.AppendBrotliBytesLevel, sluice.WriteBrotli, sluice.WriteBrotliLevel, sluice.AppendUnbrotliBytes, sluice.WriteUnbrotli,
			func(r *sluice.Response) ([]byte, error) { return r.BodyUnbrotli() },
			func(r *sluice.Response, n int) ([]byte, error) { return r.BodyUnbrotliWithLimit(n) }},
		"zstd": {sluice.AppendZstdBytes, sluice.AppendZstdBytesLevel, nil, sluice.WriteZstdLevel, sluice.AppendUnzstdBytes, sluice.WriteUnzstd,
			func(r *sluice.Response) ([]byte, error) { return r.BodyUnzstd() },
			func(r *sluice.Response, n int) ([]byte, error) { return r.BodyUnzstdWithLimit(n) }},
	}
}

func TestCodecFunctions(t *testing.T) {
	plain := []byte(strings.Repeat("to be compressed ", 100))
	for name, c := range codecs() {
		encodings := map[string][]byte{
			"Append":      c.append([]byte("pre"), plain)[3:],
			"AppendLevel": c.appendLevel([]byte("pre"), plain, 1)[3:],
		}
		var out bytes.Buffer
		if n, err := c.writeLevel(&out, plain, 1); err != nil || n != out.Len() {
			t.Errorf("%s: WriteLevel = %d, %v; wrote %d", name, n, err, out.Len())
		}
		encodings["WriteLevel"] = bytes.Clone(out.Bytes())
		if c.write != nil {
			out.Reset()
			if n, err := c.write(&out, plain); err != nil || n != out.Len() {
				t.Errorf("%s: Write = %d, %v; wrote %d", name, n, err, out.Len())
			}
			encodings["Write"] = bytes.Clone(out.Bytes())
		}
		for how, encoded := range encodings {
			if len(encoded) >= len(plain) {
				t.Errorf("%s, %s: %d bytes", name, how, len(encoded))
			}
			got, err := c.appendPlain([]byte("pre"), encoded)
			if err != nil || string(got) != "pre"+string(plain) {
				t.Errorf("%s, %s: decoded to %d bytes, %v", name, how, len(got), err)
			}
			var out bytes.Buffer
			if n, err := c.writePlain(&out, encoded); err != nil || n != len(plain) || !bytes.Equal(out.Bytes(), plain) {
				t.Errorf("%s, %s: WriteUn = %d, %v", name, how, n, err)
			}
		}
		if _, err := c.appendPlain(nil, []byte("certainly not compressed")); err == nil {
			t.Errorf("%s: garbage decoded", name)
		}
	}
}

func TestBodyDecoding(t *testing.T) {
	plain := []byte(strings.Repeat("a", 1000))
	for name, c := range codecs() {
		for _, how := range []string{"buffered", "stream"} {
			set := func() *sluice.Response {
				r := new(sluice.Response)
				r.Header.SetContentEncoding(name)
				if how == "stream" {
					r.SetBodyStream(bytes.NewReader(c.append(nil, plain)), -1)
				} else {
					r.SetBody(c.append(nil, plain))
				}
				return r
			}
			for what, decode := range map[string]func(r *sluice.Response) ([]byte, error){
				"Body":                c.body,
				"WithLimit":           func(r *sluice.Response) ([]byte, error) { return c.bodyLimit(r, 1000) },
				"without limit":       func(r *sluice.Response) ([]byte, error) { return c.bodyLimit(r, -1) },
				"Uncompressed":        (*sluice.Response).BodyUncompressed,
				"Uncompressed, limit": func(r *sluice.Response) ([]byte, error) { return r.BodyUncompressedWithLimit(1000) },
				"twice":               func(r *sluice.Response) ([]byte, error) { c.body(r); return c.body(r) },
			} {
				if got, err := decode(set()); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%s, %s, %s: %d bytes, %v", name, how, what, len(got), err)
				}
			}
			for what, decode := range map[string]func(r *sluice.Response) ([]byte, error){
				"WithLimit":    func(r *sluice.Response) ([]byte, error) { return c.bodyLimit(r, 999) },
				"Uncompressed": func(r *sluice.Response) ([]byte, error) { return r.BodyUncompressedWithLimit(999) },
			} {
				if got, err := decode(set()); err != sluice.ErrBodyTooLarge || got != nil {
					t.Errorf("%s, %s, %s: %d bytes, %v", name, how, what, len(got), err)
				}
			}
		}
	}
}

func TestBodyUncompressedOfRequests(t *testing.T) {
	for _, test := range []struct {
		encoding string
		limit    int
		want     string
		err      error
	}{
		{"", 0, "body", nil}, {"", 4, "body", nil}, {"", 3, "", sluice.ErrBodyTooLarge},
		{"identity", 0, "body", nil}, {"compress", 0, "", sluice.ErrContentEncodingUnsupported},
		{"gzip, br", 0, "", sluice.ErrContentEncodingUnsupported},
	} {
		var r sluice.Request
		r.Header.SetContentEncoding(test.encoding)
		r.SetBodyString("body")
		got, err := r.BodyUncompressedWithLimit(test.limit)
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
	for _, encoding := range []string{"gzip", "GZIP", "x-gzip"} {
		var r sluice.Request
		r.Header.SetContentEncoding(encoding)
		r.SetBody(sluice.AppendGzipBytes(nil, []byte("plain")))
		if got, err := r.BodyUncompressed(); err != nil || string(got) != "plain" {
			t.Errorf("%s: %q, %v", encoding, got, err)
		}
	}
}

// Levels are numbers in users' configurations.
func TestLevels(t *testing.T) {
	for name, level := range map[string][2]int{
		"none": {sluice.CompressNoCompression, gzip.NoCompression}, "speed": {sluice.CompressBestSpeed, gzip.BestSpeed},
		"best": {sluice.CompressBestCompression, gzip.BestCompression}, "default": {sluice.CompressDefaultCompression, 6},
		"Huffman": {sluice.CompressHuffmanOnly, gzip.HuffmanOnly}, "br, none": {sluice.CompressBrotliNoCompression, 0},
		"br, speed": {sluice.CompressBrotliBestSpeed, 0}, "br, best": {sluice.CompressBrotliBestCompression, 11}, "br, default": {sluice.CompressBrotliDefaultCompression, 4},
		"zstd, not set": {sluice.CompressZstdSpeedNotSet, 0}, "zstd, speed": {sluice.CompressZstdBestSpeed, 1}, "zstd, default": {sluice.CompressZstdDefault, 2},
		"zstd, better": {sluice.CompressZstdSpeedBetter, 3}, "zstd, best": {sluice.CompressZstdBestCompression, 4},
	} {
		if level[0] != level[1] {
			t.Errorf("%s: %d, want %d", name, level[0], level[1])
		}
	}
}
