package programs

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"hash/crc32"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

// patience is how long a program may take.
const patience = 40 * time.Second

// largeSize is the size of what /large sends, and of the largest upload.
const largeSize = 5 << 20

// A target is what the programs talk to. It counts what it has served.
type target struct {
	t         *testing.T
	engine    sluice.Engine
	isSecure  bool
	isCompact bool // with isSecure: CompactTLS
	config    *tls.Config
	ln        *net.TCPListener
	large     []byte

	mu       sync.Mutex
	server   *sluice.Server
	ends     []func() error // of the servers: ends and awaits Serve
	served   map[string]bool
	canceled atomic.Int64 // of /slow
}

// onTargets runs a test with each engine, over TCP and TLS, and over compact TLS.
func onTargets(t *testing.T, test func(t *testing.T, target *target)) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		for _, isSecure := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/TLS %v", engine, isSecure), func(t *testing.T) {
				t.Parallel()
				test(t, newTarget(t, engine, isSecure, false))
			})
		}
	}
	t.Run("compact", func(t *testing.T) {
		t.Parallel()
		test(t, newTarget(t, sluice.EngineEpoll, true, true))
	})
}

func newTarget(t *testing.T, engine sluice.Engine, isSecure, isCompact bool) *target {
	cert, key, err := sluice.GenerateTestCertificate("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	g := &target{
		t: t, engine: engine, isSecure: isSecure, isCompact: isCompact, config: &tls.Config{Certificates: []tls.Certificate{pair}},
		ln: listen(t), large: bytes.Repeat([]byte("x"), largeSize), served: make(map[string]bool),
	}
	t.Cleanup(g.close)
	g.start()
	return g
}

// listen returns a listener for plain TCP.
func listen(t *testing.T) *net.TCPListener {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	ln, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln.(*net.TCPListener)
}

func (g *target) close() {
	for _, end := range g.ends {
		if err := end(); err != nil {
			g.t.Error(err)
		}
	}
	g.shutdown(g.server)
	g.ln.Close()
}

// start starts a server, which shares the listening socket with those before it.
func (g *target) start() {
	s := &sluice.Server{Engine: g.engine, Handler: g.handle, TLSConfig: g.config.Clone(), CompactTLS: g.isCompact, MaxRequestBodySize: 2 * largeSize}
	file, err := g.ln.File()
	if err != nil {
		g.t.Fatal(err)
	}
	ln, err := net.FileListener(file)
	if err != nil {
		g.t.Fatal(err)
	}
	file.Close()
	stopped := make(chan error, 1)
	go func() {
		if g.isSecure {
			stopped <- s.ServeTLS(ln, "", "")
		} else {
			stopped <- s.Serve(ln)
		}
	}()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = s
	g.ends = append(g.ends, func() error {
		ln.Close()
		return <-stopped
	})
}

func (g *target) shutdown(s *sluice.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.ShutdownWithContext(ctx); err != nil {
		g.t.Errorf("Shutdown: %v", err)
	}
}

func (g *target) url() string {
	scheme := "http://"
	if g.isSecure {
		scheme = "https://"
	}
	return scheme + g.ln.Addr().String()
}

// handle answers the programs.
func (g *target) handle(ctx *sluice.RequestCtx) {
	ctx.Response.Header.Set("X-Protocol", string(ctx.Request.Header.Protocol()))
	if said := ctx.TLSConnectionState(); said != nil && isCompact(said) != g.isCompact {
		g.t.Errorf("compact: %v", !g.isCompact)
	}
	switch path := string(ctx.Path()); path {
	case "/hello":
		ctx.SetBodyString("hello")
	case "/echo":
		fmt.Fprintf(ctx, "%d %08x", len(ctx.PostBody()), crc32.ChecksumIEEE(ctx.PostBody()))
	case "/204", "/304":
		ctx.SetStatusCode(map[string]int{"/204": 204, "/304": 304}[path])
	case "/large":
		ctx.Response.SetBodyRaw(g.large)
	case "/stream":
		for i := range 10 {
			fmt.Fprintf(ctx, "line %d\n", i)
			_ = ctx.Flush()
		}
	case "/trailers":
		_ = ctx.Response.Header.AddTrailer("X-Sum")
		ctx.SetBodyString("with trailers")
		_ = ctx.Flush()
		ctx.Response.Header.Set("X-Sum", "42")
	case "/hints":
		ctx.Response.Header.Add("Link", "</style.css>; rel=preload")
		_ = ctx.EarlyHints()
		ctx.SetBodyString("hinted")
	case "/slow":
		ctx.SetBodyString("begun")
		_ = ctx.Flush() // clients reset the stream when they see this
		select {
		case <-ctx.Done():
			g.canceled.Add(1)
		case <-time.After(patience):
		}
	case "/id":
		g.mu.Lock()
		g.served[string(ctx.QueryArgs().Peek("n"))] = true
		g.mu.Unlock()
		time.Sleep(time.Millisecond)
		ctx.SetBodyString("id")
	case "/page":
		ctx.SetContentType("text/html")
		ctx.SetBodyString(page)
	default:
		ctx.SetContentType("text/javascript")
	}
}

// resources is how many resources the page loads.
const resources = 50

// page loads resources, and then says by which protocol each has come.
var page = func() string {
	var b strings.Builder
	b.WriteString("<!doctype html><title>page</title>")
	for i := range resources {
		fmt.Fprintf(&b, "<script src=\"/res%d\"></script>", i)
	}
	b.WriteString(`<p id=out></p><script>onload = () => {
const all = performance.getEntriesByType("resource").filter(e => e.name.includes("/res"))
const page = performance.getEntriesByType("navigation")[0].nextHopProtocol
out.textContent = "page " + page + ", resources " + all.length + ", by h2 " + all.filter(e => e.nextHopProtocol == "h2").length
}</script>`)
	return b.String()
}()

// restart replaces the server as soon as it has served count requests of /id.
func (g *target) restart(count int) {
	end := time.Now().Add(patience)
	for g.count() < count {
		if time.Now().After(end) {
			g.t.Errorf("%d of %d requests have come", g.count(), count)
			return
		}
		time.Sleep(time.Millisecond)
	}
	old := g.server
	g.start()
	g.shutdown(old)
}

// count returns how many requests of /id were served.
func (g *target) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.served)
}

// wasServed reports whether the request of /id was served.
func (g *target) wasServed(n string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.served[n]
}

// giveUp runs f, which gives up a request of /slow after some time, until a handler has
// noticed. On a busy machine the request may not have been sent in that time.
func (g *target) giveUp(f func()) {
	g.t.Helper()
	for end := time.Now().Add(patience); g.canceled.Load() == 0; {
		if time.Now().After(end) {
			g.t.Error("no handler was told of a reset")
			return
		}
		f()
	}
}

// expectCanceled waits until count requests of /slow were reset.
func (g *target) expectCanceled(count int64) {
	g.t.Helper()
	for end := time.Now().Add(patience); g.canceled.Load() < count; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			g.t.Errorf("%d handlers were told of a reset, want %d", g.canceled.Load(), count)
			return
		}
	}
}
