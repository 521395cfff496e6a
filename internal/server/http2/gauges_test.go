package http2

import (
	"testing"
	"testing/synctest"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestGauges: what is open and what has ended, step by step, of one connection and of all.
func TestGauges(t *testing.T) { synctest.Test(t, testGauges) } // no time passes, in which the budget would grow

func testGauges(t *testing.T) {
	cfg := testConfig()
	cfg.Settings.MaxConcurrentStreams = 3
	other := newEngine(t, cfg)
	e := newEngine(t, cfg)
	e.handler = func(r *testRequest) {
		if r.stream.ID() == 9 { // too long for the window
			r.stream.Respond(fields{status: 200}, make([]byte, 70_000))
			return
		}
		r.stream.Respond(fields{status: 200}, nil)
	}
	check := func(step string, want Sums) {
		t.Helper()
		e.runTasks()
		if got := cfg.Gauges.Sum(); got != want {
			t.Errorf("%s: %+v, want %+v", step, got, want)
		}
	}
	check("two connections", Sums{Conns: 2, Idle: 2})
	e.feed(e.peer.request(nil, 1, get, true))
	check("a request was answered", Sums{Conns: 2, Idle: 2})
	e.feed(e.peer.request(nil, 3, post, false))
	e.feed(e.peer.request(nil, 5, post, false))
	check("two bodies are awaited", Sums{Conns: 2, Idle: 1, Streams: 2})
	e.feed(h2.AppendReset(nil, 3, h2.CodeCancel))
	check("the peer resets one", Sums{Conns: 2, Idle: 1, Streams: 1, Resets: 1})
	e.feed(h2.AppendReset(nil, 3, h2.CodeCancel))
	check("a second time", Sums{Conns: 2, Idle: 1, Streams: 1, Resets: 1})
	e.feed(h2.AppendWindowUpdate(nil, 5, 0))
	check("we reset the other", Sums{Conns: 2, Idle: 2, Resets: 2})
	e.feed(e.peer.request(nil, 7, post, false))
	e.feed(e.peer.request(nil, 9, get, true))
	check("a response waits for its window", Sums{Conns: 2, Idle: 1, Streams: 2, Resets: 2})
	e.feed(e.peer.request(nil, 11, post, false))
	e.feed(e.peer.request(nil, 13, get, true))
	check("one is refused", Sums{Conns: 2, Idle: 1, Streams: 3, Resets: 3})
	for range 2001 {
		e.feed(h2.AppendPing(nil, [8]byte{}, false))
	}
	e.conn.Closed(nil)
	check("sent away with its streams", Sums{Conns: 1, Idle: 1, Resets: 3, Calmed: 1})
	other.conn.Closed(nil)
	check("the end", Sums{Resets: 3, Calmed: 1})
}

// TestGaugesNegative: parts that were read at different times make no negative sums.
func TestGaugesNegative(t *testing.T) {
	var g Gauges
	for range 2 * gaugeStripes {
		s := g.stripe()
		s.conns.Add(-1)
		s.busy.Add(1)
		s.streams.Add(-3)
	}
	if got := g.Sum(); got != (Sums{}) {
		t.Errorf("%+v", got)
	}
}
