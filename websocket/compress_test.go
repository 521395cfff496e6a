package websocket

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/compress"
	"github.com/sluicehttp/sluice/internal/invariants"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// dialDeflate makes a handshake with an offer of extensions, and checks the answer.
func (f *fixture) dialDeflate(offer, answer string) *client {
	f.t.Helper()
	c := f.connect()
	c.raw(strings.TrimSuffix(hello, "\r\n") + "Sec-WebSocket-Extensions: " + offer + "\r\n\r\n")
	_, got, _ := strings.Cut(c.head(), "Sec-Websocket-Extensions: ")
	if got, _, _ = strings.Cut(got, "\r\n"); got != answer {
		f.t.Fatalf("%q is answered %q, want %q", offer, got, answer)
	}
	return c
}

const (
	deflateShared = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	deflateKeeps  = "permessage-deflate; client_max_window_bits=12"
	deflateLeast  = "permessage-deflate; server_max_window_bits=8; client_max_window_bits=8"
)

// A deflater is the compression of a test's client. Without bits it has no history.
type deflater struct {
	sent, received []byte
	bits           uint8
}

// frame returns a compressed message.
func (d *deflater) frame(op ws.Opcode, payload string) string {
	packed := string(compress.AppendMessage(nil, []byte(payload), d.sent, 12))
	d.sent = d.keep(d.sent, []byte(payload))
	return deflated(masked(op, packed))
}

func (d *deflater) keep(window, p []byte) []byte {
	if d.bits == 0 {
		return nil
	}
	window = append(window, p...)
	return window[max(0, len(window)-1<<d.bits):]
}

// deflated sets RSV1 of a frame.
func deflated(frame string) string { return string([]byte{frame[0] | 0x40}) + frame[1:] }

// next reads a message. isPacked reports whether it was compressed.
func (d *deflater) next(c *client) (payload string, isPacked bool) {
	c.t.Helper()
	var head []byte
	h, size, err := ws.Head{}, 0, error(nil)
	for size == 0 && err == nil {
		b, readErr := c.in.ReadByte()
		if readErr != nil {
			c.t.Fatal(readErr)
		}
		head = append(head, b)
		h, size, err = ws.ParseHead(head)
	}
	p := make([]byte, h.Length)
	if _, readErr := io.ReadFull(c.in, p); err != nil || readErr != nil || h.Opcode == ws.OpClose {
		c.t.Fatalf("%v, %v, %x", err, readErr, p)
	}
	if !h.IsDeflated {
		return string(p), false
	}
	out, err := compress.InflateMessage(p, d.received, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	d.received = d.keep(d.received, out.B)
	return string(out.B), true
}

// records returns n bytes of JSON.
func records(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `{"id":%d,"name":"record %d","active":true},`, i*7919%10000, i%37)
	}
	return b.String()[:n]
}

// noise returns n bytes that cannot be compressed.
func noise(n int) string {
	r, p := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return string(p)
}

func TestDeflateHandshake(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for _, test := range []struct {
			compression   Compression
			slow          SlowPolicy
			offer, answer string
		}{
			{CompressionOff, 0, "permessage-deflate", ""},
			{CompressionShared, 0, "permessage-deflate", deflateShared},
			{CompressionShared, 0, "x-unknown; a=1, permessage-deflate; client_max_window_bits", deflateShared},
			{CompressionShared, 0, "x-webkit-deflate-frame", ""},
			{CompressionShared, 0, "permessage-deflate; unknown\r\nSec-WebSocket-Extensions: permessage-deflate", deflateShared},
			{CompressionTakeover, 0, "permessage-deflate; client_max_window_bits", deflateKeeps},
			{CompressionTakeover, 0, "permessage-deflate; server_max_window_bits=9", "permessage-deflate; server_max_window_bits=9"},
			{CompressionTakeover, SlowDropOld, "permessage-deflate", "permessage-deflate; server_no_context_takeover"},
		} {
			f := startEndpoint(t, engine, &Endpoint{Compression: test.compression, Slow: test.slow, OnMessage: echoMessage})
			c := f.dialDeflate(test.offer, test.answer)
			c.raw(masked(ws.OpText, "not compressed"))
			c.expect("text not compressed")
		}
	})
}

func TestDeflateEcho(t *testing.T) {
	long, random := records(20_000), noise(300)
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for _, test := range []struct {
			compression   Compression
			offer, answer string
			bits          uint8
		}{
			{CompressionShared, "permessage-deflate", deflateShared, 0},
			{CompressionTakeover, "permessage-deflate; client_max_window_bits", deflateKeeps, 12},
			{CompressionTakeover, "permessage-deflate", "permessage-deflate", 15},
			{CompressionTakeover, "permessage-deflate; server_max_window_bits=8", "permessage-deflate; server_max_window_bits=8", 15},
			{CompressionTakeover, deflateLeast, deflateLeast, 9}, // zlib takes 9 bits for 8
		} {
			f := startEndpoint(t, engine, &Endpoint{Compression: test.compression, OnMessage: echoMessage})
			c := f.dialDeflate(test.offer, test.answer)
			d := &deflater{bits: test.bits}
			echo := func(frame, want string, wantPacked bool) {
				t.Helper()
				c.raw(frame)
				if got, isPacked := d.next(c); got != want || isPacked != wantPacked {
					t.Fatalf("%d bytes are echoed as %d, compressed: %t", len(want), len(got), isPacked)
				}
			}
			for range 3 {
				echo(d.frame(ws.OpText, long), long, true)
				echo(d.frame(ws.OpText, long[:500]), long[:500], true)
				echo(d.frame(ws.OpText, "short"), "short", false)
				echo(d.frame(ws.OpBinary, ""), "", false)
				echo(deflated(masked(ws.OpBinary, "")), "", false) // not even compressed
				echo(d.frame(ws.OpBinary, random), random, false)  // it would become longer
				echo(masked(ws.OpText, long), long, true)
			}
			// In fragments, with a ping between them.
			packed := string(compress.AppendMessage(nil, []byte(long), nil, 15))
			c.raw(deflated(part(ws.OpText, packed[:10])) + masked(ws.OpPing, "p"))
			c.expect("pong p")
			c.raw(part(ws.OpContinuation, ""))
			d.sent = d.keep(d.sent, []byte(long))
			echo(masked(ws.OpContinuation, packed[10:]), long, true)
			// Blocks that are final, without a history.
			d.sent = nil
			echo(deflated(masked(ws.OpText, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00")), "Hello", false)
			if test.bits == 12 {
				echo(deflated(masked(ws.OpText, "\xf2\x00\x11\x00\x00")), "Hello", false) // the same again
			}
			c.raw(closing(1000, ""))
			c.expect("close 1000", "end")
		}
	})
}

func TestDeflateViolations(t *testing.T) {
	bomb := (&deflater{}).frame(ws.OpBinary, strings.Repeat("\x00", 32<<20))
	atLimit := strings.Repeat("a", 5000)
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for name, test := range map[string]struct{ in, want string }{
			"bomb":                   {bomb, "close 1009 a message exceeds the limit"},
			"one byte too many":      {(&deflater{}).frame(ws.OpText, atLimit+"a"), "close 1009 a message exceeds the limit"},
			"at the limit":           {(&deflater{}).frame(ws.OpText, atLimit), "binary whole"},
			"too long on the wire":   {deflated(masked(ws.OpBinary, noise(6000))), "close 1009 a message exceeds the limit"},
			"no deflate data":        {deflated(masked(ws.OpBinary, "\x07nonsense")), "close 1007 a compressed message is damaged"},
			"a distance too far":     {deflated(masked(ws.OpText, "\xf2\x00\x11\x00\x00")), "close 1007 a compressed message is damaged"},
			"no UTF-8":               {(&deflater{}).frame(ws.OpText, "abc\xff"), "close 1007 a text message is not UTF-8"},
			"half a character":       {(&deflater{}).frame(ws.OpText, "abc\xce"), "close 1007 a text message is not UTF-8"},
			"RSV1 in a continuation": {part(ws.OpText, "a") + deflated(masked(ws.OpContinuation, "a")), "close 1002 a frame has reserved bits set that no extension uses"},
			"RSV1 in a ping":         {deflated(masked(ws.OpPing, "a")), "close 1002 a frame has reserved bits set that no extension uses"},
		} {
			t.Run(name, func(t *testing.T) {
				f := startEndpoint(t, engine, &Endpoint{
					Compression: CompressionShared, ReadLimit: len(atLimit),
					OnMessage: func(c *Conn, m Message) error { return c.TryWrite(Binary, []byte("whole")) },
				})
				c := f.dialDeflate("permessage-deflate", deflateShared)
				c.raw(test.in)
				c.expect(test.want)
			})
		}
		f := startEndpoint(t, engine, &Endpoint{Compression: CompressionShared, OnMessage: echoMessage})
		c := f.dial() // no offer
		c.raw((&deflater{}).frame(ws.OpText, "text"))
		c.expect("close 1002 a frame has reserved bits set that no extension uses")
	})
}

// TestDeflateBomb: a bomb allocates no more than the limit.
func TestDeflateBomb(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector empties pools")
	}
	bomb := []byte((&deflater{}).frame(ws.OpBinary, strings.Repeat("\x00", 32<<20)))
	const limit = 64 << 10
	wake := waking(CompressionShared, limit)
	in := make([]byte, len(bomb))
	run := func() (allocated uint64) {
		copy(in, bomb)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := wake(in)
		runtime.ReadMemStats(&after)
		if s.ending != endLinger {
			t.Fatal("the bomb is accepted")
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if n := run(); n > 2*limit+100<<10 { // a decompressor, and all buffers on the way to the limit
		t.Errorf("a bomb allocates %d bytes", n)
	}
}

// TestDeflateWriters: messages of many goroutines refer to those before them in the order
// in which they are sent.
func TestDeflateWriters(t *testing.T) {
	const writers, each = 8, 60
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var wait sync.WaitGroup
		e := &Endpoint{Compression: CompressionTakeover, OnOpen: func(c *Conn) error {
			for w := range writers {
				wait.Go(func() {
					for i := range each {
						p := fmt.Sprintf("%d %d %s", w, i, records(50*(1+(w+i)%10)))
						if err := c.Write(t.Context(), Text, []byte(p)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			return nil
		}}
		f := startEndpoint(t, engine, e)
		c := f.dialDeflate("permessage-deflate", "permessage-deflate")
		d := &deflater{bits: 15}
		var next [writers]int
		for range writers * each {
			text, _ := d.next(c)
			var w, i int
			var rest string
			if _, err := fmt.Sscanf(text, "%d %d %s", &w, &i, &rest); err != nil || i != next[w] {
				t.Fatalf("%.20q: %v", text, err)
			}
			next[w]++
			if want := records(50 * (1 + (w+i)%10)); text != fmt.Sprintf("%d %d %s", w, i, want) {
				t.Fatalf("%.20q is damaged", text)
			}
		}
		wait.Wait()
	})
}

// TestDeflateBroadcast: members of all kinds understand prepared messages, and what is
// written between them.
func TestDeflateBroadcast(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		var g Group
		conns := make(chan *Conn, 10)
		onOpen := func(c *Conn) error { conns <- c; return g.Add(c) }
		shared := startEndpoint(t, engine, &Endpoint{Compression: CompressionShared, OnOpen: onOpen})
		keeps := startEndpoint(t, engine, &Endpoint{Compression: CompressionTakeover, OnOpen: onOpen})
		type member struct {
			*client
			*deflater
			small bool // its window
			conn  *Conn
		}
		var all []member
		add := func(c *client, bits uint8, small bool) {
			all = append(all, member{c, &deflater{bits: bits}, small, <-conns})
		}
		for range 3 {
			add(shared.dial(), 0, true)
			add(shared.dialDeflate("permessage-deflate", deflateShared), 0, false)
			add(keeps.dialDeflate("permessage-deflate", "permessage-deflate"), 15, false)
			add(keeps.dialDeflate("permessage-deflate; server_max_window_bits=9", "permessage-deflate; server_max_window_bits=9"), 9, true)
		}
		text := records(3000)
		short, long, random := Prepare(Text, []byte("short")), Prepare(Text, []byte(text)), Prepare(Binary, []byte(noise(600)))
		for round := range 3 {
			for _, m := range all {
				if err := m.conn.TryWrite(Text, []byte(text[:500])); err != nil {
					t.Fatal(err)
				}
			}
			if round == 1 { // let the members be idle, so that Cast can reach them
				for _, m := range all {
					eventually(t, "nothing waits", func() bool { return m.conn.Pending() == 0 })
				}
			}
			for _, p := range []*Prepared{short, long, random, long} {
				if n := g.Broadcast(p, nil); n != len(all) {
					t.Fatalf("sent to %d", n)
				}
			}
		}
		packed := &long.packed[0]
		for _, m := range all {
			_ = m.conn.WritePrepared(long)
			for round := range 3 {
				for i, want := range []string{text[:500], "short", text, noise(600), text} {
					wantPacked := m.conn.out != 0 && (i == 0 || want == text && !m.small)
					if got, isPacked := m.deflater.next(m.client); got != want || isPacked != wantPacked {
						t.Fatalf("round %d, message %d: %d bytes, compressed: %t", round, i, len(got), isPacked)
					}
				}
			}
			if got, _ := m.deflater.next(m.client); got != text {
				t.Fatal("not what was prepared")
			}
		}
		if &long.packed[0] != packed || random.packed != nil || short.packed != nil {
			t.Error("not what should be is compressed, once")
		}
	})
}

// TestDeflateCoalesce: what takes the place of a waiting message does not disturb those
// after it.
func TestDeflateCoalesce(t *testing.T) {
	text := records(1000)
	h := (&Endpoint{Compression: CompressionTakeover, Slow: SlowCoalesce}).settings().NewHost(fakeServer{}).(*host)
	p, _ := h.open(&fakeConn{}, nil, opening{out: ws.Deflate{}.Server(), in: ws.Deflate{}.Client()})
	c := p.(*session).conn
	write := func(text string) {
		if err := c.TryWrite(Text, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(text[:300])
	_ = c.WritePrepared(PrepareKeyed("short", Text, []byte("1")))
	write(text[:300])
	_ = c.WritePrepared(PrepareKeyed("long", Text, []byte(text)))
	write(text[:300])
	_ = c.WritePrepared(PrepareKeyed("short", Text, []byte(text[200:900])))
	_ = c.WritePrepared(PrepareKeyed("long", Text, []byte(text[100:])))
	out, _ := p.(*session).Prompted(nil)
	d := &deflater{bits: 15}
	peer := &client{t: t, in: bufio.NewReader(bytes.NewReader(out))}
	for i, want := range []string{text[:300], text[200:900], text[:300], text[100:], text[:300]} {
		if got, isPacked := d.next(peer); got != want || isPacked != (i != 1) {
			t.Errorf("message %d: %d bytes, compressed: %t", i, len(got), isPacked)
		}
	}
	if c.Dropped() != 2 {
		t.Errorf("%d messages were replaced", c.Dropped())
	}
}

func TestSlide(t *testing.T) {
	var window, all []byte
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		p := []byte(noise(r.IntN(150)))
		if window, all = slide(window, p, 100), append(all, p...); !bytes.Equal(window, all[max(0, len(all)-100):]) || cap(window) > 128 {
			t.Fatalf("%d bytes, capacity %d, after %d", len(window), cap(window), len(all))
		}
	}
}

// waking returns a function that wakes a connection with input, and returns its session.
func waking(compression Compression, limit int) func(in []byte) *session {
	h := (&Endpoint{Compression: compression, ReadLimit: limit, OnMessage: echoMessage}).settings().NewHost(fakeServer{}).(*host)
	conn := &fakeConn{}
	d := h.Endpoint.deflates().Answer(ws.Deflate{})
	p, out := h.open(conn, nil, opening{out: d.Server(), in: d.Client()})
	s := p.(*session)
	memo, _ := s.Sleep()
	return func(in []byte) *session {
		s := h.Wake(conn, memo).(*session)
		conn.in = in
		out, _ = s.Run(out[:0])
		if s.Pause() {
			memo, _ = s.Sleep()
		}
		return s
	}
}

func TestDeflateAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the race detector empties pools")
	}
	for _, compression := range []Compression{CompressionShared, CompressionTakeover} {
		wake := waking(compression, 1<<20)
		d := &deflater{}
		frame := []byte(d.frame(ws.OpText, records(1000)))
		in := make([]byte, len(frame))
		echo := func() {
			copy(in, frame)
			wake(in)
		}
		for range 20 { // until windows are full
			echo()
		}
		if n := testing.AllocsPerRun(200, echo); n != 0 {
			t.Errorf("compression %d: %v allocations for an echo", compression, n)
		}
	}
}

func BenchmarkDeflateEcho(b *testing.B) {
	for name, compression := range map[string]Compression{"shared": CompressionShared, "takeover": CompressionTakeover} {
		for _, size := range []int{128, 1 << 10, 16 << 10} {
			b.Run(fmt.Sprint(name, "/", size), func(b *testing.B) {
				wake := waking(compression, 1<<20)
				frame := []byte((&deflater{}).frame(ws.OpText, records(size)))
				in := make([]byte, len(frame))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					copy(in, frame)
					wake(in)
				}
			})
		}
	}
}
