package websocket

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// textCodec is the StateCodec of strings.
type textCodec struct{}

func (textCodec) Encode(state any) ([]byte, error) {
	switch text, _ := state.(string); text {
	case "stays":
		return nil, errors.New("not this one")
	case "panic":
		panic("in Encode")
	default:
		return []byte(text), nil
	}
}

func (textCodec) Decode(p []byte) (any, error) {
	if string(p) == "undecodable" {
		return nil, errors.New("not this one")
	}
	return string(p), nil
}

// longWelcome has minDirect bytes and more.
var longWelcome = strings.Repeat("welcome ", 5<<10)

// A half is one of the two servers between which connections move, as in two processes.
type half struct {
	*fixture
	endpoint *Endpoint
	conns    chan *Conn
	moved    chan string
	closed   atomic.Int32
	groups   [2]Group
}

func newHalf(t *testing.T, engine sluice.Engine, change func(e *Endpoint)) *half {
	h := &half{conns: make(chan *Conn, 100), moved: make(chan string, 100)}
	h.groups[0].Name, h.groups[1].Name = "one", "two"
	h.endpoint = &Endpoint{Name: "echo", State: textCodec{}, Protocols: []string{"a", "b"},
		OnOpen:    func(c *Conn) error { h.conns <- c; return nil },
		OnMessage: echoMessage,
		OnClose:   func(*Conn, error) { h.closed.Add(1) },
		OnMoved: func(c *Conn, rooms []string) error {
			if c.RemoteAddr() == nil {
				t.Error("a moved connection has no address")
			}
			for i := range h.groups {
				for _, room := range rooms {
					if h.groups[i].Name == room {
						_ = h.groups[i].Add(c)
					}
				}
			}
			h.moved <- fmt.Sprint(c.State(), c.Protocol(), rooms)
			h.conns <- c
			switch c.State() {
			case "greeted":
				if err := c.TryWrite(Text, []byte("welcome")); err != nil {
					return err
				}
				return c.TryWrite(Text, []byte(longWelcome)) // which is not copied
			case "unwanted":
				return errors.New("no room")
			}
			return nil
		},
	}
	if change != nil {
		change(h.endpoint)
	}
	h.fixture = start(t, engine, func(ctx *sluice.RequestCtx) {
		var state any
		if text := string(ctx.QueryArgs().Peek("state")); text != "" {
			state = text
		}
		if h.endpoint.Serve != nil {
			_ = h.endpoint.Accept(ctx, nil)
			return
		}
		_ = h.endpoint.Upgrade(ctx, state)
	})
	if h.endpoint.Name != "" {
		if err := h.endpoint.Register(h.server); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// dialWith opens a connection with a state and the subprotocol b.
func (h *half) dialWith(state string) (*client, *Conn) {
	c := h.connect()
	c.raw(strings.Replace(strings.Replace(hello, "GET /", "GET /?state="+state, 1), "\r\n\r\n", "\r\nSec-WebSocket-Protocol: b\r\n\r\n", 1))
	if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		h.t.Fatal(head)
	}
	return c, <-h.conns
}

// give hands over what can be, until count connections have moved.
func (h *half) give(to *half, count int) {
	h.t.Helper()
	total := 0
	eventually(h.t, fmt.Sprint(count, " connections move"), func() bool {
		total += h.server.Control().HandOver(-1, func(conn net.Conn, p sluice.Parcel) {
			if kind := p.Kind(); kind == 0 || kind&to.server.Control().StateKinds() == 0 {
				h.t.Error("the other server does not understand a parcel")
			}
			if err := to.server.Control().AdoptConn(conn, p); err != nil {
				h.t.Error(err)
			}
		})
		return total >= count
	})
	if total != count {
		h.t.Errorf("%d connections have moved, want %d", total, count)
	}
}

// TestMove: connections go on in another server, with state, subprotocol and rooms.
func TestMove(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		from, to := newHalf(t, engine, nil), newHalf(t, engine, nil)
		plain, _ := from.dialWith("")
		greeted, old := from.dialWith("greeted")
		unwanted, _ := from.dialWith("unwanted")
		undecodable, _ := from.dialWith("undecodable")
		_ = from.groups[0].Add(old)
		_ = from.groups[1].Add(old)
		ended := old.Context()
		plain.raw(masked(ws.OpText, "before"))
		plain.expect("text before")
		from.give(to, 4)
		<-ended.Done()
		if err := old.TryWrite(Text, nil); err != ErrMoved || old.Close(CodeNormal, "") != ErrMoved || old.Ping(t.Context()) != ErrMoved || from.groups[0].Len() != 0 {
			t.Errorf("a Conn that has moved returns %v", err)
		}
		greeted.expect("text welcome", long("text", longWelcome))
		unwanted.expect("close 1012 please connect again")
		undecodable.expect("close 1012 please connect again", "end")
		for range 2 {
			plain.raw(masked(ws.OpText, "after"))
			plain.expect("text after")
		}
		if n := to.groups[0].Broadcast(Prepare(Text, []byte("room")), nil); n != 1 || to.groups[1].Len() != 1 {
			t.Errorf("%d members", n)
		}
		greeted.expect("text room")
		seen := map[string]bool{}
		for range 3 {
			seen[<-to.moved] = true
		}
		if want := map[string]bool{"<nil>b[]": true, "greetedb[one two]": true, "unwantedb[]": true}; !reflect.DeepEqual(seen, want) {
			t.Errorf("OnMoved saw %v", seen)
		}
		if n := from.closed.Load(); n != 0 {
			t.Errorf("OnClose was called %d times for connections that have moved", n)
		}
		from.give(to, 0)
		to.give(from, 2) // and back
		greeted.expect("text welcome", long("text", longWelcome))
	})
}

// TestMoveToAStranger: a server that does not know the Endpoint's name closes with 1012.
func TestMoveToAStranger(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		from, to := newHalf(t, engine, nil), newHalf(t, engine, func(e *Endpoint) { e.Name = "other" })
		c, _ := from.dialWith("")
		eventually(t, "it moves", func() bool {
			return from.server.Control().HandOver(-1, func(conn net.Conn, p sluice.Parcel) {
				if err := to.server.Control().AdoptConn(conn, p); err != nil {
					t.Error(err)
				}
			}) > 0
		})
		c.expect("close 1012 please connect again", "end")
	})
}

// TestMoveWaits: a connection moves when its message is complete, what was written is sent,
// and its callback has returned.
func TestMoveWaits(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		entered, goOn := make(chan bool), make(chan bool)
		from, to := newHalf(t, engine, func(e *Endpoint) {
			e.OnMessage = func(c *Conn, m Message) error {
				if string(m.Data) == "block" {
					entered <- true
					<-goOn
				}
				return c.TryWrite(m.Kind, m.Data)
			}
		}), newHalf(t, engine, nil)
		inMessage, _ := from.dialWith("")
		inMessage.raw(part(ws.OpText, "first "))
		inCallback, _ := from.dialWith("")
		inCallback.raw(masked(ws.OpText, "block"))
		<-entered
		eventually(t, "the fragment is read", func() bool { return from.server.EngineStats().Active == 2 || engine == sluice.EnginePerConn })
		if engine == sluice.EngineEpoll { // on perconn, the fragment may not be read yet
			from.give(to, 0)
		}
		inMessage.raw(masked(ws.OpContinuation, "second"))
		inMessage.expect("text first second")
		goOn <- true
		inCallback.expect("text block")
		from.give(to, 2)
		for _, c := range []*client{inMessage, inCallback} {
			c.raw(masked(ws.OpText, "moved"))
			c.expect("text moved")
		}
	})
}

// TestStay: what cannot move is closed with 1012 when another process replaces this one,
// and not at once.
func TestStay(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for name, change := range map[string]func(e *Endpoint){
			"no name":       func(e *Endpoint) { e.Name = "" },
			"no codec":      func(e *Endpoint) { e.State = nil },
			"no OnMoved":    func(e *Endpoint) { e.OnMoved = nil },
			"nameless room": nil,
			"stays":         nil,
			"panic":         nil,
		} {
			t.Run(name, func(t *testing.T) {
				from := newHalf(t, engine, func(e *Endpoint) {
					e.RestartSpread = 50 * time.Millisecond
					if change != nil {
						change(e)
					}
				})
				c, conn := from.dialWith(strings.ReplaceAll(name, " ", ""))
				switch name {
				case "no OnMoved":
					_ = from.groups[0].Add(conn)
				case "nameless room":
					_ = new(Group).Add(conn)
				}
				c.raw(masked(ws.OpText, "before"))
				c.expect("text before")
				from.server.Control().CloseOnNextResponse()
				done := make(chan bool)
				var handing sync.WaitGroup
				defer handing.Wait()
				defer close(done)
				handing.Go(func() { // as a process that is being replaced does
					for {
						select {
						case <-done:
							return
						case <-time.After(time.Millisecond):
						}
						if n := from.server.Control().HandOver(-1, func(conn net.Conn, p sluice.Parcel) { conn.Close() }); n != 0 {
							t.Error("it has moved")
						}
					}
				})
				c.expect("close 1012 the server restarts")
				c.raw(closing(1012, ""))
				c.expect("end")
			})
		}
	})
}

// TestGivenBack: a connection that no other process wants comes back, and is closed.
func TestGivenBack(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		from := newHalf(t, engine, func(e *Endpoint) { e.RestartSpread = 50 * time.Millisecond })
		const count = 20
		var clients []*client
		for range count {
			c, _ := from.dialWith("")
			clients = append(clients, c)
		}
		given := 0
		eventually(t, "all are given", func() bool {
			given += from.server.Control().HandOver(-1, func(conn net.Conn, p sluice.Parcel) {
				from.server.Control().CloseOnNextResponse()
				if err := from.server.Control().AdoptConn(conn, p); err != nil {
					t.Error(err)
				}
			})
			return given >= count
		})
		for _, c := range clients {
			if got := c.next(); got != "close 1012 the server restarts" {
				t.Errorf("got %q", got)
			}
		}
		if given != count {
			t.Errorf("%d were given", given)
		}
	})
}

// TestMoveLoops: Endpoint.Serve begins again in the other server, and ends in this one.
func TestMoveLoops(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		ended := make(chan error, 10)
		serve := func(e *Endpoint) {
			e.Serve = func(c *Conn) error {
				for {
					m, err := c.Read(t.Context())
					if err != nil {
						ended <- err
						return err
					}
					if err := c.TryWrite(m.Kind, m.Data); err != nil {
						return err
					}
				}
			}
		}
		from, to := newHalf(t, engine, serve), newHalf(t, engine, serve)
		c := from.dial()
		for _, h := range []*half{from, to} {
			for range 2 {
				c.raw(masked(ws.OpText, "hello"))
				c.expect("text hello")
			}
			if h == from {
				from.give(to, 1)
				if err := <-ended; err != ErrMoved {
					t.Errorf("Read returned %v", err)
				}
			}
		}
	})
}

// TestRegister: names are checked.
func TestRegister(t *testing.T) {
	var s sluice.Server
	if (&Endpoint{}).Register(&s) == nil || (&Endpoint{Name: strings.Repeat("x", 201)}).Register(&s) == nil {
		t.Error("a bad name is accepted")
	}
	e := &Endpoint{Name: "x"}
	before := s.Control().StateKinds()
	if err := errors.Join(e.Register(&s), e.Register(&s)); err != nil || s.Control().StateKinds() == before {
		t.Error(err)
	}
	if (&Endpoint{Name: "x"}).Register(&s) == nil {
		t.Error("a name can be used twice")
	}
}

func FuzzMoved(f *testing.F) {
	for _, m := range []moved{{}, {isPinged: true, out: 12, in: 0x8c, window: "window", protocol: "chat", rooms: []movedRooms{{"mark", []string{"a", ""}}, {}}, hasState: true, state: []byte("state")}} {
		f.Add(appendMoved(nil, m))
	}
	f.Add([]byte{0, 0, 255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, in []byte) {
		m, ok := parseMoved(in)
		if !ok {
			return
		}
		again, ok := parseMoved(appendMoved(nil, m))
		if !ok || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Errorf("%x: %v became %v", in, m, again)
		}
	})
}

// TestMoveCompressed: messages after the move may refer to those before it.
func TestMoveCompressed(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		compressed := func(e *Endpoint) { e.Compression = CompressionTakeover }
		from, to := newHalf(t, engine, compressed), newHalf(t, engine, compressed)
		text := records(3000)
		for offer, bits := range map[string]uint8{"permessage-deflate; client_max_window_bits": 12, "permessage-deflate": 15} {
			answer := "permessage-deflate"
			if bits == 12 {
				answer = deflateKeeps
			}
			c, d := from.dialDeflate(offer, answer), &deflater{bits: bits}
			for _, h := range []*half{from, to} {
				for range 2 {
					c.raw(d.frame(ws.OpText, text))
					if got, isPacked := d.next(c); got != text || !isPacked {
						t.Fatalf("%d bits: %d bytes are echoed, compressed: %t", bits, len(got), isPacked)
					}
				}
				if h == from {
					from.give(to, 1)
				}
			}
		}
	})
}
