package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

var connect = fieldlist.RequestFields{Method: []byte("CONNECT"), Scheme: []byte("http"), Authority: []byte("a"), Path: []byte("/"), Protocol: []byte("websocket")}

func tunnelConfig() *Config {
	cfg := testConfig()
	cfg.Settings.EnableConnectProtocol = true
	return cfg
}

// newTunnel opens a tunnel on stream 1 that outlives its Task.
func newTunnel(t *testing.T, cfg *Config) (*fakeEngine, *Tunnel) {
	e := newEngine(t, cfg)
	tunnel := e.tunnel(1)
	e.runTasks()
	if got := e.peer.took(); got != "HEADERS 1 200" {
		t.Fatalf("got %q", got)
	}
	return e, tunnel
}

// tunnel asks for a tunnel, and begins to serve it.
func (e *fakeEngine) tunnel(stream uint32) (tunnel *Tunnel) {
	e.isStreamed = always
	e.handler = func(r *testRequest) {
		tunnel = r.exchange.openTunnel().Tunnel.(*Tunnel)
		if !tunnel.SendHead(fields{status: 200}, false, false) {
			e.t.Error("the head cannot be sent")
		}
		r.outcome = server.OutcomeHijack
	}
	e.feed(e.peer.request(nil, stream, connect, false))
	e.runTask()
	return tunnel
}

// TestTunnel: what the peer sends is read, what is written arrives, and the end of each
// side is that of the other.
func TestTunnel(t *testing.T) {
	e, tunnel := newTunnel(t, tunnelConfig())
	e.feed(append(h2.AppendDataHead(nil, 1, 5, false), "hello"...))
	p := make([]byte, 3)
	for _, want := range []string{"hel", "lo"} {
		if n, err := tunnel.Read(p); string(p[:n]) != want || err != nil {
			t.Fatalf("read %q, %v", p[:n], err)
		}
	}
	if n, err := tunnel.Write([]byte("world!")); n != 6 || err != nil {
		t.Fatal(n, err)
	}
	e.pump()
	e.feed(data(nil, 1, 0, true))
	if _, err := tunnel.Read(p); err != io.EOF {
		t.Fatal(err)
	}
	if err := tunnel.Close(); err != nil {
		t.Fatal(err)
	}
	e.pump()
	if got := e.peer.took(); got != "DATA 1 6, DATA 1 0 END" {
		t.Fatalf("got %q", got)
	}
	e.checkEnded()
}

// TestTunnelEnds: Close, and what ends a tunnel from outside. After it, all methods fail.
//
// long: a table
func TestTunnelEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(e *fakeEngine, tunnel *Tunnel)
		want string
		err  error
	}{
		{"Close", func(_ *fakeEngine, tunnel *Tunnel) { tunnel.Close() }, "DATA 1 0 END, RST_STREAM 1 NO_ERROR", net.ErrClosed},
		{"Close after a write", func(_ *fakeEngine, tunnel *Tunnel) {
			_, _ = tunnel.Write(make([]byte, 10))
			tunnel.Close()
		}, "DATA 1 10 END, RST_STREAM 1 NO_ERROR", net.ErrClosed},
		{"Close with input", func(e *fakeEngine, tunnel *Tunnel) {
			e.feed(data(nil, 1, 10, false))
			tunnel.Close()
			e.feed(data(nil, 1, 10, false))
		}, "DATA 1 0 END, RST_STREAM 1 NO_ERROR", net.ErrClosed},
		{"Abort", func(_ *fakeEngine, tunnel *Tunnel) { tunnel.Abort() }, "RST_STREAM 1 INTERNAL_ERROR", net.ErrClosed},
		{"RST_STREAM", func(e *fakeEngine, _ *Tunnel) { e.feed(h2.AppendReset(nil, 1, h2.CodeCancel)) }, "", syscall.ECONNRESET},
		{"the connection ends", func(e *fakeEngine, _ *Tunnel) { e.close() }, "", syscall.ECONNRESET},
		{"the connection fails", func(e *fakeEngine, _ *Tunnel) { e.feed(h2.AppendWindowUpdate(nil, 0, 0)) }, "GOAWAY 1 PROTOCOL_ERROR", syscall.ECONNRESET},
		{"a trailer section", func(e *fakeEngine, _ *Tunnel) { e.feed(e.peer.trailer(nil, 1, true)) }, "RST_STREAM 1 PROTOCOL_ERROR", syscall.ECONNRESET},
		{"more than the window", func(e *fakeEngine, _ *Tunnel) {
			for range 4 {
				e.feed(data(nil, 1, 16<<10, false))
			}
			e.feed(data(nil, 1, 1, false))
		}, "RST_STREAM 1 FLOW_CONTROL_ERROR", syscall.ECONNRESET},
	} {
		t.Run(test.name, func(t *testing.T) {
			e, tunnel := newTunnel(t, tunnelConfig())
			test.do(e, tunnel)
			e.pump()
			if got := e.peer.took(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if _, err := tunnel.Read(make([]byte, 1)); !errors.Is(err, test.err) {
				t.Errorf("Read: %v", err)
			}
			if _, err := tunnel.Write([]byte("x")); !errors.Is(err, test.err) {
				t.Errorf("Write: %v", err)
			}
			tunnel.Close()
			if err := tunnel.Close(); err != net.ErrClosed {
				t.Errorf("Close: %v", err)
			}
			if err := tunnel.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
				t.Errorf("SetDeadline: %v", err)
			}
			if tunnel.SendHead(fields{status: 200}, false, false) {
				t.Error("a head was sent after the end")
			}
			e.checkEnded()
		})
	}
}

// TestTunnelInServe: a tunnel may be used while Serve runs. Closed without a head, it
// resets the stream; revoked, it leaves the stream to another answer.
func TestTunnelInServe(t *testing.T) {
	for want, handle := range map[string]func(r *testRequest, tunnel *Tunnel){
		"HEADERS 1 200, DATA 1 5 END": func(r *testRequest, tunnel *Tunnel) {
			tunnel.SendHead(fields{status: 200}, false, false)
			p := make([]byte, 5)
			_, _ = io.ReadFull(tunnel, p)
			_, _ = tunnel.Write(p)
			tunnel.Close()
			r.outcome = server.OutcomeHijack
		},
		"RST_STREAM 1 INTERNAL_ERROR": func(_ *testRequest, tunnel *Tunnel) { tunnel.Close() },
		"HEADERS 1 403 END": func(r *testRequest, tunnel *Tunnel) {
			tunnel.Revoke()
			r.stream.Respond(fields{status: 403}, nil)
		},
	} {
		e := newEngine(t, tunnelConfig())
		e.isStreamed = always
		e.handler = func(r *testRequest) { handle(r, r.exchange.openTunnel().Tunnel.(*Tunnel)) }
		e.feed(data(e.peer.request(nil, 1, connect, false), 1, 5, true))
		e.runTasks()
		if got := e.peer.took(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		e.checkEnded()
	}
}

// TestTunnelContent: what Serve has sent after the head went out is sent, too, when the
// tunnel outlives it.
func TestTunnelContent(t *testing.T) {
	e := newEngine(t, tunnelConfig())
	e.isStreamed = always
	e.handler = func(r *testRequest) {
		tunnel := r.exchange.openTunnel().Tunnel.(*Tunnel)
		tunnel.SendHead(fields{status: 200}, false, false)
		e.pump()
		r.stream.Send([]byte("content"))
		r.outcome = server.OutcomeHijack
	}
	e.feed(e.peer.request(nil, 1, connect, false))
	e.runTasks()
	if got := e.peer.took(); got != "HEADERS 1 200, DATA 1 7" {
		t.Errorf("got %q", got)
	}
}

// TestTunnelWindows: Read returns credit, so that the peer goes on; Write waits for the
// peer's window, and holds no more than a stream may.
func TestTunnelWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tunnel := newTunnel(t, tunnelConfig())
		for range 4 {
			e.feed(data(nil, 1, 16<<10, false))
		}
		if e.peer.credit[1] != 0 {
			t.Error("there is credit for what was not read")
		}
		if _, err := io.ReadFull(tunnel, make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if e.pump(); e.peer.credit[1] != 64<<10 {
			t.Errorf("credit of %d", e.peer.credit[1])
		}
		content, written := bytes.Repeat([]byte("x"), 200<<10), make(chan error)
		go func() {
			_, err := tunnel.Write(content)
			written <- err
		}()
		for {
			synctest.Wait()
			if e.takePrompt() {
				e.sent(e.conn.Prompted(nil))
				continue
			}
			break
		}
		if got := e.peer.data[1]; got != 65535 {
			t.Fatalf("%d bytes without a window", got)
		}
		if held := e.conn.held; held > maxHeld {
			t.Errorf("%d bytes are held", held)
		}
		e.feed(h2.AppendWindowUpdate(h2.AppendWindowUpdate(nil, 0, 1<<20), 1, 1<<20))
		for got := 0; got < len(content); got = e.peer.data[1] {
			synctest.Wait()
			e.pump()
		}
		if err := <-written; err != nil {
			t.Error(err)
		}
		tunnel.Close()
		e.pump()
		e.checkEnded()
	})
}

// TestTunnelDeadlines: a deadline ends Read and Write, also one that waits, and may be
// moved.
func TestTunnelDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tunnel := newTunnel(t, tunnelConfig())
		full := func() error {
			_, err := tunnel.Write(make([]byte, 1<<20))
			return err
		}
		read := func() error {
			_, err := tunnel.Read(make([]byte, 1))
			return err
		}
		for name, use := range map[string]struct {
			call func() error
			set  func(time.Time) error
		}{"Read": {read, tunnel.SetReadDeadline}, "Write": {full, tunnel.SetWriteDeadline}, "both": {read, tunnel.SetDeadline}} {
			ended := make(chan error, 1)
			expect := func(when string, isOver bool) {
				t.Helper()
				synctest.Wait()
				e.pump()
				synctest.Wait()
				select {
				case err := <-ended:
					if !isOver || !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("%s, %s: %v", name, when, err)
					}
				default:
					if isOver {
						t.Fatalf("%s, %s: it waits", name, when)
					}
				}
			}
			_ = use.set(time.Now().Add(-time.Second))
			ended <- use.call()
			expect("in the past", true)
			_ = use.set(time.Now().Add(time.Second))
			go func() { ended <- use.call() }()
			expect("before", false)
			e.wait(2 * time.Second)
			expect("after", true)
			_ = use.set(time.Time{})
			go func() { ended <- use.call() }()
			e.wait(10 * time.Second)
			expect("without", false)
			_ = use.set(time.Now().Add(time.Second))
			expect("moved", false)
			_ = use.set(time.Now())
			expect("now", true)
			_ = use.set(time.Now().Add(1 << 62))
			if name == "Write" {
				break
			}
		}
		tunnel.Close()
		e.wait(time.Minute)
		e.pump()
		e.checkEnded()
	})
}

// TestTunnelStalls: a peer that takes nothing gets a reset.
func TestTunnelStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tunnel := newTunnel(t, tunnelConfig())
		ended := make(chan error)
		go func() {
			_, err := tunnel.Write(make([]byte, 1<<20))
			ended <- err
		}()
		for synctest.Wait(); e.takePrompt(); synctest.Wait() {
			e.sent(e.conn.Prompted(nil))
		}
		e.peer.took()
		e.wait(31 * time.Second)
		if got := e.peer.took(); got != "RST_STREAM 1 CANCEL" {
			t.Errorf("got %q", got)
		}
		if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		tunnel.Close()
		e.checkEnded()
	})
}

// TestTunnelsAndTheEnd: a connection that ends waits for its tunnels, unless the Host cuts
// them; it never cuts them before the requests are served.
func TestTunnelsAndTheEnd(t *testing.T) {
	for _, cuts := range []bool{false, true} {
		e, tunnel := newTunnel(t, tunnelConfig())
		e.handler = func(r *testRequest) { r.stream.Respond(fields{status: 200}, nil) }
		e.feed(e.peer.request(nil, 3, get, true))
		e.closing, e.cuts = true, cuts
		e.Prompt()
		e.pump()
		e.peer.took()
		e.feed(h2.AppendPing(nil, drainPing, true))
		if got := e.peer.took(); got != "GOAWAY 3 NO_ERROR" || e.isLast {
			t.Fatalf("got %q", got)
		}
		e.runTasks()
		want := "HEADERS 3 200 END"
		if cuts {
			want += ", RST_STREAM 1 CANCEL"
		}
		if got := e.peer.took(); got != want || e.isLast != cuts {
			t.Fatalf("got %q, the end %v", got, e.isLast)
		}
		tunnel.Close()
		e.pump()
		if !e.isLast {
			t.Error("the connection does not end with its last tunnel")
		}
		e.close()
		e.checkEnded()
	}
}

// TestTunnelClosedLate: Close may be called again when the Conn serves another connection.
func TestTunnelClosedLate(t *testing.T) {
	e, tunnel := newTunnel(t, tunnelConfig())
	tunnel.Close()
	e.pump()
	var late sync.WaitGroup
	var isOver atomic.Bool
	var closes atomic.Int64
	late.Go(func() {
		for !isOver.Load() {
			tunnel.Close()
			closes.Add(1)
		}
	})
	e.close()
	for last := closes.Load() + 1; closes.Load() <= last; {
		runtime.Gosched()
	}
	isOver.Store(true)
	late.Wait()
	e.checkEnded()
}

// TestTunnelsAreLimited: a tunnel counts as a stream until it is closed here, too.
func TestTunnelsAreLimited(t *testing.T) {
	cfg := tunnelConfig()
	cfg.Settings.MaxConcurrentStreams = 1
	e, tunnel := newTunnel(t, cfg)
	e.feed(h2.AppendReset(nil, 1, h2.CodeCancel))
	e.feed(e.peer.request(nil, 3, connect, false))
	if got := e.peer.took(); got != "RST_STREAM 3 REFUSED_STREAM" {
		t.Fatalf("got %q", got)
	}
	tunnel.Close()
	next := e.tunnel(5)
	e.pump()
	if got := e.peer.took(); got != "HEADERS 5 200" {
		t.Fatalf("got %q", got)
	}
	next.Close()
	e.pump()
	e.checkEnded()
}

// TestTunnelHeads: the head of a tunnel that outlives its Task does not count: it is kept no
// longer.
func TestTunnelHeads(t *testing.T) {
	cfg := tunnelConfig()
	cfg.MaxHeads = 100
	e := newEngine(t, cfg)
	for stream := uint32(1); stream < 20; stream += 2 {
		tunnel := e.tunnel(stream)
		e.runTasks()
		if got, want := e.peer.took(), fmt.Sprintf("HEADERS %d 200", stream); got != want || e.conn.heads != 0 {
			t.Fatalf("got %q, want %q; %d bytes of heads", got, want, e.conn.heads)
		}
		defer tunnel.Close()
	}
}

// TestConnectIsOffered: without the setting, :protocol resets the stream (RFC 8441 section
// 3); the setting survives a move to a server that does not have it.
func TestConnectIsOffered(t *testing.T) {
	e := newEngine(t, testConfig())
	e.feed(e.peer.request(nil, 1, connect, false))
	if got := e.peer.took(); got != "RST_STREAM 1 PROTOCOL_ERROR" {
		t.Errorf("got %q", got)
	}
	e = newEngine(t, tunnelConfig())
	e.cfg = testConfig()
	e.move()
	tunnel := e.tunnel(1)
	tunnel.Close()
	e.pump()
	e.close()
	e.checkEnded()
}

// TestTunnelMessages: a peer that returns the credit of each small message does not use its
// budget up, and an idle tunnel holds no buffer.
func TestTunnelMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, tunnel := newTunnel(t, tunnelConfig())
		e.peer.isQuiet = true
		p := make([]byte, 100)
		in := h2.AppendWindowUpdate(h2.AppendWindowUpdate(nil, 0, 10), 1, 10)
		in = data(in, 1, 10, false)
		for i := range 10000 {
			e.feed(in)
			n, err := tunnel.Read(p)
			if err == nil {
				_, err = tunnel.Write(p[:n])
			}
			if e.pump(); err != nil || n != 10 || e.isLast {
				t.Fatalf("after %d messages: %d, %v", i, n, err)
			}
		}
		for s := range e.conn.streams.each() {
			if cap(s.inbox)+cap(s.held) > 0 {
				t.Errorf("the tunnel holds %d and %d bytes", cap(s.inbox), cap(s.held))
			}
		}
		tunnel.Close()
		e.pump()
		e.checkEnded()
	})
}
