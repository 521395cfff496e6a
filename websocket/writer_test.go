package websocket

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// nextWhole reads a frame that is not the only one of its message, and those after it. It
// tells of the control frames in the middle, too, and of how many fragments there were.
func (c *client) nextWhole() (text string, controls []string, fragments int) {
	c.t.Helper()
	for {
		var head []byte
		h, size, err := ws.Head{}, 0, error(nil)
		for ; size == 0; h, size, err = ws.ParseHead(head) {
			b, readErr := c.in.ReadByte()
			if readErr != nil || err != nil {
				c.t.Fatal(readErr, err)
			}
			head = append(head, b)
		}
		payload := make([]byte, h.Length)
		if _, err := io.ReadFull(c.in, payload); err != nil {
			c.t.Fatal(err)
		}
		switch {
		case h.Opcode.IsControl():
			controls = append(controls, describe(h, payload))
			continue
		case (h.Opcode == ws.OpContinuation) != (fragments > 0):
			c.t.Fatalf("%q is in the middle of %q", payload, text)
		case h.Length > maxFragment:
			c.t.Fatalf("a fragment has %d bytes", h.Length)
		}
		text += string(payload)
		if fragments++; h.IsFinal {
			return text, controls, fragments
		}
	}
}

func (c *client) wantWhole(want string, wantFragments int) {
	c.t.Helper()
	if text, _, fragments := c.nextWhole(); text != want || fragments != wantFragments {
		c.t.Errorf("got %d fragments of %d bytes, want %d of %d", fragments, len(text), wantFragments, len(want))
	}
}

// openings returns an Endpoint that tells of its connections.
func openings(e *Endpoint) (*Endpoint, chan *Conn) {
	conns := make(chan *Conn, 10)
	e.OnOpen = func(c *Conn) error { conns <- c; return nil }
	return e, conns
}

func writerOf(t *testing.T, c *Conn, k Kind) io.WriteCloser {
	t.Helper()
	w, err := c.Writer(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if n, err := io.WriteString(w, text); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
}

// TestWriter: fragments arrive as they are written, control frames between them, and other
// messages after the end, in their order, however they were sent.
func TestWriter(t *testing.T) {
	for _, compression := range []Compression{CompressionOff, CompressionTakeover} {
		onEngines(t, func(t *testing.T, engine sluice.Engine) {
			e, conns := openings(&Endpoint{Compression: compression, OnMessage: echoMessage})
			f := startEndpoint(t, engine, e)
			c := f.dial()
			conn := <-conns
			var group Group
			if err := group.Add(conn); err != nil {
				t.Fatal(err)
			}
			w := writerOf(t, conn, Text)
			if err := conn.TryWrite(Text, []byte("before")); err != nil { // nothing of w is sent yet
				t.Fatal(err)
			}
			c.expect("text before")
			write(t, w, "one ")
			c.expect("masked or unfinished text one")
			if err := conn.Write(t.Context(), Binary, []byte("a")); err != nil {
				t.Fatal(err)
			}
			if err := conn.WritePrepared(Prepare(Text, []byte("b"))); err != nil {
				t.Fatal(err)
			}
			if n := group.Broadcast(Prepare(Text, []byte("c")), nil); n != 1 {
				t.Errorf("the broadcast went to %d", n)
			}
			c.raw(masked(ws.OpPing, "p") + masked(ws.OpText, "echo"))
			c.expect("pong p")
			write(t, w, "")
			write(t, w, "two")
			c.expect("masked or unfinished  two")
			eventually(t, "the echo waits", func() bool { return conn.Pending() >= len("abcecho") })
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			c.expect("", "binary a", "text b", "text c", "text echo")
			if _, err := w.Write([]byte("x")); err != io.ErrClosedPipe {
				t.Error(err)
			}
			if err := w.Close(); err != io.ErrClosedPipe {
				t.Error(err)
			}
			// Long writes are cut, and an empty message is one, too.
			w = writerOf(t, conn, Binary)
			write(t, w, longText)
			go w.Close()
			c.wantWhole(longText, len(longText)/maxFragment+2)
			if err := writerOf(t, conn, Binary).Close(); err != nil {
				t.Error(err)
			}
			c.expect("binary")
			eventually(t, "nothing waits", func() bool { return conn.Pending() == 0 })
		})
	}
}

// TestWriterInCallbacks: OnOpen and OnMessage may send long messages.
func TestWriterInCallbacks(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		send := func(c *Conn, text string) error {
			w, err := c.Writer(context.Background(), Text)
			if err != nil {
				return err
			}
			for range 10 {
				if _, err := io.WriteString(w, text); err != nil {
					return err
				}
			}
			return w.Close()
		}
		f := startEndpoint(t, engine, &Endpoint{
			OnOpen:    func(c *Conn) error { return send(c, "hello") },
			OnMessage: func(c *Conn, _ Message) error { return send(c, longText) },
		})
		c := f.dial(masked(ws.OpText, "go"))
		c.wantWhole(strings.Repeat("hello", 10), 11)
		c.wantWhole(strings.Repeat(longText, 10), 10*(len(longText)/maxFragment+1)+1)
	})
}

// TestWriterSlow: a Writer waits for the peer. What waits for the end of its message is bounded, and
// Slow applies to what exceeds that.
func TestWriterSlow(t *testing.T) {
	for name, test := range map[string]struct {
		slow  SlowPolicy
		err   error
		after []string
	}{
		"SlowBlock":    {SlowBlock, ErrFull, []string{"text 0", "text 1"}},
		"SlowDropNew":  {SlowDropNew, ErrFull, []string{"text 0", "text 1"}},
		"SlowDropOld":  {SlowDropOld, nil, []string{"text 8", "text 9"}},
		"SlowCoalesce": {SlowCoalesce, nil, []string{"text 9"}},
		"SlowClose":    {SlowClose, ErrFull, nil},
	} {
		t.Run(name, func(t *testing.T) {
			e, conns := openings(&Endpoint{MaxPending: 6, Slow: test.slow})
			f := startEndpoint(t, sluice.EngineAuto, e)
			c := f.dial()
			conn := <-conns
			defer func() {
				set := e.settings()
				eventually(t, "nothing is counted", func() bool {
					return set.pendingTotal.bytes.Load() == 0 && set.pendingTotal.outboxes.Load() == 0
				})
			}()
			w := writerOf(t, conn, Text)
			write(t, w, "long")
			c.expect("masked or unfinished text long")
			var err error
			for i := range 10 {
				err = conn.WritePrepared(PrepareKeyed("k", Text, fmt.Append(nil, i)))
				if waiting := conn.Pending(); test.after != nil && waiting > 6 {
					t.Fatalf("%d bytes wait", waiting)
				}
			}
			if test.after == nil {
				if err != ErrClosed {
					t.Error(err)
				}
				c.expect("close 1013 too slow")
				if _, err := w.Write([]byte("x")); err != ErrClosed {
					t.Error(err)
				}
				if err := w.Close(); err != ErrClosed {
					t.Error(err)
				}
				return
			}
			if err != test.err {
				t.Error(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := conn.Write(ended, Text, []byte("late")); err != context.Canceled {
				t.Error(err)
			}
			written := make(chan error, 1)
			go func() { written <- conn.Write(t.Context(), Text, []byte("long enough")) }()
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			c.expect(append([]string{""}, test.after...)...)
			c.expect("text long enough")
			if err := <-written; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWriterIsCancelled: the message cannot be completed, so the connection ends; if nothing
// of it was sent, it goes on.
func TestWriterIsCancelled(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		e, conns := openings(&Endpoint{})
		f := startEndpoint(t, engine, e)
		c := f.dial()
		conn := <-conns
		ctx, cancel := context.WithCancel(t.Context())
		w, err := conn.Writer(ctx, Text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Writer(ctx, Kind(3)); err != ErrKind {
			t.Error(err)
		}
		other := make(chan error, 1)
		go func() { _, err := conn.Writer(ctx, Text); other <- err }()
		cancel()
		if err := <-other; err != context.Canceled {
			t.Error(err)
		}
		if n, err := w.Write([]byte("x")); n != 0 || err != context.Canceled {
			t.Error(n, err)
		}
		if err := w.Close(); err != context.Canceled {
			t.Error(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		if w, err = conn.Writer(ctx, Text); err != nil {
			t.Fatal(err)
		}
		write(t, w, "begin")
		c.expect("masked or unfinished text begin")
		if err := conn.TryWrite(Text, []byte("dropped")); err != nil {
			t.Error(err)
		}
		// The peer does not read, so that the Writer waits.
		sent := make(chan error, 1)
		go func() {
			for {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					sent <- err
					return
				}
			}
		}()
		eventually(t, "it waits", func() bool { return conn.Pending() > maxFragment })
		cancel()
		if err := <-sent; err != context.Canceled {
			t.Error(err)
		}
		if err := w.Close(); err != context.Canceled {
			t.Error(err)
		}
		for {
			if got := c.next(); got == "close 1011 a message is not complete" {
				break
			} else if strings.HasPrefix(got, "error") || got == "end" || strings.HasSuffix(got, "dropped") {
				t.Fatal(got)
			}
		}
	})
}

// TestWritersTogether: Writers, other writers and broadcasts do not mix their messages.
func TestWritersTogether(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		const each = 50
		e, conns := openings(&Endpoint{Slow: SlowBlock, MaxPending: 1 << 20})
		f := startEndpoint(t, engine, e)
		c := f.dial()
		conn := <-conns
		var group Group
		if err := group.Add(conn); err != nil {
			t.Fatal(err)
		}
		var writing sync.WaitGroup
		for range 3 {
			writing.Go(func() {
				for range each {
					w, err := conn.Writer(t.Context(), Text)
					if err != nil {
						t.Error(err)
						return
					}
					for range 3 {
						if _, err := io.WriteString(w, "part"); err != nil {
							t.Error(err)
						}
					}
					if err := w.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writing.Go(func() {
			for range each {
				if err := conn.Write(t.Context(), Text, []byte("whole")); err != nil {
					t.Error(err)
				}
			}
		})
		writing.Go(func() {
			for range each {
				if n := group.Broadcast(Prepare(Text, []byte("cast")), nil); n != 1 {
					t.Errorf("the broadcast went to %d", n)
				}
			}
		})
		got := map[string]int{}
		for range 5 * each {
			text, _, _ := c.nextWhole()
			got[text]++
		}
		writing.Wait()
		if got["partpartpart"] != 3*each || got["whole"] != each || got["cast"] != each {
			t.Errorf("got %v", got)
		}
	})
}

// TestWriterStays: a connection does not move while a Writer is open.
func TestWriterStays(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		from, to := newHalf(t, engine, nil), newHalf(t, engine, nil)
		c, conn := from.dialWith("")
		w := writerOf(t, conn, Text)
		write(t, w, "one ")
		c.expect("masked or unfinished text one")
		from.give(to, 0)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		c.expect("")
		from.give(to, 1)
		c.raw(masked(ws.OpText, "moved"))
		c.expect("text moved")
		if _, err := conn.Writer(t.Context(), Text); err != ErrMoved {
			t.Error(err)
		}
	})
}
