package enginetest

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

func pressureScenarios() []scenario {
	return []scenario{
		{"slow reader", testSlowReader, 0},
		{"answers are not buffered without bound", testAnswersBounded, 0},
		{"input is not buffered without bound", testInputBounded, 0},
		{"writes that do not wait", testWriteReady, 0},
		{"small answers are not buffered without bound", testSmallAnswersBounded, 0},
		{"write timeout of pipelined answers", testWriteTimeoutPipelined, deadlines | waits},
	}
}

// settles waits until a counter has not moved for a while, and returns it.
func (s *server) settles(t *testing.T, what string, counter func() int64) int64 {
	t.Helper()
	last, still := int64(-1), 0
	s.eventually(t, what, func() bool {
		time.Sleep(5 * time.Millisecond)
		now := counter()
		if now != last {
			last, still = now, 0
		}
		still++
		return now > 0 && still > 6
	})
	return last
}

// testSlowReader checks that an engine does not go on while the client does not
// read; the session checks what it holds meanwhile.
func testSlowReader(t *testing.T, f *fixture) {
	testBounded(t, f, 16, "big 1000000", patternText(1_000_000))
}

// testAnswersBounded has answers that are written during Run, and gathered.
func testAnswersBounded(t *testing.T, f *fixture) {
	for _, command := range []string{"write 10 25000", "gather 10 25000", "ready 10 25000"} {
		testBounded(t, f, 48, command, patternText(250_000))
	}
}

// testWriteReady writes more than there is room for, while the client reads nothing.
func testWriteReady(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.sendLater(frames("echo before", "ready 400 50000", "echo x"))
	s.eventually(t, "WriteReady returns", func() bool { return s.ready.Load() == 1 })
	p.expect(t, "before", patternText(20_000_000), "x")
}

// testSmallAnswersBounded has answers that are smaller than any buffer.
func testSmallAnswersBounded(t *testing.T, f *fixture) {
	testBounded(t, f, 4000, "big 3000", patternText(3000))
}

// testBounded sends count times the command, and reads nothing until the engine
// has stopped. Everything must be there afterwards.
func testBounded(t *testing.T, f *fixture, count int, command, answer string) {
	t.Helper()
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.holdLittle(t)
	var input []byte
	for range count {
		input = appendFrame(input, command)
	}
	sent := p.sendLater(input)
	runs := s.settles(t, "the engine stops", s.runs.Load)
	if runs > int64(count)/2 {
		t.Errorf("%d of %d answers of %d bytes were produced before any was read", runs, count, len(answer))
	}
	for range count {
		p.expect(t, answer)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	p.expectNothingMore(t)
}

// A countedWriter knows how much went through it.
type countedWriter struct {
	net.Conn
	written atomic.Int64
}

// Write implements net.Conn.
func (w *countedWriter) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		n, err := w.Conn.Write(p[:min(len(p), 32<<10)])
		w.written.Add(int64(n))
		if total += n; err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

// holdLittle makes the system hold little at p's end. By default it may hold some megabytes in
// each direction, more the slower the test runs. At the engine's end it holds the 4 MB of Linux
// for answers, and what fixInput allows.
func (p *peer) holdLittle(t *testing.T) {
	t.Helper()
	if s, ok := socketOf(p.Conn).(interface {
		SetReadBuffer(n int) error
		SetWriteBuffer(n int) error
	}); ok {
		if err := errors.Join(s.SetReadBuffer(64<<10), s.SetWriteBuffer(64<<10)); err != nil {
			t.Fatal(err)
		}
	}
}

// testInputBounded sends large requests whose answers are as large. An engine
// that cannot get rid of the answers must not go on reading either.
func testInputBounded(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.holdLittle(t)
	w := &countedWriter{Conn: p.Conn}
	p.Conn = w
	const size = 200_000
	count := 120
	if !f.offers(buffered) { // the system takes nothing
		count = 16
	}
	text := patternText(size)
	var input []byte
	for range count {
		input = appendFrame(input, "echo "+text)
	}
	sent := p.sendLater(input)
	written := s.settles(t, "the engine stops reading", w.written.Load)
	if fed := s.fed.Load(); fed > int64(len(input))/2 {
		t.Errorf("%d of %d bytes were read while no answer was", fed, len(input))
	}
	if written > int64(len(input))*3/4 {
		t.Errorf("%d of %d bytes were taken while no answer was read", written, len(input))
	}
	for range count {
		p.expect(t, text)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// testWriteTimeoutPipelined cuts a client that never reads, with requests left.
func testWriteTimeoutPipelined(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.write = 500 * time.Millisecond
	s := f.start(t, a, options())
	other := s.connect(t)
	for i, command := range []string{"big 200000", "write 20 10000", "gather 20 10000", "big 3000"} {
		p := s.connect(t)
		var input []byte
		for range 12_000_000 / 3000 {
			input = appendFrame(input, command)
		}
		sent := p.sendLater(input)
		s.eventually(t, "Closed", func() bool { return s.closed.Load() == int64(i+1) })
		if i == 0 && s.closeErrors()[i] == nil { // later the session sees the error
			t.Errorf("%s: Closed(nil) of a connection that was cut", command)
		}
		other.expectNothingMore(t)
		_ = p.Close()
		<-sent
	}
}
