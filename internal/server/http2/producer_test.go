package http2

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A source is a Producer that has some pieces to send.
type source struct {
	engine.Protocol
	conn    engine.Conn
	pieces  []int // their sizes
	next    engine.Next
	beats   int // calls of TimedOut
	closed  []error
	mostOut int // the longest result
}

func (s *source) Prompted(out []byte) ([]byte, engine.Next) {
	room := s.conn.(interface{ Room() int }).Room()
	for len(s.pieces) > 0 {
		if len(out) >= room {
			return out, engine.Run
		}
		out = append(out, make([]byte, s.pieces[0])...)
		s.pieces = s.pieces[1:]
	}
	s.mostOut = max(s.mostOut, len(out))
	return out, s.next
}

func (s *source) TimedOut(out []byte) ([]byte, engine.Next) {
	s.beats++
	s.conn.SetReadDeadline(clock.Nanos(), time.Second)
	return append(out, ':'), engine.Read
}

func (s *source) Closed(err error) { s.closed = append(s.closed, err) }

func (s *source) has(pieces ...int) {
	s.pieces = append(s.pieces, pieces...)
	s.conn.Prompter().Prompt()
}

// produce opens a stream whose content a source writes, with first as its first bytes.
func (e *fakeEngine) produce(stream uint32, first string) *source {
	s := &source{}
	e.handler = func(r *testRequest) {
		if !r.stream.SendHead(fields{status: 200}, false, false) {
			e.t.Error("the head cannot be sent")
		}
		r.outcome, r.open = server.OutcomeBody, func(c engine.Conn, out []byte) (engine.Protocol, []byte) {
			s.conn = c
			c.SetReadDeadline(clock.Nanos(), time.Second)
			c.SetWriteTimeout(10 * time.Second)
			return s, append(out, first...)
		}
	}
	e.feed(e.peer.request(nil, stream, get, true))
	e.runTasks()
	return s
}

// withWindow returns a connection whose peer has streams with a window.
func withWindow(t *testing.T, window uint32) *fakeEngine {
	e := newEngine(t, testConfig())
	settings := h2.DefaultSettings()
	settings.InitialWindowSize = window
	inForce := h2.DefaultSettings()
	e.feed(h2.AppendSettings(nil, &settings, &inForce))
	e.peer.lines = nil
	return e
}

// TestProduce: content goes as far as the window, a stream holds the rest of one piece, and
// the Producer is asked for more when that is sent.
func TestProduce(t *testing.T) {
	e := withWindow(t, 100)
	s := e.produce(1, "hello")
	if got := e.peer.took(); got != "HEADERS 1 200, DATA 1 5" {
		t.Fatalf("got %q", got)
	}
	s.has(40, 40, 40, 40)
	e.pump()
	if got := e.peer.took(); got != "DATA 1 95" || e.conn.held != 25 || len(s.pieces) != 1 {
		t.Fatalf("got %q, %d bytes are held, %d pieces left", got, e.conn.held, len(s.pieces))
	}
	s.has(10)
	e.pump()
	if got := e.peer.took(); got != "" || e.conn.held != 25 || len(s.pieces) != 2 {
		t.Fatalf("got %q, %d bytes are held, %d pieces left", got, e.conn.held, len(s.pieces))
	}
	e.feed(h2.AppendWindowUpdate(nil, 1, 1000))
	if got := e.peer.took(); got != "DATA 1 25, DATA 1 50" || e.conn.held != 0 {
		t.Fatalf("got %q", got)
	}
	// What ends may be after content, which it follows.
	s.next = engine.Close
	s.has(7)
	e.pump()
	if got := e.peer.took(); got != "DATA 1 7 END" || !slices.Equal(s.closed, []error{nil}) {
		t.Fatalf("got %q, closed %v", got, s.closed)
	}
	s.has(1) // too late
	e.pump()
	if got := e.peer.took(); got != "" {
		t.Fatalf("got %q", got)
	}
	e.checkEnded()
}

// TestProduceWithoutWindow: a Producer whose peer gives no window is asked once, for nothing:
// then it is known that it has something. It can end without a window.
func TestProduceWithoutWindow(t *testing.T) {
	e := withWindow(t, 0)
	s := e.produce(1, "")
	s.has(50)
	e.pump()
	if got := e.peer.took(); got != "HEADERS 1 200" || e.conn.held != 0 || len(s.pieces) != 1 || !e.streams[0].stream.producerHasMore() {
		t.Fatalf("got %q, %d bytes are held", got, e.conn.held)
	}
	e.feed(h2.AppendWindowUpdate(nil, 1, 20))
	e.feed(h2.AppendWindowUpdate(nil, 1, 20))
	if got := e.peer.took(); got != "DATA 1 20, DATA 1 20" || e.conn.held != 10 {
		t.Fatalf("got %q, %d bytes are held", got, e.conn.held)
	}
	other := e.produce(3, "")
	other.next = engine.Close
	other.has()
	e.pump()
	if got := e.peer.took(); got != "HEADERS 3 200, DATA 3 0 END" {
		t.Fatalf("got %q", got)
	}
	e.feed(h2.AppendReset(nil, 1, h2.CodeCancel))
	if !slices.Equal(s.closed, []error{io.EOF}) || !slices.Equal(other.closed, []error{nil}) {
		t.Errorf("closed %v, %v", s.closed, other.closed)
	}
	e.checkEnded()
}

// TestProduceMany: what all streams hold is bounded, although the window of the connection
// closes, and none waits for ever.
func TestProduceMany(t *testing.T) {
	const count, pieces, size = 200, 100, 1000
	e := withWindow(t, 1<<20)
	var all []*source
	for i := range count {
		s := e.produce(uint32(2*i+1), "")
		all = append(all, s)
		s.has(slices.Repeat([]int{size}, pieces)...)
	}
	for e.pump(); e.conn.sendWindow <= 0; e.pump() {
		if e.conn.held > count*size {
			t.Fatalf("%d bytes are held", e.conn.held)
		}
		e.feed(h2.AppendWindowUpdate(nil, 0, 100<<10))
	}
	for i, s := range all {
		if got := e.peer.data[uint32(2*i+1)]; got != pieces*size || len(s.pieces) > 0 {
			t.Errorf("stream %d: %d bytes have come", i, got)
		}
	}
	e.close()
	e.checkEnded()
}

// TestProduceEnds: what ends the content from outside.
func TestProduceEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		end  func(e *fakeEngine, s *source)
		want error
	}{
		"CANCEL":         {func(e *fakeEngine, _ *source) { e.feed(h2.AppendReset(nil, 1, h2.CodeCancel)) }, io.EOF},
		"INTERNAL_ERROR": {func(e *fakeEngine, _ *source) { e.feed(h2.AppendReset(nil, 1, h2.CodeInternalError)) }, errTunnelReset},
		"FIN":            {func(e *fakeEngine, _ *source) { e.conn.HalfClosed(nil) }, io.EOF},
		"loss":           {func(e *fakeEngine, _ *source) { e.isClosed = true; e.conn.Closed(broken) }, broken},
		"violation":      {func(e *fakeEngine, _ *source) { e.feed(h2.AppendWindowUpdate(nil, 1, 0)) }, nil},
		"Abort": {func(e *fakeEngine, s *source) {
			s.next = engine.Abort
			s.has(1)
			e.pump()
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := withWindow(t, 10)
			s := e.produce(1, "held for the window")
			if name == "Abort" {
				e.feed(h2.AppendWindowUpdate(nil, 1, 1000))
			}
			test.end(e, s)
			if len(s.closed) != 1 || s.closed[0] == nil || test.want != nil && !errors.Is(s.closed[0], test.want) {
				t.Errorf("closed %v, want %v", s.closed, test.want)
			}
			e.checkEnded()
		})
	}
}

// TestProduceTimes: TimedOut comes after silence, not while content waits, and a peer that
// takes nothing gets a reset.
func TestProduceTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := withWindow(t, 10)
		s := e.produce(1, "12345")
		e.peer.took()
		e.wait(2500 * time.Millisecond)
		if got := e.peer.took(); got != "DATA 1 1, DATA 1 1" || s.beats != 2 {
			t.Fatalf("got %q, %d beats", got, s.beats)
		}
		s.has(4)
		e.pump()
		e.wait(5 * time.Second)
		if got := e.peer.took(); got != "DATA 1 3" || s.beats != 2 {
			t.Fatalf("got %q, %d beats", got, s.beats)
		}
		e.feed(h2.AppendWindowUpdate(nil, 1, 10))
		e.wait(time.Millisecond)
		if got := e.peer.took(); got != "DATA 1 1, DATA 1 1" || s.beats != 3 {
			t.Fatalf("got %q, %d beats", got, s.beats)
		}
		s.has(100)
		e.pump()
		e.peer.took()
		e.wait(9 * time.Second)
		if len(s.closed) > 0 {
			t.Fatalf("closed %v", s.closed)
		}
		e.wait(2 * time.Second)
		if got := e.peer.took(); got != "RST_STREAM 1 CANCEL" || len(s.closed) != 1 || !errors.Is(s.closed[0], os.ErrDeadlineExceeded) {
			t.Errorf("got %q, closed %v", got, s.closed)
		}
		e.checkEnded()
	})
}

// TestProduceAndTheEnd: Producers are asked when the server begins to end, and when it shuts
// down; the connection waits for them.
func TestProduceAndTheEnd(t *testing.T) {
	e := withWindow(t, 100)
	s := e.produce(1, "")
	e.peer.took()
	for _, stage := range []*bool{&e.closing, &e.cuts} {
		s.pieces = []int{3}
		*stage = true
		if stage == &e.cuts {
			s.next = engine.Close
		}
		e.Prompt()
		e.pump()
		if stage == &e.closing {
			e.feed(h2.AppendPing(nil, drainPing, true))
			if got := e.peer.took(); got != "GOAWAY 2147483647 NO_ERROR, PING sluicego, DATA 1 3, GOAWAY 1 NO_ERROR" || e.isLast {
				t.Errorf("got %q", got)
			}
		}
	}
	if got := e.peer.took(); got != "DATA 1 3 END" || !e.isLast {
		t.Errorf("got %q, last %v", got, e.isLast)
	}
	e.close()
	e.checkEnded()
}

// TestProducePrompts: prompts come from any goroutine at any time, also after the end.
func TestProducePrompts(t *testing.T) {
	e := withWindow(t, 1<<20)
	a, b := e.produce(1, ""), e.produce(3, "")
	var prompting sync.WaitGroup
	for _, s := range []*source{a, a, b, b} {
		prompting.Go(func() {
			for range 1000 {
				s.conn.Prompter().Prompt()
			}
		})
	}
	for range 100 {
		e.pump()
	}
	e.feed(h2.AppendReset(nil, 1, h2.CodeCancel))
	prompting.Wait()
	b.has(5)
	e.pump()
	if got := e.peer.data[3]; got != 5 {
		t.Errorf("%d bytes have come", got)
	}
	e.close()
	e.checkEnded()
}
