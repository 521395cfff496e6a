//go:build linux && (amd64 || arm64)

package epoll

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	reuse "github.com/sluicehttp/sluice/internal/engine/listen"
)

// A crowd counts connections that arrive.
type crowd struct {
	answerer
	left    atomic.Int64
	arrived chan struct{} // receives after the last one
	diverts bool
}

// Hooks implements engine.Hooker. A connection is closed by the loop that has accepted
// it, if diverts is true.
func (c *crowd) Hooks() engine.Hooks {
	h := engine.Hooks{Arrived: func() {
		if c.left.Add(-1) == 0 {
			c.arrived <- struct{}{}
		}
	}}
	if c.diverts {
		h.Divert = func(int) bool { return true }
	}
	return h
}

// Connections wait in listening sockets, and an engine accepts them: until each is
// closed by the loop that accepts it, or waits for its first request. Sockets that share
// a port (SO_REUSEPORT) go to the loops in turn. One operation is 240 connections.
//
//	go test ./internal/engine/epoll -run xxx -bench BenchmarkAccept -cpu 2 -benchtime 500x
//
// An operation takes a millisecond. So on a busy machine a few of them run alone, and
// those are at the 97th percentile of the rates.
func BenchmarkAccept(b *testing.B) {
	for _, diverts := range []bool{true, false} {
		for _, c := range []struct{ loops, sockets int }{{1, 1}, {4, 1}, {4, 4}} {
			name := "waits"
			if diverts {
				name = "closed"
			}
			b.Run(fmt.Sprintf("%s/loops=%d/sockets=%d", name, c.loops, c.sockets), func(b *testing.B) {
				rates := make([]float64, b.N)
				for i := range rates {
					rates[i] = acceptedAtOnce / benchmarkAccept(b, c.loops, c.sockets, diverts).Seconds()
				}
				slices.Sort(rates)
				b.ReportMetric(rates[b.N/2], "median/s")
				b.ReportMetric(rates[b.N*97/100], "p97/s")
			})
		}
	}
}

const acceptedAtOnce = 240

// benchmarkAccept returns how long an engine with running loops takes.
func benchmarkAccept(b *testing.B, loops, sockets int, diverts bool) time.Duration {
	e := newEngine(engine.Options{Loops: loops})
	warm := &crowd{arrived: make(chan struct{}, 1)}
	warm.left.Store(1)
	warm.answer = echo
	c := &crowd{arrived: make(chan struct{}, 1), diverts: diverts}
	c.left.Store(acceptedAtOnce)
	c.answer = echo
	var served sync.WaitGroup
	all := append(listenTogether(b, 1), listenTogether(b, sockets)...)
	served.Go(func() { _ = e.Serve(all[0], warm) })
	fds := []int{rawClient(b, all[0].Addr(), 0)}
	<-warm.arrived
	for i := range acceptedAtOnce {
		fds = append(fds, rawClient(b, all[1].Addr(), i))
	}
	begun := time.Now()
	for _, ln := range all[1:] {
		served.Go(func() { _ = e.Serve(ln, c) })
	}
	<-c.arrived
	took := time.Since(begun)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := e.Shutdown(ctx); err != nil {
		b.Fatal(err)
	}
	served.Wait()
	for _, ln := range all {
		_ = ln.Close()
	}
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
	return took
}

// What the kernel can do for that: threads that accept and close the same connections
// with accept4(2) and close(2) alone, as BenchmarkAccept's "closed" does.
func BenchmarkAcceptCalls(b *testing.B) {
	for _, c := range []struct{ threads, sockets int }{{1, 1}, {2, 1}, {2, 2}} {
		b.Run(fmt.Sprintf("threads=%d/sockets=%d", c.threads, c.sockets), func(b *testing.B) {
			rates := make([]float64, b.N)
			for i := range rates {
				rates[i] = acceptedAtOnce / acceptCalls(b, c.threads, c.sockets).Seconds()
			}
			slices.Sort(rates)
			b.ReportMetric(rates[b.N/2], "median/s")
			b.ReportMetric(rates[b.N*97/100], "p97/s")
		})
	}
}

// acceptCalls returns how long the threads take, which begin together.
func acceptCalls(b *testing.B, threads, sockets int) time.Duration {
	all := listenTogether(b, sockets)
	var clients []int
	for i := range acceptedAtOnce {
		clients = append(clients, rawClient(b, all[0].Addr(), i))
	}
	var ready atomic.Int32
	var running sync.WaitGroup
	begun, ended := make([]time.Time, threads), make([]time.Time, threads)
	for i := range threads {
		conn, err := all[i%sockets].(*net.TCPListener).SyscallConn()
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_ = conn.Control(func(fd uintptr) {
				for ready.Add(1); ready.Load() < int32(threads); { // a thread that sleeps would be late
				}
				begun[i] = time.Now()
				for {
					accepted, _, errno := syscall.RawSyscall6(syscall.SYS_ACCEPT4, fd, 0, 0, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0, 0)
					if errno != 0 {
						break
					}
					_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, accepted, 0, 0)
				}
				ended[i] = time.Now()
			})
		})
	}
	running.Wait()
	for _, ln := range all {
		_ = ln.Close()
	}
	for _, fd := range clients {
		_ = syscall.Close(fd)
	}
	return slices.MaxFunc(ended, time.Time.Compare).Sub(slices.MinFunc(begun, time.Time.Compare))
}

// listenTogether returns listeners that share a port.
func listenTogether(b *testing.B, sockets int) (all []net.Listener) {
	b.Helper()
	address := "127.0.0.1:0"
	for range sockets {
		ln, err := reuse.Listen(context.Background(), "tcp", address, reuse.Options{ReusePort: sockets > 1})
		if err != nil {
			b.Fatal(err)
		}
		address = ln.Addr().String()
		all = append(all, ln)
	}
	return all
}

// listen returns a listener for plain TCP.
func listen(t testing.TB) net.Listener {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	ln, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}
