package natsbackplane

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// A slowServer speaks as much of the protocol of NATS as a client needs to connect. It
// answers the first ping of a connection, and hands out the later ones.
type slowServer struct {
	net.Listener
	conns chan net.Conn
	pings chan net.Conn
}

func (s *slowServer) serve() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		s.conns <- c
		go s.answer(c)
	}
}

func (s *slowServer) answer(c net.Conn) {
	_, _ = io.WriteString(c, `INFO {"server_id":"slow","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
	lines, pings := bufio.NewScanner(c), 0
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "PING") {
			continue
		}
		if pings++; pings > 1 {
			s.pings <- c
			continue
		}
		_, _ = io.WriteString(c, "PONG\r\n")
	}
}

// TestSlowAfterBreak: the server is slow to read the subscriptions of a new connection.
// The gap is told when it has them, and not before.
func TestSlowAfterBreak(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	s := &slowServer{Listener: listener, conns: make(chan net.Conn, 10), pings: make(chan net.Conn, 1000)}
	go s.serve()
	conn, err := nats.Connect("nats://"+listener.Addr().String(), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b, err := New(conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.link.flushTimeout = 10 * time.Millisecond
	told := make(counter, 100)
	if err := b.Subscribe(told); err != nil {
		t.Fatal(err)
	}
	_ = (<-s.conns).Close()
	for range 3 { // two have timed out when the third one is sent
		select {
		case <-s.pings:
		case <-told:
			t.Fatal("the gap was told before the server had the subscriptions")
		}
	}
	c := <-s.conns
	for range 3 {
		_, _ = io.WriteString(c, "PONG\r\n")
	}
	over := make(chan struct{})
	defer close(over)
	go func() { // those that were sent meanwhile
		for {
			select {
			case c := <-s.pings:
				_, _ = io.WriteString(c, "PONG\r\n")
			case <-over:
				return
			}
		}
	}()
	if room := <-told; room != "gap of " {
		t.Errorf("got %q", room)
	}
}
