package sse

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// TestIdleMemory: what an idle stream costs after one event. The server is a process of its
// own: this test, started again.
func TestIdleMemory(t *testing.T) {
	if kind := os.Getenv("SLUICE_TEST_SSE_IDLE"); kind != "" {
		serveIdle(t, kind)
		return
	}
	if testing.Short() || invariants.Enabled {
		t.Skip("takes some seconds; the race detector keeps memory of its own")
	}
	if (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
		t.Skip("there is no event engine")
	}
	for _, test := range []struct {
		kind                  string
		conns, streams, limit int // connections, their streams of HTTP/2 (0: HTTP/1.1), bytes for each
	}{
		{"topic", 15000, 0, 192},
		{"own topic", 15000, 0, 512},
		{"HTTP2", 150, 100, 1400},
		{"HTTP2 alone", 3000, 1, 8 << 10},
	} {
		t.Run(test.kind, func(t *testing.T) { measureIdle(t, test.kind, test.conns, test.streams, test.limit) })
	}
}

func measureIdle(t *testing.T, kind string, count, streams, limit int) {
	server := nettest.StartAgain(t, "SLUICE_TEST_SSE_IDLE="+kind, "-test.run=^TestIdleMemory$")
	addr := server.Line()
	ask := func(what string) int {
		n, err := strconv.Atoi(server.Ask(what))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var conns []net.Conn
	open := func(n int) {
		for i := range n {
			if streams == 0 {
				conns = append(conns, openIdle(t, addr, i))
			} else {
				conns = append(conns, openIdleHTTP2(t, addr, streams))
			}
		}
	}
	open(min(count, 1000)) // what the process needs once
	for _, c := range conns {
		c.Close()
	}
	conns = nil
	before := ask("publish")
	open(count)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	ask("publish") // once: each event wakes all streams
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		each := (ask("") - before) / (count * max(streams, 1))
		if each <= limit {
			t.Logf("an idle stream costs %d bytes", each)
			return
		}
		if time.Now().After(end) {
			t.Fatalf("an idle stream costs %d bytes, at most %d are wanted", each, limit)
		}
	}
}

// openIdle opens a stream, of a topic with a number, and reads how it begins.
func openIdle(t *testing.T, addr string, number int) net.Conn {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: h\r\n\r\n", number)
	buffer := make([]byte, 1<<10)
	for got := []byte(nil); !bytes.Contains(got, []byte("id: ")); {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buffer[:n]...)
	}
	return conn
}

// openIdleHTTP2 opens a connection with streams, and reads how they begin.
func openIdleHTTP2(t *testing.T, addr string, count int) net.Conn {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t, conn, 64<<10)
	streams := make([]*wireStream, count)
	for i := range streams {
		streams[i] = w.open("", "")
	}
	got := make([]byte, 100)
	for _, s := range streams {
		if n, err := s.Read(got); err != nil || !bytes.Contains(got[:n], []byte("id: ")) {
			t.Fatalf("%q, %v", got[:n], err)
		}
	}
	_ = conn.SetDeadline(time.Time{})
	return conn
}

// serveIdle is the server of TestIdleMemory. It prints its address. After each line of input
// it prints its private memory; before that, "publish" publishes an event. Its idle workers,
// of which a busy machine makes hundreds, end soon.
func serveIdle(t *testing.T, kind string) {
	debug.SetGCPercent(50)
	h, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice.Server{MaxIdleWorkerDuration: 50 * time.Millisecond, Handler: func(ctx *sluice.RequestCtx) {
		if kind == "own topic" {
			_ = h.Serve(ctx, string(ctx.Path()))
		} else {
			_ = h.Serve(ctx, "a")
		}
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "publish" {
			if err := h.Publish("a", Event{Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Println(nettest.FreedMemory(t))
	}
}
