package enginetest

import (
	"fmt"
	"net"
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
	detached          func(net.Conn)

	admitted, released, opened, closed atomic.Int64
	fed, runs, timeouts, pauses        atomic.Int64
	acceptErrors                       atomic.Int64

	mu     sync.Mutex
	gates  map[string]*gate
	wrong  []string
	errors []error // of Closed
}

// A gate lets a session's Run wait for the test.
type gate struct {
	entered chan struct{} // closed when the Run is there
	open    chan struct{} // closed when it may go on
	once    sync.Once
}

func newAcceptor() *acceptor { return &acceptor{gates: make(map[string]*gate)} }

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
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

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

// Admit implements engine.Acceptor.
func (a *acceptor) Admit(net.Conn) (bool, []byte) {
	if a.admit != nil && !a.admit() {
		return false, []byte(a.refusal)
	}
	a.admitted.Add(1)
	return true, nil
}

// Release implements engine.Acceptor.
func (a *acceptor) Release(net.Conn) { a.released.Add(1) }

// AcceptError implements engine.Acceptor.
func (a *acceptor) AcceptError(error) { a.acceptErrors.Add(1) }

// Open implements engine.Acceptor.
func (a *acceptor) Open(c engine.Conn) (engine.Protocol, []byte) {
	if a.refuseOpen {
		return nil, []byte(a.refusal)
	}
	if c.LocalAddr() == nil || c.RemoteAddr() == nil || c.NetConn() == nil {
		a.violate("Open got a connection without addresses")
	}
	a.opened.Add(1)
	s := &session{acceptor: a, conn: c}
	s.await(a.idle)
	c.SetWriteTimeout(a.write)
	if a.start != nil {
		return &starterSession{session: s}, nil
	}
	return s, nil
}
