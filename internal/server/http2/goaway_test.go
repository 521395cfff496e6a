package http2

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestEndOfNewConn: a connection that has made no request when the server ends is there for
// its first one, and gets a goodbye that leaves no doubt.
//
// long: a table
func TestEndOfNewConn(t *testing.T) {
	const warning = "GOAWAY 2147483647 NO_ERROR, PING sluicego"
	ack := h2.AppendPing(nil, drainPing, true)
	ends := func(e *fakeEngine) { e.closing = true; e.Prompt(); e.pump() }
	shutsDown := func(e *fakeEngine) { e.cuts = true; ends(e) }
	moves := func(e *fakeEngine) { e.move(); ends(e) }
	asks := func(e *fakeEngine) { e.feed(e.peer.request(nil, 1, get, true)); e.runTasks() }
	acks := func(e *fakeEngine) { e.feed(ack) }
	waits := func(d time.Duration) func(*fakeEngine) {
		return func(e *fakeEngine) { e.wait(d); e.expire() }
	}
	type step struct {
		do   func(e *fakeEngine)
		want string
	}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"a request comes", []step{{ends, ""}, {asks, warning + ", HEADERS 1 200 END"}, {acks, "GOAWAY 1 NO_ERROR"}}},
		{"a request comes late", []step{{ends, ""}, {waits(firstTime - 1), ""}, {asks, warning + ", HEADERS 1 200 END"}, {acks, "GOAWAY 1 NO_ERROR"}}},
		{"no request comes", []step{{ends, ""}, {waits(firstTime - 1), ""}, {waits(1), warning}, {acks, "GOAWAY 0 NO_ERROR"}}},
		{"neither a request nor an acknowledgement comes", []step{{ends, ""}, {waits(firstTime), warning}, {waits(drainTime), "GOAWAY 0 NO_ERROR"}}},
		{"the connection is old", []step{{waits(firstTime), ""}, {ends, warning}, {acks, "GOAWAY 0 NO_ERROR"}}},
		{"the connection has slept", []step{{waits(3 * time.Second), ""}, {ends, warning}, {acks, "GOAWAY 0 NO_ERROR"}}},
		{"there was a request", []step{{asks, "HEADERS 1 200 END"}, {ends, warning}, {acks, "GOAWAY 1 NO_ERROR"}}},
		{"it was handed over without a request", []step{{waits(firstTime), ""}, {moves, ""}, {asks, warning + ", HEADERS 1 200 END"}, {acks, "GOAWAY 1 NO_ERROR"}}},
		{"it was handed over after a request", []step{{asks, "HEADERS 1 200 END"}, {moves, warning}, {acks, "GOAWAY 1 NO_ERROR"}}},
		{"shutdown, and a request was under way", []step{{shutsDown, warning}, {acks, ""}, {asks, "HEADERS 1 200 END"}, {waits(drainTime), "GOAWAY 1 NO_ERROR"}}},
		{"shutdown, and no request comes", []step{{shutsDown, warning}, {acks, ""}, {waits(drainTime - 1), ""}, {waits(1), "GOAWAY 0 NO_ERROR"}}},
		{"shutdown of an old connection", []step{{waits(firstTime - 1), ""}, {shutsDown, warning}, {acks, ""}, {waits(1), "GOAWAY 0 NO_ERROR"}}},
		{"shutdown while a request is awaited", []step{{ends, ""}, {shutsDown, warning}, {acks, ""}, {asks, "HEADERS 1 200 END"}, {waits(drainTime), "GOAWAY 1 NO_ERROR"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock.Nanos() // the clock of the bubble begins here
				e := newEngine(t, testConfig())
				for i, s := range test.steps {
					if e.isLast {
						t.Fatalf("the connection has ended before step %d", i)
					}
					s.do(e)
					if got := e.peer.took(); got != s.want {
						t.Fatalf("step %d: got %q, want %q", i, got, s.want)
					}
				}
				if !e.isLast {
					t.Error("the connection has not ended")
				}
				e.close()
				e.checkEnded()
			})
		})
	}
}

// TestEndBeforePreface: a connection that a closing server accepts begins as any other.
func TestEndBeforePreface(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{t: t, cfg: testConfig(), closing: true, handler: func(r *testRequest) { r.stream.Respond(fields{status: 200}, nil) }}
		e.peer.begin()
		e.start()
		e.feed(e.peer.request(prefaceAnd(h2.DefaultSettings()), 1, get, true))
		e.runTasks()
		const want = "SETTINGS, WINDOW_UPDATE 0 983041, PING sluicert, SETTINGS ACK, GOAWAY 2147483647 NO_ERROR, PING sluicego, HEADERS 1 200 END"
		if got := e.peer.took(); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		e.feed(h2.AppendPing(nil, drainPing, true))
		if got := e.peer.took(); got != "GOAWAY 1 NO_ERROR" || !e.isLast {
			t.Fatalf("got %q, last %v", got, e.isLast)
		}
	})
}
