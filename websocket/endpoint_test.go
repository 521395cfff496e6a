package websocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/test/nettest"
	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// TestEcho: messages of all sizes and forms come back.
func TestEcho(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, OnClose: end.onClose, ReadLimit: 1 << 20})
		c := f.dial(masked(ws.OpText, "early")) // with the handshake
		c.expect("text early")
		for _, payload := range []string{"", "hello", longText, allBytes(70000), strings.Repeat("x", 125), strings.Repeat("x", 126)} {
			c.raw(masked(ws.OpBinary, payload))
			if len(payload) > 100 {
				c.expect(long("binary", payload))
			} else {
				c.expect(strings.TrimSpace("binary " + payload))
			}
		}
		c.raw(part(ws.OpText, "κ") + masked(ws.OpPing, "p") + part(ws.OpContinuation, longText) + masked(ws.OpContinuation, "end"))
		c.expect("pong p", long("text", "κ"+longText+"end"))
		c.raw(masked(ws.OpPong, "nobody asked") + closing(4321, "bye"))
		c.expect("close 4321", "end")
		end.expect(t, "closed by the peer with code 4321: bye")
	})
}

// TestPieces: frames that arrive in two pieces, cut at every offset, and byte by byte.
func TestPieces(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage})
		script := masked(ws.OpText, "one") + part(ws.OpText, "κ") + masked(ws.OpPing, "p") + masked(ws.OpContinuation, "όσμε") + masked(ws.OpBinary, strings.Repeat("x", 130))
		c := f.dial()
		want := []string{"text one", "pong p", "text κόσμε", long("binary", strings.Repeat("x", 130))}
		c.SetDeadline(time.Now().Add(3 * patience))
		_ = c.Conn.(*net.TCPConn).SetNoDelay(true)
		for at := range script {
			c.raw(script[:at])
			c.raw(script[at:])
			c.expect(want...)
		}
		for i := range script {
			c.raw(script[i : i+1])
		}
		c.expect(want...)
	})
}

// TestHandshake: what Upgrade answers.
func TestHandshake(t *testing.T) {
	checked := errors.New("no")
	e := &Endpoint{OnMessage: echoMessage, Protocols: []string{"v2", "v1"}, Check: func(ctx *sluice.RequestCtx) error {
		switch string(ctx.Path()) {
		case "/forbidden":
			return checked
		case "/unauthorized":
			return &StatusError{Status: 401, Text: "who are you?"}
		case "/no-status":
			return &StatusError{Text: "no"}
		}
		return nil
	}}
	results := make(chan error, 1)
	f := start(t, sluice.EngineAuto, func(ctx *sluice.RequestCtx) { results <- e.Upgrade(ctx, nil) })
	const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	for _, test := range []struct{ from, to, want string }{
		{"", "", "101 Switching"},
		{"GET / HTTP/1.1", "POST / HTTP/1.1", "405"},
		{"GET / HTTP/1.1", "GET / HTTP/1.0", "400"},
		{"GET / HTTP/1.1", "GET /no-status HTTP/1.1", "403"},
		{"Upgrade: websocket", "Upgrade: h2c", "426"},
		{"Upgrade: websocket", "Upgrade: h2c, WebSocket", "101"},
		{"Connection: Upgrade", "Connection: keep-alive", "426"},
		{"Connection: Upgrade", "Connection: keep-alive, UPGRADE", "101"},
		{"Connection: Upgrade", "Connection: upgrade, close", "400"},
		{"Version: 13", "Version: 8", "426"},
		{key, "", "400"},
		{key, key + key, "400"},
		{key, "Sec-WebSocket-Key: short\r\n", "400"},
		{"Host: h\r\n", "Host: h\r\nContent-Length: 1\r\n", "400"},
		{"Host: h\r\n", "Host: h\r\nOrigin: http://h\r\n", "101"},
		{"Host: h\r\n", "Host: h\r\nOrigin: http://evil\r\n", "403"},
		{"Host: h\r\n", "Host: h\r\nOrigin: http://h\r\nOrigin: http://evil\r\n", "400"},
		{"Host: h\r\n", "Host: h\r\nOrigin:\r\norigin: http://evil\r\n", "400"},
		{"Host: h\r\n", "Host: h\r\nSec-WebSocket-Version: 13\r\n", "400"},
		{"Host: h\r\n", "Host: h\r\nSec-WebSocket-Protocol: v0, v1\r\nSec-WebSocket-Protocol: v2\r\n", "Sec-Websocket-Protocol: v2"},
		{"Host: h\r\n", "Host: h\r\nSec-WebSocket-Protocol: V2\r\n", "101"},
		{"GET /", "GET /forbidden", "403"},
		{"GET /", "GET /unauthorized", "401"},
	} {
		c := f.connect()
		request := strings.Replace(hello, test.from, test.to, 1)
		if strings.Contains(request, "Content-Length") {
			request += "x"
		}
		c.raw(request)
		head := c.head()
		if !strings.Contains(strings.ToLower(head), strings.ToLower(test.want)) {
			t.Errorf("%q: %q, want %s", request, head, test.want)
		}
		is101 := strings.HasPrefix(head, "HTTP/1.1 101")
		var refusal *StatusError
		if err := <-results; (err == nil) != is101 || err != nil && (!errors.As(err, &refusal) || !strings.Contains(head, fmt.Sprint(refusal.Status))) {
			t.Errorf("%q: %v", request, err)
		}
		if strings.Contains(head, " 426 ") && !strings.Contains(head, "Sec-Websocket-Version: 13") {
			t.Errorf("%q names no version", head)
		}
		c.Close()
	}
}

// TestRepeatedInAnySpelling: a server that keeps names sees a field that occurs twice,
// though its spellings differ.
func TestRepeatedInAnySpelling(t *testing.T) {
	e := &Endpoint{OnMessage: echoMessage}
	f := start(t, sluice.EngineAuto, func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) },
		func(s *sluice.Server) { s.DisableHeaderNamesNormalizing = true })
	for _, fields := range []string{
		"Origin: http://h\r\norigin: http://evil\r\n",
		"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
		"SEC-WEBSOCKET-VERSION: 13\r\n",
	} {
		c := f.connect()
		c.raw(strings.Replace(hello, "Host: h\r\n", "Host: h\r\n"+fields, 1))
		if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 400") {
			t.Errorf("%q: %q, want 400", fields, head)
		}
		c.Close()
	}
}

// TestHandshakeInAnySpelling: a server that keeps names, and gets them from a proxy in
// lower case, opens WebSockets and refuses other origins as every server does.
func TestHandshakeInAnySpelling(t *testing.T) {
	e := &Endpoint{OnMessage: echoMessage, Protocols: []string{"v1"}, Compression: CompressionShared}
	f := start(t, sluice.EngineAuto, func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) },
		func(s *sluice.Server) { s.DisableHeaderNamesNormalizing = true })
	line, fields, _ := strings.Cut(hello, "\r\n")
	for name, spell := range map[string]func(string) string{"lower": strings.ToLower, "upper": strings.ToUpper} {
		var request strings.Builder
		request.WriteString(line + "\r\n")
		for _, field := range strings.Split(strings.TrimSuffix(fields, "\r\n\r\n")+"\r\nSec-WebSocket-Protocol: v1\r\nSec-WebSocket-Extensions: permessage-deflate", "\r\n") {
			key, value, _ := strings.Cut(field, ":")
			request.WriteString(spell(key) + ":" + value + "\r\n")
		}
		for origin, want := range map[string][]string{
			"http://h":    {"HTTP/1.1 101", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Protocol: v1", "permessage-deflate"},
			"http://evil": {"HTTP/1.1 403"},
		} {
			c := f.connect()
			c.raw(request.String() + spell("Origin") + ": " + origin + "\r\n\r\n")
			head := c.head()
			for _, part := range want {
				if !strings.Contains(head, part) {
					t.Errorf("%s, from %s: %q, want %s", name, origin, head, part)
				}
			}
			c.Close()
		}
	}
}

func TestOrigins(t *testing.T) {
	for _, test := range []struct {
		allowed, origin, host string
		isTLS, want           bool
	}{
		{"", "http://h", "h", false, true},
		{"", "https://h", "h", false, true}, // TLS may end before this server
		{"", "http://h", "h", true, false},
		{"", "https://H:443", "h", true, true},
		{"", "http://h:80", "h:80", false, true},
		{"", "http://h:8080", "h", false, false},
		{"", "http://h:8080", "h:8080", false, true},
		{"", "null", "h", false, false},
		{"", "http://h.evil", "h", false, false},
		{"", "http://", "", false, false},
		{"*", "null", "h", false, true},
		{"https://a.com", "https://a.com", "h", false, true},
		{"https://a.com", "http://a.com", "h", false, false},
		{"https://a.com", "https://x.a.com", "h", false, false},
		{"https://*.a.com", "https://x.a.com", "h", false, true},
		{"https://*.a.com", "https://x.y.A.com:443", "h", false, true},
		{"https://*.a.com", "https://a.com", "h", false, false},
		{"https://*.a.com", "https://xa.com", "h", false, false},
		{"https://*.a.com", "https://x.a.com.evil", "h", false, false},
	} {
		e := &Endpoint{}
		if test.allowed != "" {
			e.Origins = []string{test.allowed}
		}
		if got := e.settings().allows(test.origin, test.host, test.isTLS); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestViolations: what breaks the rules closes the connection with the code that RFC 6455
// names.
func TestViolations(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, OnClose: end.onClose, ReadLimit: 100})
		for in, want := range map[string]string{
			"\x81\x01a":                                                "close 1002 a frame from a client is not masked",
			"\xc1\x81\x00\x00\x00\x00a":                                "close 1002 a frame has reserved bits set that no extension uses",
			masked(ws.OpContinuation, "x"):                             "close 1002 a continuation frame does not continue a message",
			masked(ws.OpText, "\xff"):                                  "close 1007 a text message is not UTF-8",
			part(ws.OpText, "abc\xed\xa0"):                             "close 1007 a text message is not UTF-8",
			masked(ws.OpBinary, allBytes(104)):                         "close 1009 a message exceeds the limit",
			"\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00": "close 1009 a message exceeds the limit",
			strings.Repeat(part(ws.OpText, ""), 1) + strings.Repeat(part(ws.OpContinuation, ""), minFragments): "close 1008 a message has too many fragments",
			masked(ws.OpClose, "x"):        "close 1002 a Close frame has a body of one byte, or a code that must not be sent",
			masked(ws.OpClose, "\x03\xed"): "close 1002 a Close frame has a body of one byte, or a code that must not be sent",
		} {
			c := f.dial(masked(ws.OpText, "ok"))
			c.raw(in)
			c.expect("text ok", want, "end")
			c.Close() // otherwise the server lingers
			end.expect(t, "closed by this side with code "+want[6:10])
		}
	})
}

// TestControlFlood: more control frames than a peer may send in a second.
func TestControlFlood(t *testing.T) {
	f := startEndpoint(t, sluice.EngineAuto, &Endpoint{})
	c := f.dial()
	go func() {
		for range 10 * maxControls {
			if _, err := c.Write([]byte(masked(ws.OpPong, ""))); err != nil {
				return
			}
		}
	}()
	for {
		if got := c.next(); got == "close 1008 too many control frames" {
			break
		} else if got == "end" || strings.HasPrefix(got, "error") {
			t.Fatal(got)
		}
	}
}

// TestCallbackErrors: what the errors and panics of callbacks do.
func TestCallbackErrors(t *testing.T) {
	broken := errors.New("broken")
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f := startEndpoint(t, engine, &Endpoint{OnClose: end.onClose, OnMessage: func(c *Conn, m Message) error {
			switch string(m.Data) {
			case "error":
				return broken
			case "code":
				return fmt.Errorf("wrapped: %w", &CloseError{Code: 4000, Reason: "enough"})
			case "bytes":
				return &CloseError{Code: 4000, Reason: "\xff is " + strings.Repeat("\x80", 200)}
			case "reserved":
				return &CloseError{Code: CodeAbnormal}
			case "none":
				return &CloseError{Code: CodeNone}
			}
			panic("at the disco")
		}})
		for in, want := range map[string][2]string{
			"error":    {"close 1011", "broken"},
			"code":     {"close 4000 enough", "closed by this side with code 4000: enough"},
			"bytes":    {"close 4000 \ufffd is \ufffd", "closed by this side with code 4000: \ufffd is \ufffd"},
			"reserved": {"close 1011", "closed by this side with code 1011"},
			"none":     {"close 1005", "closed by this side with code 1005"},
			"panic":    {"close 1011", "closed by this side with code 1011"},
		} {
			c := f.dial()
			c.raw(masked(ws.OpText, in))
			c.expect(want[0])
			c.raw(masked(ws.OpText, "dropped") + closing(ws.CodeNormal, ""))
			c.expect("end")
			end.expect(t, want[1])
		}
		if !strings.Contains(f.log.String(), "at the disco") {
			t.Error("the panic is not logged")
		}
	})
}

// TestOpen: OnOpen may write, may refuse, and finds the state and the address.
func TestOpen(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		var conns []*Conn
		e := &Endpoint{OnClose: func(c *Conn, err error) {
			if c.State() == nil || c.RemoteAddr() == nil || c.LocalAddr() == nil {
				t.Errorf("OnClose: state %v, addresses %v, %v", c.State(), c.RemoteAddr(), c.LocalAddr())
			}
			end <- err
		}, OnOpen: func(c *Conn) error {
			conns = append(conns, c)
			if c.State() == "refused" {
				return &CloseError{Code: CodePolicy, Reason: "no"}
			}
			if c.ID() == 0 || c.Protocol() != "" {
				t.Errorf("ID %d, protocol %q", c.ID(), c.Protocol())
			}
			return c.Write(t.Context(), Text, []byte(c.RemoteAddr().String()))
		}}
		f := start(t, engine, func(ctx *sluice.RequestCtx) {
			if err := e.Upgrade(ctx, string(ctx.QueryArgs().Peek("state"))); err != nil {
				t.Error(err)
			}
		})
		c := f.dial()
		c.expect("text " + c.LocalAddr().String())
		c.Close()
		end.expect(t, "code 1006")
		eventually(t, "the state is dropped", func() bool { return conns[0].State() == nil })
		if got := conns[0]; got.TryWrite(Text, nil) != ErrClosed || got.Close(CodeNormal, "") != ErrClosed || got.Ping(t.Context()) != ErrClosed {
			t.Error("a Conn that has ended can be used")
		}
		if ctx := conns[0].Context(); ctx.Err() == nil {
			t.Error("the context of a Conn that has ended has not")
		}
		c = f.connect()
		c.raw(strings.Replace(hello, "GET /", "GET /?state=refused", 1))
		c.head()
		c.expect("close 1008 no")
		c.raw(closing(1000, ""))
		c.expect("end")
		end.expect(t, "code 1008: no")
	})
}

// TestTLS: an echo over TLS, also after sleep.
func TestTLS(t *testing.T) {
	t.Parallel()
	onEnginesTLS(t, func(t *testing.T, s *sluice.Server) {
		cert, key, err := sluice.GenerateTestCertificate("localhost")
		if err != nil {
			t.Fatal(err)
		}
		e := &Endpoint{OnMessage: echoMessage}
		s.Handler = func(ctx *sluice.RequestCtx) { _ = e.Upgrade(ctx, nil) }
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.ServeTLSEmbed(ln, cert, key) }()
		c := dialTLS(t, ln.Addr().String())
		for range 3 {
			c.raw(masked(ws.OpText, longText[:60000]))
			c.expect(long("text", longText[:60000]))
			coolsDown(t, s)
		}
		done := make(chan error, 1)
		go func() { done <- s.Shutdown() }()
		c.expect("close 1001 the server shuts down")
		c.raw(closing(1001, ""))
		c.expect("end")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdown: idle connections get a Close frame, and those that do not answer end.
func TestShutdown(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		end := newEnds()
		f := startEndpoint(t, engine, &Endpoint{OnMessage: echoMessage, OnClose: end.onClose, CloseWithin: 50 * time.Millisecond})
		polite, rude := f.dial(masked(ws.OpText, "a")), f.dial(masked(ws.OpText, "b"))
		polite.expect("text a")
		rude.expect("text b")
		done := make(chan error, 1)
		go func() { done <- f.server.Shutdown() }()
		polite.expect("close 1001 the server shuts down")
		rude.expect("close 1001 the server shuts down")
		polite.raw(closing(1001, ""))
		polite.expect("end")
		if err := <-done; err != nil {
			t.Error(err)
		}
		end.expect(t, "code 1001")
		end.expect(t, "code 1001")
	})
}

// TestShutdownServesAgain: a connection that was busy at Shutdown gets its Close frame, though the
// Server serves again meanwhile.
func TestShutdownServesAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		arrived, goOn := make(chan struct{}), make(chan struct{})
		f := startEndpoint(t, engine, &Endpoint{OnMessage: func(*Conn, Message) error {
			close(arrived)
			<-goOn
			return nil
		}})
		isShutDown := nettest.AfterShutdown(f.server.Serve)
		c := f.dial(masked(ws.OpText, "a"))
		<-arrived
		done := make(chan error, 1)
		go func() { done <- f.server.Shutdown() }()
		<-isShutDown
		nettest.AfterShutdown(f.server.Serve)
		close(goOn)
		c.expect("close 1001 the server shuts down")
		c.raw(closing(1001, ""))
		c.expect("end")
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestShutdownBeforeOpen: a handshake whose handler returns after the engine was shut down is answered
// 503 by HTTP/1.1. Over HTTP/2, and during OnOpen, the connection is open, and ends with 1001.
func TestShutdownBeforeOpen(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for _, waits := range []string{"handler", "OnOpen"} {
			arrived := make(chan struct{}, 2)
			var isShutDown <-chan struct{}
			await := func(in string) {
				if in == waits {
					arrived <- struct{}{}
					<-isShutDown
				}
			}
			e := &Endpoint{OnOpen: func(*Conn) error {
				await("OnOpen")
				return nil
			}}
			f := start(t, engine, func(ctx *sluice.RequestCtx) {
				if err := e.Upgrade(ctx, nil); err != nil {
					t.Error(err)
				}
				await("handler")
			})
			isShutDown = nettest.AfterShutdown(f.server.Serve)
			w, opened := newWire(t, f.addr, 64<<10), make(chan *client, 1)
			go func() {
				c, _ := w.open()
				opened <- c
			}()
			first := f.connect()
			first.raw(hello)
			<-arrived
			<-arrived
			done := make(chan error, 1)
			go func() { done <- f.server.Shutdown() }()
			second := <-opened
			second.expect("close 1001 the server shuts down")
			second.raw(closing(1001, ""))
			second.expect("end")
			_ = w.Close()
			head := first.head()
			if waits == "handler" {
				if !strings.HasPrefix(head, "HTTP/1.1 503 ") {
					t.Error(head)
				}
			} else {
				first.expect("close 1001 the server shuts down")
				first.raw(closing(1001, ""))
				first.expect("end")
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestNotHere: Upgrade outside a server.
func TestNotHere(t *testing.T) {
	var ctx sluice.RequestCtx
	ctx.Request.Header.SetHost("h")
	for field, value := range map[string]string{
		"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	} {
		ctx.Request.Header.Set(field, value)
	}
	if err := (&Endpoint{}).Upgrade(&ctx, nil); !errors.Is(err, sluice.ErrNilConnection) || ctx.Response.StatusCode() != 501 {
		t.Errorf("%v, status %d", err, ctx.Response.StatusCode())
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("x: %w", &CloseError{Code: 4001, Reason: "r", IsRemote: true, Cause: cause})
	if CloseCode(err) != 4001 || CloseCode(cause) != CodeAbnormal || !errors.Is(err, cause) {
		t.Error(err)
	}
	if text := (&StatusError{Status: 403, Text: "no"}).Error(); !strings.Contains(text, "403: no") {
		t.Error(text)
	}
	c := &Conn{}
	if c.Write(context.Background(), 9, nil) != ErrKind || c.TryWrite(0, nil) != ErrKind {
		t.Error("wrong kinds are accepted")
	}
	for _, code := range []Code{0, 1004, CodeAbnormal, 1015, 5000} {
		if c.Close(code, "") != ErrCode {
			t.Errorf("Close accepts %d", code)
		}
	}
	if c.Close(CodeNormal, strings.Repeat("x", 124)) != ErrCode || c.Close(CodeNormal, "\xff") != ErrCode {
		t.Error("Close accepts wrong reasons")
	}
}

// TestLongestTimes: the longest times are those without an end.
func TestLongestTimes(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		f := startEndpoint(t, engine, &Endpoint{
			OnMessage: echoMessage, PingAfter: math.MaxInt64, PongWithin: math.MaxInt64, CloseWithin: math.MaxInt64,
			MessageWithin: math.MaxInt64, WriteTimeout: math.MaxInt64, RestartSpread: math.MaxInt64,
		})
		for range 20 {
			c := f.dial()
			head := masked(ws.OpText, "hello")
			c.raw(head[:3])
			c.raw(head[3:])
			c.expect("text hello")
			c.raw(masked(ws.OpText, "again"))
			c.expect("text again")
		}
	})
}

// TestOpenExits: an OnOpen that ends its goroutine ends the connection, and leaves nothing.
func TestOpenExits(t *testing.T) {
	onEngines(t, func(t *testing.T, engine sluice.Engine) {
		for _, overHTTP2 := range []bool{false, true} {
			var g Group
			ended := newEnds()
			e := &Endpoint{OnClose: ended.onClose, OnOpen: func(c *Conn) error {
				if err := g.Add(c); err != nil {
					t.Error(err)
				}
				runtime.Goexit()
				return nil
			}}
			f := startEndpoint(t, engine, e)
			if overHTTP2 {
				w := newWire(t, f.addr, 64<<10)
				s := w.Open(false, [][2]string{{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"},
					{":authority", "h"}, {":path", "/"}, {"sec-websocket-version", "13"}}...)
				_, _ = io.ReadAll(s)
				w.Close()
			} else {
				c := f.connect()
				c.raw(hello)
				_, _ = io.ReadAll(c)
			}
			ended.expect(t, "")
			if n := g.Len(); n != 0 {
				t.Errorf("HTTP/2 %t: %d members are left", overHTTP2, n)
			}
			eventually(t, "the connection is forgotten", func() bool { return f.server.GetOpenConnectionsCount() == 0 })
			if n := e.Stats().Open; n != 0 {
				t.Errorf("HTTP/2 %t: %d connections are open", overHTTP2, n)
			}
		}
	})
}
