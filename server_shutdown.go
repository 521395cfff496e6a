package sluice

import (
	"context"
	"slices"

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
//
// A protocol that is attached to the Server, HTTP/3, ends in the same way and at the same time.
func (s *Server) ShutdownWithContext(ctx context.Context) error {
	var leaving []*attachment
	var stopWaiting func() bool
	err := s.state.Shutdown(ctx, func(e engine.Engine) {
		if e != nil {
			e.CloseOnNextResponse()
			s.gauges.isClosing.Store(true)
			s.done.Close()
		}
		s.state.adopting = nil
		s.gauges.altSvc.Store(nil)
		s.state.isShutDown = true
		for _, a := range s.state.attached {
			a.beginEnd()
		}
		s.state.leaving = append(s.state.leaving, s.state.attached...)
		s.state.attached = nil
		leaving = slices.Clone(s.state.leaving)
		stopWaiting = context.AfterFunc(ctx, func() {
			for _, a := range leaving {
				a.cut()
			}
		})
	}, func(e engine.Engine) {
		if !s.HTTP2.Disable || !s.upgrades.IsEmpty() {
			nudge(ctx, e) // so that connections of HTTP/2 and WebSockets tell their clients
		}
	})
	for _, a := range leaving {
		<-a.ended
		if a.err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	stopWaiting()
	s.state.Lock()
	defer s.state.Unlock()
	s.state.leaving = slices.DeleteFunc(s.state.leaving, func(a *attachment) bool { return slices.Contains(leaving, a) })
	return err
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
