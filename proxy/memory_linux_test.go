package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// TestIdleMemory: what an idle tunnel costs after a message each way, both sides together. The
// proxy is a process of its own: this test, started again.
func TestIdleMemory(t *testing.T) {
	if to := os.Getenv("SLUICE_TEST_PROXY_IDLE"); to != "" {
		serveIdle(t, to)
		return
	}
	if testing.Short() || invariants.Enabled {
		t.Skip("takes some seconds; the race detector keeps memory of its own")
	}
	needsSplices(t)
	const count, limit = 3000, 700 // bytes for each
	proxy := nettest.StartAgain(t, "SLUICE_TEST_PROXY_IDLE="+echoTo(t), "-test.run=^TestIdleMemory$")
	addr := proxy.Line()
	memory := func() (private, heap int) {
		if _, err := fmt.Sscan(proxy.Ask(""), &private, &heap); err != nil {
			t.Fatal(err)
		}
		return private, heap
	}
	open := func(n int) {
		for range n {
			conn, r := openTunnel(t, addr, "")
			send(t, conn, "ping")
			if text, err := r.Peek(4); string(text) != "ping" || err != nil {
				t.Fatalf("%q, %v", text, err)
			}
		}
	}
	open(500) // what the process needs once
	before, heapBefore := memory()
	open(count)
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) { // a busy machine settles late
		private, heap := memory()
		each := (private - before) / count
		if each <= limit {
			t.Logf("an idle tunnel costs %d bytes, of that %d of Go's heap and stacks", each, (heap-heapBefore)/count)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("an idle tunnel costs %d bytes, at most %d are wanted", each, limit)
		}
	}
}

// echoTo returns the URL of an upstream whose tunnels are echoes.
func echoTo(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReaderSize(conn, 512)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(conn, switches)
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{r})
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// serveIdle is the proxy of TestIdleMemory. It prints its address, and after each line of input
// its private memory, and what of it Go's heap and stacks have.
func serveIdle(t *testing.T, to string) {
	debug.SetGCPercent(50)
	p := newProxy(t, Options{To: []string{to}})
	s := &sluice.Server{Handler: p.Handle, Logger: silent}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		runtime.GC()
		runtime.GC()
		debug.FreeOSMemory()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		fmt.Println(strconv.FormatInt(nettest.PrivateMemory(t, os.Getpid()), 10), stats.HeapInuse+stats.StackInuse)
	}
}
