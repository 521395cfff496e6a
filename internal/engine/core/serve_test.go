//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

// More connections wait to be accepted than are accepted in a row; all are served.
func TestManyAcceptsInARow(t *testing.T) {
	const count = 2*acceptsInARow + 10
	ln := listen(t)
	fds := make([]int, count)
	defer func() {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
	}()
	for i := range fds {
		fds[i] = rawClient(t, ln.Addr(), i)
		if err := syscall.SetsockoptTimeval(fds[i], syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 10}); err != nil {
			t.Fatal(err)
		}
	}
	d := serveOn(t, ln, newEcho(), engine.Options{})
	for _, fd := range fds {
		rawAsk(t, fd)
	}
	if n := d.countOpen(); n != count {
		t.Errorf("%d connections, want %d", n, count)
	}
}

// A listening socket that fails for good ends its Serve with the error.
func TestListenerFails(t *testing.T) {
	ln := listen(t)
	defer ln.Close()
	e, err := newEngine(engine.Options{}, netconn.New(engine.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	a := newEcho()
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln, a) }()
	ask(t, dial(t, ln), "x")
	control, err := ln.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = control.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) })
	select {
	case err := <-served:
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "accept" || op.Net != "tcp" || op.Addr.String() != ln.Addr().String() || !errors.Is(err, syscall.EINVAL) {
			t.Errorf("Serve returned %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Serve goes on")
	}
	select {
	case err := <-a.errors:
		t.Errorf("AcceptError got %v, though it is no use to try again", err)
	default:
	}
	if err := e.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// By default there is a loop for every two processors.
func TestLoopsByDefault(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for procs, want := range []int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3} {
		if procs == 0 {
			continue
		}
		runtime.GOMAXPROCS(procs)
		for _, asked := range []int{0, -1} {
			e, err := newEngine(engine.Options{Loops: asked}, deaf{})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(e.(*driver).loops); got != want {
				t.Errorf("%d processors: %d loops, want %d", procs, got, want)
			}
		}
	}
	if e, err := newEngine(engine.Options{Loops: 1}, deaf{}); err != nil || len(e.(*driver).loops) != 1 {
		t.Errorf("asked for one loop with 5 processors: %v", err)
	}
	if _, err := newEngine(engine.Options{}, nil); err == nil {
		t.Error("an engine without a fallback")
	}
}

// The connections are spread evenly over the loops, also when another descriptor is
// opened for each of them: here by the clients, as by a proxy.
func TestLoopsShareConnections(t *testing.T) {
	const loops, each = 4, 5
	ln := listen(t)
	d := serveOn(t, ln, newEcho(), engine.Options{Loops: loops})
	for range loops * each {
		ask(t, dial(t, ln), "x")
	}
	for i, l := range d.Loops() {
		if l.Connections != each {
			t.Errorf("loop %d has %d connections, want %d", i, l.Connections, each)
		}
	}
}

// Range ends when it is told to, with the connections of both engines.
func TestRangeEnds(t *testing.T) {
	ln, a := listen(t), newEcho()
	d := serveOn(t, ln, a, engine.Options{})
	for range 3 {
		ask(t, dial(t, ln), "x")
	}
	mine, theirs := net.Pipe()
	defer theirs.Close()
	if err := d.AdoptConn(mine, engine.Parcel{}, a); err != nil {
		t.Fatal(err)
	}
	ask(t, theirs, "x")
	for calls, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 4, 5: 4} {
		n := 0
		d.Range(func(engine.Conn) bool {
			n++
			return n < calls
		})
		if n != want {
			t.Errorf("told to end after %d, it made %d calls, want %d", calls, n, want)
		}
	}
	loops := d.Loops()
	if last := loops[len(loops)-1]; len(loops) != len(d.loops)+1 || last.Connections != 1 {
		t.Errorf("the loops are %+v, want the fallback engine's last", loops)
	}
	_ = theirs.Close()
	eventually(t, "the fallback engine has none", func() bool { return len(d.Loops()) == len(d.loops) })
}

// lateListener is a listener whose Accept has a deadline.
type lateListener struct {
	net.Listener
	deadline time.Time
}

func (l *lateListener) SetDeadline(t time.Time) error {
	l.deadline = t
	return os.ErrInvalid
}

// A filteringListener sets the deadline of the listener that it accepts from, if that has
// any.
func TestFilteringListenerDeadline(t *testing.T) {
	at := time.Unix(1, 0)
	given, inner := &lateListener{}, &lateListener{}
	plain := &filteringListener{Listener: given, serving: &serving{listener: inner}}
	if err := plain.SetDeadline(at); err != os.ErrInvalid || given.deadline != at || !inner.deadline.IsZero() {
		t.Errorf("%v, given %v, inner %v", err, given.deadline, inner.deadline)
	}
	given.deadline = time.Time{}
	overTLS := &filteringListener{Listener: given, serving: &serving{listener: inner, config: serverTLS(t)}}
	if err := overTLS.SetDeadline(at); err != os.ErrInvalid || inner.deadline != at || !given.deadline.IsZero() {
		t.Errorf("TLS: %v, given %v, inner %v", err, given.deadline, inner.deadline)
	}
	if err := (&filteringListener{Listener: origin{}, serving: &serving{}}).SetDeadline(at); !errors.Is(err, net.ErrClosed) {
		t.Errorf("without deadlines: %v", err)
	}
}

// idler is an Acceptor whose protocols take nothing and ask for more, against the
// contract of Feed.
type idler struct {
	script
	fed chan bool
}

// Open implements engine.Acceptor.
func (i *idler) Open(c engine.Conn) (engine.Protocol, []byte) {
	return &idle{actor: actor{&i.script, c.(*conn)}, fed: i.fed}, nil
}

type idle struct {
	actor
	fed chan bool
}

func (i *idle) Feed([]byte) (int, engine.Next) {
	select {
	case i.fed <- true:
	default:
	}
	return 0, engine.Read
}

// A protocol that uses nothing does not make the engine spin: other connections
// of its only worker go on.
func TestFeedThatUsesNothing(t *testing.T) {
	ln, a := listen(t), &idler{fed: make(chan bool, 1)}
	d := serveOn(t, ln, a, engine.Options{MaxWorkers: 1, Loops: 1})
	for range 2 {
		c := dial(t, ln)
		_, _ = c.Write([]byte("x"))
		select {
		case <-a.fed:
		case <-time.After(10 * time.Second):
			t.Fatal("the connection is not served")
		}
	}
	eventually(t, "both wait", func() bool { return d.Stats() == engine.Stats{Open: 2} })
}

// A refuser admits nobody.
type refuser struct{ script }

// Admit implements engine.Acceptor.
func (r *refuser) Admit(net.Conn) (bool, []byte) { return false, []byte("refused") }

// A refusal arrives, with an orderly end behind it, though the peer has sent what
// nobody reads.
func TestRefusalArrives(t *testing.T) {
	ln := listen(t)
	c := dial(t, ln)
	_, _ = c.Write([]byte("request")) // it is there before the engine looks
	serveOn(t, ln, &refuser{}, engine.Options{})
	expect(t, c, "refused")
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("behind the refusal: %d bytes, %v; want io.EOF", n, err)
	}
}

// An opener tells what the NetConn of each connection is.
type opener struct {
	*echoAcceptor
	opened chan net.Conn
}

// Open implements engine.Acceptor.
func (o *opener) Open(c engine.Conn) (engine.Protocol, []byte) {
	o.opened <- c.NetConn()
	return o.echoAcceptor.Open(c)
}

// What a listener that is not package net's has accepted is taken over, unless
// somebody keeps it.
func TestTakeOverUnlessKept(t *testing.T) {
	for _, isKept := range []bool{false, true} {
		ln, a := listen(t), &opener{newEcho(), make(chan net.Conn, 1)}
		d := serveOn(t, struct{ net.Listener }{ln}, a, engine.Options{NetConnIsKept: isKept})
		ask(t, dial(t, ln), "x")
		opened := <-a.opened
		if _, isPlain := opened.(*net.TCPConn); isPlain != isKept {
			t.Errorf("NetConnIsKept %v: NetConn is a %T", isKept, opened)
		}
		if isOurs := d.countOpen() == 1; isOurs == isKept {
			t.Errorf("NetConnIsKept %v: the event engine has it: %v", isKept, isOurs)
		}
	}
}

// StopAccepting ends the Serve of one listener, which stays open, and nothing
// else.
func TestStopAccepting(t *testing.T) {
	ln, other, a := listen(t), listen(t), newEcho()
	defer ln.Close()
	d := serveOn(t, other, a, engine.Options{})
	served := make(chan error, 1)
	go func() { served <- d.Serve(ln, a) }()
	early := dial(t, ln)
	ask(t, early, "x")
	d.StopAccepting(ln)
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("Serve returned %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Serve goes on")
	}
	late := dial(t, ln) // it waits in the system's queue
	_, _ = late.Write([]byte("late"))
	ask(t, early, "still there")
	ask(t, dial(t, other), "the other listener")
	if n := d.countOpen(); n != 2 {
		t.Errorf("%d connections, want 2: the late one was accepted", n)
	}
	d.StopAccepting(ln) // nothing is left to stop
	serveOn(t, ln, a, engine.Options{})
	expect(t, late, "late")

	idle, err := newEngine(engine.Options{}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	idle.(*driver).StopAccepting(ln) // nothing was ever served
}

// A Run may leave a part of the input with the engine, which then feeds it again.
func TestRunLeavesInput(t *testing.T) {
	ln := listen(t)
	serveOn(t, ln, &script{run: func(c *conn, out []byte) ([]byte, engine.Next) {
		out = append(out, c.Buffered()[0])
		c.Discard(1)
		return out, engine.Read
	}}, engine.Options{})
	c := dial(t, ln)
	ask(t, c, "one at a time")
	ask(t, c, "again")
}

// A connection that waits has nothing to do with the end of the worker that has
// served it.
func TestWorkersEndBetweenRequests(t *testing.T) {
	ln, closed := listen(t), make(chan error, 1)
	d := serveOn(t, ln, &script{
		run: func(c *conn, out []byte) ([]byte, engine.Next) {
			return append(out, inputOf(c)...), engine.Read
		},
		closed: func(err error) { closed <- err },
	}, engine.Options{Loops: 1})
	c := dial(t, ln)
	q := &d.loops[0].queue
	for range 3 {
		ask(t, c, "question")
		eventually(t, "the workers are idle", func() bool {
			workers, parked := q.counts()
			return workers > 0 && workers == parked
		})
		q.mu.Lock()
		q.dismissLocked(0)
		q.mu.Unlock()
		eventually(t, "the workers have ended", func() bool {
			workers, _ := q.counts()
			return workers == 0
		})
	}
	_ = c.Close()
	if err := <-closed; err != nil {
		t.Errorf("Closed(%v) after an orderly end", err)
	}
}
