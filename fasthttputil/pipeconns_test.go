package fasthttputil

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/sluicehttp/sluice/internal/invariants"
)

func TestPipeConnsKeepTheNetConnContract(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		pc := NewPipeConns()
		return pc.Conn1(), pc.Conn2(), func() { pc.Close() }, nil
	})
}

func TestPipeConnsMoveBytesBothWays(t *testing.T) {
	pc := NewPipeConns()
	for _, size := range []int{1, chunkSize - 1, chunkSize, chunkSize + 1, maxBuffered} {
		want := bytes.Repeat([]byte("x0y"), size/3+1)[:size]
		for _, ends := range [][2]net.Conn{{pc.Conn1(), pc.Conn2()}, {pc.Conn2(), pc.Conn1()}} {
			if n, err := ends[0].Write(want); n != size || err != nil {
				t.Fatalf("Write of %d bytes = %d, %v", size, n, err)
			}
			got := make([]byte, size)
			if _, err := io.ReadFull(ends[1], got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("size %d: read err %v, equal %v", size, err, bytes.Equal(got, want))
			}
		}
	}
}

func TestPipeReadJoinsWrites(t *testing.T) {
	pc := NewPipeConns()
	for _, s := range []string{"ab", "cde", "f"} {
		if _, err := io.WriteString(pc.Conn1(), s); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, 100)
	n, err := pc.Conn2().Read(got)
	if err != nil || string(got[:n]) != "abcdef" {
		t.Fatalf("Read = %q, %v", got[:n], err)
	}
}

func TestPipeZeroLengthIO(t *testing.T) {
	pc := NewPipeConns()
	if n, err := pc.Conn1().Write(nil); n != 0 || err != nil {
		t.Errorf("Write(nil) = %d, %v", n, err)
	}
	if n, err := pc.Conn2().Read(nil); n != 0 || err != nil {
		t.Errorf("Read(nil) on an empty pipe = %d, %v", n, err)
	}
	io.WriteString(pc.Conn1(), "x")
	if n, err := pc.Conn2().Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("Read after an empty Write = %d, %v", n, err)
	}
	pc.Close()
	if n, err := pc.Conn1().Write(nil); n != 0 || err != ErrConnectionClosed {
		t.Errorf("Write(nil) after Close = %d, %v", n, err)
	}
}

// fill makes as many Writes as a pipe always holds, of size bytes.
func fill(t *testing.T, c net.Conn, size int) {
	t.Helper()
	for range maxWrites {
		if n, err := c.Write(make([]byte, size)); n != size || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
}

// Four Writes of any size need no reader. When one is read completely, there is room
// for another.
func TestPipeHoldsFourWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 3*maxBuffered + 1
		pc := NewPipeConns()
		fill(t, pc.Conn1(), size)
		written := 0
		go func() {
			for range 2 {
				n, _ := pc.Conn1().Write(make([]byte, size))
				written += n
			}
		}()
		for _, step := range []struct{ read, want int }{{0, 0}, {size - 1, 0}, {1, size}, {size - 1, size}, {1, 2 * size}} {
			if _, err := io.ReadFull(pc.Conn2(), make([]byte, step.read)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if written != step.want {
				t.Errorf("after %d bytes read, %d are written, want %d", step.read, written, step.want)
			}
		}
		pc.Close()
	})
}

// Small Writes are bounded by their total size alone.
func TestPipeHoldsManySmallWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pc := NewPipeConns()
		written := 0
		go func() {
			for {
				if _, err := pc.Conn1().Write([]byte("x")); err != nil {
					return
				}
				written++
			}
		}()
		synctest.Wait()
		if written != maxBuffered {
			t.Errorf("%d are written", written)
		}
		pc.Close()
	})
}

func TestPipeWriteWaitsWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pc := NewPipeConns()
		fill(t, pc.Conn1(), 1)
		want := bytes.Repeat([]byte("0123456789abcdef"), 3*maxBuffered/16)
		finished := false
		go func() {
			if n, err := pc.Conn1().Write(want); n != len(want) || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
			finished = true
			pc.Conn1().Close()
		}()
		synctest.Wait()
		if finished {
			t.Fatal("a Write of three buffers' size returned before anything was read")
		}
		if size := pc.toConn2.size; size != maxBuffered {
			t.Fatalf("%d bytes queued, want %d", size, maxBuffered)
		}
		got, err := io.ReadAll(pc.Conn2())
		if err != nil || !bytes.Equal(got[maxWrites:], want) {
			t.Fatalf("ReadAll: %d bytes, %v", len(got), err)
		}
	})
}

func TestPipeWritesDoNotMix(t *testing.T) {
	pc := NewPipeConns()
	const writers, size = 3 * maxWrites, 2*maxBuffered + 77
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			if _, err := pc.Conn1().Write(bytes.Repeat([]byte{byte('a' + i)}, size)); err != nil {
				t.Error(err)
			}
		})
	}
	seen := map[byte]bool{}
	for range writers {
		block := make([]byte, size)
		if _, err := io.ReadFull(pc.Conn2(), block); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(block, block[:1]); n != size || seen[block[0]] {
			t.Fatalf("a block of %q holds %d of its %d bytes (seen before: %v)", block[0], n, size, seen[block[0]])
		}
		seen[block[0]] = true
	}
	wg.Wait()
}

func TestPipeWakesEveryReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pc := NewPipeConns()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				one := make([]byte, 1)
				if n, err := pc.Conn2().Read(one); n != 1 || err != nil {
					t.Errorf("Read = %d, %v", n, err)
				}
			})
		}
		synctest.Wait()
		io.WriteString(pc.Conn1(), "12345")
		wg.Wait() // synctest reports a deadlock if a reader was not woken
	})
}

func TestPipeCloseDeliversWhatWasWritten(t *testing.T) {
	for _, closer := range []string{"writer", "reader", "both"} {
		pc := NewPipeConns()
		io.WriteString(pc.Conn1(), "last words")
		switch closer {
		case "writer":
			pc.Conn1().Close()
		case "reader":
			pc.Conn2().Close()
		case "both":
			pc.Close()
		}
		got, err := io.ReadAll(pc.Conn2())
		if err != nil || string(got) != "last words" {
			t.Errorf("%s closed: ReadAll = %q, %v", closer, got, err)
		}
		for i, c := range []net.Conn{pc.Conn1(), pc.Conn2()} {
			if n, err := c.Write([]byte("x")); n != 0 || err != ErrConnectionClosed {
				t.Errorf("%s closed: Write on end %d = %d, %v", closer, i+1, n, err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("%s closed: second Close of end %d: %v", closer, i+1, err)
			}
		}
	}
}

func TestPipeCloseWakesBlockedCalls(t *testing.T) {
	for _, end := range []string{"own", "peer"} {
		synctest.Test(t, func(t *testing.T) {
			pc := NewPipeConns()
			fill(t, pc.Conn1(), 1)
			var wg sync.WaitGroup
			wg.Go(func() {
				if n, err := pc.Conn1().Read(make([]byte, 1)); n != 0 || err != io.EOF {
					t.Errorf("%s closed: blocked Read = %d, %v", end, n, err)
				}
			})
			for range 2 { // one has the writers' lock, one waits for it
				wg.Go(func() {
					if _, err := pc.Conn1().Write(make([]byte, maxBuffered+1)); err != ErrConnectionClosed {
						t.Errorf("%s closed: blocked Write: %v", end, err)
					}
				})
			}
			synctest.Wait()
			if end == "own" {
				pc.Conn1().Close()
			} else {
				pc.Conn2().Close()
			}
			wg.Wait()
		})
	}
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pc := NewPipeConns()
		c := pc.Conn1()
		start := time.Now()

		c.SetReadDeadline(start.Add(time.Second))
		c.SetReadDeadline(start.Add(3 * time.Second)) // replaced before it passed
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != ErrTimeout {
			t.Fatalf("Read = %d, %v", n, err)
		}
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("Read timed out after %v, want 3s", got)
		}

		// A deadline that is set to now ends a waiting call.
		c.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			c.SetDeadline(time.Now())
		}()
		if _, err := c.Read(make([]byte, 1)); err != ErrTimeout {
			t.Errorf("Read with the deadline moved to now: %v", err)
		}

		// The other direction has its own deadlines. Available data does not hide a
		// passed deadline, and a new deadline makes the connection usable again.
		io.WriteString(pc.Conn2(), "y")
		if _, err := c.Read(make([]byte, 1)); err != ErrTimeout {
			t.Errorf("Read past its deadline: %v", err)
		}
		c.SetReadDeadline(time.Time{})
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("Read after the deadline was cleared = %d, %v", n, err)
		}
		if n, err := c.Write([]byte("z")); n != 0 || err != ErrTimeout {
			t.Errorf("Write past its deadline = %d, %v", n, err)
		}

		c.SetWriteDeadline(time.Now().Add(time.Second))
		fill(t, c, 1)
		if n, err := c.Write(make([]byte, maxBuffered+10)); n != maxBuffered-maxWrites || err != ErrTimeout {
			t.Errorf("Write that does not fit = %d, %v", n, err)
		}
	})
}

func TestErrTimeoutIsATimeout(t *testing.T) {
	var err error = ErrTimeout
	var netErr net.Error
	if !errors.As(err, &netErr) || !netErr.Timeout() || !netErr.Temporary() {
		t.Errorf("%#v is no net.Error of a time-out", err)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) {
		t.Errorf("errors.Is: deadline exceeded %v, EOF %v", errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF))
	}
	if !strings.Contains(err.Error(), "timeout") {
		t.Errorf("Error() = %q", err)
	}
}

func TestPipeAddresses(t *testing.T) {
	pc := NewPipeConns()
	for _, a := range []net.Addr{pc.Conn1().LocalAddr(), pc.Conn1().RemoteAddr(), pc.Conn2().LocalAddr(), pc.Conn2().RemoteAddr()} {
		if a.Network() != "pipe" || a.String() != "pipe" {
			t.Errorf("default address %s %s", a.Network(), a)
		}
	}
	addrs := make([]net.Addr, 4)
	for i := range addrs {
		addrs[i] = &net.TCPAddr{Port: i + 1}
	}
	pc.SetAddresses(addrs[0], addrs[1], addrs[2], addrs[3])
	got := []net.Addr{pc.Conn1().LocalAddr(), pc.Conn1().RemoteAddr(), pc.Conn2().LocalAddr(), pc.Conn2().RemoteAddr()}
	for i := range addrs {
		if got[i] != addrs[i] {
			t.Errorf("address %d is %v, want %v", i, got[i], addrs[i])
		}
	}
}

func TestPipeSteadyStateDoesNotAllocate(t *testing.T) {
	pc := NewPipeConns()
	c1, c2 := pc.Conn1(), pc.Conn2()
	buf := make([]byte, 3*chunkSize)
	deadline := time.Now().Add(time.Hour)
	round := func() {
		c2.SetReadDeadline(deadline)
		if _, err := c1.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c2, buf); err != nil {
			t.Fatal(err)
		}
	}
	round() // creates the timer
	// A garbage collection may empty the pool meanwhile. Less than one allocation per
	// round shows that none is inherent.
	if allocs := testing.AllocsPerRun(1000, round); allocs >= 1 && !invariants.Enabled {
		t.Errorf("%v allocations per write and read", allocs)
	}
}

func BenchmarkPipePingPong(b *testing.B) {
	pc := NewPipeConns()
	defer pc.Close()
	go func() {
		buf := make([]byte, 512)
		for {
			n, err := pc.Conn2().Read(buf)
			if err != nil {
				return
			}
			pc.Conn2().Write(buf[:n])
		}
	}()
	buf := make([]byte, 128)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pc.Conn1().Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(pc.Conn1(), buf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPipeThroughput(b *testing.B) {
	pc := NewPipeConns()
	go io.Copy(io.Discard, pc.Conn2())
	defer pc.Close()
	buf := make([]byte, 16<<10)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pc.Conn1().Write(buf); err != nil {
			b.Fatal(err)
		}
	}
}
