package http2_test

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/test/harness"
	"golang.org/x/net/http2"
)

// switchTo answers a request for a WebSocket as upgraders do.
func switchTo(ctx *sluice.RequestCtx, handler sluice.HijackHandler) {
	ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
	for _, pair := range [][2]string{{"Upgrade", "websocket"}, {"Connection", "Upgrade"}, {"Sec-WebSocket-Accept", "x"}, {"Sec-WebSocket-Protocol", "chat"}} {
		ctx.Response.Header.Set(pair[0], pair[1])
	}
	ctx.Hijack(handler)
}

// TestWebSocketRequest: a handler sees the upgrade of HTTP/1.1 that the request stands
// for; other protocols stay CONNECT (RFC 8441).
func TestWebSocketRequest(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		s := &sluice.Server{GetOnly: true, Handler: func(ctx *sluice.RequestCtx) {
			var copied sluice.RequestHeader
			ctx.Request.Header.CopyTo(&copied)
			h := &ctx.Request.Header
			key, err := base64.StdEncoding.DecodeString(string(h.Peek("Sec-WebSocket-Key")))
			if string(h.ConnectProtocol()) == "websocket" && (err != nil || len(key) != 16) {
				t.Errorf("key %q", h.Peek("Sec-WebSocket-Key"))
			}
			ctx.Response.Header.Set("X-Seen", fmt.Sprintf("%s %s %s %s|%s|%s|%v|%d|%s", h.Method(), ctx.RequestURI(), h.Host(), copied.ConnectProtocol(),
				h.Peek("Connection"), h.Peek("Upgrade"), h.ConnectionUpgrade(), ctx.StreamID(), h.Peek("Sec-WebSocket-Version")))
			ctx.SetStatusCode(sluice.StatusForbidden)
		}}
		f := harness.ServeHTTP2(t, n, s).Frames()
		f.Connect(1, "websocket", "sec-websocket-version", "13")
		const want = ":status=403 content-length=0 x-seen=GET /chat?a=b h websocket|Upgrade|websocket|true|1|13 ."
		if got := f.Fields(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		f.Connect(3, "connect-udp")
		frame := f.Next()
		if _, ok := frame.(*http2.RSTStreamFrame); ok { // of the first request, unless it comes after this answer
			frame = f.Next()
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); !ok || head.PseudoValue("status") != "405" {
			t.Errorf("CONNECT with GetOnly: %v", frame)
		}
	})
}

// A client that sends a key, which RFC 8441 does not ask for, gets the answer to it.
func TestWebSocketKeyOverHTTP2(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		f := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			switchTo(ctx, harness.Echo)
			ctx.Response.Header.SetBytesV("Sec-WebSocket-Accept", ctx.Request.Header.Peek("Sec-WebSocket-Key"))
		}}).Frames()
		f.Connect(1, "websocket", "sec-websocket-key", "a key")
		if got := f.Fields(); !strings.Contains(got, "sec-websocket-accept=a key") {
			t.Errorf("with a key: %q", got)
		}
		f.Connect(3, "websocket")
		if got := f.Fields(); !strings.HasPrefix(got, ":status=200") || strings.Contains(got, "sec-websocket-accept") {
			t.Errorf("without a key: %q", got)
		}
	})
}

// TestWebSocketIsOff: without the option, the setting is not sent, and :protocol is an
// error of the stream.
func TestWebSocketIsOff(t *testing.T) {
	for _, isOn := range []bool{false, true} {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { t.Errorf("%s is served", ctx.Method()) }}
		s.HTTP2.DisableWebSocket = !isOn
		f := harness.ServeHTTP2(t, harness.OverTCP(), s).Frames()
		frame, err := f.ReadFrame()
		f.Must(err)
		value, ok := frame.(*http2.SettingsFrame).Value(http2.SettingEnableConnectProtocol)
		if ok != isOn || ok && value != 1 {
			t.Errorf("WebSocket %v: the setting is %v, %d", isOn, ok, value)
		}
		if isOn {
			f.Send(1, false, []string{":method", "CONNECT", ":protocol", "websocket", ":authority", "h"}) // no path
		} else {
			f.Connect(1, "websocket")
		}
		if got := f.Describe(); got != "PROTOCOL_ERROR" {
			t.Errorf("WebSocket %v: %s", isOn, got)
		}
	}
}

// TestWebSocketAnswers: what a handler answers, as the client gets it. A tunnel sends what
// came in angle brackets.
//
// long: a table
func TestWebSocketAnswers(t *testing.T) {
	const accepted = ":status=200 sec-websocket-protocol=chat"
	raw := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
	tests := []struct {
		name, protocol, want string // want ends with "." if there is no tunnel
		first                string // of the tunnel
		handler              sluice.RequestHandler
	}{
		{"101", "websocket", accepted, "", func(ctx *sluice.RequestCtx) { switchTo(ctx, harness.Echo) }},
		{"101, other case", "WebSocket", accepted, "", func(ctx *sluice.RequestCtx) { switchTo(ctx, harness.Echo) }},
		{"101, flushed", "websocket", accepted, "", func(ctx *sluice.RequestCtx) {
			switchTo(ctx, harness.Echo)
			_ = ctx.Flush()
		}},
		{"200", "connect-udp", ":status=200 a=b", "", func(ctx *sluice.RequestCtx) {
			if !ctx.IsConnect() || string(ctx.Request.Header.ConnectProtocol()) != "connect-udp" || ctx.Request.Header.ConnectionUpgrade() {
				t.Errorf("the request is\n%s", &ctx.Request.Header)
			}
			ctx.Response.Header.Set("A", "b")
			ctx.Hijack(harness.Echo)
		}},
		{"200 with content", "x", ":status=200", "content", func(ctx *sluice.RequestCtx) {
			ctx.WriteString("content")
			ctx.Hijack(harness.Echo)
		}},
		{"200 with a stream", "x", ":status=200", "content", func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(strings.NewReader("content"), 7)
			ctx.Hijack(harness.Echo)
		}},
		{"no response", "websocket", accepted, "", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				for part := range strings.SplitAfterSeq(raw, "e") {
					io.WriteString(c, part)
				}
				harness.Echo(c)
			})
		}},
		{"no response, in one write", "websocket", accepted, "first", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				io.WriteString(c, raw+"first")
				harness.Echo(c)
			})
		}},
		{"while the handler runs", "websocket", accepted, "first", func(ctx *sluice.RequestCtx) {
			c := ctx.Conn()
			io.WriteString(c, raw+"first")
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(harness.Echo)
		}},
		{"no response, no time for what follows", "websocket", accepted, "", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				c.SetWriteDeadline(time.Unix(1, 0))
				if _, err := io.WriteString(c, raw+"first"); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("what follows the head: %v", err)
				}
				c.SetWriteDeadline(time.Time{})
				harness.Echo(c)
			})
		}},
		{"no response but a refusal", "websocket", ":status=403 .", "", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
				if _, err := io.WriteString(c, "more"); err != net.ErrClosed {
					t.Errorf("a write after the refusal: %v", err)
				}
			})
		}},
		{"refused", "websocket", ":status=403 .", "", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(403) }},
		{"refused, hijacked", "websocket", ":status=426 .", "", func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(426)
			ctx.Hijack(harness.Echo)
		}},
		{"refused, flushed, hijacked", "websocket", ":status=426 .", "", func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(426)
			_ = ctx.Flush()
			ctx.Hijack(harness.Echo)
		}},
		{"refused, with a look at the connection", "websocket", ":status=403 .", "", func(ctx *sluice.RequestCtx) {
			if _, ok := ctx.Conn().(interface{ ConnectionState() tls.ConnectionState }); !ok || ctx.Conn().RemoteAddr() == nil || ctx.Conn().LocalAddr() == nil {
				t.Error("the connection has no addresses")
			}
			ctx.SetStatusCode(403)
		}},
		{"not found", "websocket", ":status=404 .", "", func(ctx *sluice.RequestCtx) { ctx.NotFound() }},
		{"200 without Hijack", "websocket", ":status=501 .", "", func(ctx *sluice.RequestCtx) { ctx.WriteString("page") }},
		{"200 without Hijack, flushed", "websocket", ":status=501 .", "", func(ctx *sluice.RequestCtx) { _ = ctx.Flush() }},
		{"101 without Hijack", "websocket", ":status=500 .", "", func(ctx *sluice.RequestCtx) { ctx.SetStatusCode(101) }},
		{"a panic", "websocket", ":status=500 .", "", func(*sluice.RequestCtx) { panic("a panic of the test") }},
		{"too late", "websocket", ":status=408 .", "", func(ctx *sluice.RequestCtx) {
			switchTo(ctx, harness.Echo)
			ctx.TimeoutError("late")
		}},
	}
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		handlers := map[string]sluice.RequestHandler{}
		s := &sluice.Server{Logger: &harness.LogBook{}, Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Request.Header.Peek("name"))](ctx) }}
		f := harness.ServeHTTP2(t, n, s).Frames()
		for i, test := range tests {
			handlers[test.name] = test.handler
			stream := uint32(2*i + 1)
			f.Connect(stream, test.protocol, "name", test.name)
			got := f.Fields()
			if strings.HasSuffix(test.want, ".") {
				if !strings.HasSuffix(got, ".") {
					got += " " + f.Describe() // and the content
				}
				if !strings.HasPrefix(got, strings.TrimSuffix(test.want, " .")) || !strings.HasSuffix(got, ".") {
					t.Errorf("%s: got %q, want %q", test.name, got, test.want)
				}
				if reset, ok := f.Next().(*http2.RSTStreamFrame); !ok || reset.ErrCode != http2.ErrCodeNo {
					t.Errorf("%s: the stream is not reset without an error", test.name)
				}
				continue
			}
			if got != test.want {
				t.Errorf("%s: got %q, want %q", test.name, got, test.want)
			}
			f.Expect(test.first)
			f.Data(stream, "ping", false)
			f.Expect("<ping>")
			f.Data(stream, "", true)
			if got := f.Describe(); got != "." {
				t.Errorf("%s: the tunnel ends with %q", test.name, got)
			}
		}
	})
}

// TestWebSocketEarly: what the client sends after the head, before there is an answer, is
// read from the tunnel.
func TestWebSocketEarly(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { switchTo(ctx, harness.Echo) }}
		f := harness.ServeHTTP2(t, n, s).Frames()
		f.Connect(1, "websocket")
		f.Data(1, "early", true)
		if got := f.Describe(); got != "200 <early> ." {
			t.Errorf("got %q", got)
		}
	})
}

// TestTunnelHandlerEnds: the end of a hijack handler closes the tunnel, with an error if
// the handler has not returned; with KeepHijackedConns it stays open.
func TestTunnelHandlerEnds(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		book := &harness.LogBook{}
		var handler sluice.HijackHandler
		s := &sluice.Server{Logger: book, Handler: func(ctx *sluice.RequestCtx) { switchTo(ctx, handler) }}
		r := harness.ServeHTTP2(t, n, s)
		f := r.Frames()
		for i, test := range []struct {
			want string
			end  sluice.HijackHandler
		}{
			{".", func(net.Conn) {}},
			{"bye .", func(c net.Conn) {
				io.WriteString(c, "bye")
				c.Close()
			}},
			{"INTERNAL_ERROR", func(net.Conn) { panic("a panic of the test") }},
			{"INTERNAL_ERROR", func(net.Conn) { runtime.Goexit() }},
		} {
			handler = test.end
			f.Accepts(uint32(4*i + 1))
			if got := f.Describe(); got != test.want {
				t.Errorf("%d: got %q, want %q", i, got, test.want)
			}
			if test.want != "INTERNAL_ERROR" {
				f.Next() // RST_STREAM: the client has not ended its direction
			}
		}
		if !strings.Contains(book.String(), "panic in hijack handler: a panic of the test") {
			t.Errorf("the panic is not logged: %s", book)
		}
	})
	s := &sluice.Server{KeepHijackedConns: true}
	kept := make(chan net.Conn, 1)
	s.Handler = func(ctx *sluice.RequestCtx) { switchTo(ctx, func(c net.Conn) { kept <- c }) }
	f := harness.ServeHTTP2(t, harness.OverTCP(), s).Frames()
	f.Accepts(1)
	c := harness.Receive(t, kept)
	io.WriteString(c, "kept")
	f.Expect("kept")
	c.Close()
	if got := f.Describe(); got != "." {
		t.Errorf("got %q", got)
	}
}

// TestTunnelGone: a client that resets the stream, or leaves, ends the reads and writes of
// the hijack handler. The connection serves other requests meanwhile.
func TestTunnelGone(t *testing.T) {
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		ends := make(chan error, 1)
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/chat" {
				switchTo(ctx, func(c net.Conn) {
					_, err := io.Copy(io.Discard, c)
					for err == nil || errors.Is(err, syscall.ECONNRESET) {
						if _, err2 := c.Write(make([]byte, 1<<10)); err2 != nil {
							ends <- errors.Join(err, err2)
							return
						}
					}
					ends <- err
				})
			}
		}}
		f := harness.ServeHTTP2(t, n, s).Frames()
		f.Accepts(1)
		f.Must(f.WriteRSTStream(1, http2.ErrCodeCancel))
		if err := harness.Receive(t, ends); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		f.Head(3, "GET", "/", true)
		if got := f.Describe(); got != "200 ." {
			t.Errorf("got %q", got)
		}
		f.Accepts(5)
		f.Conn.Close()
		if err := harness.Receive(t, ends); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

// TestTunnelsAndWorkers: tunnels need no worker, neither hijacked nor in a handler.
func TestTunnelsAndWorkers(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		s := &sluice.Server{MaxWorkers: 1, Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/chat":
				switchTo(ctx, harness.Echo)
			case "/inside":
				io.WriteString(ctx.Conn(), "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				harness.Echo(ctx.Conn())
			}
		}}
		r := harness.ServeHTTP2(t, n, s)
		f := r.Frames()
		const count = 10
		for i := range uint32(count) {
			path := []string{"/chat", "/inside"}[i%2]
			f.Send(2*i+1, false, []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "h", ":path", path})
			if got := f.Fields(); !strings.HasPrefix(got, ":status=200") {
				t.Fatalf("got %q", got)
			}
		}
		resp, err := r.HTTP2Client().Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		for i := range uint32(count) {
			f.Data(2*i+1, "ping", false)
			f.Expect("<ping>")
		}
		f.Conn.Close()
	}
}

// TestTunnelThatWasRefused takes up a worker no longer than its handler.
func TestTunnelThatWasRefused(t *testing.T) {
	proceed, running := make(chan bool), make(chan bool, 2)
	s := &sluice.Server{Loops: 1, MaxWorkers: 1, Handler: func(ctx *sluice.RequestCtx) {
		if string(ctx.Path()) == "/chat" {
			ctx.Conn()
			ctx.Error("no", 403)
			return
		}
		running <- true
		<-proceed
	}}
	f := harness.ServeHTTP2(t, harness.OnEpoll(t), s).Frames()
	f.Connect(1, "websocket")
	if got := f.Describe(); got != "403 no ." {
		t.Errorf("got %q", got)
	}
	f.Head(3, "GET", "/", true)
	f.Head(5, "GET", "/", true)
	harness.Receive(t, running)
	harness.Eventually(t, "the second waits for a worker", func() bool { return s.EngineStats().Loops[0].Queued == 1 })
	close(proceed)
	harness.Receive(t, running)
}

// TestTunnelsAndShutdown: Shutdown does not wait for tunnels. It ends them after the
// requests of their connection are answered; CloseOnNextResponse leaves them alone, and
// CloseOnShutdown refuses new ones.
func TestTunnelsAndShutdown(t *testing.T) {
	t.Parallel() // it mostly waits
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		proceed, inside := make(chan bool), make(chan bool)
		s := &sluice.Server{CloseOnShutdown: true, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/chat" {
				switchTo(ctx, harness.Echo)
				return
			}
			inside <- true
			<-proceed
		}}
		r := harness.ServeHTTP2(t, n, s)
		f := r.Frames()
		f.Accepts(1)
		f.Head(3, "GET", "/", true)
		<-inside
		s.Control().CloseOnNextResponse()
		if _, ok := f.Next().(*http2.GoAwayFrame); !ok {
			t.Fatal("there is no GOAWAY")
		}
		if _, ok := f.Next().(*http2.GoAwayFrame); !ok { // next answers the PING between them
			t.Fatal("there is no second GOAWAY")
		}
		f.Data(1, "ping", false)
		f.Expect("<ping>")
		proceed <- true
		if got := f.Describe(); got != "200 ." {
			t.Errorf("got %q", got)
		}
		f.Data(1, "pong", false)
		f.Expect("<pong>")
		ended := harness.Shutdown(s)
		if got := f.Describe(); got != "CANCEL" {
			t.Errorf("got %q", got)
		}
		if got := f.Describe(); got != "end" {
			t.Errorf("got %q", got)
		}
		if err := harness.Receive(t, ended); err != nil {
			t.Error(err)
		}
	})
}

// TestTunnelRefusedAtShutdown: with CloseOnShutdown, a tunnel that is asked for too late is
// answered 503.
func TestTunnelRefusedAtShutdown(t *testing.T) {
	inside, proceed := make(chan bool), make(chan bool)
	s := &sluice.Server{CloseOnShutdown: true, Handler: func(ctx *sluice.RequestCtx) {
		inside <- true
		<-proceed
		switchTo(ctx, harness.Echo)
	}}
	f := harness.ServeHTTP2(t, harness.OverTCP(), s).Frames()
	f.Connect(1, "websocket")
	<-inside
	s.Control().CloseOnNextResponse()
	proceed <- true
	for {
		if head, ok := f.Next().(*http2.MetaHeadersFrame); ok {
			if got := head.PseudoValue("status"); got != "503" {
				t.Errorf("status %s", got)
			}
			return
		}
	}
}

// TestTunnelLimits: limits of requests do not end a tunnel; the connection ends with it.
func TestTunnelLimits(t *testing.T) {
	for name, change := range map[string]func(*sluice.Server){
		"time-outs": func(s *sluice.Server) {
			s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = harness.Briefly, harness.Briefly, harness.Briefly
		},
		"MaxRequestsPerConn":   func(s *sluice.Server) { s.MaxRequestsPerConn = 1 },
		"DisableKeepalive":     func(s *sluice.Server) { s.DisableKeepalive = true },
		"MaxKeepaliveDuration": func(s *sluice.Server) { s.MaxKeepaliveDuration = 1 },
	} {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { switchTo(ctx, harness.Echo) }}
		change(s)
		f := harness.ServeHTTP2(t, harness.OverTCP(), s).Frames()
		f.Connect(1, "websocket")
		isOpen, goAways := false, 0
		for name != "time-outs" && goAways < 2 || !isOpen {
			switch f.Next().(type) {
			case *http2.MetaHeadersFrame:
				isOpen = true
			case *http2.GoAwayFrame:
				goAways++
			}
		}
		time.Sleep(2 * harness.Briefly)
		f.Data(1, "ping", false)
		f.Expect("<ping>")
		f.Data(1, "", true)
		if got := f.Describe(); got != "." {
			t.Errorf("%s: %q", name, got)
		}
		if goAways > 0 {
			if got := f.Describe(); got != "end" {
				t.Errorf("%s: after the tunnel: %q", name, got)
			}
		}
	}
}
