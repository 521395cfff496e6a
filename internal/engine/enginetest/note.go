package enginetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A note is what a session says when it is prompted: "prompted" and the number
// of things said so far, unless the test has another answer.
type note struct {
	asked atomic.Int64 // calls of Prompt
	calls atomic.Int64 // calls of Prompted
	value atomic.Int64 // what is to be said

	mu       sync.Mutex
	prompter engine.Prompter
	answer   func(s *session, out []byte) ([]byte, engine.Next)
}

// note returns the acceptor's note of that name.
func (a *acceptor) note(key string) *note {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.notes[key]
	if n == nil {
		n = &note{}
		a.notes[key] = n
	}
	return n
}

func (n *note) hold(p engine.Prompter) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.prompter = p
}

// answers sets what Prompted does from now on.
func (n *note) answers(f func(s *session, out []byte) ([]byte, engine.Next)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = f
}

// prompt has the session prompted.
func (n *note) prompt() {
	n.mu.Lock()
	p := n.prompter
	n.mu.Unlock()
	n.asked.Add(1)
	p.Prompt()
}

// say has the session say something new, and returns what it has to say at last.
func (n *note) say() string {
	v := n.value.Add(1)
	n.prompt()
	return said(v)
}

func said(v int64) string { return fmt.Sprint("prompted ", v) }

// Prompted implements engine.Prompted.
func (s *session) Prompted(out []byte) ([]byte, engine.Next) {
	defer s.enter("Prompted")()
	a := s.acceptor
	if s.wantsRun {
		a.violate("Prompted called although Run was wanted")
	}
	if s.silent {
		a.violate("Prompted called after the last answer")
	}
	if len(out) > 0 {
		a.violate("Prompted called with %d bytes pending", len(out))
	}
	n := s.keeps.note
	if a.parting != partsSilently && a.engine.Life().Has(engine.StageClosing) {
		return s.part(out)
	}
	if n == nil && a.nudged.Load() {
		return appendFrame(out, "nudged"), engine.Read
	}
	if n == nil {
		a.violate("Prompted called on a connection whose Prompter nobody has")
		return out, engine.Read
	}
	if calls, asked := n.calls.Add(1), n.asked.Load(); calls > asked {
		a.violate("Prompted called %d times for %d calls of Prompt", calls, asked)
	}
	n.mu.Lock()
	answer := n.answer
	n.mu.Unlock()
	if answer == nil {
		return appendFrame(out, said(n.value.Load())), engine.Read
	}
	out, next := answer(s, out)
	s.silent = next != engine.Read
	s.wantsRun = next == engine.Run
	return out, next
}
