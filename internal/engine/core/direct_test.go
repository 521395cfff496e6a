//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"math"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

// A doer is an acceptor that does something with each input, and sends it back.
type doer struct {
	*echoAcceptor
	do func(c engine.Conn, input string)
}

func (d *doer) Open(c engine.Conn) (engine.Protocol, []byte) {
	return d.Wake(c, engine.Memo{}), nil
}

func (d *doer) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	return &doing{d.echoAcceptor.Wake(c, m).(*echo), d}
}

type doing struct {
	*echo
	doer *doer
}

func (d *doing) Run(out []byte) ([]byte, engine.Next) {
	d.doer.do(d.conn, string(d.input[:d.length]))
	return d.echo.Run(out)
}

// handler returns what does with an input what it says.
func handler(does map[string]func()) func(engine.Conn, string) {
	return func(_ engine.Conn, input string) {
		if do := does[input]; do != nil {
			do()
		}
	}
}

// directDriver serves ln with one loop that has little to do, however long that takes.
func directDriver(t *testing.T, a engine.Acceptor) (d *driver, dialled func() net.Conn) {
	t.Helper()
	procs := runtime.GOMAXPROCS(2)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	ln := listen(t)
	options := engine.Options{Loops: 1}
	e, err := New("poll", newPollSource(), options, netconn.New(options))
	if err != nil {
		t.Fatal(err)
	}
	d = e.(*driver)
	direct := &d.loops[0].direct
	direct.calm, direct.gap, direct.slow = mostCalm, math.MaxInt64, math.MaxInt64
	serveIn(t, d, ln, a)
	return d, func() net.Conn { return dial(t, ln) }
}

// A handler may block in each way that there is, and end its goroutine: other connections do
// not wait for it.
func TestLoopIsReplaced(t *testing.T) {
	for _, test := range []struct {
		name       string
		block      func(freed chan struct{}, isFree *atomic.Bool, pipe int)
		isAnswered bool
	}{
		{"waits", func(freed chan struct{}, _ *atomic.Bool, _ int) { <-freed }, true},
		{"computes", func(_ chan struct{}, isFree *atomic.Bool, _ int) {
			for !isFree.Load() {
			}
		}, true},
		{"is in a system call", func(_ chan struct{}, _ *atomic.Bool, pipe int) { _, _ = syscall.Read(pipe, make([]byte, 1)) }, true},
		{"exits", func(chan struct{}, *atomic.Bool, int) { runtime.Goexit() }, false},
		{"panics", func(chan struct{}, *atomic.Bool, int) { panic("as it should") }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var pipe [2]int
			if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = syscall.Close(pipe[0])
				_ = syscall.Close(pipe[1])
			})
			freed, isFree := make(chan struct{}), atomic.Bool{}
			h := &doer{newEcho(), handler(map[string]func(){
				"block": func() { test.block(freed, &isFree, pipe[0]) },
				"free": func() {
					isFree.Store(true)
					close(freed)
					_, _ = syscall.Write(pipe[1], []byte("x"))
				},
			})}
			d, dialled := directDriver(t, h)
			a, b := dialled(), dialled()
			ask(t, a, "begin")
			ask(t, b, "begin")
			direct := &d.loops[0].direct
			eventually(t, "the loop serves", func() bool { ask(t, a, "again"); return direct.turns.Load() > 0 })
			turns := direct.turns.Load()
			_, _ = a.Write([]byte("block"))
			eventually(t, "the handler has begun", func() bool { return direct.turns.Load() > turns })
			ask(t, b, "meanwhile")
			if test.isAnswered {
				if loop := d.Loops()[0]; loop.Workers-loop.IdleWorkers < 1 {
					t.Errorf("a handler blocks: %+v", loop)
				}
			}
			if ask(t, b, "free"); test.isAnswered {
				expect(t, a, "block")
				ask(t, a, "more")
			}
			ask(t, b, "more")
			eventually(t, "all workers are idle", d.loops[0].queue.isAtRest)
		})
	}
}

// The guard rests when nothing happens, and looks again when something does.
func TestGuardRests(t *testing.T) {
	d, dialled := directDriver(t, newEcho())
	a := dialled()
	direct := &d.loops[0].direct
	for range 3 {
		turns := direct.turns.Load()
		eventually(t, "the loop serves", func() bool { ask(t, a, "hello"); return direct.turns.Load() > turns })
		eventually(t, "the guard rests", func() bool { return !direct.guard.isAwake.Load() })
	}
	if direct.turns.Load()%2 != 0 {
		t.Error("a turn lasts")
	}
}

// brokenPoller is one with a bug.
type brokenPoller struct{ Poller }

func (brokenPoller) Run(func([]Event) Then, func(bool) Then) { panic("a bug") }

// A panic that no handler has caused ends the process: without its goroutine, the loop would hang.
func TestPanicOfLoopIsNotHidden(t *testing.T) {
	options := engine.Options{Loops: 1}
	e, err := New("broken", newPollSource(), options, netconn.New(options))
	if err != nil {
		t.Fatal(err)
	}
	l := e.(*driver).loops[0]
	l.poller = brokenPoller{}
	defer func() {
		if got := recover(); got != "a bug" {
			t.Errorf("panic %v", got)
		}
	}()
	l.gone.Add(1)
	l.run()
}

// A loop is replaced as often as handlers block or exit, and also while the engine ends: none of its
// goroutines stays.
func TestLoopIsReplacedAgain(t *testing.T) {
	freed := make(chan struct{})
	h := &doer{newEcho(), handler(map[string]func(){"block": func() { <-freed }, "exit": runtime.Goexit})}
	d, dialled := directDriver(t, h)
	b, direct := dialled(), &d.loops[0].direct
	begin := func(how string) (a net.Conn) {
		a = dialled()
		ask(t, a, "begin")
		turns := direct.turns.Load()
		eventually(t, "the loop serves", func() bool { ask(t, a, "again"); return direct.turns.Load() > turns })
		turns = direct.turns.Load()
		_, _ = a.Write([]byte(how))
		eventually(t, "the handler has begun", func() bool { return direct.turns.Load() > turns })
		return a
	}
	a := begin("block")
	ask(t, b, "meanwhile")
	freed <- struct{}{}
	expect(t, a, "block")
	if n, err := begin("exit").Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes from a handler that has exited", n)
	}
	begin("block")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Shutdown(ctx); err != context.Canceled {
		t.Errorf("Shutdown: %v", err)
	}
	freed <- struct{}{} // the cleanup waits for all goroutines
}
