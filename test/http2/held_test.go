package http2_test

import (
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
	"golang.org/x/net/http2"
)

// TestHeldForOneHTTP2Client: a client that makes many requests on a connection, opens no window
// for the responses and fills those for bodies makes the connection hold about 1 MiB of
// responses, one encoder or a few, and the windows of the bodies.
//
// long: a table
func TestHeldForOneHTTP2Client(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const window, responses, bodies = 64 << 10, 3 << 20, 20 << 20
	contents := map[string]string{"large": strings.Repeat("x", 100_000)}
	for i := range 500 {
		contents[fmt.Sprint("small", 2*i+1)] = strings.Repeat("x", 24_000)
		contents[fmt.Sprint("folder/", strings.Repeat("n", 200), i)] = ""
	}
	dir := harness.MakeFiles(t, contents)
	files := func(skipCache bool) sluice.RequestHandler {
		return (&sluice.FS{Root: dir, AcceptByteRange: true, GenerateIndexPages: true, SkipCache: skipCache}).NewRequestHandler()
	}
	stream := func(size int) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(io.LimitReader(noise{}, int64(size)), -1) }
	}
	tunnel := func(use func(net.Conn)) sluice.RequestHandler {
		return func(ctx *sluice.RequestCtx) { switchTo(ctx, use) }
	}
	text := make([]byte, 1<<10)
	write := func(c net.Conn) {
		for err := error(nil); err == nil; {
			_, err = c.Write(text)
		}
	}
	gone := make(chan struct{})
	defer close(gone)
	unread := func(net.Conn) { <-gone }
	for _, form := range []struct {
		name    string
		handler sluice.RequestHandler
		path    string // with the stream's ID; "": CONNECT
		fields  []string
		body    int
		most    int
	}{
		{"streams", stream(20_000), "/", nil, 0, responses},
		{"long streams", stream(1 << 30), "/", nil, 0, responses},
		{"gzip", sluice.CompressHandler(stream(1 << 30)), "/", []string{"accept-encoding", "gzip"}, 0, 6 << 20},
		{"zstd", sluice.CompressHandler(stream(1 << 30)), "/", []string{"accept-encoding", "zstd"}, 0, 12 << 20},
		{"small files", files(false), "/small%d", nil, 0, responses},
		{"small files, not cached", files(true), "/small%d", nil, 0, responses},
		{"files, not cached", files(true), "/large?%d", nil, 0, responses},
		{"index pages, not cached", files(true), "/folder/?%d", nil, 0, responses},
		{"ranges of a small file", files(false), "/small1?%d", []string{"range", "bytes=0-9999,10001-19999"}, 0, responses},
		{"ranges of a file", files(false), "/large?%d", []string{"range", "bytes=0-9999,10001-29999"}, 0, responses},
		{"bodies", func(ctx *sluice.RequestCtx) { <-ctx.Done() }, "/", nil, window, bodies},
		{"tunnels that write", tunnel(write), "", nil, 0, 6 << 20},
		{"tunnels that do not read", tunnel(unread), "", nil, window, bodies},
		{"tunnels that echo", tunnel(func(c net.Conn) { _, _ = io.CopyBuffer(c, struct{ io.Reader }{c}, make([]byte, 1<<10)) }), "", nil, window, bodies},
	} {
		for _, n := range harness.OverTCPByEach() {
			t.Run(form.name+"/"+n.Name, func(t *testing.T) {
				const conns, streams = 2, 250
				var begun, ended atomic.Int64
				r := harness.ServeHTTP2(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
					begun.Add(1)
					form.handler(ctx)
				}})
				before := nettest.HeapInUse()
				for range conns {
					f := r.Frames(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
					if _, err := f.ReadFrame(); err != nil { // SETTINGS, with what has the windows
						t.Fatal(err)
					}
					f.Must(f.WriteSettingsAck())
					f.Must(f.WriteWindowUpdate(0, 1<<30))
					go func() {
						_, _ = io.Copy(io.Discard, f.Conn)
						ended.Add(1)
					}()
					for id := uint32(1); id < 2*streams; id += 2 {
						if form.path == "" {
							f.Connect(id, "websocket")
						} else {
							f.Head(id, "GET", strings.Replace(form.path, "%d", fmt.Sprint(id), 1), form.body == 0, form.fields...)
						}
						for range form.body / (16 << 10) {
							f.Must(f.WriteData(id, false, make([]byte, 16<<10)))
						}
					}
				}
				harness.Eventually(t, "some requests have begun", func() bool { return begun.Load() >= conns })
				nettest.HoldsAtMost(t, before, conns, form.most, harness.Patience, begun.Load)
				if ended.Load() > 0 {
					t.Error("a connection has ended")
				}
			})
		}
	}
}

// TestUploadsHeldForManyHTTP2Clients: bodies that do not end, on every stream of some connections at once,
// hold no more memory together than MaxBodyMemory, besides the streams. What does not fit is refused.
func TestUploadsHeldForManyHTTP2Clients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const conns, streams, sent, bodies = 4, 250, 48 << 10, 4 << 20
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			r := harness.ServeHTTP2(t, n, &sluice.Server{MaxBodyMemory: bodies, Handler: func(*sluice.RequestCtx) {}})
			before := nettest.HeapInUse()
			var refused, ended atomic.Int64
			for range conns {
				f := r.Frames()
				if _, err := f.ReadFrame(); err != nil { // SETTINGS, with what has the windows
					t.Fatal(err)
				}
				f.Must(f.WriteSettingsAck())
				go func() {
					defer ended.Add(1)
					for {
						frame, err := f.ReadFrame()
						if err != nil {
							return
						}
						if head, isHead := frame.(*http2.MetaHeadersFrame); isHead && head.PseudoValue("status") == "503" {
							refused.Add(1)
						}
					}
				}()
				for id := uint32(1); id < 2*streams; id += 2 {
					f.Head(id, "POST", "/", false)
					for range sent / (16 << 10) {
						f.Must(f.WriteData(id, false, make([]byte, 16<<10)))
					}
				}
			}
			// All that fits is held when all else was refused.
			harness.Eventually(t, "what does not fit is refused", func() bool { return refused.Load() >= conns*streams-bodies/sent })
			nettest.HoldsAtMost(t, before, conns, bodies/conns+streams*(4<<10), harness.Patience, refused.Load)
			if ended.Load() > 0 {
				t.Error("a connection has ended")
			}
		})
	}
}

// noise is a stream without an end that cannot be compressed.
type noise struct{}

// Read implements io.Reader.
func (noise) Read(p []byte) (int, error) { return rand.NewChaCha8([32]byte{}).Read(p) }
