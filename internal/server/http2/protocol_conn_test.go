package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A talker is the Protocol of a protocolConn: it answers input with reply bytes for each byte.
type talker struct {
	engine.Protocol
	conn     engine.Conn
	reply    int
	next     engine.Next // of Run
	used     int
	silences int // calls of TimedOut
	sleeps   int
	detached net.Conn
	onRun    func()
	closed   []error
}

func (p *talker) Capabilities() engine.Capabilities { return engine.CanPrompt | engine.CanSleep }
func (p *talker) Feed([]byte) (int, engine.Next)    { return 0, engine.Run }
func (p *talker) Pause() bool                       { return true }
func (p *talker) Detached(c net.Conn)               { p.detached = c }
func (p *talker) Closed(err error)                  { p.closed = append(p.closed, err) }
func (p *talker) HalfClosed(out []byte) []byte      { return append(out, "bye"...) }

func (p *talker) Run(out []byte) ([]byte, engine.Next) {
	if p.onRun != nil {
		p.onRun()
	}
	n := len(p.conn.Buffered())
	if p.next == engine.Detach {
		n = 1
	}
	p.conn.Discard(n)
	p.used += n
	p.conn.SetReadDeadline(clock.Nanos(), time.Second)
	return append(out, make([]byte, n*p.reply)...), p.next
}

func (p *talker) Prompted(out []byte) ([]byte, engine.Next) {
	return append(out, "news"...), engine.Read
}

func (p *talker) TimedOut(out []byte) ([]byte, engine.Next) {
	p.silences++
	return append(out, "?"...), engine.Read
}

func (p *talker) Sleep() (engine.Memo, bool) {
	p.sleeps++
	return engine.Memo{ID: 7}, true
}

func (p *talker) Wake(_ engine.Conn, m engine.Memo) engine.Protocol {
	if m.ID != 7 {
		panic("another memo")
	}
	return p
}

// serveProtocol opens a stream with a talker.
func (e *fakeEngine) serveProtocol(stream uint32) *talker {
	p := &talker{}
	e.isStreamed = func(*testRequest) bool { return true }
	e.handler = func(r *testRequest) {
		r.stream.isConnect, r.exchange.connects = true, true
		if !r.stream.SendHead(fields{status: 200}, false, false) {
			e.t.Error("the head cannot be sent")
		}
		e.sleeper = p
		r.outcome, r.open = server.OutcomeTakeover, func(c engine.Conn, out []byte) (engine.Protocol, []byte) {
			p.conn = c
			return p, append(out, "hi"...)
		}
	}
	e.feed(e.peer.request(nil, stream, post, false))
	e.runTasks()
	return p
}

func (e *fakeEngine) expect(want string) {
	e.t.Helper()
	if got := e.peer.took(); got != want {
		e.t.Fatalf("got %q, want %q", got, want)
	}
}

// TestServeProtocol: a Protocol has a stream. It sleeps between its calls, and gets each event in
// a Task.
func TestServeProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withWindow(t, 100)
		p := e.serveProtocol(1)
		p.reply = 1
		e.expect("HEADERS 1 200, DATA 1 2")
		e.feed(data(nil, 1, 10, false))
		if e.expect(""); len(e.tasks) != 1 || p.used != 0 || p.sleeps != 1 {
			t.Fatalf("%d tasks, %d bytes used, %d sleeps", len(e.tasks), p.used, p.sleeps)
		}
		e.feed(data(nil, 1, 5, false))
		e.runTasks()
		e.expect("DATA 1 15")
		p.conn.Prompter().Prompt()
		p.conn.Prompter().Prompt()
		e.pump()
		e.runTasks()
		e.expect("DATA 1 4")
		e.wait(1100 * time.Millisecond)
		e.runTasks()
		if e.expect("DATA 1 1"); p.silences != 1 || len(e.tasks) != 0 {
			t.Errorf("%d time-outs", p.silences)
		}
		e.wait(time.Minute)
		e.runTasks()
		// Output waits for the window, and input and news for the output.
		p.reply = 5
		e.feed(data(nil, 1, 20, false))
		e.runTasks()
		e.feed(data(nil, 1, 2, false))
		p.conn.Prompter().Prompt()
		e.pump()
		e.runTasks()
		e.expect("DATA 1 78")
		e.feed(h2.AppendWindowUpdate(nil, 1, 1000))
		e.runTasks()
		e.expect("DATA 1 36")
		e.feed(data(nil, 1, 0, true))
		e.runTasks()
		e.expect("DATA 1 3 END")
		e.runTasks()
		if !slices.Equal(p.closed, []error{nil}) || p.used != 37 || p.silences != 1 {
			t.Errorf("closed %v, %d bytes used, %d time-outs", p.closed, p.used, p.silences)
		}
		p.conn.Prompter().Prompt() // too late
		e.pump()
		e.checkEnded()
	})
}

// TestServeProtocolBlocked: what a Protocol has not used gets no credit, and what a peer without a
// window does not take is bounded: nothing more is read.
func TestServeProtocolBlocked(t *testing.T) {
	e := withWindow(t, 1000)
	p := e.serveProtocol(1)
	e.peer.lines = nil
	p.onRun = func() {
		p.onRun = nil
		e.feed(data(nil, 1, 16000, false))
		e.feed(data(nil, 1, 16000, false))
	}
	e.feed(data(nil, 1, 16000, false))
	e.feed(data(nil, 1, 16000, false))
	if e.peer.credit[1] != 0 {
		t.Fatal("credit without use")
	}
	e.runTask()
	e.pump()
	if p.used != 64000 || e.peer.credit[1] == 0 || e.peer.credit[1] > 64000 {
		t.Fatalf("%d bytes used, credit %d", p.used, e.peer.credit[1])
	}
	p.reply = 10
	for range 4 {
		e.feed(data(nil, 1, 8000, false))
		e.runTasks()
	}
	if p.used != 72000 || e.conn.held > maxHeld || len(e.tasks) != 0 {
		t.Errorf("%d bytes used, %d held, %d tasks", p.used, e.conn.held, len(e.tasks))
	}
	e.feed(h2.AppendReset(nil, 1, h2.CodeCancel))
	e.runTasks()
	if len(p.closed) != 1 || !errors.Is(p.closed[0], errTunnelReset) {
		t.Errorf("closed %v", p.closed)
	}
	e.checkEnded()
}

// TestServeProtocolStalled: a peer that takes nothing for the time of SetWriteTimeout gets a reset.
func TestServeProtocolStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withWindow(t, 10)
		p := e.serveProtocol(1)
		p.reply = 1
		p.conn.SetWriteTimeout(5 * time.Second)
		e.feed(data(nil, 1, 20, false))
		e.runTasks()
		e.peer.lines = nil
		e.wait(4 * time.Second)
		e.runTasks()
		e.expect("")
		e.wait(2 * time.Second)
		if _, err := p.conn.Write([]byte("late")); err != os.ErrDeadlineExceeded { // before the Protocol is told
			t.Errorf("Write: %v", err)
		}
		e.runTasks()
		if e.expect("RST_STREAM 1 CANCEL"); !slices.Equal(p.closed, []error{os.ErrDeadlineExceeded}) {
			t.Errorf("closed %v", p.closed)
		}
		e.checkEnded()
	})
}

// TestServeProtocolEnds: the Protocol ends the stream, panics, or wants it for itself.
func TestServeProtocolEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withWindow(t, 1000)
		for i, test := range []struct {
			next engine.Next
			want string
			err  error
		}{
			{engine.Close, "DATA 1 10 END, RST_STREAM 1 NO_ERROR", nil},
			{engine.Abort, "RST_STREAM 3 CANCEL", nil},
		} {
			id := uint32(2*i + 1)
			p := e.serveProtocol(id)
			e.peer.lines = nil
			p.next, p.reply = test.next, 1
			e.feed(data(nil, id, 10, false))
			e.runTasks()
			e.runTasks()
			if got := e.peer.took(); got != test.want || !slices.Equal(p.closed, []error{test.err}) {
				t.Errorf("%v: got %q, closed %v", test.next, got, p.closed)
			}
		}
		p := e.serveProtocol(5)
		p.onRun = func() { panic("a test") }
		e.peer.lines = nil
		e.feed(data(nil, 5, 10, false))
		e.runTasks()
		synctest.Wait() // Closed is called on another goroutine
		if e.expect("RST_STREAM 5 INTERNAL_ERROR"); len(p.closed) != 1 || p.closed[0] == nil {
			t.Errorf("closed %v", p.closed)
		}
		p = e.serveProtocol(7)
		p.next, p.reply = engine.Detach, 1
		e.peer.lines = nil
		e.feed(data(nil, 7, 3, false))
		e.runTasks()
		synctest.Wait()
		e.feed(data(nil, 7, 3, true))
		e.expect("DATA 7 1")
		got, err := io.ReadAll(p.detached)
		if err != nil || len(got) != 5 {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if _, err := p.detached.Write(got); err != nil {
			t.Error(err)
		}
		_ = p.detached.Close()
		e.pump()
		e.expect("DATA 7 5 END")
		// The connection ends.
		p = e.serveProtocol(9)
		e.close()
		e.runTasks()
		if len(p.closed) != 1 || p.closed[0] == nil {
			t.Errorf("closed %v", p.closed)
		}
		e.checkEnded()
	})
}
