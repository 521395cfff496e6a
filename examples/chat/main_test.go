package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/websocket/room"
)

const patience = 20 * time.Second

// start serves on a free port until the test ends.
func start(t *testing.T, engine sluice.Engine) (c *chat, addr string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hub, err := room.New(room.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c = newChat(hub)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, ln, &sluice.Server{Handler: c.handle, Engine: engine}) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c, ln.Addr().String(), stop
}

// onEachEngine runs test for both engines.
func onEachEngine(t *testing.T, test func(t *testing.T, c *chat, addr string, stop func())) {
	for _, engine := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(engine.String(), func(t *testing.T) {
			c, addr, stop := start(t, engine)
			test(t, c, addr, stop)
		})
	}
}

// A guest is a client.
type guest struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// enter makes the handshake.
func enter(t *testing.T, addr, room, name string) *guest {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "GET /chat/%s?name=%s HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", room, name)
	g := &guest{t, conn, bufio.NewReader(conn)}
	response, err := http.ReadResponse(g.in, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", response, err)
	}
	return g
}

// send sends a short frame.
func (g *guest) send(first byte, payload string) {
	g.t.Helper()
	if _, err := g.conn.Write(append([]byte{first, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...)); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guest) say(text string) { g.t.Helper(); g.send(0x81, text) }

// frame reads a frame.
func (g *guest) frame() (first byte, payload []byte) {
	g.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(g.in, head[:2]); err != nil {
		g.t.Fatal(err)
	}
	size := int(head[1])
	if size == 126 {
		if _, err := io.ReadFull(g.in, head[2:]); err != nil {
			g.t.Fatal(err)
		}
		size = int(head[2])<<8 | int(head[3])
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(g.in, payload); err != nil {
		g.t.Fatal(err)
	}
	return head[0], payload
}

// expect reads an event.
func (g *guest) expect(kind, name, text string, present ...string) {
	g.t.Helper()
	first, payload := g.frame()
	var e event
	if err := json.Unmarshal(payload, &e); err != nil || first != 0x81 {
		g.t.Fatalf("%x %q: %v", first, payload, err)
	}
	if e.Kind != kind || e.Name != name || e.Text != text || !slices.Equal(e.Present, present) || e.At.IsZero() {
		g.t.Fatalf("got %+v, want %s %s %q %v", e, kind, name, text, present)
	}
}

// TestChat: two members talk; a third gets the history; other rooms are not told.
func TestChat(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *chat, addr string, _ func()) {
		ann := enter(t, addr, "tea", "ann")
		ann.expect("came", "ann", "", "ann")
		bob := enter(t, addr, "tea", "bob")
		for _, g := range []*guest{ann, bob} {
			g.expect("came", "bob", "", "ann", "bob")
		}
		ann.say("milk?")
		for _, g := range []*guest{ann, bob} {
			g.expect("said", "ann", "milk?")
		}
		bob.say("<b>\u00e9")
		for _, g := range []*guest{ann, bob} {
			g.expect("said", "bob", "<b>\u00e9")
		}
		eve := enter(t, addr, "coffee", "eve")
		eve.expect("came", "eve", "", "eve")
		cid := enter(t, addr, "tea", "cid")
		cid.expect("said", "ann", "milk?")
		cid.expect("said", "bob", "<b>\u00e9")
		cid.expect("came", "cid", "", "ann", "bob", "cid")
		ann.expect("came", "cid", "", "ann", "bob", "cid")
		if got := c.names(); !slices.Equal(got, []string{"coffee", "tea"}) {
			t.Errorf("rooms %q", got)
		}
		bob.conn.Close()
		ann.expect("left", "bob", "", "ann", "cid")
	})
}

// TestHistory: a room keeps a number of messages, and goes with its last member.
func TestHistory(t *testing.T) {
	onEachEngine(t, func(t *testing.T, c *chat, addr string, _ func()) {
		ann := enter(t, addr, "tea", "ann")
		ann.expect("came", "ann", "", "ann")
		for i := range kept + 5 {
			ann.say(fmt.Sprint(i))
			ann.expect("said", "ann", fmt.Sprint(i))
		}
		bob := enter(t, addr, "tea", "bob")
		for i := 5; i < kept+5; i++ {
			bob.expect("said", "ann", fmt.Sprint(i))
		}
		bob.expect("came", "bob", "", "ann", "bob")
		ann.conn.Close()
		bob.expect("left", "ann", "", "bob")
		bob.send(0x88, "\x03\xe8")
		if first, payload := bob.frame(); first != 0x88 || string(payload) != "\x03\xe8" {
			t.Errorf("%x %q", first, payload)
		}
		for end := time.Now().Add(patience); len(c.names()) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("rooms %q", c.names())
			}
		}
		ann = enter(t, addr, "tea", "ann")
		ann.expect("came", "ann", "", "ann") // without history
	})
}

// TestLongHistory: a member that comes gets the whole history, also if all of it is long,
// and escaped.
func TestLongHistory(t *testing.T) {
	_, addr, _ := start(t, sluice.EngineAuto)
	ann := enter(t, addr, "tea", "ann")
	ann.expect("came", "ann", "", "ann")
	text := strings.Repeat("<", maxMessage) // each is six bytes of JSON
	for range kept {
		frame := append([]byte{0x81, 0x80 | 126, maxMessage >> 8, maxMessage & 0xff, 0, 0, 0, 0}, text...)
		if _, err := ann.conn.Write(frame); err != nil {
			t.Fatal(err)
		}
		ann.expect("said", "ann", text)
	}
	for i := range 20 {
		name := fmt.Sprint("guest", i)
		guest := enter(t, addr, "tea", name)
		for range kept {
			guest.expect("said", "ann", text)
		}
		guest.conn.Close()
	}
}

// TestLimits: what is too large, no text or one room too many is refused.
func TestLimits(t *testing.T) {
	c, addr, stop := start(t, sluice.EngineAuto)
	ann := enter(t, addr, "tea", "ann")
	ann.expect("came", "ann", "", "ann")
	binary := enter(t, addr, "other", "guest")
	binary.expect("came", "guest", "", "guest")
	binary.send(0x82, "x")
	if first, payload := binary.frame(); first != 0x88 || !strings.HasPrefix(string(payload), "\x03\xeb") {
		t.Errorf("%x %q", first, payload)
	}
	c.mu.Lock()
	for i := len(c.rooms); i < maxRooms; i++ {
		c.rooms[fmt.Sprint("full", i)] = &chatRoom{}
	}
	c.mu.Unlock()
	late := enter(t, addr, "one-more", "late")
	if first, payload := late.frame(); first != 0x88 || !strings.HasPrefix(string(payload), "\x03\xf5") {
		t.Errorf("%x %q", first, payload)
	}
	for path, want := range map[string]int{"/": 200, "/rooms": 200, "/x": 404, "/chat/": 400, "/chat/x": 400, "/chat/x?name=" + strings.Repeat("n", maxName+1): 400, "/chat/x?name=y": 426} {
		response, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, response.Status, want)
		}
	}
	stop() // the end of the service is told
	for {
		if first, payload := ann.frame(); first == 0x88 {
			if !strings.HasPrefix(string(payload), "\x03\xe9") {
				t.Errorf("%q", payload)
			}
			return
		}
	}
}
