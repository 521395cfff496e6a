package pipeline

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice/internal/clock"
)

// echo answers each request on a connection with the request, until it ends.
func (s *server) echo() {
	for conn := range s.conns {
		go func() {
			for {
				text, err := conn.ReadString('\n')
				if err != nil {
					return
				}
				_, _ = conn.WriteString(text)
				_ = conn.Flush()
			}
		}()
	}
}

// TestLeastLoad: a request goes to a connection without requests, if there is one; else a
// new one is opened, up to Conns.
func TestLeastLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 2, Pending: 9})
		a, b := newLine("a"), newLine("b")
		endedA := begin(c, a, nil)
		first := <-s.conns
		s.want(first, "a")
		begin(c, b, nil)
		second := <-s.conns
		s.want(second, "b")
		s.say(first, "A\n")
		<-endedA
		d := newLine("d")
		endedD := begin(c, d, nil)
		s.want(first, "d")
		s.say(first, "D\n")
		if <-endedD; d.got != "D\n" || len(s.all) != 2 {
			t.Errorf("%q, %d connections", d.got, len(s.all))
		}
		s.say(second, "B\n")
	})
}

// TestDialFails: the queued requests fail, and further dials are delayed, ever longer up
// to half a second.
func TestDialFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged []error
		c, s := newClient(t, Config{Conns: 1, Pending: 9})
		cfg := c.lanes[0].cfg
		dial, refused := cfg.Dial, errors.New("refused")
		cfg.Dial = func() (net.Conn, error) { return nil, refused }
		cfg.Log = func(err error) { logged = append(logged, err) }
		var waits []time.Duration
		for range 8 {
			w, began := newLine("a"), time.Now()
			if c.Do(&w.Work, nil, 0); w.Err != refused {
				t.Errorf("error %v", w.Err)
			}
			waits = append(waits, time.Since(began)/time.Millisecond)
		}
		if want := []time.Duration{0, 10, 20, 40, 80, 160, 320, 500}; !slices.Equal(waits, want) || len(logged) != 8 {
			t.Errorf("waited %d ms, want %d; %d logged", waits, want, len(logged))
		}
		cfg.Dial = dial
		go s.echo()
		w := newLine("a")
		if c.Do(&w.Work, nil, 0); w.got != "a\n" || w.Err != nil {
			t.Errorf("%q, %v", w.got, w.Err)
		}
		c.CloseIdle()
		synctest.Wait()
		if n := c.lanes[0].state.Load(); n != laneStopped {
			t.Errorf("the lane is in state %d", n)
		}
		close(s.conns)
	})
}

// TestAttemptsAreBounded: with a server that closes each connection, all requests fail
// after as many connections, also those that were never sent.
func TestAttemptsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 1})
		dials := 0
		dial := c.lanes[0].cfg.Dial
		c.lanes[0].cfg.Dial = func() (net.Conn, error) {
			dials++
			return dial()
		}
		ended := errors.New("ended")
		c.lanes[0].cfg.Explain = func(err error) error {
			if err == ErrEnded {
				return ended
			}
			return err
		}
		go func() {
			for conn := range s.conns {
				_, _ = conn.ReadString('\n')
				s.all[len(s.all)-1].Close()
			}
		}()
		a, b := newLine("a"), newLine("b")
		a.IsRepeatable, b.IsRepeatable = true, true
		endedA := begin(c, a, nil)
		endedB := begin(c, b, nil)
		if <-endedA != Answered || <-endedB != Answered || a.Err != ended || b.Err != ended || c.Pending() != 0 {
			t.Errorf("%v and %v, %d pending", a.Err, b.Err, c.Pending())
		}
		if dials > 4 {
			t.Errorf("%d connections", dials)
		}
		close(s.conns)
	})
}

// TestSentAgain: what was not answered is sent again if it is repeatable, in its order
// and before what is queued.
func TestSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 3})
		var ended []chan bool
		var lines []*line
		for _, text := range []string{"a", "b", "c", "d", "e"} {
			w := newLine(text)
			w.IsRepeatable = text != "c"
			lines = append(lines, w)
			done := make(chan bool)
			ended = append(ended, done)
			go func() { c.Do(&w.Work, make(chan struct{}), 0); close(done) }()
			synctest.Wait()
		}
		conn := <-s.conns
		s.want(conn, "a", "b", "c")
		s.say(conn, "A\n")
		<-ended[0]
		s.want(conn, "d")
		s.all[0].Close()
		<-ended[2]
		conn = <-s.conns
		s.want(conn, "b", "d", "e")
		s.say(conn, "B\nD\nE\n")
		for i, want := range []string{"A\n", "B\n", "", "D\n", "E\n"} {
			if <-ended[i]; lines[i].got != want || (lines[i].Err == nil) != (want != "") {
				t.Errorf("%d: %q, %v", i, lines[i].got, lines[i].Err)
			}
		}
	})
}

// TestRoomInTheQueue: a call that may end waits for room, and gets it in turn.
func TestRoomInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 1})
		var lines []*line
		var ended []chan bool
		for _, text := range []string{"a", "b", "c", "d"} {
			w, done := newLine(text), make(chan bool)
			lines, ended = append(lines, w), append(ended, done)
			go func() { c.Do(&w.Work, nil, time.Hour); close(done) }()
			synctest.Wait()
		}
		late := newLine("late")
		if phase := c.Do(&late.Work, nil, time.Second); phase != 0 || !late.released {
			t.Errorf("phase %d, released %v", phase, late.released)
		}
		conn := <-s.conns
		for range lines {
			text, err := conn.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			s.say(conn, text)
		}
		for i, w := range lines {
			if <-ended[i]; w.got != string(w.Out) || w.Err != nil {
				t.Errorf("%q got %q, %v", w.Out, w.got, w.Err)
			}
		}
	})
}

// TestBatchDelay: a request waits for others, and is written together with them.
func TestBatchDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 9, BatchDelay: time.Second})
		began := time.Now()
		begin(c, newLine("a"), nil)
		begin(c, newLine("b"), nil)
		conn := <-s.conns
		s.want(conn, "a", "b")
		if took := time.Since(began); took != time.Second || conn.Reader.Buffered() != 0 {
			t.Errorf("written after %v", took)
		}
		s.say(conn, "A\nB\n")
	})
}

// TestConnLimits: a server that does not answer, or does not read, fails what it has got.
func TestConnLimits(t *testing.T) {
	for name, cfg := range map[string]Config{"reading": {ReadTimeout: time.Second}, "writing": {WriteTimeout: time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			cfg.Conns, cfg.Pending = 1, 9
			c, s := newClient(t, cfg)
			c.lanes[0].cfg.IsTimeout = func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
			w := newLine("a")
			w.IsRepeatable = true
			began := time.Now()
			ended := begin(c, w, nil)
			conn := <-s.conns
			if name == "reading" {
				s.want(conn, "a")
			}
			<-ended
			took := time.Since(began)
			switch {
			case !errors.Is(w.Err, os.ErrDeadlineExceeded):
				t.Errorf("%s: %v", name, w.Err)
			case name == "reading" && took != time.Second:
				t.Errorf("%s: after %v", name, took)
			case name == "writing" && len(s.all) != 3:
				t.Errorf("%s: on %d connections", name, len(s.all))
			}
		})
	}
}

// TestRefusal: a server that refuses a new connection fails all requests, also those that were not
// sent. After an answer, the connection has ended like any other.
func TestRefusal(t *testing.T) {
	for _, isNew := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c, s := newClient(t, Config{Conns: 1, Pending: 9})
			c.lanes[0].cfg.IsRefusal = func(err error) bool { return err == io.EOF }
			first, sent, queued := newLine("first"), newLine("sent"), newLine("queued")
			sent.IsRepeatable, sent.IsLast = true, true // nothing follows it
			ended := []chan clock.Phase{begin(c, first, nil), begin(c, sent, nil), begin(c, queued, nil)}
			conn := <-s.conns
			s.want(conn, "first", "sent")
			if !isNew {
				s.say(conn, "FIRST\n")
				<-ended[0]
			}
			s.all[0].Close()
			if !isNew {
				conn = <-s.conns
				s.want(conn, "sent")
				return
			}
			for i, w := range []*line{first, sent, queued} {
				if <-ended[i]; w.Err != ErrEnded {
					t.Errorf("%q: %v", w.Out, w.Err)
				}
			}
			if len(s.all) != 1 {
				t.Errorf("%d connections", len(s.all))
			}
		})
	}
}

// TestAnswersThatNoRequestAwaits end the connection, as a broken one does; the requests
// after that are sent again.
func TestAnswersThatNoRequestAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, Config{Conns: 1, Pending: 9})
		a, b, last := newLine("a"), newLine("b"), newLine("c")
		b.IsRepeatable = true
		endedA, endedB := begin(c, a, nil), begin(c, b, nil)
		conn := <-s.conns
		s.want(conn, "a", "b")
		_, _ = conn.WriteString("half")
		_ = conn.Flush()
		s.all[0].Close()
		if <-endedA; a.Err == nil || a.got != "half" {
			t.Errorf("half an answer: %q, %v", a.got, a.Err)
		}
		conn = <-s.conns
		s.want(conn, "b")
		s.say(conn, "B\n")
		if <-endedB; b.got != "B\n" || b.Err != nil {
			t.Errorf("%q, %v", b.got, b.Err)
		}
		ended := begin(c, last, nil)
		s.want(conn, "c")
		s.say(conn, "C\nunsolicited\n")
		if <-ended; last.got != "C\n" {
			t.Errorf("%q, %v", last.got, last.Err)
		}
		if _, err := conn.ReadByte(); err == nil {
			t.Error("the connection stays open")
		}
	})
}
