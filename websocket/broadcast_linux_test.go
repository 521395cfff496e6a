package websocket

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
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
		ln := listenPlain(b)
		go func() { _ = s.Serve(ln) }()
		stop := startPeers(b, ln.Addr().String())
		for range broadcastMembers {
			_ = g.Add(<-conns)
		}
		p := Prepare(Text, payload)
		timeCPU(b, func() {
			if n := g.Broadcast(p, nil); n != broadcastMembers {
				b.Fatalf("the message went to %d", n)
			}
		})
		stop()
		_ = s.Shutdown()
	})
	b.Run("write", func(b *testing.B) {
		ln := listenPlain(b)
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
		timeCPU(b, func() {
			for _, fd := range fds {
				if n, err := syscall.Write(fd, frame); n != len(frame) {
					b.Fatal(err)
				}
			}
		})
		stop()
	})
}

// listenPlain listens for TCP, not for multipath TCP.
func listenPlain(b *testing.B) net.Listener {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	ln, err := config.Listen(b.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return ln
}

// startPeers starts a process that opens the connections and reads what comes.
func startPeers(b *testing.B, addr string) (stop func()) {
	peers := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkBroadcast$", "-test.benchtime=1x")
	peers.Env = append(os.Environ(), "SLUICE_TEST_WEBSOCKET_PEERS="+addr)
	out, err := peers.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	in, err := peers.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := peers.Start(); err != nil {
		b.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "open"; {
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return func() {
		in.Close()
		_ = peers.Wait()
	}
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

// timeCPU is the loop of a benchmark. It waits between calls, so that the peers have read
// what was sent.
func timeCPU(b *testing.B, f func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	f()
	var cpu time.Duration
	for b.Loop() {
		time.Sleep(50 * time.Millisecond)
		before := used()
		f()
		cpu += used() - before
	}
	b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N*broadcastMembers), "cpu-ns/member")
}
