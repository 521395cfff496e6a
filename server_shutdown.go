package sluice

import (
	"context"

	"github.com/sluicehttp/sluice/internal/engine"
)

// Shutdown is ShutdownWithContext without a time limit.
func (s *Server) Shutdown() error { return s.ShutdownWithContext(context.Background()) }

// ShutdownWithContext closes the listeners and the idle connections at once,
// and closes the Done channels of running requests. It waits until these
// requests are answered, with "Connection: close". When ctx ends, it closes the
// connections that are left and returns ctx's error. It does not wait for
// hijacked connections.
//
// Concurrent calls wait for the same end, each until its own ctx ends; the
// first ctx that ends closes what is left. Afterwards the Server may serve
// again.
func (s *Server) ShutdownWithContext(ctx context.Context) error {
	return s.state.Shutdown(ctx, func(e engine.Engine) {
		if e != nil {
			e.CloseOnNextResponse()
			s.gauges.isClosing.Store(true)
			s.done.Close()
		}
		s.state.adopting = nil
		s.state.isShutDown = true
	}, func(e engine.Engine) {
		if !s.HTTP2.Disable || !s.upgrades.IsEmpty() {
			nudge(ctx, e) // so that connections of HTTP/2 and WebSockets tell their clients
		}
	})
}

// nudge is e.Nudge, which takes seconds where there are a million connections. It returns
// when ctx ends.
func nudge(ctx context.Context, e engine.Engine) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Nudge()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// closeRequested reports whether connections must close after their next
// response.
func (s *Server) closeRequested() bool { return s.gauges.isClosing.Load() }
