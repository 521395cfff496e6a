package websocket

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestHeldForOnePeer: a peer that sends without an end and reads nothing makes a WebSocket hold
// what may wait, and as much that is being written, whatever the program does.
func TestHeldForOnePeer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const most = 768 << 10
	write := func(c *Conn, m Message) error { return c.Write(context.Background(), m.Kind, m.Data) }
	try := func(c *Conn, m Message) error {
		if err := c.TryWrite(m.Kind, m.Data); err != ErrFull {
			return err
		}
		return nil
	}
	writers := func(c *Conn) error {
		p := make([]byte, 16<<10)
		_, _ = rand.NewChaCha8([32]byte{}).Read(p)
		for range 4 {
			go func() {
				for c.Write(context.Background(), Binary, p) == nil {
				}
			}()
		}
		return nil
	}
	loop := func(c *Conn) error {
		for {
			m, err := c.Read(context.Background())
			if err == nil {
				err = write(c, m)
			}
			if err != nil {
				return err
			}
		}
	}
	for name, test := range map[string]struct {
		endpoint *Endpoint
		accept   func(c *Conn) error
		kind     ws.Opcode
		size     int
	}{
		"Write, small":      {&Endpoint{OnMessage: write}, nil, ws.OpBinary, 1},
		"Write, large":      {&Endpoint{OnMessage: write}, nil, ws.OpBinary, 64 << 10},
		"TryWrite":          {&Endpoint{OnMessage: try, Slow: SlowDropNew}, nil, ws.OpBinary, 64 << 10},
		"several writers":   {&Endpoint{OnOpen: writers}, nil, ws.OpBinary, 1},
		"compressed":        {&Endpoint{OnOpen: writers, Compression: CompressionTakeover}, nil, ws.OpBinary, 1},
		"pings":             {&Endpoint{}, nil, ws.OpPing, 125},
		"loop":              {&Endpoint{}, loop, ws.OpBinary, 16 << 10},
		"pings and a loop":  {&Endpoint{}, loop, ws.OpPing, 125},
		"pings and writers": {&Endpoint{OnOpen: writers}, nil, ws.OpPing, 125},
	} {
		t.Run(name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, engine sluice.Engine) {
				f := start(t, engine, func(ctx *sluice.RequestCtx) {
					if test.accept != nil {
						_ = test.endpoint.Accept(ctx, test.accept)
					} else {
						_ = test.endpoint.Upgrade(ctx, nil)
					}
				})
				frame := ws.AppendMasked(nil, test.kind, 0, make([]byte, test.size))
				testHeld(t, f, string(frame), most)
			})
		})
	}
}

// testHeld measures what the server holds for each of some peers that do not read.
func testHeld(t *testing.T, f *fixture, frame string, most int) {
	const conns = 4
	before := nettest.HeapInUse()
	var sent atomic.Int64
	for range conns {
		c := f.connect()
		go func() {
			_, err := io.WriteString(c, strings.Replace(hello, "\r\n\r\n", "\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n", 1))
			for batch := strings.Repeat(frame, max(1, 8<<10/len(frame))); err == nil; {
				_, err = io.WriteString(c, batch)
				sent.Add(1)
			}
		}()
	}
	eventually(t, "all are open", func() bool { return sent.Load() >= conns })
	nettest.HoldsAtMost(t, before, conns, most, patience, sent.Load)
}

// TestHeldForOneServer is TestHeldForOnePeer for connections of Dial. Those whose program does
// not read hold what has arrived of one message, and its room.
func TestHeldForOneServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	echo := func(c *Conn) {
		for {
			m, err := c.Read(context.Background())
			if err != nil || c.Write(context.Background(), m.Kind, m.Data) != nil {
				return
			}
		}
	}
	readAndWrite := func(c *Conn) {
		go func() {
			for c.Write(context.Background(), Binary, make([]byte, 16<<10)) == nil {
			}
		}()
		for {
			if _, err := c.Read(context.Background()); err != nil {
				return
			}
		}
	}
	large := strings.Repeat("m", 64<<10)
	for name, test := range map[string]struct {
		endpoint *Endpoint
		use      func(c *Conn)
		first    string
		frame    string
	}{
		"messages, no Read":      {nil, nil, "", frameOf(ws.OpBinary, large)},
		"pings, no Read":         {nil, nil, "", frameOf(ws.OpPing, large[:125])},
		"parts, no Read":         {nil, nil, frameOf(ws.OpText, "first") + "\x02\x00", "\x00\x01m"},
		"a length, no Read":      {nil, nil, frameOf(ws.OpText, "first") + "\x82\x7f\x00\x00\x00\x00\x00\x0f\xff\xff", ""},
		"a length, Read":         {nil, echo, "\x82\x7f\x00\x00\x00\x00\x00\x0f\xff\xff", ""},
		"messages and echoes":    {nil, echo, "", frameOf(ws.OpBinary, large)},
		"pings and Read":         {nil, echo, "", frameOf(ws.OpPing, large[:125])},
		"pings and writes":       {nil, readAndWrite, "", frameOf(ws.OpPing, large[:125])},
		"messages and OnMessage": {&Endpoint{OnMessage: func(c *Conn, m Message) error { return c.Write(context.Background(), m.Kind, m.Data) }}, nil, "", frameOf(ws.OpBinary, large)},
		"pings and OnMessage":    {&Endpoint{OnMessage: echoMessage}, nil, "", frameOf(ws.OpPing, large[:125])},
	} {
		t.Run(name, func(t *testing.T) {
			const conns, most = 4, 768 << 10
			t.Cleanup(func() { noneDialed(t) })
			before := nettest.HeapInUse()
			var sent atomic.Int64
			for range conns {
				addr := answering(t, "", func(c net.Conn) {
					_, err := io.WriteString(c, test.first)
					for batch := strings.Repeat(test.frame, 8<<10/max(len(test.frame), 1)+1); err == nil && test.frame != ""; {
						_, err = io.WriteString(c, batch)
						sent.Add(1)
					}
					<-t.Context().Done()
				})
				c, err := Dial(t.Context(), "ws://"+addr, &DialOptions{Endpoint: test.endpoint})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close(CodeNormal, "") })
				if test.use != nil {
					go test.use(c)
				}
			}
			nettest.HoldsAtMost(t, before, conns, most, patience, sent.Load)
		})
	}
}

// frameOf returns a frame of a server.
func frameOf(op ws.Opcode, payload string) string {
	return string(ws.AppendFrame(nil, op, []byte(payload)))
}
