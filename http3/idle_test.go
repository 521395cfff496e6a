package http3

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// idleMemory is how many bytes of the heap an idle connection may have beyond quic-go's. It has
// 2,050 now.
const idleMemory = 2500

// An idle connection has little memory, and one goroutine beside quic-go's two.
func TestIdleMemory(t *testing.T) {
	const conns = 60
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	v, addr := serveHTTP3(t, &sluice.Server{Handler: echo}, Config{})
	var before int64
	for i := range 1 + conns {
		c := dialRaw(t, addr)
		c.uni(streamEncoder, []byte{0x20})
		c.uni(streamDecoder, nil)
		if _, err := c.exchange(get("/")); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // what the first one needs is not per connection
			awaitRest(t, v)
			before = ownHeap(t)
		}
	}
	awaitRest(t, v)
	each := (ownHeap(t) - before) / conns
	t.Logf("%d bytes", each)
	if each > idleMemory {
		t.Errorf("%d bytes for a connection, want at most %d", each, idleMemory)
	}
	stacks := make([]byte, 8<<20)
	var accepting, reading int
	if !nettest.Poll(20*time.Second, func() bool {
		v.sweep(clock.Nanos())
		all := string(stacks[:runtime.Stack(stacks, true)])
		accepting, reading = strings.Count(all, "(*conn).serve("), strings.Count(all, "(*uniStreams).awaitFirst(")+strings.Count(all, "(*uniReader).read(")
		return accepting == 1+conns && reading == 0
	}) {
		t.Errorf("%d goroutines accept requests, %d wait for the clients' unidirectional streams", accepting, reading)
	}
}

// ownHeap returns how many bytes of the heap are in use that this module and root have allocated:
// the function that is nearest to the allocation, of those that are not Go's own, is theirs.
func ownHeap(t *testing.T) (n int64) {
	t.Helper()
	for range 3 { // for pools, finalizers and the profile
		runtime.GC()
	}
	records := make([]runtime.MemProfileRecord, 100_000)
	count, ok := runtime.MemProfile(records, false)
	if !ok {
		t.Fatalf("%d records", count)
	}
	for i := range records[:count] {
		r := &records[i]
		frames := runtime.CallersFrames(r.Stack())
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			isOurs := strings.HasPrefix(f.Function, "github.com/sluicehttp/sluice")
			if isOurs && !strings.HasSuffix(f.File, "_test.go") {
				n += r.InUseBytes()
			}
			if isOurs || strings.HasPrefix(f.Function, "github.com/quic-go/") {
				break
			}
		}
	}
	return n
}
