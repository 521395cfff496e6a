package websocket

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

const patience = 20 * time.Second

// A fixture is a server with an Endpoint.
type fixture struct {
	t      *testing.T
	addr   string
	server *sluice.Server
	log    *logs
}

// logs is a sluice.Logger.
type logs struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logs) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", args...)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// onEngines runs test with both engines.
func onEngines(t *testing.T, test func(t *testing.T, e sluice.Engine)) {
	for _, e := range []sluice.Engine{sluice.EngineEpoll, sluice.EnginePerConn} {
		t.Run(e.String(), func(t *testing.T) { test(t, e) })
	}
}

// onEnginesTLS runs test with a server for each engine, and with one whose connections of TLS
// are compact.
func onEnginesTLS(t *testing.T, test func(t *testing.T, s *sluice.Server)) {
	onEngines(t, func(t *testing.T, e sluice.Engine) { test(t, &sluice.Server{Engine: e}) })
	t.Run("compact", func(t *testing.T) {
		s := &sluice.Server{Engine: sluice.EngineEpoll, CompactTLS: true}
		if !s.EngineInfo(nil).CompactTLS {
			t.Skip("there is no event engine here")
		}
		test(t, s)
	})
}

// coolsDown waits until the only connection of s has released its ciphers, if it is compact.
func coolsDown(t *testing.T, s *sluice.Server) {
	if s.CompactTLS {
		t.Helper()
		eventually(t, "the connection cools down", func() bool { return s.EngineStats().ColdTLS == 1 })
	}
}

// start serves handler.
func start(t *testing.T, e sluice.Engine, handler sluice.RequestHandler, configure ...func(*sluice.Server)) *fixture {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, addr: ln.Addr().String(), log: &logs{}}
	f.server = &sluice.Server{Handler: handler, Engine: e, Logger: f.log, Name: "s", NoDefaultDate: true}
	for _, change := range configure {
		change(f.server)
	}
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(ln) }()
	t.Cleanup(func() {
		for { // a Serve that begins after Shutdown serves
			if err := f.server.Shutdown(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-served:
				if err != nil {
					t.Error(err)
				}
				return
			case <-time.After(time.Second):
			}
		}
	})
	return f
}

// startEndpoint serves e without a state.
func startEndpoint(t *testing.T, engine sluice.Engine, e *Endpoint, configure ...func(*sluice.Server)) *fixture {
	return start(t, engine, func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }, configure...)
}

func echoMessage(c *Conn, m Message) error { return c.TryWrite(m.Kind, m.Data) }

// A client is the peer of a connection.
type client struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

const hello = "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"

// dial connects and makes the handshake. more is sent with it.
func (f *fixture) dial(more ...string) *client {
	f.t.Helper()
	c := f.connect()
	c.raw(hello + strings.Join(more, ""))
	if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") {
		f.t.Fatalf("the handshake is answered %q", head)
	}
	return c
}

func (f *fixture) connect() *client {
	f.t.Helper()
	conn, err := net.Dial("tcp4", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	return newClient(f.t, conn)
}

func newClient(t *testing.T, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &client{Conn: conn, t: t, in: bufio.NewReader(conn)}
}

// head reads the head of a response.
func (c *client) head() string {
	c.t.Helper()
	var head strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatalf("%v after %q", err, head.String())
		}
		if head.WriteString(line); line == "\r\n" {
			return head.String()
		}
	}
}

func (c *client) raw(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// masked returns a frame of a client.
func masked(op ws.Opcode, payload string) string {
	return string(ws.AppendMasked(nil, op, 0x5a69a5f0, []byte(payload)))
}

// part returns a frame that is not the last one of its message.
func part(op ws.Opcode, payload string) string {
	return string(byte(op)) + masked(op, payload)[1:]
}

func closing(code ws.Code, reason string) string {
	return masked(ws.OpClose, string(ws.AppendClose(nil, code, reason)))
}

// next reads a frame: "text hello", "close 1000 reason", or "end".
func (c *client) next() string {
	var head []byte
	for {
		h, size, err := ws.ParseHead(head)
		switch {
		case err != nil:
			return err.Error()
		case size == 0:
			b, err := c.in.ReadByte()
			switch {
			case errors.Is(err, io.EOF) && len(head) == 0:
				return "end"
			case err != nil:
				return "error: " + err.Error()
			}
			head = append(head, b)
			continue
		}
		payload := make([]byte, h.Length)
		if _, err := io.ReadFull(c.in, payload); err != nil {
			return "error: " + err.Error()
		}
		return describe(h, payload)
	}
}

func describe(h ws.Head, payload []byte) string {
	name := map[ws.Opcode]string{ws.OpText: "text", ws.OpBinary: "binary", ws.OpPing: "ping", ws.OpPong: "pong"}[h.Opcode]
	if h.IsMasked || !h.IsFinal {
		name = "masked or unfinished " + name
	}
	if h.Opcode == ws.OpClose {
		code, reason, err := ws.ParseClose(payload)
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(fmt.Sprintf("close %d %s", code, reason))
	}
	if len(payload) > 100 {
		return fmt.Sprintf("%s %d bytes %x", name, len(payload), sum(payload))
	}
	return strings.TrimSpace(name + " " + string(payload))
}

func sum(p []byte) (n uint32) {
	for _, b := range p {
		n = n*31 + uint32(b)
	}
	return n
}

// long is what next returns for a long message.
func long(kind string, payload string) string {
	return fmt.Sprintf("%s %d bytes %x", kind, len(payload), sum([]byte(payload)))
}

func (c *client) expect(want ...string) {
	c.t.Helper()
	for _, w := range want {
		if got := c.next(); got != w {
			c.t.Fatalf("got %q, want %q", got, w)
		}
	}
}

// ends records what OnClose gets.
type ends chan error

func newEnds() ends { return make(ends, 100) }

func (e ends) onClose(_ *Conn, err error) { e <- err }

// expect waits for an end and compares its text.
func (e ends) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case err := <-e:
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OnClose got %v, want %q", err, want)
		}
	case <-time.After(patience):
		t.Error("OnClose was not called")
	}
}

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// dialTLS is dial for a server with TLS.
func dialTLS(t *testing.T, addr string) *client {
	conn, err := tls.Dial("tcp4", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, conn)
	c.raw(hello)
	if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		t.Fatal(head)
	}
	return c
}

var longText = strings.Repeat("κόσμε! ", 7000) // 84,000 bytes

func allBytes(n int) string {
	return string(bytes.Repeat([]byte("\x00\x01\xfe\xff\x80abc"), n/8))
}
