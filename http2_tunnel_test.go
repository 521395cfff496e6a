package sluice_test

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

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice"
)

// connect asks for a tunnel.
func (f *framer) connect(stream uint32, protocol string, pairs ...string) {
	f.t.Helper()
	f.send(stream, false, append([]string{":method", "CONNECT", ":protocol", protocol, ":scheme", "http", ":authority", "h", ":path", "/chat?a=b"}, pairs...))
}

// fields returns the fields of the head that comes next, without those of every response.
func (f *framer) fields() string {
	f.t.Helper()
	head, ok := f.next().(*http2.MetaHeadersFrame)
	if !ok {
		f.t.Fatal("there is no head")
	}
	var all []string
	for _, field := range head.Fields {
		if field.Name != "server" && field.Name != "date" {
			all = append(all, field.Name+"="+field.Value)
		}
	}
	if head.StreamEnded() {
		all = append(all, ".")
	}
	return strings.Join(all, " ")
}

// accepts opens a tunnel on the stream.
func (f *framer) accepts(stream uint32) {
	f.t.Helper()
	f.connect(stream, "websocket")
	if got := f.fields(); !strings.HasPrefix(got, ":status=200") || strings.HasSuffix(got, ".") {
		f.t.Fatalf("the tunnel is not open: %q", got)
	}
}

// expect reads DATA until want has come.
func (f *framer) expect(want string) {
	f.t.Helper()
	got := ""
	for len(got) < len(want) {
		data, ok := f.next().(*http2.DataFrame)
		if !ok {
			f.t.Fatalf("got %q, and then no DATA", got)
		}
		got += string(data.Data())
	}
	if got != want {
		f.t.Fatalf("got %q, want %q", got, want)
	}
}

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
	onEachHTTP2Network(t, func(t *testing.T, n network) {
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
		f := serveHTTP2(t, n, s).frames()
		f.connect(1, "websocket", "sec-websocket-version", "13")
		const want = ":status=403 content-length=0 x-seen=GET /chat?a=b h websocket|Upgrade|websocket|true|1|13 ."
		if got := f.fields(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		f.connect(3, "connect-udp")
		frame := f.next()
		if _, ok := frame.(*http2.RSTStreamFrame); ok { // of the first request, unless it comes after this answer
			frame = f.next()
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); !ok || head.PseudoValue("status") != "405" {
			t.Errorf("CONNECT with GetOnly: %v", frame)
		}
	})
}

// A client that sends a key, which RFC 8441 does not ask for, gets the answer to it.
func TestWebSocketKeyOverHTTP2(t *testing.T) {
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		f := serveHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
			switchTo(ctx, echo)
			ctx.Response.Header.SetBytesV("Sec-WebSocket-Accept", ctx.Request.Header.Peek("Sec-WebSocket-Key"))
		}}).frames()
		f.connect(1, "websocket", "sec-websocket-key", "a key")
		if got := f.fields(); !strings.Contains(got, "sec-websocket-accept=a key") {
			t.Errorf("with a key: %q", got)
		}
		f.connect(3, "websocket")
		if got := f.fields(); !strings.HasPrefix(got, ":status=200") || strings.Contains(got, "sec-websocket-accept") {
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
		f := serveHTTP2(t, overTCP(), s).frames()
		frame, err := f.ReadFrame()
		f.must(err)
		value, ok := frame.(*http2.SettingsFrame).Value(http2.SettingEnableConnectProtocol)
		if ok != isOn || ok && value != 1 {
			t.Errorf("WebSocket %v: the setting is %v, %d", isOn, ok, value)
		}
		if isOn {
			f.send(1, false, []string{":method", "CONNECT", ":protocol", "websocket", ":authority", "h"}) // no path
		} else {
			f.connect(1, "websocket")
		}
		if got := f.describe(); got != "PROTOCOL_ERROR" {
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
		{"101", "websocket", accepted, "", func(ctx *sluice.RequestCtx) { switchTo(ctx, echo) }},
		{"101, other case", "WebSocket", accepted, "", func(ctx *sluice.RequestCtx) { switchTo(ctx, echo) }},
		{"101, flushed", "websocket", accepted, "", func(ctx *sluice.RequestCtx) {
			switchTo(ctx, echo)
			_ = ctx.Flush()
		}},
		{"200", "connect-udp", ":status=200 a=b", "", func(ctx *sluice.RequestCtx) {
			if !ctx.IsConnect() || string(ctx.Request.Header.ConnectProtocol()) != "connect-udp" || ctx.Request.Header.ConnectionUpgrade() {
				t.Errorf("the request is\n%s", &ctx.Request.Header)
			}
			ctx.Response.Header.Set("A", "b")
			ctx.Hijack(echo)
		}},
		{"200 with content", "x", ":status=200", "content", func(ctx *sluice.RequestCtx) {
			ctx.WriteString("content")
			ctx.Hijack(echo)
		}},
		{"200 with a stream", "x", ":status=200", "content", func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(strings.NewReader("content"), 7)
			ctx.Hijack(echo)
		}},
		{"no response", "websocket", accepted, "", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				for part := range strings.SplitAfterSeq(raw, "e") {
					io.WriteString(c, part)
				}
				echo(c)
			})
		}},
		{"no response, in one write", "websocket", accepted, "first", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				io.WriteString(c, raw+"first")
				echo(c)
			})
		}},
		{"while the handler runs", "websocket", accepted, "first", func(ctx *sluice.RequestCtx) {
			c := ctx.Conn()
			io.WriteString(c, raw+"first")
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(echo)
		}},
		{"no response, no time for what follows", "websocket", accepted, "", func(ctx *sluice.RequestCtx) {
			ctx.HijackSetNoResponse(true)
			ctx.Hijack(func(c net.Conn) {
				c.SetWriteDeadline(time.Unix(1, 0))
				if _, err := io.WriteString(c, raw+"first"); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("what follows the head: %v", err)
				}
				c.SetWriteDeadline(time.Time{})
				echo(c)
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
			ctx.Hijack(echo)
		}},
		{"refused, flushed, hijacked", "websocket", ":status=426 .", "", func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(426)
			_ = ctx.Flush()
			ctx.Hijack(echo)
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
			switchTo(ctx, echo)
			ctx.TimeoutError("late")
		}},
	}
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		handlers := map[string]sluice.RequestHandler{}
		s := &sluice.Server{Logger: &logBook{}, Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Request.Header.Peek("name"))](ctx) }}
		f := serveHTTP2(t, n, s).frames()
		for i, test := range tests {
			handlers[test.name] = test.handler
			stream := uint32(2*i + 1)
			f.connect(stream, test.protocol, "name", test.name)
			got := f.fields()
			if strings.HasSuffix(test.want, ".") {
				if !strings.HasSuffix(got, ".") {
					got += " " + f.describe() // and the content
				}
				if !strings.HasPrefix(got, strings.TrimSuffix(test.want, " .")) || !strings.HasSuffix(got, ".") {
					t.Errorf("%s: got %q, want %q", test.name, got, test.want)
				}
				if reset, ok := f.next().(*http2.RSTStreamFrame); !ok || reset.ErrCode != http2.ErrCodeNo {
					t.Errorf("%s: the stream is not reset without an error", test.name)
				}
				continue
			}
			if got != test.want {
				t.Errorf("%s: got %q, want %q", test.name, got, test.want)
			}
			f.expect(test.first)
			f.data(stream, "ping", false)
			f.expect("<ping>")
			f.data(stream, "", true)
			if got := f.describe(); got != "." {
				t.Errorf("%s: the tunnel ends with %q", test.name, got)
			}
		}
	})
}

// TestWebSocketEarly: what the client sends after the head, before there is an answer, is
// read from the tunnel.
func TestWebSocketEarly(t *testing.T) {
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { switchTo(ctx, echo) }}
		f := serveHTTP2(t, n, s).frames()
		f.connect(1, "websocket")
		f.data(1, "early", true)
		if got := f.describe(); got != "200 <early> ." {
			t.Errorf("got %q", got)
		}
	})
}

// TestTunnelHandlerEnds: the end of a hijack handler closes the tunnel, with an error if
// the handler has not returned; with KeepHijackedConns it stays open.
func TestTunnelHandlerEnds(t *testing.T) {
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		book := &logBook{}
		var handler sluice.HijackHandler
		s := &sluice.Server{Logger: book, Handler: func(ctx *sluice.RequestCtx) { switchTo(ctx, handler) }}
		r := serveHTTP2(t, n, s)
		f := r.frames()
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
			f.accepts(uint32(4*i + 1))
			if got := f.describe(); got != test.want {
				t.Errorf("%d: got %q, want %q", i, got, test.want)
			}
			if test.want != "INTERNAL_ERROR" {
				f.next() // RST_STREAM: the client has not ended its direction
			}
		}
		if !strings.Contains(book.String(), "panic in hijack handler: a panic of the test") {
			t.Errorf("the panic is not logged: %s", book)
		}
	})
	s := &sluice.Server{KeepHijackedConns: true}
	kept := make(chan net.Conn, 1)
	s.Handler = func(ctx *sluice.RequestCtx) { switchTo(ctx, func(c net.Conn) { kept <- c }) }
	f := serveHTTP2(t, overTCP(), s).frames()
	f.accepts(1)
	c := receive(t, kept)
	io.WriteString(c, "kept")
	f.expect("kept")
	c.Close()
	if got := f.describe(); got != "." {
		t.Errorf("got %q", got)
	}
}

// TestTunnelGone: a client that resets the stream, or leaves, ends the reads and writes of
// the hijack handler. The connection serves other requests meanwhile.
func TestTunnelGone(t *testing.T) {
	onEachHTTP2Network(t, func(t *testing.T, n network) {
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
		f := serveHTTP2(t, n, s).frames()
		f.accepts(1)
		f.must(f.WriteRSTStream(1, http2.ErrCodeCancel))
		if err := receive(t, ends); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		f.head(3, "GET", "/", true)
		if got := f.describe(); got != "200 ." {
			t.Errorf("got %q", got)
		}
		f.accepts(5)
		f.conn.Close()
		if err := receive(t, ends); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
	})
}

// TestTunnelsAndWorkers: tunnels need no worker, neither hijacked nor in a handler.
func TestTunnelsAndWorkers(t *testing.T) {
	for _, n := range overTCPByEach() {
		s := &sluice.Server{MaxWorkers: 1, Handler: func(ctx *sluice.RequestCtx) {
			switch string(ctx.Path()) {
			case "/chat":
				switchTo(ctx, echo)
			case "/inside":
				io.WriteString(ctx.Conn(), "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				echo(ctx.Conn())
			}
		}}
		r := serveHTTP2(t, n, s)
		f := r.frames()
		const count = 10
		for i := range uint32(count) {
			path := []string{"/chat", "/inside"}[i%2]
			f.send(2*i+1, false, []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "h", ":path", path})
			if got := f.fields(); !strings.HasPrefix(got, ":status=200") {
				t.Fatalf("got %q", got)
			}
		}
		resp, err := r.http2Client().Get("http://h/")
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		for i := range uint32(count) {
			f.data(2*i+1, "ping", false)
			f.expect("<ping>")
		}
		f.conn.Close()
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
	f := serveHTTP2(t, onEpoll(t), s).frames()
	f.connect(1, "websocket")
	if got := f.describe(); got != "403 no ." {
		t.Errorf("got %q", got)
	}
	f.head(3, "GET", "/", true)
	f.head(5, "GET", "/", true)
	receive(t, running)
	eventually(t, "the second waits for a worker", func() bool { return s.EngineStats().Loops[0].Queued == 1 })
	close(proceed)
	receive(t, running)
}

// TestTunnelsAndShutdown: Shutdown does not wait for tunnels. It ends them after the
// requests of their connection are answered; CloseOnNextResponse leaves them alone, and
// CloseOnShutdown refuses new ones.
func TestTunnelsAndShutdown(t *testing.T) {
	t.Parallel() // it mostly waits
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		proceed, inside := make(chan bool), make(chan bool)
		s := &sluice.Server{CloseOnShutdown: true, Handler: func(ctx *sluice.RequestCtx) {
			if string(ctx.Path()) == "/chat" {
				switchTo(ctx, echo)
				return
			}
			inside <- true
			<-proceed
		}}
		r := serveHTTP2(t, n, s)
		f := r.frames()
		f.accepts(1)
		f.head(3, "GET", "/", true)
		<-inside
		s.Control().CloseOnNextResponse()
		if _, ok := f.next().(*http2.GoAwayFrame); !ok {
			t.Fatal("there is no GOAWAY")
		}
		if _, ok := f.next().(*http2.GoAwayFrame); !ok { // next answers the PING between them
			t.Fatal("there is no second GOAWAY")
		}
		f.data(1, "ping", false)
		f.expect("<ping>")
		proceed <- true
		if got := f.describe(); got != "200 ." {
			t.Errorf("got %q", got)
		}
		f.data(1, "pong", false)
		f.expect("<pong>")
		ended := shutdown(s)
		if got := f.describe(); got != "CANCEL" {
			t.Errorf("got %q", got)
		}
		if got := f.describe(); got != "end" {
			t.Errorf("got %q", got)
		}
		if err := receive(t, ended); err != nil {
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
		switchTo(ctx, echo)
	}}
	f := serveHTTP2(t, overTCP(), s).frames()
	f.connect(1, "websocket")
	<-inside
	s.Control().CloseOnNextResponse()
	proceed <- true
	for {
		if head, ok := f.next().(*http2.MetaHeadersFrame); ok {
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
		"time-outs":            func(s *sluice.Server) { s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = briefly, briefly, briefly },
		"MaxRequestsPerConn":   func(s *sluice.Server) { s.MaxRequestsPerConn = 1 },
		"DisableKeepalive":     func(s *sluice.Server) { s.DisableKeepalive = true },
		"MaxKeepaliveDuration": func(s *sluice.Server) { s.MaxKeepaliveDuration = 1 },
	} {
		s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { switchTo(ctx, echo) }}
		change(s)
		f := serveHTTP2(t, overTCP(), s).frames()
		f.connect(1, "websocket")
		isOpen, goAways := false, 0
		for name != "time-outs" && goAways < 2 || !isOpen {
			switch f.next().(type) {
			case *http2.MetaHeadersFrame:
				isOpen = true
			case *http2.GoAwayFrame:
				goAways++
			}
		}
		time.Sleep(2 * briefly)
		f.data(1, "ping", false)
		f.expect("<ping>")
		f.data(1, "", true)
		if got := f.describe(); got != "." {
			t.Errorf("%s: %q", name, got)
		}
		if goAways > 0 {
			if got := f.describe(); got != "end" {
				t.Errorf("%s: after the tunnel: %q", name, got)
			}
		}
	}
}
