package websocket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// accepting serves loops.
func accepting(t *testing.T, engine sluice.Engine, e *Endpoint, serve func(*Conn) error) *fixture {
	return start(t, engine, func(ctx *sluice.RequestCtx) { _ = e.Accept(ctx, serve) })
}

// TestAccept: a loop echoes, and its end closes the connection.
func TestAccept(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		ended := make(chan error, 10)
		f := accepting(t, engine, &Endpoint{ReadLimit: 1 << 20}, func(c *Conn) error {
			if err := c.Write(t.Context(), Text, []byte("hello "+c.RemoteAddr().Network())); err != nil {
				return err
			}
			for {
				m, err := c.Read(t.Context())
				switch {
				case err != nil:
					ended <- err
					return err
				case string(m.Data) == "quit":
					return nil
				case string(m.Data) == "fail":
					return errors.New("failed")
				case string(m.Data) == "bytes":
					return &CloseError{Code: 4000, Reason: strings.Repeat("\x80", 200)}
				case string(m.Data) == "panic":
					panic("in a loop")
				}
				if err := c.Write(t.Context(), m.Kind, m.Data); err != nil {
					return err
				}
			}
		})
		c := f.dial(masked(ws.OpText, "early") + masked(ws.OpText, "twice"))
		c.expect("text hello tcp", "text early", "text twice")
		for range 3 {
			c.raw(masked(ws.OpBinary, longText) + masked(ws.OpPing, "p"))
			got := []string{c.next(), c.next()} // a pong may overtake a message: the ping was read while the loop had that
			if want := long("binary", longText); !slices.Contains(got, want) || !slices.Contains(got, "pong p") {
				t.Fatalf("got %q, want %q and a pong", got, want)
			}
		}
		c.raw(closing(4002, "bye"))
		c.expect("close 4002", "end")
		if err := <-ended; CloseCode(err) != 4002 {
			t.Error(err)
		}
		for in, want := range map[string]string{"quit": "close 1000", "fail": "close 1011", "panic": "close 1011", "bytes": "close 4000 \ufffd"} {
			c := f.dial(masked(ws.OpText, in) + masked(ws.OpText, "dropped"))
			c.expect("text hello tcp", want)
			c.raw(closing(1000, ""))
			c.expect("end")
		}
		if !strings.Contains(f.log.String(), "in a loop") {
			t.Error("the panic is not logged")
		}
	})
}

// TestAcceptClosed: what waits for a slow peer when its Close frame comes is sent before the answer,
// and nothing after it (RFC 6455 section 5.5.1).
func TestAcceptClosed(t *testing.T) {
	isFull, ended := make(chan struct{}), make(chan error, 1)
	p := make([]byte, 10_000)
	e := &Endpoint{MaxPending: 1 << 20}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		_ = e.Accept(ctx, func(c *Conn) (err error) {
			for isTold := false; err == nil; err = c.Write(context.Background(), Binary, p) {
				if !isTold && c.Pending() > 1<<19 {
					isTold = true
					close(isFull)
				}
			}
			ended <- err
			return err
		})
	}}
	ln := nettest.NewListener() // no byte is written before the peer reads
	go func() { _ = s.Serve(ln) }()
	defer func() { _ = s.Shutdown() }()
	conn, err := ln.Dial()
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, conn)
	c.raw(hello)
	c.head()
	<-isFull
	c.raw(closing(1000, ""))
	if err := <-ended; err != ErrClosed {
		t.Error(err)
	}
	message := long("binary", string(p))
	got := c.next()
	for got == message {
		got = c.next()
	}
	if got != "close 1000" {
		t.Error(got)
	}
	c.expect("end")
}

// TestAcceptWrites: what a loop writes is sent before it reads again, also while a message
// waits for it.
func TestAcceptWrites(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		next := make(chan struct{})
		f := accepting(t, engine, &Endpoint{}, func(c *Conn) error {
			for i := range 10 {
				if i == 5 {
					if _, err := c.Read(t.Context()); err != nil {
						return err
					}
				}
				if err := c.Write(t.Context(), Text, fmt.Append(nil, i)); err != nil {
					return err
				}
				<-next
			}
			return nil
		})
		c := f.dial()
		for i := range 10 {
			if i == 3 {
				c.raw(masked(ws.OpText, "it waits"))
			}
			c.expect(fmt.Sprint("text ", i))
			next <- struct{}{}
		}
		c.expect("close 1000")
	})
}

// TestRead: a cancelled Read takes nothing; Read is only for loops.
func TestRead(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		result := make(chan error, 1)
		f := accepting(t, engine, &Endpoint{}, func(c *Conn) error {
			ctx, cancel := context.WithCancel(t.Context())
			reading := make(chan error)
			go func() {
				_, err := c.Read(ctx)
				reading <- err
			}()
			eventually(t, "the other goroutine reads", func() bool {
				c.lock().Lock()
				defer c.lock().Unlock()
				return c.guarded.loopLocked().reading == readAsks
			})
			_, err := c.Read(t.Context())
			cancel()
			if err != ErrReading {
				return err
			}
			if err := <-reading; err != context.Canceled {
				return err
			}
			if err := c.TryWrite(Text, []byte("now")); err != nil {
				return err
			}
			m, err := c.Read(t.Context())
			result <- err
			if string(m.Data) != "kept" {
				return fmt.Errorf("got %q", m.Data)
			}
			return nil
		})
		c := f.dial()
		c.expect("text now")
		c.raw(masked(ws.OpText, "kept"))
		c.expect("close 1000")
		if err := <-result; err != nil {
			t.Error(err)
		}
	})
	called := make(chan error, 1)
	f := startEndpoint(t, sluice.EngineAuto, &Endpoint{OnOpen: func(c *Conn) error {
		_, err := c.Read(t.Context())
		called <- err
		return nil
	}})
	f.dial()
	if err := <-called; err != ErrNoLoop {
		t.Error(err)
	}
}
