//go:build linux && (amd64 || arm64)

package core

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// A roll knows which connections have a protocol, by number.
type roll struct {
	last atomic.Uint64
	mu   sync.Mutex
	open map[uint64]bool
	odd  int // calls of Closed for those that had none
}

// Admit implements engine.Acceptor, as the other methods do.
func (r *roll) Admit(net.Conn) (bool, []byte) { return true, nil }
func (r *roll) Release(net.Conn)              {}
func (r *roll) AcceptError(error)             {}
func (r *roll) Wake(_ engine.Conn, m engine.Memo) engine.Protocol {
	return &member{roll: r, id: m.ID}
}

func (r *roll) Open(engine.Conn) (engine.Protocol, []byte) {
	id := r.last.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[id] = true
	return &member{roll: r, id: id}, nil
}

// A member is the protocol of a connection in a roll.
type member struct {
	engine.Protocol // nil: no other method is called
	roll            *roll
	id              uint64
}

func (m *member) Capabilities() engine.Capabilities { return engine.CanSleep }
func (m *member) Feed(in []byte) (int, engine.Next) { return len(in), engine.Read }
func (m *member) Pause() bool                       { return true }
func (m *member) HalfClosed(out []byte) []byte      { return out }
func (m *member) Sleep() (engine.Memo, bool)        { return engine.Memo{ID: m.id}, true }
func (m *member) Closed(error) {
	m.roll.mu.Lock()
	defer m.roll.mu.Unlock()
	if !m.roll.open[m.id] {
		m.roll.odd++
	}
	delete(m.roll.open, m.id)
}

// A sleeping protocol is woken for the last time when its connection has failed,
// while others get the descriptor and the slot.
func TestResetWhileAsleep(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // or they seldom meet
	ln, r := listen(t), &roll{open: make(map[uint64]bool)}
	d := serveOn(t, ln, r, engine.Options{})
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 300 {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = c.Write([]byte("x"))
				runtime.Gosched()
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
		})
	}
	clients.Wait()
	eventually(t, "all are closed", func() bool { return d.countOpen() == 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) > 0 || r.odd > 0 {
		t.Errorf("%d protocols were never Closed, and %d were twice", len(r.open), r.odd)
	}
}

// A prompt has nothing to say to a connection that lingers, nor does it keep it.
func TestPromptWhileLingering(t *testing.T) {
	ln := listen(t)
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		inputOf(c)
		c.Prompter().Prompt()
		return append(out, "bye"...), engine.CloseLinger
	}}
	d := serveOn(t, ln, a, engine.Options{LingerTimeout: 20 * time.Millisecond})
	c := dial(t, ln)
	ask(t, c, "bye")
	eventually(t, "lingering ends", func() bool { return d.countOpen() == 0 })
}

// Input behind the last request is read away before closing, even if epoll does
// not know the connection yet.
func TestInputBehindFirstRequest(t *testing.T) {
	ln := listen(t)
	running, sent := make(chan bool), make(chan bool)
	a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		inputOf(c)
		running <- true
		<-sent
		return append(out, "last"...), engine.Close
	}}
	c := dial(t, ln)
	_, _ = c.Write([]byte("request")) // it is there before the engine looks
	serveOn(t, ln, a, engine.Options{LingerTimeout: 50 * time.Millisecond})
	<-running
	_, _ = c.Write([]byte("more"))
	sent <- true
	expect(t, c, "last")
	if _, err := c.Read(make([]byte, 1)); errors.Is(err, syscall.ECONNRESET) {
		t.Error("the connection was reset: the answer could have been lost")
	}
}

// A peer that has said that it sends no more, and does, gets its answer nevertheless if
// the engine knows of the input, or cannot know that there is none.
func TestInputAfterTheLast(t *testing.T) {
	const size = 512
	for name, sent := range map[string]string{
		"read with the request":      "request and more",
		"after a read that was full": "request" + strings.Repeat("x", size-len("request")) + "more",
	} {
		t.Run(name, func(t *testing.T) {
			ln := listen(t)
			a := &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
				if len(sent) > size {
					inputOf(c)
				}
				return append(out, "last"...), engine.CloseQuiet
			}}
			c := dial(t, ln)
			_, _ = c.Write([]byte(sent)) // all of it is there before the engine looks
			serveOn(t, ln, a, engine.Options{LingerTimeout: 50 * time.Millisecond, ReadBufferSize: size})
			expect(t, c, "last")
			if n, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%d, %v: the answer could have been lost", n, err)
			}
		})
	}
}
