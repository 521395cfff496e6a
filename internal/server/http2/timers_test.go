package http2

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestTimeouts: what the Conn does when the peer does not go on.
//
// long: a table
func TestTimeouts(t *testing.T) {
	for _, test := range []struct {
		name string
		cfg  func(cfg *Config)
		do   func(e *fakeEngine)
		wait time.Duration // until just before the time-out
		want string        // a moment later
		ends bool
	}{
		{"nothing was asked for", nil, func(*fakeEngine) {}, time.Minute, "GOAWAY 0 NO_ERROR", true},
		{"idle", nil, func(e *fakeEngine) {
			e.feed(e.peer.request(nil, 1, get, true))
			e.runTasks()
			e.peer.took()
		}, time.Minute, "GOAWAY 1 NO_ERROR", true},
		{"idle after a reset, when the Task has ended", nil, func(e *fakeEngine) {
			e.feed(h2.AppendReset(e.peer.request(nil, 1, get, true), 1, 0))
			e.runTasks()
		}, time.Minute, "GOAWAY 1 NO_ERROR", true},
		{"idle after a refused stream", func(cfg *Config) { cfg.Settings.MaxConcurrentStreams = 0 }, func(e *fakeEngine) {
			e.feed(e.peer.request(nil, 1, get, true))
			e.peer.took()
		}, time.Minute, "GOAWAY 1 NO_ERROR", true},
		{"a field block", nil, func(e *fakeEngine) {
			in := e.peer.request(nil, 1, get, true)
			e.feed(in[:len(in)-1])
		}, 10 * time.Second, "GOAWAY 1 ENHANCE_YOUR_CALM", true},
		{"the head of a frame", nil, func(e *fakeEngine) { e.feed(h2.AppendPing(nil, [8]byte{}, false)[:1]) }, 10 * time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"a PING", nil, func(e *fakeEngine) { e.feed(h2.AppendPing(nil, [8]byte{}, false)[:12]) }, 10 * time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"a field block without a byte", nil, func(e *fakeEngine) {
			e.feed(e.peer.request(nil, 1, get, true)[:h2.FrameHeadSize])
		}, 10 * time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"debug data", nil, func(e *fakeEngine) {
			e.feed(h2.AppendGoAway(nil, 0, 0, "debug")[:h2.FrameHeadSize+9])
		}, 10 * time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"a frame after others", nil, func(e *fakeEngine) {
			in := h2.AppendPing(nil, [8]byte{}, false)
			e.feed(in[:5])
			for range 3 {
				e.wait(6 * time.Second)
				e.feed(append(in[5:len(in):len(in)], in[:5]...))
			}
			e.peer.took()
		}, 10 * time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"a field block after a slow head", nil, func(e *fakeEngine) { e.dribble(e.longRequest(true), 2) }, time.Second, "GOAWAY 1 ENHANCE_YOUR_CALM", true},
		{"CONTINUATION", nil, func(e *fakeEngine) {
			block := e.longRequest(false)[h2.FrameHeadSize:]
			in := frame(nil, 0x1, 0, 1, block[:1])
			for _, b := range block[1:] {
				in = frame(in, 0x9, 0, 1, []byte{b})
			}
			e.dribble(in, h2.FrameHeadSize+2)
		}, time.Second, "GOAWAY 1 ENHANCE_YOUR_CALM", true},
		{"padding of a field block", nil, func(e *fakeEngine) {
			block := e.longRequest(true)[h2.FrameHeadSize:]
			in := frame(nil, 0x1, 0xd, 1, append(append([]byte{30}, block...), make([]byte, 30)...))
			e.feed(in[:len(in)-31])
			e.peer.took()
			e.dribble(in[len(in)-31:], 2)
		}, time.Second, "GOAWAY 1 ENHANCE_YOUR_CALM", true},
		{"SETTINGS", nil, func(e *fakeEngine) {
			values := make([]uint32, 40)
			for i := range values {
				values[i] = uint32(h2.SettingMaxConcurrentStreams)
			}
			e.dribble(setting(nil, values...), 6)
		}, time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"a frame that is ignored", nil, func(e *fakeEngine) { e.dribble(frame(nil, 0x77, 0, 0, make([]byte, 90)), 7) }, time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"PRIORITY_UPDATE", nil, func(e *fakeEngine) {
			e.dribble(frame(nil, 0x10, 0, 0, []byte("\x00\x00\x00\x01u=1,i    ")), 2)
		}, time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"GOAWAY with debug data", nil, func(e *fakeEngine) { e.dribble(h2.AppendGoAway(nil, 0, 0, strings.Repeat("x", 90)), 10) }, time.Second, "GOAWAY 0 ENHANCE_YOUR_CALM", true},
		{"a body", nil, func(e *fakeEngine) {
			e.feed(data(e.peer.request(nil, 1, post, false), 1, 10, false))
		}, 10 * time.Second, "HEADERS 1 400 END, RST_STREAM 1 NO_ERROR", false},
		{"a body of empty frames", nil, func(e *fakeEngine) {
			e.feed(e.peer.request(nil, 1, post, false))
			for range 9 {
				e.wait(time.Second)
				e.feed(data(nil, 1, 0, false))
			}
		}, time.Second, "HEADERS 1 400 END, RST_STREAM 1 NO_ERROR", false},
		{"a window of 0", nil, func(e *fakeEngine) {
			e.handler = respondWith(100)
			e.feed(e.peer.request(setting(nil, uint32(h2.SettingInitialWindowSize), 0), 1, get, true))
			e.runTasks()
			e.peer.took()
		}, 30 * time.Second, "RST_STREAM 1 CANCEL", false},
		{"a window of 0, after a flush", nil, func(e *fakeEngine) {
			e.handler = func(r *testRequest) {
				r.stream.SendHead(fields{status: 200}, false, false)
				r.stream.Flush()
				e.pump()
				r.stream.SendLast(make([]byte, 100), nil)
			}
			e.feed(e.peer.request(setting(nil, uint32(h2.SettingInitialWindowSize), 0), 1, get, true))
			e.runTasks()
			e.peer.took()
		}, 30 * time.Second, "RST_STREAM 1 CANCEL", false},
		{"a window of 0, SetWriteTimeout", nil, func(e *fakeEngine) {
			e.handler = func(r *testRequest) {
				r.stream.SetWriteTimeout(5 * time.Second)
				r.stream.Respond(fields{status: 200}, make([]byte, 100))
			}
			e.feed(e.peer.request(setting(nil, uint32(h2.SettingInitialWindowSize), 0), 1, get, true))
			e.runTasks()
			e.peer.took()
		}, 5 * time.Second, "RST_STREAM 1 CANCEL", false},
		{"the connection's window", nil, func(e *fakeEngine) {
			e.handler = respondWith(70 << 10)
			e.feed(h2.AppendWindowUpdate(e.peer.request(nil, 1, get, true), 1, 1<<20))
			e.runTasks()
			e.peer.took()
		}, 30 * time.Second, "RST_STREAM 1 CANCEL", false},
		{"a window of a few bytes at a time", nil, func(e *fakeEngine) {
			e.handler = respondWith(100 << 10)
			e.feed(h2.AppendWindowUpdate(e.peer.request(nil, 1, get, true), 0, 1<<20))
			e.runTasks()
			for range 29 {
				e.wait(time.Second)
				e.feed(h2.AppendWindowUpdate(nil, 1, 10))
			}
			e.peer.took()
		}, time.Second, "RST_STREAM 1 CANCEL", false},
		{"the PING of a graceful end", nil, func(e *fakeEngine) {
			e.feed(e.peer.request(nil, 1, get, true))
			e.closing = true
			e.Prompt()
			e.pump()
			e.peer.took()
		}, time.Second, "GOAWAY 1 NO_ERROR, HEADERS 1 200 END", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				if test.cfg != nil {
					test.cfg(cfg)
				}
				e := newEngine(t, cfg)
				test.do(e)
				e.wait(test.wait - time.Millisecond)
				if got := e.peer.took(); got != "" || e.isLast {
					t.Fatalf("got %q too early, last %v", got, e.isLast)
				}
				e.wait(2 * time.Millisecond)
				e.runTasks()
				if got := e.peer.took(); got != test.want || e.isLast != test.ends {
					t.Fatalf("got %q, last %v, want %q", got, e.isLast, test.want)
				}
				e.close()
				e.runTasks()
				e.checkEnded()
			})
		})
	}
}

// longRequest returns a request whose field block is not too short to come in pieces.
func (e *fakeEngine) longRequest(isLast bool) []byte {
	return e.peer.request(nil, 1, get, isLast, "x-long", strings.Repeat("~", 60))
}

// dribble feeds n bytes of in each second, for nine seconds.
func (e *fakeEngine) dribble(in []byte, n int) {
	for i := range 10 {
		if i > 0 {
			e.wait(time.Second)
		}
		e.feed(in[:n])
		in = in[n:]
	}
}

// TestSilentPeer: who sends no preface gets no GOAWAY: it may not be a client of HTTP/2.
// Who does not acknowledge SETTINGS gets one.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSilentEngine(t, testConfig())
		e.peer.took()
		e.wait(10*time.Second + time.Millisecond)
		if got := e.peer.took(); got != "" || !e.isLast {
			t.Fatalf("got %q, last %v", got, e.isLast)
		}
		e = newSilentEngine(t, testConfig())
		e.feed(prefaceAnd(h2.DefaultSettings()))
		e.peer.took()
		e.wait(30*time.Second + time.Millisecond)
		if got := e.peer.took(); got != "GOAWAY 0 SETTINGS_TIMEOUT" || !e.isLast {
			t.Fatalf("got %q, last %v", got, e.isLast)
		}
	})
}

// TestTurnIsNoStall: content that waits for its turn, because the peer reads slowly, is
// not late.
func TestTurnIsNoStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.handler = respondWith(1 << 20)
		in := h2.AppendWindowUpdate(setting(nil, uint32(h2.SettingInitialWindowSize), 1<<20), 0, 1<<24)
		in = e.peer.request(e.peer.request(in, 1, get, true), 3, get, true)
		e.feed(in)
		e.isBlocked = true // one turn at a time
		e.runTasks()
		for range 40 {
			time.Sleep(2 * time.Second)
			e.sent(e.conn.Prompted(nil))
			e.expire()
		}
		if got := e.peer.took(); strings.Contains(got, "RST_STREAM") {
			t.Fatal("a stream that waits for its turn was reset")
		}
		if e.peer.data[1] != 1<<20 || e.peer.data[3] != 1<<20 {
			t.Fatalf("sent %v", e.peer.data)
		}
	})
}

// TestPastReadDeadline: a deadline that is over ends a ReadBody that waits at once,
// without the engine.
func TestPastReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.isStreamed = always
		var err error
		e.handler = func(r *testRequest) {
			_, err = r.readAll()
			r.stream.Respond(fields{status: 200}, nil)
		}
		e.feed(e.peer.request(nil, 1, post, false))
		e.goTasks()
		synctest.Wait()
		e.streams[0].stream.SetReadDeadline(clock.Nanos()-1, 1)
		synctest.Wait()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("ReadBody ends with %v", err)
		}
		e.close()
		e.checkEnded()
	})
}

// TestReadDeadline: ReadBody ends at its deadline, also if that is set while it waits.
func TestReadDeadline(t *testing.T) {
	for _, isLate := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, testConfig())
			e.isStreamed = always
			var n int
			var err error
			e.handler = func(r *testRequest) {
				if !isLate {
					r.stream.SetReadDeadline(clock.Nanos(), 5*time.Second)
				}
				n, err = r.readAll()
				r.stream.Respond(fields{status: 200}, nil)
			}
			e.feed(data(e.peer.request(nil, 1, post, false), 1, 100, false))
			e.goTasks()
			e.pump()
			if isLate {
				e.streams[0].stream.SetReadDeadline(clock.Nanos(), 5*time.Second)
				synctest.Wait()
				e.pump()
			}
			e.wait(5*time.Second - time.Millisecond)
			synctest.Wait()
			if err != nil || e.exempt != 1 {
				t.Fatalf("%v, %d wait before the deadline", err, e.exempt)
			}
			e.wait(2 * time.Millisecond)
			synctest.Wait()
			if n != 100 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("%d bytes, %v", n, err)
			}
			e.close()
			e.checkEnded()
		})
	}
}

// TestResetWakes: a reset by the peer wakes a Task that waits in any of its calls.
func TestResetWakes(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler func(r *testRequest)
	}{
		{"ReadBody", func(r *testRequest) { _, _ = r.readAll() }},
		{"Send", func(r *testRequest) {
			r.stream.SendHead(fields{status: 200}, false, false)
			r.stream.Send(make([]byte, 1<<20))
		}},
		{"SendLast", func(r *testRequest) {
			r.stream.SendHead(fields{status: 200}, false, false)
			r.stream.SendLast(make([]byte, 1<<20), fields{extra: "t"})
		}},
		{"Respond", func(r *testRequest) { r.stream.Respond(fields{status: 200}, make([]byte, 100)) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngine(t, testConfig())
				e.isStreamed = always
				isGone := false
				e.handler = func(r *testRequest) {
					r.stream.OnGone(func() { isGone = true })
					test.handler(r)
				}
				e.isBlocked = true
				e.conn.out = make([]byte, maxOut-1, maxOut) // heads that are not read
				if test.name == "Respond" {
					e.conn.out = make([]byte, maxOut+1)
				}
				e.feed(e.peer.request(nil, 1, post, false))
				e.goTasks()
				if e.exempt != 1 {
					t.Fatalf("%d Tasks wait", e.exempt)
				}
				e.feed(h2.AppendReset(nil, 1, h2.CodeCancel))
				synctest.Wait()
				if e.exempt != 0 || !isGone {
					t.Fatalf("%d Tasks wait after the reset, gone %v", e.exempt, isGone)
				}
				e.close()
				e.checkEnded()
			})
		})
	}
}

// TestResetOfMuchOutput: Reset ends, although there is no room for the content in out.
func TestResetOfMuchOutput(t *testing.T) {
	e := newEngine(t, testConfig())
	e.handler = func(r *testRequest) {
		r.stream.SendHead(fields{status: 200}, false, false)
		r.stream.Send(make([]byte, 1000))
		for len(e.conn.out) < turnSize {
			e.conn.out = h2.AppendPing(e.conn.out, [8]byte{}, true)
		}
		r.stream.Reset(h2.CodeInternalError)
	}
	e.feed(e.peer.request(nil, 1, get, true))
	e.runTasks()
	if got := e.peer.took(); !strings.HasSuffix(got, "RST_STREAM 1 INTERNAL_ERROR") {
		t.Fatalf("got %.200q", got)
	}
}
