package tcp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/tcp"
)

// countLines numbers the lines of a connection, in its State.
func countLines(c *tcp.Conn, in []byte) (int, error) {
	n, _ := c.State().(int)
	used, err := lines(c, in)
	if used > 0 {
		c.SetState(n + 1)
		fmt.Fprintf(c, "#%d\n", n+1)
	}
	return used, err
}

// TestState: connections with and without a state take turns, and none gets another's
// state.
func TestState(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		closed := make(chan any, 100)
		s := f.start(t, &tcp.Server{
			Handler: func(c *tcp.Conn, in []byte) (int, error) {
				if in[0] == '.' {
					if c.State() != nil {
						t.Errorf("a connection without a state has %v", c.State())
					}
					return c.Write(in)
				}
				return countLines(c, in)
			},
			OnClose: func(c *tcp.Conn, _ error) { closed <- c.State() },
		})
		var clients []*client
		for range 10 {
			clients = append(clients, s.connect(t), s.connect(t))
		}
		for round := 1; round <= 5; round++ {
			for i := 0; i < len(clients); i += 2 {
				clients[i].ask(t, "line\n", fmt.Sprintf("4:line\n#%d\n", round))
				clients[i+1].ask(t, ".", ".")
			}
		}
		for i := 0; i < len(clients); i += 2 {
			_ = clients[i].Close()
			if state := <-closed; state != 5 {
				t.Errorf("OnClose saw the state %v", state)
			}
			_ = clients[i+1].Close()
			if state := <-closed; state != nil {
				t.Errorf("OnClose saw the state %v of a connection without one", state)
			}
		}
		eventually(t, "the ends", func() bool { return s.Stats().Connections == 0 })
	})
}

func TestOpenAndClose(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		ended := make(ends, 1)
		var opened atomic.Int32
		s := f.start(t, &tcp.Server{
			OnOpen: func(c *tcp.Conn) error {
				if hasTLS := c.TLS() != nil; hasTLS != (f.network.tls != nil) {
					t.Errorf("there is TLS: %v", hasTLS)
				}
				if opened.Add(1) == 2 {
					_, _ = c.WriteString("go away")
					return io.EOF
				}
				_, err := c.WriteString("welcome ")
				return err
			},
			Handler: lines,
			OnClose: func(c *tcp.Conn, err error) {
				if c.RemoteAddr() == nil || c.LocalAddr() == nil || c.TLS() != nil {
					t.Errorf("addresses in OnClose: %v, %v", c.RemoteAddr(), c.LocalAddr())
				}
				if _, err := c.WriteString("x"); err != tcp.ErrClosed {
					t.Errorf("WriteString in OnClose returned %v", err)
				}
				if err := c.Flush(); err != tcp.ErrClosed {
					t.Errorf("Flush in OnClose returned %v", err)
				}
				ended <- err
			},
		})
		c := s.connect(t)
		c.expect(t, "welcome ")
		c.ask(t, "quit\n", "4:quit\n")
		c.expectEnd(t, "")
		ended.expect(t, nil)
		s.connect(t).expectEnd(t, "go away")
		ended.expect(t, nil)

		c = s.connect(t)
		c.ask(t, "half a line", "welcome ")
		_ = c.Close()
		ended.expect(t, io.ErrUnexpectedEOF)
		if got := s.Stats(); got.Accepted != 3 || got.Refused != 0 {
			t.Errorf("%+v", got)
		}
	})
}

var errMadeUp = errors.New("made up")

func TestHandlerErrors(t *testing.T) {
	for name, c := range map[string]struct {
		do       func() (int, error)
		end      error
		isLogged string
	}{
		"error":    {func() (int, error) { return 0, errMadeUp }, errMadeUp, ""},
		"panic":    {func() (int, error) { panic("out of order") }, tcp.ErrPanicked, "out of order"},
		"too many": {func() (int, error) { return 100, nil }, tcp.ErrPanicked, "used 100 of 2 bytes"},
		"negative": {func() (int, error) { return -1, nil }, tcp.ErrPanicked, "used -1 of 2 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			eachFixture(t, func(t *testing.T, f fixture) {
				ended, log := make(ends, 1), &journal{}
				s := f.start(t, &tcp.Server{OnClose: ended.onClose, Logger: log.logger(), Handler: func(conn *tcp.Conn, in []byte) (int, error) {
					_, _ = conn.Write(in)
					if len(in) == 2 {
						return c.do()
					}
					return len(in), nil
				}})
				peer := s.connect(t)
				peer.ask(t, "1", "1")
				peer.send(t, "22")
				peer.expectEnd(t, "22")
				ended.expect(t, c.end)
				if !strings.Contains(log.String(), c.isLogged) || c.isLogged == "" && strings.Contains(log.String(), "panic") {
					t.Errorf("logged: %s", log)
				}
				s.connect(t).ask(t, "1", "1")
			})
		})
	}
}

func TestOtherPanics(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		log := &journal{}
		s := f.start(t, &tcp.Server{
			Logger: log.logger(), Handler: echo,
			OnOpen:  func(*tcp.Conn) error { panic("in OnOpen") },
			OnClose: func(_ *tcp.Conn, err error) { panic(fmt.Sprint("in OnClose: ", err)) },
		})
		s.connect(t).expectEnd(t, "")
		eventually(t, "the log", func() bool {
			return strings.Contains(log.String(), "in OnOpen") && strings.Contains(log.String(), "in OnClose: "+tcp.ErrPanicked.Error())
		})
	})
}

// TestTimeouts: peers fall silent at once, after a message, and within one.
func TestTimeouts(t *testing.T) {
	// later is long enough to send something before it passes.
	const soon, later = 30 * time.Millisecond, 2 * time.Second
	set := func(set func(*tcp.Conn)) tcp.Handler {
		return func(c *tcp.Conn, in []byte) (int, error) {
			set(c)
			return lines(c, in)
		}
	}
	for name, c := range map[string]struct {
		server     *tcp.Server
		sent, want string
	}{
		"silence":        {&tcp.Server{IdleTimeout: soon, Handler: lines}, "", ""},
		"after a line":   {&tcp.Server{IdleTimeout: later, Handler: lines}, "a\n", "1:a\n"},
		"half a line":    {&tcp.Server{ReadTimeout: soon, Handler: lines}, "a\nhalf", "1:a\n"},
		"read and idle":  {&tcp.Server{ReadTimeout: soon, IdleTimeout: time.Hour, Handler: lines}, "half", ""},
		"idle and read":  {&tcp.Server{ReadTimeout: time.Hour, IdleTimeout: later, Handler: lines}, "half", ""},
		"own idle":       {&tcp.Server{Handler: set(func(c *tcp.Conn) { c.SetIdleTimeout(soon) })}, "a\n", "1:a\n"},
		"own read":       {&tcp.Server{Handler: set(func(c *tcp.Conn) { c.SetReadTimeout(soon) })}, "half", ""},
		"own idle first": {&tcp.Server{OnOpen: func(c *tcp.Conn) error { c.SetIdleTimeout(soon); return nil }, Handler: lines}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachFixture(t, func(t *testing.T, f fixture) {
				ended := make(ends, 1)
				server := &tcp.Server{
					Handler: c.server.Handler, OnOpen: c.server.OnOpen, OnClose: ended.onClose,
					IdleTimeout: c.server.IdleTimeout, ReadTimeout: c.server.ReadTimeout,
				}
				s := f.start(t, server)
				peer := s.connect(t)
				peer.send(t, c.sent)
				peer.expectEnd(t, c.want)
				ended.expect(t, os.ErrDeadlineExceeded)
			})
		})
	}
}

// TestTimeoutsLifted: a connection without time-outs outlives the server's, between
// messages and within one.
func TestTimeoutsLifted(t *testing.T) {
	const short = 50 * time.Millisecond
	eachFixture(t, func(t *testing.T, f fixture) {
		var opened atomic.Int32
		s := f.start(t, &tcp.Server{IdleTimeout: short, ReadTimeout: short, Handler: lines, OnOpen: func(c *tcp.Conn) error {
			if opened.Add(1) > 1 {
				return nil
			}
			c.SetIdleTimeout(0)
			c.SetReadTimeout(0)
			_, err := c.WriteString("take your time")
			return err
		}})
		lasting := s.connect(t)
		lasting.expect(t, "take your time")
		s.connect(t).expectEnd(t, "") // its time-out passes meanwhile
		lasting.ask(t, "a\n", "1:a\n")
		s.connect(t).expectEnd(t, "")
		lasting.send(t, "half")
		s.connect(t).expectEnd(t, "")
		lasting.ask(t, "\n", "4:half\n")
	})
}

func TestWriteTimeout(t *testing.T) {
	flood := func(c *tcp.Conn) error {
		for {
			if _, err := c.Write(make([]byte, 50_000)); err != nil {
				return err
			}
		}
	}
	eachFixture(t, func(t *testing.T, f fixture) {
		ended := make(ends, 2)
		s := f.start(t, &tcp.Server{
			WriteTimeout: 30 * time.Millisecond, OnClose: ended.onClose,
			Handler: func(c *tcp.Conn, _ []byte) (int, error) { return 0, flood(c) },
		})
		s.connect(t).send(t, "go")
		ended.expect(t, os.ErrDeadlineExceeded)

		own := &tcp.Server{OnClose: ended.onClose, Handler: func(c *tcp.Conn, _ []byte) (int, error) {
			c.SetWriteTimeout(30 * time.Millisecond)
			return 0, flood(c)
		}}
		f.start(t, own).connect(t).send(t, "go")
		ended.expect(t, os.ErrDeadlineExceeded)
	})
}

func TestDetach(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		ended := make(ends, 1)
		s := f.start(t, &tcp.Server{OnClose: ended.onClose, Handler: func(c *tcp.Conn, in []byte) (int, error) {
			used, err := lines(c, in)
			if strings.HasPrefix(string(in), "detach\n") {
				c.Detach(func(conn net.Conn) {
					defer conn.Close()
					fmt.Fprint(conn, "detached ")
					_, _ = io.Copy(conn, conn)
				})
			}
			return used, err
		}})
		for _, cut := range []int{0, 3, 7, 10} { // within the line, at its end, after it
			c := s.connect(t)
			const sent = "detach\nmore input"
			if cut > 0 {
				c.send(t, "a\n"+sent[:cut])
				c.expect(t, "1:a\n")
			}
			c.ask(t, sent[cut:]+"\n", "6:detach\ndetached more input\n")
			c.ask(t, "even more", "even more")
			_ = c.Close()
			ended.expect(t, nil)
		}
	})
}

// TestDetachOverruled: Detach has no effect after an error, and its function may
// fail.
func TestDetachOverruled(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		log := &journal{}
		s := f.start(t, &tcp.Server{Logger: log.logger(), Handler: func(c *tcp.Conn, in []byte) (int, error) {
			c.Detach(func(net.Conn) { panic("in Detach") })
			if in[0] == 'e' {
				return 1, errMadeUp
			}
			return 1, nil
		}})
		c := s.connect(t)
		c.send(t, "e")
		c.expectEnd(t, "")
		if strings.Contains(log.String(), "in Detach") {
			t.Error("the error did not win")
		}
		c = s.connect(t)
		c.send(t, "p")
		c.expectEnd(t, "")
		eventually(t, "the log", func() bool { return strings.Contains(log.String(), "in Detach") })
	})
}

func TestLimits(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		for _, server := range []*tcp.Server{{MaxConns: 2}, {MaxConnsPerIP: 2}} {
			if server.MaxConnsPerIP > 0 && f.network.name == "pipe" {
				continue // it has no address
			}
			server.Handler = echo
			s := f.start(t, server)
			first, second := s.connect(t), s.connect(t)
			first.ask(t, "1", "1")
			second.ask(t, "2", "2")
			refusesOneMore := func() {
				t.Helper()
				before := s.Stats().Refused
				if conn, err := s.dial(); err == nil { // the handshake may fail
					_ = conn.SetDeadline(time.Now().Add(patience))
					(&client{conn}).expectEnd(t, "")
					_ = conn.Close()
				}
				eventually(t, "the refusal", func() bool { return s.Stats().Refused == before+1 })
			}
			refusesOneMore()
			_ = second.Close()
			eventually(t, "room", func() bool {
				conn, err := s.dial()
				if err != nil {
					return false
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				_, _ = conn.Write([]byte("x"))
				n, _ := conn.Read(make([]byte, 1))
				return n == 1
			})
			eventually(t, "the end of that one", func() bool { return s.Stats().Connections == 1 })
			s.connect(t).ask(t, "3", "3")
			refusesOneMore() // the connection that ended made room once
			if f.network.name == "tcp" {
				one, two := net.Pipe()
				_ = two.Close()
				s.MaxConns = 1
				if err := s.ServeConn(one); err != tcp.ErrRefused {
					t.Errorf("ServeConn returned %v", err)
				}
			}
		}
	})
}

// TestShutdown closes idle connections, waits for a handler and for the second
// half of a message, and calls OnClose for all.
func TestShutdown(t *testing.T) {
	eachFixture(t, func(t *testing.T, f fixture) {
		const idle = 20
		ended := make(ends, idle+3)
		entered, release := make(chan struct{}), make(chan struct{})
		var opened atomic.Int32 // Shutdown ends a handshake, and OnClose is not called then
		onOpen := func(*tcp.Conn) error { opened.Add(1); return nil }
		s := f.start(t, &tcp.Server{OnOpen: onOpen, OnClose: ended.onClose, Handler: func(c *tcp.Conn, in []byte) (int, error) {
			if string(in) == "wait\n" {
				close(entered)
				<-release
			}
			return countLines(c, in)
		}})
		for range idle {
			s.connect(t).ask(t, "a\n", "1:a\n#1\n")
		}
		fresh, busy, halfway := s.connect(t), s.connect(t), s.connect(t)
		halfway.ask(t, "a\nhalf", "1:a\n#1\n")
		busy.send(t, "wait\n")
		<-entered
		eventually(t, "all connections", func() bool { return opened.Load() == idle+3 })
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		for range idle + 1 {
			ended.expect(t, nil)
		}
		fresh.expectEnd(t, "")
		close(release)
		busy.expectEnd(t, "4:wait\n#1\n")
		ended.expect(t, nil)
		halfway.send(t, "\n")
		halfway.expectEnd(t, "4:half\n#2\n")
		ended.expect(t, nil)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, err := s.dial(); err == nil {
			t.Error("the listener is open")
		}
	})
}

// TestShutdownGivesUp: handlers do not end in time.
func TestShutdownGivesUp(t *testing.T) {
	eachEngine(t, func(t *testing.T, f fixture) {
		entered, release := make(chan struct{}), make(chan struct{})
		ended := make(ends, 1)
		s := f.start(t, &tcp.Server{OnClose: ended.onClose, Handler: func(c *tcp.Conn, in []byte) (int, error) {
			close(entered)
			<-release
			return len(in), nil
		}})
		c := s.connect(t)
		c.send(t, "x")
		<-entered
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 2 { // the handler still runs
			if err := s.Shutdown(ctx); err != context.Canceled {
				t.Errorf("Shutdown returned %v", err)
			}
		}
		c.expectEnd(t, "")
		close(release)
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("OnClose was not called")
		}
	})
}

// TestListenerFails: Serve returns the listener's error.
func TestListenerFails(t *testing.T) {
	failure := errors.New("proxy protocol: upstream closed the stream before its header")
	s := &tcp.Server{Handler: echo}
	if err := s.Serve(failingListener{failure}); err != failure {
		t.Errorf("Serve returned %v", err)
	}
}

type failingListener struct{ err error }

func (l failingListener) Accept() (net.Conn, error) { return nil, l.err }
func (failingListener) Close() error                { return nil }
func (failingListener) Addr() net.Addr              { return &net.TCPAddr{} }

// TestServeAgain serves after a Shutdown.
func TestServeAgain(t *testing.T) {
	eachEngine(t, func(t *testing.T, f fixture) {
		s := f.start(t, &tcp.Server{Handler: echo})
		s.connect(t).ask(t, "1", "1")
		s.shutdown(t)
		ln, dial := f.network.listen(t)
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		s.dial = dial
		s.connect(t).ask(t, "2", "2")
		s.shutdown(t)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
