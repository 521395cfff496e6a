package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sluicehttp/sluice"
	"github.com/sluicehttp/sluice/internal/engine"
	"github.com/sluicehttp/sluice/internal/server"
	"github.com/sluicehttp/sluice/test/harness"
)

// A guest is a protocol that is attached to a Server.
type guest struct {
	stats      server.AttachedStats
	handshakes int
	closed     chan struct{} // CloseOnNextResponse was called
	ending     chan struct{} // Shutdown was called
	drain      chan struct{} // closed: Shutdown returns
}

func newGuest() *guest {
	return &guest{closed: make(chan struct{}, 9), ending: make(chan struct{}, 9), drain: make(chan struct{})}
}

func (g *guest) CloseOnNextResponse() { g.closed <- struct{}{} }

func (g *guest) Stats() server.AttachedStats { return g.stats }

func (g *guest) Handshakes() int { return g.handshakes }

func (g *guest) Shutdown(ctx context.Context) error {
	g.ending <- struct{}{}
	select {
	case <-g.drain:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func attach(t *testing.T, s *sluice.Server, g *guest) server.Attachment {
	t.Helper()
	a, err := s.Control().Value(server.AttachKey{}).(server.Attacher).Attach(g)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A violation is a server.Violation.
type violation struct{}

func (violation) Error() string { return "DATA first" }
func (violation) IsViolation()  {}

// datagrams is a connection with nothing but its addresses.
type datagrams struct {
	net.Conn
	remote string
}

func (c datagrams) LocalAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }

func (c datagrams) RemoteAddr() net.Addr {
	return &net.UDPAddr{IP: net.ParseIP(c.remote), Port: 4000}
}

// TestAttachAdmits: the limits, states and counters of connections hold for those of a
// protocol that is attached.
func TestAttachAdmits(t *testing.T) {
	var states []string
	var log harness.LogBook
	s := &sluice.Server{Handler: answering("x"), Concurrency: 2, MaxConnsPerIP: 1, Logger: &log,
		ConnState: func(c net.Conn, state sluice.ConnState) {
			states = append(states, c.(datagrams).remote+" "+state.String())
		}}
	defer s.Shutdown()
	g := newGuest()
	close(g.drain)
	a := attach(t, s, g)
	one, two, three := datagrams{remote: "10.0.0.1"}, datagrams{remote: "10.0.0.2"}, datagrams{remote: "2001:db8::1"}
	facts, err := a.Admit(one)
	if err != nil || facts.ID == 0 || facts.Opened == 0 || facts.Version != 3 || !facts.IsTLS {
		t.Errorf("%+v, %v", facts, err)
	}
	if _, err := a.Admit(one); err != sluice.ErrPerIPConnLimit {
		t.Errorf("a second connection of an address: %v", err)
	}
	if other, err := a.Admit(three); err != nil || other.ID == facts.ID {
		t.Errorf("%+v, %v", other, err)
	}
	if _, err := a.Admit(two); err != sluice.ErrConcurrencyLimit {
		t.Errorf("a third connection: %v", err)
	}
	if open, now := s.GetOpenConnectionsCount(), s.GetCurrentConcurrency(); open != 2 || now != 2 {
		t.Errorf("%d are open, %d count", open, now)
	}
	a.SetActive(one, true)
	a.SetActive(one, false)
	log.Reset()
	a.Release(one, violation{})
	a.Release(three, errors.New("a fault"))
	want := []string{"10.0.0.1 new", "2001:db8::1 new", "10.0.0.1 active", "10.0.0.1 idle", "10.0.0.1 closed", "2001:db8::1 closed"}
	if !reflect.DeepEqual(states, want) {
		t.Errorf("states %q", states)
	}
	if got := log.String(); got != `error when serving connection "127.0.0.1:443"<->"[2001:db8::1]:4000": a fault`+"\n" {
		t.Errorf("log %q", got)
	}
	if _, err := a.Admit(two); err != nil {
		t.Error(err)
	}
	a.Release(two, nil)
	if open, now := s.GetOpenConnectionsCount(), s.GetCurrentConcurrency(); open != 0 || now != 0 {
		t.Errorf("%d are open, %d count", open, now)
	}
}

// TestAttachStats: the gauges of all protocols are added up, and what they have counted stays.
func TestAttachStats(t *testing.T) {
	s := &sluice.Server{Handler: answering("x")}
	s.Control().Meter = &sluice.Meter{}
	defer s.Shutdown()
	var last server.Attachment
	for range 2 {
		g := newGuest()
		close(g.drain)
		g.handshakes = 7
		g.stats = server.AttachedStats{Connections: 5, Idle: 4, Streams: 3, Resets: 1, Calmed: 2, Retries: 3, Refused: 4, Lost: 5}
		last = attach(t, s, g)
	}
	if got := s.EngineStats().HTTP3; got != (sluice.HTTP3Stats{Connections: 10, Idle: 8, Streams: 6, Resets: 2, Calmed: 4, Retries: 6, Refused: 8, Lost: 10}) {
		t.Errorf("%+v", got)
	}
	if got := s.Control().Handshakes(); got != 14 {
		t.Errorf("%d handshakes", got)
	}
	last.Detach()
	last.Detach()
	if got := s.Control().Handshakes(); got != 7 {
		t.Errorf("%d handshakes, after a protocol was detached", got)
	}
	if got := s.Control().Meter.HTTP3(); got != (sluice.HTTP3Stats{Connections: 5, Idle: 4, Streams: 3, Resets: 2, Calmed: 4, Retries: 6, Refused: 8, Lost: 10}) {
		t.Errorf("after Detach %+v", got)
	}
}

// A job is a Task.
type job struct {
	run  func()
	lost chan error
}

func (j job) Run()           { j.run() }
func (j job) Lost(err error) { j.lost <- err }

// TestAttachShutdown: Tasks that come while the protocol drains are run, and Shutdown waits
// for them and for the protocol, also where the Server serves nothing else.
func TestAttachShutdown(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		for _, serves := range []bool{true, false} {
			t.Run(fmt.Sprint(n.Name, "/", serves), func(t *testing.T) {
				s := &sluice.Server{Handler: answering("x"), Engine: n.Engine, MaxWorkers: 1}
				if serves {
					harness.Serve(t, n, s).Dial().Get("/")
				}
				g := newGuest()
				a := attach(t, s, g)
				lost := make(chan error, 1)
				work := func() {
					done := make(chan struct{})
					a.Workers(7).Go(job{func() { close(done) }, lost})
					harness.Receive(t, done)
				}
				work()
				s.Control().CloseOnNextResponse()
				harness.Receive(t, g.closed)
				if stage := a.Stage(); stage != server.StageEnding || !a.IsClosing(&server.Facts{}) {
					t.Errorf("stage %d", stage)
				}
				first, second := harness.Shutdown(s), harness.Shutdown(s)
				harness.Receive(t, g.ending)
				if stage := a.Stage(); stage != server.StageShutDown {
					t.Errorf("stage %d", stage)
				}
				for range 3 {
					work()
				}
				select {
				case err := <-first:
					t.Errorf("Shutdown did not wait: %v", err)
				default:
				}
				if _, err := s.Control().Value(server.AttachKey{}).(server.Attacher).Attach(newGuest()); err != sluice.ErrServerClosed {
					t.Errorf("Attach after Shutdown: %v", err)
				}
				close(g.drain)
				for _, stopped := range []<-chan error{first, second} {
					if err := harness.Receive(t, stopped); err != nil {
						t.Error(err)
					}
				}
				a.Workers(7).Go(job{func() { t.Error("a Task ran after Shutdown") }, lost})
				if err := harness.Receive(t, lost); err != engine.ErrShutdown {
					t.Errorf("lost with %v", err)
				}
				a.Detach()
				if len(g.ending) > 0 {
					t.Error("Shutdown of the protocol was called twice")
				}
			})
		}
	}
}

// TestAttachShutdownGivesUp: when the context ends, the protocol cuts its connections. The
// Server may serve again, with other protocols.
func TestAttachShutdownGivesUp(t *testing.T) {
	s := &sluice.Server{Handler: answering("x")}
	g := newGuest()
	attach(t, s, g)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped, other := make(chan error, 1), harness.Shutdown(s)
	harness.Receive(t, g.ending)
	go func() { stopped <- s.ShutdownWithContext(ctx) }()
	cancel(errors.New("no reason"))
	if err := harness.Receive(t, stopped); err != context.Canceled {
		t.Errorf("Shutdown: %v", err)
	}
	harness.Receive(t, other)
	rig := harness.Serve(t, harness.OverTCP(), s)
	rig.Dial().Get("/")
	next := newGuest()
	attach(t, s, next)
	close(next.drain)
	if err := harness.Receive(t, harness.Shutdown(s)); err != nil {
		t.Error(err)
	}
	harness.Receive(t, next.ending)
}

// TestServeProtocol: a stream that has left HTTP is served as a connection is. It counts
// against no limit.
func TestServeProtocol(t *testing.T) {
	for _, n := range harness.OverTCPByEach() {
		t.Run(n.Name, func(t *testing.T) {
			s := &sluice.Server{Handler: answering("x"), Engine: n.Engine, Concurrency: 1, MaxConnsPerIP: 1}
			g := newGuest()
			close(g.drain)
			a := attach(t, s, g)
			var all sync.WaitGroup
			family := newTalk("")
			host := family.NewHost(nil)
			for range 3 {
				ours, theirs := net.Pipe()
				defer ours.Close()
				all.Go(func() {
					err := a.ServeProtocol(theirs, func(c engine.Conn, out []byte) (engine.Protocol, []byte) {
						return lasting{&talker{host.(talkHost), c, 40}}, append(out, "first"...)
					})
					if err != nil {
						t.Error(err)
					}
				})
				expectBytes(t, ours, "first")
				_, _ = ours.Write([]byte("x"))
				expectBytes(t, ours, "41 x")
				if n := s.GetCurrentConcurrency(); n != 0 {
					t.Errorf("%d are counted", n)
				}
				_ = ours.Close()
			}
			all.Wait()
			ours, theirs := net.Pipe()
			if err := a.ServeProtocol(theirs, func(_ engine.Conn, out []byte) (engine.Protocol, []byte) { return nil, out }); err != nil {
				t.Error(err)
			}
			expectBytes(t, ours, "")
			if err := s.Shutdown(); err != nil {
				t.Error(err)
			}
			if err := a.ServeProtocol(theirs, nil); err != sluice.ErrServerClosed {
				t.Errorf("after Shutdown: %v", err)
			}
		})
	}
}

// lasting is a talker that never sleeps.
type lasting struct{ *talker }

func (lasting) Capabilities() engine.Capabilities { return 0 }

func (lasting) HalfClosed(out []byte) []byte { return out }

func expectBytes(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, max(len(want), 1))
	n, err := c.Read(got)
	if string(got[:n]) != want || (err != nil) != (want == "") {
		t.Errorf("got %q, %v, want %q", got[:n], err, want)
	}
}

// TestAnnounce: responses over TLS carry Alt-Svc, those without TLS do not, and a handler's
// own field wins.
func TestAnnounce(t *testing.T) {
	handler := func(ctx *sluice.RequestCtx) {
		if ctx.Request.URI().QueryArgs().Has("own") {
			ctx.Response.Header.Set("alt-svc", "clear")
		}
		if got := ctx.Response.Header.Peek("Alt-Svc"); ctx.ProtoMajor() == 1 && string(got) != string(ctx.QueryArgs().Peek("own")) {
			t.Errorf("the handler sees %q", got)
		}
		ctx.WriteString("x")
	}
	const value = `h3=":443"; ma=86400`
	for _, under := range harness.OverTCPByEach() {
		secure := harness.OverTLS(t, under, "h2")
		secure.Name += "/h2"
		for _, n := range []harness.Network{under, harness.OverTLS(t, under, "http/1.1"), secure} {
			t.Run(n.Name, func(t *testing.T) {
				r := harness.Serve(t, n, &sluice.Server{Handler: handler})
				g := newGuest()
				close(g.drain)
				a := attach(t, r.Server, g)
				isTLS := strings.HasPrefix(n.Name, "tls/")
				ask := func(path string) (proto, altSvc string) {
					if strings.HasSuffix(n.Name, "/h2") {
						resp, err := r.HTTP2Client().Get(n.Scheme() + "://localhost" + path)
						if err != nil {
							t.Fatal(err)
						}
						_ = resp.Body.Close()
						return resp.Proto, strings.Join(resp.Header.Values("Alt-Svc"), "|")
					}
					return "HTTP/1.1", strings.Join(r.Dial().Get(path).Header.Values("Alt-Svc"), "|")
				}
				get := func(want string) {
					t.Helper()
					for path, want := range map[string]string{"/": want, "/?own=clear": "clear"} {
						if proto, got := ask(path); got != want {
							t.Errorf("%s %s: Alt-Svc %q, want %q", proto, path, got, want)
						}
					}
				}
				get("")
				a.Announce([]byte(value))
				if isTLS {
					get(value)
				} else {
					get("")
				}
				a.Announce(nil)
				get("")
				a.Announce([]byte("x\r\ny=1"))
				a.Detach()
				get("")
			})
		}
	}
}
