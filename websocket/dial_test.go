package websocket

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// dialTo opens a connection to f.
func (f *fixture) dialTo(o *DialOptions) *Conn {
	f.t.Helper()
	c, err := Dial(f.t.Context(), "ws://"+f.addr+"/", o)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// noneDialed waits until the engine of Dial has ended.
func noneDialed(t *testing.T) {
	t.Helper()
	eventually(t, "no connection of Dial is open", func() bool {
		dialed.mu.Lock()
		defer dialed.mu.Unlock()
		first := dialed.engine.Hold()
		dialed.engine.Release()
		second := dialed.engine.Hold()
		dialed.engine.Release()
		return first != second && len(dialed.hosts) == 0 // one that is held would be the same
	})
}

// TestDial: messages of all sizes both ways, with Read, over HTTP/1.1 and HTTP/2; and what compression agrees on.
func TestDial(t *testing.T) {
	for i := range 6 {
		compression := []Compression{CompressionOff, CompressionShared, CompressionTakeover}[i/2]
		client := []*sluice.Client{nil, {HTTP2: sluice.HTTP2Only}}[i%2]
		onEngines(t, func(t *testing.T, engine sluice.Engine) {
			end := newEnds()
			f := startEndpoint(t, engine, &Endpoint{Compression: compression, ReadLimit: 1 << 20, Protocols: []string{"b", "a"},
				OnMessage: echoMessage, OnClose: end.onClose})
			c := f.dialTo(&DialOptions{Client: client, Endpoint: &Endpoint{Compression: compression, ReadLimit: 1 << 20, Protocols: []string{"x", "a"}}, State: 7})
			if c.Protocol() != "a" || c.State() != 7 || c.RemoteAddr() == nil {
				t.Errorf("subprotocol %q, state %v", c.Protocol(), c.State())
			}
			for _, text := range []string{"", "short", records(500), records(5000), longText, strings.Repeat("x", 300_000)} {
				for range 2 {
					if err := c.Write(t.Context(), Text, []byte(text)); err != nil {
						t.Fatal(err)
					}
					m, err := c.Read(t.Context())
					if err != nil || m.Kind != Text || string(m.Data) != text {
						t.Fatalf("%d bytes came back as %d: %v", len(text), len(m.Data), err)
					}
				}
			}
			if err := c.WritePrepared(Prepare(Binary, []byte("prepared"))); err != nil {
				t.Fatal(err)
			}
			if m, err := c.Read(t.Context()); err != nil || string(m.Data) != "prepared" {
				t.Fatalf("%q, %v", m.Data, err)
			}
			reading, cancel := context.WithCancel(t.Context())
			cancelled := make(chan error)
			go func() {
				_, err := c.Read(reading)
				cancelled <- err
			}()
			if err := c.Ping(t.Context()); err != nil {
				t.Error(err)
			}
			cancel()
			if err := <-cancelled; err != context.Canceled {
				t.Errorf("a cancelled Read returned %v", err)
			}
			if err := c.Close(4001, "done"); err != nil {
				t.Error(err)
			}
			if _, err := c.Read(t.Context()); CloseCode(err) != 4001 {
				t.Errorf("Read after Close: %v", err)
			}
			end.expect(t, "closed by the peer with code 4001: done")
			<-c.Context().Done()
			if client != nil {
				noStreams(t, client)
			}
		})
	}
	noneDialed(t)
}

// TestDialCallbacks: connections with callbacks need no Read.
func TestDialCallbacks(t *testing.T) {
	const count = 50
	var g Group
	f, conns := opened(t, sluice.EngineEpoll, &Endpoint{})
	got, end := make(chan string, count), newEnds()
	e := &Endpoint{
		OnOpen:    func(c *Conn) error { return c.TryWrite(Text, []byte("first")) },
		OnMessage: func(c *Conn, m Message) error { got <- string(m.Data); return nil }, OnClose: end.onClose,
	}
	for range count {
		f.dialTo(&DialOptions{Endpoint: e})
		_ = g.Add(<-conns)
	}
	if n := g.Broadcast(Prepare(Text, []byte("to all")), nil); n != count {
		t.Errorf("sent to %d", n)
	}
	for range count {
		if text := <-got; text != "to all" {
			t.Errorf("got %q", text)
		}
	}
	g.Range(func(c *Conn) bool { return c.Close(CodeGoingAway, "") == nil })
	for range count {
		end.expect(t, "closed by the peer with code 1001")
	}
	noneDialed(t)
}

// TestDialEnds: how connections of Dial end.
func TestDialEnds(t *testing.T) {
	for name, test := range map[string]struct {
		server func(c net.Conn) // after the handshake
		want   string
	}{
		"without Close": {func(c net.Conn) {}, "1006: the peer has ended the connection"},
		"masked":        {func(c net.Conn) { _, _ = io.WriteString(c, masked(ws.OpText, "x")) }, "1002"},
		"reserved bits": {func(c net.Conn) { _, _ = io.WriteString(c, "\xf1\x00") }, "1002"},
		"too large":     {func(c net.Conn) { _, _ = io.WriteString(c, "\x82\x7f\x00\x00\x00\x00\x40\x00\x00\x00") }, "1009"},
		"Close": {func(c net.Conn) {
			_, _ = io.WriteString(c, "\x88\x02\x03\xe8")
			_, _ = io.ReadFull(c, make([]byte, 8)) // the answer
		}, "closed by the peer with code 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(t.Context(), "ws://"+answering(t, "", test.server), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Read returned %v", err)
			}
		})
	}
	noneDialed(t)
}

const right = "(right)"

// answering is a server that answers a handshake correctly, with more fields, and passes
// the connection on. With status, that is the answer, in which right stands for the one of
// a handshake.
func answering(t *testing.T, fields string, serve func(c net.Conn)) (addr string) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			head, key := newClient(t, c).head(), ""
			for line := range strings.Lines(head) {
				if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Sec-WebSocket-Key") {
					key = strings.TrimSpace(value)
				}
			}
			answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Accept: " +
				string(ws.AppendAccept(nil, []byte(key))) + "\r\n" + fields + "\r\n"
			if strings.HasPrefix(fields, "HTTP/") {
				answer = strings.Replace(fields, right, answer[:len(answer)-len(fields)-2]+"\r\n", 1)
			}
			_, _ = io.WriteString(c, answer)
			if serve != nil {
				serve(c)
			}
			c.Close()
		}
	}()
	return ln.Addr().String()
}

func TestDialAddress(t *testing.T) {
	for url, want := range map[string]string{
		"ws://h/": "h:80", "wss://h/": "h:443", "ws://h:8080/": "h:8080", "ws://h:/": "h:80", "wss://h:": "h:443",
		"ws://[::1]/": "[::1]:80", "ws://[::1]:/": "[::1]:80", "wss://[::1]:8443/": "[::1]:8443",
	} {
		u, err := parseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		if got := addrOf(u); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		sluice.ReleaseURI(u)
	}
}

// TestDialInterim: interim responses come before the answer (RFC 9110 section 15.2). They may
// not be without end.
func TestDialInterim(t *testing.T) {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
	for before, isFine := range map[string]bool{
		hints: true, "HTTP/1.1 100 Continue\r\n\r\n" + hints: true, strings.Repeat(hints, 1000): false,
	} {
		c, err := Dial(t.Context(), "ws://"+answering(t, before+right, func(c net.Conn) { _, _ = io.WriteString(c, "\x81\x02hi") }), nil)
		if !isFine {
			if err == nil {
				t.Errorf("%d bytes of interim responses are accepted", len(before))
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if m, err := c.Read(t.Context()); err != nil || string(m.Data) != "hi" {
			t.Errorf("%q, %v", m.Data, err)
		}
		_ = c.Close(CodeNormal, "")
	}
	noneDialed(t)
	c, err := Dial(t.Context(), "ws://"+answering(t, hints+"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno", nil), nil)
	var refused *HandshakeError
	if !errors.As(err, &refused) || refused.Status != 401 || string(refused.Body) != "no" {
		t.Errorf("%v, %v", c, err)
	}
}

// TestDialRefused: answers that are not a handshake.
func TestDialRefused(t *testing.T) {
	for fields, want := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno":                                            "status 403",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n":                                   "does not upgrade",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n":                  "does not upgrade",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n":            "Accept is wrong",
		"Sec-WebSocket-Accept: x\r\n":                                                                      "Accept is wrong",
		"Sec-WebSocket-Protocol: other\r\n":                                                                `"other" was not offered`,
		"Sec-WebSocket-Extensions: permessage-deflate\r\n":                                                 "no extension was offered",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nA: \x00\r\n\r\n": "",
		"HTTP/1.1 101":     "",
		"not HTTP\r\n\r\n": "",
	} {
		c, err := Dial(t.Context(), "ws://"+answering(t, fields, nil), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v", fields, c, err)
		}
		var refused *HandshakeError
		if is := errors.As(err, &refused); is != (want != "") {
			t.Errorf("%q: %T", fields, err)
		} else if is && refused.Status == 403 && string(refused.Body) != "no" {
			t.Errorf("the body is %q", refused.Body)
		}
	}
	for _, url := range []string{"http://h/", "ws:///", "ws://:80/", "ws://h/#f", "ws://h:x/", "", "ws://a b/"} {
		if _, err := Dial(t.Context(), url, nil); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	silent := answering(t, "HTTP/1.1 10", func(net.Conn) { <-t.Context().Done() })
	if _, err := Dial(ctx, "ws://"+silent, nil); err != context.DeadlineExceeded {
		t.Errorf("after the time-out: %v", err)
	}
	noneDialed(t)
}

// TestDialTLS, with header fields.
func TestDialTLS(t *testing.T) {
	cert, key, err := sluice.GenerateTestCertificate("localhost")
	if err != nil {
		t.Fatal(err)
	}
	e := &Endpoint{OnMessage: echoMessage, Origins: []string{"https://example.com"}}
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		_ = e.Upgrade(ctx, nil)
	}}
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.ServeTLSEmbed(ln, cert, key) }()
	o := &DialOptions{TLSConfig: &tls.Config{InsecureSkipVerify: true}, Header: &sluice.RequestHeader{}}
	for _, origin := range []string{"https://evil.com", "https://example.com"} {
		status := map[string]int{"https://evil.com": 403}[origin]
		o.Header.Set("Origin", origin)
		c, err := Dial(t.Context(), "wss://"+ln.Addr().String()+"/path", o)
		if status != 0 {
			var refused *HandshakeError
			if !errors.As(err, &refused) || refused.Status != status {
				t.Errorf("%s: %v", origin, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Write(t.Context(), Text, []byte("secret")); err != nil {
			t.Fatal(err)
		}
		if m, err := c.Read(t.Context()); err != nil || string(m.Data) != "secret" {
			t.Errorf("%q, %v", m.Data, err)
		}
		_ = c.Close(CodeNormal, "")
	}
	// A dialer that has set up TLS itself, as in sluice.Client.
	dialer := &tls.Dialer{Config: o.TLSConfig}
	o.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) }
	c, err := Dial(t.Context(), "wss://"+ln.Addr().String()+"/path", o)
	if err != nil {
		t.Error(err)
	} else {
		_ = c.Close(CodeNormal, "")
	}
	if err := s.Shutdown(); err != nil {
		t.Error(err)
	}
	noneDialed(t)
}

// TestDialTLSUnanswered: Dial ends with its context, whether or not the server takes the
// alert with which TLS ends.
func TestDialTLSUnanswered(t *testing.T) {
	cert, key, err := sluice.GenerateTestCertificate("h")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	// Session tickets would meet the request, and both writes wait.
	server := &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true}
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // which holds nothing: a write waits for its reader
		defer far.Close()
		go func() { _, _ = tls.Server(far, server).Read(make([]byte, 4096)) }() // the request; then nothing
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := Dial(ctx, "wss://h/", &DialOptions{
			Dial:      func(context.Context, string) (net.Conn, error) { return near, nil },
			TLSConfig: &tls.Config{InsecureSkipVerify: true},
		})
		if d := time.Since(began); err != context.DeadlineExceeded || d != 50*time.Millisecond {
			t.Errorf("%v after %v", err, d)
		}
	})
}

// TestDialTogether: connections that are opened and closed at once; the engine comes and
// goes.
func TestDialTogether(t *testing.T) {
	f := startEndpoint(t, sluice.EngineEpoll, &Endpoint{OnMessage: echoMessage})
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := range 20 {
				c, err := Dial(t.Context(), "ws://"+f.addr, nil)
				if err != nil {
					t.Error(err)
					return
				}
				text := fmt.Sprint(i, n)
				if err := c.Write(t.Context(), Text, []byte(text)); err != nil {
					t.Error(err)
				}
				if m, err := c.Read(t.Context()); err != nil || string(m.Data) != text {
					t.Errorf("%q, %v", m.Data, err)
				}
				_ = c.Close(CodeNormal, "")
			}
		})
	}
	wait.Wait()
	noneDialed(t)
}

// TestDialCancelled: ctx ends when the engine has the connection, which is the only one.
func TestDialCancelled(t *testing.T) {
	f := startEndpoint(t, sluice.EngineEpoll, &Endpoint{OnMessage: echoMessage})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		o := &DialOptions{}
		u, err := parseURL("ws://" + f.addr)
		if err != nil {
			t.Fatal(err)
		}
		a := attempt{o: o, set: o.settings(), url: u, req: &sluice.Request{}}
		conn, err := o.connect(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := a.handshake(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		sluice.ReleaseURI(u)
		switch c, err := dialed.adopt(cancelled, conn, opened); err {
		case nil: // the engine was faster
			_ = c.Close(CodeNormal, "")
		case context.Canceled:
		default:
			t.Fatal(err)
		}
	}
	noneDialed(t)
}

// TestDialHosts: an Endpoint without connections is forgotten while others have some.
func TestDialHosts(t *testing.T) {
	f := startEndpoint(t, sluice.EngineEpoll, &Endpoint{OnMessage: echoMessage})
	stays := f.dialTo(nil)
	for range 20 {
		c := f.dialTo(&DialOptions{Endpoint: &Endpoint{}})
		_ = c.Close(CodeNormal, "")
		<-c.Context().Done()
	}
	eventually(t, "one host remains", func() bool {
		dialed.mu.Lock()
		defer dialed.mu.Unlock()
		for _, h := range dialed.hosts {
			return len(dialed.hosts) == 1 && h.open == 1
		}
		return false
	})
	_ = stays.Close(CodeNormal, "")
	noneDialed(t)
}

// TestDialOpenExits: Dial returns, though OnOpen ends its goroutine.
func TestDialOpenExits(t *testing.T) {
	f := startEndpoint(t, sluice.EngineAuto, &Endpoint{})
	ended := newEnds()
	c, err := Dial(t.Context(), "ws://"+f.addr, &DialOptions{Endpoint: &Endpoint{
		OnOpen:    func(*Conn) error { runtime.Goexit(); return nil },
		OnMessage: echoMessage,
		OnClose:   ended.onClose,
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended.expect(t, "")
	if err := c.Write(t.Context(), Text, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
