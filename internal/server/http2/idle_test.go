package http2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// TestSleep: a connection sleeps two seconds after its last stream, and goes on as if it
// had not slept: the tables, the windows, the settings and its deadline.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.handler = func(r *testRequest) { r.stream.Respond(fields{status: 200, extra: "same"}, []byte("hello")) }
		stream, slept := uint32(1), 0
		for round := range 8 {
			for range 1 + round%3 {
				e.feed(e.peer.request(nil, stream, get, true, "user-agent", "test", "x-round", fmt.Sprint(round)))
				e.runTasks()
				if got, want := e.peer.took(), fmt.Sprintf("HEADERS %d 200, DATA %d 5 END", stream, stream); got != want {
					t.Fatalf("round %d: %s, want %s", round, got, want)
				}
				stream += 2
				e.wait(sleepDelay - time.Millisecond)
				if e.slept != slept {
					t.Fatalf("round %d: it slept too soon", round)
				}
			}
			before := e.conn.connState
			e.wait(time.Millisecond)
			if slept++; e.slept != slept {
				t.Fatalf("round %d: it does not sleep", round)
			}
			checkWoken(t, &before, &e.conn.connState)
			e.feed(h2.AppendPing(nil, [8]byte{1}, false)) // wakes it, and it sleeps on
			if slept++; e.slept != slept || e.peer.took() != "PING ACK" {
				t.Fatalf("round %d: a PING: it slept %d times", round, e.slept)
			}
		}
		if len(e.peer.encoder.AppendPacked(nil)) < 20 {
			t.Error("the client has put nothing into the table")
		}
		e.wait(time.Minute - sleepDelay)
		if got := e.peer.took(); got != fmt.Sprintf("GOAWAY %d NO_ERROR", stream-2) || !e.isLast {
			t.Errorf("at the end of IdleTimeout: %q", got)
		}
	})
}

// checkWoken compares what a connection knows before and after it slept.
func checkWoken(t *testing.T, before, after *connState) {
	t.Helper()
	if before.newest != after.newest || before.last != after.last || before.opened != after.opened || before.idleDue != after.idleDue {
		t.Errorf("%d %d %d %d became %d %d %d %d", before.newest, before.last, before.opened, before.idleDue,
			after.newest, after.last, after.opened, after.idleDue)
	}
	if before.sendWindow != after.sendWindow || before.window.Left() != after.window.Left() {
		t.Errorf("windows %d %d became %d %d", before.sendWindow, before.window.Left(), after.sendWindow, after.window.Left())
	}
	if before.peer.Settings != after.peer.Settings || before.own.InForce != after.own.InForce ||
		!bytes.Equal(before.budget.AppendPacked(nil), after.budget.AppendPacked(nil)) {
		t.Errorf("settings %+v %+v, budget %+v became %+v %+v, %+v", before.peer.Settings, before.own, before.budget, after.peer.Settings, after.own, after.budget)
	}
	if before.growth.RoundTrip.Nanos() != after.growth.RoundTrip.Nanos() || after.growth.Room != int64(after.cfg.MaxConnWindow) {
		t.Errorf("growth %+v became %+v", before.growth, after.growth)
	}
	if !after.parser.BetweenFrames() || after.parser.MaxFrameSize != before.parser.MaxFrameSize {
		t.Error("the parser")
	}
}

// TestNotIdle: when a connection is not idle.
func TestNotIdle(t *testing.T) {
	for name, do := range map[string]func(e *fakeEngine){
		"a stream":          func(e *fakeEngine) { e.feed(e.peer.request(nil, 1, get, true)) },
		"a part of a frame": func(e *fakeEngine) { e.feed(h2.AppendPing(nil, [8]byte{}, false)[:3]) },
		"output":            func(e *fakeEngine) { e.isBlocked = true; e.feed(h2.AppendPing(nil, [8]byte{}, false)) },
		"GOAWAY":            func(e *fakeEngine) { e.closing = true; e.Prompt(); e.pump() },
	} {
		e := newEngine(t, testConfig())
		if !e.conn.Pause() {
			t.Fatal("a new connection is not idle")
		}
		if do(e); e.conn.Pause() {
			t.Errorf("%s: idle", name)
		}
	}
	if newSilentEngine(t, testConfig()).conn.Pause() {
		t.Error("idle before the preface")
	}
}

// TestLateFrames: frames on streams from before the sleep are ignored.
func TestLateFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, testConfig())
		e.feed(e.peer.request(nil, 5, get, true))
		e.runTasks()
		e.peer.took()
		e.wait(sleepDelay)
		if e.slept != 1 {
			t.Fatal("it does not sleep")
		}
		e.feed(h2.AppendReset(data(h2.AppendWindowUpdate(nil, 5, 1000), 5, 10, true), 3, 0))
		e.feed(e.peer.request(nil, 7, get, true))
		e.runTasks()
		if got := e.peer.took(); got != "HEADERS 7 200 END" {
			t.Error(got)
		}
	})
}

// TestRecordSize: what a record takes at most, however a client fills the table.
func TestRecordSize(t *testing.T) {
	e := newEngine(t, testConfig())
	in, first := []byte(nil), 0
	for i := range 100 {
		in = h2.FinishHeaders(appendLiteral(h2.BeginHeaders(in), i), len(in), uint32(2*i+1), true, h2.MinMaxFrameSize)
		e.feed(in)
		e.runTasks()
		in = in[:0]
		if i == 0 {
			first = len(e.conn.appendPacked(nil, formSleep))
		}
	}
	if e.conn.failure != nil {
		t.Fatal(e.conn.failure)
	}
	n := len(e.conn.appendPacked(nil, formSleep))
	if first > 200 {
		t.Errorf("%d bytes after one request", first)
	}
	if most := h2.DefaultTableSize + 200; n < 2000 || n > most {
		t.Errorf("%d bytes, at most %d", n, most)
	}
}

// appendLiteral appends a request whose last field goes into the table.
func appendLiteral(dst []byte, i int) []byte {
	dst = append(dst, 0x82, 0x86, 0x84, 0x41, 1, 'a')
	value := strings.Repeat("v", 60) + fmt.Sprint(i)
	dst = append(append(dst, 0x40, 2, 'x', 'y', byte(len(value))), value...)
	return dst
}

// FuzzPacked: what is unpacked is packed to the same bytes; anything else is refused.
func FuzzPacked(f *testing.F) {
	forms := [...]packedForm{formSleep, formMove}
	e := newEngine(f, testConfig())
	for stream := range uint32(9) {
		for _, form := range forms {
			f.Add(e.conn.appendPacked(nil, form))
		}
		e.feed(e.peer.request(nil, 2*stream+1, get, true, "user-agent", "test", "x", fmt.Sprint(stream)))
		e.runTasks()
	}
	f.Fuzz(func(t *testing.T, packed []byte) {
		for _, form := range forms {
			e := newSilentEngine(t, testConfig())
			c := newConn(e, e, e.cfg, server.Facts{})
			if !c.unpack(packed, form) || form == formMove && c.opened|uint64(c.idleDue) != 0 {
				continue
			}
			if got := c.appendPacked(nil, form); !bytes.Equal(got, packed) {
				t.Fatalf("%x became %x", packed, got)
			}
			if !c.Pause() {
				t.Error("it is not idle")
			}
		}
	})
}

// TestSleepAllocatesNothing: a Conn and its tables come from a pool.
func TestSleepAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("pools drop what they get")
	}
	e := newEngine(t, testConfig())
	e.feed(e.peer.request(nil, 1, get, true, "user-agent", "test"))
	e.runTasks()
	e.conn.prepareSleep()
	if n := testing.AllocsPerRun(100, func() {
		record, ok := e.conn.Sleep()
		if !ok {
			t.Fatal("it does not sleep")
		}
		e.conn = Wake(e, e, e.cfg, server.Facts{}, record)
	}); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

// TestMove: a connection goes on in another process, whose list of pairs is empty, and is
// told when the settings there are different.
func TestMove(t *testing.T) {
	e := newEngine(t, testConfig())
	e.isMoving = true
	e.handler = func(r *testRequest) { r.stream.Respond(fields{status: 200, extra: "same"}, []byte("hello")) }
	for stream := uint32(1); stream < 60; stream += 2 {
		e.feed(e.peer.request(nil, stream, get, true, "user-agent", "test", "x-stream", fmt.Sprint(stream)))
		e.runTasks()
		if got, want := e.peer.took(), fmt.Sprintf("HEADERS %d 200, DATA %d 5 END", stream, stream); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
	if e.moved != 30 {
		t.Errorf("it moved %d times", e.moved)
	}
	e.cfg.Settings.MaxConcurrentStreams = 7
	e.move()
	if got := e.peer.took(); got != "SETTINGS" {
		t.Error(got)
	}
	if _, ok := e.conn.Pack(nil); ok {
		t.Error("it moves although settings are not acknowledged")
	}
	e.feed(h2.AppendSettingsAck(nil))
	if e.moved != 32 {
		t.Errorf("it moved %d times", e.moved)
	}
}

// TestMoveDamaged: a state that is damaged anywhere is refused.
func TestMoveDamaged(t *testing.T) {
	e := newEngine(t, testConfig())
	e.feed(e.peer.request(nil, 1, get, true, "user-agent", "test"))
	e.runTasks()
	state, ok := e.conn.Pack([]byte("x"))
	if state = state[1:]; !ok || state[0] != byte(StateVersion) {
		t.Fatalf("%x, %t", state, ok)
	}
	for i := range state {
		state[i] ^= 0x10
		if Unpack(e, e, e.cfg, server.Facts{}, state) != nil {
			t.Errorf("a damaged byte %d is not noticed", i)
		}
		state[i] ^= 0x10
		if Unpack(e, e, e.cfg, server.Facts{}, state[:i]) != nil {
			t.Errorf("%d bytes are enough", i)
		}
	}
	if Unpack(e, e, e.cfg, server.Facts{}, state) == nil {
		t.Error("it is refused")
	}
}
