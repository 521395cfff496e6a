package prefork

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
	"github.com/sluicehttp/sluice/websocket"
)

var (
	socketRestarts = flag.Int("websocket.restarts", 3, "how often TestRestartsOfWebSockets replaces the workers")
	socketWorkers  = flag.Int("websocket.workers", 2, "of TestRestartsOfWebSockets")
	socketIdle     = flag.Int("websocket.idle", 200, "how many WebSockets are idle meanwhile")
	socketBusy     = flag.Int("websocket.busy", 20, "how many send messages meanwhile")
	socketEvery    = flag.Duration("websocket.every", time.Millisecond, "how long one that is busy waits after an answer")
	socketPauses   = flag.Bool("websocket.pauses", false, "let each restart be followed by as long without one, and report waits of both")
)

// waits are a client's longest waits for an answer, one for each window of time.
type waits []time.Duration

func (w *waits) add(window int, wait time.Duration) {
	for len(*w) <= window {
		*w = append(*w, 0)
	}
	(*w)[window] = max((*w)[window], wait)
}

// describeWaits describes the waits of all clients in the windows first, first+2 and so on.
func describeWaits(all []waits, first int) string {
	var longest waits
	for _, w := range all {
		for i := first; i < len(w); i += 2 {
			longest = append(longest, w[i])
		}
	}
	if len(longest) == 0 {
		return "none"
	}
	slices.Sort(longest)
	at := func(share float64) time.Duration { return longest[int(share*float64(len(longest)-1))] }
	return fmt.Sprintf("p50 %v, p99 %v, longest %v, of %d", at(.5), at(.99), at(1), len(longest))
}

// counter is the state of a WebSocket: how many messages it has got in all processes.
type counter struct{ n atomic.Int64 }

type counterCodec struct{}

func (counterCodec) Encode(state any) ([]byte, error) {
	return fmt.Append(nil, state.(*counter).n.Load()), nil
}

func (counterCodec) Decode(p []byte) (any, error) {
	var c counter
	var n int64
	_, err := fmt.Sscan(string(p), &n)
	c.n.Store(n)
	return &c, err
}

// withWebSocket serves WebSockets that answer with the process, the number of the message,
// and the message.
func withWebSocket(s *sluice.Server, next sluice.RequestHandler) sluice.RequestHandler {
	e := &websocket.Endpoint{Name: "counter", State: counterCodec{}, OnMessage: func(c *websocket.Conn, m websocket.Message) error {
		n := c.State().(*counter).n.Add(1)
		if string(m.Data) == "address" {
			m.Data = []byte(c.RemoteAddr().String())
		}
		return c.Write(context.Background(), m.Kind, fmt.Appendf(nil, "%d %d %s", os.Getpid(), n, m.Data))
	}}
	if err := e.Register(s); err != nil {
		panic(err)
	}
	return func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/websocket" {
			_ = e.Upgrade(ctx, &counter{})
			return
		}
		next(ctx)
	}
}

// A socketClient is a client of withWebSocket.
type socketClient struct {
	net.Conn
	in   *bufio.Reader
	sent int
}

func (f *fleet) socketClient() *socketClient { return f.socketClientOf("/websocket") }

func (f *fleet) socketClientOf(path string) *socketClient {
	conn, err := net.Dial("tcp4", f.addr(0))
	if err != nil {
		f.t.Fatal(err)
	}
	return f.upgrade(conn, path)
}

func (f *fleet) upgrade(conn net.Conn, path string) *socketClient {
	f.t.Cleanup(func() { conn.Close() })
	c := &socketClient{Conn: conn, in: bufio.NewReader(conn)}
	_ = c.SetDeadline(time.Now().Add(patience))
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	for line := ""; err == nil && line != "\r\n"; {
		line, err = c.in.ReadString('\n')
	}
	if err != nil {
		f.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Time{})
	return c
}

// say sends a message and checks its answer. It returns the process that has answered.
func (c *socketClient) say(message string) (pid string, err error) {
	c.sent++
	_ = c.SetDeadline(time.Now().Add(patience))
	if err := c.write(message); err != nil {
		return "", err
	}
	text, err := c.read()
	if err != nil {
		return "", err
	}
	pid, rest, _ := strings.Cut(text, " ")
	if want := fmt.Sprintf("%d %s", c.sent, message); rest != want {
		return "", fmt.Errorf("%q, want %q", text, want)
	}
	return pid, nil
}

// write sends a message.
func (c *socketClient) write(message string) error {
	_, err := c.Write(ws.AppendMasked(nil, ws.OpText, 0x01020304, []byte(message)))
	return err
}

// read returns the next message, which is a short text.
func (c *socketClient) read() (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return "", err
	}
	payload := make([]byte, head[1])
	if _, err := io.ReadFull(c.in, payload); err != nil {
		return "", err
	}
	if head[0] != 0x81 || head[1] > 125 {
		return "", fmt.Errorf("frame %x %q", head, payload)
	}
	return string(payload), nil
}

// WebSockets and streams of events survive rolling restarts: none is closed, and no message
// is lost or comes twice.
func TestRestartsOfWebSockets(t *testing.T) {
	for name, engine := range map[string]sluice.Engine{"epoll": sluice.EngineEpoll, "perconn": sluice.EnginePerConn} {
		t.Run(name, func(t *testing.T) {
			f := start(t, setup{Workers: *socketWorkers, Engine: engine, WebSocket: true, Streams: true, Linger: patience, Drain: patience}, true)
			idle := make([]*socketClient, *socketIdle)
			for i := range idle {
				idle[i] = f.socketClient()
				if _, err := idle[i].say("hello"); err != nil {
					t.Fatal(err)
				}
			}
			var l load
			var window atomic.Int64 // restarts are odd
			all := make([]waits, *socketBusy)
			for i := range *socketBusy {
				c := f.socketClient()
				l.done.Add(1)
				go func() {
					defer l.done.Done()
					for !l.stop.Load() {
						sent := time.Now()
						if _, err := c.say("busy"); err != nil {
							l.fail(fmt.Errorf("message %d: %w", c.sent, err))
							return
						}
						all[i].add(int(window.Load()), time.Since(sent))
						l.answered.Add(1)
						time.Sleep(*socketEvery)
					}
				}()
			}
			s := f.streams(&l, *socketStreams)
			began, before := time.Now(), l.answered.Load()
			for range *socketRestarts {
				goal := l.answered.Load() + 100
				until(t, "messages are answered", func() bool { return l.answered.Load() >= goal || t.Failed() })
				window.Add(1)
				start := time.Now()
				f.replace(*socketWorkers)
				window.Add(1)
				if *socketPauses {
					time.Sleep(time.Since(start))
				}
			}
			took, answered := time.Since(began), l.answered.Load()-before
			l.end(t)
			s.end()
			for _, err := range l.failed {
				t.Error(err)
			}
			living := f.living()
			closed := 0
			for i, c := range idle {
				pid, err := c.say("still here")
				if err != nil || !living[pid] {
					closed++
					t.Errorf("connection %d: process %s: %v", i, pid, errors.Join(err))
				}
			}
			if closed := f.said("stream closed"); len(closed) > 0 {
				t.Errorf("%d streams were closed: %q", len(closed), closed[0])
			}
			t.Logf("%d restarts of %d workers in %v, %.0f messages/s of %d connections, %d idle: %d closed; %d streams, %d events",
				*socketRestarts, *socketWorkers, took, float64(answered)/took.Seconds(), *socketBusy, *socketIdle, closed, *socketStreams, s.published)
			if *socketPauses {
				t.Logf("the longest wait of each busy connection in each restart: %s; in as long without one: %s", describeWaits(all, 1), describeWaits(all, 2))
			}
		})
	}
}
