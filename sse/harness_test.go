package sse

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
)

const patience = 20 * time.Second

// A fixture is a Server with a Hub. The path names the topics, with "," between them.
type fixture struct {
	t      *testing.T
	hub    *Hub
	server *sluice.Server
	addr   string
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

func start(t *testing.T, e sluice.Engine, o Options, configure ...func(*sluice.Server)) *fixture {
	t.Helper()
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, hub: h}
	f.server = &sluice.Server{Engine: e, Handler: f.handle}
	for _, change := range configure {
		change(f.server)
	}
	if o.Name != "" {
		if err := h.Register(f.server); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = ln.Addr().String()
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(ln) }()
	eventually(t, "the server serves", func() bool { return f.server.EngineStats().Engine != "" })
	t.Cleanup(func() {
		if err := errors.Join(f.server.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *fixture) handle(ctx *sluice.RequestCtx) {
	topics := strings.Split(strings.TrimPrefix(string(ctx.Path()), "/"), ",")
	if err := f.hub.Serve(ctx, topics...); err != nil {
		ctx.Error(err.Error(), sluice.StatusServiceUnavailable)
	}
}

func (f *fixture) publish(topic, data string) {
	f.t.Helper()
	if err := f.hub.Publish(topic, Event{Data: []byte(data)}); err != nil {
		f.t.Fatal(err)
	}
}

// A client is the client of a stream.
type client struct {
	t    *testing.T
	conn net.Conn
	head string
	in   *bufio.Reader
	*Reader
}

// open opens a stream. Its head and the text that comes first have arrived.
func (f *fixture) open(topics, lastID string) *client {
	f.t.Helper()
	field := ""
	if lastID != "" {
		field = "Last-Event-ID: " + lastID + "\r\n"
	}
	return f.ask("GET /" + topics + " HTTP/1.1\r\nHost: h\r\n" + field + "\r\n")
}

func (f *fixture) ask(request string) *client {
	f.t.Helper()
	conn, err := net.Dial("tcp4", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := &client{t: f.t, conn: conn, in: bufio.NewReader(conn)}
	if _, err := io.WriteString(conn, request); err != nil {
		f.t.Fatal(err)
	}
	for line := ""; line != "\r\n"; c.head += line {
		if line, err = c.in.ReadString('\n'); err != nil {
			f.t.Fatal(err)
		}
	}
	body := io.Reader(c.in)
	if strings.Contains(c.head, "Transfer-Encoding: chunked") {
		body = &chunks{in: c.in}
	}
	c.Reader = NewReader(body)
	return c
}

// chunks decodes a chunked body.
type chunks struct {
	in   *bufio.Reader
	left int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 {
		if _, err := fmt.Fscanf(c.in, "%x\r\n", &c.left); err != nil {
			return 0, err
		}
		if c.left == 0 {
			if rest, err := io.ReadAll(c.in); err != nil || string(rest) != "\r\n" {
				return 0, fmt.Errorf("after the last chunk: %q, %v", rest, err)
			}
			return 0, io.EOF
		}
	}
	n, err := c.in.Read(p[:min(len(p), c.left)])
	c.left -= n
	if c.left == 0 && err == nil {
		_, err = c.in.Discard(2)
	}
	return n, err
}

// want reads events with these data.
func (c *client) want(data ...string) {
	c.t.Helper()
	for _, want := range data {
		e, err := c.Next()
		if err != nil || string(e.Data) != want {
			c.t.Fatalf("event %q, %v, want %q", e.Data, err, want)
		}
	}
}

// wantEnd reads the end of the stream.
func (c *client) wantEnd() {
	c.t.Helper()
	if e, err := c.Next(); err != io.EOF {
		c.t.Fatalf("event %q, %v, want the end", e.Data, err)
	}
}

// eventually waits until cond is true.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within ", patience, ": ", what)
		}
	}
}

// joined waits until a topic has n streams.
func (f *fixture) joined(topic string, n int) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%s has %d streams", topic, n), func() bool { return f.hub.Len(topic) == n })
}
