//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

// A script is an Acceptor whose protocols do what its functions say. Input is
// left with the engine for run.
type script struct {
	opened   func(c *conn)
	run      func(c *conn, out []byte) ([]byte, engine.Next)
	timedOut func(c *conn)
	detached func(net.Conn) // nil: it is closed
	closed   func(error)
}

// Admit implements engine.Acceptor, as the other methods do.
func (s *script) Admit(net.Conn) (bool, []byte) { return true, nil }
func (s *script) Release(net.Conn)              {}
func (s *script) AcceptError(error)             {}
func (s *script) Open(c engine.Conn) (engine.Protocol, []byte) {
	if s.opened != nil {
		s.opened(c.(*conn))
	}
	return &actor{s, c.(*conn)}, nil
}

// An actor is a protocol of a script. It does not sleep.
type actor struct {
	script *script
	conn   *conn
}

func (a *actor) Capabilities() engine.Capabilities         { return engine.CanPrompt }
func (a *actor) Feed([]byte) (int, engine.Next)            { return 0, engine.Run }
func (a *actor) Run(out []byte) ([]byte, engine.Next)      { return a.script.run(a.conn, out) }
func (a *actor) Prompted(out []byte) ([]byte, engine.Next) { return out, engine.Read }
func (a *actor) Pause() bool                               { return true }
func (a *actor) HalfClosed(out []byte) []byte              { return out }
func (a *actor) Detached(c net.Conn) {
	if a.script.detached != nil {
		a.script.detached(c)
		return
	}
	c.Close()
}

func (a *actor) Closed(err error) {
	if a.script.closed != nil {
		a.script.closed(err)
	}
}

func (a *actor) TimedOut(out []byte) ([]byte, engine.Next) {
	if a.script.timedOut != nil {
		a.script.timedOut(a.conn)
	}
	return out, engine.Abort
}

// inputOf takes what the engine holds.
func inputOf(c *conn) string {
	text := string(c.Buffered())
	c.Discard(len(text))
	return text
}

// newEngine returns an engine over a pollSource.
func newEngine(options engine.Options, fallback engine.Engine) (engine.Engine, error) {
	return New("poll", newPollSource(), options, fallback)
}

// serveOn has an engine serve ln until the test ends.
func serveOn(t testing.TB, ln net.Listener, a engine.Acceptor, options engine.Options) *driver {
	t.Helper()
	return serveOver(t, newPollSource(), ln, a, options)
}

func serveOver(t testing.TB, source Source, ln net.Listener, a engine.Acceptor, options engine.Options) *driver {
	t.Helper()
	e, err := New("poll", source, options, netconn.New(options))
	if err != nil {
		t.Fatal(err)
	}
	serveIn(t, e.(*driver), ln, a)
	return e.(*driver)
}

// serveIn has e serve ln until the test ends.
func serveIn(t testing.TB, e *driver, ln net.Listener, a engine.Acceptor) {
	t.Helper()
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln, a) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-served
		_ = ln.Close()
	})
}
