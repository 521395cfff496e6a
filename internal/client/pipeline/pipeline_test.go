package pipeline

import (
	"bufio"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// line is a request of one line, whose answer is a line.
type line struct {
	Work
	got      string
	released bool
}

func newLine(text string) *line {
	l := &line{}
	l.Init(l)
	l.Out = []byte(text + "\n")
	return l
}

// Read implements Answer. An answer that begins with "last" ends the connection.
func (l *line) Read(br *bufio.Reader, _, _ net.Addr) (isLast bool, err error) {
	got, err := br.ReadString('\n')
	l.got = got
	return len(got) > 4 && got[:4] == "last", err
}

// Release implements Answer.
func (l *line) Release() { l.released = true }

// server is the other end of a Client's connections.
type server struct {
	t     *testing.T
	conns chan *bufio.ReadWriter
	all   []net.Conn
}

func newClient(t *testing.T, cfg Config) (*Client, *server) {
	s := &server{t: t, conns: make(chan *bufio.ReadWriter, 9)}
	cfg.Attempts, cfg.ReadBuffer, cfg.WriteBuffer, cfg.MaxIdle = 3, 4096, 4096, time.Minute
	cfg.Log = func(error) {}
	cfg.IsTimeout = func(error) bool { return false }
	cfg.IsRefusal = cfg.IsTimeout
	cfg.Explain = func(err error) error { return err }
	cfg.Dial = func() (net.Conn, error) {
		mine, other := net.Pipe()
		s.all = append(s.all, other)
		s.conns <- bufio.NewReadWriter(bufio.NewReader(other), bufio.NewWriter(other))
		return mine, nil
	}
	t.Cleanup(func() {
		for _, c := range s.all {
			c.Close()
		}
	})
	return New(cfg), s
}

// want reads requests, in this order.
func (s *server) want(c *bufio.ReadWriter, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if got, err := c.ReadString('\n'); err != nil || got != text+"\n" {
			s.t.Fatalf("request %q, %v, want %q", got, err, text)
		}
	}
}

func (s *server) say(c *bufio.ReadWriter, text string) {
	s.t.Helper()
	_, _ = c.WriteString(text)
	if err := c.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

// begin calls Do on a goroutine of its own.
func begin(c *Client, w *line, done chan struct{}) chan clock.Phase {
	ended := make(chan clock.Phase, 1)
	go func() { ended <- c.Do(&w.Work, done, 0) }()
	synctest.Wait()
	return ended
}

func TestAnswersComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 9})
		a, b := newLine("a"), newLine("b")
		endedA, endedB := begin(c, a, nil), begin(c, b, nil)
		conn := <-s.conns
		s.want(conn, "a", "b")
		s.say(conn, "A\nB\n")
		if <-endedA != Answered || <-endedB != Answered || a.got != "A\n" || b.got != "B\n" || c.Pending() != 0 {
			t.Errorf("answers %q and %q, %d pending", a.got, b.got, c.Pending())
		}
	})
}

// A request that is given up leaves the queue, or has its answer dropped.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 1})
		sent, queued, waits, last := newLine("sent"), newLine("queued"), newLine("waits"), newLine("last")
		done := make(chan struct{})
		endedSent := begin(c, sent, done)
		conn := <-s.conns
		s.want(conn, "sent")
		endedQueued, endedWaits := begin(c, queued, done), begin(c, waits, done)
		close(done)
		got := []clock.Phase{<-endedSent, <-endedQueued, <-endedWaits}
		if want := []clock.Phase{clock.PhaseRead, clock.PhaseWait, clock.PhaseWait}; !slices.Equal(got, want) {
			t.Errorf("stages %d, want %d", got, want)
		}
		if sent.released || !queued.released || !waits.released || c.Pending() != 1 {
			t.Errorf("released: %v, %v, %v; %d pending", sent.released, queued.released, waits.released, c.Pending())
		}
		ended := begin(c, last, nil)
		s.say(conn, "dropped\n")
		s.want(conn, "last")
		s.say(conn, "last\n")
		if <-ended; last.got != "last\n" || !sent.released {
			t.Errorf("answer %q, released %v", last.got, sent.released)
		}
	})
}

func TestOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 1})
		sent, displaced, newest := newLine("sent"), newLine("displaced"), newLine("newest")
		begin(c, sent, nil)
		conn := <-s.conns
		s.want(conn, "sent")
		ended := begin(c, displaced, nil)
		endedNewest := begin(c, newest, nil)
		if <-ended != Answered || displaced.Err != ErrOverflow {
			t.Errorf("error %v", displaced.Err)
		}
		s.say(conn, "A\n")
		s.want(conn, "newest")
		s.say(conn, "B\n")
		if <-endedNewest; newest.got != "B\n" || newest.Err != nil {
			t.Errorf("answer %q, %v", newest.got, newest.Err)
		}
	})
}

// A request that follows the last one of a connection waits for the end of that
// connection, without using the processor: time would stand still.
func TestAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 9})
		last, next := newLine("a"), newLine("b")
		last.IsLast = true
		begin(c, last, nil)
		conn := <-s.conns
		s.want(conn, "a")
		ended := make(chan clock.Phase, 1)
		go func() { ended <- c.Do(&next.Work, nil, 0) }()
		time.Sleep(time.Second)
		s.say(conn, "A\n")
		if _, err := conn.ReadByte(); err != io.EOF {
			t.Errorf("%v, want the end of the connection", err)
		}
		conn = <-s.conns
		s.want(conn, "b")
		s.say(conn, "B\n")
		if <-ended != Answered || last.got != "A\n" || next.got != "B\n" {
			t.Errorf("answers %q, %q", last.got, next.got)
		}
	})
}

// An idle connection is closed, and its goroutines end with it.
func TestIdleConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 9})
		begin(c, newLine("a"), nil)
		conn := <-s.conns
		s.want(conn, "a")
		s.say(conn, "A\n")
		began := time.Now()
		if _, err := conn.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute*5/4 {
			t.Errorf("closed after %v", took)
		}
		synctest.Wait()
		if n := c.lanes[0].state.Load(); n != laneStopped {
			t.Errorf("the lane is in state %d", n)
		}
	})
}

// The timer of a connection that is over does nothing, and holds nothing.
func TestWatchOfAnEndedConnection(t *testing.T) {
	k := &conn{lane: &lane{}, cfg: &Config{}}
	k.enterLocked(connOver)
	k.watch() // without a timer it would panic
	if !k.lane.mu.TryLock() {
		t.Error("the lane is locked for good")
	}
	if k.enterLocked(connClosing) || !k.isOver() {
		t.Error("a connection that is over is closing again")
	}
}

// TestLimitOfCall: a call ends with its limit, in the phase that its request has come to. A
// work that was answered in time keeps its timer for the next call.
func TestLimitOfCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 9})
		a := newLine("a")
		var conn *bufio.ReadWriter
		for range 2 {
			ended := make(chan clock.Phase, 1)
			go func() { ended <- c.Do(&a.Work, nil, time.Second) }()
			if conn == nil {
				conn = <-s.conns
			}
			s.want(conn, "a")
			s.say(conn, "A\n")
			if <-ended != Answered || a.got != "A\n" || a.timer == nil {
				t.Fatalf("%q, timer %v", a.got, a.timer)
			}
		}
		began := time.Now()
		ended := make(chan clock.Phase, 1)
		go func() { ended <- c.Do(&a.Work, nil, time.Second) }()
		s.want(conn, "a")
		if phase := <-ended; phase != clock.PhaseRead || time.Since(began) != time.Second {
			t.Errorf("phase %d after %v", phase, time.Since(began))
		}
		s.all[0].Close()
		synctest.Wait()
		if a.timer != nil || !a.released {
			t.Errorf("given up: timer %v, released %v", a.timer, a.released)
		}
	})
}
