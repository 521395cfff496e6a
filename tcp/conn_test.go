package tcp

import (
	"io"
	"log"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
)

// TestReplyIsFlushed: a reply is kept up to 64 KiB. A Write that would exceed this
// sends it first.
func TestReplyIsFlushed(t *testing.T) {
	const kept = 64 << 10
	for name, write := range map[string]func(*Conn, string){
		"Write":       func(c *Conn, s string) { _, _ = c.Write([]byte(s)) },
		"WriteString": func(c *Conn, s string) { _, _ = c.WriteString(s) },
	} {
		s, conn, _ := open(t, &Server{Handler: echoHandler})
		s.out = make([]byte, 0, 10)
		c := (*Conn)(s)
		for _, step := range []struct{ size, isWritten, writes int }{
			{kept - 1, 0, 0},
			{1, 0, 0},
			{1, kept, 1},
			{kept - 1, kept, 1},
			{2 * kept, 2 * kept, 2},
			{1, 4 * kept, 3},
		} {
			write(c, strings.Repeat("x", step.size))
			if len(conn.written) != step.isWritten || conn.writes != step.writes {
				t.Errorf("%s: after %d more bytes, %d are written in %d pieces, want %d in %d",
					name, step.size, len(conn.written), conn.writes, step.isWritten, step.writes)
			}
		}
		if err := c.Flush(); err != nil || len(conn.written) != 4*kept+1 {
			t.Errorf("%s: Flush returned %v, %d bytes are written", name, err, len(conn.written))
		}
		if err := c.Flush(); err != nil || conn.writes != 4 {
			t.Errorf("%s: Flush of nothing returned %v, and wrote %d pieces", name, err, conn.writes)
		}
	}
}

// TestOwnTimeouts: 0 and less are no time-out.
func TestOwnTimeouts(t *testing.T) {
	for set, want := range map[time.Duration]time.Duration{0: 0, -1: 0, 1: 1, time.Hour: time.Hour} {
		s, conn, _ := open(t, &Server{Handler: lineHandler, IdleTimeout: 7, ReadTimeout: 8, WriteTimeout: 9})
		if conn.wait != 7 || conn.writeWait != 9 {
			t.Errorf("at first it waits %v to read and %v to write", conn.wait, conn.writeWait)
		}
		c := (*Conn)(s)
		c.SetWriteTimeout(set)
		c.SetIdleTimeout(set)
		c.SetReadTimeout(set)
		if conn.writeWait != want || c.idleTimeout != want || c.readTimeout != want {
			t.Errorf("%v became %v, %v and %v, want %v", set, conn.writeWait, c.idleTimeout, c.readTimeout, want)
		}
		s.Closed(nil)
	}
}

// TestFailedFlush: a connection with a failed write is aborted for this reason,
// whatever the callback does then, and accepts no more data.
func TestFailedFlush(t *testing.T) {
	for name, then := range map[string]func() (int, error){
		"nothing": func() (int, error) { return 1, nil },
		"end":     func() (int, error) { return 1, io.EOF },
		"error":   func() (int, error) { return 0, io.ErrNoProgress },
		"panic":   func() (int, error) { panic("made up") },
	} {
		var ended error
		s, conn, _ := open(t, &Server{
			Logger: log.New(io.Discard, "", 0),
			Handler: func(c *Conn, in []byte) (int, error) {
				_, _ = c.WriteString("reply")
				for _, err := range []error{c.Flush(), c.Flush()} {
					if err != io.ErrShortWrite {
						t.Errorf("%s: Flush returned %v", name, err)
					}
				}
				if n, err := c.WriteString("more"); n != 0 || err != io.ErrShortWrite {
					t.Errorf("%s: WriteString returned %d, %v", name, n, err)
				}
				return then()
			},
			OnClose: func(_ *Conn, err error) { ended = err },
		})
		conn.failure = io.ErrShortWrite
		if next := conn.feed(s, []byte("x")); next != engine.Abort {
			t.Errorf("%s: next is %v", name, next)
		}
		s.Closed(nil)
		if ended != io.ErrShortWrite || conn.writes != 1 {
			t.Errorf("%s: OnClose got %v after %d writes", name, ended, conn.writes)
		}
	}
}

// TestTimeoutsAfterTheEnd: setting time-outs in OnClose has no effect, also for a
// connection that ended asleep.
func TestTimeoutsAfterTheEnd(t *testing.T) {
	for name, prepare := range map[string]func(*session){
		"awake":  func(*session) {},
		"asleep": func(s *session) { s.Sleep() },
	} {
		calls := 0
		s, conn, _ := open(t, &Server{Handler: echoHandler, WriteTimeout: 9, OnClose: func(c *Conn, _ error) {
			calls++
			c.SetIdleTimeout(1)
			c.SetReadTimeout(1)
			c.SetWriteTimeout(1)
		}})
		prepare(s)
		s.Closed(nil)
		if calls != 1 || conn.writeWait != 9 || conn.wait != 0 {
			t.Errorf("%s: OnClose was called %d times, then the connection waits %v to read and %v to write", name, calls, conn.wait, conn.writeWait)
		}
	}
}

// TestOwnTimeoutsReplace: a connection can remove both of the server's time-outs.
func TestOwnTimeoutsReplace(t *testing.T) {
	s, conn, _ := open(t, &Server{IdleTimeout: 7, ReadTimeout: 8, Handler: func(c *Conn, in []byte) (int, error) {
		c.SetIdleTimeout(0)
		c.SetReadTimeout(0)
		return lineHandler(c, in)
	}})
	conn.feed(s, []byte("half"))
	if conn.wait != 0 {
		t.Errorf("it waits %v, want for ever", conn.wait)
	}
}

// TestFirstDeadline: a connection without OnOpen waits for its first input at most
// IdleTimeout, and for room at most WriteTimeout; without them, for ever.
func TestFirstDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{0, 1, time.Minute} {
		conn := &fakeConn{wait: -1, writeWait: -1}
		a := &acceptor{server: &Server{}, cfg: (&Server{Handler: echoHandler, IdleTimeout: timeout}).config()}
		a.Open(conn)
		want := timeout
		if timeout == 0 {
			want = -1 // not set
		}
		if conn.wait != want || conn.writeWait != -1 || conn.prompts != 0 {
			t.Errorf("IdleTimeout %v: it waits %v to read and %v to write, %d prompts", timeout, conn.wait, conn.writeWait, conn.prompts)
		}
		conn = &fakeConn{wait: -1, writeWait: -1}
		a.cfg = (&Server{Handler: echoHandler, WriteTimeout: timeout}).config()
		a.Open(conn)
		if conn.wait != -1 || conn.writeWait != want {
			t.Errorf("WriteTimeout %v: it waits %v to read and %v to write", timeout, conn.wait, conn.writeWait)
		}
	}
}

// TestOpenedDeadline: the time for the first input begins when OnOpen has returned.
func TestOpenedDeadline(t *testing.T) {
	s, conn, _ := open(t, &Server{
		Handler: echoHandler,
		OnOpen: func(c *Conn) error {
			c.SetIdleTimeout(time.Minute)
			_, err := c.WriteString("hello")
			return err
		},
	})
	out, next := s.Prompted(nil)
	if string(out) != "hello" || next != engine.Read || conn.wait != time.Minute {
		t.Errorf("%q, %v, then it waits %v", out, next, conn.wait)
	}
	if !s.Pause() {
		t.Error("it is not idle after OnOpen")
	}
}

// TestInputOpens: OnOpen is called once and before the handler, even if input arrives
// before the prompt.
func TestInputOpens(t *testing.T) {
	opened := 0
	s, conn, _ := open(t, &Server{
		Handler: echoHandler,
		OnOpen: func(c *Conn) error {
			opened++
			_, err := c.WriteString("hello ")
			return err
		},
	})
	if s.Pause() {
		t.Error("it is idle before OnOpen")
	}
	conn.feed(s, []byte("input"))
	out, _ := s.Prompted(nil)
	if string(conn.written) != "hello input" || len(out) != 0 || opened != 1 {
		t.Errorf("%q, then %q; OnOpen was called %d times", conn.written, out, opened)
	}
}

// TestFeedAfterTheEnd: no input is used any more.
func TestFeedAfterTheEnd(t *testing.T) {
	s, conn, _ := open(t, &Server{Handler: func(c *Conn, in []byte) (int, error) { return 0, io.EOF }})
	conn.feed(s, []byte("x"))
	if used, next := s.Feed([]byte("more")); used != 0 || next != engine.Close {
		t.Errorf("Feed took %d bytes, %v", used, next)
	}
}

// TestSenderAfterTheEnd: a Sender requested after the connection's end returns
// ErrClosed.
func TestSenderAfterTheEnd(t *testing.T) {
	var out *Sender
	s, _, _ := open(t, &Server{Handler: echoHandler, OnClose: func(c *Conn, _ error) { out = c.Sender() }})
	s.Closed(nil)
	if err := out.Send([]byte("x")); err != ErrClosed {
		t.Errorf("Send returned %v", err)
	}
	if out.RemoteAddr() == nil || out.LocalAddr() == nil {
		t.Errorf("its addresses are %v and %v", out.RemoteAddr(), out.LocalAddr())
	}
	select {
	case <-out.Done():
	default:
		t.Error("it is not done")
	}
}

// TestStateComesAndGoes: a connection that was remembered once keeps its number, even
// without a state, and is forgotten when it ends.
func TestStateComesAndGoes(t *testing.T) {
	server := &Server{Handler: func(c *Conn, in []byte) (int, error) {
		if in[0] == 's' {
			c.SetState(string(in))
		} else {
			c.SetState(nil)
		}
		return len(in), nil
	}}
	s, conn, a := open(t, server)
	var first uint64
	for i, in := range []string{"state", "-", "again"} {
		conn.feed(s, []byte(in))
		memo := memoOf(s)
		if i == 0 {
			first = memo.ID
		}
		if memo.ID == 0 || memo.ID != first {
			t.Errorf("%s: number %d, was %d", in, memo.ID, first)
		}
		s = a.Wake(conn, memo).(*session)
	}
	if n := remembered(&server.sleepers); n != 1 {
		t.Errorf("%d sessions are remembered, want 1", n)
	}
	s.Closed(nil)
	if n := remembered(&server.sleepers); n != 0 {
		t.Errorf("%d sessions are remembered after the end", n)
	}
}

// TestAsleepAddresses: the addresses of a sleeping connection are nil, without a
// panic.
func TestAsleepAddresses(t *testing.T) {
	s, conn, _ := open(t, &Server{Handler: func(c *Conn, in []byte) (int, error) {
		c.SetState(1)
		return len(in), nil
	}})
	conn.feed(s, []byte("x"))
	s.Sleep()
	c := (*Conn)(s)
	if c.RemoteAddr() != nil || c.LocalAddr() != nil || c.TLS() != nil {
		t.Errorf("%v, %v, %v", c.RemoteAddr(), c.LocalAddr(), c.TLS())
	}
}

// TestLastWords: pending output of the engine, and then what the Sender has accepted,
// is sent before the connection is closed.
func TestLastWords(t *testing.T) {
	for name, end := range map[string]func(*session, []byte) []byte{
		"half closed": func(s *session, out []byte) []byte { return s.HalfClosed(out) },
		"timed out": func(s *session, out []byte) []byte {
			out, next := s.TimedOut(out)
			if next != engine.Close {
				t.Errorf("timed out: next is %v", next)
			}
			return out
		},
		"closed by the Sender": func(s *session, out []byte) []byte {
			if err := s.sender.Close(); err != nil {
				t.Error(err)
			}
			out, next := s.Prompted(out)
			if next != engine.Close {
				t.Errorf("closed by the Sender: next is %v", next)
			}
			return out
		},
	} {
		s, _, _ := open(t, &Server{Handler: echoHandler})
		if err := (*Conn)(s).Sender().Send([]byte("sent")); err != nil {
			t.Fatal(err)
		}
		if got := string(end(s, []byte("written "))); got != "written sent" {
			t.Errorf("%s: the last words are %q", name, got)
		}
		s.Closed(nil)
	}
}

// TestEndWithinMessage: if a peer ends or falls silent within a message, OnClose gets
// this error. For a silent peer the engine lingers.
func TestEndWithinMessage(t *testing.T) {
	for _, in := range []string{"line\n", "half"} {
		var ended error
		server := &Server{Handler: lineHandler, OnClose: func(_ *Conn, err error) { ended = err }}
		s, conn, _ := open(t, server)
		conn.feed(s, []byte(in))
		s.HalfClosed(nil)
		s.Closed(nil)
		if want := map[string]error{"line\n": nil, "half": io.ErrUnexpectedEOF}[in]; ended != want {
			t.Errorf("after %q, half closed: %v, want %v", in, ended, want)
		}
		s, conn, _ = open(t, server)
		conn.feed(s, []byte(in))
		_, next := s.TimedOut(nil)
		s.Closed(nil)
		if want := map[string]engine.Next{"line\n": engine.Close, "half": engine.CloseLinger}[in]; ended != os.ErrDeadlineExceeded || next != want {
			t.Errorf("after %q, timed out: %v, %v, want %v", in, ended, next, want)
		}
	}
}

// TestCloseCause: OnClose and ServeConn get the engine's reason, unless the
// connection had ended for another one before.
func TestCloseCause(t *testing.T) {
	var ended error
	server := &Server{
		Handler: func(*Conn, []byte) (int, error) { return 0, io.ErrNoProgress },
		OnClose: func(_ *Conn, err error) { ended = err },
	}
	for in, want := range map[string]error{"": net.ErrClosed, "x": io.ErrNoProgress} {
		s, conn, a := open(t, server)
		a.isSingle = true
		conn.feed(s, []byte(in))
		s.Closed(net.ErrClosed)
		if ended != want || a.failure != want {
			t.Errorf("input %q: OnClose got %v and ServeConn %v, want %v", in, ended, a.failure, want)
		}
	}
}
