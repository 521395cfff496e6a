package http2_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http2"
)

// TestHTTP2StalledMemory: a client that takes nothing of its responses, or next to nothing,
// makes a connection hold one response, or about 1 MiB of them, however it does that, how many
// requests it makes and how the handler answers.
func TestHTTP2StalledMemory(t *testing.T) {
	skipHTTP2Memory(t)
	const conns, streams = 10, 250
	const most = 3<<19 + streams<<10 // of responses, and of the requests that wait
	for _, kind := range []string{"h2c", "tls", "perconn", "perconn-tls"} {
		for _, form := range []struct {
			name   string
			window uint32
			repeat func(c *idleClient)
		}{
			{"window 0", 0, nil},
			{"small windows", 4 << 10, nil},
			{"tiny windows", 1, func(c *idleClient) {
				for stream := uint32(1); stream < c.stream; stream += 2 {
					c.framer.WriteWindowUpdate(stream, 1)
				}
				c.framer.WriteWindowUpdate(0, streams)
			}},
			{"reset after the answer", 0, func(c *idleClient) {
				for stream := c.stream - 2*20; stream < c.stream; stream += 2 {
					c.framer.WriteRSTStream(stream, http2.ErrCodeCancel)
				}
				for range 20 {
					c.begin(true, ":path", "/write")
				}
			}},
		} {
			t.Run(kind+"/"+form.name, func(t *testing.T) {
				paths := []string{"/write"}
				switch {
				case form.name == "window 0" && !strings.HasSuffix(kind, "tls"):
					paths = []string{"/write", "/raw", "/reader", "/parts", "/flushed", "/trailers", "/encoded"}
				case form.name == "small windows":
					paths = []string{"/slow"}
				}
				for _, path := range paths {
					s := newIdleHTTP2(t, kind)
					warm := s.dial()
					warm.ask()
					warm.Close()
					before := s.memory()
					for range conns {
						c := s.dial()
						defer c.Close()
						go io.Copy(io.Discard, c.Conn)
						c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: form.window})
						for range streams {
							c.begin(true, ":path", path)
						}
						if form.repeat != nil {
							for range 5 {
								form.repeat(c)
							}
						}
					}
					t.Logf("%s: %d handlers", path, s.awaitQuiet())
					response, limit := 1<<20, most
					if path == "/encoded" { // one response, and its encoder beside it
						response, limit = response+(1<<20), limit+(1<<20)
					}
					if form.repeat != nil || path == "/parts" {
						response = 0 // more than one handler begins on each connection
					}
					s.awaitMemoryOf(before, conns, func() int { return limit + s.late(conns)*response/conns })
				}
			})
		}
	}
}

// late returns how many handlers have begun, after that of the warm connection, beside one on each of
// conns. A handler that has answered nothing for 250 ms, as on a busy machine, lets another one begin.
func (s *idleHTTP2) late(conns int) int { return max(s.begun()-1-conns, 0) }

// begun returns how many handlers have begun.
func (s *idleHTTP2) begun() int {
	fmt.Fprintln(s.in, "begun")
	n, err := strconv.Atoi(s.line())
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// awaitQuiet waits until no handler begins any more, and returns how many have begun.
func (s *idleHTTP2) awaitQuiet() (begun int) {
	for same := 0; same < 5; time.Sleep(100 * time.Millisecond) {
		now := s.begun()
		if same++; now != begun || now == 0 {
			begun, same = now, 0
		}
	}
	return begun
}

// serveFresh answers with 1 MiB that no other response has.
func (h *waitingHandler) serveFresh(ctx *sluice.RequestCtx) bool {
	const size = 1 << 20
	switch string(ctx.Path()) {
	case "/write":
		ctx.Write(fresh(size))
	case "/raw":
		ctx.Response.SetBodyRaw(fresh(size))
	case "/reader":
		ctx.SetBodyStream(bytes.NewReader(fresh(size)), size)
	case "/parts":
		ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
			for range size >> 10 {
				w.Write(fresh(1 << 10))
			}
		})
	case "/encoded":
		ctx.Request.Header.Set(sluice.HeaderAcceptEncoding, "gzip")
		sluice.CompressHandler(func(ctx *sluice.RequestCtx) {
			p := make([]byte, size)
			rand.Read(p)
			ctx.SetContentType("text/plain")
			ctx.SetBodyStream(io.NopCloser(bytes.NewReader(p)), -1)
		})(ctx)
	case "/trailers":
		ctx.Response.Header.AddTrailer("sum")
		ctx.Response.Header.Set("sum", "1")
		ctx.Write(fresh(size))
	case "/slow":
		time.Sleep(50 * time.Millisecond)
		ctx.Write(fresh(size))
	case "/flushed":
		ctx.Flush()
		ctx.Write(fresh(size))
	default:
		return false
	}
	return true
}

// fresh returns memory that the process has written to.
func fresh(size int) []byte { return bytes.Repeat([]byte("x"), size) }
