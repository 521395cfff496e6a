package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/server/http1/http1test"
	"github.com/sluicehttp/sluice/test/harness"
)

// newFileConn returns a connection to a server of the files "small" (1 KiB),
// "medium" (20 KiB) and "large" (1 MiB), all .txt, with every feature on.
func newFileConn(tb testing.TB) *http1test.Steady {
	dir := tb.TempDir()
	changed := time.Date(2024, time.January, 2, 3, 4, 5, 600_000_000, time.UTC)
	for name, size := range map[string]int{"small": 1 << 10, "medium": 20 << 10, "large": 1 << 20} {
		name = filepath.Join(dir, name+".txt")
		if err := os.WriteFile(name, []byte(strings.Repeat("x", size)), 0o644); err != nil {
			tb.Fatal(err)
		}
		if err := os.Chtimes(name, changed, changed); err != nil {
			tb.Fatal(err)
		}
	}
	handler := (&sluice.FS{
		Root: dir, AcceptByteRange: true, GenerateETag: true, Compress: true, CompressRoot: tb.TempDir(),
		CacheDuration: time.Hour,
	}).NewRequestHandler()
	s := &sluice.Server{Handler: handler, Logger: harness.QuietLogger{}}
	c := http1test.OpenSteady(s.Control().Value(server.Key{}).(engine.Acceptor), false)
	c.DropsFiles = true
	return c
}

const (
	getSmallFile    = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
	getLargeFile    = "GET /large.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
	getUnchanged    = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nIf-Modified-Since: Tue, 02 Jan 2024 03:04:05 GMT\r\n\r\n"
	getFileEncoded  = "GET /medium.txt HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\r\n"
	getFileRange    = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-99\r\n\r\n"
	getFileAndTag   = "GET /small.txt HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"x\", \"y\"\r\nIf-Match: *\r\n\r\n"
	headOfLargeFile = "HEAD /large.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
)

// TestFSDoesNotAllocate: what is cached is served without allocations. A large
// file has one: its reader.
func TestFSDoesNotAllocate(t *testing.T) {
	c := newFileConn(t)
	c.Sent = make([]byte, 0, 16<<20)
	for _, test := range []struct {
		name, in, status string
		most             float64
	}{
		{"small", getSmallFile, "200", 0},
		{"pipelined", strings.Repeat(getSmallFile, 16), "200", 0},
		{"medium", strings.Replace(getSmallFile, "small", "medium", 1), "200", 0},
		{"not modified", getUnchanged, "304", 0},
		{"encoded", getFileEncoded, "200", 0},
		{"range", getFileRange, "206", 0},
		{"tags", getFileAndTag, "200", 0},
		{"HEAD", headOfLargeFile, "200", 0},
		{"large", getLargeFile, "200", 1},
	} {
		in := []byte(test.in)
		out := c.RoundTrip(t, in)
		if len(out) == 0 {
			out = c.Sent // a head with a body that is written in place
		}
		if !bytes.HasPrefix(out, []byte("HTTP/1.1 "+test.status)) {
			t.Fatalf("%s: answered %.100q", test.name, out)
		}
		if n := testing.AllocsPerRun(100, func() {
			c.Sent = c.Sent[:0]
			c.RoundTrip(t, in)
		}); n > test.most && !invariants.Enabled {
			t.Errorf("%s: %v allocations, want %v", test.name, n, test.most)
		}
		c.Sent = c.Sent[:0]
	}
}

func benchmarkFile(b *testing.B, in string) {
	c := newFileConn(b)
	c.Sent = make([]byte, 0, 4<<20)
	data := []byte(in)
	c.RoundTrip(b, data)
	b.ReportAllocs()
	for b.Loop() {
		c.Sent = c.Sent[:0]
		c.RoundTrip(b, data)
	}
}

func BenchmarkFSSmall(b *testing.B) { benchmarkFile(b, getSmallFile) }

func BenchmarkFSLarge(b *testing.B) { benchmarkFile(b, getLargeFile) }

func BenchmarkFSNotModified(b *testing.B) { benchmarkFile(b, getUnchanged) }

func BenchmarkFSEncoded(b *testing.B) { benchmarkFile(b, getFileEncoded) }

func BenchmarkFSRange(b *testing.B) { benchmarkFile(b, getFileRange) }
