package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// taskScenarios are for Protocols that leave their work to Tasks. Answers come by
// prompts, which only input interrupts where there are no deadlines.
func taskScenarios() []scenario {
	return []scenario{
		{"tasks", testTasks, deadlines},
		{"tasks that block", testTasksBlock, deadlines | contended},
		{"tasks that wait for their connection", testTasksAwaitInput, deadlines},
		{"exempt tasks", testTasksExempt, deadlines},
		{"tasks that end badly", testTasksLost, deadlines},
		{"tasks outlive their connection", testTasksOutlive, deadlines},
		{"shutdown waits for tasks", testTasksShutdown, deadlines},
		{"shutdown gives up tasks", testTasksGivenUp, deadlines},
		{"tasks without a connection", testTasksAlone, bare},
	}
}

// startMultiplexer starts a server whose sessions are multiplexers.
func (f *fixture) startMultiplexer(t *testing.T, maxWorkers int) *server {
	t.Helper()
	a := newAcceptor()
	a.multiplexes = true
	o := options()
	o.MaxWorkers, o.Loops = maxWorkers, 1
	return f.start(t, a, o)
}

// expectAll expects answers in any order.
func (p *peer) expectAll(t *testing.T, want ...string) {
	t.Helper()
	missing := make(map[string]int)
	for _, w := range want {
		missing[w]++
	}
	for range want {
		got, err := p.receive()
		if err != nil {
			t.Fatalf("%v; missing %s%s", err, shortened(fmt.Sprint(slices.Collect(maps.Keys(missing)))), p.state(err))
		}
		if missing[got]--; missing[got] < 0 {
			t.Fatalf("answer %s was not expected", shortened(got))
		}
		if missing[got] == 0 {
			delete(missing, got)
		}
	}
}

// testTasks has many connections with many requests at once.
func testTasks(t *testing.T, f *fixture) {
	for _, maxWorkers := range []int{0, 1, 3} {
		s := f.startMultiplexer(t, maxWorkers)
		for range 3 {
			p := s.connect(t)
			var commands, want []string
			for i := range 50 {
				commands = append(commands, fmt.Sprintf("%d echo text", i))
				want = append(want, fmt.Sprintf("%d text", i))
			}
			p.sendLater(frames(append(commands, "a more x", "b signal s", "c big 100000")...))
			p.expectAll(t, append(want, "a first", "a x", "b signalled", "c "+patternText(100000))...)
		}
		s.eventuallyIdle(t, 3)
	}
}

// testTasksBlock has 3 of 100 tasks block for as long as the test takes.
func testTasksBlock(t *testing.T, f *fixture) {
	for _, maxWorkers := range []int{0, 4} {
		s := f.startMultiplexer(t, maxWorkers)
		p := s.connect(t)
		var commands, want []string
		for i := range 100 {
			if i%40 == 7 {
				commands = append(commands, fmt.Sprintf("%d wait %d", i, i))
				continue
			}
			commands = append(commands, fmt.Sprintf("%d echo text", i))
			want = append(want, fmt.Sprintf("%d text", i))
		}
		p.sendLater(frames(commands...))
		p.expectAll(t, want...)
		s.eventually(t, "3 tasks are active", func() bool { return s.answered.Load() == 97 && s.stats().Active >= 3 })
		other := s.connect(t)
		other.ask(t, "1 echo x", "1 x")
		for _, key := range []string{"7", "47", "87"} {
			s.gate(key).release()
		}
		p.expectAll(t, "7 waited", "47 waited", "87 waited")
		s.eventuallyIdle(t, 2)
	}
}

// testTasksAwaitInput has as many tasks as there may be workers wait for what their
// own connection is sent later.
func testTasksAwaitInput(t *testing.T, f *fixture) {
	s := f.startMultiplexer(t, 2)
	p, other := s.connect(t), s.connect(t)
	p.send(t, frames("1 await x", "2 await x"))
	s.eventually(t, "both are active", func() bool { return s.stats().Active >= 2 })
	other.send(t, frames("1 echo x")) // waits for a worker
	p.send(t, frames("3 signal x"))
	p.expectAll(t, "1 awaited", "2 awaited", "3 signalled")
	other.expect(t, "1 x")
	s.eventuallyIdle(t, 2)
}

// testTasksExempt has tasks that are exempt leave room for others.
func testTasksExempt(t *testing.T, f *fixture) {
	s := f.startMultiplexer(t, 2)
	p := s.connect(t)
	var commands, want []string
	for i := range 10 {
		commands = append(commands, fmt.Sprintf("%d await-exempt x", i))
		want = append(want, fmt.Sprintf("%d awaited", i))
	}
	p.sendLater(frames(append(commands, "a echo a", "b wait here", "c echo c")...))
	p.expectAll(t, "a a", "c c")
	p.send(t, frames("d signal x"))
	p.expectAll(t, append(want, "d signalled")...)
	s.gate("here").release()
	p.expect(t, "b waited")
	// None is exempt any more: two at a time.
	p.sendLater(frames("e wait e", "f wait f", "g echo g"))
	s.awaitGate(t, "e")
	s.awaitGate(t, "f")
	if s.answered.Load() != 13 {
		t.Errorf("%d answers, want 13: a third task ran", s.answered.Load())
	}
	s.gate("f").release()
	p.expectAll(t, "f waited", "g g")
	s.gate("e").release()
	p.expect(t, "e waited")
}

// testTasksLost has tasks end their goroutines. The connection goes on.
func testTasksLost(t *testing.T, f *fixture) {
	for _, maxWorkers := range []int{0, 1} {
		s := f.startMultiplexer(t, maxWorkers)
		p := s.connect(t)
		for range 5 {
			p.sendLater(frames("1 goexit", "2 panic", "3 echo x", "4 goexit"))
			p.expectAll(t, "1 goexit", "2 panic", "3 x", "4 goexit")
		}
		s.eventuallyIdle(t, 1)
	}
}

// testTasksOutlive closes a connection whose task is not done.
func testTasksOutlive(t *testing.T, f *fixture) {
	s := f.startMultiplexer(t, 0)
	p := s.connect(t)
	p.send(t, frames("1 wait here"))
	s.awaitGate(t, "here")
	_ = p.Close()
	s.eventually(t, "only the task remains", func() bool { return s.stats() == engine.Stats{Active: 1} })
	next := s.connect(t)
	next.ask(t, "1 echo x", "1 x") // perhaps on the same descriptor
	done := s.beginShutdown(t)
	next.expectEnd(t)
	_ = next.Close()
	s.eventually(t, "the connections are closed", func() bool { return s.stats().Open == 0 })
	select {
	case <-done:
		t.Error("Shutdown did not wait for the task")
	default:
	}
	s.releaseAll()
	<-done
}

// testTasksShutdown has Shutdown wait for requests and their answers.
func testTasksShutdown(t *testing.T, f *fixture) {
	s := f.startMultiplexer(t, 1)
	p := s.connect(t)
	p.send(t, frames("1 wait here", "2 echo x"))
	s.awaitGate(t, "here")
	done := s.beginShutdown(t)
	s.releaseAll()
	p.expectAll(t, "1 waited", "2 x")
	p.expectEnd(t)
	<-done
}

// testTasksGivenUp has Shutdown end before its tasks.
func testTasksGivenUp(t *testing.T, f *fixture) {
	s := f.startMultiplexer(t, 1)
	p := s.connect(t)
	p.send(t, frames("1 wait here", "2 echo x", "3 echo x"))
	s.awaitGate(t, "here")
	s.eventually(t, "all are fed", func() bool { return s.stats().Active >= 3 })
	s.giveUp(t)
	s.eventually(t, "the queued tasks are lost", func() bool { return s.lost.Load() == 2 })
	s.releaseAll()
	s.eventually(t, "nothing is left", func() bool { return s.stats() == engine.Stats{} })
}

// A lone Task is of no connection.
type lone struct {
	run  func()
	lost chan error
}

// Run implements engine.Task.
func (l *lone) Run() { l.run() }

// Lost implements engine.Task.
func (l *lone) Lost(err error) { l.lost <- err }

// testTasksAlone has tasks on an engine that serves nothing. Shutdown waits for them and for
// those that they begin, and the others are lost.
func testTasksAlone(t *testing.T, f *fixture) {
	for _, maxWorkers := range []int{0, 1} {
		o := options()
		o.MaxWorkers, o.Loops = maxWorkers, 2
		e := f.newEngine(o)
		begun, gate, lost := make(chan uint64), make(chan struct{}), make(chan error, 1)
		for key := range uint64(4) {
			task := func(what uint64) *lone {
				return &lone{lost: lost, run: func() {
					begun <- what
					<-gate
				}}
			}
			e.Workers(key).Exempt(2)
			e.Workers(key).Go(task(key))
			e.Workers(key).Go(&lone{lost: lost, run: func() {
				task(key).Run()
				e.Workers(key).Go(task(key))
			}})
		}
		for range 8 {
			<-begun
		}
		if active := e.Stats().Active; active != 8 {
			t.Errorf("%d are active", active)
		}
		done := make(chan error)
		go func() { done <- e.Shutdown(t.Context()) }()
		for !e.Life().Has(engine.StageClosing) {
			time.Sleep(time.Millisecond)
		}
		for range 8 {
			gate <- struct{}{}
		}
		for range 4 { // begun during Shutdown
			<-begun
			gate <- struct{}{}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, later := range []engine.Engine{e, f.newEngine(o)} {
			_ = later.Shutdown(t.Context())
			later.Workers(3).Go(&lone{lost: lost, run: func() { t.Error("a task ran after Shutdown") }})
			if err := <-lost; err != engine.ErrShutdown {
				t.Errorf("after Shutdown: %v", err)
			}
		}
		for key := range uint64(4) {
			e.Workers(key).Exempt(-2)
		}
	}
}
