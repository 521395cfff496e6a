package enginetest

import (
	"errors"
	"runtime"
	"strings"
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A multiplexer is a session with several requests at once, as HTTP/2 has them.
// Each frame is "ID COMMAND" and is handled by a Task; its answer, "ID RESULT", is
// sent when it is ready, before or after those of other frames.
type multiplexer struct {
	*session
	workers  engine.Workers
	prompter engine.Prompter

	mu      sync.Mutex
	begun   int                      // Tasks that have no answer yet
	answers []byte                   // not sent yet
	signals map[string]chan struct{} // of "await"; closed by "signal"
}

func newMultiplexer(s *session) *multiplexer {
	return &multiplexer{
		session: s, workers: s.conn.Workers(), prompter: s.conn.Prompter(),
		signals: make(map[string]chan struct{}),
	}
}

// Capabilities implements engine.Protocol.
func (m *multiplexer) Capabilities() engine.Capabilities {
	can := engine.CanPrompt | engine.NeverBlocks
	if m.acceptor.isDuplex {
		can |= engine.IsDuplex
	}
	return can
}

// Feed implements engine.Protocol. It begins a Task for every frame.
func (m *multiplexer) Feed(in []byte) (int, engine.Next) {
	defer m.enter("Feed")()
	if m.silent {
		m.acceptor.violate("Feed called although no input was wanted")
	}
	m.acceptor.fed.Add(int64(len(in)))
	next := engine.Read
	for rest := in; len(rest) > 0; {
		used, complete := m.parse(rest)
		rest = rest[used:]
		if !complete {
			break
		}
		switch {
		case string(m.payload) == "bye": // what follows is not for anybody
			m.silent = true
			return len(in) - len(rest), engine.Close
		case m.begin(string(m.payload)):
			next = engine.Run
		}
	}
	m.wantsRun = m.wantsRun || next == engine.Run
	return len(in), next
}

// begin begins the work for a frame. True: there is something to say at once.
func (m *multiplexer) begin(frame string) (hasOutput bool) {
	id, command, _ := strings.Cut(frame, " ")
	m.mu.Lock()
	defer m.mu.Unlock()
	if name, isSignal := strings.CutPrefix(command, "signal "); isSignal {
		close(m.signalLocked(name))
		m.answers = appendFrame(m.answers, id+" signalled")
		return true
	}
	m.begun++
	m.workers.Go(&task{m, id, command})
	return false
}

// signalLocked returns the signal of that name; mu is held.
func (m *multiplexer) signalLocked(name string) chan struct{} {
	c := m.signals[name]
	if c == nil {
		c = make(chan struct{})
		m.signals[name] = c
	}
	return c
}

// Run implements engine.Protocol.
func (m *multiplexer) Run(out []byte) ([]byte, engine.Next) {
	defer m.enter("Run")()
	if !m.wantsRun {
		m.acceptor.violate("Run called although none was wanted")
	}
	m.wantsRun = false
	m.acceptor.runs.Add(1)
	return m.say(out)
}

// Prompted implements engine.Prompted.
func (m *multiplexer) Prompted(out []byte) ([]byte, engine.Next) {
	defer m.enter("Prompted")()
	return m.say(out)
}

// say sends the answers that there are.
func (m *multiplexer) say(out []byte) ([]byte, engine.Next) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out = append(out, m.answers...)
	m.answers = nil
	if m.begun == 0 && m.acceptor.engine.Life().Has(engine.StageClosing) {
		m.silent = true
		return out, engine.Close
	}
	return out, engine.Read
}

// Pause implements engine.Protocol.
func (m *multiplexer) Pause() (isIdle bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session.Pause() && m.begun == 0 && len(m.answers) == 0
}

// A task handles one frame.
type task struct {
	session *multiplexer
	id      string
	command string
}

// Run implements engine.Task.
func (t *task) Run() {
	m := t.session
	name, rest, _ := strings.Cut(t.command, " ")
	switch name {
	case "echo":
		t.answer(rest)
	case "big":
		t.answer(patternText(number([]string{rest}, 0)))
	case "wait":
		m.acceptor.gate(rest).pass()
		t.answer("waited")
	case "await", "await-exempt": // a signal of the same connection
		m.mu.Lock()
		signal := m.signalLocked(rest)
		m.mu.Unlock()
		if name == "await-exempt" {
			m.workers.Exempt(1)
			defer m.workers.Exempt(-1)
		}
		<-signal
		t.answer("awaited")
	case "more": // Tasks of Tasks
		m.mu.Lock()
		m.begun++
		m.mu.Unlock()
		m.workers.Go(&task{m, t.id, "echo " + rest})
		t.answer("first")
	case "goexit":
		runtime.Goexit()
	case "panic":
		panic(errTask)
	default:
		m.acceptor.violate("unknown command %q", t.command)
	}
}

var errTask = errors.New("a task's panic")

// Lost implements engine.Task.
func (t *task) Lost(err error) {
	var p *engine.PanicError
	switch {
	case err == engine.ErrGoexit:
		t.answer("goexit")
	case err == engine.ErrShutdown:
		t.session.acceptor.lost.Add(1)
		t.answer("shutdown")
	case errors.As(err, &p) && p.Value == errTask:
		t.answer("panic")
	default:
		t.session.acceptor.violate("Lost(%v)", err)
	}
}

// answer hands in the result.
func (t *task) answer(text string) {
	m := t.session
	m.mu.Lock()
	m.begun--
	m.answers = appendFrame(m.answers, t.id+" "+text)
	m.acceptor.answered.Add(1) // before a Run may send the answer
	m.mu.Unlock()
	m.prompter.Prompt()
}
