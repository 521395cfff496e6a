package server_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
)

// meterWords is a Meter with words of its own.
type meterWords struct {
	meter                         sluice.Meter
	accepted, done, read, written atomic.Uint64
	status                        [5]atomic.Uint64
	refused, timedOut             atomic.Uint64
	latencies                     atomic.Uint64 // calls of Latency
	slowest                       atomic.Int64  // nanoseconds
}

// metered returns s, which counts in m.
func metered(m *sluice.Meter, s *sluice.Server) *sluice.Server {
	s.Control().Meter = m
	return s
}

func newMeter() *meterWords {
	w := &meterWords{}
	w.meter.Accepted, w.meter.Done, w.meter.BytesRead, w.meter.BytesWritten = &w.accepted, &w.done, &w.read, &w.written
	for i := range w.status {
		w.meter.Status[i] = &w.status[i]
	}
	w.meter.Refused, w.meter.TimedOut = &w.refused, &w.timedOut
	w.meter.Latency = func(_ *sluice.RequestCtx, d time.Duration) {
		w.latencies.Add(1)
		w.slowest.Store(max(w.slowest.Load(), int64(d)))
	}
	return w
}

func (w *meterWords) statuses() (all [5]uint64) {
	for i := range w.status {
		all[i] = w.status[i].Load()
	}
	return all
}

// checkTimes compares how many latencies and time-outs were counted. Hijack handlers that
// answer by themselves have no latency.
func (w *meterWords) checkTimes(t *testing.T, latencies, timedOut uint64) {
	t.Helper()
	if got := w.latencies.Load(); got != latencies {
		t.Errorf("%d latencies, want %d", got, latencies)
	}
	if got := w.timedOut.Load(); got != timedOut {
		t.Errorf("%d timed out, want %d", got, timedOut)
	}
}

// meteredHandler does what its path says.
func meteredHandler(file string) sluice.RequestHandler {
	return func(ctx *sluice.RequestCtx) {
		switch string(ctx.Path()) {
		case "/missing":
			ctx.NotFound()
		case "/moved":
			ctx.Redirect("/", sluice.StatusFound)
		case "/panic":
			panic("on purpose")
		case "/abort":
			panic(sluice.ErrAbortHandler)
		case "/large":
			ctx.SetBodyString(strings.Repeat("x", 100<<10))
		case "/stream":
			ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
				for range 3 {
					w.WriteString(strings.Repeat("y", 10<<10))
					w.Flush()
				}
			})
		case "/flush":
			ctx.WriteString("first ")
			if ctx.Flush() == nil {
				ctx.WriteString("second")
			}
		case "/file":
			f, err := os.Open(file)
			if err != nil {
				panic(err)
			}
			ctx.SetBodyStream(f, fileSize)
		case "/hijack":
			ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		case "/silent":
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {})
		case "/timeout":
			ctx.TimeoutError("too slow")
		case "/body":
			body, _ := io.ReadAll(ctx.RequestBodyStream())
			ctx.Write(body)
		default:
			ctx.WriteString("ok")
		}
	}
}

const fileSize = 50 << 10

// TestMeter compares what a server counts with what its client sees.
func TestMeter(t *testing.T) {
	const chunked = "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, fileSize), 0o600); err != nil {
		t.Fatal(err)
	}
	last := harness.Closing("/")
	tests := []struct {
		name, script string
		status       [5]uint64
		streams      bool
	}{
		{"one", last, [5]uint64{1: 1}, false},
		{"nothing", "", [5]uint64{}, false},
		{"classes", harness.Get("/missing") + harness.Get("/moved") + harness.Get("/panic"), [5]uint64{2: 1, 3: 1, 4: 1}, false},
		{"pipelined", strings.Repeat(harness.Get("/"), 20) + last, [5]uint64{1: 21}, false},
		{"large", harness.Get("/") + harness.Get("/large") + harness.Get("/") + last, [5]uint64{1: 4}, false},
		{"stream", harness.Get("/") + harness.Get("/stream") + last, [5]uint64{1: 3}, false},
		{"flush", harness.Get("/") + harness.Get("/flush") + last, [5]uint64{1: 3}, false},
		{"file", harness.Get("/") + harness.Get("/file") + harness.Get("/") + last, [5]uint64{1: 4}, false},
		{"time-out", harness.Get("/timeout") + last, [5]uint64{1: 1, 3: 1}, false},
		{"abort", harness.Get("/") + harness.Get("/abort"), [5]uint64{1: 1}, false},
		{"body", harness.Post("/", "hello") + last, [5]uint64{1: 2}, false},
		{"continue", harness.Post("/", "hello", "Expect: 100-continue") + last, [5]uint64{1: 2}, false},
		{"body stream", harness.Post("/body", strings.Repeat("z", 100<<10)) + last, [5]uint64{1: 2}, true},
		{"chunked stream", harness.Request("POST /body HTTP/1.1", "Transfer-Encoding: chunked") + chunked + last, [5]uint64{1: 2}, true},
		{"unread stream", harness.Request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + chunked + last, [5]uint64{1: 2}, true},
		{"hijack", harness.Get("/hijack"), [5]uint64{1: 1}, false},
		{"hijack without response", harness.Get("/silent"), [5]uint64{1}, false},
	}
	for _, n := range harness.OverTCPByEach() {
		for _, test := range tests {
			t.Run(n.Name+"/"+test.name, func(t *testing.T) {
				words := newMeter()
				r := harness.Serve(t, n, metered(&words.meter, &sluice.Server{Handler: meteredHandler(file), StreamRequestBody: test.streams}))
				p := r.Dial()
				go func() {
					_, _ = io.WriteString(p.Conn, test.script)
					_ = p.Conn.(*net.TCPConn).CloseWrite()
				}()
				got := p.Rest()
				harness.Eventually(t, "done", func() bool { return words.done.Load() == 1 })
				if n := words.accepted.Load(); n != 1 {
					t.Errorf("%d accepted", n)
				}
				if all := words.statuses(); all != test.status {
					t.Errorf("statuses %v, want %v", all, test.status)
				}
				var sum uint64
				for _, n := range test.status {
					sum += n
				}
				if n := words.meter.Requests(); n != sum || words.meter.InFlight() != 0 {
					t.Errorf("%d requests, %d in flight; want %d and none", n, words.meter.InFlight(), sum)
				}
				words.checkTimes(t, sum-test.status[0], uint64(strings.Count(test.script, "/timeout")))
				if n := words.read.Load(); n != uint64(len(test.script)) {
					t.Errorf("%d bytes read, want %d", n, len(test.script))
				}
				// What an aborted connection had to write is not written.
				if n := words.written.Load(); n != uint64(len(got)) && test.name != "abort" {
					t.Errorf("%d bytes written, want %d", n, len(got))
				}
			})
		}
	}
}

// TestMeterConnections: refused ones count, and those that leave count as done.
func TestMeterConnections(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			words := newMeter()
			r := harness.Serve(t, n, metered(&words.meter, &sluice.Server{Handler: meteredHandler(""), Concurrency: 1}))
			expect := func(accepted, done uint64) {
				t.Helper()
				harness.Eventually(t, "connections are counted", func() bool {
					return words.accepted.Load() == accepted && words.done.Load() == done
				})
			}
			p := r.Dial()
			p.Get("/")
			expect(1, 0)
			if status := r.ConnectAndGet(); status != sluice.StatusServiceUnavailable {
				t.Errorf("one too many gets %d", status)
			}
			expect(2, 1)
			if n := words.refused.Load(); n != 1 {
				t.Errorf("%d refused", n)
			}
			var given net.Conn
			harness.Eventually(t, "given away", func() bool {
				return r.Server.Control().HandOver(-1, func(c net.Conn, _ sluice.Parcel) { given = c }) == 1
			})
			expect(2, 2)
			if err := r.Server.Control().AdoptConn(given, sluice.Parcel{}); err != nil {
				t.Fatal(err)
			}
			p.Send(harness.Get("/hijack"))
			p.Answer("GET")
			expect(3, 2) // a hijacked connection is in the process's hands
			p.Close()
			expect(3, 3)
			end, client := net.Pipe()
			client.Close()
			if err := r.Server.ServeConn(end); err != nil && !errors.Is(err, io.EOF) {
				t.Errorf("ServeConn: %v", err)
			}
			expect(4, 4)
		})
	}
}

// TestMeterLatency: it begins with the first byte and ends with the handler, before the body.
func TestMeterLatency(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			words := newMeter()
			leave := make(chan bool)
			r := harness.Serve(t, n, metered(&words.meter, &sluice.Server{ReadTimeout: 50 * time.Millisecond, Handler: func(ctx *sluice.RequestCtx) {
				<-leave
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) { <-leave })
			}}))
			p := r.Dial()
			begin := time.Now()
			p.Send(harness.Get("/"))
			harness.Eventually(t, "in flight", func() bool { return words.meter.InFlight() == 1 })
			if n := words.latencies.Load(); n != 0 {
				t.Errorf("%d latencies while the handler runs", n)
			}
			leave <- true
			harness.Eventually(t, "measured", func() bool { return words.latencies.Load() == 1 })
			if most := time.Since(begin); words.slowest.Load() > int64(most) {
				t.Errorf("%v, and it is %v since the request was sent", time.Duration(words.slowest.Load()), most)
			}
			leave <- true
			p.Answer("GET")
			p.Send("GET / HT") // and no more
			if got := p.Answer("GET"); got.StatusCode != sluice.StatusRequestTimeout {
				t.Errorf("got %d", got.StatusCode)
			}
			if n := words.timedOut.Load(); n != 1 {
				t.Errorf("%d timed out", n)
			}
			if slowest := time.Duration(words.slowest.Load()); slowest < 50*time.Millisecond { // the request that did not arrive
				t.Errorf("the slowest took %v", slowest)
			}
		})
	}
}

// TestMeterInFlight: requests are in flight from their end until their response
// is complete.
func TestMeterInFlight(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			words := newMeter()
			m := &words.meter
			leave := make(chan bool)
			r := harness.Serve(t, n, metered(m, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
				ctx.SetBodyStreamWriter(func(w *bufio.Writer) { <-leave })
			}}))
			if count, oldest := m.InFlight(), m.Oldest(time.Now()); count != 0 || !oldest.IsZero() {
				t.Errorf("%d in flight since %v before there is any", count, oldest)
			}
			begin := time.Now()
			for range 3 {
				p := r.Dial()
				p.Send(harness.Get("/")[:10]) // it does not count before it is there
				p.Send(harness.Get("/")[10:])
			}
			harness.Eventually(t, "in flight", func() bool { return m.InFlight() == 3 })
			now := time.Now()
			if oldest := m.Oldest(now); oldest.Before(begin.Add(-2*time.Second)) || oldest.After(now) {
				t.Errorf("the oldest is %v old, want %v at most", now.Sub(oldest), now.Sub(begin)+time.Second)
			}
			for i := range 3 {
				leave <- true
				harness.Eventually(t, "one less", func() bool { return m.InFlight() == 2-i })
			}
			if oldest := m.Oldest(time.Now()); !oldest.IsZero() {
				t.Errorf("the oldest is of %v when there is none", oldest)
			}
		})
	}
}

// TestMeterOfABodyThatIsLeft: a request whose long body nobody reads is over
// with its answer, though its connection lingers.
func TestMeterOfABodyThatIsLeft(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			words := newMeter()
			r := harness.Serve(t, n, metered(&words.meter, &sluice.Server{StreamRequestBody: true, Handler: func(*sluice.RequestCtx) {}}))
			p := r.Dial()
			p.Send(harness.Request("POST / HTTP/1.1", "Content-Length: 100000000") + "some of it")
			harness.Eventually(t, "answered", func() bool { return words.meter.Requests() == 1 })
			harness.Eventually(t, "over", func() bool { return words.meter.InFlight() == 0 })
			if got := p.Rest(); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestMeterBeginsWithTheEndOfARequest: what a request takes to arrive is not
// the server's time.
func TestMeterBeginsWithTheEndOfARequest(t *testing.T) {
	for name, pieces := range map[string][]string{
		"head":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Le", "ngth: 4\r\n\r\nbody"},
		"body":    {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo", "dy"},
		"chunks":  {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbo", "dy\r\n0\r\n\r\n"},
		"trailer": {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: 1\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				words := newMeter()
				leave := make(chan bool)
				s := metered(&words.meter, &sluice.Server{Handler: func(*sluice.RequestCtx) { <-leave }})
				client, server := net.Pipe()
				served := make(chan error, 1)
				go func() { served <- s.ServeConn(server) }()
				for i, piece := range pieces {
					if i > 0 {
						time.Sleep(10 * time.Second)
					}
					_, _ = io.WriteString(client, piece)
				}
				synctest.Wait()
				now := time.Now()
				if oldest := words.meter.Oldest(now); now.Sub(oldest) > 2*time.Second {
					t.Errorf("in flight since %v, now it is %v", oldest, now)
				}
				close(leave)
				go func() { _, _ = io.Copy(io.Discard, client) }()
				synctest.Wait()
				client.Close()
				<-served
			})
		})
	}
}
