package http3

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/h3"
	"github.com/sluicehttp/sluice/sse"
	"github.com/sluicehttp/sluice/websocket"
)

// dialOptions are those of a WebSocket over HTTP/3.
func dialOptions(t testing.TB, mode Mode) *websocket.DialOptions {
	client := &sluice.Client{Transport: &Transport{Mode: mode}, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(client.CloseIdleConnections)
	return &websocket.DialOptions{Client: client}
}

// noneLeft waits until no WebSocket uses a connection of c, and closes them.
func noneLeft(t testing.TB, c *sluice.Client) {
	t.Helper()
	if !nettest.Poll(10*time.Second, func() bool {
		c.CloseIdleConnections()
		return c.ConnsCount() == 0
	}) {
		t.Errorf("%d connections are left", c.ConnsCount())
	}
}

// serveSockets serves e over HTTP/3, and answers requests without an upgrade with their protocol.
func serveSockets(t testing.TB, e *websocket.Endpoint, config Config) (s *sluice.Server, addr string) {
	s = &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		switch {
		case string(ctx.Path()) == "/":
			ctx.SetBodyString(string(ctx.Request.Header.Protocol()))
		case string(ctx.Path()) == "/refused":
			ctx.SetStatusCode(403)
			ctx.SetBodyString("not you")
		default:
			_ = e.Upgrade(ctx, nil)
		}
	}}
	return s, serve(t, s, config)
}

func echoMessage(c *websocket.Conn, m websocket.Message) error {
	return c.Write(context.Background(), m.Kind, m.Data)
}

// TestDialWebSocket: package websocket dials over HTTP/3, with callbacks and with Read, compressed and
// not, with messages of all sizes and in parts; all share a connection with requests.
func TestDialWebSocket(t *testing.T) {
	for _, compression := range []websocket.Compression{websocket.CompressionOff, websocket.CompressionTakeover} {
		e := &websocket.Endpoint{OnMessage: echoMessage, Protocols: []string{"b"}, Compression: compression, ReadLimit: 4 << 20}
		_, addr := serveSockets(t, e, Config{})
		o := dialOptions(t, Only)
		o.Endpoint = &websocket.Endpoint{Protocols: []string{"a", "b"}, Compression: compression, ReadLimit: 4 << 20}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				c, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", o)
				if err != nil || c.Protocol() != "b" {
					t.Error(err)
					return
				}
				exchangeMessages(t, c, i)
				if status, body, err := o.Client.Get(nil, "https://"+addr+"/"); err != nil || status != 200 || string(body) != "HTTP/3.0" {
					t.Error(status, body, err)
				}
				if n := o.Client.ConnsCount(); n != 1 {
					t.Errorf("%d connections", n)
				}
				if err := c.Close(4000, "enough"); err != nil {
					t.Error(err)
				}
				<-c.Context().Done()
			})
		}
		all.Wait()
		noneLeft(t, o.Client)
	}
}

// exchangeMessages has c echo messages of all sizes, one of them in parts, and a ping.
func exchangeMessages(t *testing.T, c *websocket.Conn, i int) {
	for _, size := range []int{0, 1, 125, 126, 1000, 4 << 10, 70_000, 1 << 20} {
		if i > 0 && size > 4<<10 {
			break
		}
		text := strings.Repeat(fmt.Sprint(i), size)[:size]
		if err := c.Write(t.Context(), websocket.Text, []byte(text)); err != nil {
			t.Errorf("%d bytes: %v", size, err)
			return
		}
		if m, err := c.Read(t.Context()); err != nil || string(m.Data) != text {
			t.Errorf("%d of %d bytes, %v", len(m.Data), size, err)
			return
		}
	}
	w, err := c.Writer(t.Context(), websocket.Binary)
	if err != nil {
		t.Error(err)
		return
	}
	for n := range 10 {
		if _, err := fmt.Fprint(w, n); err != nil {
			t.Error(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if m, err := c.Read(t.Context()); err != nil || string(m.Data) != "0123456789" || m.Kind != websocket.Binary {
		t.Errorf("%v, %v", m, err)
	}
}

// TestDialPing: both sides ping, and callbacks get messages.
func TestDialPing(t *testing.T) {
	opened := make(chan *websocket.Conn, 1)
	_, addr := serveSockets(t, &websocket.Endpoint{OnMessage: echoMessage, OnOpen: func(c *websocket.Conn) error { opened <- c; return nil }}, Config{})
	o := dialOptions(t, Only)
	got, ended := make(chan string, 1), make(chan error, 1)
	o.Endpoint = &websocket.Endpoint{OnMessage: func(_ *websocket.Conn, m websocket.Message) error {
		got <- string(m.Data)
		return nil
	}, OnClose: func(_ *websocket.Conn, err error) { ended <- err }}
	c, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", o)
	if err != nil {
		t.Fatal(err)
	}
	server := <-opened
	for range 3 {
		if err := errors.Join(c.Ping(t.Context()), server.Ping(t.Context()), c.Write(t.Context(), websocket.Text, []byte("hi"))); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != "hi" {
			t.Errorf("%q", text)
		}
	}
	if err := server.Close(4001, "over"); err != nil {
		t.Error(err)
	}
	var closed *websocket.CloseError
	if err := <-ended; !errors.As(err, &closed) || closed.Code != 4001 || closed.Reason != "over" {
		t.Errorf("the connection has ended with %v", err)
	}
	noneLeft(t, o.Client)
}

// TestDialShutdown: the Shutdown of the server ends WebSockets with 1001.
func TestDialShutdown(t *testing.T) {
	s, addr := serveSockets(t, &websocket.Endpoint{OnMessage: echoMessage}, Config{})
	o := dialOptions(t, Only)
	c, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", o)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown() }()
	var closed *websocket.CloseError
	if _, err := c.Read(t.Context()); !errors.As(err, &closed) || closed.Code != websocket.CodeGoingAway {
		t.Errorf("read: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	noneLeft(t, o.Client)
}

// TestShutdownBeforeOpen: a WebSocket and a stream of events whose handlers return after the engine
// was shut down begin, and end in order.
func TestShutdownBeforeOpen(t *testing.T) {
	for _, engine := range []sluice.Engine{sluice.EnginePerConn, sluice.EngineAuto} {
		hub, err := sse.New(sse.Options{})
		if err != nil {
			t.Fatal(err)
		}
		arrived := make(chan struct{}, 2)
		var isShutDown <-chan struct{}
		e := &websocket.Endpoint{}
		s := &sluice.Server{Engine: engine, Handler: func(ctx *sluice.RequestCtx) {
			var err error
			if string(ctx.Path()) == "/ws" {
				err = e.Upgrade(ctx, nil)
			} else {
				err = hub.Serve(ctx, "a")
			}
			if err != nil {
				t.Error(err)
			}
			arrived <- struct{}{}
			<-isShutDown
		}}
		addr := serve(t, s, Config{})
		isShutDown = nettest.AfterShutdown(s.Serve)
		closed, events := make(chan error, 1), make(chan string, 1)
		go func() {
			c, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", dialOptions(t, Only))
			if err == nil {
				_, err = c.Read(t.Context())
			}
			closed <- err
		}()
		go func() {
			resp, err := newClient(t).Get("https://" + addr + "/")
			if err != nil {
				events <- err.Error()
				return
			}
			text, _ := io.ReadAll(resp.Body)
			events <- string(text)
		}()
		<-arrived
		<-arrived
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
		var end *websocket.CloseError
		if err := <-closed; !errors.As(err, &end) || end.Code != websocket.CodeGoingAway {
			t.Errorf("%v: the WebSocket ends with %v", engine, err)
		}
		if text := <-events; !strings.Contains(text, "\n\nretry: ") {
			t.Errorf("%v: the events are %q", engine, text)
		}
	}
}

// TestDialRefused: the response is part of the error, and the connection goes on.
func TestDialRefused(t *testing.T) {
	_, addr := serveSockets(t, &websocket.Endpoint{OnMessage: echoMessage}, Config{})
	o := dialOptions(t, Only)
	_, err := websocket.Dial(t.Context(), "wss://"+addr+"/refused", o)
	var refused *websocket.HandshakeError
	if !errors.As(err, &refused) || refused.Status != 403 || string(refused.Body) != "not you" {
		t.Errorf("%v", err)
	}
	if c, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", o); err != nil {
		t.Error(err)
	} else {
		_ = c.Close(websocket.CodeNormal, "")
	}
	if n := o.Client.ConnsCount(); n != 1 {
		t.Errorf("%d connections", n)
	}
	noneLeft(t, o.Client)
}

// TestDialNotAdmitted: a server whose SETTINGS have no SETTINGS_ENABLE_CONNECT_PROTOCOL gets no
// extended CONNECT (RFC 9220 section 3). Unless the mode is Only, TCP is used.
func TestDialNotAdmitted(t *testing.T) {
	e := &websocket.Endpoint{OnMessage: echoMessage}
	_, addr := serveSockets(t, e, Config{DisableWebSocket: true})
	for _, url := range []string{"wss://" + addr + "/ws", "ws://" + addr + "/ws"} {
		o := dialOptions(t, Only)
		if _, err := websocket.Dial(t.Context(), url, o); !errors.Is(err, ErrNotHTTP3) {
			t.Errorf("%s: %v", url, err)
		}
		noneLeft(t, o.Client)
	}
	o := dialOptions(t, Prefer)
	o.Dial = func(context.Context, string) (net.Conn, error) { return nil, errors.New("TCP") }
	if _, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", o); err == nil || err.Error() != "TCP" {
		t.Errorf("%v", err)
	}
	noneLeft(t, o.Client)
}

// TestDialTransports: which Transports open WebSockets over HTTP/3.
func TestDialTransports(t *testing.T) {
	versions := make(chan string, 1)
	e := &websocket.Endpoint{OnMessage: echoMessage, Check: func(ctx *sluice.RequestCtx) error {
		versions <- string(ctx.Request.Header.Protocol())
		return nil
	}}
	_, addr := serveSockets(t, e, Config{})
	informed := &Transport{}
	informed.origins.learn(addr, "127.0.0.1", [][]byte{[]byte(`h3=":` + addr[strings.LastIndexByte(addr, ':')+1:] + `"`)}, nil)
	for name, transport := range map[string]sluice.RoundTripper{
		"prefer": &Transport{Mode: Prefer}, "auto": informed, "embedded": struct{ *Transport }{&Transport{Mode: Only}},
	} {
		o := dialOptions(t, Only)
		o.Client.Transport = transport
		c, err := websocket.Dial(t.Context(), "wss://"+addr+"/ws", o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if version := <-versions; version != "HTTP/3.0" {
			t.Errorf("%s: %s", name, version)
		}
		_ = c.Close(websocket.CodeNormal, "")
		noneLeft(t, o.Client)
	}
}

// serveTunnels serves extended CONNECTs, and returns the address. before is called before SETTINGS
// are sent, unless it is nil.
func serveTunnels(t testing.TB, before func(c *quic.Conn), f func(s *quic.Stream)) string {
	socket := listenUDP(t)
	serveStreams(t, socket, h3.Settings{ExtendedConnect: true}, before, f)
	return socket.LocalAddr().String()
}

// connect asks addr for a tunnel.
func connect(t testing.TB, addr string) (*sluice.HostClient, net.Conn, error) {
	c := overHTTP3(t, addr)
	conn, err := askForTunnel(t.Context(), c)
	return c, conn, err
}

// askForTunnel asks the server of c for a tunnel.
func askForTunnel(ctx context.Context, c *sluice.HostClient) (net.Conn, error) {
	var req sluice.Request
	var resp sluice.Response
	req.SetRequestURI("https://" + c.Addr + "/")
	return c.ConnectProtocol(ctx, "test", &req, &resp)
}

// TestTunnelAwaitsSettings: nothing is sent before SETTINGS have come; a call whose context ends
// first fails.
func TestTunnelAwaitsSettings(t *testing.T) {
	goOn, early := make(chan struct{}), make(chan bool, 1)
	addr := serveTunnels(t, func(c *quic.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := c.AcceptStream(ctx)
		early <- err == nil
		<-goOn
	}, func(s *quic.Stream) {
		_, _ = s.Write(headers(":status: 200"))
		_, _ = io.Copy(s, s) // frames of DATA, and their headers
	})
	c := overHTTP3(t, addr)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := askForTunnel(ctx, c); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without SETTINGS: %v", err)
	}
	if <-early {
		t.Error("a stream was opened before SETTINGS")
	}
	close(goOn)
	conn, err := askForTunnel(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if n := c.ConnsCount(); n != 1 {
		t.Errorf("%d connections", n)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// skipHead reads the HEADERS of a request.
func skipHead(s *quic.Stream) {
	var frames h3.FrameReader
	in := make([]byte, 1)
	for isWhole := false; !isWhole; {
		if _, err := io.ReadFull(s, in); err != nil {
			return
		}
		_, isWhole = frames.ReadHeader(in)
	}
	_, _ = io.CopyN(io.Discard, s, int64(frames.Left))
}

// TestTunnelWire: what a server sends on an accepted stream, and what Read returns.
func TestTunnelWire(t *testing.T) {
	ok := headers(":status: 200")
	long := strings.Repeat("x", 3*tunnelInput)
	for _, tc := range []struct {
		name  string
		out   []byte
		reset h3.Code // after out; 0: the end of the stream
		want  string
		code  h3.Code // of the error; 0: io.EOF
	}{
		{"frames", concat(ok, data("ab"), data(""), data("c")), 0, "abc", 0},
		{"a large frame", concat(ok, data(long), data("!")), 0, long + "!", 0},
		{"at once", ok, 0, "", 0},
		{"a length without a meaning", concat(headers(":status: 200", "content-length: 1"), data("abc")), 0, "abc", 0},
		{"204", concat(headers(":status: 204"), data("abc")), 0, "abc", 0},
		{"frames without a meaning", concat(ok, frame(0x21, []byte{1}), data("a"), frame(0x40, nil)), 0, "a", 0},
		{"an interim head", concat(headers(":status: 103"), ok, data("a")), 0, "a", 0},
		{"reset", concat(ok, data("a")), h3.InternalError, "", h3.InternalError},
		{"trailer fields", concat(ok, data("a"), headers("x-a: b")), 0, "a", h3.FrameUnexpected},
		{"SETTINGS", concat(ok, frame(h3.FrameSettings, nil)), 0, "", h3.FrameUnexpected},
		{"the end within a frame", concat(ok, data("abc")[:3]), 0, "a", h3.FrameError},
		{"empty frames without end", concat(ok, bytes.Repeat(data(""), maxIgnored+1)), 0, "", h3.ExcessiveLoad},
	} {
		addr := serveTunnels(t, nil, func(s *quic.Stream) {
			skipHead(s)
			_, _ = s.Write(tc.out)
			if tc.reset != 0 {
				_, _ = io.ReadFull(s, make([]byte, 3)) // the client has the head: a reset may lose it
				s.CancelWrite(quic.StreamErrorCode(tc.reset))
				return
			}
			_ = s.Close()
		})
		_, conn, err := connect(t, addr)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if _, err := conn.Write([]byte("a")); err != nil {
			t.Errorf("%s: Write: %v", tc.name, err)
		}
		got, err := io.ReadAll(conn)
		var failed *Error
		switch {
		case tc.code == 0 && err != nil, tc.code != 0 && !(errors.As(err, &failed) && failed.Code == uint64(tc.code)):
			t.Errorf("%s: %v", tc.name, err)
		case tc.reset == 0 && string(got) != tc.want:
			t.Errorf("%s: %.20q, want %.20q", tc.name, got, tc.want)
		}
		if err := conn.Close(); err != nil {
			t.Errorf("%s: Close: %v", tc.name, err)
		}
	}
}

// TestTunnelConn: the net.Conn has deadlines after which it goes on, ends each direction by itself,
// and gives its place back once.
func TestTunnelConn(t *testing.T) {
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(101)
		ctx.Hijack(func(c net.Conn) { _, _ = io.Copy(c, c) })
	}}
	client, conn, err := connect(t, serve(t, s, Config{}))
	if err != nil {
		t.Fatal(err)
	}
	var room [5]byte
	for range 3 {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if n, err := conn.Read(room[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%d, %v", n, err)
		}
		_ = conn.SetReadDeadline(time.Time{})
		if n, err := conn.Write([]byte("hello")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := io.ReadFull(conn, room[:]); err != nil || string(room[:]) != "hello" {
			t.Fatalf("%q, %v", room, err)
		}
	}
	large := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		if n, err := conn.Write(large); n != len(large) || err != nil {
			t.Error(n, err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Error(err)
		}
		if _, err := conn.Write([]byte("x")); err != net.ErrClosed {
			t.Errorf("after CloseWrite: %v", err)
		}
	}()
	if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if conn.RemoteAddr().String() != client.Addr || conn.LocalAddr() == nil {
		t.Errorf("addresses %v, %v", conn.LocalAddr(), conn.RemoteAddr())
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	_, readErr := conn.Read(room[:])
	_, writeErr := conn.Write(room[:])
	for _, err := range []error{readErr, writeErr, conn.Close(), conn.SetDeadline(time.Time{})} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if open, idle := client.ConnsCount(), client.IdleConnsCount(); open != 1 || idle != 1 {
		t.Errorf("%d connections, %d idle", open, idle)
	}
}

// TestTunnelCloseEndsCalls: Close ends a Read and a Write that wait, and resets what is not whole.
func TestTunnelCloseEndsCalls(t *testing.T) {
	reset := make(chan error, 1)
	addr := serveTunnels(t, nil, func(s *quic.Stream) {
		skipHead(s)
		_, _ = s.Write(headers(":status: 200"))
		<-s.Context().Done() // the client wants no more
		_, err := io.Copy(io.Discard, s)
		reset <- err
	})
	_, conn, err := connect(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	var wrote int
	go func() {
		n, err := conn.Write(make([]byte, 32<<20)) // more than the windows
		wrote = n
		ended <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := <-ended; err != net.ErrClosed {
			t.Errorf("%v", err)
		}
	}
	var failed *quic.StreamError
	if err := <-reset; !errors.As(err, &failed) || h3.Code(failed.ErrorCode) != h3.RequestCancelled {
		t.Errorf("the server gets %v", err)
	}
	if wrote >= 32<<20 {
		t.Errorf("%d bytes were written", wrote)
	}
}

// TestTunnelOfLostConnection: Read and Write fail.
func TestTunnelOfLostConnection(t *testing.T) {
	conns := make(chan *quic.Conn, 1)
	client, conn, err := connect(t, serveTunnels(t, func(c *quic.Conn) { conns <- c }, func(s *quic.Stream) {
		_, _ = s.Write(headers(":status: 200"))
	}))
	if err != nil {
		t.Fatal(err)
	}
	_ = (<-conns).CloseWithError(quic.ApplicationErrorCode(h3.InternalError), "")
	var failed *Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &failed) || failed.Code != uint64(h3.InternalError) {
		t.Errorf("Read: %v", err)
	}
	if _, err := conn.Write([]byte("x")); !errors.As(err, &failed) {
		t.Errorf("Write: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if !nettest.Poll(10*time.Second, func() bool { return client.ConnsCount() == 0 }) {
		t.Errorf("%d connections", client.ConnsCount())
	}
}

// TestConnectErrors: the error of the mode Only says why.
func TestConnectErrors(t *testing.T) {
	socket := listenUDP(t)
	serveRaw(t, socket, func(*quic.Stream) { t.Error("a stream was opened") })
	_, _, err := connect(t, socket.LocalAddr().String())
	if !errors.Is(err, ErrNotHTTP3) || !errors.Is(err, streams.ErrNoConnect) {
		t.Error(err)
	}
}
