package http2

import (
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// newBegunEngine returns a connection of which another Protocol has read the first bytes of
// the preface, and the rest of the preface with requests.
func newBegunEngine(t *testing.T, cfg *Config, requests int) (e *fakeEngine, in []byte) {
	e = &fakeEngine{t: t, cfg: cfg, handler: func(r *testRequest) { r.stream.Respond(fields{status: 200}, nil) }}
	e.peer.begin()
	in = prefaceAnd(h2.DefaultSettings())
	for i := range requests {
		in = e.peer.request(in, uint32(2*i+1), get, true)
	}
	const used = 18
	e.conn = NewConn(e, e, cfg, server.Facts{}, in[:used])
	e.conn.Start()
	if e.takePrompt() {
		t.Error("Start prompts")
	}
	return e, in[used:]
}

// TestFirstWrite: one write has our SETTINGS and the first responses, but only if that does
// not make the peer wait: a Task that blocks has prompted before.
func TestFirstWrite(t *testing.T) {
	const settings = "SETTINGS, WINDOW_UPDATE 0 983041, PING sluicert, SETTINGS ACK"
	e, in := newBegunEngine(t, testConfig(), 2)
	e.handler = func(r *testRequest) {
		if r.id == 1 {
			e.pump() // as if it blocked
			if got := e.peer.took(); got != settings {
				t.Errorf("while the first Task runs: %q", got)
			}
		}
		r.stream.Respond(fields{status: 200}, nil)
	}
	if used, next := e.conn.Feed(in); used != len(in) || next != engine.Read {
		t.Fatalf("Feed: %d of %d, %v", used, len(in), next)
	}
	e.pump()
	if got := e.peer.took(); got != "" {
		t.Errorf("before the Tasks: %q", got)
	}
	e.runTasks()
	if got := e.peer.took(); got != "HEADERS 1 200 END, HEADERS 3 200 END" {
		t.Errorf("after the Tasks: %q", got)
	}

	limited := testConfig()
	limited.TasksMayWait = true
	for name, c := range map[string]struct {
		cfg      *Config
		requests int
	}{"a limit of workers": {limited, 2}, "no request": {testConfig(), 0}} {
		e, in := newBegunEngine(t, c.cfg, c.requests)
		if _, next := e.conn.Feed(in); next != engine.Run {
			t.Errorf("%s: Feed says %v", name, next)
		}
	}
	e, in = newBegunEngine(t, testConfig(), 1)
	if _, next := e.conn.Feed(append(in, h2.AppendWindowUpdate(nil, 0, 0)...)); next != engine.Run || e.conn.phase != phaseFailed {
		t.Errorf("after a fault: Feed says %v, phase %v", next, e.conn.phase)
	}
	e, in = newBegunEngine(t, testConfig(), 1)
	e.conn.Feed(in)
	if _, next := e.conn.Feed(h2.AppendPing(nil, [8]byte{}, false)); next != engine.Run {
		t.Errorf("a PING before the Task runs: Feed says %v", next)
	}
}

// TestReleasedWhenClosed: a Conn goes to the pool when its connection ends, unless a Task has
// a stream of it.
func TestReleasedWhenClosed(t *testing.T) {
	for _, runs := range []bool{true, false} {
		e := newEngine(t, testConfig())
		c := e.conn
		e.feed(e.peer.request(nil, 1, get, true))
		if runs {
			e.runTasks()
		}
		e.conn.Closed(nil)
		if isReleased := c.host == nil; isReleased != runs {
			t.Errorf("its Task has run: %v; it is released: %v", runs, isReleased)
		}
		if !runs {
			e.runTask()
			if c.streams.count() != 0 || e.streams[0].ended != 1 {
				t.Errorf("%d streams remain, End was called %d times", c.streams.count(), e.streams[0].ended)
			}
		}
	}
}
