package http3

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
	peer "github.com/quic-go/quic-go/http3"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// burst sends m requests at once on c, and reads the answers.
func burst(t testing.TB, c *quic.Conn, request []byte, m int) {
	t.Helper()
	opened := make([]*quic.Stream, m)
	for i := range opened {
		s, err := c.OpenStreamSync(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		s.Write(request)
		s.Close()
		opened[i] = s
	}
	var room [4096]byte
	for _, s := range opened {
		for {
			_, err := s.Read(room[:])
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// allocations returns how many objects each kind of code has allocated: ours, and that of
// quic-go, by the innermost function of one of both.
func allocations() (ours, theirs int64, places map[string]int64) {
	runtime.GC()
	runtime.GC() // the profile is that of the last but one
	records := make([]runtime.MemProfileRecord, 20000)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		return -1, -1, nil
	}
	places = make(map[string]int64)
	for _, r := range records[:n] {
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			isOurs := strings.HasPrefix(f.Function, "github.com/sluicehttp/") && !strings.HasSuffix(f.File, "_test.go")
			if isOurs {
				ours += r.AllocObjects
				places[fmt.Sprintf("%s:%d", f.Function, f.Line)] += r.AllocObjects
			}
			if strings.HasPrefix(f.Function, "github.com/quic-go/") {
				theirs += r.AllocObjects
			}
			if isOurs || strings.HasPrefix(f.Function, "github.com/quic-go/") || !more {
				break
			}
		}
	}
	return ours, theirs, places
}

// TestAllocations: a request in a burst allocates in quic-go only.
func TestAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	defer func() { runtime.MemProfileRate = rate }()
	body := []byte(strings.Repeat("x", 1000))
	addr := serve(t, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.Response.SetBodyRaw(body[:13+len(ctx.PostBody())&1])
	}}, Config{})
	for name, request := range map[string][]byte{
		"GET":  get("/", "accept", "*/*", "user-agent", "test"),
		"POST": concat(head("POST", "/", "content-length", "1000"), data(string(body))),
	} {
		c := dialRaw(t, addr)
		const size, few, many = 100, 3, 10
		// The difference of a long and a short run: what fills the pools, which the GC has
		// emptied, is in both.
		count := func(bursts int) (ours, theirs int64, places map[string]int64) {
			oursBefore, theirsBefore, before := allocations()
			percent := debug.SetGCPercent(-1)
			for range bursts {
				burst(t, c.Conn, request, size)
			}
			debug.SetGCPercent(percent)
			ours, theirs, places = allocations()
			for place := range places {
				places[place] -= before[place]
			}
			return ours - oursBefore, theirs - theirsBefore, places
		}
		count(few)
		// On a busy machine the long run may have more requests at a time than the short one, so it
		// fills the pools with more. What each request allocates is in every try.
		for tries := 5; ; tries-- {
			ours, theirs, before := count(few)
			oursAfter, theirsAfter, after := count(few + many)
			perRequest := float64(oursAfter-ours) / (many * size)
			t.Logf("%s: %.3f allocations of ours, %.1f of quic-go on both sides", name, perRequest, float64(theirsAfter-theirs)/(many*size))
			if perRequest <= 0.75 { // one for each is 1; the pools are of processors, which makes some more
				break
			}
			for place, n := range after {
				if n -= before[place]; n > many {
					t.Logf("%6d %s", n, place)
				}
			}
			if tries == 1 {
				t.Errorf("%s: %.3f allocations of a request", name, perRequest)
				break
			}
		}
		c.CloseWithError(0, "")
	}
}

// BenchmarkGET compares requests with those of quic-go/http3 and a handler of net/http: bursts
// on one connection, and one request at a time on 64.
func BenchmarkGET(b *testing.B) {
	body := []byte("Hello, World!")
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Write(body)
	})
	for _, load := range []struct{ conns, at int }{{1, 100}, {64, 10}, {64, 1}} {
		for _, server := range []string{"sluice", "quic-go"} {
			b.Run(fmt.Sprintf("%dx%d/%s", load.conns, load.at, server), func(b *testing.B) {
				addr := ""
				if server == "sluice" {
					addr = serve(b, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.Response.SetBodyRaw(body) }}, Config{})
				} else {
					addr = servePeer(b, handler)
				}
				conns := make([]*quic.Conn, load.conns)
				for i := range conns {
					conns[i] = dialRaw(b, addr).Conn
				}
				request := get("/", "accept", "*/*", "user-agent", "test")
				rounds := max(b.N/(load.conns*load.at), 1)
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for _, c := range conns {
					wg.Go(func() {
						for range rounds {
							burst(b, c, request, load.at)
						}
					})
				}
				wg.Wait()
			})
		}
	}
}

// servePeer serves handler with quic-go/http3.
func servePeer(b testing.TB, handler http.Handler) string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &peer.Server{Handler: handler, TLSConfig: peer.ConfigureTLSConfig(newCertificate(b)), QUICConfig: &quic.Config{MaxIncomingStreams: 250}}
	go s.Serve(c)
	b.Cleanup(func() { s.Close(); c.Close() })
	return c.LocalAddr().String()
}
