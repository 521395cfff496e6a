package websocket

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// opened serves e, whose OnOpen passes on each Conn.
func opened(t *testing.T, engine sluice.Engine, e *Endpoint) (*fixture, chan *Conn) {
	conns := make(chan *Conn, 10)
	e.OnOpen = func(c *Conn) error {
		conns <- c
		return nil
	}
	return startEndpoint(t, engine, e), conns
}

// TestWriteFromOutside: other goroutines write to connections that wait.
func TestWriteFromOutside(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f, conns := opened(t, engine, &Endpoint{OnMessage: echoMessage})
		c := f.dial()
		conn := <-conns
		for range 3 {
			if err := conn.Write(t.Context(), Text, []byte("pushed")); err != nil {
				t.Fatal(err)
			}
			c.expect("text pushed")
			c.raw(masked(ws.OpText, "asked"))
			c.expect("text asked")
		}
		if err := conn.Write(t.Context(), Binary, []byte(longText)); err != nil { // more than MaxPending
			t.Fatal(err)
		}
		c.expect(long("binary", longText))
		if err := conn.Close(4000, "done"); err != nil {
			t.Fatal(err)
		}
		if conn.Close(4000, "again") != ErrClosed || conn.TryWrite(Text, nil) != ErrClosed {
			t.Error("a connection that is closing can be used")
		}
		c.expect("close 4000 done")
		c.raw(closing(4000, ""))
		c.expect("end")
		<-conn.Context().Done()
	})
}

// TestConcurrentWrites: no message is cut by another, and those of one goroutine are in
// order.
func TestConcurrentWrites(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		const writers, each = 8, 200
		f, conns := opened(t, engine, &Endpoint{MaxPending: 1000, OnMessage: func(c *Conn, m Message) error {
			return c.Write(context.Background(), m.Kind, m.Data)
		}})
		c := f.dial()
		conn := <-conns
		var wait sync.WaitGroup
		for w := range writers {
			wait.Go(func() {
				for i := range each {
					message := strings.Repeat(string(rune('a'+w)), i%50) + "|" + string(rune('0'+i%10))
					if err := conn.Write(t.Context(), Text, []byte(message)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		go func() {
			for range each {
				_, _ = c.Write([]byte(masked(ws.OpText, "echo")))
			}
		}()
		next := map[string]int{}
		for range writers*each + each {
			got := strings.TrimPrefix(c.next(), "text ")
			if got == "echo" {
				continue
			}
			letters, digit, ok := strings.Cut(got, "|")
			if !ok || strings.Trim(letters, letters[:min(1, len(letters))]) != "" {
				t.Fatalf("got %q", got)
			}
			if letters != "" {
				who := letters[:1]
				for i := next[who]; ; i++ {
					if i%50 == 0 {
						continue // a message without letters
					}
					if len(letters) != i%50 || digit != string(rune('0'+i%10)) {
						t.Fatalf("got %q from %s, want number %d", got, who, i)
					}
					next[who] = i + 1
					break
				}
			}
		}
		wait.Wait()
	})
}

// TestSlowPeer: the peer reads nothing. Write waits, TryWrite does not.
func TestSlowPeer(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for _, policy := range []SlowPolicy{SlowClose, SlowBlock} {
			end := newEnds()
			f, conns := opened(t, engine, &Endpoint{Slow: policy, OnClose: end.onClose, CloseWithin: time.Millisecond, WriteTimeout: patience})
			c := f.dial()
			conn := <-conns
			message := make([]byte, 60<<10)
			ctx, cancel := context.WithCancel(t.Context())
			blocked := make(chan error)
			go func() {
				for {
					if err := conn.Write(ctx, Binary, message); err != nil {
						blocked <- err
						return
					}
				}
			}()
			full := 0
			eventually(t, "MaxPending is reached for some time", func() bool {
				if conn.Pending() < len(message) {
					full = 0
				}
				full++
				return full == 50
			})
			cancel()
			if err := <-blocked; err != context.Canceled {
				t.Errorf("Write returned %v", err)
			}
			if err := conn.TryWrite(Binary, message); err != ErrFull {
				t.Errorf("TryWrite returned %v", err)
			}
			if policy == SlowBlock {
				if err := conn.TryWrite(Text, []byte("short")); err != nil {
					t.Errorf("TryWrite of what has room returned %v", err)
				}
				for c.next() != "text short" { // messages are whole
				}
				c.raw(closing(1000, ""))
				for c.next() != "end" {
				}
				end.expect(t, "code 1000")
				continue
			}
			if err := conn.TryWrite(Text, nil); err != ErrClosed {
				t.Errorf("TryWrite returned %v", err)
			}
			last := ""
			for got := c.next(); got != "end" && !strings.HasPrefix(got, "error"); got = c.next() {
				last = got
			}
			if last != "close 1013 too slow" {
				t.Errorf("the last frame is %q", last)
			}
			end.expect(t, "code 1013")
		}
	})
}

// TestWriteTimeout: a peer that takes nothing loses its connection.
func TestWriteTimeout(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f, conns := opened(t, engine, &Endpoint{OnClose: end.onClose, WriteTimeout: 50 * time.Millisecond})
		f.dial()
		conn := <-conns
		message := make([]byte, 60<<10)
		for {
			if err := conn.Write(t.Context(), Binary, message); err == ErrClosed {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		end.expect(t, "")
	})
}

// TestCloseDuringFlush: Close comes when the callback has returned, and its output is still on
// its way. CloseWithin ends the connection nevertheless.
func TestCloseDuringFlush(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f, conns := opened(t, engine, &Endpoint{
			OnClose: end.onClose, PingAfter: -1, CloseWithin: 50 * time.Millisecond, WriteTimeout: patience, MaxPending: 1,
			OnMessage: func(c *Conn, m Message) error {
				for range 2 { // more than the sockets take
					if err := c.Write(context.Background(), Binary, make([]byte, 16<<20)); err != nil {
						return err
					}
				}
				return nil
			},
		})
		c := f.dial(masked(ws.OpText, "go"))
		conn := <-conns
		eventually(t, "the call of the engine waits for its output", func() bool {
			conn.lock().Lock()
			defer conn.lock().Unlock()
			m := conn.guarded // nil: no call has come yet
			return m != nil && m.session != nil && m.session.flushed != nil
		})
		if err := conn.Close(4000, "done"); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, c.in) }() // it does not answer
		end.expect(t, "closed by this side with code 4000")
	})
}

// TestWriteInCallback: a callback may write more than MaxPending.
func TestWriteInCallback(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		const count = 200
		f := startEndpoint(t, engine, &Endpoint{MaxPending: 1000, OnMessage: func(c *Conn, m Message) error {
			for range count {
				if err := c.Write(context.Background(), Text, m.Data); err != nil {
					return err
				}
				if err := c.TryWrite(Text, []byte("t")); err != nil && err != ErrFull {
					return err
				}
			}
			return nil
		}, Slow: SlowBlock})
		c := f.dial(masked(ws.OpText, strings.Repeat("x", 99)) + masked(ws.OpText, "end"))
		for seen := 0; seen < count; {
			switch got := c.next(); got {
			case "text " + strings.Repeat("x", 99):
				seen++
			case "text t":
			default:
				t.Fatal(got)
			}
		}
	})
}

// TestKeepAlive: silence is answered with pings, and they with the end.
func TestKeepAlive(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, OnClose: end.onClose, PingAfter: 20 * time.Millisecond, PongWithin: 200 * time.Millisecond})
		c := f.dial()
		for range 3 {
			c.expect("ping")
			c.raw(masked(ws.OpPong, ""))
		}
		c.expect("ping")
		if got := c.next(); got != "end" && !strings.HasPrefix(got, "error") {
			t.Errorf("without a pong: %s", got)
		}
		end.expect(t, "code 1006: no answer to a ping")
	})
}

// TestMessageTimeout: a message must be complete in time.
func TestMessageTimeout(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, OnClose: end.onClose, MessageWithin: 30 * time.Millisecond})
		for _, begin := range []string{"\x81", masked(ws.OpText, "abc")[:8], part(ws.OpText, "abc")} {
			c := f.dial(masked(ws.OpText, "ok"))
			c.expect("text ok")
			c.raw(begin)
			c.expect("close 1008 a message took too long", "end")
			c.Close()
			end.expect(t, "code 1008")
		}
	})
}

// TestPing: Ping returns at the answer, and when its context or the connection ends.
func TestPing(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f, conns := opened(t, engine, &Endpoint{})
		c := f.dial()
		conn := <-conns
		results := make(chan error, 2)
		ping := func(ctx context.Context) { results <- conn.Ping(ctx) }
		read := func() string {
			got := c.next()
			if !strings.HasPrefix(got, "ping ") {
				t.Fatal(got)
			}
			return strings.TrimPrefix(got, "ping ")
		}
		go ping(t.Context())
		read()
		go ping(t.Context())
		second := read()
		c.raw(masked(ws.OpPong, "12345678") + masked(ws.OpPong, second)) // it answers both
		if err := errors.Join(<-results, <-results); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go ping(ctx)
		read()
		cancel()
		if err := <-results; err != context.Canceled {
			t.Error(err)
		}
		go ping(t.Context())
		read()
		c.Close()
		if err := <-results; err != ErrClosed {
			t.Error(err)
		}
	})
}

// TestState: the state stays while the connection sleeps, and the context ends with it.
func TestState(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var first *Conn
		e := &Endpoint{OnMessage: func(c *Conn, m Message) error {
			if first == nil {
				first = c
			}
			if c != first {
				t.Error("a connection has two Conns")
			}
			n, _ := c.State().(int)
			c.SetState(n + 1)
			return c.TryWrite(Text, []byte(strings.Repeat("x", n)))
		}}
		f := startEndpoint(t, engine, e)
		c := f.dial()
		for n := range 5 {
			c.raw(masked(ws.OpText, "m"))
			c.expect(strings.TrimSpace("text " + strings.Repeat("x", n)))
		}
		ctx := first.Context()
		c.raw(closing(4001, "gone"))
		<-ctx.Done()
		if CloseCode(context.Cause(ctx)) != 4001 {
			t.Error(context.Cause(ctx))
		}
		eventually(t, "the state is dropped", func() bool { return first.State() == nil })
		first.SetState(1)
		if first.State() != nil || first.Pending() != 0 {
			t.Error("a Conn that has ended keeps a state")
		}
	})
}

// TestTable: Conns are found by their numbers, and chunks are dropped.
func TestTable(t *testing.T) {
	var table table
	live := map[uint32]*Conn{}
	for round := range 2000 {
		if round%3 != 2 || len(live) == 0 {
			c := table.add()
			if live[c.index] != nil {
				t.Fatal("two Conns with one number")
			}
			live[c.index] = c
		} else {
			for index := range live {
				table.remove(index)
				delete(live, index)
				break
			}
		}
		for index, c := range live {
			if table.get(index) != c {
				t.Fatal("another Conn is found")
			}
		}
	}
	for index := range live {
		table.remove(index)
	}
	chunks := 0
	for i := range *table.chunks.Load() {
		if (*table.chunks.Load())[i].Load() != nil {
			chunks++
		}
	}
	if chunks > 1 { // that which is being used up
		t.Errorf("%d chunks are left", chunks)
	}
}

// TestEchoesWithIOUring: where answers wait for those of other connections, each connection has
// its own in order, whatever their sizes, and a callback that blocks keeps none of the others'.
func TestEchoesWithIOUring(t *testing.T) {
	if info := (&sluice.Server{IOUring: sluice.IOUringOn}).EngineInfo(nil); !info.IOUring {
		t.Skip(info)
	}
	const clients, rounds = 32, 8
	blocks := make(chan struct{})
	f := startEndpoint(t, sluice.EngineEpoll, &Endpoint{OnMessage: func(c *Conn, m Message) error {
		if string(m.Data) == "block" {
			<-blocks
		}
		return c.Write(context.Background(), m.Kind, m.Data)
	}}, func(s *sluice.Server) { s.IOUring = sluice.IOUringOn })
	var all [clients]*client
	for i := range all {
		all[i] = f.dial()
	}
	blocked := f.dial(masked(ws.OpText, "block"))
	for round := range rounds {
		var texts []string
		for _, size := range []int{0, 1, 125, 126, 4 << 10, 20 << 10, 2} {
			texts = append(texts, strings.Repeat(string(rune('a'+round)), size))
		}
		for i, c := range all { // all have input before the first one reads
			for j := range texts {
				c.raw(masked(ws.OpText, strconv.Itoa(i)+texts[j]))
			}
		}
		for i, c := range all {
			for j := range texts {
				want := strconv.Itoa(i) + texts[j]
				if len(want) > 100 {
					c.expect(long("text", want))
				} else {
					c.expect("text " + want)
				}
			}
		}
	}
	close(blocks)
	blocked.expect("text block")
}
