package sse

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// benchStreams is how many streams BenchmarkPublish has.
const benchStreams = 5000

// TestPublishAllocations: an event is allocated once, for the history, however many streams
// get it.
func TestPublishAllocations(t *testing.T) {
	if invariants.Enabled || (&sluice.Server{}).EngineInfo(nil).Engine != sluice.EngineEpoll {
		t.Skip("needs an event engine, and no race detector")
	}
	f := start(t, sluice.EngineAuto, Options{History: 10})
	const streams, events = 300, 200
	for range streams {
		c := f.open("a", "")
		go func() { _, _ = io.Copy(io.Discard, c.in) }()
	}
	f.joined("a", streams)
	e := Event{Name: "tick", Data: []byte(strings.Repeat("x", 32))}
	publish := func() {
		if err := f.hub.Publish("a", e); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		publish()
	}
	allocations := testing.AllocsPerRun(events, publish)
	if allocations > 1+streams/100 { // a client that is slow for once costs an allocation or two
		t.Errorf("an event costs %v allocations", allocations)
	}
}

// BenchmarkPublish compares an event of 32 bytes to many streams with what it cannot do
// without: a call of write(2) for each connection. The clients are another process: this
// test, started again. cpu-ns/stream is the CPU time of this process.
func BenchmarkPublish(b *testing.B) {
	if addr := os.Getenv("SLUICE_TEST_SSE_CLIENTS"); addr != "" {
		listenAll(b, addr)
		return
	}
	data := []byte(strings.Repeat("x", 32))
	b.Run("hub", func(b *testing.B) {
		h, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = h.Serve(ctx, "a") }}
		ln := nettest.ListenPlain(b)
		go func() { _ = s.Serve(ln) }()
		stop := startClients(b, ln.Addr().String())
		for h.Len("a") < benchStreams {
			time.Sleep(time.Millisecond)
		}
		nettest.TimeCPU(b, "stream", benchStreams, func() {
			if err := h.Publish("a", Event{Data: data}); err != nil {
				b.Fatal(err)
			}
		})
		stop()
		_ = s.Shutdown()
	})
	b.Run("write", func(b *testing.B) {
		ln := nettest.ListenPlain(b)
		defer ln.Close()
		conns := make(chan net.Conn, benchStreams)
		go func() {
			for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
				conns <- c
			}
		}()
		stop := startClients(b, ln.Addr().String())
		var fds []int
		for range benchStreams {
			c := <-conns
			defer c.Close()
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				b.Fatal(err)
			}
			_ = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		chunk := appendChunk(nil, appendText([]byte("id: zzzzzz.10\n"), "", data))
		nettest.TimeCPU(b, "stream", benchStreams, func() {
			for _, fd := range fds {
				if n, err := syscall.Write(fd, chunk); n != len(chunk) {
					b.Fatal(err)
				}
			}
		})
		stop()
	})
}

// startClients starts a process that opens the streams and reads what comes.
func startClients(b *testing.B, addr string) (stop func()) {
	clients := nettest.StartAgain(b, "SLUICE_TEST_SSE_CLIENTS="+addr, "-test.run=^$", "-test.bench=^BenchmarkPublish$", "-test.benchtime=1x")
	for clients.Line() != "open" {
	}
	return clients.Stop
}

func listenAll(b *testing.B, addr string) {
	for range benchStreams {
		c, err := net.Dial("tcp4", addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
	}
	fmt.Println("\nopen")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
