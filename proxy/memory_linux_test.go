package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// TestIdleMemory: what an idle tunnel costs after a message each way, and a stream of events after
// one, both sides together. The proxy is a process of its own: this test, started again.
func TestIdleMemory(t *testing.T) {
	if to := os.Getenv("SLUICE_TEST_PROXY_IDLE"); to != "" {
		serveIdle(t, to)
		return
	}
	if testing.Short() || invariants.Enabled {
		t.Skip("takes some seconds; the race detector keeps memory of its own")
	}
	needsEvents(t)
	for _, c := range []struct {
		name, request, answer string
		limit                 int // bytes for each
	}{
		{"tunnel", upgrading, switches, 700},
		{"events", "", eventHead, 800},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := listenTo(t, func(conn io.Writer, r *bufio.Reader) {
				_, _ = io.WriteString(conn, c.answer+"5\r\nhello\r\n")
				_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{r})
			})
			measureIdle(t, to, get(c.request), c.limit)
		})
	}
}

func measureIdle(t *testing.T, to, request string, limit int) {
	const count = 3000
	proxy := nettest.StartAgain(t, "SLUICE_TEST_PROXY_IDLE="+to, "-test.run=^TestIdleMemory$")
	addr := proxy.Line()
	memory := func() (private, heap int) {
		if _, err := fmt.Sscan(proxy.Ask(""), &private, &heap); err != nil {
			t.Fatal(err)
		}
		return private, heap
	}
	open := func(n int) {
		for range n {
			conn := dialFront(t, addr)
			send(t, conn, request)
			for got := []byte(nil); !bytes.HasSuffix(got, []byte("hello\r\n")); {
				piece := make([]byte, 512)
				n, err := conn.Read(piece)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, piece[:n]...)
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
			t.Logf("one costs %d bytes, of that %d of Go's heap and stacks", each, (heap-heapBefore)/count)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("one costs %d bytes, at most %d are wanted", each, limit)
		}
	}
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
		private := nettest.FreedMemory(t)
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		fmt.Println(private, stats.HeapInuse+stats.StackInuse)
	}
}
