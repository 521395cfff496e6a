package websocket

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// A fakeConn is an engine.Conn with input in memory.
type fakeConn struct {
	engine.Conn // nil: nothing else is called
	in          []byte
	ready       int    // bytes that WriteReady takes
	sent        []byte // by WriteReady
	buffer      [16 << 10]byte
	roomy       int           // bytes of input that were fed in a room
	wait        time.Duration // of SetReadDeadline
	waitsSince  int64         // and its now
}

// feed gives s input as engines do: into its room if it has one, and in pieces of at most
// so many bytes. It returns when all is used, or at another step than Read.
func (c *fakeConn) feed(s *session, in []byte, most int, out []byte) ([]byte, engine.Next) {
	for len(in) > 0 {
		room := s.Room()
		c.roomy += min(len(in), most, len(room))
		if len(room) == 0 {
			room = c.buffer[:]
		}
		n := copy(room[:min(len(room), most)], in)
		in = in[n:]
		for got := room[:n]; len(got) > 0; got = c.in {
			used, next := s.Feed(got)
			c.in = got[used:]
			for next == engine.Run {
				out, next = s.Run(out)
			}
			if next != engine.Read {
				return out, next
			}
		}
	}
	return out, engine.Read
}

// WriteReady implements engine.Conn.
func (c *fakeConn) WriteReady(v *net.Buffers) int64 {
	total := int64(0)
	for len(*v) > 0 && c.ready > 0 {
		n := min(c.ready, len((*v)[0]))
		c.sent = append(c.sent, (*v)[0][:n]...)
		c.ready -= n
		total += int64(n)
		if (*v)[0] = (*v)[0][n:]; len((*v)[0]) == 0 {
			*v = (*v)[1:]
		}
	}
	return total
}

func (c *fakeConn) Buffered() []byte                           { return c.in }
func (c *fakeConn) Discard(n int)                              { c.in = c.in[n:] }
func (c *fakeConn) Target() engine.Target                      { return engine.Target{Generation: 1} }
func (c *fakeConn) SetReadDeadline(now int64, d time.Duration) { c.waitsSince, c.wait = now, d }
func (c *fakeConn) SetWriteTimeout(time.Duration)              {}
func (c *fakeConn) RemoteAddr() net.Addr                       { return nil }
func (c *fakeConn) LocalAddr() net.Addr                        { return nil }

// A fakeServer is an upgrade.Server.
type fakeServer struct{}

func (fakeServer) Memo(id, served uint64, opened int64) engine.Memo {
	return engine.Memo{ID: id, Served: served, Opened: opened}
}
func (fakeServer) Served(m engine.Memo) (uint64, bool)     { return m.Served, true }
func (fakeServer) Prompt(engine.Target)                    {}
func (fakeServer) ReadOn(engine.Target)                    {}
func (fakeServer) Cast([]engine.Target, []byte, func(int)) {}
func (fakeServer) Closing() upgrade.Closing                { return upgrade.CloseNot }
func (fakeServer) Life() *engine.Life                      { return new(engine.Life) }
func (fakeServer) IsRegistered() bool                      { return false }
func (fakeServer) Count(int, int)                          {}
func (fakeServer) Printf(string, ...any)                   {}

// A placedServer has a place among the hosts of a server.
type placedServer struct {
	fakeServer
	place upgrade.Place
}

func (s *placedServer) Memo(id, served uint64, opened int64) engine.Memo {
	return s.place.Memo(id, served, opened)
}
func (s *placedServer) Served(m engine.Memo) (uint64, bool) { return s.place.Served(m) }

// TestReuse: a session that was retired becomes that of any connection of its host, with what
// that has left, and of no other.
func TestReuse(t *testing.T) {
	newHost := func(number uint64, compression Compression) *host {
		place := upgrade.Place{Number: number, Marks: 4, Shift: 3}
		return (&Endpoint{OnMessage: echoMessage, Compression: compression}).settings().NewHost(&placedServer{place: place}).(*host)
	}
	h := newHost(1, CompressionShared)
	d := h.Endpoint.deflates().Answer(ws.Deflate{})
	var memos []engine.Memo
	for i, o := range []opening{{}, {out: d.Server(), in: d.Client()}, {stays: true}, {overHTTP2: true}} {
		p, _ := h.open(&fakeConn{}, nil, o)
		s := p.(*session)
		s.Pause()
		s.controls = controls(i)
		if i == 2 {
			s.awaits = awaitsPong
		}
		m, _ := s.Sleep()
		memos = append(memos, m)
	}
	s := h.Wake(&fakeConn{}, memos[0]).(*session)
	for _, at := range []int{1, 0, 2, 3, 1, 0} {
		if s.Retire(); s.conn != nil || s.engine != nil || s.err != nil {
			t.Fatalf("a retired session has %+v", s)
		}
		conn := &fakeConn{}
		if !s.Reuse(conn, memos[at], 0) {
			t.Fatalf("not reused for %+v", memos[at])
		}
		if s.conn != h.conns.get(uint32(at)) || s.engine != engine.Conn(conn) || s.reader.Deflates != (at == 1) {
			t.Errorf("connection %d has %+v", at, s)
		}
		if got := s.Retire(); got != memos[at] {
			t.Errorf("%d: %+v became %+v", at, memos[at], got)
		}
		s.Reuse(conn, memos[at], 7)
		out, next := conn.feed(s, []byte(masked(ws.OpBinary, "m")), 100, nil)
		if string(out) != string(ws.AppendFrame(nil, ws.OpBinary, []byte("m"))) || next != engine.Read || !s.Pause() || s.conn.guarded != nil {
			t.Errorf("%d: answered %q, %v", at, out, next)
		}
		if conn.waitsSince != 7 || conn.wait <= 0 {
			t.Errorf("%d: waits %v from %d on", at, conn.wait, conn.waitsSince)
		}
		if conn.feed(s, []byte(masked(ws.OpBinary, "m")), 100, nil); conn.waitsSince == 7 {
			t.Errorf("%d: a later message waits from the first one on", at)
		}
		if at == 2 {
			s.awaits = awaitsPong
		}
	}
	s.Retire()
	for what, m := range map[string]engine.Memo{
		"another host": newHost(2, CompressionOff).server.Memo(0, 0, 0),
		"HTTP":         {ID: 1, Served: memos[0].Served &^ 4},
		"TLS":          {ID: 1, Served: memos[0].Served | 1},
	} {
		if s.Reuse(&fakeConn{}, m, 0) || s.conn != nil {
			t.Errorf("%s: reused", what)
		}
	}
	s.Release()
}

// echoes returns a function that wakes a connection, echoes a message, and lets the
// connection sleep.
func echoes(tb testing.TB, size int) func() {
	h := (&Endpoint{OnMessage: echoMessage}).settings().NewHost(fakeServer{}).(*host)
	conn := &fakeConn{}
	p, _ := h.open(conn, nil, opening{})
	p.Pause()
	memo, _ := p.(*session).Sleep()
	frame := []byte(masked(ws.OpBinary, string(make([]byte, size))))
	out := make([]byte, 0, size+100)
	return func() {
		s := h.Wake(conn, memo).(*session)
		conn.ready, conn.sent = size+100, conn.sent[:0]
		got, next := conn.feed(s, frame, len(frame), out)
		if len(got)+len(conn.sent) < size || next != engine.Read || !s.Pause() {
			tb.Fatal("no echo")
		}
		memo, _ = s.Sleep()
	}
}

// TestAllocations: a message allocates nothing, also if the connection sleeps between
// messages.
func TestAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector empties pools")
	}
	for _, size := range []int{32, 10 << 10, 64 << 10} {
		if n := testing.AllocsPerRun(1000, echoes(t, size)); n != 0 {
			t.Errorf("%d bytes: %v allocations", size, n)
		}
	}
}

func BenchmarkEcho(b *testing.B) {
	for _, size := range []int{32, 1 << 10, 64 << 10} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			echo := echoes(b, size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				echo()
			}
		})
	}
}

// TestControls: the limit is for each second, and stays in the Memo.
func TestControls(t *testing.T) {
	var n controls
	for i := range maxControls {
		if !n.add() {
			t.Fatalf("number %d is too many", i)
		}
	}
	is := n
	for range 2 {
		if n = is; n.add() && int64(n)>>32 == int64(is)>>32 {
			t.Error("one more is accepted")
		}
	}
	n = controls(int64(is)&(1<<32-1) | 1<<60) // another second
	if !n.add() {
		t.Error("another second has no room")
	}
}

// A hookedServer is an upgrade.Server that calls a function when bytes are counted, once.
type hookedServer struct {
	fakeServer
	hook func()
}

func (s *hookedServer) Count(int, int) {
	if f := s.hook; f != nil {
		s.hook = nil
		f()
	}
}

// TestFirstOutput: what OnMoved has written comes before what others write when it has
// returned, however soon.
func TestFirstOutput(t *testing.T) {
	server := &hookedServer{}
	e := &Endpoint{OnMoved: func(c *Conn, _ []string) error {
		server.hook = func() { _ = c.TryWrite(Text, []byte("then")) }
		return c.TryWrite(Text, []byte("first"))
	}}
	s := e.settings().NewHost(server).(*host).Unpack(&fakeConn{}, appendMoved(nil, moved{})).(*session)
	server.Count(0, 0)
	out, _ := s.Prompted(nil)
	if want := whole(ws.OpText, "first") + whole(ws.OpText, "then"); string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
	s.Closed(nil)
}
