package websocket

import (
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestOutputIsNoAnswer: after a ping, what is sent does not give the peer more time, however
// many calls of the engine it takes.
func TestOutputIsNoAnswer(t *testing.T) {
	s, conn := opens(t, &Endpoint{PongWithin: time.Second, OnMessage: echoMessage})
	if _, next := s.TimedOut(nil); next != engine.Read || conn.wait != time.Second {
		t.Fatalf("next %d, a wait of %v", next, conn.wait)
	}
	for range 3 {
		if err := s.conn.TryWrite(Binary, make([]byte, 20<<10)); err != nil {
			t.Fatal(err)
		}
	}
	_, next := s.Prompted(nil)
	for ; next == engine.Run; _, next = s.Run(nil) {
	}
	if s.conn.Pending() > 0 || conn.wait != time.Second {
		t.Errorf("%d bytes wait, and the peer has %v", s.conn.Pending(), conn.wait)
	}
	conn.feed(s, []byte(masked(ws.OpPong, "")), 100, nil)
	if conn.wait < 30*time.Second {
		t.Errorf("after an answer, the peer has %v", conn.wait)
	}
}

// TestPingSpread: the time of the first ping is within a fifth of PingAfter.
func TestPingSpread(t *testing.T) {
	set := (&Endpoint{PingAfter: 10 * time.Second}).settings()
	seen := map[time.Duration]bool{}
	for index := range uint32(1000) {
		s := &session{host: &host{settings: set}, conn: &Conn{index: index}}
		after := s.pingAfter()
		if after < 8*time.Second || after > 12*time.Second {
			t.Fatalf("connection %d: %v", index, after)
		}
		seen[after] = true
	}
	if len(seen) < 500 {
		t.Errorf("only %d different times", len(seen))
	}
	if s := (&session{host: &host{settings: (&Endpoint{PingAfter: -1}).settings()}, conn: &Conn{index: 5}}); s.pingAfter() != 0 {
		t.Error("a ping is sent though there shall be none")
	}
}
