package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/ws"
)

// webSocketServer upgrades each connection, and has answer say what goes out for the n-th
// message of it. nil ends the connection.
func webSocketServer(t *testing.T, answer func(n int, op ws.Opcode, message []byte) []byte) string {
	t.Helper()
	return serveEach(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		if request.Header.Get("Upgrade") != ws.Token || request.Header.Get("X-A") != "b" {
			t.Errorf("handshake %v", request.Header)
		}
		out := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
			string(ws.AppendAccept(nil, []byte(request.Header.Get(ws.FieldKey)))) + "\r\n\r\n"
		if _, err := c.Write([]byte(out)); err != nil {
			return
		}
		var reader ws.Reader
		var message, answers []byte
		for n, buf := 0, make([]byte, 4096); ; {
			size, err := in.Read(buf)
			if err != nil {
				return
			}
			answers = answers[:0]
			for rest := buf[:size]; len(rest) > 0; {
				used, p, err := reader.Next(rest)
				if err != nil {
					t.Error(err)
					return
				}
				rest = rest[used:]
				if p.Opcode == ws.OpPong {
					n++
					answers = append(answers, answer(n, p.Opcode, p.Payload)...)
					continue
				}
				message = append(message, p.Payload...)
				if p.IsLast {
					n++
					more := answer(n, p.Opcode, message)
					if more == nil {
						return
					}
					answers, message = append(answers, more...), message[:0]
				}
			}
			if _, err := c.Write(answers); err != nil {
				return
			}
		}
	})
}

// serveEach has handle serve each connection.
func serveEach(t *testing.T, handle func(c net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return ln.Addr().String()
}

const handshakeRequest = "GET /chat HTTP/1.1\r\nHost: test\r\nX-A: b\r\n\r\n"

func webSocketConfig(addr string, message string, isText, usesStreams bool) Config {
	return Config{
		Network: "tcp", Address: addr, Request: []byte(handshakeRequest), Connections: 4, Threads: 2, Requests: 200,
		Timeout: 20 * time.Second, UsesStreams: usesStreams, WebSocket: &WebSocket{Message: []byte(message), IsText: isText},
	}
}

// TestWebSocket: messages of several sizes come back, in closed and open loops, from both
// kinds of threads.
func TestWebSocket(t *testing.T) {
	for _, size := range []int{0, 5, 200, 70_000} {
		for _, usesStreams := range []bool{false, true} {
			message := strings.Repeat("é", size)
			addr := webSocketServer(t, func(_ int, op ws.Opcode, got []byte) []byte {
				if op != ws.OpText || string(got) != message {
					t.Errorf("opcode %d, %d bytes", op, len(got))
				}
				return ws.AppendFrame(nil, op, got)
			})
			for _, rate := range []float64{0, 5000} {
				config := webSocketConfig(addr, message, true, usesStreams)
				config.Rate, config.Depth = rate, 2
				result, err := Run(t.Context(), config)
				if err != nil || result.Answered != 200 || result.ErrorSum() != 0 || result.Latency.TotalCount() != 200 {
					t.Errorf("size %d, streams %v, rate %v: %v, %+v", size, usesStreams, rate, err, result)
				}
			}
		}
	}
}

// TestWebSocketWarmUp: handshakes are made before the run begins, and are not counted.
func TestWebSocketWarmUp(t *testing.T) {
	addr := webSocketServer(t, func(_ int, op ws.Opcode, got []byte) []byte { return ws.AppendFrame(nil, op, got) })
	hasBegun := false
	config := webSocketConfig(addr, "x", false, false)
	config.Begin = func() { hasBegun = true }
	result, err := Run(t.Context(), config)
	if err != nil || !hasBegun || result.Answered != 200 || result.Connections != 0 {
		t.Errorf("%v, begun %v, %+v", err, hasBegun, result)
	}
}

// TestWebSocketFragments: an answer in fragments, with a ping between them, is one, and the
// ping is answered.
func TestWebSocketFragments(t *testing.T) {
	if !hasLoops {
		t.Skip("pings are answered by event loops")
	}
	pongs := make(chan string, 1000)
	addr := webSocketServer(t, func(_ int, op ws.Opcode, got []byte) []byte {
		if op == ws.OpPong {
			pongs <- string(got)
			// The rest of the message comes after the pong.
			return append(ws.AppendHead(nil, ws.Head{IsFinal: true, Length: 1}), 'b')
		}
		out := append(ws.AppendHead(nil, ws.Head{Opcode: ws.OpBinary, Length: 1}), 'a')
		return ws.AppendFrame(out, ws.OpPing, []byte("p"))
	})
	result, err := Run(t.Context(), webSocketConfig(addr, "x", false, false))
	if err != nil || result.Answered != 200 || result.ErrorSum() != 0 || len(pongs) != 200 || <-pongs != "p" {
		t.Errorf("%v, %d pongs, %+v", err, len(pongs), result)
	}
}

// TestWebSocketErrors: what a server does wrong is counted by its kind.
func TestWebSocketErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer []byte
		kind   Kind
		says   string
	}{
		"masked":  {ws.AppendMasked(nil, ws.OpBinary, 7, []byte("x")), Invalid, "mask"},
		"two":     {ws.AppendFrame(ws.AppendFrame(nil, ws.OpBinary, nil), ws.OpBinary, nil), Invalid, errUnwanted.Error()},
		"closing": {ws.AppendFrame(nil, ws.OpClose, ws.AppendClose(nil, ws.CodePolicy, "no")), Read, "code 1008"},
		"end":     {nil, Read, errTruncated.Error()},
	} {
		for _, usesStreams := range []bool{false, true} {
			addr := webSocketServer(t, func(int, ws.Opcode, []byte) []byte { return c.answer })
			config := webSocketConfig(addr, "x", false, usesStreams)
			config.Requests = 5
			result, err := Run(t.Context(), config)
			if err != nil || result.Errors[c.kind] == 0 || result.ErrorSum() != result.Errors[c.kind] || !strings.Contains(result.Examples[c.kind].Error(), c.says) {
				t.Errorf("%s, streams %v: %v, %+v", name, usesStreams, err, result)
			}
		}
	}
}

// TestWebSocketRefusals: a handshake that is not answered as it must be makes no connection.
func TestWebSocketRefusals(t *testing.T) {
	for _, c := range []struct{ answer, says string }{
		{"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "status 403"},
		{"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: eA==\r\n\r\n", errAccept.Error()},
		{"", errNoUpgrade.Error()},
		{"SSH-2.0\r\n\r\n", ""},
	} {
		addr := serveEach(t, func(conn net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(conn, strings.NewReader(c.answer))
			}
		})
		for _, usesStreams := range []bool{false, true} {
			config := webSocketConfig(addr, "x", false, usesStreams)
			config.Requests = 8
			_, err := Run(t.Context(), config)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q, streams %v: %v, want %q", c.answer, usesStreams, err, c.says)
			}
		}
	}
}

func TestWebSocketConfig(t *testing.T) {
	good := webSocketConfig("127.0.0.1:1", "x", false, false)
	for name, change := range map[string]func(*Config){
		"HTTP/2":  func(c *Config) { c.HTTP2 = true },
		"once":    func(c *Config) { c.OncePerConn = true },
		"HEAD":    func(c *Config) { c.IsHead = true },
		"POST":    func(c *Config) { c.Request = bytes.Replace(c.Request, []byte("GET"), []byte("POST"), 1) },
		"body":    func(c *Config) { c.Request = append(c.Request, "body"...) },
		"no size": func(c *Config) { c.Depth, c.WebSocket.Message = 1<<20, make([]byte, 1<<12) },
	} {
		config := good
		config.Request, config.WebSocket = bytes.Clone(good.Request), &WebSocket{Message: []byte("x")}
		change(&config)
		if _, err := Run(t.Context(), config); err == nil || errors.Is(err, ErrNoConnection) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
