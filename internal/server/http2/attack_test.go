package http2

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/fieldlist"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// units is how often an attack is repeated.
const units = 50_000

// waiting has answers of 1 MiB wait for a stream's window.
func waiting(window uint32) func(e *fakeEngine) {
	return func(e *fakeEngine) {
		e.handler = answerWith(1 << 20)
		e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), window))
		e.feed(e.peer.request(nil, 1, get, true))
	}
}

// An attack is something that costs the peer less than us. The clock stands still, so
// nothing is refunded but for what arrives.
type attack struct {
	name  string
	setup func(e *fakeEngine)
	unit  func(e *fakeEngine, id uint32) []byte // id is new each time
	most  int                                   // units after which the connection ends
}

// TestAttacks: each attack ends with ENHANCE_YOUR_CALM after so many units, and neither
// streams nor output grow beyond their bounds until then.
//
// long: a table
func TestAttacks(t *testing.T) {
	openOne := func(e *fakeEngine) { e.feed(e.peer.request(nil, 1, post, false)) }
	blocked := func(e *fakeEngine) { e.isBlocked = true }
	bomb := strings.Repeat("b", 3800)
	for _, a := range []attack{
		{"rapid reset", nil, func(e *fakeEngine, id uint32) []byte {
			return h2.AppendReset(e.peer.request(nil, id, get, true), id, h2.CodeCancel)
		}, 401},
		{"rapid reset of bodies", nil, func(e *fakeEngine, id uint32) []byte {
			return h2.AppendReset(e.peer.request(nil, id, post, false), id, h2.CodeCancel)
		}, 401},
		{"resets of ours: WINDOW_UPDATE of 0", nil, func(e *fakeEngine, id uint32) []byte {
			return h2.AppendWindowUpdate(e.peer.request(nil, id, get, true), id, 0)
		}, 401},
		{"resets of ours: DATA after END_STREAM", nil, func(e *fakeEngine, id uint32) []byte {
			return data(e.peer.request(nil, id, get, true), id, 100, true)
		}, 401},
		{"resets of ours: DATA after a reset of the peer's", nil, func(e *fakeEngine, id uint32) []byte {
			return data(h2.AppendReset(e.peer.request(nil, id, post, false), id, h2.CodeCancel), id, 100, true)
		}, 201},
		{"resets of ours: content-length", nil, func(e *fakeEngine, id uint32) []byte {
			return e.peer.request(nil, id, post, true, "content-length", "4")
		}, 401},
		{"empty CONTINUATION", nil, func(e *fakeEngine, id uint32) []byte {
			if id == 3 {
				return frame(nil, 0x1, 0x1, id, []byte{0x82, 0x84, 0x86})
			}
			return frame(nil, 0x9, 0, 3, nil)
		}, 6},
		{"full CONTINUATION", nil, func(e *fakeEngine, id uint32) []byte {
			if id == 3 {
				return frame(nil, 0x1, 0x1, id, []byte{0x82, 0x84, 0x86})
			}
			return frame(nil, 0x9, 0, 3, bytes.Repeat([]byte{0x90}, 16<<10))
		}, 18},
		{"HPACK bomb", nil, func(e *fakeEngine, id uint32) []byte {
			block := []byte{0x82, 0x84, 0x86, 0x40, 1, 'x', 0x7f, 0xd9, 0x1c} // 127 + 0x59 + 0x1c<<7 = 3800
			block = append(append(block, bomb...), bytes.Repeat([]byte{0xbe}, 12<<10)...)
			return frame(nil, 0x1, 0x5, id, block)
		}, 3},
		{"cookie crumbs", nil, func(e *fakeEngine, id uint32) []byte {
			block := append([]byte{0x82, 0x84, 0x86, 0x60, 0}, bytes.Repeat([]byte{0xbe}, 4000)...)
			return frame(nil, 0x1, 0x5, id, block)
		}, 20},
		{"SETTINGS", nil, func(*fakeEngine, uint32) []byte { return setting(nil) }, 2001},
		{"SETTINGS, not read", blocked, func(*fakeEngine, uint32) []byte { return setting(nil) }, 1001},
		{"PING", nil, func(*fakeEngine, uint32) []byte { return h2.AppendPing(nil, [8]byte{}, false) }, 2001},
		{"PING, not read", blocked, func(*fakeEngine, uint32) []byte { return h2.AppendPing(nil, [8]byte{}, false) }, 1001},
		{"PING acknowledgements", nil, func(*fakeEngine, uint32) []byte { return h2.AppendPing(nil, [8]byte{}, true) }, 2001},
		{"GOAWAY", nil, func(*fakeEngine, uint32) []byte { return h2.AppendGoAway(nil, 0, 0, "") }, 2001},
		{"empty DATA", openOne, func(*fakeEngine, uint32) []byte { return data(nil, 1, 0, false) }, 2001},
		{"tiny DATA", openOne, func(*fakeEngine, uint32) []byte { return data(nil, 1, 31, false) }, 2001},
		{"tiny DATA that is discarded", func(e *fakeEngine) {
			e.refuse = func(*testRequest) error { return server.ErrTimeout }
			openOne(e)
			e.tasks = nil // the answer waits for a worker
		}, func(*fakeEngine, uint32) []byte { return data(nil, 1, 31, false) }, 2001},
		{"tiny DATA of a stream that was reset", func(e *fakeEngine) {
			e.feed(h2.AppendWindowUpdate(e.peer.request(nil, 1, post, false), 1, 0))
		}, func(*fakeEngine, uint32) []byte { return data(nil, 1, 31, false) }, 2001},
		{"HEADERS of a stream that was reset", func(e *fakeEngine) {
			e.feed(h2.AppendWindowUpdate(e.peer.request(nil, 1, post, false), 1, 0))
		}, func(e *fakeEngine, _ uint32) []byte { return e.peer.trailer(nil, 1, true) }, 2001},
		{"HEADERS after GOAWAY", func(e *fakeEngine) {
			openOne(e)
			e.closing = true
			e.Prompt()
			e.pump()
			e.feed(h2.AppendPing(nil, drainPing, true))
		}, func(e *fakeEngine, id uint32) []byte { return e.peer.request(nil, id, get, true) }, 2001},
		{"padding", openOne, func(*fakeEngine, uint32) []byte { return paddedData(nil, 1, 64, 255, false) }, 2200},
		{"small WINDOW_UPDATE", nil, func(*fakeEngine, uint32) []byte { return h2.AppendWindowUpdate(nil, 0, 1) }, 2001},
		{"window updates of 1 for an answer that waits", func(e *fakeEngine) {
			e.handler = respondWith(1 << 20)
			e.feed(e.peer.request(nil, 1, get, true))
			e.runTasks()
		}, func(*fakeEngine, uint32) []byte {
			return h2.AppendWindowUpdate(h2.AppendWindowUpdate(nil, 0, 1), 1, 1)
		}, 1010},
		{"answers that wait for window 0", waiting(0), func(e *fakeEngine, id uint32) []byte {
			return e.peer.request(nil, id, get, true)
		}, 2250},
		{"answers that wait for window updates of 1", waiting(1), func(e *fakeEngine, id uint32) []byte {
			return h2.AppendWindowUpdate(e.peer.request(nil, id, get, true), id, 1)
		}, 1251},
		{"answers that wait for a small window", waiting(4 << 10), func(e *fakeEngine, id uint32) []byte {
			return e.peer.request(nil, id, get, true)
		}, 2250},
		{"resets of answers that wait", waiting(0), func(e *fakeEngine, id uint32) []byte {
			return h2.AppendReset(e.peer.request(nil, id, get, true), id-2, h2.CodeCancel)
		}, 2250},
		{"unknown frames", nil, func(*fakeEngine, uint32) []byte { return frame(nil, 0x77, 0, 0, nil) }, 2001},
		{"PRIORITY", openOne, func(*fakeEngine, uint32) []byte { return frame(nil, 0x2, 0, 1, []byte{0, 0, 0, 9, 9}) }, 2001},
		{"PRIORITY_UPDATE", openOne, func(*fakeEngine, uint32) []byte {
			return h2.AppendPriorityUpdate(nil, 1, fieldlist.Priority{Urgency: 1})
		}, 2001},
		{"PRIORITY_UPDATE of requests to come", nil, func(_ *fakeEngine, id uint32) []byte { return priorityUpdate(nil, id, "u=1") }, 2001},
		{"names without a byte", nil, func(_ *fakeEngine, id uint32) []byte {
			return frame(nil, 0x1, 0x5, id, []byte{0x82, 0x84, 0x86, 0, 0, 0})
		}, 401},
		{"streams beyond the limit", func(e *fakeEngine) { e.conn.cfg.Settings.MaxConcurrentStreams = 0 }, func(e *fakeEngine, id uint32) []byte {
			return e.peer.request(nil, id, get, true)
		}, 2001},
	} {
		t.Run(a.name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { a.run(t) }) })
	}
}

func (a *attack) run(t *testing.T) {
	e := newEngine(t, testConfig())
	e.recycle, e.peer.isQuiet = true, true
	if a.setup != nil {
		a.setup(e)
	}
	n, id, stored := 0, uint32(3), 0
	for ; n < units && e.conn.phase < phaseFailed; n++ {
		e.feed(a.unit(e, id))
		e.runTasks()
		id += 2
		stored = max(stored, e.conn.stored())
	}
	if stored > 3<<19 {
		t.Errorf("%d bytes of responses wait", stored)
	}
	if n > a.most || n == units {
		t.Errorf("%d units, want at most %d", n, a.most)
	}
	if e.conn.failure != h2.ErrExcessiveLoad && e.conn.failure != h2.ErrContinuations {
		t.Errorf("the connection ended with %v", e.conn.failure)
	}
	if e.mostOut > 64<<10 {
		t.Errorf("%d bytes of output", e.mostOut)
	}
	if len(e.streams) > 250 {
		t.Errorf("%d requests at once", len(e.streams))
	}
	t.Logf("%d units, %d bytes of output, %d requests", n, e.mostOut, len(e.streams))
	e.isBlocked = false
	e.Prompt()
	e.pump()
	if e.peer.goAway != h2.CodeEnhanceYourCalm || !e.isLast {
		t.Errorf("GOAWAY %v, last %v", e.peer.goAway, e.isLast)
	}
	e.tasks = nil
	e.close()
}

// TestEchoes: a peer may answer each DATA frame with its credit and a PING, as the clients of
// gRPC do.
func TestEchoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes, in which the budget would grow
		e := newEngine(t, testConfig())
		e.recycle, e.peer.isQuiet = true, true
		e.handler = respondWith(10)
		for id := uint32(1); id < 2*10_000; id += 2 {
			e.feed(e.peer.request(nil, id, get, true))
			e.runTasks()
			in := h2.AppendWindowUpdate(h2.AppendWindowUpdate(nil, 0, 10), id, 10)
			if e.feed(h2.AppendPing(in, [8]byte{}, false)); e.isLast {
				t.Fatalf("the connection ends at stream %d: %v", id, e.conn.failure)
			}
		}
		e.close()
		e.checkEnded()
	})
}

// TestLateMessages: small pieces of a streamed body that is not read any more have been sent
// before the peer knew that. What was in its window costs nothing.
func TestLateMessages(t *testing.T) {
	for name, end := range map[string]func(s *Stream){
		"answered":    func(s *Stream) { s.Respond(fields{status: 200}, nil) },
		"interrupted": func(s *Stream) { s.InterruptRead(); s.Respond(fields{status: 200}, nil) },
		"reset":       func(s *Stream) { s.Reset(h2.CodeCancel) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no time passes, in which the budget would grow
				e := newEngine(t, testConfig())
				e.isStreamed = always
				e.peer.isQuiet = true
				e.handler = func(r *testRequest) { end(r.stream) }
				e.feed(e.peer.request(nil, 1, post, false))
				e.runTasks()
				n := 0
				for ; n < units && !e.peer.hasGone; n++ {
					e.feed(data(nil, 1, 10, false))
				}
				if least := 64 << 10 / 10; n < least || n > least+2001 || e.peer.goAway != h2.CodeEnhanceYourCalm {
					t.Errorf("GOAWAY %v after %d pieces", e.peer.goAway, n)
				}
				e.close()
			})
		})
	}
}

// TestQueuedResets: streams that were reset count until their Tasks have ended, so that
// no more Tasks wait than streams are allowed.
func TestQueuedResets(t *testing.T) {
	e := newEngine(t, testConfig())
	e.peer.isQuiet = true
	for id := uint32(1); e.conn.phase < phaseFailed && id < 2*units; id += 2 {
		e.feed(h2.AppendReset(e.peer.request(nil, id, get, true), id, h2.CodeCancel))
	}
	if len(e.tasks) > 250 || e.peer.goAway != h2.CodeEnhanceYourCalm {
		t.Fatalf("%d Tasks, GOAWAY %v", len(e.tasks), e.peer.goAway)
	}
	e.close()
	e.runTasks()
	for _, r := range e.streams {
		if r.served > 0 {
			t.Fatalf("request %d was served after its reset", r.id)
		}
	}
	e.checkEnded()
}

// TestHeads: the heads of all open streams are bounded.
func TestHeads(t *testing.T) {
	e := newEngine(t, testConfig())
	e.handler = respondWith(10)
	e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 0)) // nothing is taken
	big := strings.Repeat("x", 32<<10)
	for id := uint32(1); id < 2*100; id += 2 {
		e.feed(e.peer.request(nil, id, get, true, "x-big", big, "content-type", "a"))
		e.runTasks()
		if e.conn.heads > 1<<20 {
			t.Fatalf("%d bytes of heads", e.conn.heads)
		}
	}
	if got := e.peer.took(); !strings.Contains(got, "REFUSED_STREAM") || e.peer.hasGone {
		t.Fatalf("got %.200q", got)
	}
	if n := e.conn.streams.count(); n < 28 || n > 32 {
		t.Fatalf("%d streams are open", n)
	}
	e.close()
	e.checkEnded()
}

// TestTrailers: trailer sections count as heads do.
func TestTrailers(t *testing.T) {
	for code, isStreamed := range map[h2.Code]bool{h2.CodeRefusedStream: false, h2.CodeEnhanceYourCalm: true} {
		e := newEngine(t, testConfig())
		e.handler = respondWith(10)
		if isStreamed {
			e.isStreamed = always
		}
		e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 0)) // nothing is taken
		big := fields{extra: strings.Repeat("x", 32<<10)}
		for id := uint32(1); id < 2*100; id += 2 {
			e.feed(e.peer.request(nil, id, post, false))
			block := big.AppendFields(e.peer.encoder.Begin(h2.BeginHeaders(nil)), &e.peer.encoder)
			e.feed(h2.FinishHeaders(block, 0, id, true, h2.MinMaxFrameSize))
			e.runTasks()
			if e.conn.heads > 1<<20 {
				t.Fatalf("%d bytes of trailer sections", e.conn.heads)
			}
		}
		if got := e.peer.took(); !strings.Contains(got, code.String()) || e.peer.hasGone {
			t.Fatalf("got %.200q", got)
		}
		e.close()
		e.checkEnded()
	}
}

// TestUnreadBodies: bodies that no handler reads hold their windows, and delay no other stream,
// however many they are. More than a window ends its stream only.
func TestUnreadBodies(t *testing.T) {
	const streams = 50 // three times the connection's window
	e := newEngine(t, testConfig())
	e.isStreamed = always
	for id := uint32(1); id < 2*streams; id += 2 {
		e.feed(e.peer.request(nil, id, post, false))
		for range 4 {
			e.feed(data(nil, id, 16<<10, false))
		}
	}
	held := 0
	for s := range e.conn.streams.each() {
		held += len(s.inbox)
	}
	if held != streams*64<<10 || e.peer.credit[0] < held || e.peer.hasGone {
		t.Fatalf("%d bytes are held, the connection has got %d of credit, GOAWAY %v", held, e.peer.credit[0], e.peer.goAway)
	}
	e.peer.took()
	e.feed(data(nil, 1, 1, false))
	if got := e.peer.took(); got != "RST_STREAM 1 FLOW_CONTROL_ERROR" || e.conn.streams.count() != streams {
		t.Fatalf("got %q, and there are %d streams", got, e.conn.streams.count())
	}
	e.close()
	e.runTasks()
	e.checkEnded()
}

// TestSettingsOfManyWindows: however often a frame changes the initial window, the
// windows of the streams are shifted once.
func TestSettingsOfManyWindows(t *testing.T) {
	e := newEngine(t, testConfig())
	e.handler = respondWith(70 << 10)
	e.feed(e.peer.request(nil, 1, get, true))
	e.runTasks()
	was := e.conn.streams.find(1).sendWindow
	var values []uint32
	for i := range uint32(2700) {
		values = append(values, uint32(h2.SettingInitialWindowSize), 1<<31-1-i%2)
	}
	in := setting(nil, append(values, uint32(h2.SettingInitialWindowSize), 65536)...)
	e.feed(in[:10000]) // within the frame, nothing changes
	if now := e.conn.streams.find(1).sendWindow; now != was {
		t.Fatalf("window %d within the frame, %d before", now, was)
	}
	e.feed(in[10000:])
	if now := e.conn.streams.find(1).sendWindow; now != was+1 || e.peer.hasGone {
		t.Fatalf("window %d after the frame, %d before, GOAWAY %v", now, was, e.peer.goAway)
	}
}

// TestZeroWindow: content of all streams that is copied is bounded, and a stream whose
// window opens goes on.
func TestZeroWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.peer.isQuiet = true
		e.handler = func(r *testRequest) {
			if r.stream.SendHead(fields{status: 200}, false, false) && r.stream.Send(make([]byte, 64<<10)) {
				r.stream.SendLast(nil, nil)
			}
		}
		in := setting(nil, uint32(h2.SettingInitialWindowSize), 0)
		for id := uint32(1); id < 2*250; id += 2 {
			in = e.peer.request(in, id, get, true)
		}
		e.feed(in)
		e.goTasks()
		e.pump()
		for e.goTasks(); len(e.tasks) > 0; e.goTasks() {
			e.pump()
		}
		if held := e.conn.held; held < maxWaiting/2 || held > maxWaiting || e.exempt+e.conn.deferred != 250 {
			t.Fatalf("%d bytes held, %d Tasks wait, %d are deferred", held, e.exempt, e.conn.deferred)
		}
		e.feed(h2.AppendWindowUpdate(h2.AppendWindowUpdate(nil, 499, 64<<10), 0, 64<<10))
		for range 40 {
			e.goTasks()
			e.pump()
		}
		if got := e.peer.data[499]; got != 64<<10 {
			t.Fatalf("%d bytes of the stream whose window is open", got)
		}
		e.close()
		synctest.Wait()
		e.checkEnded()
	})
}

// TestRequestsNotRead: while the peer does not read, answers wait with their Tasks, not
// in memory.
func TestRequestsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.recycle, e.isBlocked = true, true
		e.handler = respondWith(4 << 10)
		for id := uint32(1); id < 2*units && e.conn.phase < phaseFailed; id += 2 {
			e.feed(e.peer.request(nil, id, get, true))
			e.goTasks()
		}
		if e.mostOut > maxOut+8<<10 || len(e.streams) > 250 || e.conn.failure != h2.ErrExcessiveLoad {
			t.Fatalf("%d bytes of output, %d requests, %v", e.mostOut, len(e.streams), e.conn.failure)
		}
		e.close()
		synctest.Wait()
		e.checkEnded()
	})
}

// TestCreditNotRead: a peer that sends bodies and does not read cannot make the output
// grow without bound.
func TestCreditNotRead(t *testing.T) {
	e := newEngine(t, testConfig())
	e.isBlocked = true
	e.feed(e.peer.request(nil, 1, post, false))
	for range units {
		e.feed(data(nil, 1, 1<<10, false))
		e.streams[0].body = nil
	}
	if e.mostOut > 64<<10 {
		t.Fatalf("%d bytes of output", e.mostOut)
	}
}

// goTasks runs all tasks on goroutines of their own, until they end or wait. Use it in
// a synctest bubble.
func (e *fakeEngine) goTasks() {
	e.mu.Lock()
	tasks := e.tasks
	e.tasks = nil
	e.mu.Unlock()
	for _, task := range tasks {
		go engine.RunTask(task)
	}
	synctest.Wait()
}

// TestIdleOutput: a connection without streams does not keep the memory of a burst.
func TestIdleOutput(t *testing.T) {
	e := newEngine(t, testConfig())
	e.handler = respondWith(4 << 10)
	for id := uint32(1); id < 20; id += 2 {
		e.feed(e.peer.request(nil, id, get, true))
	}
	e.isBlocked = true
	e.runTasks()
	if cap(e.conn.out) <= keptOut {
		t.Fatalf("the burst needs only %d bytes", cap(e.conn.out))
	}
	e.isBlocked = false
	e.pump()
	if e.conn.streams.count() != 0 || cap(e.conn.out) > keptOut {
		t.Errorf("%d streams, %d bytes kept", e.conn.streams.count(), cap(e.conn.out))
	}
}
