package websocket

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestIdleMemory: what an idle connection costs after one message. The server is a process
// of its own: this test, started again.
func TestIdleMemory(t *testing.T) {
	if kind := os.Getenv("SLUICE_TEST_WEBSOCKET_IDLE"); kind != "" {
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
		kind         string
		conns, limit int // bytes for each connection
	}{
		{"plain", 15000, 128},
		{"state", 15000, 256},
		{"room", 15000, 256},
		{"accept", 3000, 3500},
		{"perconn", 3000, 4650},
		{"deflate", 10000, 136},
		{"HTTP2", 10000, 2000},
		{"takeover", 1000, 12 << 10},
		{"takeover, large window", 500, 40 << 10},
	} {
		t.Run(test.kind, func(t *testing.T) { measureIdle(t, test.kind, test.conns, test.limit) })
	}
}

func measureIdle(t *testing.T, kind string, count, limit int) {
	server := nettest.StartAgain(t, "SLUICE_TEST_WEBSOCKET_IDLE="+kind, "-test.run=^TestIdleMemory$")
	addr := server.Line()
	memory := func() int {
		n, err := strconv.Atoi(server.Ask(""))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var conns []net.Conn
	open := func(n int) {
		for i := 0; i < n; i++ {
			conns = append(conns, askKind(t, addr, kind))
			if kind == "HTTP2" {
				i += streamsOfOne - 1
			}
		}
	}
	closeAll := func() {
		for _, c := range conns {
			c.Close()
		}
		conns = nil
	}
	defer closeAll()
	open(1000) // what the process needs once
	for round := 1; ; round++ {
		if round > 1 || !hasGoroutines(kind) { // there, others would get the memory of their goroutines
			closeAll()
		}
		before := memory()
		open(count)
		each := 0
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) { // a busy machine settles late
			if each = (memory() - before) / count; each <= limit {
				t.Logf("an idle connection costs %d bytes", each)
				return
			}
		}
		// On a busy machine the process may have needed more threads than before, once.
		if round == 3 {
			t.Fatalf("an idle connection costs %d bytes, at most %d are wanted", each, limit)
		}
	}
}

// hasGoroutines reports whether idle connections have goroutines.
func hasGoroutines(kind string) bool { return kind == "accept" || kind == "perconn" }

// askKind connects and gets one echo: with compression one that fills the windows.
func askKind(t *testing.T, addr, kind string) net.Conn {
	offer, answer := "permessage-deflate; client_max_window_bits", deflateKeeps
	size := 5000
	switch kind {
	case "HTTP2":
		return askStreams(t, addr)
	case "deflate":
		answer = deflateShared
	case "takeover":
	case "takeover, large window":
		offer, answer, size = "permessage-deflate", "permessage-deflate", 40_000
	default:
		return askOnce(t, addr)
	}
	f := &fixture{t: t, addr: addr}
	c := f.dialDeflate(offer, answer)
	text, d := records(size), &deflater{}
	c.raw(d.frame(ws.OpText, text))
	if got, isPacked := d.next(c); got != text || !isPacked {
		t.Fatal("no echo")
	}
	return c
}

// streamsOfOne is how many WebSockets share a connection of HTTP/2.
const streamsOfOne = 100

// askStreams opens them, and gets one echo of each.
func askStreams(t *testing.T, addr string) net.Conn {
	w := newWire(t, addr, 64<<10)
	for range streamsOfOne {
		c, _ := w.open()
		c.raw(masked(ws.OpText, "hi"))
		c.expect("text hi")
	}
	_ = w.SetDeadline(time.Time{})
	return w
}

// askOnce connects and gets one echo.
func askOnce(t *testing.T, addr string) net.Conn {
	conn, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, hello+masked(ws.OpText, "hi")); err != nil {
		t.Fatal(err)
	}
	got, buffer := []byte(nil), make([]byte, 512)
	for !bytes.HasSuffix(got, []byte("\r\n\r\n\x81\x02hi")) {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buffer[:n]...)
	}
	return conn
}

// serveIdle is the server of TestIdleMemory. It prints its address, and its private memory
// after each line of input.
func serveIdle(t *testing.T, kind string) {
	debug.SetGCPercent(50)
	var g Group
	e := &Endpoint{OnMessage: echoMessage}
	if kind == "room" {
		e.OnOpen = g.Add
	}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		switch kind {
		case "state", "room":
			_ = e.Upgrade(ctx, &struct{ id uint64 }{ctx.ConnID()})
		case "accept":
			_ = e.Accept(ctx, func(c *Conn) error {
				for {
					m, err := c.Read(context.Background()) // one that can end costs 167 bytes more
					if err != nil {
						return err
					}
					_ = c.TryWrite(m.Kind, m.Data)
				}
			})
		default:
			_ = e.Upgrade(ctx, nil)
		}
	}}
	switch kind {
	case "deflate":
		e.Compression = CompressionShared
	case "takeover", "takeover, large window":
		e.Compression = CompressionTakeover
	case "perconn":
		s.Engine = sluice.EnginePerConn
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(ln) }()
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		for lentBuffers(s) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		fmt.Println(nettest.FreedMemory(t))
	}
}

// lentBuffers returns how many buffers the connections hold.
func lentBuffers(s *sluice.Server) (n int) {
	for _, loop := range s.EngineStats().Loops {
		n += loop.Buffers
	}
	return n
}
