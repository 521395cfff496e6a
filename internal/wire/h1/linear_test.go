package h1

import (
	"strings"
	"testing"

	"github.com/sluicehttp/sluice/internal/wire/field"
)

// If a peer sends byte by byte, the parser reads each byte a bounded number of times:
// it always continues near the end of the input.
func TestDribbledInputIsReadOnce(t *testing.T) {
	const far = 13 // a status line's fixed part, which is read again
	long := strings.Repeat("a", 60_000)
	limits := Limits{MaxLine: 64 << 10, MaxHead: 64 << 10, MaxFields: 200}
	for name, c := range map[string]struct {
		role Role
		in   string
	}{
		"method":                   {Requests, long},
		"target":                   {Requests, "GET /" + long},
		"escapes":                  {Requests, "GET /" + strings.Repeat("%41", 20_000)},
		"raw path":                 {Requests, "GET /" + strings.Repeat("\xff~", 30_000)},
		"query":                    {Requests, "GET /?" + strings.Repeat("%?\xff~", 15_000)},
		"field name":               {Requests, "GET / HTTP/1.1\r\n" + long},
		"blanks":                   {Requests, "GET / HTTP/1.1\r\nA:" + strings.Repeat(" \t", 30_000)},
		"field value":              {Requests, "GET / HTTP/1.1\r\nA: " + long},
		"value behind a long name": {Requests, "GET / HTTP/1.1\r\n" + long[:30_000] + ": " + long[:30_000]},
		"reason":                   {Responses, "HTTP/1.1 200 " + long},
		"folds":                    {Responses, "HTTP/1.1 200 OK\r\nA: b" + strings.Repeat("\r\n c", 15_000)},
		"empty folds":              {Responses, "HTTP/1.1 200 OK\r\nA:" + strings.Repeat("\r\n ", 20_000)},
	} {
		p := HeadParser{Limits: limits, Role: c.role}
		var tab field.Table
		for i := range len(c.in) {
			if _, done, err := p.Parse(&tab, []byte{c.in[i]}); done || err != nil {
				t.Fatalf("%s: byte %d: done=%v, %v", name, i, done, err)
			}
			if i+1-p.seen > far {
				t.Fatalf("%s: after %d bytes the parser goes on at %d", name, i+1, p.seen)
			}
		}
	}
}

// A piece with many folded lines is read in one pass: after each fold the parser
// continues where it stopped.
func BenchmarkFoldedAnswer(b *testing.B) {
	in := []byte("HTTP/1.1 200 OK\r\nA: b" + strings.Repeat("\r\n c", 15_000) + "\r\n\r\n")
	p := HeadParser{Limits: DefaultLimits, Role: Responses}
	var tab field.Table
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		p.Reset()
		tab.Reset()
		if _, done, err := p.Parse(&tab, in); !done || err != nil {
			b.Fatal(done, err)
		}
	}
}
