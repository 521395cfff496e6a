package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/test/harness"
)

// TestHeldForOneClient: a client of HTTP/1.1 that sends without an end and reads nothing makes
// a connection hold one response, and some buffers, however the handler answers.
func TestHeldForOneClient(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const size, buffers = 1 << 20, 512 << 10
	block := func(ctx *sluice.RequestCtx) { <-ctx.Done() } // until the client has gone
	answer := func(ctx *sluice.RequestCtx) { ctx.Write(fresh(size)) }
	ask := func(method string, lines ...string) string {
		return harness.Request(method+" /large HTTP/1.1", lines...)
	}
	upload := ask("POST", "Transfer-Encoding: chunked")
	ranges := make([]string, 100)
	small, contents := "", map[string]string{"large": strings.Repeat("x", 8<<20)}
	for i := range ranges {
		ranges[i] = fmt.Sprintf("%d-%d", i<<16, i<<16+60_000)
		contents[fmt.Sprint(i)] = strings.Repeat("x", 10_000)
		small += harness.Get(fmt.Sprintf("/%d", i))
	}
	dir := harness.MakeFiles(t, contents)
	files := (&sluice.FS{Root: dir, AcceptByteRange: true}).NewRequestHandler()
	for _, form := range []struct {
		name        string
		handler     sluice.RequestHandler
		begin, more string // sent once, and again and again
		most        int
	}{
		{"written", answer, "", ask("GET"), size + buffers},
		{"to HEAD", func(ctx *sluice.RequestCtx) { ctx.Write(fresh(16 << 10)) }, "", ask("HEAD"), buffers},
		{"small", func(ctx *sluice.RequestCtx) { ctx.Write(fresh(1 << 10)) }, "", ask("GET"), buffers},
		{"empty", func(*sluice.RequestCtx) {}, "", ask("GET"), buffers},
		{"large head", func(ctx *sluice.RequestCtx) { ctx.Response.Header.Set("X", strings.Repeat("x", 60<<10)) }, "", ask("GET"), buffers},
		{"compressed", sluice.CompressHandler(answer), "", ask("GET", "Accept-Encoding: gzip"), 2*size + buffers},
		{"stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(bytes.NewReader(fresh(size)), size) }, "", ask("GET"), size + buffers},
		{"endless stream", func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(endless{}, -1) }, "", ask("GET"), buffers},
		{"stream writer", func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) { _, _ = io.Copy(w, endless{}) })
		}, "", ask("GET"), buffers},
		{"flushed", func(ctx *sluice.RequestCtx) {
			for ctx.Flush() == nil {
				ctx.Write(fresh(1 << 10))
			}
		}, "", ask("GET"), buffers},
		{"after a blocked handler", block, "", ask("GET"), buffers},
		{"unread body", block, upload, "3\r\nabc\r\n", buffers},
		{"unread trailer", block, upload + "0\r\n", "X: y\r\n", buffers},
		{"file", files, "", ask("GET"), buffers},
		{"small files", files, "", small, buffers},
		{"ranges", files, "", ask("GET", "Range: bytes="+strings.Join(ranges, ",")), buffers},
		{"tunnel, written", func(ctx *sluice.RequestCtx) {
			ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, endless{}) })
		}, "", ask("GET"), buffers},
		{"tunnel, unread", func(ctx *sluice.RequestCtx) {
			ctx.Hijack(func(net.Conn) { <-t.Context().Done() })
		}, "", ask("GET"), buffers},
		{"sent file", func(ctx *sluice.RequestCtx) { ctx.SendFile(dir + "/large") }, "", ask("GET"), buffers},
	} {
		for _, n := range append(harness.OverTCPByEach(), harness.OverTLSEach(t, append(harness.WithCompactTLS(), harness.OverTCP()), "http/1.1")...) {
			t.Run(form.name+"/"+n.Name, func(t *testing.T) { testHeld(t, n, form.handler, form.begin, form.more, form.most) })
		}
	}
}

// testHeld measures what a server holds for each of some clients that do not read.
func testHeld(t *testing.T, n harness.Network, handler sluice.RequestHandler, begin, more string, most int) {
	const conns = 4
	var begun atomic.Int64
	r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
		begun.Add(1)
		handler(ctx)
	}})
	before := nettest.HeapInUse()
	for range conns {
		p := r.Dial()
		if c, ok := p.Conn.(*net.TCPConn); ok {
			_ = c.SetReadBuffer(4096)
		}
		go func() {
			_, err := io.WriteString(p.Conn, begin)
			for batch := strings.Repeat(more, max(1, 16<<10/len(more))); err == nil; {
				_, err = io.WriteString(p.Conn, batch)
			}
		}()
	}
	harness.Eventually(t, "all requests have begun", func() bool { return begun.Load() >= conns })
	nettest.HoldsAtMost(t, before, conns, most, harness.Patience, begun.Load)
}

// fresh returns memory that nothing shares. It cannot be compressed.
func fresh(size int) []byte {
	p := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// endless is a stream without an end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }
