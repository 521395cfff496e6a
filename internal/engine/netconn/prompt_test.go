package netconn

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/test/nettest"
)

// patience bounds what must happen, and happens soon if all is well.
const patience = 20 * time.Second

// A promptable answers input like lineProtocol, and prompts by what said
// returns. Its fields are set before it is served; conns gets each connection.
type promptable struct {
	lineProtocol
	conn     *conn
	prompter engine.Prompter
	conns    chan *promptable
	prompted atomic.Int64
	said     func(p *promptable, out []byte) ([]byte, engine.Next)
	timeout  time.Duration
	detached chan net.Conn
}

func newPromptable() *promptable {
	return &promptable{conns: make(chan *promptable, 100), detached: make(chan net.Conn, 1)}
}

func (p *promptable) Open(c engine.Conn) (engine.Protocol, []byte) {
	// A conn is used again as soon as its connection is closed.
	opened := &promptable{conn: c.(*conn), prompter: c.Prompter(), said: p.said, timeout: p.timeout, detached: p.detached}
	c.SetReadDeadline(clock.Nanos(), p.timeout)
	p.conns <- opened
	return opened, nil
}

func (p *promptable) Capabilities() engine.Capabilities { return engine.CanPrompt }

func (p *promptable) Prompted(out []byte) ([]byte, engine.Next) {
	p.prompted.Add(1)
	if p.said == nil {
		return append(out, 'p'), engine.Read
	}
	return p.said(p, out)
}

func (p *promptable) Detached(c net.Conn) { p.detached <- c }

// kinds calls f for bare and for wrapped sockets.
func kinds(t *testing.T, f func(t *testing.T, ln net.Listener, dial func() net.Conn)) {
	for _, name := range []string{"bare", "wrapped"} {
		t.Run(name, func(t *testing.T) {
			ln, dial := listenTCP(t)
			if name == "wrapped" {
				ln = wrappingListener{ln}
			}
			f(t, ln, func() net.Conn {
				c, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				_ = c.SetDeadline(time.Now().Add(patience))
				t.Cleanup(func() { _ = c.Close() })
				return c
			})
		})
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestPromptOfAnEndedConnection: the prompter of a connection that has ended
// does not reach the next one, which has the same conn.
func TestPromptOfAnEndedConnection(t *testing.T) {
	kinds(t, func(t *testing.T, ln net.Listener, dial func() net.Conn) {
		a := newPromptable()
		serve(t, ln, a)
		old := make(map[*conn]engine.Prompter)
		for again := 0; again < 5; {
			c := dial()
			exchange(t, c, []byte{'?'})
			p := <-a.conns
			if ended := old[p.conn]; ended != nil {
				again++
				ended.Prompt()
				if p.prompter.(*prompter).wanted.Load() || ended == p.prompter {
					t.Fatal("prompted another connection")
				}
				exchange(t, c, []byte{'?'})
			}
			if p.prompted.Load() != 0 {
				t.Fatal("Prompted was called")
			}
			old[p.conn] = p.prompter
			_ = c.Close()
		}
	})
}

// TestPromptsAreNotSpurious: prompts may interrupt as often as they like, also
// where there is nothing to do for them.
func TestPromptsAreNotSpurious(t *testing.T) {
	kinds(t, func(t *testing.T, ln net.Listener, dial func() net.Conn) {
		a := newPromptable()
		a.said = func(_ *promptable, out []byte) ([]byte, engine.Next) { return out, engine.Read }
		serve(t, ln, a)
		c := dial()
		p := <-a.conns
		for i := range int64(100) {
			eventually(t, "it waits", func() bool { return p.conn.state.Load()&flagWaits != 0 })
			p.prompter.Prompt()
			eventually(t, "Prompted", func() bool { return p.prompted.Load() == i+1 })
		}
		exchange(t, c, []byte{'?'})
	})
}

// selfPrompting prompts itself over and over.
func selfPrompting(p *promptable, out []byte) ([]byte, engine.Next) {
	p.conn.Prompter().Prompt()
	return out, engine.Read
}

// TestPromptsInARow: a connection is fed as many prompts as there may be.
func TestPromptsInARow(t *testing.T) {
	kinds(t, func(t *testing.T, ln net.Listener, dial func() net.Conn) {
		a := newPromptable()
		a.said = selfPrompting
		serve(t, ln, a)
		c := dial()
		p := <-a.conns
		p.prompter.Prompt()
		eventually(t, "Prompted", func() bool { return p.prompted.Load() > 10*maxPrompts })
		for range 20 {
			exchange(t, c, []byte{'?'})
		}
	})
}

// TestPromptsInARowEnd: they do not keep a deadline from passing.
func TestPromptsInARowEnd(t *testing.T) {
	kinds(t, func(t *testing.T, ln net.Listener, dial func() net.Conn) {
		a := newPromptable()
		a.said = selfPrompting
		a.timeout = 20 * time.Millisecond
		serve(t, ln, a)
		c := dial()
		p := <-a.conns
		p.prompter.Prompt() // the connection may have ended: its conn is another one's then
		if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("%d, %v after the deadline", n, err)
		}
	})
}

// TestPromptsLetGo: nobody's connection is interrupted after it was given away,
// neither at that moment nor when its conn serves another one.
func TestPromptsLetGo(t *testing.T) {
	kinds(t, func(t *testing.T, ln net.Listener, dial func() net.Conn) {
		a := newPromptable()
		a.said = func(_ *promptable, out []byte) ([]byte, engine.Next) { return out, engine.Read }
		var options engine.Options
		if wrapping, ok := ln.(wrappingListener); ok { // only bare sockets are given away
			ln, options.NetConnIsKept = wrapping.Listener, true
		}
		e := serveWith(t, ln, a, options)
		type gone struct {
			prompter    engine.Prompter
			taken, peer net.Conn
		}
		var all []gone
		for range 50 {
			g := gone{peer: dial()}
			c := (<-a.conns).conn
			g.prompter = c.Prompter()
			eventually(t, "it waits", func() bool { return c.state.Load()&flagWaits != 0 })
			for _, old := range all {
				old.prompter.(*prompter).wanted.Store(false)
				old.prompter.Prompt()
			}
			var wg sync.WaitGroup
			wg.Go(func() {
				for range 100 {
					g.prompter.Prompt()
				}
			})
			eventually(t, "taken", func() bool {
				return e.DetachIdle(-1, func(nc net.Conn, _ engine.Parcel) { g.taken = nc }) == 1
			})
			wg.Wait()
			expectOpen(t, g.taken, g.peer)
			all = append(all, g)
		}
		for _, g := range all {
			expectOpen(t, g.taken, g.peer)
			_ = g.taken.Close()
		}
	})
}

// expectOpen makes sure that a read on taken waits for what its peer sends.
func expectOpen(t *testing.T, taken, peer net.Conn) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := peer.Write([]byte{'!'})
		sent <- err
	}()
	var b [1]byte
	if _, err := taken.Read(b[:]); err != nil || b[0] != '!' {
		t.Errorf("read %q from a connection that was given away: %v", b, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestPromptDetaches: what Prompted returns counts like what Run returns.
func TestPromptDetaches(t *testing.T) {
	kinds(t, func(t *testing.T, ln net.Listener, dial func() net.Conn) {
		a := newPromptable()
		a.said = func(_ *promptable, out []byte) ([]byte, engine.Next) { return append(out, 'd'), engine.Detach }
		serve(t, ln, a)
		for range 20 {
			c := dial()
			p := <-a.conns
			eventually(t, "it waits", func() bool { return p.conn.state.Load()&flagWaits != 0 })
			prompter := p.prompter
			prompter.Prompt()
			var b [1]byte
			if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != 'd' {
				t.Fatalf("got %q, %v", b, err)
			}
			detached := <-a.detached
			prompter.Prompt()
			expectOpen(t, detached, c)
			_ = detached.Close()
		}
	})
}

// A watcher's Run waits until the peer is gone.
type watcher struct {
	*promptable
	entered chan struct{} // Run is there
	watched chan struct{} // OnPeerGone has returned
}

func (w *watcher) Open(c engine.Conn) (engine.Protocol, []byte) {
	w.conn = c.(*conn)
	w.conns <- w.promptable
	return w, nil
}

func (w *watcher) Run(out []byte) ([]byte, engine.Next) {
	fired := make(chan struct{})
	close(w.entered)
	w.conn.OnPeerGone(func() { close(fired) })
	close(w.watched)
	<-fired
	return out, engine.Close
}

// A slowInterrupt is a connection on which interrupting takes a while.
type slowInterrupt struct {
	net.Conn
	begun, goOn chan struct{}
}

func (c *slowInterrupt) SetReadDeadline(t time.Time) error {
	if t.Equal(past()) {
		c.begun <- struct{}{}
		<-c.goOn
	}
	return c.Conn.SetReadDeadline(t)
}

// TestPromptSparesTheWatch: a prompt that is about to interrupt when input comes
// does not end the background read by which the plain path sees its peer go.
func TestPromptSparesTheWatch(t *testing.T) {
	client, server := net.Pipe()
	slow := &slowInterrupt{server, make(chan struct{}), make(chan struct{})}
	w := &watcher{promptable: newPromptable(), entered: make(chan struct{}), watched: make(chan struct{})}
	e := New(engine.Options{})
	served := make(chan error, 1)
	go func() { served <- e.ServeConn(slow, nil, w) }()
	c := (<-w.conns).conn
	eventually(t, "it waits", func() bool { return c.state.Load()&flagWaits != 0 })
	go c.Prompter().Prompt()
	<-slow.begun
	if _, err := client.Write([]byte{'?'}); err != nil {
		t.Fatal(err)
	}
	<-w.entered
	select {
	case <-w.watched:
		t.Error("did not wait for the prompt")
	case <-time.After(20 * time.Millisecond): // in which it could go wrong
	}
	close(slow.goOn)
	<-w.watched
	_ = client.Close()
	select {
	case err := <-served:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("nobody saw the peer go")
	}
}

// TestPromptAfterCooling: a connection without buffers gets some for
// Prompted.
func TestPromptAfterCooling(t *testing.T) {
	ln := nettest.NewListener()
	a := newPromptable()
	e := serve(t, ln, a)
	c, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	p := <-a.conns
	eventually(t, "the buffers are given back", func() bool { return e.Loops()[0].Buffers == 0 })
	p.conn.Prompter().Prompt()
	var b [1]byte
	if _, err := io.ReadFull(c, b[:]); err != nil || b[0] != 'p' {
		t.Fatalf("got %q, %v", b, err)
	}
	eventually(t, "it waits", func() bool { return p.conn.state.Load()&flagWaits != 0 })
	if n := e.Loops()[0].Buffers; n != 2 {
		t.Errorf("%d buffers are held, want 2", n)
	}
	exchange(t, c, []byte{'?'})
}
