package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
)

// Serving is what a server serves with: its engine and its listeners. The zero value has
// none. The Mutex guards Engine, and what the server changes together with it.
type Serving struct {
	sync.Mutex
	Engine    Engine                     // nil: there is none
	listeners map[*net.Listener]struct{} // by address: listener types need not be comparable
	draining  []Engine                   // engines that were shut down and have not ended
}

// BeginLocked adds ln, until End; the lock is held. The Shutdown that ends the engine that the
// caller then uses closes ln, and no other one does.
func (s *Serving) BeginLocked(ln *net.Listener) {
	if s.listeners == nil {
		s.listeners = make(map[*net.Listener]struct{})
	}
	s.listeners[ln] = struct{}{}
}

// End removes what Begin added.
func (s *Serving) End(ln *net.Listener) {
	s.Lock()
	defer s.Unlock()
	delete(s.listeners, ln)
}

// Counts returns the numbers of listeners and of engines that were shut down and have not
// ended.
func (s *Serving) Counts() (listeners, draining int) {
	s.Lock()
	defer s.Unlock()
	return len(s.listeners), len(s.draining)
}

// ServeError returns what Serve of a server returns: nil for an orderly end, in which the
// listener was closed, or Shutdown was called before the engine used it, and err otherwise.
func ServeError(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) || err == ErrShutdown {
		return nil
	}
	return err
}

// Shutdown closes the listeners, and shuts down the engine and those of earlier calls that
// have not ended. It first calls stop with the engine, nil if there is none, and with the
// lock: the server may serve again at once, with another engine. It calls notify with an
// engine, without the lock, after the listeners are closed.
func (s *Serving) Shutdown(ctx context.Context, stop, notify func(Engine)) error {
	s.Lock()
	e := s.Engine
	s.Engine = nil
	if e != nil {
		s.draining = append(s.draining, e)
	}
	stop(e)
	draining := slices.Clone(s.draining)
	listeners := s.listeners
	s.listeners = nil
	s.Unlock()
	var firstErr, timeout error
	for ln := range listeners {
		if err := (*ln).Close(); err != nil && !errors.Is(err, net.ErrClosed) && firstErr == nil {
			firstErr = err
		}
	}
	if e != nil {
		notify(e)
	}
	for _, e := range slices.Backward(draining) { // the latest first: the others are already shutting down
		if err := e.Shutdown(ctx); err != nil {
			timeout = err
			continue
		}
		s.Lock()
		s.draining = slices.DeleteFunc(s.draining, func(other Engine) bool { return other == e })
		s.Unlock()
	}
	if timeout != nil {
		return timeout
	}
	return firstErr
}
