package tcp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/buf"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
)

// open returns a session of s on a fake connection.
func open(t testing.TB, s *Server) (*session, *fakeConn, *acceptor) {
	t.Helper()
	a := &acceptor{server: s, cfg: s.config()}
	conn := &fakeConn{}
	p, _ := a.Open(conn)
	return p.(*session), conn, a
}

func echoHandler(c *Conn, in []byte) (int, error) { return c.Write(in) }

// lineHandler uses one line at a time.
func lineHandler(c *Conn, in []byte) (int, error) {
	end := bytes.IndexByte(in, '\n')
	if end < 0 {
		return 0, nil
	}
	if end == 0 {
		return 1, io.EOF
	}
	_, err := c.Write(in[:end+1])
	return end + 1, err
}

// TestAllocations: a message causes no allocation in this package, even if the
// connection sleeps in between.
func TestAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	message := []byte("12345678\n")
	for name, server := range map[string]*Server{
		"echo":              {Handler: echoHandler},
		"lines":             {Handler: lineHandler},
		"time-outs":         {Handler: lineHandler, IdleTimeout: time.Minute, ReadTimeout: time.Second},
		"with a state":      {Handler: func(c *Conn, in []byte) (int, error) { c.SetState(c); return c.Write(in) }},
		"with OnClose":      {Handler: echoHandler, OnClose: func(*Conn, error) {}},
		"bytes and strings": {Handler: func(c *Conn, in []byte) (int, error) { return c.Write(append(c.AvailableBuffer(), in...)) }},
	} {
		s, conn, a := open(t, server)
		allocs := testing.AllocsPerRun(1000, func() {
			conn.written = conn.written[:0]
			conn.feed(s, message[:4])
			conn.feed(s, message[4:])
			if !s.Pause() {
				t.Fatal("the connection is not idle")
			}
			s = a.Wake(conn, memoOf(s)).(*session)
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestAllocationsOfSend(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	s, conn, _ := open(t, &Server{Handler: echoHandler})
	out, message := (*Conn)(s).Sender(), []byte("message")
	allocs := testing.AllocsPerRun(1000, func() {
		if out.Send(message) != nil || out.TrySend(message) != nil {
			t.Fatal("Send failed")
		}
		conn.out, _ = s.Prompted(conn.out)
		conn.out = conn.out[:0]
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
	if conn.prompts != 1001 {
		t.Errorf("%d prompts for 1001 pairs of messages", conn.prompts)
	}
}

// TestAllocationsOfRest: the buffer with the first input of a detached connection
// returns to the pool.
func TestAllocationsOfRest(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	c, text := &restConn{}, make([]byte, 100)
	allocs := testing.AllocsPerRun(1000, func() {
		c.rest, c.used = buf.Get(len(text)), 0
		c.rest.B = append(c.rest.B, text...)
		for c.rest != nil {
			if n, err := c.Read(text[:60]); n == 0 || err != nil {
				t.Fatal(n, err)
			}
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// TestSleep checks what is kept of a sleeping connection.
func TestSleep(t *testing.T) {
	set := func(f func(*Conn)) Handler {
		return func(c *Conn, in []byte) (int, error) { f(c); return len(in), nil }
	}
	for name, c := range map[string]struct {
		server  *Server
		isKept  bool
		isAwake func(*Conn) bool
	}{
		"nothing":    {&Server{Handler: echoHandler, IdleTimeout: 7}, false, func(c *Conn) bool { return c.idleTimeout == 7 }},
		"state":      {&Server{Handler: set(func(c *Conn) { c.SetState(1) })}, true, func(c *Conn) bool { return c.State() == 1 }},
		"sender":     {&Server{Handler: set(func(c *Conn) { c.Sender() })}, true, func(c *Conn) bool { return c.sender != nil }},
		"time-out":   {&Server{Handler: set(func(c *Conn) { c.SetIdleTimeout(5) })}, true, func(c *Conn) bool { return c.idleTimeout == 5 }},
		"OnClose":    {&Server{Handler: echoHandler, OnClose: func(*Conn, error) {}}, true, func(*Conn) bool { return true }},
		"state gone": {&Server{Handler: set(func(c *Conn) { c.SetState(1); c.SetState(nil) })}, false, func(c *Conn) bool { return c.State() == nil }},
	} {
		s, conn, a := open(t, c.server)
		conn.feed(s, []byte("input"))
		if !s.Pause() {
			t.Errorf("%s: not idle", name)
		}
		memo := memoOf(s)
		if isKept := memo.ID != 0; isKept != c.isKept || c.server.sleepers.get(memo.ID) != nil != c.isKept {
			t.Errorf("%s: it is kept: %v, want %v", name, isKept, c.isKept)
		}
		again := &fakeConn{}
		s = a.Wake(again, memo).(*session)
		if s.conn != engine.Conn(again) || !c.isAwake((*Conn)(s)) {
			t.Errorf("%s: woken as %+v", name, s)
		}
		s.Closed(nil)
		if c.server.sleepers.get(memo.ID) != nil {
			t.Errorf("%s: kept after its end", name)
		}
	}
}

// TestDeadlines checks which of two time-outs applies.
func TestDeadlines(t *testing.T) {
	for _, c := range []struct {
		idle, read time.Duration
		in         []string
		want       time.Duration // at most this, and little less
	}{
		{0, 0, []string{"half"}, 0},
		{time.Hour, 0, []string{"a\n"}, time.Hour},
		{time.Hour, 0, []string{"half", "x"}, time.Hour},
		{0, time.Minute, []string{"a\n"}, 0},
		{0, time.Minute, []string{"half", "\n"}, 0},
		{0, time.Minute, []string{"half", "x"}, time.Minute},
		{0, time.Minute, []string{"a\nhalf"}, time.Minute},
		{time.Hour, time.Minute, []string{"half"}, time.Minute},
		{time.Minute, time.Hour, []string{"half"}, time.Minute},
		{0, 1, []string{"half"}, 1},
	} {
		s, conn, _ := open(t, &Server{Handler: lineHandler, IdleTimeout: c.idle, ReadTimeout: c.read})
		for _, in := range c.in {
			conn.feed(s, []byte(in))
		}
		if conn.wait > c.want || conn.wait < c.want-10*time.Second || conn.wait == 0 && c.want != 0 {
			t.Errorf("%+v: waits %v", c, conn.wait)
		}
	}
}

// TestReadTimeoutRuns: input that completes no message does not restart the time-out;
// a complete message does.
func TestReadTimeoutRuns(t *testing.T) {
	s, conn, _ := open(t, &Server{Handler: lineHandler, ReadTimeout: time.Hour})
	conn.feed(s, []byte("half"))
	s.began -= int64(time.Minute)
	conn.feed(s, []byte("x"))
	if conn.wait > 59*time.Minute {
		t.Errorf("after a minute and a byte it waits %v", conn.wait)
	}
	conn.feed(s, []byte("\nnext"))
	if conn.wait <= 59*time.Minute {
		t.Errorf("for the next message it waits %v", conn.wait)
	}
}

// TestReadTimeoutSetLate: a time-out that is set within a message counts from the
// message's beginning.
func TestReadTimeoutSetLate(t *testing.T) {
	s, conn, _ := open(t, &Server{Handler: func(c *Conn, in []byte) (int, error) {
		if bytes.HasSuffix(in, []byte("x")) {
			c.SetReadTimeout(time.Hour)
		}
		return lineHandler(c, in)
	}})
	s.began = -int64(2 * time.Hour) // of an earlier message
	conn.feed(s, []byte("one\nhalf"))
	s.began -= int64(time.Minute)
	conn.feed(s, []byte("x"))
	if conn.wait > 59*time.Minute || conn.wait < 50*time.Minute {
		t.Errorf("after a minute of the message it waits %v, want 59 minutes", conn.wait)
	}
}

// TestLinger: the engine is told to linger if the peer is within a message, and only
// then.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		in   []string
		want engine.Next
	}{
		{[]string{"a\n\n"}, engine.Close},
		{[]string{"a\n", "\n"}, engine.Close},
		{[]string{"ha", "lf\n\n"}, engine.Close},
		{[]string{"ha", "lf\n\nrest"}, engine.CloseLinger},
	} {
		s, conn, _ := open(t, &Server{Handler: lineHandler})
		next := engine.Read
		for _, in := range c.in {
			next = conn.feed(s, []byte(in))
		}
		if next != c.want {
			t.Errorf("%q: next is %v, want %v", c.in, next, c.want)
		}
		s.Closed(nil)
	}
}

// TestReplyIsCollected: the engine may write a large reply early, but not for each
// message.
func TestReplyIsCollected(t *testing.T) {
	s, conn, _ := open(t, &Server{Handler: lineHandler, MaxBuffer: 1 << 20})
	in := bytes.Repeat([]byte("0123456789\n"), 20_000)
	conn.unread = in
	if _, next := s.Feed(in); next != engine.Run {
		t.Fatalf("Feed: %v", next)
	}
	out, next := s.Run(nil)
	if next != engine.Run || len(out) < 32<<10 || len(out) > 32<<10+11 {
		t.Errorf("the first Run returned %d bytes, %v", len(out), next)
	}
	if conn.feed(s, conn.unread); len(out)+len(conn.written) != len(in) {
		t.Errorf("%d bytes of %d", len(out)+len(conn.written), len(in))
	}
}

// TestNeverOpened: OnClose is only called after OnOpen.
func TestNeverOpened(t *testing.T) {
	for name, end := range map[string]func(*session){
		"broken":      func(*session) {},
		"half closed": func(s *session) { s.HalfClosed(nil) },
		"timed out":   func(s *session) { s.TimedOut(nil) },
		"asleep":      func(s *session) { s.Sleep() },
	} {
		s, conn, _ := open(t, &Server{
			Handler: echoHandler,
			OnOpen:  func(*Conn) error { return nil },
			OnClose: func(*Conn, error) { t.Errorf("%s: OnClose was called", name) },
		})
		if conn.prompts != 1 {
			t.Errorf("%s: prompted %d times for OnOpen", name, conn.prompts)
		}
		end(s)
		s.Closed(nil)
	}
}

// TestDetachedRest reads in small pieces what the handler has not used.
func TestDetachedRest(t *testing.T) {
	got := make(chan string, 1)
	s, conn, _ := open(t, &Server{Handler: func(c *Conn, in []byte) (int, error) {
		if len(in) < 6 {
			return 0, nil
		}
		c.Detach(func(c net.Conn) {
			var text []byte
			var one [1]byte
			for range 3 {
				n, err := c.Read(one[:])
				text = fmt.Appendf(text, "%s %v ", one[:n], err)
			}
			got <- string(text)
		})
		return 4, nil
	}})
	conn.feed(s, []byte("abc"))
	if next := conn.feed(s, []byte("def")); next != engine.Detach {
		t.Fatalf("next is %v", next)
	}
	client, server := net.Pipe()
	_ = client.Close()
	s.Detached(server)
	s.Closed(nil)
	if text := <-got; text != "e <nil> f <nil>  EOF " {
		t.Errorf("read %q", text)
	}
}

// FuzzCuts feeds the same input whole and in pieces. The replies must be the same,
// even with sleep between the pieces.
func FuzzCuts(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nthree\n"), []byte{1, 3, 2})
	f.Add([]byte("a long line without an end"), []byte{5})
	f.Fuzz(func(t *testing.T, in, cuts []byte) {
		server := &Server{Handler: lineHandler, MaxBuffer: 1 << 10}
		in = in[:min(len(in), 1<<10-1)]
		whole, conn, _ := open(t, server)
		want := conn.feed(whole, bytes.Clone(in))
		pieces, cutConn, a := open(t, server)
		next := engine.Read
		for i := 0; len(in) > 0 && next == engine.Read; i++ {
			n := len(in)
			if i < len(cuts) {
				n = min(n, int(cuts[i]))
			}
			piece := bytes.Clone(in[:n])
			in = in[n:]
			next = cutConn.feed(pieces, piece)
			clear(piece) // the engine reuses its buffer
			if next == engine.Read && pieces.Pause() {
				pieces = a.Wake(cutConn, memoOf(pieces)).(*session)
			}
		}
		if (next == engine.Read) != (want == engine.Read) || !bytes.Equal(conn.written, cutConn.written) {
			t.Errorf("whole: %q, %v; in pieces: %q, %v", conn.written, want, cutConn.written, next)
		}
		whole.Closed(nil)
		pieces.Closed(nil)
	})
}

// memoOf lets p sleep.
func memoOf(p engine.Sleeper) engine.Memo {
	m, _ := p.Sleep()
	return m
}
