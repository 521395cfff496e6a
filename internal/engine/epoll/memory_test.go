//go:build linux && (amd64 || arm64)

package epoll

import (
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// rawClient is a client's end that costs this process nothing but a descriptor.
func rawClient(t testing.TB, addr net.Addr, i int) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	// See enginetest's loopback for the reason of the odd address.
	local := &syscall.SockaddrInet4{Addr: [4]byte{127, 79, byte(i >> 8), byte(i)}}
	remote := &syscall.SockaddrInet4{Port: addr.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, local); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, remote); err != nil {
		t.Fatal(err)
	}
	return fd
}

// rawAsk does one round trip.
func rawAsk(t testing.TB, fd int) {
	var p [8]byte
	if _, err := syscall.Write(fd, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if n, err := syscall.Read(fd, p[:]); err != nil || string(p[:n]) != "hello" {
		t.Fatalf("got %q and %v", p[:n], err)
	}
}

// A connection that idles is its slot: no goroutine, no buffer, no protocol.
func TestIdleConnectionsCostASlot(t *testing.T) {
	const connections = 4000
	ln, a := listen(t), newEcho()
	a.idle = time.Hour
	d := serveOn(t, ln, a, engine.Options{})
	fds := make([]int, connections)
	defer func() {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}()
	before := memoryInUse()
	for i := range fds {
		fds[i] = rawClient(t, ln.Addr(), i)
		rawAsk(t, fds[i])
		rawAsk(t, fds[i])
	}
	eventually(t, "all idle", func() bool { return d.Stats() == engine.Stats{Open: connections} })
	each := (memoryInUse() - before) / connections
	t.Logf("%.0f bytes per connection", each)
	if !raceEnabled && each > 200 { // descriptors of the clients take slots, too
		t.Errorf("an idle connection takes %.0f bytes", each)
	}
	loops := d.Loops()
	if len(loops) != len(d.loops) {
		t.Errorf("%d loops, want %d", len(loops), len(d.loops))
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

func memoryInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) + float64(m.StackInuse)
}

// A round trip allocates nothing, though the connection sleeps in between.
func TestRoundTripDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ln := listen(t)
	a := newEcho()
	a.idle = time.Minute
	serveOn(t, ln, a, engine.Options{})
	fd := rawClient(t, ln.Addr(), 0)
	defer syscall.Close(fd)
	p, hello := make([]byte, 8), []byte("hello")
	if n := testing.AllocsPerRun(2000, func() {
		if _, err := syscall.Write(fd, hello); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Read(fd, p); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per round trip", n)
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	ln := listen(b)
	a := newEcho()
	a.idle = time.Minute
	serveOn(b, ln, a, engine.Options{})
	fd := rawClient(b, ln.Addr(), 0)
	defer syscall.Close(fd)
	b.ReportAllocs()
	for b.Loop() {
		rawAsk(b, fd)
	}
}

func TestNetConnCloses(t *testing.T) {
	ln, a := listen(t), newEcho()
	d := serveOn(t, ln, a, engine.Options{})
	c := dial(t, ln)
	ask(t, c, "hello")
	var kept net.Conn
	d.Range(func(ec engine.Conn) bool {
		kept = ec.NetConn()
		return true
	})
	if got := kept.RemoteAddr().String(); got != c.LocalAddr().String() {
		t.Errorf("RemoteAddr %s, want %s", got, c.LocalAddr())
	}
	if got := kept.LocalAddr().String(); got != c.RemoteAddr().String() {
		t.Errorf("LocalAddr %s, want %s", got, c.RemoteAddr())
	}
	if _, err := kept.Read(make([]byte, 1)); err == nil {
		t.Error("Read works")
	}
	if err := kept.Close(); err != nil {
		t.Error(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the peer read %d bytes and %v", n, err)
	}
	eventually(t, "it ends", func() bool { return d.open.Load() == 0 })
	if err := kept.Close(); err == nil {
		t.Error("closed twice")
	}
}
