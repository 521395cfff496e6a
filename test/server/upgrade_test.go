package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server/upgrade"
	"github.com/sluicehttp/sluice/test/harness"
)

// A talk is a Family: its connections answer each input with its number.
type talk struct {
	name    string
	servers chan upgrade.Server // of each new Host
	closed  chan error          // of each connection
}

func newTalk(name string) *talk {
	return &talk{name, make(chan upgrade.Server, 99), make(chan error, 99)}
}

func (t *talk) Name() string { return t.name }

func (t *talk) NewHost(s upgrade.Server) upgrade.Host {
	t.servers <- s
	return talkHost{t, s}
}

type talkHost struct {
	*talk
	server upgrade.Server
}

func (h talkHost) Wake(c engine.Conn, m engine.Memo) engine.Protocol {
	served, _ := h.server.Served(m)
	return &talker{h, c, served}
}

func (h talkHost) Unpack(c engine.Conn, state []byte) engine.Protocol {
	if string(state) == "\x63" {
		return nil
	}
	return &talker{h, c, uint64(state[0])}
}

type talker struct {
	host   talkHost
	conn   engine.Conn
	number uint64
}

func (p *talker) Capabilities() engine.Capabilities {
	return engine.CanSleep | engine.CanPrompt | engine.CanPack
}

func (p *talker) Feed([]byte) (int, engine.Next) { return 0, engine.Run }

func (p *talker) Pause() bool { return true }

func (p *talker) HalfClosed(out []byte) []byte { return append(out, "bye"...) }

func (p *talker) Detached(net.Conn) {}

func (p *talker) Closed(err error) { p.host.closed <- err }

func (p *talker) Sleep() (engine.Memo, bool) { return p.host.server.Memo(1, p.number, 2), true }

func (p *talker) TimedOut(out []byte) ([]byte, engine.Next) {
	return append(out, "late"...), engine.Close
}

func (p *talker) Run(out []byte) ([]byte, engine.Next) {
	in := p.conn.Buffered()
	p.number++
	out = fmt.Appendf(out, "%d %s", p.number, in)
	p.conn.Discard(len(in))
	return out, engine.Read
}

func (p *talker) Prompted(out []byte) ([]byte, engine.Next) {
	return fmt.Appendf(out, "prompted %d", p.host.server.Closing()), engine.Read
}

func (p *talker) Pack(dst []byte) ([]byte, bool) {
	return append(upgrade.AppendState(dst, p.host.name, "farewell"), byte(p.number)), p.host.name != ""
}

// takeOver has t take over; the connection begins with "first".
func (t *talk) takeOver(ctx *sluice.RequestCtx) error {
	return upgrade.TakeOver(ctx, upgrade.Takeover{Family: t, Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
		return &talker{h.(talkHost), c, 40}, append(out, "first"...)
	}})
}

// carry has t write the body of the response: "content", or nothing if isNothing.
func (t *talk) carry(ctx *sluice.RequestCtx, isNothing bool) error {
	return upgrade.TakeOver(ctx, upgrade.Takeover{Family: t, WritesBody: true, Status: sluice.StatusOK, Open: func(h upgrade.Host, c engine.Conn, out []byte) (engine.Protocol, []byte) {
		if isNothing {
			return nil, out
		}
		if _, ok := c.(upgrade.StreamConn); ok {
			c.Prompter().Prompt()
		}
		return &carried{talker{h.(talkHost), c, 0}}, append(out, "content"...)
	}})
}

// A carried ends the body when it is prompted.
type carried struct{ talker }

func (p *carried) Capabilities() engine.Capabilities { return engine.CanPrompt }

func (p *carried) Prompted(out []byte) ([]byte, engine.Next) {
	return append(out, "end"...), engine.Close
}

// TestTakeOverStreams: a protocol takes over a stream of HTTP/2, or writes its body.
//
// long: a table
func TestTakeOverStreams(t *testing.T) {
	family := newTalk("")
	tests := []struct {
		name, want string // up to the end of the stream
		isTunnel   bool   // the request asks for one
		isOpen     bool   // a protocol has the stream
		handler    sluice.RequestHandler
	}{
		{"a tunnel", "200 first", true, true, func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
			_ = family.takeOver(ctx)
		}},
		{"a tunnel with content, which is dropped", "200 first", true, true, func(ctx *sluice.RequestCtx) {
			ctx.WriteString("content")
			_ = family.takeOver(ctx)
		}},
		{"a tunnel, flushed", "200 first", true, true, func(ctx *sluice.RequestCtx) {
			_ = family.takeOver(ctx)
			_ = ctx.Flush()
		}},
		{"a tunnel after a look at the connection", "200 first", true, true, func(ctx *sluice.RequestCtx) {
			c := ctx.Conn()
			_ = family.takeOver(ctx)
			t.Cleanup(func() {
				if _, err := io.WriteString(c, "x"); err == nil {
					t.Error("the handler's connection still writes")
				}
			})
		}},
		{"refused", "403 no .", true, false, func(ctx *sluice.RequestCtx) {
			_ = family.takeOver(ctx)
			ctx.Error("no", 403)
		}},
		{"a panic", "500 Internal Server Error .", true, false, func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
			_ = family.takeOver(ctx)
			panic("a panic of the test")
		}},
		{"a body for a tunnel", "404 sluice: not supported with HTTP/2 and HTTP/3 .", true, false, func(ctx *sluice.RequestCtx) {
			ctx.Error(fmt.Sprint(family.carry(ctx, false)), 404)
		}},
		{"a tunnel for a request", "200 sluice: not supported with HTTP/2 and HTTP/3 .", false, false, func(ctx *sluice.RequestCtx) {
			fmt.Fprint(ctx, family.takeOver(ctx))
		}},
		{"a body", "200 content end .", false, true, func(ctx *sluice.RequestCtx) { _ = family.carry(ctx, false) }},
		{"a body whose head is flushed", "200 content end .", false, true, func(ctx *sluice.RequestCtx) {
			_ = family.carry(ctx, false)
			_ = ctx.Flush()
		}},
		{"no body", "200 INTERNAL_ERROR", false, false, func(ctx *sluice.RequestCtx) { _ = family.carry(ctx, true) }},
		{"a body with another status", "201 own .", false, false, func(ctx *sluice.RequestCtx) {
			ctx.SetStatusCode(201)
			ctx.WriteString("own")
			_ = family.carry(ctx, false)
		}},
		{"a body and a stream", "200 content end .", false, true, func(ctx *sluice.RequestCtx) {
			ctx.SetBodyStream(strings.NewReader("own"), -1)
			_ = family.carry(ctx, false)
		}},
	}
	harness.OnEachHTTP2Network(t, func(t *testing.T, n harness.Network) {
		handlers := map[string]sluice.RequestHandler{}
		r := harness.ServeHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Request.Header.Peek("name"))](ctx) }})
		f := r.Frames()
		for i, test := range tests {
			handlers[test.name] = test.handler
			stream := uint32(2*i + 1)
			if test.isTunnel {
				f.Connect(stream, "websocket", "name", test.name)
			} else {
				f.Head(stream, "GET", "/", true, "name", test.name)
			}
			if test.isTunnel && test.isOpen {
				f.ExpectTalk(stream, strings.TrimPrefix(test.want, "200 "))
			} else if got := f.Describe(); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(test.want, " ", "") {
				t.Errorf("%s: got %q, want %q", test.name, got, test.want)
			} else if test.isTunnel {
				f.Next() // RST_STREAM, as the client has not ended its direction
			}
			if test.isOpen {
				if err := harness.Receive(t, family.closed); err != nil {
					t.Errorf("%s: closed with %v", test.name, err)
				}
			}
		}
		f.Head(99, "HEAD", "/", true, "name", "a body")
		if got := f.Describe(); got != "200 ." {
			t.Errorf("HEAD: %q", got)
		}
		harness.Eventually(t, "no stream is open", func() bool { return r.Server.EngineStats().HTTP2.Streams == 0 })
		if n := len(family.closed); n != 0 {
			t.Errorf("%d protocols too many", n)
		}
	})
}

// TestTakeOverBodies: a protocol writes the body of a response of HTTP/1.1, if the response
// has one. The connection ends with it.
//
// long: a table
func TestTakeOverBodies(t *testing.T) {
	family := newTalk("")
	begins := func(ctx *sluice.RequestCtx) { ctx.WriteString("begun") }
	const chunked = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	own := func(status int) string { return harness.TextAnswer(status, "begun", "Connection: close") }
	const empty = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	tests := []struct {
		name, request string
		handler       sluice.RequestHandler // before TakeOver
		want          string                // up to what the protocol sends
		isOpen        bool
	}{
		{"in chunks", harness.Get("/"), nil, chunked, true},
		{"of HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", nil, strings.Replace(chunked, "Transfer-Encoding: chunked\r\n", "", 1), true},
		{"with a body of the handler", harness.Get("/"), begins, chunked, true},
		{"with a length", harness.Get("/"), func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(5) }, chunked, true},
		{"another status", harness.Closing("/"), func(ctx *sluice.RequestCtx) {
			begins(ctx)
			ctx.SetStatusCode(201)
		}, own(201), false},
		{"HEAD", harness.Request("HEAD / HTTP/1.1"), nil, strings.Replace(empty, "Content-Length: 0\r\n", "", 1), false},
		{"a stream", harness.Get("/"), func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("begun"), 5) }, chunked, true},
		{"an unread body", harness.Post("/", "body"), begins, empty, false},
	}
	for _, n := range harness.OverTCPByEach() {
		for _, test := range tests {
			r := harness.Serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				if test.handler != nil {
					test.handler(ctx)
				}
				if err := family.carry(ctx, false); err != nil {
					t.Error(err)
				}
			}})
			p := r.Dial()
			p.Send(test.request)
			want := test.want
			if test.isOpen {
				want += "content"
			}
			got := make([]byte, len(want)+len("\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT"))
			size, _ := io.ReadFull(p.R, got)
			if got := harness.WithoutDates(string(got[:size])); got != want {
				t.Errorf("%s, %s: %q, want %q", n.Name, test.name, got, want)
			}
			if test.isOpen {
				_ = p.Conn.(*net.TCPConn).CloseWrite()
				p.Expect("bye")
			}
			p.ExpectEnd()
			if test.isOpen {
				if err := harness.Receive(t, family.closed); err != nil {
					t.Errorf("%s: closed with %v", test.name, err)
				}
			}
		}
	}
	if n := len(family.closed); n != 0 {
		t.Errorf("%d protocols too many", n)
	}
}

// talkServer has a family take over all connections. It is registered unless it has no name.
func talkServer(t *testing.T, family *talk) *sluice.Server {
	s := &sluice.Server{Handler: func(ctx *sluice.RequestCtx) {
		ctx.SetStatusCode(sluice.StatusSwitchingProtocols)
		if err := family.takeOver(ctx); err != nil {
			t.Error(err)
		}
	}}
	if family.name != "" {
		if err := upgrade.Register(s.Control(), family); err != nil {
			t.Error(err)
		}
	}
	return s
}

// TestHandOverTakenOver: a connection that has left HTTP moves to a server that knows its
// family; others say farewell.
func TestHandOverTakenOver(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			one, two, alien := newTalk("talk"), newTalk("talk"), newTalk("other")
			from, to, other := harness.Serve(t, n, talkServer(t, one)), harness.Serve(t, n, talkServer(t, two)), harness.Serve(t, n, talkServer(t, alien))
			give := func(to *harness.Rig, change func(*sluice.Parcel)) {
				t.Helper()
				harness.Eventually(t, "it is given away", func() bool {
					return from.Server.Control().HandOver(-1, func(c net.Conn, p sluice.Parcel) {
						if kind := p.Kind(); kind == 0 || to.Server.Control().StateKinds()&kind != kind != (to == other) {
							t.Errorf("the kind is %x, of %x", kind, to.Server.Control().StateKinds())
						}
						change(&p)
						if err := to.Server.Control().AdoptConn(c, p); err != nil {
							t.Error(err)
						}
					}) == 1
				})
				if err := harness.Receive(t, one.closed); err != nil {
					t.Errorf("the first server closes with %v", err)
				}
			}
			p := from.Dial()
			p.Upgrade()
			p.Send("x")
			p.Expect("41 x")
			give(to, func(*sluice.Parcel) {})
			p.Send("y")
			p.Expect("42 y")
			p.Send("z")
			p.Expect("43 z")
			if s := harness.Receive(t, two.servers); !s.IsRegistered() || len(two.servers) > 0 || to.Log.String() != "" {
				t.Errorf("registered %v, %d other hosts, log %s", s.IsRegistered(), len(two.servers), to.Log)
			}
			p = from.Dial()
			p.Upgrade()
			give(to, func(p *sluice.Parcel) { p.State[len(p.State)-1] = 99 })
			if got := p.Rest(); got != "farewell" || to.Log.String() != "" {
				t.Errorf("refused: %q, log %s", got, to.Log)
			}
			p = from.Dial()
			p.Upgrade()
			give(other, func(*sluice.Parcel) {})
			if got := p.Rest(); got != "farewell" || !strings.Contains(other.Log.String(), `closed: "talk" is not registered`) {
				t.Errorf("unknown: %q, log %s", got, other.Log)
			}
		})
	}
}

// TestHostsClosing: a Host learns how its connections shall end, and its idle ones are
// prompted then, even without HTTP/2.
func TestHostsClosing(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			family := newTalk("")
			s := talkServer(t, family)
			s.HTTP2.Disable = true
			r := harness.Serve(t, n, s)
			p, busy := r.Dial(), r.Dial()
			p.Upgrade()
			host := harness.Receive(t, family.servers)
			expect := func(want upgrade.Closing) {
				t.Helper()
				if got := host.Closing(); got != want {
					t.Errorf("Closing is %d, want %d", got, want)
				}
			}
			expect(upgrade.CloseNot)
			plain := &sluice.Server{HTTP2: sluice.HTTP2Config{Disable: true}}
			if host.IsRegistered() || s.Control().StateKinds() != plain.Control().StateKinds() {
				t.Error("a family without a name is registered")
			}
			s.Control().CloseOnNextResponse()
			expect(upgrade.CloseSoon)
			p.Expect("prompted 1")
			busy.Send(harness.UpgradeRequest)
			if got := busy.Rest(); strings.Contains(got, "first") {
				t.Errorf("another protocol begins although the server ends: %q", got)
			}
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
			expect(upgrade.CloseNow)
			p.Rest()
			if len(family.servers) > 0 {
				t.Error("a second Host was made")
			}
		})
	}
}

// TestTakeOverUnsent: the protocol is closed with the error if the response cannot be written.
func TestTakeOverUnsent(t *testing.T) {
	family := newTalk("")
	s := talkServer(t, family)
	client, server := net.Pipe()
	handler := s.Handler
	s.Handler = func(ctx *sluice.RequestCtx) {
		client.Close()
		handler(ctx)
	}
	served := make(chan error, 1)
	go func() { served <- s.ServeConn(server) }()
	_, _ = io.WriteString(client, harness.UpgradeRequest)
	if err := harness.Receive(t, served); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ServeConn returns %v", err)
	}
	if err := harness.Receive(t, family.closed); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed with %v", err)
	}
}
