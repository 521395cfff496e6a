package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehttp/sluice/internal/wire/h2"
)

// A peer is a scripted server of HTTP/2.
type peer struct {
	net.Conn
	parser h2.Parser
	rest   []byte
	buf    [32 << 10]byte
}

// await reads frames until one is that is wanted; ok is false at the end.
func (p *peer) await(is func(ev *h2.Event) bool) (ev h2.Event, ok bool) {
	for {
		for len(p.rest) > 0 {
			n, ev, err := p.parser.Next(p.rest)
			if err != nil {
				return ev, false
			}
			p.rest = p.rest[n:]
			if ev.Kind != h2.EventNone && is(&ev) {
				return ev, true
			}
		}
		n, err := p.Read(p.buf[:])
		if n == 0 || err != nil {
			return ev, false
		}
		p.rest = p.buf[:n]
	}
}

// request reads up to the end of a request, and returns its stream; 0: the end.
func (p *peer) request() uint32 {
	ev, _ := p.await(func(ev *h2.Event) bool { return ev.Has(h2.EndStream) })
	return ev.Stream
}

// write sends frames.
func (p *peer) write(frames ...[]byte) { _, _ = p.Write(bytes.Join(frames, nil)) }

// overHTTP2 is a script that exchanges SETTINGS first.
func overHTTP2(settings h2.Settings, serve func(p *peer)) script {
	return func(c net.Conn, _ func() bool) {
		p := &peer{Conn: c}
		defaults := h2.DefaultSettings()
		p.write(h2.AppendSettings(nil, &settings, &defaults))
		if _, ok := p.await(func(ev *h2.Event) bool { return ev.Has(h2.EndSettings) }); ok {
			p.write(h2.AppendSettingsAck(nil))
			serve(p)
		}
		_, _ = io.Copy(io.Discard, bufio.NewReader(c)) // no RST overtakes what was sent
	}
}

// block returns a HEADERS frame with a status that the static table has, and more.
func block(stream uint32, isLast bool, more ...byte) []byte {
	return h2.AppendHeaders(nil, stream, append([]byte{0x88}, more...), isLast, h2.MinMaxFrameSize)
}

func content(stream uint32, text string, isLast bool) []byte {
	return append(h2.AppendDataHead(nil, stream, len(text), isLast), text...)
}

// lengthOf5 is "content-length: 5" without indexing.
var lengthOf5 = []byte{0x0f, 0x0d, 1, '5'}

// end ends a connection.
func (p *peer) end() { _ = p.Conn.(*net.TCPConn).CloseWrite() }

// TestHTTP2Errors: what is wrong with a response is an error of the right kind.
//
// long: a table
func TestHTTP2Errors(t *testing.T) {
	const n = 8
	each := func(frames func(id uint32) []byte) script {
		return overHTTP2(h2.DefaultSettings(), func(p *peer) {
			for id := p.request(); id > 0; id = p.request() {
				p.write(frames(id))
			}
		})
	}
	once := func(frames func(id uint32) []byte) script {
		return overHTTP2(h2.DefaultSettings(), func(p *peer) {
			p.write(frames(p.request()))
			p.end()
		})
	}
	for _, c := range []struct {
		name   string
		script script
		kind   Kind
		says   string
	}{
		{"reset", each(func(id uint32) []byte { return h2.AppendReset(nil, id, h2.CodeInternalError) }), Reset, "RST_STREAM with INTERNAL_ERROR (0x2)"},
		{"reset in the body", each(func(id uint32) []byte {
			return append(block(id, false), h2.AppendReset(nil, id, h2.CodeCancel)...)
		}), Reset, "CANCEL"},
		{"refused", each(func(id uint32) []byte { return h2.AppendReset(nil, id, h2.CodeRefusedStream) }), Refused, "REFUSED_STREAM"},
		{"calm", once(func(uint32) []byte { return h2.AppendGoAway(nil, 0, h2.CodeEnhanceYourCalm, "") }), GoAway, "GOAWAY with ENHANCE_YOUR_CALM"},
		{"ends at once", once(func(uint32) []byte { return nil }), Read, errTruncated.Error()},
		{"ends in the body", once(func(id uint32) []byte { return block(id, false) }), Read, errTruncated.Error()},
		{"no HTTP/2", each(func(uint32) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }), Invalid, "frame"},
		{"no field block", each(func(id uint32) []byte { return h2.AppendHeaders(nil, id, []byte{0xff, 0xff}, true, h2.MinMaxFrameSize) }), Invalid, ""},
		{"no status", each(func(id uint32) []byte { return h2.AppendHeaders(nil, id, lengthOf5, true, h2.MinMaxFrameSize) }), Invalid, ""},
		{"too short", each(func(id uint32) []byte { return append(block(id, false, lengthOf5...), content(id, "1234", true)...) }), Invalid, errLength.Error()},
		{"too long", each(func(id uint32) []byte { return append(block(id, false, lengthOf5...), content(id, "123456", true)...) }), Invalid, errLength.Error()},
		{"no body", each(func(id uint32) []byte { return block(id, true, lengthOf5...) }), Invalid, errLength.Error()},
		{"no head", each(func(id uint32) []byte { return content(id, "12345", true) }), Invalid, errNoHead.Error()},
		{"unasked", each(func(id uint32) []byte { return block(id+2, true) }), Invalid, errUnasked.Error()},
		{"window", each(func(id uint32) []byte { return h2.AppendWindowUpdate(nil, 0, 1<<31-1) }), Invalid, "window"},
		{"two heads", each(func(id uint32) []byte { return append(block(id, false), block(id, false)...) }), Invalid, "pseudo-field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kinds(t, func(t *testing.T, config Config) {
				srv := serve(t, c.script)
				config.HTTP2, config.Address, config.Requests = true, srv.addr, n
				result := measure(t, config)
				var want [Kinds]int64
				want[c.kind] = n
				checkErrors(t, result, want)
				if err := result.Examples[c.kind]; result.Answered != 0 || err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%d responses, error %v", result.Answered, err)
				}
			})
		})
	}
}

// TestHTTP2NotSpoken: a server without HTTP/2 is as good as none.
func TestHTTP2NotSpoken(t *testing.T) {
	for name, s := range map[string]script{
		"HTTP/1.1": func(c net.Conn, _ func() bool) { c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) },
		"silence":  func(net.Conn, func() bool) {},
	} {
		t.Run(name, func(t *testing.T) {
			kinds(t, func(t *testing.T, config Config) {
				config.HTTP2, config.Address, config.Requests = true, serve(t, s).addr, 10
				if result, err := Run(t.Context(), config); !errors.Is(err, ErrNoConnection) || result.Errors[Connect] == 0 {
					t.Errorf("%v, %+v", err, result)
				}
			})
		})
	}
	t.Run("ALPN", func(t *testing.T) {
		srv := serveHTTP1(t)
		config := Config{Network: "tcp", Address: srv, HTTP2: true, Request: []byte(getRequest), Requests: 5, TLS: &tls.Config{InsecureSkipVerify: true}}
		if _, err := Run(t.Context(), config); !errors.Is(err, ErrNoConnection) {
			t.Error(err)
		}
	})
	if _, err := Run(t.Context(), Config{HTTP2: true, Request: []byte("GET / HTTP/1.1\r\n"), Requests: 1}); err == nil {
		t.Error("half a request was translated")
	}
}

// TestHTTP2GoAway: requests that the server has not processed are sent once more on
// another connection.
func TestHTTP2GoAway(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		var connections atomic.Int64
		srv := serve(t, overHTTP2(h2.DefaultSettings(), func(p *peer) {
			if connections.Add(1) > 5 {
				for id := p.request(); id > 0; id = p.request() {
					p.write(block(id, true))
				}
				return
			}
			for range 4 {
				if id := p.request(); id == 0 {
					return
				}
			}
			// The last of the four is not processed.
			p.write(h2.AppendGoAway(nil, h2.MaxStream, h2.CodeNoError, ""), block(3, true), h2.AppendGoAway(nil, 5, h2.CodeNoError, ""),
				h2.AppendPing(nil, [8]byte{1}, false), block(1, true))
			p.await(func(ev *h2.Event) bool { return ev.Kind == h2.EventPingAck })
			p.write(block(5, true))
			p.end()
		}))
		config.HTTP2, config.Address, config.Requests, config.Connections, config.Depth = true, srv.addr, 31, 1, 4
		result := measure(t, config)
		checkErrors(t, result, [Kinds]int64{})
		if result.Answered != 31 || result.Sent != 31 || result.Latency.TotalCount() != 31 || result.Connections != 6 {
			t.Errorf("%d sent, %d answered on %d connections", result.Sent, result.Answered, result.Connections)
		}
	})
}

// TestHTTP2Timeout: one response that does not come ends one stream; silence ends the
// connection.
func TestHTTP2Timeout(t *testing.T) {
	kinds(t, func(t *testing.T, config Config) {
		ctx, stop := context.WithCancel(t.Context())
		srv := serve(t, overHTTP2(h2.DefaultSettings(), func(p *peer) {
			for {
				ev, ok := p.await(func(ev *h2.Event) bool { return ev.Has(h2.EndStream) || ev.Kind == h2.EventReset })
				switch {
				case !ok:
					return
				case ev.Kind == h2.EventReset:
					stop()
				case ev.Stream != 3:
					p.write(block(ev.Stream, true))
				}
			}
		}))
		config.HTTP2, config.Address, config.Connections, config.Depth = true, srv.addr, 1, 4
		config.Timeout, config.Duration = time.Second, time.Minute
		result, err := Run(ctx, config)
		if err != nil {
			t.Fatal(err)
		}
		checkErrors(t, result, [Kinds]int64{Timeout: 1})
		if result.Connections != 1 || result.Latency.TotalCount() != result.Answered+1 {
			t.Errorf("%d answered on %d connections, %d latencies", result.Answered, result.Connections, result.Latency.TotalCount())
		}
		srv = serve(t, overHTTP2(h2.DefaultSettings(), func(p *peer) { p.request() }))
		config.Address, config.Requests, config.Timeout = srv.addr, 4, 100*time.Millisecond
		result = measure(t, config)
		checkErrors(t, result, [Kinds]int64{Timeout: 4})
	})
}

// TestSession: settings that change, interim responses, trailers, credit, and streams
// whose place is taken.
func TestSession(t *testing.T) {
	p, err := newHTTP2Plan(&Config{Request: request(strings.Repeat("b", 100)), Depth: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(p)
	s.reset()
	feed := func(frames ...[]byte) (kinds []newsKind) {
		for in := bytes.Join(frames, nil); len(in) > 0; {
			used, n, err := s.feed(in)
			if err != nil {
				t.Fatal(err)
			}
			if in = in[used:]; n.kind == noNews {
				continue
			}
			kinds = append(kinds, n.kind)
			if n.kind == answered {
				s.drop(n.x)
			}
		}
		return kinds
	}
	settings, defaults := h2.DefaultSettings(), h2.DefaultSettings()
	settings.MaxConcurrentStreams, settings.InitialWindowSize = 1, 60
	if s.room() != 0 || len(feed(h2.AppendSettings(nil, &settings, &defaults))) != 1 || s.room() != 1 {
		t.Fatalf("room for %d", s.room())
	}
	s.sent()
	s.begin(0, 0)
	if x := s.find(1); x == nil || x.unsent != 40 || s.room() != 0 {
		t.Fatalf("%+v", s.find(1))
	}
	before := settings
	settings.InitialWindowSize, settings.MaxConcurrentStreams = 70, 10
	feed(h2.AppendSettings(nil, &settings, &before), h2.AppendWindowUpdate(nil, 1, 10))
	if x := s.find(1); x.unsent != 20 || s.room() != 1 {
		t.Fatalf("%+v, room %d", x, s.room())
	}
	interim := h2.AppendHeaders(nil, 1, []byte{0x08, 3, '1', '0', '3'}, false, h2.MinMaxFrameSize)
	trailer := h2.AppendHeaders(nil, 1, []byte{0, 1, 'x', 1, 'y'}, true, h2.MinMaxFrameSize)
	for i := range 5 { // slow: the place of stream 1 is taken
		s.begin(0, 0)
		if got := feed(block(s.next-2, true)); len(got) != 1 || got[0] != answered {
			t.Fatalf("round %d: %v", i, got)
		}
	}
	s.sent()
	if got := feed(interim, interim, block(1, false), content(1, "x", false), trailer); len(got) != 1 || got[0] != answered || s.open != 0 {
		t.Errorf("%v", got)
	}
	if want := h2.AppendReset(nil, 1, h2.CodeCancel); !bytes.HasSuffix(s.out, want) {
		t.Errorf("the rest of the body is not cancelled: %x", s.out)
	}
	s.begin(0, 0)
	feed(block(s.next-2, false))
	s.sent()
	for range leastOwed / h2.MinMaxFrameSize {
		feed(content(s.next-2, strings.Repeat("x", h2.MinMaxFrameSize), false))
	}
	feed(content(s.next-2, strings.Repeat("x", h2.MinMaxFrameSize), false))
	if want := 2 * (h2.FrameHeadSize + 4); len(s.out) != want {
		t.Errorf("%d bytes of credit, not %d", len(s.out), want)
	}
}

// TestSessionAllocates nothing in the steady state.
func TestSessionAllocates(t *testing.T) {
	p, err := newHTTP2Plan(&Config{Request: []byte(getRequest), Depth: 100})
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(p)
	s.reset()
	settings := h2.DefaultSettings()
	if _, n, _ := s.feed(h2.AppendSettings(nil, &settings, &settings)); n.kind != greeted {
		t.Fatal(n)
	}
	head := block(1, false, lengthOf5...)
	var in []byte
	round := func() {
		s.sent()
		s.begin(0, 0)
		id := s.next - 2
		in = h2.AppendHeaders(in[:0], id, head[h2.FrameHeadSize:], false, h2.MinMaxFrameSize)
		in = append(h2.AppendDataHead(in, id, 5, true), "hello"...)
		used, n, err := s.feed(in)
		if used != len(in) || n.kind != answered || err != nil {
			t.Fatal(used, n, err)
		}
		s.drop(n.x)
	}
	for range 10 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if !s.isSteady || !s.isKnown {
		t.Errorf("steady: %v, known: %v", s.isSteady, s.isKnown)
	}
}

func TestLeavesTable(t *testing.T) {
	for block, want := range map[string]bool{
		"":                      true,
		"\x88\xbe":              true,
		"\xff\x80\x01\x88":      true,
		"\x0f\x0d\x015":         true,
		"\x00\x01x\x01y\x88":    true,
		"\x10\x01x\x01y":        true,
		"\x88\x40\x01x\x01y":    false,
		"\x3f\xe1\x1f":          false,
		"\x0f\x0d\x7f\x01":      true, // cut: it would not have been decoded
		"\x0f\x0d\x015\x40\x01": false,
	} {
		if got := leavesTable([]byte(block)); got != want {
			t.Errorf("%x: %v", block, got)
		}
	}
}
