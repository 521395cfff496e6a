//go:build linux && (amd64 || arm64 || riscv64 || loong64)

package netconn

import (
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// deepProtocol answers like lineProtocol, from far down the stack, as handlers
// do.
type deepProtocol struct {
	lineProtocol
	conn engine.Conn
}

func (p *deepProtocol) Open(c engine.Conn) (engine.Protocol, []byte) {
	return &deepProtocol{conn: c}, nil
}

func (p *deepProtocol) Run(out []byte) ([]byte, engine.Next) {
	p.conn.SetReadDeadline(clock.Nanos(), time.Hour)
	descend(60)
	return append(out, 'x'), engine.Read
}

//go:noinline
func descend(n int) int {
	var frame [64]byte
	frame[n%64] = byte(n)
	if n > 0 {
		return descend(n-1) + int(frame[n%64])
	}
	return int(frame[0])
}

// rawClient is a client's end that costs this process only a descriptor.
func rawClient(t *testing.T, addr *net.TCPAddr, i int) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	// See enginetest's loopback for the reason of the odd address.
	local := &syscall.SockaddrInet4{Addr: [4]byte{127, 78, byte(i >> 8), byte(i)}}
	remote := &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := syscall.Bind(fd, local); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Connect(fd, remote); err != nil {
		t.Fatal(err)
	}
	return fd
}

// measure returns the bytes in use on stacks and on the heap.
func measure() (stack, heap float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.StackInuse), float64(m.HeapAlloc)
}

// TestIdleMemory: an idle connection holds a goroutine with the smallest stack, also when its
// handlers went deep, and no buffers.
func TestIdleMemory(t *testing.T) {
	if invariants.Enabled {
		t.Skip("frames are larger under the race detector")
	}
	const count = 2000
	ln, _ := listenTCP(t)
	e := serve(t, ln, &deepProtocol{})
	// One connection first, for what is made once.
	fds := make([]int, 0, count+1)
	t.Cleanup(func() {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	})
	fds = append(fds, rawClient(t, ln.Addr().(*net.TCPAddr), 0))
	ask := func(fd int) {
		one := []byte{'?'}
		if n, err := syscall.Write(fd, one); n != 1 {
			t.Fatal(err)
		}
		if n, err := syscall.Read(fd, one); n != 1 || one[0] != 'x' {
			t.Fatal(n, err)
		}
	}
	ask(fds[0])
	eventually(t, "no buffer is held", func() bool { return e.(*driver).held.Load() == 0 })
	stack, heap := measure()
	for i := 1; i <= count; i++ {
		fd := rawClient(t, ln.Addr().(*net.TCPAddr), i)
		fds = append(fds, fd)
		ask(fd)
		ask(fd)
	}
	if open := e.Stats().Open; open != count+1 {
		t.Fatalf("%d connections are open, want %d", open, count+1)
	}
	eventually(t, "no buffer is held", func() bool { return e.(*driver).held.Load() == 0 })
	stackAfter, heapAfter := measure()
	perStack, perHeap := (stackAfter-stack)/count, (heapAfter-heap)/count
	t.Logf("an idle connection holds %.0f bytes of stack and %.0f of heap", perStack, perHeap)
	if perStack > 3<<10 || perHeap > 2<<10 {
		t.Errorf("want 3 KiB and 2 KiB at most")
	}
	for _, fd := range fds {
		ask(fd)
	}
}
