package enginetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// options are what every server of the suite starts from.
func options() engine.Options {
	return engine.Options{ReadBufferSize: 2 << 10, FlushSize: flushSize, LingerTimeout: 5 * time.Second}
}

// briefOptions are for a Shutdown after which the peers stay: the engine waits for each of them.
func briefOptions() engine.Options {
	o := options()
	o.LingerTimeout = 50 * time.Millisecond
	return o
}

func streamScenarios() []scenario {
	return []scenario{
		{"round trips", testRoundTrips, 0},
		{"many connections", testManyConnections, contended},
		{"idle connections", testIdleConnections, buffered},
		{"pipelined", testPipelined, contended},
		{"cut everywhere", testCutEverywhere, 0},
		{"run again", testRunAgain, 0},
		{"large request", testLargeRequest, 0},
		{"large answers", testLargeAnswers, contended},
		{"start", testStart, 0},
		{"stats and range", testStatsAndRange, 0},
	}
}

func testRoundTrips(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	for i := range 100 {
		text := fmt.Sprint("hello ", i)
		p.ask(t, "echo "+text, text)
	}
	s.eventually(t, "Pause before a wait", func() bool { return s.pauses.Load() > 0 })
}

// testManyConnections re-uses descriptors as fast as it can: nothing of one
// connection may turn up in another.
func testManyConnections(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const clients = 8
	rounds := 100
	if testing.Short() || f.offers(handshakes) {
		rounds = 20
	}
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for i := range rounds {
				p := s.connect(t)
				text := fmt.Sprint("client ", client, " round ", i)
				p.ask(t, "echo "+text, text)
				switch i % 3 {
				case 0:
					p.ask(t, "close", "closing")
					p.expectEnd(t)
				case 1:
					p.send(t, frames("echo lost"))
				}
				_ = p.Close()
			}
		})
	}
	wg.Wait()
	s.eventually(t, "all connections closed", func() bool { return s.closed.Load() == clients*int64(rounds) })
}

func testIdleConnections(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = time.Hour
	s := f.start(t, a, options())
	count := 2000
	if testing.Short() || invariants.Enabled || s.engine.Name() == "poll" { // poll(2) looks at all of them for each event
		count = 300
	}
	if f.offers(handshakes) {
		count /= 10
	}
	peers := make([]*peer, count)
	for i := range peers {
		peers[i] = s.connect(t)
		peers[i].ask(t, "echo one", "one")
		peers[i].ask(t, "echo two", "two")
	}
	s.eventually(t, "all idle", func() bool { return s.stats() == engine.Stats{Open: count} })
	for _, p := range peers {
		p.ask(t, "echo three", "three")
	}
}

func testPipelined(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	var commands, answers []string
	for i := range 500 {
		answers = append(answers, fmt.Sprint("answer ", i))
		commands = append(commands, "echo "+answers[i])
	}
	sent := p.sendLater(frames(commands...))
	p.expect(t, answers...)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	p.ask(t, "echo alive", "alive")
}

// testCutEverywhere has the engine read a request in every two pieces, and byte
// by byte.
func testCutEverywhere(t *testing.T, f *fixture) {
	input := frames("echo a", "big 5", "echo bc")
	answers := []string{"a", patternText(5), "bc"}
	for size := 1; size <= len(input); size++ {
		s := f.start(t, newAcceptor(), options())
		p := s.connect(t)
		sent := make(chan error, 1)
		go func() {
			sent <- nettest.WriteCut(p, input, size, func(written int) {
				for end := time.Now().Add(patience); s.fed.Load() < int64(written) && time.Now().Before(end); {
					pause()
				}
			})
		}()
		p.expect(t, answers...)
		if err := <-sent; err != nil {
			t.Fatalf("pieces of %d: %v", size, err)
		}
		_ = p.Close()
	}
}

func testRunAgain(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	sent := p.sendLater(frames("again x", "echo y", "again z"))
	p.expect(t, "first", "x", "y", "first", "z")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

func testLargeRequest(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	text := patternText(300_000)
	sent := p.sendLater(frames("echo "+text, "echo next"))
	p.expect(t, text, "next")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// testLargeAnswers has answers of every kind block half-way.
func testLargeAnswers(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	const size = 3 << 20
	want := patternText(size)
	sent := p.sendLater(frames("big 3145728", "write 96 32768", "gather 96 32768", "gather 3 1048576", "gather 3072 1024",
		"ready 96 32768", "ready 3072 1024", "echo end"))
	p.expect(t, want, want, want, want, want, want, want, "end")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	p.ask(t, "gather 3 5", patternText(15))
}

func testStart(t *testing.T, f *fixture) {
	for _, next := range []engine.Next{engine.Read, engine.Abort, engine.Close} {
		a := newAcceptor()
		a.start = &next
		s := f.start(t, a, options())
		p := s.connect(t)
		if next == engine.Read {
			p.ask(t, "echo x", "x")
		} else {
			p.expectGone(t)
		}
		_ = p.Close()
	}
}

func testStatsAndRange(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	idle, partial, busy := s.connect(t), s.connect(t), s.connect(t)
	idle.ask(t, "echo x", "x")
	partial.send(t, frames("echo x")[:3])
	busy.send(t, frames("wait here"))
	s.awaitGate(t, "here")
	s.eventually(t, "Stats", func() bool { return s.stats() == engine.Stats{Open: 3, Active: 2} })
	seen := make(map[engine.Conn]bool)
	s.engine.Range(func(c engine.Conn) bool {
		if c.NetConn() == nil {
			t.Error("Range passed a connection without NetConn")
		}
		seen[c] = true
		return true
	})
	if len(seen) != 3 {
		t.Errorf("Range passed %d connections, want 3", len(seen))
	}
	calls := 0
	s.engine.Range(func(engine.Conn) bool { calls++; return false })
	if calls != 1 {
		t.Errorf("Range called %d times after false", calls)
	}
	s.gate("here").release()
	busy.expect(t, "waited")
	partial.send(t, frames("echo x")[3:])
	partial.expect(t, "x")
	s.eventually(t, "Stats", func() bool { return s.stats() == engine.Stats{Open: 3} })
}
