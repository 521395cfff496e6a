package websocket

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A countingServer is an upgrade.Server that counts.
type countingServer struct {
	fakeServer
	read, written int
}

func (s *countingServer) Count(read, written int) { s.read += read; s.written += written }

// opens returns a session without an engine. Its server is a countingServer.
func opens(t *testing.T, e *Endpoint) (*session, *fakeConn) {
	conn := &fakeConn{}
	p, _ := e.settings().NewHost(&countingServer{}).(*host).open(conn, nil, opening{})
	t.Cleanup(func() { p.Closed(nil) })
	return p.(*session), conn
}

// whole is a frame of a server.
func whole(op ws.Opcode, payload string) string {
	return string(ws.AppendFrame(nil, op, []byte(payload)))
}

// TestRooms: messages arrive in pieces of every kind, in the engine's buffer and in their
// own.
func TestRooms(t *testing.T) {
	third := strings.Repeat("κόσμε! ", 20<<10/13)
	script := masked(ws.OpText, longText) + masked(ws.OpBinary, "short") +
		part(ws.OpText, third) + masked(ws.OpPing, "p") + part(ws.OpContinuation, third) + masked(ws.OpContinuation, third) +
		masked(ws.OpBinary, allBytes(120_000)) + masked(ws.OpText, "end")
	want := whole(ws.OpText, longText) + whole(ws.OpBinary, "short") + whole(ws.OpPong, "p") + whole(ws.OpText, third+third+third) +
		whole(ws.OpBinary, allBytes(120_000)) + whole(ws.OpText, "end")
	e := &Endpoint{OnMessage: echoMessage, MaxPending: 1 << 20, ReadLimit: 120_000}
	for _, most := range []int{1, 333, minRoom, minRoom + 1, 16<<10 - 1, 16 << 10, 16<<10 + 1, 40_000, 1 << 20} {
		firsts := []int{1}
		if most == 1<<20 { // a first piece of each size, up to the third head, and around the engine's buffer
			for i := range 30 {
				firsts = append(firsts, i, 16<<10-20+i, len(longText)-10+i, len(longText)+len(third)-10+i)
			}
		}
		for _, first := range firsts {
			s, conn := opens(t, e)
			out, _ := conn.feed(s, []byte(script[:first]), most, nil)
			out, next := conn.feed(s, []byte(script[first:]), most, out)
			if string(out) != want || next != engine.Read || !s.reader.IsBetween() || s.partial != nil {
				t.Fatalf("first %d bytes, then pieces of %d: %d bytes of %d, next %d", first, most, len(out), len(want), next)
			}
			if got := s.host.server.(*countingServer); got.read != len(script) || got.written != len(want) {
				t.Fatalf("first %d bytes, then pieces of %d: %+v were counted", first, most, got)
			}
			if conn.roomy < len(script)/2 {
				t.Fatalf("first %d bytes, then pieces of %d: %d of %d bytes came into a room", first, most, conn.roomy, len(script))
			}
		}
	}
}

// TestRoomViolations: what is wrong in a room is found there.
func TestRoomViolations(t *testing.T) {
	for _, at := range []int{20 << 10, 60 << 10, 64<<10 - 1} {
		text := []byte(strings.Repeat("x", 64<<10))
		text[at] = 0xff
		s, conn := opens(t, &Endpoint{OnMessage: echoMessage})
		out, next := conn.feed(s, []byte(masked(ws.OpText, string(text))), 64<<10, nil)
		if want := whole(ws.OpClose, "\x03\xefa text message is not UTF-8"); next != engine.CloseLinger || string(out) != want || conn.roomy == 0 {
			t.Errorf("byte %d: %q, next %d; %d bytes came into a room", at, out, next, conn.roomy)
		}
	}
}

// TestMemoryAhead: a message gets memory as it arrives, not as its head promises. A buffer
// of the pool may have up to four times the capacity that was asked for.
func TestMemoryAhead(t *testing.T) {
	for _, size := range []int64{64 << 10, 1 << 20, 100 << 20, 1 << 30} {
		s, conn := opens(t, &Endpoint{ReadLimit: -1})
		frame := ws.AppendHead(nil, ws.Head{Opcode: ws.OpBinary, IsFinal: true, IsMasked: true, Length: size})
		if _, next := conn.feed(s, append(frame, make([]byte, 100)...), 16<<10, nil); next != engine.Read {
			t.Fatal(next)
		}
		if room := s.Room(); room != nil || cap(s.partial.B) > 4*800 {
			t.Errorf("after 100 bytes of %d, it has %d, and a room of %d", size, cap(s.partial.B), len(room))
		}
		arrived, piece := 100, make([]byte, 16<<10)
		for range min(size, 4<<20)>>14 - 1 {
			if _, next := conn.feed(s, piece, 1<<20, nil); next != engine.Read {
				t.Fatal(next)
			}
			arrived += len(piece)
			s.Room() // which may grow
			bound := 4 * max(2*arrived, min((aheadFactor+1)*arrived, arrived+freelyAhead))
			if got := cap(s.partial.B); got > bound {
				t.Fatalf("after %d bytes of %d, it has %d; the bound is %d", arrived, size, got, bound)
			}
		}
	}
}

// TestLongMessages: messages of many sizes go both ways over a socket, faster than their
// sender reads.
func TestLongMessages(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, ReadLimit: 1 << 20})
		c := f.dial()
		var input, want []string
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 30 {
			payload := allBytes(8 * (20 + random.IntN(40<<10)))
			input = append(input, masked(ws.OpBinary, payload), masked(ws.OpText, fmt.Sprint(i)))
			want = append(want, long("binary", payload), fmt.Sprint("text ", i))
		}
		go func() {
			in := strings.Join(input, "")
			for len(in) > 0 {
				n := min(len(in), 1+random.IntN(100<<10))
				if _, err := io.WriteString(c, in[:n]); err != nil {
					return // c.expect tells
				}
				in = in[n:]
			}
		}()
		c.expect(want...)
	})
}

// TestAnswersLeaveWithTheCall: what a callback writes below minDirect is the output of the call, so
// that the engine, which waits next, may send it with that of other connections. The session
// writes longer messages itself.
func TestAnswersLeaveWithTheCall(t *testing.T) {
	for _, size := range []int{0, 32, minDirect - 1, minDirect} {
		s, conn := opens(t, &Endpoint{OnMessage: func(c *Conn, m Message) error {
			return c.Write(t.Context(), m.Kind, m.Data)
		}})
		conn.ready = 2 * minDirect
		payload := strings.Repeat("x", size)
		out, next := conn.feed(s, []byte(masked(ws.OpText, payload)), 1<<20, nil)
		want := whole(ws.OpText, payload)
		if size >= minDirect {
			out, conn.sent = conn.sent, out
		}
		if string(out) != want || len(conn.sent) > 0 || next != engine.Read {
			t.Errorf("%d bytes: %d bytes of %d, next %d; %d bytes went another way", size, len(out), len(want), next, len(conn.sent))
		}
	}
}

// TestSendNow: a long message leaves without being copied as far as there is room. The
// order stays.
func TestSendNow(t *testing.T) {
	payload := allBytes(minDirect + 100*8)
	e := &Endpoint{MaxPending: 1 << 20, OnMessage: func(c *Conn, m Message) error {
		for _, p := range []string{"before", string(m.Data), "between", string(m.Data[:minDirect]), "after"} {
			if err := c.TryWrite(Binary, []byte(p)); err != nil {
				return err
			}
		}
		return nil
	}}
	var want string
	for _, p := range []string{"before", payload, "between", payload[:minDirect], "after"} {
		want += whole(ws.OpBinary, p)
	}
	for _, ready := range []int{0, 1, 2, 7, 8, 9, 11, 12, 13, 100, minDirect, len(payload), len(want) - len("after") - 3, len(want) - len("after") - 2, len(want)} {
		s, conn := opens(t, e)
		conn.ready = ready
		out, next := conn.feed(s, []byte(masked(ws.OpBinary, payload)), 1<<20, nil)
		if string(conn.sent)+string(out) != want || next != engine.Read {
			t.Errorf("with room for %d bytes: %d and %d bytes, want %d; next %d", ready, len(conn.sent), len(out), len(want), next)
		}
		if got := s.host.server.(*countingServer); got.written != len(want) {
			t.Errorf("with room for %d bytes: %d were counted", ready, got.written)
		}
		if sent := min(ready, len(want)-len(whole(ws.OpBinary, "after"))); len(conn.sent) != sent {
			t.Errorf("with room for %d bytes: %d were sent at once", ready, len(conn.sent))
		}
	}
}

// TestConcurrentLongWrites: goroutines write long messages while the connection echoes
// others, with callbacks and with a loop.
func TestConcurrentLongWrites(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		conns := make(chan *Conn, 1)
		e := &Endpoint{OnMessage: echoMessage, MaxPending: 1 << 20, OnOpen: func(c *Conn) error { conns <- c; return nil }}
		testLongWrites(t, startEndpoint(t, engine, e), conns)
		f := accepting(t, engine, &Endpoint{MaxPending: 1 << 20}, func(c *Conn) error {
			conns <- c
			for {
				m, err := c.Read(t.Context())
				if err != nil {
					return err
				}
				if err := c.Write(t.Context(), m.Kind, m.Data); err != nil {
					return err
				}
			}
		})
		testLongWrites(t, f, conns)
	})
}

func testLongWrites(t *testing.T, f *fixture, conns <-chan *Conn) {
	const writers, each = 4, 40
	sizeOf := func(number int) int { return 200 + number%3*(20<<10) + number }
	message := func(writer, number int) string {
		return strings.Repeat(string(rune('a'+writer)), sizeOf(number))
	}
	c := f.dial()
	conn := <-conns
	for w := range writers {
		go func() {
			for i := range each {
				if err := conn.Write(t.Context(), Text, []byte(message(w, i))); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	go func() {
		for i := range each {
			_, _ = c.Write([]byte(masked(ws.OpText, message(writers, i))))
		}
	}()
	next := map[string]int{} // by what next returns
	for w := range writers + 1 {
		next[long("text", message(w, 0))] = w
	}
	numbers := [writers + 1]int{}
	for range (writers + 1) * each {
		got := c.next()
		w, ok := next[got]
		if !ok {
			t.Fatalf("got %q, want one of %v", got, next)
		}
		delete(next, got)
		if numbers[w]++; numbers[w] < each {
			next[long("text", message(w, numbers[w]))] = w
		}
	}
}

// TestLongGreeting: OnOpen writes a long message, which follows the answer to the handshake.
func TestLongGreeting(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, OnOpen: func(c *Conn) error {
			return c.TryWrite(Text, []byte(longWelcome))
		}})
		c := f.dial(masked(ws.OpText, "early"))
		c.expect(long("text", longWelcome), "text early")
	})
}
