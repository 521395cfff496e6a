package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/h1"
)

// framed is what a framer makes of some bytes: the statuses of complete responses,
// and how it ended.
type framed struct {
	statuses  string
	err       error
	isBetween bool
	isUntil   bool // the end of the connection completes a response
	closes    bool
}

// frame gives in to a framer in pieces of size bytes.
func frame(in []byte, size int, isHead bool) (got framed) {
	f := framer{heads: &headReader{isBodiless: isHead}}
	for len(in) > 0 && got.err == nil {
		piece := in[:min(size, len(in))]
		in = in[len(piece):]
		for len(piece) > 0 {
			used, isDone, err := f.feed(piece)
			if err != nil {
				got.err = err
				break
			}
			if isDone {
				got.statuses += fmt.Sprint(f.outcome.status, " ")
				got.closes = f.outcome.closes
			} else if used != len(piece) {
				panic("there is input left over")
			}
			piece = piece[used:]
		}
	}
	got.statuses = strings.TrimSpace(got.statuses)
	got.isBetween, got.isUntil = f.isBetween(), f.end()
	if f.end() {
		got.closes = f.outcome.closes
	}
	return got
}

func TestFramer(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for _, c := range []struct {
		name   string
		in     string
		isHead bool
		want   framed
	}{
		{name: "sized", in: ok, want: framed{statuses: "200", isBetween: true}},
		{name: "pipelined", in: ok + ok + ok, want: framed{statuses: "200 200 200", isBetween: true}},
		{name: "different lengths", in: ok + "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n" + ok,
			want: framed{statuses: "200 404 200", isBetween: true}},
		{name: "chunked", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\n\r\n" + ok,
			want: framed{statuses: "200 200", isBetween: true}},
		{name: "trailers", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nDigest: x\r\nOther: y\r\n\r\n" + ok,
			want: framed{statuses: "200 200", isBetween: true}},
		{name: "no content", in: "HTTP/1.1 204 No Content\r\n\r\n" + ok, want: framed{statuses: "204 200", isBetween: true}},
		{name: "not modified", in: "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n" + ok,
			want: framed{statuses: "304 200", isBetween: true}},
		{name: "head", in: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", isHead: true,
			want: framed{statuses: "200 200", isBetween: true}},
		{name: "interim", in: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok,
			want: framed{statuses: "200", isBetween: true}},
		{name: "interim only", in: "HTTP/1.1 100 Continue\r\n\r\n"},
		{name: "until the end", in: "HTTP/1.1 200 OK\r\n\r\nabc" + ok, want: framed{isUntil: true, closes: true}},
		{name: "close", in: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
			want: framed{statuses: "200", isBetween: true, closes: true}},
		{name: "1.0", in: "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", want: framed{statuses: "200", isBetween: true, closes: true}},
		{name: "1.0 keep-alive", in: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
			want: framed{statuses: "200", isBetween: true}},
		{name: "cut in the head", in: "HTTP/1.1 200 OK\r\nContent-Le"},
		{name: "cut in the body", in: ok[:len(ok)-1]},
		{name: "bare LF", in: "HTTP/1.1 200 OK\nContent-Length: 0\n\n", want: framed{err: h1.ErrBareLF}},
		{name: "no response", in: "hello", want: framed{err: h1.ErrVersion}},
		{name: "surplus", in: ok + "x", want: framed{statuses: "200", err: h1.ErrVersion}},
		{name: "two lengths", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
			want: framed{err: h1.ErrContentLengthConflict}},
		{name: "length and coding", in: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
			want: framed{err: h1.ErrLengthAndCoding}},
		{name: "chunk size", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", want: framed{err: h1.ErrChunkSize}},
		{name: "folded trailer", in: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n", want: framed{err: h1.ErrFolding}},
		{name: "switched", in: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n", want: framed{err: errSwitched}},
		{name: "endless interim", in: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxInterim+1), want: framed{err: errInterim}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for size := 1; size <= len(c.in); size++ {
				got := frame([]byte(c.in), size, c.isHead)
				if !errors.Is(got.err, c.want.err) || c.want.err == nil && got.err != nil {
					t.Fatalf("pieces of %d: error %v, not %v", size, got.err, c.want.err)
				}
				if got.statuses != c.want.statuses {
					t.Fatalf("pieces of %d: statuses %q, not %q", size, got.statuses, c.want.statuses)
				}
				if got.err == nil && got != c.want {
					t.Fatalf("pieces of %d: %+v, not %+v", size, got, c.want)
				}
			}
		})
	}
}

// The head of the response before is remembered; another must not be taken for it.
func TestFramerRemembersHeads(t *testing.T) {
	var in bytes.Buffer
	for i := range 50 {
		body := strings.Repeat("x", i%3)
		fmt.Fprintf(&in, "HTTP/1.1 %d X\r\nContent-Length: %d\r\nDate: %d\r\n\r\n%s", 200+i%2, len(body), i/10, body)
	}
	want := strings.TrimSpace(strings.Repeat("200 201 ", 25))
	for _, size := range []int{1, 7, 100, in.Len()} {
		if got := frame(in.Bytes(), size, false); got.statuses != want || got.err != nil || !got.isBetween {
			t.Errorf("pieces of %d: %+v", size, got)
		}
	}
}

func TestFramerAllocatesNothing(t *testing.T) {
	in := []byte("HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 5\r\n\r\nhello")
	cut := []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n")
	f := framer{heads: &headReader{}}
	n := testing.AllocsPerRun(100, func() {
		f.feed(in)
		f.feed(cut[:20])
		f.feed(cut[20:])
	})
	if n != 0 || !f.isBetween() {
		t.Errorf("%v allocations", n)
	}
}

// FuzzFramer: a framer finds the same however the input is cut, and the same as
// the client's reader.
func FuzzFramer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.0 200 OK\r\nFolded: a\r\n b\r\n\r\nuntil the end",
	} {
		f.Add([]byte(seed+seed), uint8(3), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8, isHead bool) {
		whole := frame(in, max(len(in), 1), isHead)
		cut := frame(in, int(size)+1, isHead)
		if whole.statuses != cut.statuses || !errors.Is(cut.err, whole.err) || whole.err == nil && whole != cut {
			t.Fatalf("in one piece %+v, in pieces of %d %+v", whole, int(size)+1, cut)
		}
		first, _, _ := strings.Cut(whole.statuses, " ")
		if first == "" {
			return
		}
		resp := sluice.AcquireResponse()
		defer sluice.ReleaseResponse(resp)
		resp.SkipBody = isHead
		// Room for the longest head that the framer takes.
		err := resp.Read(bufio.NewReaderSize(bytes.NewReader(in), h1.DefaultLimits.MaxHead))
		if err != nil || fmt.Sprint(resp.StatusCode()) != first {
			t.Fatalf("the framer finds %+v; Response.Read %d, %v", whole, resp.StatusCode(), err)
		}
	})
}

func BenchmarkFramer(b *testing.B) {
	in := []byte("HTTP/1.1 200 OK\r\nServer: sluice\r\nDate: Sun, 22 Nov 2026 07:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!")
	b.Run("same", func(b *testing.B) {
		f := framer{heads: &headReader{}}
		b.ReportAllocs()
		for b.Loop() {
			f.feed(in)
		}
	})
	b.Run("different", func(b *testing.B) {
		f := framer{heads: &headReader{}}
		b.ReportAllocs()
		for b.Loop() {
			f.heads.last = f.heads.last[:0]
			f.feed(in)
		}
	})
}
