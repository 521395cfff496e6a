package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/test/harness"
)

// serveCompressed serves until the test ends, with the given engine, and returns
// the URL.
func serveCompressed(t *testing.T, engine sluice.Engine, h sluice.RequestHandler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{Engine: engine, Handler: sluice.CompressHandlerBrotliLevel(h, 4, 6)}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

// TestCompressedStreamsFlow: every line of a stream that was flushed, or read
// from a source that waits then, can be decoded by the client before the next
// one is written: with every coding and engine, and for server-sent events.
func TestCompressedStreamsFlow(t *testing.T) {
	kinds := map[string]func(ctx *sluice.RequestCtx, lines <-chan string){
		"stream writer": func(ctx *sluice.RequestCtx, lines <-chan string) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for line := range lines {
					w.WriteString(line)
					w.Flush()
				}
			})
		},
		"events": func(ctx *sluice.RequestCtx, lines <-chan string) {
			ctx.SetContentType("text/event-stream")
			ctx.Response.Header.Set(sluice.HeaderCacheControl, "no-cache")
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for line := range lines {
					w.WriteString(line[:3])
					w.WriteString(line[3:])
					w.Flush()
				}
			})
		},
		"stream": func(ctx *sluice.RequestCtx, lines <-chan string) {
			ctx.SetBodyStream(harness.ReaderFunc(func(p []byte) (int, error) {
				line, ok := <-lines
				if !ok {
					return 0, io.EOF
				}
				return copy(p, line), nil
			}), -1)
		},
	}
	for _, engine := range []sluice.Engine{sluice.EnginePerConn, sluice.EngineEpoll} {
		for kind, answer := range kinds {
			for _, coding := range harness.CodecCodings {
				t.Run(fmt.Sprintf("%v/%s/%s", engine, kind, coding), func(t *testing.T) {
					lines := make(chan string, 1) // the head is sent with the first line
					url := serveCompressed(t, engine, func(ctx *sluice.RequestCtx) { answer(ctx, lines) })
					readLineByLine(t, url, coding, lines)
				})
			}
		}
	}
}

// readLineByLine sends lines and expects to read each before it sends the next.
func readLineByLine(t *testing.T, url, coding string, lines chan<- string) {
	t.Helper()
	next := func(i int) string { return fmt.Sprintf("data: line %d\n\n", i) }
	lines <- next(0)
	closeLines := sync.OnceFunc(func() { close(lines) })
	defer closeLines()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", coding)
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Encoding"); got != coding {
		t.Fatalf("Content-Encoding is %q", got)
	}
	c, _ := compress.ByName([]byte(coding))
	d := compress.NewReader(resp.Body, c, 0)
	defer d.Close()
	for i := range 4 {
		line := next(i)
		got := make([]byte, len(line))
		if n, err := io.ReadFull(d, got); err != nil || string(got) != line {
			t.Fatalf("line %d: %q, %v", i, got[:n], err)
		}
		if i < 3 {
			lines <- next(i + 1)
		}
	}
	closeLines()
	if rest, err := io.ReadAll(d); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
}

// TestCompressedStreamEndsWithItsClient: a StreamWriter that is compressed learns
// that nobody reads any more.
func TestCompressedStreamEndsWithItsClient(t *testing.T) {
	for _, engine := range []sluice.Engine{sluice.EnginePerConn, sluice.EngineEpoll} {
		learned := make(chan error, 1)
		url := serveCompressed(t, engine, func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for i := 0; ; i++ {
					fmt.Fprintf(w, "line %d\n", i)
					if err := w.Flush(); err != nil {
						learned <- err
						return
					}
				}
			})
		})
		conn, err := net.Dial("tcp", url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, gzipGet); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		conn.Close()
		select {
		case <-learned:
		case <-time.After(20 * time.Second):
			t.Fatalf("%v: it goes on", engine)
		}
	}
}
