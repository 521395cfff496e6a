package http2

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// answerWith answers with n bytes that no other response has.
func answerWith(n int) func(r *testRequest) {
	return func(r *testRequest) {
		r.holds = n
		r.stream.Respond(fields{status: 200}, make([]byte, n))
	}
}

// withoutWindows begins a connection on which the first streams of 250 requests have no window.
func withoutWindows(t *testing.T, handler func(r *testRequest)) *fakeEngine {
	e := newEngine(t, testConfig())
	e.handler = handler
	e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 0))
	e.askAll(1, 250)
	return e
}

// askAll makes n requests, the first of which has the number first.
func (e *fakeEngine) askAll(first uint32, n int) {
	for id := first; n > 0; n-- {
		e.feed(e.peer.request(nil, id, get, true))
		id += 2
	}
	e.runAllTasks()
}

// runAllTasks runs all Tasks, until no more are made.
func (e *fakeEngine) runAllTasks() {
	for e.runTasks(); len(e.tasks) > 0; {
		e.runTasks()
	}
}

func (e *fakeEngine) begun() (n int) {
	for _, r := range e.streams {
		n += min(r.served, 1)
	}
	return n
}

// end ends the connection, and checks that nothing is counted any more.
func (e *fakeEngine) end() {
	e.t.Helper()
	e.close()
	e.runAllTasks()
	e.checkEnded()
}

// TestStoredResponses: responses that wait for the peer are bounded, whatever they are.
func TestStoredResponses(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler func(r *testRequest)
		begun   int
	}{
		{"of 1 MiB", answerWith(1 << 20), 1},
		{"of 100 KiB", answerWith(100 << 10), 10},
		{"of 10 KiB", answerWith(10 << 10), 102},
		{"of 10 bytes", answerWith(10), 250},
		{"after the head", func(r *testRequest) {
			r.holds = 100 << 10
			_ = r.stream.SendHead(fields{status: 200}, false, false) && r.stream.SendLast(make([]byte, 100<<10), nil)
		}, 10},
		{"of others' memory", func(r *testRequest) { r.stream.Respond(fields{status: 200}, make([]byte, 100<<10)) }, 10},
		{"of one array", respondWithShared(100 << 10), 250},
		{"without content", answerWith(0), 250},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withoutWindows(t, test.handler)
				if got := e.begun(); got != test.begun || e.conn.stored() > maxWaiting {
					t.Errorf("%d requests are served, want %d; %d bytes wait", got, test.begun, e.conn.stored())
				}
				e.end()
			})
		})
	}
}

func respondWithShared(n int) func(r *testRequest) {
	content := make([]byte, n)
	return func(r *testRequest) { r.stream.Respond(fields{status: 200}, content) }
}

// TestDeferredBegin: whatever makes room has the oldest request begin that waits for it.
func TestDeferredBegin(t *testing.T) {
	for name, act := range map[string]func(e *fakeEngine){
		"window update": func(e *fakeEngine) {
			e.feed(h2.AppendWindowUpdate(h2.AppendWindowUpdate(nil, 1, 1<<20), 0, 1<<20))
		},
		"settings": func(e *fakeEngine) {
			e.feed(h2.AppendWindowUpdate(setting(nil, uint32(h2.SettingInitialWindowSize), 1<<20), 0, 1<<20))
		},
		"reset": func(e *fakeEngine) { e.feed(h2.AppendReset(nil, 1, h2.CodeCancel)) },
		"stall": func(e *fakeEngine) { e.wait(31 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := withoutWindows(t, answerWith(1<<20))
				e.feed(h2.AppendReset(nil, 3, h2.CodeCancel)) // one of those that wait
				act(e)
				e.runAllTasks()
				begun := e.begun()
				want := 2
				if name == "settings" { // the third one begins before the window is used up
					want = 3
				}
				switch {
				case name == "stall": // 30 s make all of them too old
					lines := e.peer.took()
					if got := strings.Count(lines, "REFUSED_STREAM"); begun != 1 || got != 248 {
						t.Errorf("%d requests are served, %d are refused: %.300s", begun, got, lines)
					}
				case begun != want || e.streams[1].served != 0:
					t.Errorf("%d requests are served, want %d", begun, want)
				}
				e.end()
			})
		})
	}
}

// TestOpenWindowsGoOn: while much waits for windows that are closed, requests whose windows are
// open are served, as long as they take what they get.
func TestOpenWindowsGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withoutWindows(t, answerWith(1<<20))
		e.handler = answerWith(50 << 10)
		e.feed(h2.AppendWindowUpdate(setting(nil, uint32(h2.SettingInitialWindowSize), 16<<20), 0, 1<<30))
		e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 0))
		e.runAllTasks()
		e.peer.took()
		for id := uint32(1); id < 2*250; id += 2 { // of those that were made without windows
			e.feed(h2.AppendReset(nil, id, h2.CodeCancel))
		}
		e.handler = answerWith(1 << 20)
		e.askAll(501, 200)
		if e.conn.stored() < maxWaiting {
			t.Fatalf("%d bytes wait", e.conn.stored())
		}
		e.handler = answerWith(50 << 10)
		e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), 64<<10))
		e.feed(h2.AppendReset(nil, 505, h2.CodeCancel))
		e.runAllTasks()
		for id := uint32(1001); id < 1101; id += 2 {
			e.feed(e.peer.request(nil, id, get, true))
			e.runAllTasks()
			if got := e.peer.data[id]; got != 50<<10 {
				t.Fatalf("%d bytes of stream %d", got, id)
			}
		}
		e.end()
	})
}

// TestSlowHandlers: requests whose windows are small begin one after the other, more and more
// slowly, as long as nothing is answered.
func TestSlowHandlers(t *testing.T) {
	for window, want := range map[uint32][4]int{4 << 10: {1, 2, 3, 4}, smallWindow: {250, 250, 250, 250}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, testConfig())
			e.feed(setting(nil, uint32(h2.SettingInitialWindowSize), window))
			for id := uint32(1); id < 2*250; id += 2 {
				e.feed(e.peer.request(nil, id, get, true))
			}
			for i, pause := range [...]time.Duration{0, minGrace, 2 * minGrace, maxGrace} {
				if e.wait(pause); len(e.tasks) != want[i] {
					t.Errorf("window %d: %d requests have begun, want %d", window, len(e.tasks), want[i])
				}
			}
			e.end()
		})
	}
}

// TestHeadsNotRead: what Requests keep that wait with their heads, while the peer does not read,
// is bounded.
func TestHeadsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.feed(h2.AppendWindowUpdate(nil, 0, 1<<20))
		e.isBlocked, e.handler = true, respondWith(4<<10)
		id := uint32(1)
		for ; len(e.conn.out) <= maxOut && id < 2*100; id += 2 {
			e.feed(e.peer.request(nil, id, get, true))
			e.goTasks()
		}
		e.handler = func(r *testRequest) {
			r.holds = 100 << 10
			r.stream.SendHead(fields{status: 200}, false, true)
		}
		for range 200 {
			e.feed(e.peer.request(nil, id, get, true))
			e.goTasks()
			id += 2
		}
		if stored := e.conn.stored(); stored < maxWaiting/2 || stored > maxWaiting {
			t.Errorf("%d bytes wait", stored)
		}
		e.close()
		synctest.Wait()
		e.runAllTasks()
		e.checkEnded()
	})
}

// TestPartsThatWereTaken: a response that is sent in parts counts while its peer is behind. It
// does not count when that has caught up, however long it lasts.
func TestPartsThatWereTaken(t *testing.T) {
	for _, isHead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEngine(t, testConfig())
			e.feed(h2.AppendWindowUpdate(setting(nil, uint32(h2.SettingInitialWindowSize), 16<<20), 0, 1<<30))
			more := make(chan struct{})
			e.isBlocked, e.handler = true, func(r *testRequest) {
				r.holds = 2 << 20
				if isHead {
					for range 2 * maxOut / (8 << 10) {
						r.stream.SendHead(fields{status: 103, extra: strings.Repeat("x", 8<<10)}, true, false)
					}
				}
				r.stream.SendHead(fields{status: 200}, false, false)
				if !isHead {
					r.stream.Send(make([]byte, 4*maxHeld))
					r.stream.Flush()
				}
				<-more
				r.stream.SendLast(nil, nil)
			}
			e.feed(e.peer.request(nil, 1, get, true))
			e.goTasks()
			synctest.Wait()
			if stored := e.conn.stored(); stored < 2<<20 {
				t.Errorf("%d bytes wait", stored)
			}
			e.isBlocked = false
			for range 4 {
				e.runAllTasks()
				synctest.Wait()
			}
			if stored := e.conn.stored(); stored > 0 || e.conn.limitsTasks.Load() {
				t.Errorf("%d bytes wait of what was taken", stored)
			}
			close(more)
			synctest.Wait()
			e.end()
		})
	}
}
