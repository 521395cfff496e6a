//go:build linux && (amd64 || arm64)

package core

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/engine/netconn"
)

// A poorSource has no poller while poor is set.
type poorSource struct {
	*pollSource
	poor atomic.Bool
}

var errPoor = errors.New("no more pollers")

func (s *poorSource) Open() (Poller, error) {
	if s.poor.Load() {
		return nil, errPoor
	}
	return s.pollSource.Open()
}

// Without a poller nothing is served, and what was given is closed. It is tried again.
func TestNoPoller(t *testing.T) {
	source := &poorSource{pollSource: newPollSource()}
	source.poor.Store(true)
	options := engine.Options{Loops: 2}
	e, err := New("poll", source, options, netconn.New(options))
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	defer ln.Close()
	if err := e.Serve(ln, newEcho()); err != errPoor {
		t.Errorf("Serve: %v", err)
	}
	c := dial(t, ln)
	theirs, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.AdoptConn(theirs, engine.Parcel{}, newEcho()); err != errPoor {
		t.Errorf("AdoptConn: %v", err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the adopted connection is open: read %d, %v", n, err)
	}
	d := e.(*driver)
	if n := d.countOpen(); n != 0 || origins(d) != 0 {
		t.Errorf("%d connections, %d origins", n, origins(d))
	}
	source.poor.Store(false)
	served := make(chan error, 1)
	go func() { served <- e.Serve(ln, newEcho()) }()
	ask(t, dial(t, ln), "hello")
	if err := e.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	<-served
	if err := e.Serve(listen(t), newEcho()); err != engine.ErrShutdown {
		t.Errorf("Serve after Shutdown: %v", err)
	}
}

// Only bare stream sockets have a descriptor that the engine can take over.
func TestDuplicateOf(t *testing.T) {
	ln := listen(t)
	defer ln.Close()
	tcp, gone := dial(t, ln), dial(t, ln)
	_ = gone.Close()
	datagrams, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@sluice-" + t.Name(), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer datagrams.Close()
	piped, other := net.Pipe()
	defer piped.Close()
	defer other.Close()
	for name, c := range map[string]struct {
		conn net.Conn
		want bool
	}{"tcp": {tcp, true}, "closed": {gone, false}, "datagrams": {datagrams, false}, "pipe": {piped, false}, "wrapped": {struct{ net.Conn }{tcp}, false}} {
		fd := duplicateOf(c.conn)
		if (fd >= 0) != c.want {
			t.Errorf("%s: descriptor %d", name, fd)
		}
		if fd >= 0 {
			_ = syscall.Close(fd)
		}
	}
}

// However Detached ends, Closed is told, and the connection is counted out.
func TestEndOfDetached(t *testing.T) {
	for name, c := range map[string]struct {
		detached func(net.Conn)
		isWanted func(error) bool
	}{
		"returns": {func(c net.Conn) { c.Close() }, func(err error) bool { return err == nil }},
		"exits":   {func(net.Conn) { runtime.Goexit() }, func(err error) bool { return err == engine.ErrGoexit }},
		"panics": {func(net.Conn) { panic("oh") }, func(err error) bool {
			var p *engine.PanicError
			return errors.As(err, &p) && p.Value == "oh" && len(p.Stack) > 0
		}},
	} {
		ended := make(chan error, 1)
		a := &script{
			run:      func(c *conn, out []byte) ([]byte, engine.Next) { return append(out, inputOf(c)...), engine.Detach },
			detached: c.detached,
			closed:   func(err error) { ended <- err },
		}
		ln := listen(t)
		d := serveOn(t, ln, a, engine.Options{})
		ask(t, dial(t, ln), "x")
		if err := <-ended; !c.isWanted(err) {
			t.Errorf("%s: Closed is told %v", name, err)
		}
		if n := d.countOpen(); n != 0 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
}
