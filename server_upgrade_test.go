package sluice_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/upgrade"
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
	return &talker{h, c, h.server.Served(m)}
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
func (p *talker) Pause() bool                    { return true }
func (p *talker) HalfClosed(out []byte) []byte   { return append(out, "bye"...) }
func (p *talker) Detached(net.Conn)              {}
func (p *talker) Closed(err error)               { p.host.closed <- err }
func (p *talker) Sleep() (engine.Memo, bool)     { return p.host.server.Memo(1, p.number, 2), true }

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
		if _, ok := c.(upgrade.Carrier); ok {
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
		{"a body for a tunnel", "404 sluice: not supported with HTTP/2 .", true, false, func(ctx *sluice.RequestCtx) {
			ctx.Error(fmt.Sprint(family.carry(ctx, false)), 404)
		}},
		{"a tunnel for a request", "200 sluice: not supported with HTTP/2 .", false, false, func(ctx *sluice.RequestCtx) {
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
	onEachHTTP2Network(t, func(t *testing.T, n network) {
		handlers := map[string]sluice.RequestHandler{}
		r := serveHTTP2(t, n, &sluice.Server{Handler: func(ctx *sluice.RequestCtx) { handlers[string(ctx.Request.Header.Peek("name"))](ctx) }})
		f := r.frames()
		for i, test := range tests {
			handlers[test.name] = test.handler
			stream := uint32(2*i + 1)
			if test.isTunnel {
				f.connect(stream, "websocket", "name", test.name)
			} else {
				f.head(stream, "GET", "/", true, "name", test.name)
			}
			if test.isTunnel && test.isOpen {
				f.expectTalk(stream, strings.TrimPrefix(test.want, "200 "))
			} else if got := f.describe(); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(test.want, " ", "") {
				t.Errorf("%s: got %q, want %q", test.name, got, test.want)
			} else if test.isTunnel {
				f.next() // RST_STREAM, as the client has not ended its direction
			}
			if test.isOpen {
				if err := receive(t, family.closed); err != nil {
					t.Errorf("%s: closed with %v", test.name, err)
				}
			}
		}
		f.head(99, "HEAD", "/", true, "name", "a body")
		if got := f.describe(); got != "200 ." {
			t.Errorf("HEAD: %q", got)
		}
		eventually(t, "no stream is open", func() bool { return r.server.EngineStats().HTTP2.Streams == 0 })
		if n := len(family.closed); n != 0 {
			t.Errorf("%d protocols too many", n)
		}
	})
}

// expectTalk talks to a talk, which has the stream.
func (f *framer) expectTalk(stream uint32, first string) {
	f.t.Helper()
	if head, ok := f.next().(*http2.MetaHeadersFrame); !ok || head.PseudoValue("status") != "200" || head.StreamEnded() {
		f.t.Fatal("the tunnel is not open")
	}
	f.expect(first)
	for n := range 3 {
		f.data(stream, "x", false)
		f.expect(fmt.Sprint(41+n, " x"))
	}
	f.data(stream, "", true)
	if got := f.describe(); got != "bye ." {
		f.t.Errorf("the tunnel ends with %q", got)
	}
}

// TestTakeOverBodies: a protocol writes the body of a response of HTTP/1.1, if the response
// has one. The connection ends with it.
//
// long: a table
func TestTakeOverBodies(t *testing.T) {
	family := newTalk("")
	begins := func(ctx *sluice.RequestCtx) { ctx.WriteString("begun") }
	const chunked = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Type: text/plain; charset=utf-8\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
	own := func(status int) string { return textAnswer(status, "begun", "Connection: close") }
	const empty = "HTTP/1.1 200 OK\r\nServer: sluice\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	tests := []struct {
		name, request string
		handler       sluice.RequestHandler // before TakeOver
		want          string                // up to what the protocol sends
		isOpen        bool
	}{
		{"in chunks", get("/"), nil, chunked, true},
		{"of HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", nil, strings.Replace(chunked, "Transfer-Encoding: chunked\r\n", "", 1), true},
		{"with a body of the handler", get("/"), begins, chunked, true},
		{"with a length", get("/"), func(ctx *sluice.RequestCtx) { ctx.Response.Header.SetContentLength(5) }, chunked, true},
		{"another status", closing("/"), func(ctx *sluice.RequestCtx) {
			begins(ctx)
			ctx.SetStatusCode(201)
		}, own(201), false},
		{"HEAD", request("HEAD / HTTP/1.1"), nil, strings.Replace(empty, "Content-Length: 0\r\n", "", 1), false},
		{"a stream", get("/"), func(ctx *sluice.RequestCtx) { ctx.SetBodyStream(strings.NewReader("begun"), 5) }, chunked, true},
		{"an unread body", post("/", "body"), begins, empty, false},
	}
	for _, n := range overTCPByEach() {
		for _, test := range tests {
			r := serve(t, n, &sluice.Server{StreamRequestBody: true, Handler: func(ctx *sluice.RequestCtx) {
				if test.handler != nil {
					test.handler(ctx)
				}
				if err := family.carry(ctx, false); err != nil {
					t.Error(err)
				}
			}})
			p := r.dial()
			p.send(test.request)
			want := test.want
			if test.isOpen {
				want += "content"
			}
			got := make([]byte, len(want)+len("\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT"))
			size, _ := io.ReadFull(p.r, got)
			if got := withoutDates(string(got[:size])); got != want {
				t.Errorf("%s, %s: %q, want %q", n.name, test.name, got, want)
			}
			if test.isOpen {
				_ = p.Conn.(*net.TCPConn).CloseWrite()
				p.expect("bye")
			}
			p.expectEnd()
			if test.isOpen {
				if err := receive(t, family.closed); err != nil {
					t.Errorf("%s: closed with %v", test.name, err)
				}
			}
		}
	}
	if n := len(family.closed); n != 0 {
		t.Errorf("%d protocols too many", n)
	}
}

const upgradeRequest = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// upgrade sends a request that a talk takes over, and reads what that sends first.
func (p *peer) upgrade() {
	p.t.Helper()
	p.send(upgradeRequest)
	if status := p.answer("GET").StatusCode; status != sluice.StatusSwitchingProtocols {
		p.t.Errorf("status %d", status)
	}
	p.expect("first")
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
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
			one, two, alien := newTalk("talk"), newTalk("talk"), newTalk("other")
			from, to, other := serve(t, n, talkServer(t, one)), serve(t, n, talkServer(t, two)), serve(t, n, talkServer(t, alien))
			give := func(to *rig, change func(*sluice.Parcel)) {
				t.Helper()
				eventually(t, "it is given away", func() bool {
					return from.server.Control().HandOver(-1, func(c net.Conn, p sluice.Parcel) {
						if kind := p.Kind(); kind == 0 || to.server.Control().StateKinds()&kind != kind != (to == other) {
							t.Errorf("the kind is %x, of %x", kind, to.server.Control().StateKinds())
						}
						change(&p)
						if err := to.server.Control().AdoptConn(c, p); err != nil {
							t.Error(err)
						}
					}) == 1
				})
				if err := receive(t, one.closed); err != nil {
					t.Errorf("the first server closes with %v", err)
				}
			}
			p := from.dial()
			p.upgrade()
			p.send("x")
			p.expect("41 x")
			give(to, func(*sluice.Parcel) {})
			p.send("y")
			p.expect("42 y")
			p.send("z")
			p.expect("43 z")
			if s := receive(t, two.servers); !s.IsRegistered() || len(two.servers) > 0 || to.log.String() != "" {
				t.Errorf("registered %v, %d other hosts, log %s", s.IsRegistered(), len(two.servers), to.log)
			}
			p = from.dial()
			p.upgrade()
			give(to, func(p *sluice.Parcel) { p.State[len(p.State)-1] = 99 })
			if got := p.rest(); got != "farewell" || to.log.String() != "" {
				t.Errorf("refused: %q, log %s", got, to.log)
			}
			p = from.dial()
			p.upgrade()
			give(other, func(*sluice.Parcel) {})
			if got := p.rest(); got != "farewell" || !strings.Contains(other.log.String(), `closed: "talk" is not registered`) {
				t.Errorf("unknown: %q, log %s", got, other.log)
			}
		})
	}
}

// TestHostsClosing: a Host learns how its connections shall end, and its idle ones are
// prompted then, even without HTTP/2.
func TestHostsClosing(t *testing.T) {
	for _, n := range overTCPByEach() {
		t.Run(n.name, func(t *testing.T) {
			family := newTalk("")
			s := talkServer(t, family)
			s.HTTP2.Disable = true
			r := serve(t, n, s)
			p, busy := r.dial(), r.dial()
			p.upgrade()
			host := receive(t, family.servers)
			expect := func(want upgrade.Closing) {
				t.Helper()
				if got := host.Closing(); got != want {
					t.Errorf("Closing is %d, want %d", got, want)
				}
			}
			expect(upgrade.CloseNot)
			if host.IsRegistered() || s.Control().StateKinds() != 0 {
				t.Error("a family without a name is registered")
			}
			s.Control().CloseOnNextResponse()
			expect(upgrade.CloseSoon)
			p.expect("prompted 1")
			busy.send(upgradeRequest)
			if got := busy.rest(); strings.Contains(got, "first") {
				t.Errorf("another protocol begins although the server ends: %q", got)
			}
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
			expect(upgrade.CloseNow)
			p.rest()
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
	_, _ = io.WriteString(client, upgradeRequest)
	if err := receive(t, served); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("ServeConn returns %v", err)
	}
	if err := receive(t, family.closed); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("closed with %v", err)
	}
}
