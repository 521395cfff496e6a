package conditional

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"mime/multipart"
	"strings"
	"testing"
)

func TestContentRange(t *testing.T) {
	for _, c := range []struct {
		s    Span
		size int64
		want string
	}{
		{Span{0, 5}, 1040, "bytes 0-4/1040"},
		{Span{0, 1}, 1, "bytes 0-0/1"},
		{Span{1035, 5}, 1040, "bytes 1035-1039/1040"},
		{Span{0, math.MaxInt64}, math.MaxInt64, "bytes 0-9223372036854775806/9223372036854775807"},
	} {
		if got := string(AppendContentRange([]byte("x"), c.s, c.size)); got != "x"+c.want {
			t.Errorf("%v of %d: %s", c.s, c.size, got)
		}
	}
	for size, want := range map[int64]string{1040: "bytes */1040", 0: "bytes */0"} {
		if got := string(AppendUnsatisfied([]byte("x"), size)); got != "x"+want {
			t.Errorf("unsatisfied of %d: %s", size, got)
		}
	}
}

// appendBody writes a multipart/byteranges body as a server does.
func appendBody(dst []byte, boundary string, contentType, content []byte, spans []Span) []byte {
	for i, s := range spans {
		dst = AppendPartHead(dst, boundary, i == 0, contentType, s, int64(len(content)))
		dst = append(dst, content[s.Offset:s.end()]...)
	}
	return AppendPartsEnd(dst, boundary)
}

// TestParts checks the body of RFC 9110 section 14.6, without its preamble.
func TestParts(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 100)
	spans := []Span{{500, 5}, {7, 2}}
	want := "--THIS_STRING_SEPARATES\r\n" +
		"Content-Type: application/pdf\r\n" +
		"Content-Range: bytes 500-504/1000\r\n" +
		"\r\n" +
		"01234\r\n" +
		"--THIS_STRING_SEPARATES\r\n" +
		"Content-Type: application/pdf\r\n" +
		"Content-Range: bytes 7-8/1000\r\n" +
		"\r\n" +
		"78\r\n" +
		"--THIS_STRING_SEPARATES--\r\n"
	if got := string(appendBody(nil, "THIS_STRING_SEPARATES", []byte("application/pdf"), content, spans)); got != want {
		t.Errorf("body\n%s", got)
	}
	plain := strings.ReplaceAll(want, "Content-Type: application/pdf\r\n", "")
	if got := string(appendBody(nil, "THIS_STRING_SEPARATES", nil, content, spans)); got != plain {
		t.Errorf("body without a type\n%s", got)
	}
	if got := string(AppendPartHead(nil, "b", true, []byte("a\r\nX: y\x00"), Span{0, 1}, 1)); got != "--b\r\nContent-Type: a  X: y \r\nContent-Range: bytes 0-0/1\r\n\r\n" {
		t.Errorf("line ends in the type: %q", got)
	}
}

// TestPartsAreRead reads bodies with mime/multipart and counts their bytes.
func TestPartsAreRead(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	content := make([]byte, 12345)
	for i := range content {
		content[i] = byte(random.Uint32())
	}
	for range 300 {
		var members []string
		for range 1 + random.IntN(12) {
			first := random.IntN(len(content))
			members = append(members, fmt.Sprintf("%d-%d", first, first+random.IntN(1+random.IntN(3000))))
		}
		spans, _ := ParseRange(nil, []byte("bytes="+strings.Join(members, ",")), int64(len(content)))
		contentType := []byte([]string{"", "x", "text/plain; charset=utf-8"}[random.IntN(3)])
		boundary := strings.Repeat("x", 1+random.IntN(70))
		body := appendBody(nil, boundary, contentType, content, spans)
		if got := PartsLength(boundary, contentType, spans, int64(len(content))); got != int64(len(body)) {
			t.Fatalf("%v of type %q: length %d, want %d", spans, contentType, got, len(body))
		}
		checkBody(t, body, boundary, contentType, content, spans)
	}
}

func checkBody(t *testing.T, body []byte, boundary string, contentType, content []byte, spans []Span) {
	t.Helper()
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for _, s := range spans {
		part, err := reader.NextRawPart()
		if err != nil {
			t.Fatalf("%v: %v", spans, err)
		}
		if got, want := part.Header.Get("Content-Range"), string(AppendContentRange(nil, s, int64(len(content)))); got != want {
			t.Fatalf("Content-Range %s, want %s", got, want)
		}
		if got := part.Header.Get("Content-Type"); got != string(contentType) {
			t.Fatalf("Content-Type %q, want %q", got, contentType)
		}
		if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, content[s.Offset:s.end()]) {
			t.Fatalf("%v of %v: %d bytes, %v", s, spans, len(got), err)
		}
	}
	if _, err := reader.NextRawPart(); err != io.EOF {
		t.Fatalf("%v: after the last part: %v", spans, err)
	}
}

func TestPartsLength(t *testing.T) {
	for _, size := range []int64{1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001, 65536} {
		content := make([]byte, size)
		for _, spans := range [][]Span{nil, {{0, 1}}, {{0, size}}, {{size - 1, 1}}, {{0, 1}, {size - 1, 1}}, {{0, size}, {0, size}}, {{size / 2, 1}, {size / 10, 1}, {0, 1}}} {
			for _, contentType := range []string{"", "a/b"} {
				want := len(appendBody(nil, "boundary", []byte(contentType), content, spans))
				if got := PartsLength("boundary", []byte(contentType), spans, size); got != int64(want) {
					t.Errorf("%v of %d, type %q: %d, want %d", spans, size, contentType, got, want)
				}
			}
		}
	}
}

func TestPartsAllocateNothing(t *testing.T) {
	room, contentType, spans := make([]byte, 0, 4096), []byte("text/plain"), []Span{{0, 5}, {100, 5}}
	if n := testing.AllocsPerRun(100, func() {
		dst := room
		for i, s := range spans {
			dst = AppendPartHead(dst, "boundary", i == 0, contentType, s, 1040)
		}
		dst = AppendPartsEnd(dst, "boundary")
		dst = AppendUnsatisfied(dst, PartsLength("boundary", contentType, spans, 1040))
		AppendContentRange(dst, spans[0], 1040)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParts(b *testing.B) {
	room, contentType, spans := make([]byte, 0, 4096), []byte("text/plain"), []Span{{0, 5}, {100, 5}}
	b.Run("Head", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			AppendPartHead(room, "boundary", false, contentType, spans[1], 1040)
		}
	})
	b.Run("Length", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			PartsLength("boundary", contentType, spans, 1040)
		}
	})
}
