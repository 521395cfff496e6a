package enginetest

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// An acceptor implements engine.Acceptor with sessions, and keeps books. Its
// settings are made before Serve.
type acceptor struct {
	engine engine.Engine

	idle, head, write time.Duration // SetReadDeadline between and within frames; SetWriteTimeout
	admit             func() bool
	refusal           string
	refuseOpen        bool
	start             *engine.Next // what sessions' Start returns; nil: they have none
	sleeps            bool         // sessions are Sleepers
	rewinds           bool         // sessions give the head of a frame back
	mute              bool         // sessions are not Prompted
	parting           parting      // how sessions part
	multiplexes       bool         // sessions are multiplexers
	isDuplex          bool         // they are fed while output waits
	valves            chan *valve  // Protocols are valves, which come here; nil: they are not
	packs             bool         // sessions are Packers
	stays             atomic.Bool  // but Pack refuses
	room              int          // sessions are Receivers with rooms of so many bytes; 0: no
	nudged            atomic.Bool  // sessions may be Prompted that have not asked for it
	promptOnOpen      *note        // each session gets it, and is prompted at once
	detached          func(net.Conn)
	feedGate          atomic.Pointer[gate]          // the next Feed passes it
	source            *os.File                      // of the command "file"
	divert            func(fd int) bool             // nil: no
	rule              *engine.ProxyRule             // nil: there are no proxies
	saw               func(what string, c net.Conn) // is told of Admit, Open and Release; nil: not
	farewell          int                           // what TimedOut and HalfClosed send of source, bytes; 0: a word

	arrived, departed                  atomic.Int64
	admitted, released, opened, closed atomic.Int64
	slept, woken                       atomic.Int64
	fed, runs, timeouts, pauses        atomic.Int64
	acceptErrors                       atomic.Int64
	lent, returned                     atomic.Int64 // files
	packed, received                   atomic.Int64 // sessions; bytes that came into a Receiver's room
	answered, lost                     atomic.Int64 // Tasks; lost ones that never began
	ready                              atomic.Int64 // calls of WriteReady that have returned

	mu       sync.Mutex
	gates    map[string]*gate
	notes    map[string]*note
	sleeping map[uint64]sleeping // by Memo.ID
	kept     []net.Conn          // by the command "keep"
	target   engine.Target       // by the command "target", the last one
	wrong    []string
	errors   []error // of Closed
}

// A gate lets a session's Run wait for the test.
type gate struct {
	entered chan struct{} // closed when the Run is there
	open    chan struct{} // closed when it may go on
	once    sync.Once
}

func newAcceptor() *acceptor {
	return &acceptor{
		gates:    make(map[string]*gate),
		notes:    make(map[string]*note),
		sleeping: make(map[uint64]sleeping),
	}
}

// handler returns what an engine is to be given.
func (a *acceptor) handler(sleeps bool) engine.Acceptor {
	a.sleeps = sleeps
	if sleeps {
		return &waker{a}
	}
	return a
}

func (a *acceptor) gate(key string) *gate {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.gates[key]
	if g == nil {
		g = &gate{entered: make(chan struct{}), open: make(chan struct{})}
		a.gates[key] = g
	}
	return g
}

// pass is called by Run.
func (g *gate) pass() {
	close(g.entered)
	<-g.open
}

// release lets the Run at g go on.
func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

func (a *acceptor) releaseAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gates {
		g.release()
	}
}

// violate notes a breach of the seam's contract.
func (a *acceptor) violate(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wrong) < maxViolations {
		a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
	}
}

const (
	maxViolations = 50      // breaches that are worth reporting
	maxErrors     = 1 << 16 // errors of Closed that are kept
)

func (a *acceptor) violations() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.wrong...)
}

// closeErrors returns what sessions' Closed got.
func (a *acceptor) closeErrors() []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]error(nil), a.errors...)
}

// isBalanced reports whether every call that begins something has met the one
// that ends it: nobody is open, nobody was left asleep and no file is kept.
func (a *acceptor) isBalanced() bool {
	return a.arrived.Load() == a.departed.Load() && a.lent.Load() == a.returned.Load() && a.admitted.Load() == a.released.Load() && a.opened.Load() == a.closed.Load() && a.slept.Load() == a.woken.Load()
}

// books are the counters, for reports.
func (a *acceptor) books() string {
	return fmt.Sprintf("arrived %d, departed %d; admitted %d, released %d; opened %d, closed %d; slept %d, woken %d; fed %d bytes, runs %d, timeouts %d, pauses %d; files lent %d, returned %d",
		a.arrived.Load(), a.departed.Load(), a.admitted.Load(), a.released.Load(), a.opened.Load(), a.closed.Load(), a.slept.Load(), a.woken.Load(),
		a.fed.Load(), a.runs.Load(), a.timeouts.Load(), a.pauses.Load(),
		a.lent.Load(), a.returned.Load())
}

// Hooks implements engine.Hooker.
func (a *acceptor) Hooks() engine.Hooks {
	return engine.Hooks{
		Arrived:  func() { a.arrived.Add(1) },
		Departed: func() { a.departed.Add(1) },
		Divert:   a.divert,
		Proxy:    a.rule,
	}
}

// Admit implements engine.Acceptor.
func (a *acceptor) Admit(c net.Conn) (bool, []byte) {
	if a.admitted.Load() >= a.arrived.Load() {
		a.violate("Admit was called for a connection that has not arrived")
	}
	if c.LocalAddr() == nil || c.RemoteAddr() == nil {
		a.violate("Admit got a connection without addresses")
	}
	if a.admit != nil && !a.admit() {
		return false, []byte(a.refusal)
	}
	a.see("Admit", c)
	a.admitted.Add(1)
	return true, nil
}

func (a *acceptor) see(what string, c net.Conn) {
	if a.saw != nil {
		a.saw(what, c)
	}
}

// Release implements engine.Acceptor.
func (a *acceptor) Release(c net.Conn) {
	a.see("Release", c)
	a.released.Add(1)
}

// AcceptError implements engine.Acceptor.
func (a *acceptor) AcceptError(error) { a.acceptErrors.Add(1) }

// Open implements engine.Acceptor.
func (a *acceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	if a.refuseOpen {
		return nil, []byte(a.refusal)
	}
	if c.LocalAddr() == nil || c.RemoteAddr() == nil {
		a.violate("Open got a connection without addresses")
	}
	// Engines may make NetConn when it is asked for: most connections of most
	// servers never ask.
	if a.opened.Add(1)%4 == 0 {
		nc := c.NetConn()
		if nc == nil {
			a.violate("Open got a connection without NetConn")
		}
		if _, isTLS := nc.(*tls.Conn); isTLS && c.IsSocket() {
			a.violate("IsSocket is true for a %T", nc)
		}
	}
	if a.saw != nil {
		a.saw("Open", c.NetConn())
		if remote := c.RemoteAddr(); remote.String() != c.NetConn().RemoteAddr().String() {
			a.violate("RemoteAddr is %v, and NetConn's %v", remote, c.NetConn().RemoteAddr())
		}
	}
	s := &session{acceptor: a, conn: c}
	s.await(a.idle)
	c.SetWriteTimeout(a.write)
	if n := a.promptOnOpen; n != nil {
		s.keeps.note = n
		n.hold(c.Prompter())
		n.say()
	}
	return a.protocol(s), nil
}

// protocol returns s with the abilities that sessions have.
func (a *acceptor) protocol(s *session) engine.Protocol {
	switch {
	case a.valves != nil:
		v := &valve{session: s, target: s.conn.Target()}
		a.valves <- v
		return v
	case a.mute:
		return s
	case a.multiplexes:
		return newMultiplexer(s)
	case a.sleeps:
		return &sleeperSession{starterSession: starterSession{session: s}}
	case a.start != nil:
		return &starterSession{session: s}
	}
	return s
}

// forget drops a note that nobody will ask for again.
func (a *acceptor) forget(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.notes, key)
}

// keep holds on to what NetConn returned.
func (a *acceptor) keep(nc net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, nc)
}
