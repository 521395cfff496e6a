package netconn

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A politeProtocol says "goodbye" when it is prompted, and ends.
type politeProtocol struct{ lineProtocol }

func (p *politeProtocol) Open(engine.Conn) (engine.Protocol, []byte) { return p, nil }

func (p *politeProtocol) Capabilities() engine.Capabilities {
	return engine.CanPrompt | engine.SaysGoodbye
}

func (p *politeProtocol) Prompted(out []byte) ([]byte, engine.Next) {
	return append(out, "goodbye"...), engine.Close
}

// A lateConn notices a read deadline late, as on a busy machine.
type lateConn struct {
	net.Conn
	by time.Duration
}

func (c lateConn) SetReadDeadline(t time.Time) error {
	time.AfterFunc(c.by, func() { _ = c.Conn.SetReadDeadline(t) })
	return nil
}

// TestGoodbyeOnBusyMachine: a connection that notices Shutdown late still says goodbye. One that
// does not notice it is closed.
func TestGoodbyeOnBusyMachine(t *testing.T) {
	for _, c := range []struct {
		by, ends time.Duration
		says     string
	}{
		{0, 0, "goodbye"}, {time.Second, time.Second, "goodbye"}, {time.Hour, goodbyePatience, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := New(engine.Options{}).(*driver)
			client, server := net.Pipe()
			served := d.newConn(lateConn{server, c.by}, &politeProtocol{}, &engine.Hooks{})
			served.register()
			go served.run()
			synctest.Wait()
			began := time.Now()
			go func() { _ = d.Shutdown(context.Background()) }()
			said, err := io.ReadAll(client)
			if ended := time.Since(began); string(said) != c.says || err != nil || ended != c.ends {
				t.Errorf("late by %v: %q, %v, the end after %v", c.by, said, err, ended)
			}
			time.Sleep(2 * time.Hour) // the timers of lateConn end
		})
	}
}
