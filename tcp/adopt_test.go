package tcp_test

import (
	"errors"
	"io"
	"log"
	"net"
	"testing"

	"github.com/sluicehttp/sluice/tcp"
)

// asker is a Server whose connections were dialled. It sends first; heard gets the
// answers.
func asker(t *testing.T, e tcp.Engine) (_ *tcp.Server, heard chan string, closed ends) {
	heard, closed = make(chan string, 10), make(ends, 10)
	s := &tcp.Server{
		Engine: e,
		Logger: log.New(failingWriter{t}, "", 0),
		OnOpen: func(c *tcp.Conn) error {
			_, err := c.WriteString("question\n")
			return err
		},
		Handler: func(_ *tcp.Conn, in []byte) (int, error) {
			heard <- string(in)
			return len(in), nil
		},
		OnClose: closed.onClose,
	}
	return s, heard, closed
}

// TestAdoptConn uses Servers as clients: with a socket, and with another net.Conn.
func TestAdoptConn(t *testing.T) {
	for _, network := range []string{"tcp", "pipe"} {
		for _, e := range []tcp.Engine{tcp.EnginePerConn, tcp.EngineEpoll} {
			t.Run(network+"/"+e.String(), func(t *testing.T) {
				s, heard, closed := asker(t, e)
				mine, other := pairOf(t, network)
				if err := s.AdoptConn(mine); err != nil {
					t.Fatal(err)
				}
				checkAsked(t, s, &client{other}, heard, closed)
			})
		}
	}
}

// pairOf returns both ends of a connection.
func pairOf(t *testing.T, network string) (mine, other net.Conn) {
	t.Helper()
	if network == "pipe" {
		mine, other = net.Pipe()
	} else {
		ln, dial := listenTCP(t)
		defer ln.Close()
		var err error
		if mine, err = dial(); err != nil {
			t.Fatal(err)
		}
		if other, err = ln.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = other.Close() })
	return mine, other
}

// checkAsked is the other end of an asker's connection.
func checkAsked(t *testing.T, s *tcp.Server, other *client, heard chan string, closed ends) {
	t.Helper()
	other.expect(t, "question\n")
	other.send(t, "answer\n")
	if got := <-heard; got != "answer\n" {
		t.Errorf("the handler got %q", got)
	}
	if stats := s.Stats(); stats.Accepted != 1 || stats.Connections != 1 {
		t.Errorf("while it is served: %+v", stats)
	}
	(&running{Server: s}).shutdown(t)
	closed.expect(t, nil)
	if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after Shutdown: %v, want io.EOF", err)
	}
}

// TestAdoptBeginsAnew: a Server that was shut down can adopt again.
func TestAdoptBeginsAnew(t *testing.T) {
	s, heard, _ := asker(t, tcp.EngineAuto)
	for range 2 {
		mine, other := pairOf(t, "tcp")
		if err := s.AdoptConn(mine); err != nil {
			t.Fatal(err)
		}
		c := &client{other}
		c.expect(t, "question\n")
		c.send(t, "again\n")
		if got := <-heard; got != "again\n" {
			t.Errorf("the handler got %q", got)
		}
		(&running{Server: s}).shutdown(t)
	}
}

// TestAdoptNothing: without a handler the connection is closed.
func TestAdoptNothing(t *testing.T) {
	mine, other := pairOf(t, "tcp")
	if err := new(tcp.Server).AdoptConn(mine); err == nil {
		t.Error("a Server without a handler has adopted a connection")
	}
	if _, err := other.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection: %v, want io.EOF", err)
	}
}

// TestLoops: a Server has Loops event loops.
func TestLoops(t *testing.T) {
	s, heard, _ := asker(t, tcp.EngineEpoll)
	s.Loops = 3
	mine, other := pairOf(t, "tcp")
	if err := s.AdoptConn(mine); err != nil {
		t.Fatal(err)
	}
	defer (&running{Server: s}).shutdown(t)
	c := &client{other}
	c.expect(t, "question\n")
	c.send(t, "answer\n")
	<-heard
	stats := s.Stats()
	if stats.Engine != "epoll" {
		t.Skip("engine epoll does not work here")
	}
	if len(stats.Loops) != 3 {
		t.Errorf("%d loops, want 3", len(stats.Loops))
	}
}
