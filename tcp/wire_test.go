package tcp

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/invariants"
)

// serveWire serves with s over TCP until the test ends, and returns a way to
// connect.
func serveWire(t testing.TB, s *Server) (dial func() net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		_ = ln.Close() // Serve may not have begun
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-served
	})
	return func() net.Conn {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		return conn
	}
}

// roundTrip echoes message.
func roundTrip(t testing.TB, conn net.Conn, message, buffer []byte) {
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, buffer[:len(message)]); err != nil {
		t.Fatal(err)
	}
}

// TestWireAllocations counts the allocations of a round trip, including the engine's
// and the client's.
func TestWireAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, e := range []Engine{EnginePerConn, EngineEpoll} {
		conn := serveWire(t, &Server{Handler: echoHandler, Engine: e})()
		message, buffer := []byte("12345678"), make([]byte, 8)
		allocs := testing.AllocsPerRun(2000, func() { roundTrip(t, conn, message, buffer) })
		if allocs != 0 {
			t.Errorf("engine %v: %v allocations", e, allocs)
		}
	}
}

// remembered counts the sessions that sleepers keep.
func remembered(l *sleepers) (n int) {
	for i := range l.shards {
		l.shards[i].mu.Lock()
		n += len(l.shards[i].sessions)
		l.shards[i].mu.Unlock()
	}
	return n
}

// TestIdleIsForgotten: on the event engine, an idle connection without a state takes
// no memory here, and one with a state none after its end.
func TestIdleIsForgotten(t *testing.T) {
	s := &Server{Engine: EngineEpoll, Handler: func(c *Conn, in []byte) (int, error) {
		if in[0] == 's' {
			c.SetState(1)
		}
		return c.Write(in)
	}}
	dial := serveWire(t, s)
	buffer := make([]byte, 1)
	var conns []net.Conn
	for i := range 40 {
		conn := dial()
		conns = append(conns, conn)
		roundTrip(t, conn, []byte("-s"[i%2:i%2+1]), buffer)
	}
	if s.Stats().Engine != EngineEpoll.String() {
		t.Skip("epoll does not work here")
	}
	await(t, "20 sessions", func() bool { return remembered(&s.sleepers) == 20 })
	for _, conn := range conns[:20] {
		_ = conn.Close()
	}
	await(t, "10 sessions", func() bool { return remembered(&s.sleepers) == 10 })
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if n := remembered(&s.sleepers); n != 0 {
		t.Errorf("%d sessions after Shutdown", n)
	}
}

// await waits until condition holds.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: waiting for %s", what)
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	for _, e := range []Engine{EnginePerConn, EngineEpoll} {
		b.Run(e.String(), func(b *testing.B) {
			conn := serveWire(b, &Server{Handler: echoHandler, Engine: e})()
			message, buffer := []byte("12345678"), make([]byte, 8)
			b.ReportAllocs()
			for b.Loop() {
				roundTrip(b, conn, message, buffer)
			}
		})
	}
}

// BenchmarkSession measures this package's part of a message.
func BenchmarkSession(b *testing.B) {
	s, conn, a := open(b, &Server{Handler: echoHandler})
	message := []byte("12345678")
	b.ReportAllocs()
	for b.Loop() {
		conn.written = conn.written[:0]
		conn.feed(s, message)
		s.Pause()
		s = a.Wake(conn, memoOf(s)).(*session)
	}
}
