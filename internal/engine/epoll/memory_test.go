//go:build linux && (amd64 || arm64)

package epoll

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// A connection that idles is its slot: no goroutine, no buffer, no protocol.
func TestIdleConnectionsCostASlot(t *testing.T) {
	t.Run("epoll", func(t *testing.T) { testIdleConnections(t, false) })
	t.Run("io_uring", func(t *testing.T) { testIdleConnections(t, true) })
}

func testIdleConnections(t *testing.T, ioURing bool) {
	const connections = 4000
	e, addr := serveWith(t, &answerer{answer: echo}, engine.Options{Loops: 1, IOUring: ioURing})
	fds := make([]int, connections)
	defer func() {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}()
	p, hello := make([]byte, 8), []byte("hello")
	first := rawClient(t, addr, connections) // the workers that it starts stay
	roundTrip(t, first, hello, p, len(hello))
	_ = syscall.Close(first)
	before := memoryInUse()
	for i := range fds {
		fds[i] = rawClient(t, addr, i)
		roundTrip(t, fds[i], hello, p, len(hello))
		roundTrip(t, fds[i], hello, p, len(hello))
	}
	for end := time.Now().Add(10 * time.Second); e.Stats() != (engine.Stats{Open: connections}); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not all idle: %+v", e.Stats())
		}
	}
	each := (memoryInUse() - before) / connections
	t.Logf("%.0f bytes per connection", each)
	if !invariants.Enabled && each > 200 { // descriptors of the clients take slots, too
		t.Errorf("an idle connection takes %.0f bytes", each)
	}
	loops := e.Loops()
	if len(loops) != 1 {
		t.Errorf("%d loops, want 1", len(loops))
	}
	for _, l := range loops {
		if l.Buffers != 0 || l.Active != 0 || l.Queued != 0 {
			t.Errorf("idle connections hold %+v", l)
		}
	}
	if n := runtime.NumGoroutine(); n > 64 {
		t.Errorf("%d goroutines", n)
	}
}

// A connection that waits for a proxy's header, or for the rest of it, is its slot; one that has
// got it, the slot and the header.
func TestProxiedConnectionsCostASlot(t *testing.T) {
	const connections = 4000
	anyone := netip.MustParsePrefix("0.0.0.0/0")
	a := &proxiedAnswerer{answerer{answer: echo}, engine.ProxyRule{Requires: true, Trusted: []netip.Prefix{anyone}}}
	e, addr := serveWith(t, a, engine.Options{Loops: 1, HandshakeTimeout: time.Hour})
	header := []byte("PROXY TCP4 192.0.2.1 198.51.100.2 1234 443\r\n")
	p, x := make([]byte, 8), []byte("x")
	settled := func(open int) float64 {
		t.Helper()
		l := e.Loops()[0]
		for end := time.Now().Add(10 * time.Second); l.Connections != open || l.Queued > 0 || l.Workers > l.IdleWorkers || l.Buffers > 0; l = e.Loops()[0] {
			if time.Now().After(end) {
				t.Fatalf("%d connections hold %+v", open, l)
			}
			time.Sleep(time.Millisecond)
		}
		return memoryInUse()
	}
	first := rawClient(t, addr, connections) // the workers that it starts stay
	_, _ = syscall.Write(first, header)
	roundTrip(t, first, x, p, 1)
	fds := make([]int, connections)
	before := settled(1)
	for i := range fds {
		fds[i] = rawClient(t, addr, i)
		if _, err := syscall.Write(fds[i], header[:len(header)/2*(i%2)]); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		_ = syscall.Close(first)
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}()
	waiting := (settled(connections+1) - before) / connections
	for i, fd := range fds {
		if _, err := syscall.Write(fd, header[len(header)/2*(i%2):]); err != nil {
			t.Fatal(err)
		}
		roundTrip(t, fd, x, p, 1)
	}
	idle := (settled(connections+1) - before) / connections
	t.Logf("%.0f bytes while a connection waits for its header, %.0f when it is idle", waiting, idle)
	if !invariants.Enabled && (waiting > 200 || idle > 350) {
		t.Errorf("that is too much")
	}
	if n := runtime.NumGoroutine(); n > 64 {
		t.Errorf("%d goroutines", n)
	}
}

// A proxiedAnswerer answers behind proxies.
type proxiedAnswerer struct {
	answerer
	rule engine.ProxyRule
}

// Hooks implements engine.Hooker.
func (a *proxiedAnswerer) Hooks() engine.Hooks { return engine.Hooks{Proxy: &a.rule} }

func memoryInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) + float64(m.StackInuse)
}

// A round trip allocates nothing, though the connection sleeps in between; nor
// does one with a file.
func TestRoundTripDoesNotAllocate(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	const size = 300_000
	f := openFile(t, size)
	for name, c := range map[string]struct {
		answer func(engine.Conn, []byte) []byte
		size   int
	}{
		"echo": {echo, 1},
		"file": {sends(engine.File{Source: f, Offset: 1, Size: size - 1}), size + 4},
	} {
		_, addr := serveOn(t, &answerer{answer: c.answer})
		fd := rawClient(t, addr, 0)
		p, x := make([]byte, size), []byte("x")
		if n := testing.AllocsPerRun(500, func() { roundTrip(t, fd, x, p, c.size) }); n != 0 {
			t.Errorf("%s: %v allocations per round trip", name, n)
		}
		_ = syscall.Close(fd)
	}
}

func BenchmarkRoundTrip(b *testing.B) { benchmarkAnswer(b, echo, 1) }

// benchmarkAnswer measures round trips with answers of n bytes.
func benchmarkAnswer(b *testing.B, answer func(engine.Conn, []byte) []byte, n int) {
	_, addr := serveOn(b, &answerer{answer: answer})
	fd := rawClient(b, addr, 0)
	defer syscall.Close(fd)
	p, x := make([]byte, n), []byte("x")
	b.ReportAllocs()
	for b.Loop() {
		roundTrip(b, fd, x, p, n)
	}
}

// openFile makes a file of n bytes.
func openFile(t testing.TB, n int) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, n), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// sends answers with the file.
func sends(f engine.File) func(engine.Conn, []byte) []byte {
	return func(c engine.Conn, out []byte) []byte {
		c.Discard(len(c.Buffered()))
		c.SendFile(f)
		return append(out, "head:"...)
	}
}

// BenchmarkSendFile compares what a file costs that is sent, and one that is
// read into the output.
func BenchmarkSendFile(b *testing.B) {
	for _, size := range []int{2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10} {
		f := openFile(b, size)
		read := func(c engine.Conn, out []byte) []byte {
			c.Discard(len(c.Buffered()))
			out = append(out, "head:"...)
			if cap(out) < len(out)+size {
				out = append(make([]byte, 0, len(out)+size), out...)
			}
			n, _ := f.ReadAt(out[len(out):len(out)+size], 0)
			return out[:len(out)+n]
		}
		send := sends(engine.File{Source: f, Size: int64(size)})
		b.Run(fmt.Sprint("send/", size>>10, "KiB"), func(b *testing.B) { benchmarkAnswer(b, send, size+5) })
		b.Run(fmt.Sprint("read/", size>>10, "KiB"), func(b *testing.B) { benchmarkAnswer(b, read, size+5) })
	}
}

// BenchmarkPrompt has an idle connection say something.
func BenchmarkPrompt(b *testing.B) {
	a := &answerer{answer: echo, prompted: []byte("prompted"), opened: make(chan engine.Prompter, 1)}
	_, addr := serveOn(b, a)
	fd := rawClient(b, addr, 0)
	defer syscall.Close(fd)
	p, x := make([]byte, len(a.prompted)), []byte("x")
	roundTrip(b, fd, x, p, 1)
	prompter := <-a.opened
	for b.Loop() {
		prompter.Prompt()
		for n := 0; n < len(p); {
			m, err := syscall.Read(fd, p[n:])
			if m <= 0 || err != nil {
				b.Fatal(m, err)
			}
			n += m
		}
	}
}
