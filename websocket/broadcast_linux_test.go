package websocket

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// broadcastMembers is how many connections BenchmarkBroadcast has.
const broadcastMembers = 5000

// BenchmarkBroadcast compares a broadcast of 32 bytes with what it cannot do without: a
// call of write(2) for each connection. The peers are another process: this test, started
// again. cpu-ns/member is the CPU time of this process.
func BenchmarkBroadcast(b *testing.B) {
	if addr := os.Getenv("SLUICE_TEST_WEBSOCKET_PEERS"); addr != "" {
		readAll(b, addr)
		return
	}
	payload := []byte(strings.Repeat("x", 32))
	b.Run("group", func(b *testing.B) {
		var g Group
		conns := make(chan *Conn, broadcastMembers)
		e := &Endpoint{OnOpen: func(c *Conn) error { conns <- c; return nil }}
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }}
		ln := nettest.ListenPlain(b)
		go func() { _ = s.Serve(ln) }()
		stop := startPeers(b, ln.Addr().String())
		for range broadcastMembers {
			_ = g.Add(<-conns)
		}
		p := Prepare(Text, payload)
		nettest.TimeCPU(b, "member", broadcastMembers, func() {
			if n := g.Broadcast(p, nil); n != broadcastMembers {
				b.Fatalf("the message went to %d", n)
			}
		})
		stop()
		_ = s.Shutdown()
	})
	b.Run("write", func(b *testing.B) {
		ln := nettest.ListenPlain(b)
		defer ln.Close()
		conns := make(chan net.Conn, broadcastMembers)
		go func() {
			for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
				conns <- c
			}
		}()
		stop := startPeers(b, ln.Addr().String())
		var fds []int
		for range broadcastMembers {
			c := <-conns
			defer c.Close()
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				b.Fatal(err)
			}
			_ = raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) })
		}
		frame := Prepare(Text, payload).frame
		nettest.TimeCPU(b, "member", broadcastMembers, func() {
			for _, fd := range fds {
				if n, err := syscall.Write(fd, frame); n != len(frame) {
					b.Fatal(err)
				}
			}
		})
		stop()
	})
}

// startPeers starts a process that opens the connections and reads what comes.
func startPeers(b *testing.B, addr string) (stop func()) {
	peers := nettest.StartAgain(b, "SLUICE_TEST_WEBSOCKET_PEERS="+addr, "-test.run=^$", "-test.bench=^BenchmarkBroadcast$", "-test.benchtime=1x")
	for peers.Line() != "open" {
	}
	return peers.Stop
}

func readAll(b *testing.B, addr string) {
	for range broadcastMembers {
		c, err := net.Dial("tcp4", addr)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(c, hello); err != nil {
			b.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
	}
	fmt.Println("\nopen")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
