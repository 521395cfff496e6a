//go:build linux

package member

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/sluicehttp/sluice/tools/lab/internal/control"
	"github.com/sluicehttp/sluice/tools/lab/internal/scenario"
	ours "github.com/sluicehttp/sluice/websocket"
)

const patient = 20 * time.Second

// eventually waits for what other goroutines bring about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patient); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func processOf(server scenario.ServerKind, client scenario.ClientKind) *process {
	return &process{config: control.Config{Loops: 1, Scenario: scenario.Scenario{
		Protocol: scenario.WebSocket, Server: server, Client: client, Workload: scenario.Workload{Kind: scenario.Echo},
	}}}
}

// startWebSocket starts a server and returns its address.
func startWebSocket(t *testing.T, kind scenario.ServerKind) (s *server, addr string) {
	t.Helper()
	return startServer(t, processOf(kind, scenario.EpollClient))
}

func startServer(t *testing.T, p *process) (s *server, addr string) {
	t.Helper()
	s = newServer(p)
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(ln) }()
	t.Cleanup(func() {
		_ = s.http.Shutdown()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

// TestServerWithPeer has somebody else's client talk to the server.
func TestServerWithPeer(t *testing.T) {
	for _, kind := range []scenario.ServerKind{scenario.Epoll, scenario.Goroutine} {
		t.Run(string(kind), func(t *testing.T) {
			s, addr := startWebSocket(t, kind)
			peer, err := websocket.Dial("ws://"+addr+"/", "", "http://lab/")
			if err != nil {
				t.Fatal(err)
			}
			_ = peer.SetDeadline(time.Now().Add(patient))
			for _, text := range []string{"pingpong", strings.Repeat("x", 300)} {
				var got []byte
				if err := websocket.Message.Send(peer, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if err := websocket.Message.Receive(peer, &got); err != nil || string(got) != text {
					t.Errorf("%.20q: %v", got, err)
				}
			}
			var stats control.Stats
			stats.Asked = true
			s.count(&stats)
			if stats.Requests != 2 || stats.Connections != 1 {
				t.Errorf("%+v", stats)
			}
			_ = peer.Close()
			eventually(t, "no connection is left", func() bool { s.count(&stats); return stats.Connections == 0 })
		})
	}
}

// hello is a client's handshake.
func hello(fields string) string {
	return "GET / HTTP/1.1\r\nHost: lab\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n" + fields + "\r\n"
}

const goodFields = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

// TestServerRefuses: what is no WebSocket gets an answer, and what breaks its
// rules ends.
func TestServerRefuses(t *testing.T) {
	_, addr := startWebSocket(t, scenario.Epoll)
	for in, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n":                           "426",
		hello("Sec-WebSocket-Version: 13\r\n"):                                               "400",
		hello("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n"):                   "400",
		hello("Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"): "426",
		hello(goodFields): "101",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patient))
		if _, err := io.WriteString(conn, in); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, " "+want+" ") {
			t.Errorf("%q is answered %q, %v", in, line, err)
		}
		_ = conn.Close()
	}
	for in, want := range map[string]string{
		"\x82\x81\x00\x00\x00\x00x":                                 "\x82\x01x",
		"\x89\x81\x00\x00\x00\x00x\x82\x80\x00\x00\x00\x00":         "\x8a\x01x\x82\x00",
		"\x8a\x80\x00\x00\x00\x00\x88\x82\x00\x00\x00\x00\x03\xe8x": "\x88\x02\x03\xe8",
		"\x82\x01x": "\x88%\x03\xeaa frame from a client is not masked",
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patient))
		// All at once, which a client may not do, and is served all the same.
		if _, err := io.WriteString(conn, hello(goodFields)+in); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(want, "x") || strings.HasSuffix(want, "\x82\x00") {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		all, err := io.ReadAll(conn)
		if _, got, _ := strings.Cut(string(all), "\r\n\r\n"); got != want {
			t.Errorf("%q is answered %q, %v", in, got, err)
		}
		_ = conn.Close()
	}
}

// TestClientWithPeer has the client talk to somebody else's server.
func TestClientWithPeer(t *testing.T) {
	for _, kind := range []scenario.ClientKind{scenario.EpollClient, scenario.GoroutineClient} {
		t.Run(string(kind), func(t *testing.T) {
			echo := func(c *websocket.Conn) {
				c.PayloadType = websocket.BinaryFrame
				for range 10 {
					_, _ = io.CopyN(c, c, messageSize)
				}
			}
			peer := httptest.NewServer(websocket.Server{Handler: echo})
			defer peer.Close()
			c := clientOf(t, processOf(scenario.Epoll, kind))
			c.dialOne(t, peer.Listener.Addr().String())
			c.loops()
			eventually(t, "the server has closed the connection", func() bool { return c.lost.Load() == 1 })
			if c.opened.Load() != 1 || c.requests.Load() != 10 || c.firstError.Load() == nil {
				t.Errorf("%d opened, %d answers", c.opened.Load(), c.requests.Load())
			}
		})
	}
}

// TestClientIsRefused: a server that does not upgrade is an error.
func TestClientIsRefused(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no upgrade": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) },
		"another key": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
			w.WriteHeader(http.StatusSwitchingProtocols)
		},
	} {
		t.Run(name, func(t *testing.T) {
			peer := httptest.NewServer(answer)
			defer peer.Close()
			c := clientOf(t, processOf(scenario.Epoll, scenario.EpollClient))
			err := c.tryOne(peer.Listener.Addr().String())
			if err == nil || !strings.Contains(err.Error(), "the server has answered") || c.opened.Load() != 0 || c.lost.Load() != 0 {
				t.Error(err)
			}
		})
	}
}

// aClient is a client without a coordinator.
type aClient struct{ *client }

func clientOf(t *testing.T, p *process) aClient {
	c := newClient(p)
	c.upgrades = make(chan struct{}, 1)
	t.Cleanup(func() {
		c.mu.Lock()
		c.drive = resting{}
		peers := c.peers
		c.mu.Unlock()
		if c.server != nil {
			_ = c.server.Shutdown(t.Context())
			return
		}
		for _, p := range peers {
			_ = (*ours.Conn)(p.sender.(*messenger)).Close(ours.CodeNormal, "")
		}
	})
	return aClient{c}
}

// tryOne makes a connection.
func (c aClient) tryOne(addr string) error {
	e, err := parseEndpoints(control.Target{Source: "127.0.0.1", Addr: addr, Conns: 1})
	if err != nil {
		return err
	}
	return c.connectOne(e)
}

// dialOne is tryOne of what does not fail.
func (c aClient) dialOne(t *testing.T, addr string) {
	t.Helper()
	if err := c.tryOne(addr); err != nil {
		t.Fatal(err)
	}
}

// loops has all connections send, again and again.
func (c aClient) loops() {
	c.mu.Lock()
	l := &loop{tally: newTally(c.client, c.now(), control.Run{Duration: time.Hour}), peers: c.peers}
	c.drive = l
	c.mu.Unlock()
	l.begin()
}
