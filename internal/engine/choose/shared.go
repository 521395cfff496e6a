package choose

import (
	"context"
	"sync"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A Shared is an engine for connections that a program dials. It exists while it is held. The
// zero value is ready.
type Shared struct {
	mu     sync.Mutex
	engine engine.Engine // nil: it is not held
	holds  int
}

// Hold returns the engine, which exists until as many calls of Release: the event engine, or
// that of goroutines where there is none.
func (s *Shared) Hold() engine.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.engine == nil {
		s.engine, _ = New(engine.Options{}, true)
	}
	s.holds++
	return s.engine
}

// Release undoes a Hold. The last one shuts the engine down, so that it must not have
// connections any more.
func (s *Shared) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds--; s.holds > 0 {
		return
	}
	// Not here: this may be the engine's goroutine.
	go func(e engine.Engine) { _ = e.Shutdown(context.Background()) }(s.engine)
	s.engine = nil
}
