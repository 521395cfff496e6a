package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"net"
	"net/http"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// BenchmarkProxy forwards a small request to a Sluice server, on 16 connections. Its allocations
// are those of client, proxy and upstream together; the client and the upstream have none.
func BenchmarkProxy(b *testing.B) {
	up := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("Hello, World!") }, Logger: silent}
	p := newProxy(b, Options{To: []string{"http://" + serveUntilEnd(b, up.Serve, up.Shutdown)}})
	addr := front(b, p, sluice.EngineAuto)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		r, in := bufio.NewReader(conn), []byte(get(""))
		var resp sluice.Response
		for pb.Next() {
			if _, err := conn.Write(in); err != nil {
				b.Error(err)
				return
			}
			if err := resp.Read(r); err != nil || resp.StatusCode() != http.StatusOK {
				b.Error(err)
				return
			}
		}
	})
}

// TestForwardingAllocatesNothing: neither a request without a body nor one with a short one, in
// what the proxy, its server and the upstream do.
func TestForwardingAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	needsEvents(t) // other engines allocate
	up := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { ctx.SetBodyString("Hello, World!") }, Logger: silent}
	p := newProxy(t, Options{To: []string{"http://" + serveUntilEnd(t, up.Serve, up.Shutdown)}})
	for _, in := range []string{get("User-Agent: a\r\nAccept: */*\r\n"), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"} {
		conn := dialFront(t, front(t, p, sluice.EngineEpoll))
		request, answer := []byte(in), make([]byte, 4<<10)
		exchange := func() {
			if _, err := conn.Write(request); err != nil {
				t.Fatal(err)
			}
			for n := 0; !bytes.HasSuffix(answer[:n], []byte("Hello, World!")); {
				m, err := conn.Read(answer[n:])
				if n += m; err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 100 { // the pools fill
			exchange()
		}
		if n := testing.AllocsPerRun(500, exchange); n > 0 {
			t.Errorf("%.8s: %v allocations", in, n)
		}
	}
}

// BenchmarkParked is what it costs a goroutine to wait: it is woken, and waits again, one of many
// after the other. Its stack is as deep as that of a worker that waits for a small response, 40
// calls of 75 bytes, or shallow. The difference is what a proxy can save that waits without one.
func BenchmarkParked(b *testing.B) {
	for _, many := range []int{64, 512} {
		for _, depth := range []int{1, 40} {
			b.Run(fmt.Sprintf("%d goroutines, depth %d", many, depth), func(b *testing.B) {
				all := make([]chan int, many)
				for i := range all {
					all[i] = make(chan int)
					go func() {
						for parked(depth, all[i], i) >= 0 {
						}
					}()
				}
				for i := range b.N {
					all[i%many] <- 1
				}
				for _, c := range all {
					c <- math.MinInt32
				}
			})
		}
	}
}

// parked waits for a number at a depth of calls.
//
//go:noinline
func parked(depth int, c <-chan int, at int) int {
	var frame [3]int
	frame[at%3] = depth
	if depth == 0 {
		return <-c
	}
	return parked(depth-1, c, at+1) + frame[at%3]
}
