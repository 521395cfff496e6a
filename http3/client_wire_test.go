package http3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/client/streams"
	"github.com/sluicehttp/sluice/internal/wire/field"
	"github.com/sluicehttp/sluice/internal/wire/h1"
	"github.com/sluicehttp/sluice/internal/wire/h3"
)

func runtimeStack(p []byte) int { return runtime.Stack(p, true) }

// headers returns HEADERS with the fields, "name: value" each; one that begins with a colon is a
// pseudo-field.
func headers(fields ...string) []byte {
	var e h3.Encoder
	section := e.Begin(nil)
	for _, f := range fields {
		name, value, _ := strings.Cut(f[1:], ": ")
		section = e.AppendField(section, field.Other, []byte(f[:1]+name), []byte(value))
	}
	return frame(h3.FrameHeaders, section)
}

// smallResponse is a response with the body "hello".
var smallResponse = concat(headers(":status: 200", "content-length: 5"), data("hello"))

// serveRaw accepts connections and gives each stream to f, on a goroutine of its own.
func serveRaw(t testing.TB, socket net.PacketConn, f func(s *quic.Stream)) {
	t.Helper()
	serveStreams(t, socket, h3.Settings{}, nil, f)
}

// serveStreams is serveRaw with settings. before is called before they are sent, unless it is nil.
func serveStreams(t testing.TB, socket net.PacketConn, settings h3.Settings, before func(c *quic.Conn), f func(s *quic.Stream)) {
	t.Helper()
	serveConns(t, socket, func(c *quic.Conn) {
		control, err := c.OpenUniStream()
		if err != nil {
			return
		}
		if before != nil {
			before(c)
		}
		_, _ = control.Write(h3.AppendSettings([]byte{streamControl}, settings))
		for {
			s, err := c.AcceptStream(context.Background())
			if err != nil {
				return
			}
			go f(s)
		}
	})
}

// serveConns accepts connections and gives each to f, on a goroutine of its own.
func serveConns(t testing.TB, socket net.PacketConn, f func(c *quic.Conn)) {
	t.Helper()
	transport := &quic.Transport{Conn: socket}
	ln, err := transport.Listen(serverTLS(t, protocolHTTP3), &quic.Config{MaxIncomingStreams: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ln.Close()
		_ = transport.Close()
	})
	go func() {
		for {
			c, err := ln.Accept(context.Background())
			if err != nil {
				return
			}
			go f(c)
		}
	}()
}

// A wireResult is what becomes of a response.
type wireResult struct {
	body string
	code h3.Code // of a stream or a connection that failed; 0: it has not
	err  error
}

// A wireCase is a response as bytes.
type wireCase struct {
	name string
	out  []byte
	want wireResult
}

// long: a table
func wireCases() []wireCase {
	ok := headers(":status: 200")
	long := strings.Repeat("x", 10_000)
	return []wireCase{
		{"small", smallResponse, wireResult{body: "hello"}},
		{"two frames", concat(ok, data("ab"), data("cd")), wireResult{body: "abcd"}},
		{"empty DATA", concat(ok, data(""), data("x"), data("")), wireResult{body: "x"}},
		{"no body", ok, wireResult{}},
		{"grease before, between, after", concat(frame(0x21, []byte{1, 2}), ok, frame(0x40, nil), data("x"), frame(0x21, []byte{9}), headers("x-a: b"), frame(0x21, nil)), wireResult{body: "x"}},
		{"interim", concat(headers(":status: 103", "link: a"), headers(":status: 100"), ok, data("x")), wireResult{body: "x"}},
		{"trailers", concat(ok, data("x"), headers("x-end: 1")), wireResult{body: "x"}},
		{"large field", concat(headers(":status: 200", "x-l: "+long), data("x")), wireResult{body: "x"}},

		{"nothing", nil, wireResult{code: h3.MessageError}},
		{"only interim", headers(":status: 103"), wireResult{code: h3.MessageError}},
		{"no status", headers("x-a: b"), wireResult{code: h3.MessageError}},
		{"two statuses", headers(":status: 200", ":status: 200"), wireResult{code: h3.MessageError}},
		{"status after a field", headers("x-a: b", ":status: 200"), wireResult{code: h3.MessageError}},
		{"invalid status", headers(":status: 20"), wireResult{code: h3.MessageError}},
		{"101", headers(":status: 101"), wireResult{code: h3.MessageError}},
		{"pseudo-field of a request", headers(":status: 200", ":path: /"), wireResult{code: h3.MessageError}},
		{"unknown pseudo-field", headers(":status: 200", ":x: y"), wireResult{code: h3.MessageError}},
		{"field in capitals", headers(":status: 200", "x-a: \x01"), wireResult{code: h3.MessageError}},
		{"too short", concat(headers(":status: 200", "content-length: 5"), data("hell")), wireResult{code: h3.MessageError}},
		{"too long", concat(headers(":status: 200", "content-length: 5"), data("hello!")), wireResult{code: h3.MessageError}},
		{"two lengths", concat(headers(":status: 200", "content-length: 5", "content-length: 6"), data("hello")), wireResult{code: h3.MessageError}},
		{"204 with a body", concat(headers(":status: 204"), data("x")), wireResult{code: h3.MessageError}},
		{"pseudo-field in trailers", concat(ok, headers(":status: 200")), wireResult{code: h3.MessageError}},

		{"DATA first", data("x"), wireResult{code: h3.FrameUnexpected}},
		{"DATA after an interim head", concat(headers(":status: 103"), data("x")), wireResult{code: h3.FrameUnexpected}},
		{"DATA after trailers", concat(ok, headers("x-a: b"), data("x")), wireResult{code: h3.FrameUnexpected}},
		{"a third HEADERS", concat(ok, headers("x-a: b"), headers("x-a: b")), wireResult{code: h3.FrameUnexpected}},
		{"PUSH_PROMISE", concat(ok, frame(h3.FramePushPromise, []byte{0, 0, 0})), wireResult{code: h3.FrameUnexpected}},
		{"SETTINGS", frame(h3.FrameSettings, nil), wireResult{code: h3.FrameUnexpected}},
		{"GOAWAY", concat(ok, frame(h3.FrameGoAway, []byte{0})), wireResult{code: h3.FrameUnexpected}},
		{"frame of HTTP/2", concat(ok, frame(0x6, []byte{1})), wireResult{code: h3.FrameUnexpected}},
		{"end within a frame", concat(ok, data("hello")[:4]), wireResult{code: h3.FrameError}},
		{"end within a header", concat(ok, []byte{0x40}), wireResult{code: h3.FrameError}},
		{"dynamic table", frame(h3.FrameHeaders, []byte{1, 0, 0x80}), wireResult{code: h3.DecompressionFailed}},
		{"truncated section", frame(h3.FrameHeaders, []byte{0}), wireResult{code: h3.DecompressionFailed}},

		{"too large a head", headers(":status: 200", "x-l: "+strings.Repeat("x", h1.DefaultLimits.MaxHead)), wireResult{err: h1.ErrHeadTooLarge}},
		{"too many fields", headers(append([]string{":status: 200"}, strings.Split(strings.Repeat("a: b,", 2*h1.DefaultLimits.MaxFields), ",")[:2*h1.DefaultLimits.MaxFields]...)...), wireResult{err: h1.ErrTooManyFields}},
		{"nothing but empty frames", concat(ok, bytes.Repeat(data(""), maxIgnored+1)), wireResult{code: h3.ExcessiveLoad}},
		{"a long frame without a meaning", concat(ok, frame(0x21, make([]byte, ignoredPer*maxIgnored))), wireResult{code: h3.ExcessiveLoad}},
		{"interims without end", bytes.Repeat(headers(":status: 103"), 17), wireResult{err: streams.ErrInterim}},
	}
}

// TestClientWire: what becomes of a response, byte by byte and at once.
func TestClientWire(t *testing.T) {
	for _, tc := range wireCases() {
		for _, step := range []int{len(tc.out) + 1, 1} {
			if step == 1 && len(tc.out) > 300 {
				continue
			}
			socket := listenUDP(t)
			serveRaw(t, socket, func(s *quic.Stream) {
				go func() { _, _ = io.Copy(io.Discard, s) }()
				for out := tc.out; len(out) > 0; {
					n, err := s.Write(out[:min(step, len(out))])
					if err != nil {
						return
					}
					out = out[n:]
				}
				_ = s.Close()
			})
			c := overHTTP3(t, socket.LocalAddr().String())
			c.MaxIdemponentCallAttempts = 1
			var req sluice.Request
			var resp sluice.Response
			req.SetRequestURI("https://" + c.Addr + "/")
			err := c.DoTimeout(&req, &resp, 20*time.Second)
			var got wireResult
			var own *Error
			switch {
			case err == nil:
				got.body = string(resp.Body())
			case errors.As(err, &own):
				got.code = h3.Code(own.Code)
			default:
				got.err = err
			}
			if got.body != tc.want.body || got.code != tc.want.code || !errors.Is(got.err, tc.want.err) {
				t.Errorf("%s in pieces of %d: %v (%s), want %v; %v", tc.name, step, got, got.code, tc.want, err)
			}
			c.CloseIdleConnections()
		}
	}
}

// A serverStreams is what a server sends on streams of its own.
type serverStreams struct {
	name    string
	streams [][]byte
	isShut  bool // the first one is closed
	code    h3.Code
}

// long: a table
func serverStreamCases() []serverStreams {
	settings := h3.AppendSettings([]byte{streamControl}, h3.Settings{})
	return []serverStreams{
		{"all of them", [][]byte{settings, {streamEncoder}, {streamDecoder}, {0x21, 1, 2, 3}}, false, 0},
		{"capacity 0", [][]byte{settings, {streamEncoder, 0x20}}, false, 0},
		{"grease on the control stream", [][]byte{concat(settings, frame(0x21, []byte{1}), frame(0x21, nil))}, false, 0},
		{"GOAWAY of a later stream", [][]byte{concat(settings, frame(h3.FrameGoAway, []byte{0x80, 0, 1, 0}))}, false, 0},

		{"GOAWAY first", [][]byte{concat([]byte{streamControl}, frame(h3.FrameGoAway, []byte{0}))}, false, h3.MissingSettings},
		{"GOAWAY of no request", [][]byte{concat(settings, frame(h3.FrameGoAway, []byte{1}))}, false, h3.IDError},
		{"GOAWAY that grows", [][]byte{concat(settings, frame(h3.FrameGoAway, []byte{4}), frame(h3.FrameGoAway, []byte{8}))}, false, h3.IDError},
		{"SETTINGS twice", [][]byte{concat(settings, settings[1:])}, false, h3.FrameUnexpected},
		{"MAX_PUSH_ID", [][]byte{concat(settings, frame(h3.FrameMaxPushID, []byte{1}))}, false, h3.FrameUnexpected},
		{"DATA", [][]byte{concat(settings, data("x"))}, false, h3.FrameUnexpected},
		{"setting of HTTP/2", [][]byte{concat([]byte{streamControl}, frame(h3.FrameSettings, []byte{2, 0}))}, false, h3.SettingsError},
		{"two control streams", [][]byte{settings, settings}, false, h3.StreamCreationError},
		{"closed control stream", [][]byte{settings}, true, h3.ClosedCritical},
		{"control stream of the client is stopped", nil, true, h3.ClosedCritical},
		{"push stream", [][]byte{settings, {streamPush, 0}}, false, h3.IDError},
		{"insertion", [][]byte{settings, {streamEncoder, 0xc0}}, false, h3.EncoderStreamError},
		{"acknowledgement", [][]byte{settings, {streamDecoder, 0x80}}, false, h3.DecoderStreamError},
		{"nothing but grease", [][]byte{concat(settings, bytes.Repeat(frame(0x21, nil), maxControlIgnored+1))}, false, h3.ExcessiveLoad},
	}
}

// TestClientServerStreams: what a server may send on streams of its own.
func TestClientServerStreams(t *testing.T) {
	for _, tc := range serverStreamCases() {
		socket := listenUDP(t)
		closed := make(chan error, 1)
		serveConns(t, socket, func(c *quic.Conn) {
			if len(tc.streams) == 0 {
				if s, err := c.AcceptUniStream(context.Background()); err == nil {
					s.CancelRead(0)
				}
			}
			for i, out := range tc.streams {
				s, err := c.OpenUniStream()
				if err != nil {
					closed <- err
					return
				}
				_, _ = s.Write(out)
				if tc.isShut && i == 0 {
					_ = s.Close()
				}
			}
			s, err := c.AcceptStream(context.Background())
			if err == nil && tc.code == 0 {
				_, _ = s.Write(smallResponse)
				_ = s.Close()
			}
			<-c.Context().Done()
			closed <- context.Cause(c.Context())
		})
		c := overHTTP3(t, socket.LocalAddr().String())
		c.MaxIdemponentCallAttempts = 1
		var req sluice.Request
		var resp sluice.Response
		req.SetRequestURI("https://" + c.Addr + "/")
		err := c.DoTimeout(&req, &resp, 20*time.Second)
		c.CloseIdleConnections()
		var app *quic.ApplicationError
		reason := <-closed
		errors.As(reason, &app)
		switch {
		case app == nil:
			t.Errorf("%s: the connection has ended with %v", tc.name, reason)
		case tc.code == 0 && (err != nil || h3.Code(app.ErrorCode) != h3.NoError):
			t.Errorf("%s: %v, %s", tc.name, err, h3.Code(app.ErrorCode))
		case tc.code != 0 && (err == nil || h3.Code(app.ErrorCode) != tc.code):
			t.Errorf("%s: %v, %s, want %s", tc.name, err, h3.Code(app.ErrorCode), tc.code)
		}
	}
}
