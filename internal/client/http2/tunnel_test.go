package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

func newConnect() *testRequest {
	r := newRequest("CONNECT", "")
	r.connect, r.streams, r.stream.IsConnect = "websocket", true, true
	return r
}

// admits are the SETTINGS of a peer that admits extended CONNECT.
func admits(window uint32) []byte {
	return settings(func(s *h2.Settings) { s.EnableConnectProtocol, s.InitialWindowSize = true, window })
}

// openTunnel returns a connection with a tunnel, whose peer has a stream window.
func openTunnel(t *testing.T, cfg Config, window uint32) (*Conn, *fakePeer, *Tunnel) {
	t.Helper()
	c, p := newPair(t, cfg, nil)
	r := newConnect()
	done := do(c, r)
	p.send(admits(window), h2.AppendSettingsAck(nil))
	if line := p.await("1 CONNECT"); line != "1 CONNECT /" {
		t.Errorf("the client has sent %q", line)
	}
	p.send(p.respond(1, 200, false))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return c, p, r.stream.Tunnel()
}

// onTunnel runs a test with a tunnel whose peer has a window of 64 KiB.
func onTunnel(t *testing.T, test func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel)) {
	synctest.Test(t, func(t *testing.T) {
		c, p, tunnel := openTunnel(t, Config{StreamWindow: 128 << 10}, 64<<10)
		defer c.Close()
		test(t, c, p, tunnel)
	})
}

// content waits until n bytes of stream 1 have come to the peer.
func (p *fakePeer) content(n int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.data[1]) < n {
		p.changed.Wait()
	}
	return p.data[1]
}

// started runs f, and returns when it waits; result waits for its results.
func started(f func([]byte) (int, error), b []byte) (result func() (int, error)) {
	type results struct {
		n   int
		err error
	}
	done := make(chan results, 1)
	go func() {
		n, err := f(b)
		done <- results{n, err}
	}()
	synctest.Wait()
	return func() (int, error) {
		r := <-done
		return r.n, r.err
	}
}

// TestConnectWaitsForSettings: nothing but the preface leaves before them.
func TestConnectWaitsForSettings(t *testing.T) {
	for name, test := range map[string]struct {
		set   func(s *Stream) (end func())
		do    func(c *Conn, p *fakePeer)
		cause error
	}{
		"admitted":     {do: func(_ *Conn, p *fakePeer) { p.send(admits(1)) }},
		"not admitted": {do: func(_ *Conn, p *fakePeer) { p.send(settings(nil)) }, cause: streams.ErrNoConnect},
		"ended":        {do: func(_ *Conn, p *fakePeer) { _ = p.conn.Close() }, cause: io.EOF},
		"drained":      {do: func(c *Conn, _ *fakePeer) { c.Drain() }, cause: ErrClosed},
		"closed":       {do: func(c *Conn, _ *fakePeer) { _ = c.Close() }, cause: ErrClosed},
		"deadline":     {set: func(s *Stream) func() { s.Deadline = in(time.Minute); return nil }, cause: errTimeout},
		"context": {set: func(s *Stream) func() {
			ctx, cancel := context.WithCancel(context.Background())
			s.Context = ctx
			return cancel
		}, cause: context.Canceled},
	} {
		for _, other := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c, p := newPair(t, Config{PingAfter: -1}, nil)
				defer c.Close()
				var first <-chan error // another request, which reads
				id := "1 "
				if other {
					first = do(c, newRequest("GET", ""))
					p.await("1 GET")
					id = "3 "
				}
				r := newConnect()
				var end func()
				if test.set != nil {
					end = test.set(&r.stream)
				}
				done := do(c, r)
				synctest.Wait()
				for _, line := range p.seen() {
					if strings.Contains(line, "CONNECT") {
						t.Errorf("%s: before SETTINGS: %s", name, line)
					}
				}
				if test.do != nil {
					test.do(c, p)
				}
				if end != nil {
					end()
				}
				if test.cause == nil {
					p.await(id + "CONNECT")
					_ = c.Close()
					<-done
				} else if err := <-done; true {
					wantError(t, err, Unsent, test.cause)
				}
				if len(c.awaitingSettings) > 0 {
					t.Errorf("%s: %d wait for SETTINGS", name, len(c.awaitingSettings))
				}
				_ = c.Close()
				if first != nil {
					<-first
				}
			})
		}
	}
}

// A refusal is a response with a body, which ends with Stream.Close.
func TestConnectRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		r := newConnect()
		done := do(c, r)
		p.send(admits(1))
		p.await("1 CONNECT")
		p.send(p.respond(1, 403, false), data(1, "no", false))
		if err := <-done; err != nil || r.stream.Tunnel() != nil || r.statuses[0] != 403 {
			t.Fatal(err, r)
		}
		b := make([]byte, 10)
		if n, err := r.stream.Read(b); string(b[:n]) != "no" || err != nil {
			t.Errorf("read %q, %v", b[:n], err)
		}
		_ = r.stream.Close()
		p.await("1 reset CANCEL")
	})
}

// Bytes go both ways. What is read returns its credit, also of a tunnel that is used for
// long.
func TestTunnelBothWays(t *testing.T) {
	onTunnel(t, func(t *testing.T, _ *Conn, p *fakePeer, tunnel *Tunnel) {
		block := bytes.Repeat([]byte("x"), 16<<10)
		in := make([]byte, len(block))
		total := 0
		for range 200 { // more than all windows
			p.send(data(1, string(block), false))
			if _, err := io.ReadFull(tunnel, in); err != nil || !bytes.Equal(in, block) {
				t.Fatal(err)
			}
			if n, err := tunnel.Write(block); n != len(block) || err != nil {
				t.Fatal(n, err)
			}
			total += len(block)
			p.content(total)
			p.send(h2.AppendWindowUpdate(nil, 0, uint32(len(block))), h2.AppendWindowUpdate(nil, 1, uint32(len(block))))
		}
		_ = tunnel.Close()
		p.await("1 data")
		p.await("1 reset CANCEL")
	})
}

// A peer may return the credit of each small frame at once, for as long as the tunnel lives.
func TestTunnelSmallUpdates(t *testing.T) {
	onTunnel(t, func(t *testing.T, _ *Conn, p *fakePeer, tunnel *Tunnel) {
		in := make([]byte, 1)
		for i := range 5000 {
			if _, err := tunnel.Write([]byte("x")); err != nil {
				t.Fatal(i, err)
			}
			p.content(i + 1)
			p.send(h2.AppendWindowUpdate(nil, 0, 1), h2.AppendWindowUpdate(nil, 1, 1), data(1, "y", false))
			if _, err := tunnel.Read(in); err != nil {
				t.Fatal(i, err)
			}
		}
		_ = tunnel.Close()
	})
}

// TestTunnelWriteWaits: for the window, also while no Read runs; other requests go on.
func TestTunnelWriteWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, tunnel := openTunnel(t, Config{}, 10)
		defer c.Close()
		written := started(tunnel.Write, []byte("0123456789abcdefghij"))
		if got := string(p.content(10)); got != "0123456789" {
			t.Errorf("beyond the window: %q", got)
		}
		other := do(c, newRequest("GET", ""))
		p.await("3 GET")
		p.send(p.respond(3, 200, true))
		if err := <-other; err != nil {
			t.Error(err)
		}
		p.send(h2.AppendWindowUpdate(nil, 1, 4))
		p.content(14)
		_ = tunnel.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := written(); n != 14 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d, %v", n, err)
		}
		_ = tunnel.SetWriteDeadline(time.Time{})
		p.send(h2.AppendWindowUpdate(nil, 1, 1000))
		if n, err := tunnel.Write([]byte("k")); n != 1 || err != nil {
			t.Error(n, err)
		}
		if got := string(p.content(15)); got != "0123456789abcdk" {
			t.Errorf("got %q", got)
		}
		_ = tunnel.Close()
	})
}

// TestTunnelDeadlines: they end a Read, which then can be called again: of the goroutine
// that reads for all, and of another one.
func TestTunnelDeadlines(t *testing.T) {
	for _, follows := range []bool{false, true} {
		onTunnel(t, func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			var other <-chan error
			if follows {
				other = do(c, newRequest("GET", ""))
				p.await("3 GET")
			}
			b := make([]byte, 10)
			for _, after := range []time.Duration{time.Second, 0, -time.Hour, 100 * time.Hour} {
				_ = tunnel.SetReadDeadline(time.Now().Add(time.Minute))
				read := started(tunnel.Read, b)
				_ = tunnel.SetReadDeadline(time.Now().Add(after)) // sooner or later
				began := time.Now()
				if after > time.Hour {
					p.send(data(1, "late", false))
					if n, err := read(); string(b[:n]) != "late" || err != nil {
						t.Errorf("read %q, %v", b[:n], err)
					}
					continue
				}
				if _, err := read(); err != os.ErrDeadlineExceeded || time.Since(began) > max(after, 0)+time.Millisecond {
					t.Errorf("%v after %v, want %v", err, time.Since(began), after)
				}
				p.send(data(1, "x", false))
				if _, err := tunnel.Read(b); err != os.ErrDeadlineExceeded {
					t.Errorf("after the deadline: %v", err)
				}
				_ = tunnel.SetReadDeadline(time.Time{})
				if n, err := tunnel.Read(b); n != 1 || err != nil {
					t.Errorf("without a deadline: %d, %v", n, err)
				}
			}
			_ = tunnel.Close()
			_ = c.Close()
			if other != nil {
				<-other
			}
		})
	}
}

// TestTunnelEnds: how each side ends a tunnel, and what the other one sees.
//
// long: a table of cases
func TestTunnelEnds(t *testing.T) {
	var b [10]byte
	read := func(t *testing.T, tunnel *Tunnel, want error) {
		t.Helper()
		if n, err := tunnel.Read(b[:]); n != 0 || !errors.Is(err, want) {
			t.Errorf("Read: %d, %v; want %v", n, err, want)
		}
	}
	write := func(t *testing.T, tunnel *Tunnel, want error) {
		t.Helper()
		if _, err := tunnel.Write(b[:]); !errors.Is(err, want) {
			t.Errorf("Write: %v; want %v", err, want)
		}
	}
	for name, test := range map[string]func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel){
		"peer first": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			p.send(data(1, "last", true))
			if n, _ := tunnel.Read(b[:]); string(b[:n]) != "last" {
				t.Errorf("%q", b[:n])
			}
			read(t, tunnel, io.EOF)
			write(t, tunnel, nil)
			_ = tunnel.Close()
			p.await("1 data 10 end")
			if lines := p.seen(); len(lines) > 0 {
				t.Errorf("after the end: %q", lines)
			}
		},
		"with the head": func(t *testing.T, c *Conn, p *fakePeer, _ *Tunnel) {
			r := newConnect()
			done := do(c, r)
			p.await("3 CONNECT")
			p.send(p.respond(3, 200, true))
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			tunnel := r.stream.Tunnel()
			read(t, tunnel, io.EOF)
			_ = tunnel.Close()
			p.await("3 data 0 end")
		},
		"CloseWrite": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			if err := tunnel.CloseWrite(); err != nil {
				t.Error(err)
			}
			p.await("1 data 0 end")
			write(t, tunnel, net.ErrClosed)
			p.send(data(1, "last", false), p.respond(1, 0, true, "x-t", "v"))
			if n, _ := tunnel.Read(b[:]); string(b[:n]) != "last" {
				t.Errorf("%q", b[:n])
			}
			read(t, tunnel, io.EOF)
			if err := tunnel.CloseWrite(); err != net.ErrClosed {
				t.Error(err)
			}
		},
		"closed while it is used": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			reading, writing := started(tunnel.Read, b[:]), started(tunnel.Write, make([]byte, 100<<10))
			_ = tunnel.Close()
			if _, err := reading(); err != net.ErrClosed {
				t.Error(err)
			}
			if n, err := writing(); err != net.ErrClosed || n != 64<<10-1 && n != 64<<10 {
				t.Error(n, err)
			}
			p.await("1 reset CANCEL")
			read(t, tunnel, net.ErrClosed)
			write(t, tunnel, net.ErrClosed)
			if tunnel.Close() != net.ErrClosed || tunnel.SetDeadline(time.Time{}) == nil {
				t.Error("it is not closed")
			}
		},
		"reset": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			reading, writing := started(tunnel.Read, b[:]), started(tunnel.Write, make([]byte, 100<<10))
			p.send(h2.AppendReset(nil, 1, h2.CodeCancel))
			if _, err := reading(); !errors.Is(err, ErrReset) {
				t.Error(err)
			}
			if _, err := writing(); !errors.Is(err, ErrReset) {
				t.Error(err)
			}
		},
		"connection": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			reading := started(tunnel.Read, b[:])
			_ = p.conn.Close()
			if _, err := reading(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
			write(t, tunnel, io.ErrUnexpectedEOF)
		},
		"data after the end": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			p.send(data(1, "", true), data(1, "x", false))
			read(t, tunnel, io.EOF)
			go tunnel.Read(b[:])
			_ = do(c, newRequest("GET", "")) // it reads
			p.await("1 reset STREAM_CLOSED")
			_ = c.Close()
		},
		"fields after the end": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			p.send(data(1, "", true), p.respond(1, 0, true, "x", "y"))
			_ = do(c, newRequest("GET", ""))
			p.await("1 reset STREAM_CLOSED")
			_ = c.Close()
		},
		"drained": func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
			c.Drain()
			p.send(data(1, "still", false))
			if n, _ := tunnel.Read(b[:]); string(b[:n]) != "still" {
				t.Errorf("%q", b[:n])
			}
			_ = tunnel.Close()
			p.awaitEnd()
		},
	} {
		t.Run(name, func(t *testing.T) {
			onTunnel(t, func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
				test(t, c, p, tunnel)
				_ = tunnel.Close()
				if n := c.Streams(); n != 0 {
					t.Errorf("%d streams remain", n)
				}
			})
		})
	}
}

// The Context, Deadline and time-outs are those of the CONNECT. The connection is tested
// with PINGs while a tunnel is silent.
func TestTunnelIsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := newPair(t, Config{}, nil)
		defer c.Close()
		ctx, cancel := context.WithCancel(t.Context())
		r := newConnect()
		s := &r.stream
		s.Context, s.Deadline, s.WriteTimeout, s.ReadTimeout = ctx, in(time.Minute), time.Second, time.Second
		done := do(c, r)
		p.send(admits(1 << 16))
		p.await("1 CONNECT")
		p.send(p.respond(1, 200, false))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		cancel()
		tunnel := s.Tunnel()
		b := make([]byte, 10)
		reading := started(tunnel.Read, b)
		for range 10 {
			p.await("ping")
			p.send(h2.AppendPing(nil, healthPing, true))
		}
		p.send(data(1, "x", false))
		if n, err := reading(); n != 1 || err != nil {
			t.Error(n, err)
		}
		// Another Read finds the peer dead.
		if _, err := tunnel.Read(b); !errors.Is(err, ErrNoPing) {
			t.Error(err)
		}
	})
}

// Input that is not read is bounded by the window.
func TestTunnelHoldsAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, tunnel := openTunnel(t, Config{StreamWindow: 64 << 10}, 1)
		defer c.Close()
		for range 4 {
			p.send(data(1, strings.Repeat("x", 16<<10), false))
		}
		p.send(data(1, "x", false))
		other := do(c, newRequest("GET", ""))
		p.await("1 reset FLOW_CONTROL_ERROR")
		if n := len(tunnel.stream.inbox); n != 64<<10 {
			t.Errorf("%d bytes are held", n)
		}
		_ = c.Close()
		<-other
	})
}

// A deadline loses nothing that has come. A tunnel that waits keeps little memory, and none
// after a deadline.
func TestTunnelMemory(t *testing.T) {
	onTunnel(t, func(t *testing.T, c *Conn, p *fakePeer, tunnel *Tunnel) {
		s := tunnel.stream
		held := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return cap(s.inbox)
		}
		other := do(c, newRequest("GET", "")) // it reads
		p.await("3 GET")
		for range 4 {
			p.send(data(1, strings.Repeat("x", 16<<10), false))
		}
		p.send(data(1, "y", false))
		synctest.Wait()
		_ = tunnel.SetReadDeadline(time.Unix(1, 0))
		all := make([]byte, 64<<10+1)
		if n, err := tunnel.Read(all); n != 0 || err != os.ErrDeadlineExceeded {
			t.Errorf("%d, %v", n, err)
		}
		_ = tunnel.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := tunnel.Read(nil); n != 0 || err != nil {
			t.Errorf("of nothing: %d, %v", n, err)
		}
		if _, err := io.ReadFull(tunnel, all); err != nil || all[64<<10] != 'y' {
			t.Errorf("%q, %v", all[64<<10], err)
		}
		waiting := started(tunnel.Read, all)
		if n := held(); n > keptInbox {
			t.Errorf("a Read that waits holds %d bytes", n)
		}
		p.send(data(1, "z", false))
		if n, err := waiting(); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n, err := tunnel.Read(all); n != 0 || err != os.ErrDeadlineExceeded || held() != 0 {
			t.Errorf("%d, %v; %d bytes are held", n, err, held())
		}
		_ = c.Close()
		<-other
	})
}

// A long Write returns when all is on its way, although nothing comes from the peer.
func TestTunnelLongWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p, tunnel := openTunnel(t, Config{PingAfter: -1}, 1<<20)
		defer c.Close()
		p.send(h2.AppendWindowUpdate(nil, 0, 1<<20))
		for i := range 10 {
			if n, err := tunnel.Write(make([]byte, 100_000)); n != 100_000 || err != nil {
				t.Fatal(n, err)
			}
			p.content((i + 1) * 100_000)
		}
		_ = tunnel.Close()
	})
}

// TestTunnelResetAtOnce: a peer that accepts, sends and resets in one go has accepted, as if the
// reset came later.
func TestTunnelResetAtOnce(t *testing.T) {
	for _, isWhole := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, p := newPair(t, Config{}, nil)
			defer c.Close()
			r := newConnect()
			done := do(c, r)
			p.send(admits(64<<10), h2.AppendSettingsAck(nil))
			p.await("1 CONNECT")
			p.send(slices.Concat(p.respond(1, 200, false), data(1, "bye", isWhole), h2.AppendReset(nil, 1, h2.CodeCancel)))
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			tunnel := r.stream.Tunnel()
			got, err := io.ReadAll(tunnel)
			if string(got) != "bye" || isWhole != (err == nil) || !isWhole && !errors.Is(err, ErrReset) {
				t.Errorf("%q, %v", got, err)
			}
			if _, err := tunnel.Write([]byte("x")); !errors.Is(err, ErrReset) {
				t.Errorf("Write: %v", err)
			}
			if err := tunnel.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
