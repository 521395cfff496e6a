package enginetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

func promptScenarios() []scenario {
	return []scenario{
		{"prompt while idle", testPromptIdle, deadlines | contended},
		{"prompt with the next input", testPromptWithInput, 0},
		{"prompt within a frame", testPromptPartial, 0},
		{"prompt during Run", testPromptInRun, contended},
		{"prompt during Prompted", testPromptInPrompted, deadlines},
		{"prompt from Run", testPromptFromRun, 0},
		{"prompt while Run waits for input", testPromptReadInRun, 0},
		{"prompt in Open", testPromptInOpen, 0},
		{"prompt for the mute", testPromptMute, 0},
		{"prompts from everywhere", testPromptsFromEverywhere, contended},
		{"prompted output", testPromptedOutput, 0},
		{"nudge", testNudge, deadlines | contended},
		{"prompt while the peer does not read", testPromptBehindOutput, 0},
		{"prompts leave the deadline alone", testPromptDeadline, deadlines | waits},
		{"prompts leave the deadline within a frame alone", testPromptHeadDeadline, deadlines | waits},
	}
}

// note has p's session take the note of that name.
func (p *peer) note(t *testing.T, key string) *note {
	t.Helper()
	p.ask(t, "note "+key, "noted")
	return p.server.note(key)
}

// expectSaid expects what a prompted session says. Where nothing but input ends
// an engine's wait, there is some.
func (p *peer) expectSaid(t *testing.T, f *fixture, want string) {
	t.Helper()
	if f.offers(deadlines) {
		p.expect(t, want)
		return
	}
	sent := p.sendLater(frames("echo nudge"))
	p.expectBoth(t, want, "nudge")
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// expectBoth expects two answers in any order.
func (p *peer) expectBoth(t *testing.T, one, other string) {
	t.Helper()
	first, err := p.receive()
	if err != nil {
		t.Fatalf("%v, want %s and %s%s", err, shortened(one), shortened(other), p.state(err))
	}
	switch first {
	case one:
		p.expect(t, other)
	case other:
		p.expect(t, one)
	default:
		t.Fatalf("got %s, want %s or %s", shortened(first), shortened(one), shortened(other))
	}
}

// expectNothingMore makes sure that the last answers were the last.
func (p *peer) expectNothingMore(t *testing.T) {
	t.Helper()
	p.ask(t, "echo and no more", "and no more")
}

func testPromptIdle(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = time.Hour
	s := f.start(t, a, options())
	p := s.connect(t)
	n := p.note(t, "n")
	for i := range 50 {
		if i%2 == 0 { // else the connection may be on its way to the wait
			s.eventuallyIdle(t, 1)
		}
		p.expect(t, n.say())
		if i%5 == 0 {
			p.ask(t, "echo x", "x")
		}
	}
	p.expectNothingMore(t)
}

// testPromptWithInput is all that can be had where waits cannot be interrupted:
// whatever happens, a prompt is honoured with the next input at the latest.
func testPromptWithInput(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	n := p.note(t, "n")
	for range 20 {
		want := n.say()
		sent := p.sendLater(frames("echo x"))
		p.expectBoth(t, want, "x")
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	p.expectNothingMore(t)
}

func testPromptPartial(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	n := p.note(t, "n")
	input := frames("echo hello")
	for split := 1; split < len(input); split++ {
		fed := s.fed.Load()
		p.send(t, input[:split])
		s.eventually(t, "input was taken", func() bool { return s.fed.Load() == fed+int64(split) })
		want := n.say()
		if f.offers(deadlines) {
			p.expect(t, want)
		}
		sent := p.sendLater(input[split:])
		if f.offers(deadlines) {
			p.expect(t, "hello")
		} else {
			p.expectBoth(t, want, "hello")
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	p.expectNothingMore(t)
}

// testPromptInRun prompts many times during one Run: one call of Prompted is
// the answer to all.
func testPromptInRun(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	n := p.note(t, "n")
	for round := range int64(5) {
		key := fmt.Sprint("round ", round)
		p.send(t, frames("wait "+fmt.Sprint(round)))
		s.awaitGate(t, fmt.Sprint(round))
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					n.say()
				}
			})
		}
		wg.Wait()
		if calls := n.calls.Load(); calls != round {
			t.Fatalf("%s: Prompted called %d times before Run ended", key, calls)
		}
		s.gate(fmt.Sprint(round)).release()
		p.expect(t, "waited")
		p.expectSaid(t, f, said((round+1)*200))
		p.expectNothingMore(t)
		if calls := n.calls.Load(); calls != round+1 {
			t.Fatalf("%s: Prompted called %d times for prompts during one Run", key, calls-round)
		}
	}
}

// testPromptInPrompted prompts while Prompted is going on: that may not count
// as done already.
func testPromptInPrompted(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	n := p.note(t, "n")
	inside := s.gate("inside")
	n.answers(func(_ *session, out []byte) ([]byte, engine.Next) {
		v := n.value.Load()
		if v == 1 {
			inside.pass()
		}
		return appendFrame(out, said(v)), engine.Read
	})
	first := n.say()
	s.awaitGate(t, "inside")
	second := n.say()
	inside.release()
	p.expect(t, first, second)
	p.expectNothingMore(t)
}

func testPromptFromRun(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	p.note(t, "n")
	for i := range int64(20) {
		p.ask(t, "prompt", "before "+said(i+1))
		p.expectSaid(t, f, said(i+1))
	}
	p.expectNothingMore(t)
}

// testPromptReadInRun prompts while a Run waits for input, watches for the
// peer's end, or both: it must not take the interruption for anything.
func testPromptReadInRun(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle = time.Hour
	s := f.start(t, a, options())
	p := s.connect(t)
	n := p.note(t, "n")
	body := pattern(1000)
	for _, command := range []string{"read 1000", "fill 1000", "blocking echo 1000", "gone read 1000"} {
		runs := s.runs.Load()
		p.send(t, append(frames(command), body[:10]...))
		s.eventually(t, "Run", func() bool { return s.runs.Load() == runs+1 })
		var want string
		for range 20 {
			want = n.say()
			pause()
		}
		sent := p.sendLater(body[10:])
		switch command {
		case "blocking echo 1000":
			p.expect(t, string(body))
		case "gone read 1000":
			p.expect(t, digest(body), "quiet")
		default:
			p.expect(t, digest(body))
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		p.expectSaid(t, f, want)
		p.expectNothingMore(t)
	}
}

func testPromptInOpen(t *testing.T, f *fixture) {
	for _, first := range []engine.Next{engine.Read, engine.Detach} {
		a := newAcceptor()
		a.start = &first
		a.detached = echoUntilEnd
		a.promptOnOpen = a.note("n")
		s := f.start(t, a, options())
		p := s.connect(t)
		if first == engine.Detach {
			p.exchange(t, "", "nobody is prompted any more")
		} else {
			p.expectSaid(t, f, said(1))
			p.expectNothingMore(t)
		}
		_ = p.Close()
	}
}

// testPromptMute prompts a protocol that does not implement engine.Prompted.
func testPromptMute(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.mute = true
	a.idle = time.Hour
	s := f.start(t, a, options())
	p := s.connect(t)
	n := p.note(t, "n")
	for range 20 {
		n.prompt()
		p.ask(t, "echo x", "x")
		s.eventuallyIdle(t, 1)
		n.prompt()
	}
	p.expectNothingMore(t)
	if n.calls.Load() != 0 {
		t.Error("Prompted was called")
	}
}

// testPromptsFromEverywhere prompts from many goroutines while the connection
// is busy with other things. What was said last must arrive.
func testPromptsFromEverywhere(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	const clients, goroutines, times = 4, 4, 100
	var all sync.WaitGroup
	for client := range clients {
		p := s.connect(t)
		n := p.note(t, fmt.Sprint("client ", client))
		var prompts sync.WaitGroup
		for range goroutines {
			prompts.Go(func() {
				for range times {
					n.say()
				}
			})
		}
		all.Go(func() { p.listen(t, f, &prompts, said(goroutines*times)) })
	}
	all.Wait()
}

// listen sends requests while a session is prompted, and afterwards waits for
// its last word.
func (p *peer) listen(t *testing.T, f *fixture, prompts *sync.WaitGroup, last string) {
	var heard string
	ask := func(text string) {
		sent := p.sendLater(frames("echo " + text))
		for {
			got, err := p.receive()
			if err != nil {
				t.Errorf("%v, want %s", err, text)
				return
			}
			if got == text {
				break
			}
			heard = got
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	for i := 0; i < 50 && !t.Failed(); i++ {
		ask(fmt.Sprint("text ", i))
	}
	prompts.Wait()
	for heard != last && !t.Failed() {
		if !f.offers(deadlines) {
			ask("nudge")
			if heard == last {
				return
			}
			ask("nudge") // the prompt may have come behind the first
			if heard != last {
				t.Errorf("the last word was %q, want %q", heard, last)
			}
			return
		}
		got, err := p.receive()
		if err != nil {
			t.Errorf("%v after %q, want %q%s", err, heard, last, p.state(err))
			return
		}
		heard = got
	}
}

// testPromptedOutput answers with more than goes without waiting, by each way
// there is, at each stage of a connection.
func testPromptedOutput(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	n := p.note(t, "n")
	type answer func(*session, []byte) ([]byte, engine.Next)
	for i, way := range []answer{
		func(_ *session, out []byte) ([]byte, engine.Next) {
			return appendFrame(out, patternText(3<<20)), engine.Read
		},
		func(s *session, out []byte) ([]byte, engine.Next) { return s.writeChunks(out, 96, 32<<10) },
		func(s *session, out []byte) ([]byte, engine.Next) { return s.gather(out, 96, 32<<10) },
		func(s *session, out []byte) ([]byte, engine.Next) {
			s.extra = "big 3145728"
			return out, engine.Run
		},
	} {
		n.answers(way)
		n.prompt()
		p.expectSaid(t, f, patternText(3<<20))
		p.expectNothingMore(t)
		if calls := n.calls.Load(); calls != int64(i+1) {
			t.Errorf("Prompted called %d times for %d prompts", calls, i+1)
		}
	}
}

// testPromptBehindOutput prompts while output waits for the peer.
func testPromptBehindOutput(t *testing.T, f *fixture) {
	s := f.start(t, newAcceptor(), options())
	p := s.connect(t)
	n := p.note(t, "n")
	const size = 12 << 20 // more than any socket holds
	runs := s.runs.Load()
	p.send(t, frames(fmt.Sprint("big ", size)))
	s.eventually(t, "Run", func() bool { return s.runs.Load() == runs+1 })
	var want string
	for range 50 {
		want = n.say()
		pause()
	}
	if n.calls.Load() != 0 {
		t.Error("Prompted was called before the output was written")
	}
	p.expect(t, patternText(size))
	p.expectSaid(t, f, want)
	p.expectNothingMore(t)
	if calls := n.calls.Load(); calls != 1 {
		t.Errorf("Prompted was called %d times", calls)
	}
}

// testPromptDeadline prompts so often that a deadline which started anew with
// each prompt would never pass. The session checks that it is not early.
func testPromptDeadline(t *testing.T, f *fixture) {
	testPromptsUntilTimeout(t, f, newAcceptor(), frames("idle 400"), "patient")
}

func testPromptHeadDeadline(t *testing.T, f *fixture) {
	a := newAcceptor()
	a.idle, a.head = time.Hour, 100*time.Millisecond
	testPromptsUntilTimeout(t, f, a, append(frames("echo x"), "5:ech"...), "x")
}

func testPromptsUntilTimeout(t *testing.T, f *fixture, a *acceptor, input []byte, answer string) {
	s := f.start(t, a, options())
	p := s.connect(t)
	n := p.note(t, "n")
	p.send(t, input)
	p.expect(t, answer)
	stop := make(chan struct{})
	var prompts sync.WaitGroup
	defer prompts.Wait()
	defer close(stop)
	prompts.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				n.say()
				pause()
			}
		}
	})
	for count := 0; ; count++ {
		got, err := p.receive()
		if err != nil {
			t.Fatalf("%v after %d prompts%s", err, count, p.state(err))
		}
		if got == "timeout" {
			break
		}
	}
	p.expectEnd(t)
}
