package http2_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"golang.org/x/net/http2"
)

// TestHTTP2StalledMemory: a client that takes nothing of its responses, or next to nothing,
// makes a connection hold one response, or about 1 MiB of them, however it does that, how many
// requests it makes and how the handler answers.
//
// long: a table
func TestHTTP2StalledMemory(t *testing.T) {
	skipHTTP2Memory(t)
	const conns, streams = 10, 250
	const most = 3<<19 + streams<<10 // of responses, and of the requests that wait
	// Beside this, encoded responses have an encoder. A client that reads nothing, with windows that
	// are open, makes it hold one more response, which has begun while TCP took the others. On a
	// busy machine, a handler may need longer than the next one waits for it.
	const more, evenMore = 2 << 20, 6 << 20
	for _, kind := range []string{"h2c", "tls", "perconn", "perconn-tls"} {
		for _, form := range []struct {
			name   string
			window uint32
			repeat func(c *idleClient)
		}{
			{"window 0", 0, nil},
			{"small windows", 4 << 10, nil},
			{"not read", 1<<16 - 1, nil},
			{"not read, large windows", 1 << 30, func(c *idleClient) { c.framer.WriteWindowUpdate(0, 1<<27) }},
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
				case form.name == "not read", form.name == "not read, large windows":
					paths = []string{"/write", "/raw", "/reader", "/parts"}
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
						if !strings.HasPrefix(form.name, "not read") {
							go io.Copy(io.Discard, c.Conn)
						}
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
					t.Logf("%s: %s handlers", path, s.awaitQuiet())
					switch {
					case path == "/parts" && form.window > 1<<16: // of those that it has kept up with
						s.awaitMemory(before, conns, most+streams*(64<<10))
					case form.window > 1<<16:
						s.awaitMemory(before, conns, most+evenMore)
					case path == "/encoded", strings.HasPrefix(form.name, "not read"):
						s.awaitMemory(before, conns, most+more)
					default:
						s.awaitMemory(before, conns, most)
					}
				}
			})
		}
	}
}

// awaitQuiet waits until no handler begins any more, and returns how many have begun.
func (s *idleHTTP2) awaitQuiet() (begun string) {
	for same := 0; same < 5; time.Sleep(100 * time.Millisecond) {
		fmt.Fprintln(s.in, "begun")
		now := s.line()
		if same++; now != begun || now == "0" {
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
